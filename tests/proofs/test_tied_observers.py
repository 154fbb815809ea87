"""Observers tied after prepare: what the rewrite of cat-mixed-scales says, measured under torch."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from scoring import configuration
from torch import nn
from under_torch import loaded, quiet, sqnr

from qlsp.backends.torch_eager import EAGER
from qlsp.diagnostics import Applicability, Fix
from qlsp.engine import check
from qlsp.ops.spec import Observation
from qlsp.text import apply

RATIO = 10.0
SEEDS = range(3)

HEAD = """
import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import (
    DeQuantStub, QuantStub, QuantWrapper, convert, fuse_modules, get_default_qat_qconfig, get_default_qconfig, prepare,
    prepare_qat,
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
{init}

    def forward(self, x):
        x = self.quant(x)
{forward}
"""

QUANTIZE = """

def quantize(batches, ratio):
    net = Net().eval()
    net.qconfig = get_default_qconfig("x86")
    net.widen(ratio)
{prepare}
    for batch in batches:
        p(batch)
    return net, convert(p)
"""
WIDEN = """
    def widen(self, ratio):
        with torch.no_grad():
            for parameter in self.{wide}.parameters():
                parameter.mul_(ratio)
"""


def program(init: str, forward: str, wide: str, prepare: str = "p = prepare(net)") -> str:
    body = HEAD.format(init=indented(init, 8), forward=indented(forward, 8))
    return body + WIDEN.format(wide=wide) + QUANTIZE.format(prepare=indented(prepare, 4))


def indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.strip().splitlines())


PROGRAMS = {
    "convolutions": program(
        "self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1)",
        "return self.dequant(torch.cat([self.a(x), self.b(x)], 1))",
        "b",
    ),
    "in place, assigned": program(
        "self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1)",
        "return self.dequant(torch.cat([self.a(x), self.b(x)], 1))",
        "b",
        "p = net\nprepare(p, inplace=True)",
    ),
    "behind what keeps the scale": program(
        "self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1)\nself.pool = nn.MaxPool2d(2)",
        "a, b = self.pool(torch.relu(self.a(x))), self.pool(self.b(x))\n"
        "return self.dequant(torch.cat([a, b], 1))",
        "b",
    ),
    "in lists": program(
        "self.branches = nn.ModuleList(nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU()) for _ in range(3))",
        "return self.dequant(torch.cat([branch(x) for branch in self.branches], 1))",
        "branches[2]",
        'for branch in net.branches:\n    fuse_modules(branch, ["0", "1"], inplace=True)\np = prepare(net)',
    ),
    "a sum": program(
        "self.a, self.b, self.ff = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1), FloatFunctional()",
        "a = self.a(x)\nreturn self.dequant(torch.cat([a, self.ff.add(a, self.b(x))], 1))",
        "b",
    ),
    "fused": program(
        "self.a, self.b, self.relu = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1), nn.ReLU()",
        "return self.dequant(torch.cat([self.relu(self.a(x)), self.b(x)], 1))",
        "b",
        'net = fuse_modules(net, ["a", "relu"])\np = prepare(net)',
    ),
    "three inputs": program(
        "self.a, self.b, self.c = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1), nn.BatchNorm2d(3)",
        "return self.dequant(torch.hstack((self.a(x), self.c(x), self.b(x))))",
        "b",
    ),
}

LAYERS = PROGRAMS["convolutions"]
REFUSED = {
    "training": LAYERS.replace("prepare(net)", "prepare_qat(net.train())").replace("_qconfig(", "_qat_qconfig("),
    "a model of the caller": LAYERS.replace("batches, ratio):\n    net = Net().eval()", "net: Net, batches, ratio):"),
    "no name": LAYERS.replace("p = prepare(net)", "p = prepare(net).eval()"),
    "more than a model": LAYERS.replace("prepare(net)", "prepare(net, allow_list={nn.Conv2d, QuantStub})"),
    "prepared elsewhere too": LAYERS + "\n\ndef other():\n    return QuantWrapper(Net())\n",
    "another model at the same prepare": LAYERS.replace("net = Net()", "net = (Net() if ratio > 1 else Other())")
    + "\n\nclass Other(Net):\n    def forward(self, x):\n        return self.dequant(self.a(self.quant(x)))\n",
    "a fixed scale": LAYERS.replace("self.b(x)]", "torch.sigmoid(self.b(x))]"),
    "a derived scale": LAYERS.replace("self.b(x)]", "self.f.mul_scalar(self.b(x), 2.0)]").replace(
        "self.a, self.b =", "self.f = FloatFunctional()\n        self.a, self.b ="
    ),
    "a batch norm that may be fused": PROGRAMS["three inputs"] + "\n\ndef fuse(net):\n    fuse_modules(net, [])\n",
    "a layer of this file": LAYERS.replace("nn.Conv2d(3, 8, 3, padding=1)\n", "Own(3, 8, 3, padding=1)\n")
    + "\n\nclass Own(nn.Conv2d):\n    pass\n",
    "another qconfig": LAYERS.replace("    net.w", "    net.b.qconfig = get_default_qconfig('qnnpack')\n    net.w"),
    "a private name": LAYERS.replace("self.b", "self.__b").replace(".b.", ".__b."),
}


def tie(text: str) -> Fix | None:
    result = check(["net.py"], configuration(), {"net.py": text})
    found = [d for d in result.diagnostics if d.code == "QL101"]
    return next((f for d in found for f in d.fixes if f.title.id == "fix-cat-tied"), None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_scale(name: str, tmp_path: Path) -> None:
    text = PROGRAMS[name]
    fix = tie(text)
    assert fix is not None and fix.applicability is Applicability.UNSAFE
    fixed = apply(text, fix.edits)
    after = check(["net.py"], configuration(), {"net.py": fixed})
    assert [d.code for d in after.diagnostics] == []
    before = [measured(text, tmp_path / f"{seed}-old", seed) for seed in SEEDS]
    since = [measured(fixed, tmp_path / f"{seed}-new", seed) for seed in SEEDS]
    assert all(len(scales) > 1 for scales, _ in before)
    assert all(len(scales) == 1 for scales, _ in since)
    assert statistics.mean(value for _, value in before) < 12
    assert statistics.mean(value for _, value in since) > 25


def measured(text: str, folder: Path, seed: int) -> tuple[set[tuple[float, int]], float]:
    """The scales of the inputs and the result of the concatenation, and the SQNR of the model, narrow first."""
    folder.mkdir()
    with loaded({"net.py": text}, folder) as module, quiet(), torch.no_grad():
        torch.manual_seed(seed)
        batches = [torch.randn(4, 3, 16, 16) for _ in range(4)]
        _, converted = module.quantize(batches, RATIO)
        torch.manual_seed(seed)
        [torch.randn(4, 3, 16, 16) for _ in range(4)]
        plain = module.Net().eval()
        plain.widen(RATIO)
        with Joins() as joins:
            actual = converted(batches[0])
        return set(joins.seen[0]), sqnr(plain(batches[0]), actual)


class Joins(torch.overrides.TorchFunctionMode):
    """Keeps scale and zero point of the inputs and the result of every concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[tuple[float, int]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if func in (torch.cat, torch.hstack):
            self.seen.append([(t.q_scale(), t.q_zero_point()) for t in [*args[0], value]])
        return value


@pytest.mark.parametrize("name", REFUSED)
def test_not_offered(name: str) -> None:
    text = REFUSED[name]
    assert text not in PROGRAMS.values()
    result = check(["net.py"], configuration(), {"net.py": text})
    assert any(d.code == "QL101" for d in result.diagnostics)
    assert tie(text) is None


def test_prepare_in_another_file() -> None:
    model, _, script = LAYERS.partition("\n\ndef quantize")
    imports = f"{HEAD.partition('class')[0]}from net import Net"
    texts = {"net.py": model, "quantize.py": f"{imports}\n\n\ndef quantize{script}"}
    result = check(list(texts), configuration(), texts)
    fixes = [f for d in result.diagnostics for f in d.fixes if f.title.id == "fix-cat-tied"]
    assert [edit.path for fix in fixes for edit in fix.edits] == ["quantize.py"]


def observed_modules() -> Iterator[tuple[str, nn.Module]]:
    sizes = {"Conv": (2, 2, 1), "Linear": (2, 2), "BatchNorm": (2,), "GroupNorm": (1, 2), "LayerNorm": (2,)}
    sizes |= {"InstanceNorm": (2,)}
    for name, row in EAGER.modules.items():
        short = name.rpartition(".")[2]
        own = row.observed and row.observation is Observation.OWN
        if not own or re.search(r"Lazy|intrinsic|\.qat\.|Cell|GRU", name):
            continue
        arguments = next((value for key, value in sizes.items() if short.startswith(key)), ())
        module = tq.QuantStub if short == "QuantStub" else getattr(nn, short)
        yield name, module(*arguments)
    yield "FloatFunctional", nnq.FloatFunctional()


@pytest.mark.parametrize("name, module", list(observed_modules()))
def test_the_slot_of_an_observer_is_called_activation_post_process(name: str, module: nn.Module) -> None:
    model = nn.Sequential(module).eval()
    model.qconfig = tq.get_default_qconfig("qnnpack")
    with quiet():
        prepared = tq.prepare(model)
    assert isinstance(prepared[0].activation_post_process, tq.HistogramObserver)
