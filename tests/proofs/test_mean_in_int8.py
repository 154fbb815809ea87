"""What an average in int8 costs: the numbers of the page and of the messages."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

import pytest
import torch
import torch.ao.quantization as tq
from torch import nn
from under_torch import quantize, sqnr


class Net(nn.Module):
    """Convolutions, an average in or behind the quantized region, and what follows."""

    def __init__(self, head: str, inside: bool) -> None:
        super().__init__()
        self.quant, self.dequant, self.again = tq.QuantStub(), tq.DeQuantStub(), tq.QuantStub()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU())
        self.fc, self.gate = nn.Linear(32, 10), nn.Conv2d(32, 32, 1)
        self.scale = nn.quantized.FloatFunctional()
        self.head, self.inside = head, inside

    def average(self, x: torch.Tensor, leaves: bool) -> torch.Tensor:
        """The mean, in int8 or in float; then with a scale of its own unless it leaves the region."""
        if self.inside:
            return x.mean((2, 3), keepdim=True)
        y = self.dequant(x).mean((2, 3), keepdim=True)
        return y if leaves else self.again(y)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The average of the features, a linear layer on it, or a gate for them."""
        x = self.body(self.quant(x))
        if self.head == "none":
            return self.dequant(self.average(x, leaves=True))
        if self.head == "linear":
            return self.dequant(self.fc(self.average(x, leaves=False).flatten(1)))
        return self.dequant(self.scale.mul(x, torch.sigmoid(self.gate(self.average(x, leaves=False)))))


def losses(head: str, inside: bool) -> Iterator[float]:
    for seed in range(5):
        torch.manual_seed(seed)
        model, x = Net(head, inside), torch.randn(8, 3, 20, 20)
        with torch.no_grad():
            expected = model.eval()(x)
        yield sqnr(expected, quantize(model, [(x,)])(x))


@pytest.mark.parametrize(
    ("head", "inside", "outside"), [("none", 27.5, 48.1), ("linear", 31.4, 41.6)], ids=["none", "linear"]
)
def test_the_page_names_what_was_measured(head: str, inside: float, outside: float) -> None:
    assert mean(losses(head, inside=True)) == pytest.approx(inside, abs=1.5)
    assert mean(losses(head, inside=False)) == pytest.approx(outside, abs=1.5)


def test_a_gate_loses_nothing() -> None:
    assert mean(losses("gate", inside=True)) == pytest.approx(mean(losses("gate", inside=False)), abs=0.5)


def gain(layers: int, seed: int) -> float:
    """What an average in float is worth before a head, behind so many layers with batch norm."""
    torch.manual_seed(seed)
    rows = [3, *[16] * layers]
    body = [nn.Sequential(nn.Conv2d(a, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for a in rows[:-1]]
    model = Deep(nn.Sequential(*body))
    batches = [(torch.randn(8, 3, 12, 12),) for _ in range(4)]
    with torch.no_grad():
        for (x,) in batches:
            model.train()(x)
        expected = model.eval()(x)
    found = []
    for inside in (True, False):
        model.inside = inside
        found.append(sqnr(expected, quantize(model, batches)(x)))
    return found[1] - found[0]


class Deep(Net):
    """A head behind a body of its own."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__("linear", inside=True)
        self.body, self.fc = body, nn.Linear(16, 10)


def test_behind_many_layers_a_head_gains_nothing() -> None:
    assert mean(gain(1, seed) for seed in range(4)) > 4
    assert mean(gain(8, seed) for seed in range(4)) < 1
