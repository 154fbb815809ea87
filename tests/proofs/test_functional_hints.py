"""What the pages of relu-after-add and nested-cat say, measured under torch."""

from __future__ import annotations

import re
import statistics

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from examples import rule_named
from torch import nn
from under_torch import quantize, quiet, sqnr

SEEDS = range(8)


class Residual(nn.Module):
    """A ReLU behind a sum, or ``add_relu``."""

    def __init__(self, better: bool) -> None:
        super().__init__()
        self.quant, self.dequant, self.skip = tq.QuantStub(), tq.DeQuantStub(), nnq.FloatFunctional()
        self.conv, self.better = nn.Conv2d(4, 4, 3, padding=1), better

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.quant(x)
        y = self.conv(x)
        return self.dequant(self.skip.add_relu(y, x) if self.better else torch.relu(self.skip.add(y, x)))


class Joined(nn.Module):
    """A concatenation in a concatenation, or one."""

    def __init__(self, better: bool) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.a, self.b, self.c = (nn.Conv2d(4, 4, 1) for _ in range(3))
        self.pair, self.all, self.better = nnq.FloatFunctional(), nnq.FloatFunctional(), better

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.quant(x)
        a, b, c = self.a(x), self.b(x), self.c(x)
        joined = self.all.cat([a, b, c], 1) if self.better else self.all.cat([self.pair.cat([a, b], 1), c], 1)
        return self.dequant(joined)


def decibels(net: type[nn.Module], better: bool, seed: int) -> float:
    torch.manual_seed(seed)
    model = net(better).eval()
    batches = [(torch.randn(4, 4, 16, 16),) for _ in range(4)]
    with quiet(), torch.no_grad():
        return sqnr(model(*batches[0]), quantize(model, batches)(*batches[0]))


@pytest.mark.parametrize(("name", "net"), [("relu-after-add", Residual), ("nested-cat", Joined)])
def test_the_decibels_of_the_page(name: str, net: type[nn.Module]) -> None:
    claims = re.findall(r"([\d.]+) dB", rule_named(name).page)
    for better, claim in zip((False, True), claims, strict=True):
        measured = statistics.mean(decibels(net, better, seed) for seed in SEEDS)
        assert measured == pytest.approx(float(claim), abs=0.6)
    assert float(claims[0]) < float(claims[1])
