"""What the page of missing-fuse says that modules cost which are not fused, under torch."""

from __future__ import annotations

import copy
import re

import pytest
import torch
import torch.ao.quantization as tq
from examples import rule_named, section
from torch import nn
from under_torch import quantize, quiet, sqnr

from qlsp.messages.en import MESSAGES

SEEDS = range(5)
ROW = re.compile(r"\| ([a-z, ]+) \| (\d+\.\d) dB \| (\d+\.\d) dB \|")


class Image(nn.Module):
    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.conv, self.relu = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()
        self.bn = nn.BatchNorm2d(16) if normed else nn.Identity()
        self.fc = nn.Linear(16, 10)
        if isinstance(self.bn, nn.BatchNorm2d):
            nn.init.normal_(self.bn.running_mean, 0, 0.3)
            nn.init.uniform_(self.bn.running_var, 0.5, 2)
            nn.init.uniform_(self.bn.weight, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        return self.dequant(self.fc(x.mean((2, 3))))


class Vector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.linear, self.relu, self.fc = nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dequant(self.fc(self.relu(self.linear(self.quant(x)))))


def measured(names: tuple[str, ...], seed: int) -> tuple[float, float]:
    """SQNR in dB of the converted model without and with fusing."""
    torch.manual_seed(seed)
    flat = names[0] == "linear"
    model = (Vector() if flat else Image("bn" in names)).eval()
    batches = [(torch.randn((64, 16) if flat else (8, 3, 16, 16)),) for _ in range(4)]
    fused = tq.fuse_modules(copy.deepcopy(model), [list(names)])
    with quiet(), torch.no_grad():
        expected = model(*batches[0])
        plain, better = (quantize(each, batches)(*batches[0]) for each in (copy.deepcopy(model), fused))
    return sqnr(expected, plain), sqnr(expected, better)


def claims() -> list[tuple[tuple[str, ...], list[float]]]:
    text = section(rule_named("missing-fuse").page, "Why it matters")
    assert text is not None
    return [(tuple(row[1].split(", ")), [float(row[2]), float(row[3])]) for row in ROW.finditer(text)]


@pytest.mark.parametrize(("names", "claimed"), claims(), ids=str)
def test_fusing_gains_what_the_page_says(names: tuple[str, ...], claimed: list[float]) -> None:
    results = [measured(names, seed) for seed in SEEDS]
    assert all(fused > plain for plain, fused in results)
    means = [sum(column) / len(results) for column in zip(*results, strict=True)]
    assert means == pytest.approx(claimed, abs=0.5)


def test_the_page_has_three_measurements_and_the_message_says_the_first() -> None:
    (_, first), *others = claims()
    assert len(others) == 2
    numbers = re.findall(r"(\d+\.\d) dB", MESSAGES["missing-fuse"])
    assert [float(number) for number in numbers] == first
