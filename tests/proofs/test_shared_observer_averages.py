"""What the page of shared-observer-averages says, measured under torch."""

from __future__ import annotations

import statistics

import pytest
import torch
import torch.ao.quantization as tq
from examples import rule_named, table
from torch import nn
from under_torch import quantize, quantize_aware, quiet, sqnr

RULE = rule_named("shared-observer-averages")
SEEDS = range(2)


class Joined(nn.Module):
    """Two inputs through one stub before they are joined, or behind that."""

    def __init__(self, behind: bool) -> None:
        super().__init__()
        self.quant, self.dequant, self.behind = tq.QuantStub(), tq.DeQuantStub(), behind

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self.behind:
            return self.dequant(self.quant(torch.cat([x, y], 1)))
        return self.dequant(torch.cat([self.quant(x), self.quant(y)], 1))


class Tied(nn.Module):
    """Two layers of different range."""

    def __init__(self, ratio: float) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.a, self.b = nn.Linear(16, 8), nn.Linear(16, 8)
        with torch.no_grad():
            for parameter in self.b.parameters():
                parameter.mul_(ratio)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.quant(x)
        return self.dequant(torch.cat([self.a(x), self.b(x)], 1))


def decibels(model: nn.Module, batches: list[tuple[torch.Tensor, ...]], qat: bool = True) -> float:
    converted = (quantize_aware if qat else quantize)(model, batches)
    with quiet(), torch.no_grad():
        return sqnr(model.eval()(*batches[0]), converted(*batches[0]))


def measured(behind: bool, ratio: float, seed: int, qat: bool = True) -> float:
    torch.manual_seed(seed)
    batches = [(torch.randn(64, 16), torch.randn(64, 16) * ratio) for _ in range(400)]
    return decibels(Joined(behind), batches, qat)


@pytest.mark.parametrize("row", table(RULE.page), ids=lambda row: f"ratio {row[0]:g}")
def test_table_of_the_page(row: list[float]) -> None:
    ratio, *claimed = row
    for behind, expected in zip((False, True), claimed, strict=True):
        assert statistics.mean(measured(behind, ratio, seed) for seed in SEEDS) == pytest.approx(expected, abs=1.5)


def test_calibration_keeps_the_widest_range() -> None:
    assert measured(False, 10, 0, qat=False) > measured(False, 10, 0) + 8


def test_tied_observers_average_too() -> None:
    def tied(model: nn.Module, batches: list[tuple[torch.Tensor, ...]]) -> float:
        with quiet(), torch.no_grad():
            model.train()
            model.qconfig = tq.get_default_qat_qconfig("x86")
            prepared = tq.prepare_qat(model)
            prepared.b.activation_post_process = prepared.a.activation_post_process
            for batch in batches:
                prepared(*batch)
            converted = tq.convert(prepared.eval())
            return sqnr(model.eval()(*batches[0]), converted(*batches[0]))

    torch.manual_seed(0)
    batches = [(torch.randn(64, 16),) for _ in range(400)]
    assert tied(Tied(10), batches) < tied(Tied(1), batches) - 8
