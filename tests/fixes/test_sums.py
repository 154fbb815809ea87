"""A ReLU behind an operator that becomes a sum is part of the fix."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch
from contract import fixed_texts, float_problems, module_of, offered, problems
from torch import nn

from qlsp.config import Config
from qlsp.diagnostics import Applicability
from qlsp.engine import check
from qlsp.messages import render

TEXT = """import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.conv = nn.Conv2d(3, 3, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.quant(x)
{body}
"""
SHARED = "        x = self.relu(self.conv(x))\n"
ADDED = "        return self.dequant(self.add.add_relu(self.conv(x), x))"
NAMED = "        out = self.add.add_relu(self.conv(x), x)\n        return self.dequant(out)"

JOINED = {
    "module around": ("        return self.dequant(self.relu(self.conv(x) + x))", ADDED),
    "function around": ("        return self.dequant(F.relu(self.conv(x) + x))", ADDED),
    "method of the sum": ("        return self.dequant((self.conv(x) + x).relu())", ADDED),
    "method of a name": ("        out = self.conv(x) + x\n        return self.dequant(out.relu())", NAMED),
    "function on a name": ("        out = self.conv(x) + x\n        return self.dequant(torch.relu(out))", NAMED),
    "module on a name": (
        "        out = self.conv(x) + x\n        out = self.relu(out)\n        return self.dequant(out)",
        NAMED,
    ),
    "in place": (
        "        out = self.conv(x)\n        out += x\n        return self.dequant(self.relu(out))",
        "        out = self.conv(x)\n        out = self.add.add_relu(out, x)\n        return self.dequant(out)",
    ),
    "a module with other uses": (
        SHARED + "        return self.dequant(self.relu(self.conv(x) + x))",
        SHARED + ADDED,
    ),
    "a difference": (
        "        out = x - self.conv(x)\n        return self.dequant(self.relu(out))",
        "        out = self.sub.add_relu(x, self.neg.mul_scalar(self.conv(x), -1.0))\n        return self.dequant(out)",
    ),
}
APART = {
    "the sum has another use": (
        "        out = self.conv(x) + x\n        return self.dequant(self.relu(out)), self.dequant(out)"
    ),
    "a product": "        out = self.conv(x) * x\n        return self.dequant(self.relu(out))",
    "a sum with a number": "        out = self.conv(x) + 1\n        return self.dequant(self.relu(out))",
    "one path only": (
        "        out = self.conv(x) + x\n        if self.training:\n            out = self.relu(out)\n"
        "        return self.dequant(out)"
    ),
    "a string names the module": (
        "        out = self.conv(x) + x\n        return self.dequant(self.relu(out))\n\n"
        '    def pairs(self):\n        return [["conv", "relu"]]'
    ),
}


def fixed(text: str) -> Iterator[str]:
    """The text after each SAFE fix of an operator; the float model stays, and nothing new comes."""
    result = check(["net.py"], Config(), {"net.py": text})
    for diagnostic, fix in offered(result):
        if diagnostic.code != "QL401":
            continue
        assert fix.applicability is Applicability.SAFE, render(fix.reason)
        new = fixed_texts({"net.py": text}, fix)["net.py"]
        nets = [built(each) for each in (text, new)]
        assert not list(float_problems(*nets, (torch.randn(2, 3, 4, 4),)))
        yield new


def built(text: str) -> nn.Module:
    torch.manual_seed(0)
    net: nn.Module = module_of(text, "net.py").Net()
    return net


@pytest.mark.parametrize("name", JOINED)
def test_the_relu_becomes_part_of_the_sum(name: str) -> None:
    body, wanted = JOINED[name]
    text = TEXT.format(body=body)
    (new,) = fixed(text)
    assert new.rstrip().endswith(wanted)
    assert ("nn.ReLU" in new) == ("self.relu(" in new or "self.relu(" not in text)
    assert not list(problems({"net.py": text}, Config()))


@pytest.mark.parametrize("name", APART)
def test_the_relu_stays(name: str) -> None:
    (new,) = fixed(TEXT.format(body=APART[name]))
    assert "add_relu" not in new and "self.relu(" in new
    assert re.search(r"\.(add|mul|add_scalar)\(", new)
