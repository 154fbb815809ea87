"""The demo end to end: `qlsp check --fix` on a copy, then what torch says about it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from under_torch import quiet, sqnr

from qlsp import cli

DEMO = Path(__file__).resolve().parents[2] / "docs" / "demo"
README = DEMO.parents[1] / "README.md"


class Levels(torch.overrides.TorchFunctionMode):
    """Keeps the inputs and the result of every concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[list[torch.Tensor], torch.Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if func in (torch.cat, torch.ops.quantized.cat):
            self.seen.append((list(args[0]), value))
        return value


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with quiet():
        spec.loader.exec_module(module)
    return module


def measured(path: Path) -> tuple[float, float, list[float], float]:
    """SQNR at the concatenation and at the output, the scales of its inputs and of its result."""
    demo = module_of(path)
    torch.manual_seed(0)
    model: nn.Module = demo.MultiScaleAttention().eval()
    inputs = demo.features()
    with quiet(), torch.no_grad():
        with Levels() as floats:
            expected = model(*inputs)
        quantized = demo.quantize(model)
        with Levels() as levels:
            actual = quantized(*inputs)
    ((joined, result),) = levels.seen
    (_, float_result) = floats.seen[0]
    scales = [tensor.q_scale() for tensor in joined]
    return sqnr(float_result, result), sqnr(expected, actual), scales, result.q_scale()


def printed(path: Path) -> float:
    """The number that running the demo prints."""
    command = [sys.executable, "-W", "ignore", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    number = re.fullmatch(r"int8 against float: (-?[\d.]+) dB\n", output)
    assert number is not None, output
    return float(number[1])


def test_the_demo_is_fixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "demo"
    shutil.copytree(DEMO, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = measured(copy / "attention.py")
    assert cli.main(["check", "--isolated", str(copy)]) == 1
    assert cli.main(["check", "--isolated", "--fix", str(copy)]) == 0
    assert cli.main(["check", "--isolated", "--diff", str(copy)]) == 0
    capsys.readouterr()
    after = measured(copy / "attention.py")
    assert before[0] < 10 and before[1] < 10
    assert before[3] == pytest.approx(min(before[2]))
    assert after[0] > 25 and after[1] > 25
    promised = re.search(r"and ([\d.]+) dB after", README.read_text(encoding="utf-8"))
    assert promised is not None and abs(float(promised[1]) - printed(copy / "attention.py")) < 0.5
    assert after[3] == pytest.approx(max(after[2]), rel=0.25)
