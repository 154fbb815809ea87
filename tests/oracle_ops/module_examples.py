"""One example per module class of the torch eager table: constructor arguments and inputs."""

from __future__ import annotations

import re
from typing import Any

import torch
import torch.ao.quantization as tq
from torch import nn

INDICES = torch.tensor([[0, 1, 2], [3, 4, 5]])
CLASSES = torch.tensor([0, 1])
SIGNS = torch.ones(2)
FLAGS = torch.ones(2, 4)

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Linear": (8, 8),
    "LazyLinear": (8,),
    "LayerNorm": (8,),
    "RMSNorm": (8,),
    "GroupNorm": (2, 4),
    "LocalResponseNorm": (2,),
    "CrossMapLRN2d": (2,),
    "SyncBatchNorm": (4,),
    "Threshold": (0.1, 0.0),
    "Upsample": (None, 2),
    "UpsamplingNearest2d": (None, 2),
    "UpsamplingBilinear2d": (None, 2),
    "PixelShuffle": (2,),
    "PixelUnshuffle": (2,),
    "ChannelShuffle": (2,),
    "Unflatten": (1, (2, 2)),
    "Unfold": (3,),
    "Fold": ((1, 8), 1),
    "Bilinear": (8, 8, 3),
    "Softmax": (1,),
    "Softmin": (1,),
    "LogSoftmax": (1,),
    "LSTM": (8, 8),
    "GRU": (8, 8),
    "RNN": (8, 8),
    "LSTMCell": (8, 8),
    "GRUCell": (8, 8),
    "RNNCell": (8, 8),
    "MultiheadAttention": (8, 2),
    "TransformerEncoderLayer": (8, 2),
    "TransformerDecoderLayer": (8, 2),
    "Transformer": (8, 2, 1, 1),
    "Embedding": (10, 8),
    "EmbeddingBag": (10, 8),
}
"""By class name; patterns below cover the families."""

FAMILIES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (r"LPPool|FractionalMaxPool", (2, 2)),
    (r"ConstantPad", (1, 0.5)),
    (r"Pad\dd", (1,)),
    (r"Adaptive\w+Pool", (2,)),
    (r"Max(Unp|P)ool|AvgPool", (2,)),
    (r"LazyConv", (4, 1)),
    (r"Conv", (4, 4, 1)),
    (r"Lazy\w+Norm", ()),
    (r"(Batch|Instance)Norm", (4,)),
)

FEATURES = torch.randn(2, 4, 8, 8) * 2


def shape(name: str) -> tuple[int, ...]:
    """The input shape of a class."""
    if name in ("LSTM", "GRU", "RNN", "MultiheadAttention", "Fold") or name.startswith("Transformer"):
        return (5, 2, 8)
    if name.endswith("Cell") or name in ("LinearReLU", "LinearBn1d"):
        return (4, 8)
    if "1d" in name:
        return (2, 4, 8)
    return (2, 4, 4, 4, 4) if "3d" in name else (2, 4, 8, 8)


def inputs(name: str) -> tuple[torch.Tensor, ...]:
    """The float tensors (or indices) that the class is called with."""
    if name.startswith("Embedding"):
        return (INDICES,)
    torch.manual_seed(len(name))
    first = torch.randn(shape(name)) * 2
    if name == "MultiheadAttention":
        return (first, first, first)
    if name in ("Bilinear", "TransformerDecoderLayer", "TransformerDecoder", "Transformer"):
        return (first, first.flip(0))
    if name.startswith("MaxUnpool"):
        return (first, torch.zeros(first.shape, dtype=torch.long))
    return (first,)


LOSS_INPUTS = torch.randn(2, 4), torch.randn(2, 4)


def loss_inputs(name: str) -> tuple[torch.Tensor, ...]:
    """The tensors of a loss or distance, float; the first two are quantized by the test where the row takes
    two tensors."""
    a, b = LOSS_INPUTS
    if name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        return (a, CLASSES)
    if name == "MultiLabelMarginLoss":
        return (a, torch.zeros(2, 4, dtype=torch.long))
    if name in ("MarginRankingLoss",):
        return (a[:, 0], b[:, 0], SIGNS)
    if name == "CosineEmbeddingLoss":
        return (a, b, SIGNS)
    if name == "CTCLoss":
        lengths = torch.full((2,), 2)
        return (torch.randn(4, 2, 3), torch.ones(2, 2, dtype=torch.long), lengths * 2, lengths)
    if name == "GaussianNLLLoss":
        return (a, b, torch.ones(2, 4))
    if name == "TripletMarginLoss":
        return (a, b, b)
    return (a, b)


def qat() -> Any:
    """A qconfig for training."""
    return tq.get_default_qat_qconfig("x86")


def build(qualified: str, keywords: dict[str, Any] | None = None) -> nn.Module:
    """An instance of the class."""
    found: Any = torch
    for part in qualified.split(".")[1:]:
        found = getattr(found, part)
    name = qualified.rpartition(".")[2]
    torch.manual_seed(0)
    if ".intrinsic." in qualified and ".qat." not in qualified:
        return found(*_children(name))
    more = dict(keywords or {})
    if ".qat." in qualified:
        more["qconfig"] = qat()
        if "Linear" in name:
            linear = found(8, 8, **more)
            nn.init.zeros_(linear.bias)  # LinearBn1d leaves it to from_float, which copies that of the float class
            return linear
    if name in ("TransformerEncoder", "TransformerDecoder"):
        layer: Any = getattr(nn, f"{name}Layer")
        return found(layer(8, 2), 1)
    return found(*_arguments(name), **more)


def _arguments(name: str) -> tuple[Any, ...]:
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    return next((arguments for pattern, arguments in FAMILIES if re.match(pattern, name)), _padding(name))


def _padding(name: str) -> tuple[Any, ...]:
    return (1,) if "Pad" in name else ()


def _children(name: str) -> list[nn.Module]:
    """The members of a fused class, from its name: ConvBnReLU2d."""
    n = next((each for each in "123" if f"{each}d" in name), "1")
    made: dict[str, Any] = {
        "Conv": lambda: getattr(nn, f"Conv{n}d")(4, 4, 1),
        "Linear": lambda: nn.Linear(8, 8),
        "Bn": lambda: nn.BatchNorm1d(8) if "Linear" in name else getattr(nn, f"BatchNorm{n}d")(4),
        "BN": lambda: getattr(nn, f"BatchNorm{n}d")(4),
        "ReLU": nn.ReLU,
    }
    return [made[word]() for word in re.findall(r"Conv|Linear|Bn|BN|ReLU", name)]


CASES: dict[str, dict[str, Any]] = {
    "bias": {"bias": False},
    "inplace": {"inplace": True},
    "return_indices": {"return_indices": True},
    "bicubic": {"mode": "bicubic"},
    "trilinear": {"mode": "trilinear"},
    "linear": {"mode": "linear"},
}
"""Constructor keywords of a case, by its parameter or value."""

CASE_SHAPES = {"trilinear": (2, 4, 2, 4, 4), "linear": (2, 4, 8)}
