"""One example call per row of the torch eager table: what to pass besides the spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Call = Callable[[Any, Any], tuple[Any, ...]]
"""From two 2x4x8x8 tensors to positional arguments; a last dict holds keywords."""

ROWS = torch.tensor([0, 1])
ZEROS = torch.zeros(2, 4, 8, 8, dtype=torch.long)
MASK = torch.tensor([True, False]).repeat(256).reshape(2, 4, 8, 8)
CLASSES = torch.tensor([0, 1])
GRID = torch.zeros(2, 8, 8, 2)


def cube(a: Tensor) -> Tensor:
    """A batch of volumes, 2x4x2x2x2."""
    return a[:, :, :2, :4].reshape(2, 4, 2, 2, 2)


CALLS: dict[str, Call] = {
    # Layout
    "view": lambda a, b: (a, (2, -1)),
    "reshape": lambda a, b: (a, (2, -1)),
    "flatten": lambda a, b: (a, 1),
    "unflatten": lambda a, b: (a, 1, (2, 2)),
    "permute": lambda a, b: (a, (0, 2, 3, 1)),
    "transpose": lambda a, b: (a, 1, 2),
    "t": lambda a, b: (a[0, 0],),
    "movedim": lambda a, b: (a, 1, 3),
    "unsqueeze": lambda a, b: (a, 1),
    "expand": lambda a, b: (a[:1], (2, 4, 8, 8)),
    "broadcast_to": lambda a, b: (a[:1], (2, 4, 8, 8)),
    "repeat": lambda a, b: (a, (1, 1, 1, 2)),
    "tile": lambda a, b: (a, (1, 2)),
    "repeat_interleave": lambda a, b: (a, 2, 1),
    "flip": lambda a, b: (a, (1,)),
    "channel_shuffle": lambda a, b: (a, 2),
    "pixel_shuffle": lambda a, b: (a, 2),
    "pixel_unshuffle": lambda a, b: (a, 2),
    "to": lambda a, b: (a, "cpu"),
    "view_as": lambda a, b: (a, b),
    # Parts
    "getitem": lambda a, b: (a, (slice(None), 1)),
    "select": lambda a, b: (a, 1, 0),
    "narrow": lambda a, b: (a, 1, 0, 2),
    "index_select": lambda a, b: (a, 1, ROWS),
    "diag": lambda a, b: (a[0, 0],),
    "as_strided": lambda a, b: (a, (2, 2), (8, 1)),
    "unfold_method": lambda a, b: (a, 3, 2, 2),
    "chunk": lambda a, b: (a, 2, 1),
    "split": lambda a, b: (a, 2, 1),
    "split_method": lambda a, b: (a, 2, 1),
    "split_with_sizes": lambda a, b: (a, (1, 3), 1),
    "tensor_split": lambda a, b: (a, 2, 1),
    "hsplit": lambda a, b: (a, 2),
    "vsplit": lambda a, b: (a, 2),
    "dsplit": lambda a, b: (a, 2),
    # Reductions that run
    "mean": lambda a, b: (a, (2, 3)),
    "std": lambda a, b: (a, (2, 3)),
    "max": lambda a, b: (a,),
    "min": lambda a, b: (a,),
    "topk": lambda a, b: (a, 2),
    # Pooling
    "max_pool1d": lambda a, b: (a[0], 2),
    "max_pool2d": lambda a, b: (a, 2),
    "max_pool3d": lambda a, b: (cube(a), 2),
    "avg_pool1d": lambda a, b: (a[0], 2),
    "avg_pool2d": lambda a, b: (a, 2),
    "avg_pool3d": lambda a, b: (cube(a), 2),
    "adaptive_avg_pool1d": lambda a, b: (a[0], 2),
    "adaptive_avg_pool2d": lambda a, b: (a, 2),
    "adaptive_avg_pool3d": lambda a, b: (cube(a), 1),
    "interpolate": lambda a, b: (a, None, 2.0),
    "upsample": lambda a, b: (a, None, 2.0),
    "upsample_bilinear": lambda a, b: (a, None, 2),
    "upsample_nearest": lambda a, b: (a, None, 2),
    "grid_sample": lambda a, b: (a, GRID),
    "pad": lambda a, b: (a, (1, 1, 1, 1)),
    "constant_pad_nd": lambda a, b: (a, (1, 1, 1, 1)),
    # Activations that run
    "threshold": lambda a, b: (a, 0.1, 0.0),
    "clamp": lambda a, b: (a, -1.0, 1.0),
    "dropout": lambda a, b: (a, 0.5, False),
    "dropout_train": lambda a, b: (a, 0.5, False),
    "alpha_dropout": lambda a, b: (a, 0.5, False),
    # Filling, joining, comparing
    "masked_fill": lambda a, b: (a, MASK, 0.0),
    "fill": lambda a, b: (a, 1.0),
    "full_like": lambda a, b: (a, 1.0),
    "embedding": lambda a, b: (ROWS, a[0, 0]),
    "cat": lambda a, b: ([a, b], 1),
    "stack": lambda a, b: ([a, b], 1),
    "hstack": lambda a, b: ([a, b],),
    "vstack": lambda a, b: ([a, b],),
    "dstack": lambda a, b: ([a, b],),
    "column_stack": lambda a, b: ([a, b],),
    "broadcast_tensors": lambda a, b: (a, b),
    "meshgrid": lambda a, b: (a[0, 0, 0], b[0, 0, 0]),
    "item": lambda a, b: (a[0, 0, 0, 0],),
    "python_number": lambda a, b: (a[0, 0, 0, 0],),
    # Stubs
    "quantize_per_tensor": lambda a, b: (a, 0.1, 10, torch.quint8),
    "quantize_per_tensor_dynamic": lambda a, b: (a, torch.quint8, False),
    "quantize_per_channel": lambda a, b: (a, torch.ones(4), torch.zeros(4), 1, torch.quint8),
    # Arithmetic
    "bmm": lambda a, b: (a[0], b[0]),
    "mm": lambda a, b: (a[0, 0], b[0, 0]),
    "dot": lambda a, b: (a[0, 0, 0], b[0, 0, 0]),
    "vdot": lambda a, b: (a[0, 0, 0], b[0, 0, 0]),
    "outer": lambda a, b: (a[0, 0, 0], b[0, 0, 0]),
    "float_power": lambda a, b: (a, 2),
    "einsum": lambda a, b: ("bchw,bchw->bc", a, b),
    "addmm": lambda a, b: (a[0, 0], b[0, 0], b[0, 0]),
    "baddbmm": lambda a, b: (a[0], b[0], b[0]),
    "addcmul": lambda a, b: (a, b, b),
    "addcdiv": lambda a, b: (a, b, b),
    "lerp": lambda a, b: (a, b, 0.5),
    "where": lambda a, b: (MASK, a, b),
    "where_method": lambda a, b: (a, MASK, b),
    "sum_of_list": lambda a, b: ([a, b],),
    "clamp_in_place": lambda a, b: (a, -1, 1),
    "clamp_max": lambda a, b: (a, 1),
    "clamp_min": lambda a, b: (a, 1),
    # Activations that do not run
    "softmax": lambda a, b: (a, 1),
    "softmin": lambda a, b: (a, 1),
    "log_softmax": lambda a, b: (a, 1),
    "threshold_": lambda a, b: (a, 0.1, 0.0),
    "prelu": lambda a, b: (a, torch.tensor([0.25])),
    # Reductions that do not run
    "amax": lambda a, b: (a, 1),
    "amin": lambda a, b: (a, 1),
    "logsumexp": lambda a, b: (a, 1),
    "quantile": lambda a, b: (a, 0.5),
    "nanquantile": lambda a, b: (a, 0.5),
    "kthvalue": lambda a, b: (a, 1),
    "cummax": lambda a, b: (a, 1),
    "cummin": lambda a, b: (a, 1),
    "cumsum": lambda a, b: (a, 1),
    "cumprod": lambda a, b: (a, 1),
    "logcumsumexp": lambda a, b: (a, 1),
    "trace": lambda a, b: (a[0, 0],),
    "cov": lambda a, b: (a[0, 0],),
    "corrcoef": lambda a, b: (a[0, 0],),
    "multinomial": lambda a, b: (a[0, 0], 1),
    # Moving data
    "gather": lambda a, b: (a, 0, ZEROS),
    "take": lambda a, b: (a, ROWS),
    "take_along_dim": lambda a, b: (a, ZEROS, 0),
    "masked_select": lambda a, b: (a, MASK),
    "roll": lambda a, b: (a, 1, 1),
    "scatter": lambda a, b: (a, 0, ZEROS, b),
    "scatter_add": lambda a, b: (a, 0, ZEROS, b),
    "index_add": lambda a, b: (a, 0, ROWS, b),
    "index_copy": lambda a, b: (a, 0, ROWS, b),
    "block_diag": lambda a, b: (a[0, 0], b[0, 0]),
    "index_fill": lambda a, b: (a, 0, ROWS, 0.0),
    "masked_scatter": lambda a, b: (a, MASK, b),
    "unfold": lambda a, b: (a, 3),
    "fold": lambda a, b: (a[0], (1, 8), 1),
    "view_as_complex": lambda a, b: (a[..., :2],),
    # Layers
    "adaptive_max_pool1d": lambda a, b: (a[0], 2),
    "adaptive_max_pool2d": lambda a, b: (a, 2),
    "adaptive_max_pool3d": lambda a, b: (cube(a), 1),
    "lp_pool1d": lambda a, b: (a[0], 2, 2),
    "lp_pool2d": lambda a, b: (a, 2, 2),
    "lp_pool3d": lambda a, b: (cube(a), 2, 2),
    "fractional_max_pool2d": lambda a, b: (a, 2, 2),
    "fractional_max_pool3d": lambda a, b: (cube(a), 1, 1),
    "max_unpool1d": lambda a, b: (a[0], ZEROS[0, 0].expand(4, 8, 8), 2),
    "max_unpool2d": lambda a, b: (a, ZEROS, 2),
    "max_unpool3d": lambda a, b: (cube(a), cube(ZEROS), 2),
    "conv1d": lambda a, b: (a[0], torch.randn(3, 8, 3)),
    "conv2d": lambda a, b: (a, torch.randn(3, 4, 3, 3)),
    "conv3d": lambda a, b: (cube(a), torch.randn(3, 4, 1, 1, 1)),
    "conv_transpose1d": lambda a, b: (a[0], torch.randn(8, 3, 3)),
    "conv_transpose2d": lambda a, b: (a, torch.randn(4, 3, 3, 3)),
    "conv_transpose3d": lambda a, b: (cube(a), torch.randn(4, 3, 1, 1, 1)),
    "linear": lambda a, b: (a, torch.randn(3, 8)),
    "bilinear": lambda a, b: (a, b, torch.randn(3, 8, 8)),
    "batch_norm": lambda a, b: (a, torch.zeros(4), torch.ones(4)),
    "layer_norm": lambda a, b: (a, (8,)),
    "group_norm": lambda a, b: (a, 2),
    "rms_norm": lambda a, b: (a, (8,)),
    "local_response_norm": lambda a, b: (a, 2),
    "attention": lambda a, b: (a, b, b),
    "embedding_bag": lambda a, b: (ROWS.unsqueeze(0), a[0, 0]),
    "fake_quantize": lambda a, b: (a, 0.1, 0, 0, 255),
    # Creation and casts
    "new_zeros": lambda a, b: (a, (2,)),
    "new_ones": lambda a, b: (a, (2,)),
    "randint_like": lambda a, b: (a, 0, 5),
    "bincount": lambda a, b: (a[0, 0, 0],),
    # Losses
    "cross_entropy": lambda a, b: (a[:, :, 0, 0], CLASSES),
    "nll_loss": lambda a, b: (a[:, :, 0, 0], CLASSES),
}
"""By the row's operator; without an entry the call passes the row's tensors alone."""

SPELLED: dict[str, Call] = {
    "torch.nn.functional.dropout1d": lambda a, b: (a[0], 0.5, False),
    "torch.nn.functional.dropout3d": lambda a, b: (cube(a), 0.5, False),
}
"""By the spelling, where it needs other arguments than its row."""

CASES: dict[tuple[str, int], Call] = {
    ("to", 0): lambda a, b: (a, torch.float32),
    ("to", 1): lambda a, b: (a, torch.int64),
    ("max", 0): lambda a, b: (a, b),
    ("max", 1): lambda a, b: (a, {"other": b}),
    ("max", 2): lambda a, b: (a, 1),
    ("min", 0): lambda a, b: (a, b),
    ("min", 1): lambda a, b: (a, {"other": b}),
    ("min", 2): lambda a, b: (a, 1),
    ("max_pool1d", 0): lambda a, b: (a[0], 2, {"return_indices": True}),
    ("max_pool2d", 0): lambda a, b: (a, 2, {"return_indices": True}),
    ("max_pool3d", 0): lambda a, b: (cube(a), 2, {"return_indices": True}),
    ("interpolate", 0): lambda a, b: (a, {"scale_factor": 0.5, "mode": "bilinear", "antialias": True}),
    ("interpolate", 1): lambda a, b: (a, None, 2.0, "bicubic"),
    ("interpolate", 2): lambda a, b: (cube(a), None, 2.0, "trilinear"),
    ("interpolate", 3): lambda a, b: (a[0], None, 2.0, "linear"),
    ("upsample", 0): lambda a, b: (a, None, 2.0, "bicubic"),
    ("upsample", 1): lambda a, b: (cube(a), None, 2.0, "trilinear"),
    ("upsample", 2): lambda a, b: (a[0], None, 2.0, "linear"),
    ("pad", 0): lambda a, b: (a, (1, 1, 1, 1), "replicate"),
    ("pad", 1): lambda a, b: (a, (1, 1, 1, 1), "circular"),
    ("threshold", 0): lambda a, b: (a, 0.1, 0.0, True),
    ("clamp", 0): lambda a, b: (a, b),
    ("clamp", 1): lambda a, b: (a, {"max": b}),
    ("dropout", 0): lambda a, b: (a[0],),
    ("alpha_dropout", 0): lambda a, b: (a, {"training": True}),
    ("hardswish", 0): lambda a, b: (a, True),
    ("bernoulli", 0): lambda a, b: (a, 0.5),
    ("prod", 0): lambda a, b: (a, 1),
    ("median", 0): lambda a, b: (a, 1),
    ("nanmedian", 0): lambda a, b: (a, 1),
}
"""By the row's operator and the position of the case. Cases of Python numbers need no entry."""
