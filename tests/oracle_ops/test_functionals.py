"""The FloatFunctional rows of the torch eager table, through prepare and convert."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.ao.quantization as tq
from torch import nn
from torch.ao.nn.quantized import FloatFunctional, QFunctional

from oracle_ops.running import FLOAT_A, FLOAT_B, SCALE_A, SCALE_B, ZERO_A, ZERO_B, has_scale, named, quantized
from qlsp.backends.torch_eager import EAGER
from qlsp.ops.spec import Observation, OpSpec

ROWS = [(row, name) for row in EAGER.rows for name in row.functionals]
IDS = [name for _, name in ROWS]


def arguments(row: OpSpec, a: Any, b: Any) -> tuple[Any, ...]:
    """What a method is called with."""
    if row.observation is Observation.DERIVED:
        return (a, 2.5)
    return ([a, b], 1) if row.sequence else (a, b)


class Region(nn.Module):
    """Two QuantStubs and one FloatFunctional."""

    def __init__(self, row: OpSpec, name: str) -> None:
        super().__init__()
        self.first, self.second, self.functional = tq.QuantStub(), tq.QuantStub(), FloatFunctional()
        self.row, self.name = row, name

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        """One call of the method."""
        return getattr(self.functional, self.name)(*arguments(self.row, self.first(a), self.second(b)))


def quietly(function: Any, *given: Any) -> Any:
    """Call without warnings and gradients."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return function(*given)


@pytest.fixture(name="pair")
def _pair() -> tuple[torch.Tensor, torch.Tensor]:
    return quantized(FLOAT_A, SCALE_A, ZERO_A), quantized(FLOAT_B, SCALE_B, ZERO_B)


@pytest.mark.parametrize(("row", "name"), ROWS, ids=IDS)
def test_converted(row: OpSpec, name: str, pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    """The observer's scale, or one that follows from the input's; float operands raise."""
    model = Region(row, name).eval()
    model.qconfig = tq.get_default_qconfig("x86")
    before = quietly(tq.prepare, model)
    assert hasattr(before.functional, "activation_post_process")
    quietly(before, FLOAT_A, FLOAT_B)
    after = quietly(tq.convert, before)
    assert row.swapped and isinstance(after.functional, QFunctional)
    method = getattr(after.functional, name)
    result = quietly(after, FLOAT_A, FLOAT_B)
    if row.observation is Observation.DERIVED:
        assert not row.observed
        again = quietly(method, *arguments(row, pair[0], None))
        other = quietly(method, *arguments(row, pair[1], None))
        assert (again.q_scale(), again.q_zero_point()) != (other.q_scale(), other.q_zero_point())
    else:
        assert row.observed
        scale, zero_point = quietly(before.functional.activation_post_process.calculate_qparams)
        assert has_scale(result, float(scale), int(zero_point))
    assert error(method, *arguments(row, FLOAT_A, FLOAT_B)).startswith(row.on_float or "-")
    if row.mixed is not None:
        behind, ahead = row.mixed
        assert error(method, *arguments(row, pair[0], FLOAT_B)).startswith(behind or "-")
        assert error(method, *arguments(row, FLOAT_A, pair[1])).startswith(ahead or "-")


@pytest.mark.parametrize(("row", "name"), ROWS, ids=IDS)
def test_not_swapped(row: OpSpec, name: str, pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    """A FloatFunctional that convert does not swap is the plain function of torch."""
    method = getattr(FloatFunctional(), name)
    given = arguments(row, *pair)
    plain = named(row.float_function or "torch.cat")
    if row.raises is None:
        assert has_scale(quietly(method, *given), SCALE_A, ZERO_A)
        assert torch.equal(quietly(method, *given), quietly(plain, *given))
        return
    assert error(method, *given).startswith(row.raises)
    assert error(plain, *given).startswith(row.raises)
    for case in row.cases:
        assert error(method, pair[0], 2).startswith(case.raises or "-")


def error(function: Any, *given: Any) -> str:
    """The error text of a call that raises."""
    with pytest.raises(Exception) as caught:
        quietly(function, *given)
    return str(caught.value)


def test_all_methods() -> None:
    """The rows are all methods that FloatFunctional has."""
    own = {name for name in vars(FloatFunctional) if not name.startswith("_")} - {"forward"}
    assert own == set(IDS)


@pytest.mark.parametrize("name", EAGER.functional_classes)
def test_classes(name: str) -> None:
    """The classes exist and have the methods."""
    assert all(hasattr(named(name), method) for method in IDS)
