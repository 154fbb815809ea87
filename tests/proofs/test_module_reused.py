"""What the page of module-reused says, measured under torch."""

from __future__ import annotations

import statistics

import pytest
import torch
import torch.ao.quantization as tq
from examples import rule_named, table
from torch import nn
from under_torch import quantize, quiet, sqnr

RULE = rule_named("module-reused")
SEEDS = range(3)


class Activations(nn.Module):
    """Two convolutions, the second one wider, with one LeakyReLU behind them or one each."""

    def __init__(self, separate: bool, ratio: float) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        with torch.no_grad():
            for parameter in self.b.parameters():
                parameter.mul_(ratio)
        self.act, self.other = nn.LeakyReLU(0.1), nn.LeakyReLU(0.1)
        self.separate = separate

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.quant(x)
        second = self.other if self.separate else self.act
        return self.dequant(self.act(self.a(x))), self.dequant(second(self.b(x)))


class Heads(nn.Module):
    """Two inputs through one Linear, or through one each with equal weights."""

    def __init__(self, separate: bool) -> None:
        super().__init__()
        self.first, self.second, self.dequant = tq.QuantStub(), tq.QuantStub(), tq.DeQuantStub()
        self.head, self.other = nn.Linear(16, 8), nn.Linear(16, 8)
        self.other.load_state_dict(self.head.state_dict())
        self.separate = separate

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        second = self.other if self.separate else self.head
        return self.dequant(self.head(self.first(x))), self.dequant(second(self.second(y)))


def narrow(model: nn.Module, batches: list[tuple[torch.Tensor, ...]]) -> float:
    """SQNR of the first result."""
    converted = quantize(model.eval(), batches)
    with quiet(), torch.no_grad():
        return sqnr(model(*batches[0])[0], converted(*batches[0])[0])


@pytest.mark.parametrize("row", table(RULE.page), ids=lambda row: f"ratio {row[0]:g}")
def test_table_of_the_page(row: list[float]) -> None:
    ratio, *claimed = row
    for separate, expected in zip((False, True), claimed, strict=True):
        measured = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            model = Activations(separate, ratio)
            measured.append(narrow(model, [(torch.randn(8, 4, 16, 16),) for _ in range(4)]))
        assert statistics.mean(measured) == pytest.approx(expected, abs=1.5)


def test_a_shared_linear_loses_the_narrow_input() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(32, 16), torch.randn(32, 16) * 100) for _ in range(4)]
    assert narrow(Heads(True), batches) > narrow(Heads(False), batches) + 15
