"""Every function, method and operator of the torch eager table does what its row says, under torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from oracle_ops.row_examples import CALLS, CASES, SPELLED, Call
from oracle_ops.running import FUNCTION_CALLS, call, check, error_of, operands
from qlsp.backends.torch_eager import EAGER
from qlsp.ops.spec import Case, OpSpec

FLOATS = (torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8))


def example(row: OpSpec, name: str) -> Call:
    """The example call of a spelling."""
    if name in SPELLED:
        return SPELLED[name]
    if row.op in CALLS:
        return CALLS[row.op]
    if len(row.tensors) > 1:
        return lambda a, b: (a, b)
    assert row.tensors, f"{row.op} needs an example"
    return lambda a, b: (a,)


def first_tensor(arguments: tuple[Any, ...]) -> torch.Tensor:
    """The first quantized operand."""
    flat = [item for each in arguments for item in (each if isinstance(each, list) else [each])]
    return next(item for item in flat if isinstance(item, torch.Tensor) and item.is_quantized)


@pytest.mark.parametrize(
    ("row", "kind", "name"), FUNCTION_CALLS, ids=[f"{kind[:-1]}-{name}" for _, kind, name in FUNCTION_CALLS]
)
def test_on_quantized(row: OpSpec, kind: str, name: str) -> None:
    """The scale of the output, or the literal error."""
    arguments = example(row, name)(*operands())
    if row.raises is not None:
        assert (error_of(kind, name, arguments) or "").startswith(row.raises)
        return
    first = first_tensor(arguments)
    copy = first.clone()
    check(row, call(kind, name, arguments), copy)


def test_no_row_untested() -> None:
    """The calls above are those of the table, and no example is left over."""
    spelled = {name for row in EAGER.rows for name in (*row.functions, *row.methods, *row.operators)}
    assert spelled == {name for _, _, name in FUNCTION_CALLS}
    ops = {row.op for row in EAGER.rows if row.functions or row.methods or row.operators}
    assert set(CALLS) <= ops
    assert set(SPELLED) <= spelled


def test_no_case_untested() -> None:
    """Every case of every row is run in at least one spelling."""
    wanted = {(row.op, index) for row, _, _ in FUNCTION_CALLS for index in range(len(row.cases))}
    assert wanted == {(row.op, index) for row, _, _, index, _ in CASE_CALLS}


MIXED = [(row, kind, name) for row, kind, name in FUNCTION_CALLS if len(row.tensors) > 1 or row.sequence]


@pytest.mark.parametrize(
    ("row", "kind", "name"), MIXED, ids=[f"{kind[:-1]}-{name}" for _, kind, name in MIXED]
)
def test_float_beside_quantized(row: OpSpec, kind: str, name: str) -> None:
    """A float operand behind and before a quantized one: the row's text, the row's error, or no error."""
    texts = row.mixed or (None, None)
    a, b = operands()
    for text, pair in zip(texts, ((a, FLOATS[1]), (FLOATS[0], b)), strict=True):
        arguments = example(row, name)(*pair)
        flat = [item for each in arguments for item in (each if isinstance(each, list) else [each])]
        seen = {t.is_quantized for t in flat if isinstance(t, torch.Tensor) and t.dtype.is_floating_point}
        if not any(isinstance(t, torch.Tensor) and t.is_quantized for t in flat) or not seen:
            continue
        error = error_of(kind, name, arguments)
        if text is not None:
            assert (error or "").startswith(text)
        elif row.raises is not None:
            assert error is not None
        else:
            assert error is None


def case_arguments(row: OpSpec, kind: str, name: str, index: int, case: Case) -> tuple[Any, ...] | None:
    """The example call of a case; None where the spelling cannot be called so."""
    a, b = operands()
    if (row.op, index) in CASES:
        return CASES[row.op, index](a, b)
    if case.parameter == "rounding_mode":
        return (a, b, {"rounding_mode": "floor"})
    number = 2.0 if float in case.values else 2
    if case.parameter != "input":
        return (a, number)
    if kind == "methods" or name.startswith("torch.Tensor.") or name in ONLY_TENSOR_LEFT:
        return None
    return (number, a)


ONLY_TENSOR_LEFT = {
    f"torch.{name}"
    for name in ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "fmod")
}
"""Functions that take no Python number as first operand."""


def cases() -> list[tuple[OpSpec, str, str, int, Case]]:
    """Every case of every row, with every spelling that torch accepts such a call of."""
    return [
        (row, kind, name, index, case)
        for row, kind, name in FUNCTION_CALLS
        for index, case in enumerate(row.cases)
        if case_arguments(row, kind, name, index, case) is not None
    ]


CASE_CALLS = cases()


@pytest.mark.parametrize(
    ("row", "kind", "name", "index", "case"),
    CASE_CALLS,
    ids=[f"{name}-{case.parameter}-{index}" for _, _, name, index, case in CASE_CALLS],
)
def test_case(row: OpSpec, kind: str, name: str, index: int, case: Case) -> None:
    """A case changes the row as it says."""
    arguments = case_arguments(row, kind, name, index, case)
    assert arguments is not None
    raises = case.raises or row.raises
    changed = replace(row, raises=raises, shape=case.shape or row.shape)
    if raises is not None:
        assert (error_of(kind, name, arguments) or "").startswith(raises)
    else:
        check(changed, call(kind, name, arguments), first_tensor(arguments))
