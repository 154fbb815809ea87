"""What the page of functional-reused says, measured under torch."""

from __future__ import annotations

import copy
import statistics

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from examples import rule_named, table
from torch import nn
from under_torch import quantize, quantize_aware, quiet, sqnr

RULE = rule_named("functional-reused")
SEEDS = range(3)


class Sums(nn.Module):
    """Two sums through one FloatFunctional, or through one each."""

    def __init__(self, separate: bool) -> None:
        super().__init__()
        self.stubs = nn.ModuleList(tq.QuantStub() for _ in range(4))
        self.sums = nn.ModuleList(nnq.FloatFunctional() for _ in range(1 + separate))
        self.dequant = tq.DeQuantStub()

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b, c, d = (stub(tensor) for stub, tensor in zip(self.stubs, inputs, strict=True))
        return self.dequant(self.sums[0].add(a, b)), self.dequant(self.sums[-1].add(c, d))


class Growing(nn.Module):
    """A concatenation that only feeds the next one of the same FloatFunctional, or of another."""

    def __init__(self, separate: bool) -> None:
        super().__init__()
        self.stubs = nn.ModuleList(tq.QuantStub() for _ in range(3))
        self.cats = nn.ModuleList(nnq.FloatFunctional() for _ in range(1 + separate))
        self.dequant = tq.DeQuantStub()

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        a, b, c = (stub(tensor) for stub, tensor in zip(self.stubs, inputs, strict=True))
        return self.dequant(self.cats[-1].cat([self.cats[0].cat([a, b], 1), c], 1))


def decibels(model: nn.Module, scales: list[float], seed: int, qat: bool = False) -> float:
    """SQNR of the (first) output."""
    torch.manual_seed(seed)
    batches = [tuple(torch.randn(8, 64) * scale for scale in scales) for _ in range(400 if qat else 4)]
    with quiet(), torch.no_grad():
        converted = (quantize_aware if qat else quantize)(copy.deepcopy(model), batches)
        one, other = model(*batches[0]), converted(*batches[0])
    return sqnr(one, other) if isinstance(one, torch.Tensor) else sqnr(one[0], other[0])


@pytest.mark.parametrize("row", table(RULE.page), ids=lambda row: f"ratio {row[0]:g}")
def test_table_of_the_page(row: list[float]) -> None:
    ratio, *claimed = row
    for separate, expected in zip((False, True), claimed, strict=True):
        measured = statistics.mean(decibels(Sums(separate), [1, 1, ratio, ratio], seed) for seed in SEEDS)
        assert measured == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("ratio", [1, 10])
def test_a_growing_cat_loses_nothing(ratio: float) -> None:
    """Silent there: the last concatenation has the range of all of them, whoever observes the first."""
    one, each = (
        statistics.mean(decibels(Growing(flag), [1, 1, ratio], seed) for seed in SEEDS) for flag in (False, True)
    )
    assert one > each - 1.0


def test_a_growing_cat_loses_in_training() -> None:
    """The moving average falls between the two ranges, and the last concatenation is clipped."""
    one, each = (decibels(Growing(flag), [1, 1, 10], 0, qat=True) for flag in (False, True))
    assert one < each - 5.0


def test_scalar_methods_have_no_observer() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.dequant, self.ff = tq.QuantStub(), tq.DeQuantStub(), nnq.FloatFunctional()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.quant(x)
            small = self.ff.mul_scalar(x, 0.01)
            return self.dequant(small), self.dequant(self.ff.mul_scalar(x, 100.0))

    assert decibels(Net(), [1.0], 0) > 30
