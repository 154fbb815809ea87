"""What the fixes are worth, measured: the tables of the rule pages.

``python tests/proofs/measured.py`` applies each fix to a small model, quantizes the model before and after, and
writes ``docs/rules/measured.json``; ``python -m qlsp.dev.docs`` prints it on the pages.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from under_torch import loaded, quantize, quantize_aware, quiet, sqnr

from qlsp.config import Config
from qlsp.fixing import fix_source
from qlsp.messages import render

FILE = Path(__file__).resolve().parents[2] / "docs" / "rules" / "measured.json"
RATIOS = (1, 2, 10, 100)
MODES = ("ptq", "qat")
QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")

BRANCHES = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.narrow = nn.Conv2d(8, 8, 1)
        self.wide = nn.Conv2d(8, 8, 1)
        self.dequant = DeQuantStub()

    def forward(self, x, y):
        x = self.quant(x)
        narrow = self.narrow(x)
        wide = self.wide(x)
        return self.dequant(torch.cat([{0}, {1}], dim=1))
"""

INPUTS = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant_narrow = QuantStub()
        self.quant_wide = QuantStub()
        self.dequant = DeQuantStub()

    def forward(self, narrow, wide):
        narrow = self.quant_narrow(narrow)
        wide = self.quant_wide(wide)
        return self.dequant(torch.cat([{0}, {1}], dim=1))
"""

SHARED = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.a = nn.Conv2d(8, 8, 1)
        self.b = nn.Conv2d(8, 8, 1)
        self.dequant = DeQuantStub()

    def forward(self, narrow, wide):
        first = self.a(self.quant({0}))
        second = self.b(self.quant({1}))
        return self.dequant(first), self.dequant(second)
"""

TWICE = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.again = QuantStub()
        self.a = nn.Conv2d(8, 8, 1)
        self.b = nn.Conv2d(8, 8, 1)
        self.dequant = DeQuantStub()

    def forward(self, narrow, wide):
        x = self.a(self.quant({0}))
        x = self.again(x)
        return self.dequant(self.b(x))
"""


@dataclass(frozen=True)
class Subject:
    """A model with one mistake. ``scaled``: the weights of ``wide`` make the ratio, not the inputs."""

    rule: str
    text: str
    scaled: bool = False
    ratios: tuple[int, ...] = RATIOS
    orders: tuple[tuple[str, str], ...] = (("narrow", "wide"), ("wide", "narrow"))


SUBJECTS = (
    Subject("cat-mixed-scales", BRANCHES, scaled=True),
    Subject("cat-mixed-scales", INPUTS),
    Subject("quantstub-reused", SHARED),
    Subject("quantstub-on-quantized", TWICE, ratios=(1,), orders=(("narrow", "wide"),)),
)


def measure() -> dict[str, Any]:
    """All tables."""
    return {"torch": torch.__version__.partition("+")[0], "tables": [_table(subject) for subject in SUBJECTS]}


def _table(subject: Subject) -> dict[str, Any]:
    texts = [subject.text.format(*order) for order in subject.orders]
    titles = {render(one.fix.title) for text in texts for one in fix_source(text, "net.py", Config()).applied}
    return {
        "rule": subject.rule,
        "fix": min(titles),
        "branches": "convolutions" if subject.scaled else "inputs",
        "rows": list(_rows(subject)),
    }


def _rows(subject: Subject) -> Iterator[dict[str, Any]]:
    for mode in MODES:
        for ratio in subject.ratios:
            for order in subject.orders:
                before = subject.text.format(*order)
                fixed = fix_source(before, "net.py", Config())
                assert len(fixed.applied) == 1 and not fixed.after.diagnostics
                yield {
                    "mode": mode,
                    "ratio": ratio,
                    "order": f"{order[0]} first",
                    "before": result(before, mode, ratio, subject.scaled),
                    "after": result(fixed.texts["net.py"], mode, ratio, subject.scaled),
                }


def result(text: str, mode: str, ratio: float, scaled: bool) -> dict[str, Any]:
    """Quantize the model of a text and run it: SQNR in dB of all outputs and of the narrow one, scales, modules."""
    with tempfile.TemporaryDirectory() as folder, loaded({"net.py": text}, Path(folder).resolve()) as module, quiet():
        torch.manual_seed(0)
        net: nn.Module = module.Net().eval()
    if scaled:
        with torch.no_grad():
            net.wide.weight.mul_(ratio)
            net.wide.bias.mul_(ratio)
    generator = torch.Generator().manual_seed(0)

    def batch() -> tuple[torch.Tensor, ...]:
        narrow, wide = (torch.randn(8, 8, 8, 8, generator=generator) for _ in range(2))
        return narrow, wide if scaled else wide * ratio

    batches = [batch() for _ in range(6 if mode == "ptq" else 100)]
    with torch.no_grad():
        expected = net(*batches[0])
    quantized = (quantize if mode == "ptq" else quantize_aware)(net, batches)
    joined: list[list[float]] = []
    try:
        with quiet(), torch.no_grad(), Joins(joined):
            actual = quantized(*batches[0])
    except NotImplementedError as error:
        return {"raises": str(error).partition(" with arguments")[0], "modules": modules(quantized)}
    if isinstance(expected, tuple):
        levels = [sqnr(one, other) for one, other in zip(expected, actual, strict=True)]
        found: dict[str, Any] = {"sqnr": round(min(levels), 1)}
    else:
        found = {"sqnr": round(sqnr(expected, actual), 1)}
    scales = joined[0] if joined and joined[0] else stub_scales(quantized)
    found["scales"] = [float(f"{scale:.3g}") for scale in scales]
    found["modules"] = modules(quantized)
    return found


class Joins(torch.overrides.TorchFunctionMode):
    """Notes the scale of a concatenation's result; that of its inputs where they are quantized."""

    def __init__(self, joined: list[list[float]]) -> None:
        super().__init__()
        self.joined = joined

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if func in (torch.cat, torch.ops.quantized.cat):
            tensors = [*args[0], value]
            self.joined.append([tensor.q_scale() for tensor in tensors if tensor.is_quantized])
        return value


def stub_scales(model: nn.Module) -> list[float]:
    """The scales of the converted stubs."""
    stubs = [module for module in model.modules() if type(module).__name__ == "Quantize"]
    return [float(stub.scale) for stub in stubs]


def modules(model: nn.Module) -> int:
    """How many modules of a model are quantized ones."""
    return sum(type(module).__module__.startswith(QUANTIZED) for module in model.modules())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    torch.set_num_threads(1)
    FILE.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
