"""Modules that convert does not find, as facts."""

from __future__ import annotations

import pytest

from qlsp.analysis.facts import Keeping, Stray
from qlsp.config import Config
from qlsp.engine import analyze

MODEL = """\
import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import DeQuantStub, QuantStub

class Net(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        {init}

    def forward(self, x):
        {forward}
"""


def strays(init: str, forward: str = "return self.dequant(self.quant(x))") -> list[tuple[int, Stray]]:
    text = MODEL.format(init=init.replace("\n", "\n        "), forward=forward.replace("\n", "\n        "))
    analysis = analyze(["net.py"], Config(), {"net.py": text})
    (facts,) = analysis.facts
    found = [(analysis.place(stray.span), stray) for stray in facts.strays.values()]
    return [(text[: place.span.start].count("\n") - 8, stray) for place, stray in found]


@pytest.mark.parametrize(
    ("init", "row", "container", "takes"),
    [
        ("self.q = [QuantStub() for _ in range(n)]", 1, "list", True),
        ("self.q = [QuantStub(), 1]", 1, "list", False),
        ("self.q = (QuantStub(), FloatFunctional())", 1, "tuple", True),
        ("self.q = {'a': QuantStub()}", 1, "dict", True),
        ("self.q = {'type': QuantStub()}", 1, "dict", False),
        ("self.q = {'a.b': QuantStub()}", 1, "dict", False),
        ("self.q = {1: QuantStub()}", 1, "dict", False),
        ("self.q = {k: nn.Linear(1, 1) for k in 'ab'}", 1, "dict", False),
        ("self.q = []\nfor _ in range(n):\n    self.q.append(QuantStub())", 1, "list", True),
        ("stubs = []\nstubs.append(QuantStub())\nself.q = stubs", 3, "list", True),
        ("self.q = [[QuantStub()], [QuantStub()]]", 1, "list", False),
        ("self.q = [QuantStub() for _ in range(unknown)]", 1, "list", True),
    ],
)
def test_container(init: str, row: int, container: str, takes: bool) -> None:
    ((found, stray),) = strays(init)
    assert (found, stray.kind, stray.attribute) == (row, Keeping.CONTAINER, "q")
    assert (stray.container, stray.takes) == (container, takes)


@pytest.mark.parametrize(
    "init",
    [
        "self.q = nn.ModuleList([QuantStub()])",
        "self.q = nn.ModuleDict({'a': QuantStub()})",
        "self.a = QuantStub()\nself.q = [self.a]",
        "self.q = [nn.ReLU()]",
        "self.q = [QuantStub]",
        "self.q = [1, 2]",
    ],
)
def test_registered_or_not_swapped(init: str) -> None:
    assert strays(init) == []


def test_built_in_forward() -> None:
    ((row, stray),) = strays("pass", "f = FloatFunctional()\nreturn self.dequant(f.add(self.quant(x), self.quant(x)))")
    assert (row, stray.kind) == (4, Keeping.FORWARD)
    assert stray.classes == {"torch.ao.nn.quantized.FloatFunctional"}


def test_what_a_block_builds_is_the_blocks() -> None:
    assert strays("self.make = lambda: QuantStub()", "return self.dequant(self.quant(x))") == []


def test_the_class_itself() -> None:
    ((row, stray),) = strays("self.q = QuantStub", "return self.dequant(self.q(x))")
    assert (row, stray.kind, stray.attribute) == (1, Keeping.CLASS, "q")
