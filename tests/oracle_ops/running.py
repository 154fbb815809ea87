"""Runs spellings of rows under torch and compares the results with what the rows say."""

from __future__ import annotations

import builtins
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from qlsp.backends.torch_eager import EAGER
from qlsp.ops.spec import Observation, OpSpec, Shape

SCALE_A, ZERO_A = 0.05, 128
SCALE_B, ZERO_B = 0.02, 120

torch.set_num_threads(1)
torch.manual_seed(0)
FLOAT_A, FLOAT_B = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8)


def set_item(tensor: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    """``tensor[index] = value``."""
    tensor[index] = value
    return tensor


OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "-x": operator.neg,
    "+x": operator.pos,
    "~x": operator.invert,
    "[]": operator.getitem,
    "[]=": set_item,
    "[tensor]=": set_item,
}


def quantized(tensor: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    """A quantized copy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(tensor, scale, zero_point, torch.quint8)


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    """Two fresh quantized tensors of different scale."""
    return quantized(FLOAT_A, SCALE_A, ZERO_A), quantized(FLOAT_B, SCALE_B, ZERO_B)


def named(name: str) -> Any:
    """The object of a qualified name."""
    root, *parts = name.split(".")
    found: Any = {"torch": torch, "operator": operator, "builtins": builtins}[root]
    for part in parts:
        found = getattr(found, part)
    return found


def spellings(row: OpSpec) -> Iterator[tuple[str, str]]:
    """Kind and name of every spelling that is no module class and no FloatFunctional method."""
    for kind in ("functions", "methods", "operators"):
        for name in getattr(row, kind):
            yield kind, name


FUNCTION_CALLS = [(row, kind, name) for row in EAGER.rows for kind, name in spellings(row)]


def call(kind: str, name: str, arguments: tuple[Any, ...]) -> Any:
    """Call a spelling; a last dict of arguments holds keywords."""
    keywords: dict[str, Any] = {}
    if arguments and isinstance(arguments[-1], dict):
        *positional, keywords = arguments
    else:
        positional = list(arguments)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if kind == "methods":
            return getattr(positional[0], name)(*positional[1:], **keywords)
        function = OPERATORS[name] if kind == "operators" else named(name)
        return function(*positional, **keywords)


def error_of(kind: str, name: str, arguments: tuple[Any, ...]) -> str | None:
    """The error text of a call, None if it runs."""
    try:
        call(kind, name, arguments)
    except Exception as error:
        return str(error).strip()
    return None


def has_scale(tensor: torch.Tensor, scale: float, zero_point: int) -> bool:
    """True for a quantized tensor of this scale (up to float32 rounding) and zero point."""
    if not tensor.is_quantized:
        return False
    return abs(tensor.q_scale() - scale) < 1e-7 and tensor.q_zero_point() == zero_point


def tensors_of(row: OpSpec, result: Any) -> list[torch.Tensor]:
    """The quantized outputs, after a check of the Python type of the result."""
    match row.shape:
        case Shape.PAIR:
            values, indices = result
            assert not indices.dtype.is_floating_point and not indices.is_quantized
            return [values]
        case Shape.TWO:
            assert isinstance(result, tuple) and len(result) == 2
            return list(result)
        case Shape.STATE:
            output, (hidden, cell) = result
            return [output, hidden, cell]
        case Shape.PARTS | Shape.EACH:
            assert isinstance(result, tuple | list) and len(result) > 1
            return list(result)
        case _:
            assert isinstance(result, torch.Tensor)
            return [result]


def check(row: OpSpec, result: Any, first: torch.Tensor) -> None:
    """The result of a row that runs is what the row says."""
    if row.shape is Shape.SCALAR:
        assert not isinstance(result, torch.Tensor)
        return
    outputs = tensors_of(row, result)
    if row.shape is Shape.INTEGER:
        assert all(not t.is_quantized and not t.dtype.is_floating_point for t in outputs)
        return
    match row.observation:
        case Observation.SHARE if row.shape is Shape.EACH:
            assert has_scale(outputs[0], SCALE_A, ZERO_A) and has_scale(outputs[1], SCALE_B, ZERO_B)
        case Observation.SHARE | Observation.FIRST_INPUT:
            assert all(has_scale(t, SCALE_A, ZERO_A) for t in outputs)
        case Observation.FIXED:
            assert row.fixed is not None
            assert all(has_scale(t, row.fixed.scale, row.fixed.zero_point) for t in outputs)
        case Observation.NONE:
            assert all(t.dtype is torch.float32 for t in outputs)
        case _:
            assert all(t.is_quantized for t in outputs)
    if row.shape in (Shape.VIEW, Shape.PART, Shape.PARTS):
        codes = set(first.int_repr().flatten().tolist())
        assert all(set(t.int_repr().flatten().tolist()) <= codes for t in outputs)
    if row.shape is Shape.SAME:
        assert all(torch.equal(t, first) for t in outputs)
