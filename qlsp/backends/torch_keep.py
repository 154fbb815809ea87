"""Operators of torch eager that run on quantized tensors: layout, slicing, pooling, activations, joining."""

from __future__ import annotations

from qlsp.backends.torch_rows import (
    EMPTY_STRIDED,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    INTERNAL_ASSERT,
    NOT_QUANTIZED_DTYPE,
    PROMOTE_MIXED,
    aten,
    no_kernel,
    row,
)
from qlsp.ops.spec import Case, Observation, OpSpec, Role, Shape
from qlsp.values.qparams import FixedScale
from qlsp.values.value import Symbol, Tensor

SHARE = Observation.SHARE
OWN = Observation.OWN
NONE = Observation.NONE
SIGMOID = FixedScale(1 / 256, 0)
TANH = FixedScale(1 / 128, 128)
BOTH = "input other"
CAST_MIXED = (NOT_QUANTIZED_DTYPE, EMPTY_STRIDED)
COPY_TO_FLOAT = (
    "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a "
    "float Tensor from a quantized Tensor"
)
QUANTIZED_VALUES = "Value argument for quantized input_put should not be quantized"
SAME_DTYPE = "meshgrid expects all tensors to have the same dtype"
QSCHEME = no_kernel("aten::qscheme", "CPU")


def view(op: str, spellings: str, params: str = "input") -> OpSpec:
    """The same data in another layout."""
    return row(op, spellings, SHARE, params, shape=Shape.VIEW)


def same(op: str, spellings: str, params: str = "input") -> OpSpec:
    """The same tensor or a copy of it."""
    return row(op, spellings, SHARE, params, shape=Shape.SAME)


def part(op: str, spellings: str, params: str, shape: Shape = Shape.PART) -> OpSpec:
    """A part of the data."""
    return row(op, spellings, SHARE, params, tensors=params.split()[0], shape=shape)


LAYOUT = (
    view("view", ".view", "input shape"),
    view("view_as", ".view_as .reshape_as .expand_as", BOTH),
    view("reshape", "reshape", "input shape"),
    view("flatten", "flatten", "input start_dim end_dim"),
    view("ravel", "ravel"),
    view("unflatten", "unflatten", "input dim sizes"),
    view("permute", "permute", "input dims"),
    view("transpose", "transpose swapaxes swapdims .transpose_ .swapaxes_ .swapdims_", "input dim0 dim1"),
    view("t", "t .t_"),
    view("adjoint", "adjoint"),
    view("movedim", "movedim moveaxis", "input source destination"),
    view("squeeze", "squeeze .squeeze_", "input dim"),
    view("unsqueeze", "unsqueeze .unsqueeze_", "input dim"),
    view("expand", ".expand", "input size"),
    view("broadcast_to", "broadcast_to", "input size"),
    same("contiguous", ".contiguous", "input memory_format"),
    same("clone", "clone", "input memory_format"),
    same("detach", "detach detach_"),
    same("positive", "positive op:+x operator.pos"),
    same("identity", ".cpu resolve_conj resolve_neg conj conj_physical torch.real .to_dense"),
    view("resize_as", ".resize_as_", "input other"),
    view("resize_", ".resize_", "input size"),
    view("repeat", ".repeat", "input repeats"),
    view("tile", "tile", "input dims"),
    view("repeat_interleave", "repeat_interleave", "input repeats dim"),
    view("flip", "flip", "input dims"),
    view("fliplr", "fliplr"),
    view("flipud", "flipud"),
    view("rot90", "rot90", "input k dims"),
    view("channel_shuffle", "torch.channel_shuffle", "input groups"),
    view("pixel_shuffle", "torch.pixel_shuffle", "input upscale_factor"),
    view("pixel_unshuffle", "torch.pixel_unshuffle", "input downscale_factor"),
    view("sort_values", "msort"),
    row("atleast_1d", "torch.atleast_1d", SHARE, "tensors", tensors="tensors", shape=Shape.VIEW),
    row("atleast_2d", "torch.atleast_2d", SHARE, "tensors", tensors="tensors", shape=Shape.VIEW),
    row("atleast_3d", "torch.atleast_3d", SHARE, "tensors", tensors="tensors", shape=Shape.VIEW),
    row(
        "to",
        ".to",
        SHARE,
        "input dtype non_blocking copy",
        tensors="input dtype other",
        shape=Shape.VIEW,
        mixed=CAST_MIXED,
        cases=(
            Case("dtype", FLOAT_DTYPES, raises=NOT_QUANTIZED_DTYPE, observation=NONE),
            Case("dtype", INTEGER_DTYPES, raises=NOT_QUANTIZED_DTYPE, shape=Shape.INTEGER),
        ),
    ),
    row("type_as", ".type_as", SHARE, BOTH, tensors=BOTH, shape=Shape.VIEW, mixed=CAST_MIXED),
)

PARTS = (
    part("getitem", "op:[]", "input index"),
    part("select", "select", "input dim index"),
    part("narrow", "narrow narrow_copy", "input dim start length"),
    part("index_select", "index_select", "input dim index"),
    part("diagonal", "diagonal", "input offset dim1 dim2"),
    part("linalg_diagonal", "linalg.diagonal", "A offset dim1 dim2"),
    part("diag", "diag", "input diagonal"),
    part("as_strided", "as_strided .as_strided_", "input size stride storage_offset"),
    part("unfold_method", ".unfold", "input dimension size step"),
    part("unsafe_chunk", ".unsafe_chunk", "input chunks dim", Shape.PARTS),
    part("chunk", "chunk", "input chunks dim", Shape.PARTS),
    row(
        "split",
        "torch.split",
        SHARE,
        "tensor split_size_or_sections dim",
        tensors="tensor",
        shape=Shape.PARTS,
    ),
    part("split_method", ".split", "input split_size dim", Shape.PARTS),
    part("split_with_sizes", "split_with_sizes", "input split_sizes dim", Shape.PARTS),
    part("tensor_split", "tensor_split", "input indices_or_sections dim", Shape.PARTS),
    part("hsplit", "hsplit", "input indices_or_sections", Shape.PARTS),
    part("vsplit", "vsplit", "input indices_or_sections", Shape.PARTS),
    part("dsplit", "dsplit", "input indices_or_sections", Shape.PARTS),
    part("unbind", "unbind", "input dim", Shape.PARTS),
)

FLOAT32 = (Symbol("torch.float"), Symbol("torch.float32"))

REDUCTIONS = (
    row(
        "mean",
        "mean",
        SHARE,
        "input dim keepdim",
        cases=(Case("dtype", FLOAT32, raises="ScalarType Float is not supported in new_qtensor."),),
    ),
    row("std", "std", SHARE, "input dim unbiased keepdim"),
    row(
        "max",
        "max",
        SHARE,
        "input dim keepdim",
        tensors="input dim other",
        mixed=PROMOTE_MIXED,
        cases=(
            Case("dim", (Tensor,), raises=aten("maximum.out"), shape=Shape.NEW),
            Case("other", raises=aten("maximum.out")),
            Case("dim", shape=Shape.PAIR),
        ),
    ),
    row(
        "min",
        "min",
        SHARE,
        "input dim keepdim",
        tensors="input dim other",
        mixed=PROMOTE_MIXED,
        cases=(
            Case("dim", (Tensor,), raises=aten("minimum.out"), shape=Shape.NEW),
            Case("other", raises=aten("minimum.out")),
            Case("dim", shape=Shape.PAIR),
        ),
    ),
    row("topk", "topk", SHARE, "input k dim largest sorted", shape=Shape.PAIR),
    row("sort", "sort", SHARE, "input dim descending", shape=Shape.PAIR),
)

NO_INDICES = (Case("return_indices", (True,), raises=aten("max_pool2d_with_indices.out"), shape=Shape.PAIR),)
NO_INDICES_3D = (Case("return_indices", (True,), raises=aten("max_pool3d_with_indices"), shape=Shape.PAIR),)
POOL = "input kernel_size stride padding"
MAX_POOL = f"{POOL} dilation ceil_mode return_indices"
RESIZE = "input size scale_factor mode align_corners recompute_scale_factor antialias"

POOLING = (
    row("max_pool1d", "F.max_pool1d", SHARE, MAX_POOL, cases=NO_INDICES),
    row("max_pool1d", "torch.max_pool1d", SHARE, f"{POOL} dilation ceil_mode"),
    row("max_pool2d", "F.max_pool2d", SHARE, MAX_POOL, cases=NO_INDICES),
    row("max_pool2d", "torch.max_pool2d", SHARE, f"{POOL} dilation ceil_mode"),
    row("max_pool3d", "F.max_pool3d", SHARE, MAX_POOL, cases=NO_INDICES_3D),
    row("max_pool3d", "torch.max_pool3d", SHARE, f"{POOL} dilation ceil_mode"),
    row("avg_pool1d", "torch.avg_pool1d", SHARE, f"{POOL} ceil_mode count_include_pad"),
    row("avg_pool2d", "F.avg_pool2d", SHARE, f"{POOL} ceil_mode count_include_pad divisor_override"),
    row("avg_pool3d", "F.avg_pool3d", SHARE, f"{POOL} ceil_mode count_include_pad divisor_override"),
    row("adaptive_avg_pool1d", "torch.adaptive_avg_pool1d", SHARE, "input output_size"),
    row("adaptive_avg_pool2d", "F.adaptive_avg_pool2d", SHARE, "input output_size"),
    row("adaptive_avg_pool3d", "F.adaptive_avg_pool3d", SHARE, "input output_size"),
    row(
        "interpolate",
        "F.interpolate",
        SHARE,
        RESIZE,
        cases=(
            Case("antialias", (True,), raises=aten("_upsample_bilinear2d_aa.out")),
            Case("mode", ("bicubic",), raises=aten("upsample_bicubic2d.out")),
            Case("mode", ("trilinear",), raises=aten("upsample_trilinear3d.out")),
            Case("mode", ("linear",), raises=aten("upsample_linear1d.out")),
        ),
    ),
    row(
        "upsample",
        "F.upsample",
        SHARE,
        "input size scale_factor mode align_corners",
        cases=(
            Case("mode", ("bicubic",), raises=aten("upsample_bicubic2d.out")),
            Case("mode", ("trilinear",), raises=aten("upsample_trilinear3d.out")),
            Case("mode", ("linear",), raises=aten("upsample_linear1d.out")),
        ),
    ),
    row("upsample_bilinear", "F.upsample_bilinear", SHARE, "input size scale_factor"),
    row("upsample_nearest", "F.upsample_nearest", SHARE, "input size scale_factor"),
    row("grid_sample", "F.grid_sample", SHARE, "input grid mode padding_mode align_corners"),
    row(
        "pad",
        "F.pad",
        SHARE,
        "input pad mode value",
        cases=(
            Case("mode", ("replicate",), raises=aten("replication_pad2d.out")),
            Case("mode", ("circular",), raises=INTERNAL_ASSERT),
        ),
    ),
    row("constant_pad_nd", "torch.constant_pad_nd", SHARE, "input pad value"),
)

TRAINING = (Case("training", (True,), absent=True, raises=aten("bernoulli_.float")),)
NOT_TRAINING = (Case("training", (True,), raises=aten("bernoulli_.float")),)
DROPOUT = "input p training inplace"

ACTIVATIONS = (
    row("relu", "relu relu_ F.relu", SHARE, "input inplace"),
    row("relu6", "F.relu6", SHARE, "input inplace"),
    row("hardtanh", "F.hardtanh F.hardtanh_", SHARE, "input min_val max_val inplace"),
    row("leaky_relu", "F.leaky_relu F.leaky_relu_", SHARE, "input negative_slope inplace"),
    row("gelu", "F.gelu", SHARE, "input approximate"),
    row(
        "threshold",
        "F.threshold",
        SHARE,
        "input threshold value inplace",
        cases=(Case("inplace", (True,), raises=aten("threshold.out")),),
    ),
    row("threshold", "torch.threshold", SHARE, "input threshold value"),
    row(
        "clamp",
        "clamp clip",
        SHARE,
        "input min max",
        tensors="input min max",
        mixed=PROMOTE_MIXED,
        cases=(
            Case("min", (Tensor,), raises=aten("clamp.Tensor_out")),
            Case("max", (Tensor,), raises=aten("clamp.Tensor_out")),
        ),
    ),
    row("sigmoid", "sigmoid F.sigmoid special.expit", Observation.FIXED, fixed=SIGMOID),
    row("hardsigmoid", "F.hardsigmoid", Observation.FIXED, "input inplace", fixed=SIGMOID),
    row("tanh", "tanh F.tanh", Observation.FIXED, fixed=TANH),
    row("dropout", "F.dropout F.dropout1d F.dropout2d F.dropout3d", SHARE, DROPOUT, cases=TRAINING),
    row(
        "dropout_train",
        "torch.dropout torch.alpha_dropout torch.feature_dropout",
        SHARE,
        "input p train",
        cases=(Case("train", (True,), raises=aten("bernoulli_.float")),),
    ),
    row("alpha_dropout", "F.alpha_dropout F.feature_alpha_dropout", SHARE, DROPOUT, cases=NOT_TRAINING),
)

FILLING = (
    row("masked_fill", "masked_fill .masked_fill_", SHARE, "input mask value"),
    row("fill", "torch.fill .fill_", SHARE, "input value"),
    row("ones_like", "torch.ones_like", SHARE),
    row("full_like", "torch.full_like", SHARE, "input fill_value"),
    row("empty_like", "torch.empty_like", SHARE),
    row("embedding", "F.embedding", SHARE, "input weight", tensors="input weight"),
    row(
        "select_scatter",
        "select_scatter",
        SHARE,
        "input src dim index",
        tensors="input src",
        mixed=(None, COPY_TO_FLOAT),
        role=Role.COPY,
    ),
    row(
        "index_put",
        "index_put .index_put_ op:[tensor]=",
        SHARE,
        "input indices values accumulate",
        tensors="input values",
        raises=QUANTIZED_VALUES,
        mixed=("", QUANTIZED_VALUES),
    ),
    row(
        "setitem",
        "op:[]=",
        SHARE,
        "input index value",
        tensors="input value",
        mixed=("", COPY_TO_FLOAT),
        role=Role.COPY,
    ),
    row("torch_embedding", "torch.embedding", SHARE, "weight indices", tensors="weight"),
    row(
        "type",
        ".type",
        SHARE,
        "input dtype",
        shape=Shape.SCALAR,
        cases=(
            Case("dtype", FLOAT_DTYPES, raises=NOT_QUANTIZED_DTYPE, shape=Shape.NEW, observation=NONE),
            Case("dtype", INTEGER_DTYPES, raises=NOT_QUANTIZED_DTYPE, shape=Shape.INTEGER),
            Case("dtype", raises=NOT_QUANTIZED_DTYPE, shape=Shape.NEW, observation=NONE),
        ),
    ),
    row(
        "slice_scatter",
        "slice_scatter",
        SHARE,
        "input src dim start end step",
        tensors="input src",
        mixed=(None, COPY_TO_FLOAT),
        role=Role.COPY,
    ),
    row(
        "copy_",
        ".copy_",
        OWN,
        "input src non_blocking",
        tensors="input src",
        mixed=(None, COPY_TO_FLOAT),
        role=Role.COPY,
    ),
)


def joined(op: str, spellings: str, params: str) -> OpSpec:
    """The cat family: scale and zero point of the first tensor."""
    return row(
        op,
        spellings,
        Observation.FIRST_INPUT,
        params,
        tensors="tensors",
        sequence="tensors",
        mixed=(QSCHEME, QSCHEME),
        role=Role.CAT,
    )


JOINING = (
    joined("cat", "torch.cat torch.concat torch.concatenate", "tensors dim"),
    joined("stack", "torch.stack", "tensors dim"),
    joined("hstack", "torch.hstack", "tensors"),
    joined("vstack", "torch.vstack torch.row_stack", "tensors"),
    joined("dstack", "torch.dstack", "tensors"),
    joined("column_stack", "torch.column_stack", "tensors"),
    row(
        "broadcast_tensors", "torch.broadcast_tensors", SHARE, "a b c d", tensors="a b c d", shape=Shape.EACH
    ),
    row(
        "meshgrid",
        "torch.meshgrid",
        SHARE,
        "a b c",
        tensors="a b c",
        shape=Shape.EACH,
        mixed=(SAME_DTYPE, SAME_DTYPE),
    ),
)


def flags(op: str, spellings: str) -> OpSpec:
    """A comparison: a bool tensor."""
    return row(op, spellings, NONE, BOTH, tensors=BOTH, shape=Shape.INTEGER)


COMPARISONS = (
    flags("eq", "eq op:== operator.eq"),
    flags("ne", "ne not_equal op:!= operator.ne"),
    flags("gt", "gt greater op:> operator.gt"),
    flags("ge", "ge greater_equal op:>= operator.ge"),
    flags("lt", "lt less op:< operator.lt"),
    flags("le", "le less_equal op:<= operator.le"),
    row("equal", "equal", NONE, BOTH, tensors=BOTH, shape=Shape.SCALAR),
    row("argsort", "argsort", NONE, "input dim descending stable", shape=Shape.INTEGER),
    row("int_repr", ".int_repr", NONE, shape=Shape.INTEGER),
)

NUMBERS = (
    row("item", ".item", NONE, shape=Shape.SCALAR),
    row("size", ".size", NONE, "input dim", shape=Shape.SCALAR),
    row("stride", ".stride", NONE, "input dim", shape=Shape.SCALAR),
    row("numel", "numel .nelement .dim .ndimension .element_size", NONE, shape=Shape.SCALAR),
    row("is_floating_point", "is_floating_point is_complex .is_contiguous", NONE, shape=Shape.SCALAR),
    row("get_device", "get_device .data_ptr .storage_offset", NONE, shape=Shape.SCALAR),
    row("q_scale", ".q_scale .q_zero_point .qscheme", NONE, shape=Shape.SCALAR),
    row("python_number", "builtins.float builtins.int builtins.bool", NONE, shape=Shape.SCALAR),
)

KEEP = (
    *LAYOUT,
    *PARTS,
    *REDUCTIONS,
    *POOLING,
    *ACTIVATIONS,
    *FILLING,
    *JOINING,
    *COMPARISONS,
    *NUMBERS,
)
