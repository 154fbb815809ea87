"""The engine: facts that travel, triage that changes nothing, a rule that crashes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from qlsp import engine, triage
from qlsp.config import Config
from qlsp.diagnostics import Severity
from qlsp.rules import api, cat_mixed_scales
from qlsp.text import LineIndex

BAD = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Linear(4, 4)

    def forward(self, x):
        x = self.quant(x)
        return self.dequant(torch.cat([self.a(x), self.b(x)], 1))
"""
BLOCK = """\
from torch import nn
import torch


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)
"""
ROOT = """\
from block import Block
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant, self.block = QuantStub(), DeQuantStub(), Block()

    def forward(self, x):
        return self.dequant(self.block(self.quant(x)))
"""


def found(texts: dict[str, str]) -> list[tuple[str, int, str]]:
    result = engine.check(list(texts), Config(), texts)
    return [
        (d.place.path, LineIndex(texts[d.place.path]).position(d.place.span.start)[0], d.code)
        for d in result.diagnostics
    ]


def test_one_finding_on_its_line() -> None:
    assert found({"net.py": BAD}) == [("net.py", 14, "QL101")]


def test_facts_and_diagnostics_cross_a_process_border() -> None:
    analysis = engine.analyze(["net.py"], Config(), {"net.py": BAD})
    facts = pickle.loads(pickle.dumps(analysis.facts))
    assert [f.op_calls for f in facts] == [f.op_calls for f in analysis.facts]
    assert [f.submodules for f in facts] == [f.submodules for f in analysis.facts]
    diagnostics = engine.check(["net.py"], Config(), {"net.py": BAD}).diagnostics
    assert pickle.loads(pickle.dumps(diagnostics)) == diagnostics


def test_a_block_without_a_marker_is_judged_through_its_root() -> None:
    assert found({"block.py": BLOCK, "root.py": ROOT}) == [("block.py", 11, "QL101")]


def test_a_block_alone_is_not_judged() -> None:
    assert found({"block.py": BLOCK}) == []


def test_every_name_that_was_asked_for_is_a_dependency() -> None:
    texts = {"block.py": BLOCK, "root.py": ROOT}
    project = engine.analyze(["root.py"], Config(), texts).project
    assert project.dependencies["root.py"]["block"] == "block.py"
    assert "missing" not in project.dependencies["root.py"]


def test_triage_changes_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parent.parent / "cases" / "models"
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("S*.py"))}
    texts["block.py"], texts["root.py"] = BLOCK, ROOT
    gated = found(texts)
    monkeypatch.setattr(triage, "MARKERS", ("",))
    assert found(texts) == gated
    assert ("block.py", 11, "QL101") in gated


def test_a_crashed_rule_is_a_finding_and_the_others_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(ctx: api.RuleContext) -> None:
        raise ZeroDivisionError("no reason")

    rules = tuple(
        api.Rule(rule.meta, rule.page, crash) if rule.meta.code == "QL202" else rule  # type: ignore[arg-type]
        for rule in api.all_rules()
    )
    monkeypatch.setattr(engine, "all_rules", lambda: rules)
    result = engine.check(["net.py"], Config(), {"net.py": BAD})
    assert [(d.code, d.severity) for d in result.diagnostics] == [
        ("QL003", Severity.ERROR),
        ("QL101", Severity.WARNING if cat_mixed_scales.META.severity is Severity.WARNING else Severity.ERROR),
    ]
    assert result.crashed
    message = dict(result.diagnostics[0].message.params)
    assert message["rule"] == "quantstub-on-quantized"
    assert "no reason" in message["error"]


def test_a_budget_that_runs_out_is_said_and_nothing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    from qlsp.analysis import machine

    monkeypatch.setattr(machine, "MAX_STEPS", 20)
    analysis = engine.analyze(["net.py"], Config(), {"net.py": BAD})
    assert [f.gave_up for f in analysis.facts] == ["a forward of more than 20 steps"]


GIVEN_BLOCK = """\
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Plain(nn.Module):
    def forward(self, x):
        return x + x


class Net(nn.Module):
    def __init__(self, block=Plain):
        super().__init__()
        self.quant, self.dequant, self.body = QuantStub(), DeQuantStub(), block()

    def forward(self, x):
        return self.dequant(self.body(self.quant(x)))


def quantizable(ready):
    if ready:
        net = Net(nn.ReLU)
        for number in range(60):
            print(number)
        return net
"""


def test_a_class_whose_use_is_not_followed_to_the_end_is_not_judged_by_its_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from qlsp.analysis import machine

    assert found({"net.py": GIVEN_BLOCK.partition("def quantizable")[0]}) == [("net.py", 7, "QL401")]
    for steps in (100, 20_000):
        monkeypatch.setattr(machine, "MAX_ENTRY_STEPS", steps)
        assert found({"net.py": GIVEN_BLOCK}) == []


def test_a_broken_function_hides_only_itself() -> None:
    broken = BAD + "\n\ndef half(x:\n    return x\n\n\ndef whole():\n    return 1\n"
    assert found({"net.py": broken}) == [("net.py", 14, "QL101"), ("net.py", 17, "QL001")]


def test_a_broken_method_hides_only_itself() -> None:
    broken = BAD + "\n    def half(self):\n        return self.a(\n"
    codes = [(row, code) for _, row, code in found({"net.py": broken})]
    assert (14, "QL101") in codes
    assert [code for _, code in codes].count("QL001") == 1


@pytest.mark.parametrize(
    "code",
    [
        "import torch.ao.quantization as q\nm = q.prepare(unknown)\n",
        "class A(A): pass\nquant = A()\n",
        "def f(): return f()\nquant = f()\n",
        "quant = lambda: quant()\nquant()\n",
        "x = quant = [quant]\nfor quant in quant: quant()\n",
        "from . import *\nfrom quant import quant as quant\n",
        "class Net(__import__('torch').nn.Module):\n    quant = property(lambda self: self.quant)\n",
        "while True:\n    quant = 1\n",
        "quant = {**quant, 'a': [*quant]}\nmatch quant:\n    case {'a': x, **rest}: x()\n",
        "import torch\nclass N(torch.nn.Module):\n    def __init__(s, *a, **k):\n        super().__init__()\n"
        "        s.quant = torch.ao.quantization.QuantStub()\n    forward = lambda s, x: s.quant(x)\n",
    ],
)
def test_odd_programs_do_not_crash(code: str) -> None:
    assert found({"odd.py": code}) == []


FOREIGN = """\
from compressor.quant import Quantizer


def quantize_all(graph):
    for operation in graph:
        for name in operation.names:
            Quantizer(name).quantize(operation)


quantizer = Quantizer("net")
for quantized in quantizer:
    quantized.quantize()
"""


def entries(texts: dict[str, str]) -> dict[str, int]:
    """How many scripts, functions and methods of each file are run."""
    return {view.module.path: view.machine.entry for view in engine.analyze(list(texts), Config(), texts).views}


def test_a_script_about_the_quantization_of_others_is_not_run() -> None:
    assert entries({"tool.py": FOREIGN}) == {"tool.py": 0}


def test_a_script_that_comes_to_quantization_through_other_files_is_run() -> None:
    helper = "import torch.ao.quantization as tq\n\n\ndef ready(quantized):\n    return tq.prepare(quantized)\n"
    user = "from helper import ready\n\nquantized = ready(None)\n"
    again = "def ready(quantized):\n    from helper import ready\n    return ready(quantized)\n"
    texts = {"helper.py": helper, "user.py": user, "again.py": again}
    assert entries(texts) == {"helper.py": 1, "user.py": 1, "again.py": 1}


def test_a_script_that_imports_quantization_from_a_file_that_is_not_checked_is_run() -> None:
    helper = "import torch.ao.quantization as tq\n\n\ndef ready(model):\n    return tq.prepare(model)\n"
    user = "from quant_tools import ready\n\nmodel = ready(None)\n"
    analysis = engine.analyze(["user.py"], Config(), {"quant_tools.py": helper, "user.py": user})
    assert [view.machine.entry for view in analysis.views] == [1]


def test_names_in_comments_and_parts_of_words_do_not_lead_to_quantization() -> None:
    helper = "import torch.ao.quantization as tq\n\n\ndef run(quantized):\n    return tq.prepare(quantized)\n"
    user = "def runner(quantized):\n    import os  # run it\n    return os.walk(quantized)\n"
    assert entries({"helper.py": helper, "user.py": user}) == {"helper.py": 1, "user.py": 0}
