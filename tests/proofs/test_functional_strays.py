"""What convert does not find: a FloatFunctional built in forward or kept in a plain container is the torch function."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest
import torch
from examples import rule_named
from under_torch import loaded, quantize, quiet, sqnr

from qlsp.config import Config
from qlsp.fixing import fix_source
from qlsp.rules.api import Rule

RULES = [rule_named(name) for name in ("functional-created-in-forward", "functional-not-registered")]

NET = """\
import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.narrow = nn.Conv2d(3, 4, 1)
        self.wide = nn.Conv2d(3, 4, 1)
        with torch.no_grad():
            self.wide.weight.mul_(3.0)
{0}        self.dequant = DeQuantStub()

    def forward(self, x):
        x = self.quant(x)
        return self.dequant({1}.cat([self.narrow(x), self.wide(x)], 1))
"""

NETS = {
    "functional-created-in-forward": NET.format("", "FloatFunctional()"),
    "functional-not-registered": NET.format("        self.ffs = [FloatFunctional()]\n", "self.ffs[0]"),
}


def decibels(text: str, folder: Path) -> float:
    folder.mkdir()
    found = []
    with loaded({"net.py": text}, folder.resolve()) as module, quiet(), torch.no_grad():
        for seed in range(5):
            torch.manual_seed(seed)
            model = module.Net().eval()
            batches = [(torch.randn(4, 3, 16, 16),) for _ in range(4)]
            expected = model(*batches[0])
            found.append(sqnr(expected, quantize(model, batches)(*batches[0])))
    return statistics.mean(found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.meta.name)
def test_the_silent_cat(rule: Rule, tmp_path: Path) -> None:
    """The dB that the page names for ``cat``, before and after the fix."""
    claim = re.search(r"([\d.]+) instead of ([\d.]+) dB", rule.page.replace("\n", " "))
    assert claim is not None
    text = NETS[rule.meta.name]
    fixed = fix_source(text, "net.py", Config()).texts["net.py"]
    before, after = decibels(text, tmp_path / "before"), decibels(fixed, tmp_path / "after")
    assert before == pytest.approx(float(claim[1]), abs=1.0)
    assert after == pytest.approx(float(claim[2]), abs=1.0)
