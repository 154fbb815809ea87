"""Facts about the boundary of models: dropped results, stubs on no tensor, what leaves, what scripts do with it."""

from __future__ import annotations

from textwrap import indent

import pytest

from qlsp.analysis.facts import Facts
from qlsp.config import Config
from qlsp.engine import Analysis, analyze
from qlsp.values.value import Domain, Tensor, TupleValue

HEAD = """\
import torch
import torch.ao.quantization as tq
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, y=None):
"""

SCRIPT = """
def main(batch):
    net = Net().eval()
    net.qconfig = tq.default_qconfig
    net = tq.prepare(net)
    net(batch)
    done = tq.convert(net)
    out = done(batch)
"""


def analysis(forward: str, script: str = "") -> Analysis:
    text = HEAD + indent(forward, "        ") + "\n"
    if script:
        text += SCRIPT + indent(script, "    ") + "\n"
    return analyze(["net.py"], Config(), {"net.py": text})


def facts(forward: str) -> Facts:
    (found,) = analysis(forward).facts
    return found


@pytest.mark.parametrize(
    "forward",
    [
        "self.quant(x)\nreturn x",
        "q = self.quant(x)\nreturn x",
        "q: torch.Tensor = self.quant(x)\nreturn x",
        "q = self.quant(x)\nq = self.fc(x)\nreturn q",
        "if y is None:\n    q = self.quant(x)\n    q = x\nreturn x",
        "q = self.quant(x)\nself.q = 1\nreturn f(q=x)",
    ],
)
def test_dropped(forward: str) -> None:
    assert len(facts(forward).unread) == 1


@pytest.mark.parametrize(
    "forward",
    [
        "return self.quant(x)",
        "x = self.quant(x)\nreturn x",
        "q = self.quant(x)\nreturn lambda: q",
        "q = self.quant(x)\nq = q + 1\nreturn q",
        "q = self.quant(x)\nif y:\n    q = x\nreturn q",
        "q = self.quant(x)\nreturn locals()",
        "q, r = self.quant(x), 1\nreturn x",
        "self.q = self.quant(x)\nreturn x",
        "print(self.quant(x))\nreturn x",
        "for q in range(3):\n    r = self.quant(x)\n    q = r\nreturn x",
    ],
)
def test_not_dropped(forward: str) -> None:
    assert not facts(forward).unread


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        ("[x, y]", "list"),
        ("(x, y)", "tuple"),
        ("{'x': x}", "dict"),
        ("None", "None"),
        ("3", "number"),
        ("x.shape[0]", "number"),
        ("[x] if y is None else (x,)", "list"),
        ("x", None),
        ("x if y is None else [x]", None),
        ("unknown(x)", None),
    ],
)
@pytest.mark.parametrize("stub", ["quant", "dequant"])
def test_no_tensor(argument: str, kind: str | None, stub: str) -> None:
    found = facts(f"self.{stub}({argument})\nreturn x").unfit
    assert list(found.values()) == ([kind] if kind is not None else [])


@pytest.mark.parametrize(
    ("value", "leaves"),
    [
        ("q", [("q", None, "quantized")]),
        ("self.dequant(q)", [(None, None, "float")]),
        ("q, self.dequant(q)", [("q", None, "quantized"), (None, None, "float")]),
        ("[q, (q, x)]", [("q", None, "quantized"), ("q", None, "quantized"), ("x", None, "float")]),
        ("{'a': q, 'b': x}", [("q", None, "quantized"), ("x", None, "float")]),
        ("out", [("out", "list", "quantized float")]),
        ("dict(a=q)", [(None, "dict", "quantized")]),
        ("[q for _ in range(2)]", [(None, "list", "quantized quantized")]),
        ("None", [("None", None, "")]),
    ],
)
def test_leaves(value: str, leaves: list[tuple[str | None, str | None, str]]) -> None:
    (returned,) = facts(f"q = self.quant(x)\nout = [q, x]\nreturn {value}").returns
    found = []
    for leaf in returned.leaves:
        items = leaf.value.items if isinstance(leaf.value, TupleValue) else (leaf.value,)
        domains = [item.domain.value for item in items if isinstance(item, Tensor)]
        found.append((leaf.name, leaf.container, " ".join(domains)))
    assert found == leaves


def test_each_return_statement_is_one() -> None:
    found = facts("if y is None:\n    return x\nreturn self.quant(x)")
    assert len({returned.span for returned in found.returns}) == 2


def test_inputs() -> None:
    assert [each.name for each in facts("return x").inputs] == ["x", "y"]


@pytest.mark.parametrize(
    "use",
    [
        "out.softmax(1)",
        "torch.softmax(out, 1)",
        "out + 1",
        "out.view(-1)[0].sum()",
        "nn.CrossEntropyLoss()(out, batch)",
        "[o.argmax() for o in out]",
        "out['logits'].argmax()",
        "def show(out):\n    return out.exp()\nshow(out)",
    ],
)
def test_uses_of_a_result(use: str) -> None:
    (script,) = analysis("return self.fc(self.quant(x))", use).scripts
    assert len(script.uses) >= 1


@pytest.mark.parametrize(
    "use",
    [
        "out.dequantize().softmax(1)",
        "out.max(1)",
        "out.view(-1)",
        "net(batch).softmax(1)",
        "unknown(out).softmax(1)",
        "if out.is_quantized:\n    out = out.dequantize()\nout.softmax(1)",
    ],
)
def test_harmless_uses_of_a_result(use: str) -> None:
    (script,) = analysis("return self.fc(self.quant(x))", use).scripts
    assert script.uses == []


def test_the_result_of_one_model_in_another() -> None:
    found = analysis("return self.fc(self.quant(x))", "other = tq.prepare(Net())\nother(out)")
    flags = {(each.context.fed, each.context.feeds) for each in found.facts if not each.context.assumed}
    assert flags == {(True, False), (False, True)}
    fed = next(each for each in found.facts if each.context.fed)
    first = next(iter(fed.op_calls.values()))
    value = first.alternatives[0].operands[0].value
    assert isinstance(value, Tensor) and value.domain is Domain.UNKNOWN
