"""What the page of missing-fuse says an unfused BatchNorm costs, under torch."""

from __future__ import annotations

import copy
import re

import pytest
import torch
import torch.ao.quantization as tq
from examples import rule_named, section
from torch import nn
from under_torch import quantize, quiet, sqnr

SEEDS = range(5)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()
        self.fc = nn.Linear(16, 10)
        nn.init.normal_(self.bn.running_mean, 0, 0.3)
        nn.init.uniform_(self.bn.running_var, 0.5, 2)
        nn.init.uniform_(self.bn.weight, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        return self.dequant(self.fc(x.mean((2, 3))))


def measured(seed: int) -> tuple[float, float]:
    """SQNR in dB of the converted model without and with fusing."""
    torch.manual_seed(seed)
    model = Net().eval()
    batches = [(torch.randn(8, 3, 16, 16),) for _ in range(4)]
    fused = tq.fuse_modules(copy.deepcopy(model), [["conv", "bn", "relu"]])
    with quiet(), torch.no_grad():
        expected = model(*batches[0])
        plain, better = (quantize(each, batches)(*batches[0]) for each in (copy.deepcopy(model), fused))
    return sqnr(expected, plain), sqnr(expected, better)


def test_fusing_gains_what_the_page_says() -> None:
    results = [measured(seed) for seed in SEEDS]
    assert all(fused > plain for plain, fused in results)
    text = section(rule_named("missing-fuse").page, "Why it matters")
    assert text is not None
    claimed = [float(number) for number in re.findall(r"(\d+\.\d) dB", text)]
    means = [sum(column) / len(results) for column in zip(*results, strict=True)]
    assert means == pytest.approx(claimed, abs=0.5)
