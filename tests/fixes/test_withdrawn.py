"""Fixes that are not offered, or written otherwise, because something around the mistake would break."""

from __future__ import annotations

import pytest
import torch
from contract import fixed_texts, module_of, problems
from under_torch import quantize, quiet

from qlsp.config import Config
from qlsp.diagnostics import Applicability, Fix
from qlsp.engine import check
from qlsp.fixing import fix_texts

NAME = "net.py"
NET = """import torch
import torch.ao.quantization as tq
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.conv = nn.Conv2d(4, 4, 1)
        {init}
        self.dequant = DeQuantStub()

    def forward(self, x):
        x = self.quant(x)
        {body}
        return self.dequant(x)
"""


def net(init: str, body: str, rest: str = "") -> str:
    lines = {"init": init.replace("\n", "\n        "), "body": body.replace("\n", "\n        ")}
    return NET.format(**lines) + rest


def offered(text: str, code: str) -> list[Fix]:
    """The fixes of one rule that may be applied, all of which keep the contract."""
    assert list(problems({NAME: text}, Config())) == []
    found = [d for d in check([NAME], Config(), {NAME: text}).diagnostics if d.code == code]
    assert found
    return [fix for d in found for fix in d.fixes if fix.applicability is not Applicability.DISPLAY]


KEPT = "self.adds = [FloatFunctional() for _ in range(2)]"
SUMS = "for add in self.adds:\n    x = add.add(self.conv(x), x)"


@pytest.mark.parametrize(
    ("init", "body", "rest"),
    [
        (KEPT + "\nself.adds.pop()", SUMS, ""),
        (KEPT, "assert isinstance(self.adds, list)\n" + SUMS, ""),
        (KEPT, "if self.adds == []:\n    x = self.conv(x)\n" + SUMS, ""),
        (KEPT, "adds = self.adds\nadds.reverse()\n" + SUMS, ""),
        (KEPT, SUMS, "\n\ndef count(net):\n    adds = net.adds  # all\n    return len(adds.copy())\n"),
    ],
)
def test_a_list_that_is_used_as_one_stays(init: str, body: str, rest: str) -> None:
    assert offered(net(init, body, rest), "QL406") == []


@pytest.mark.parametrize(
    "body", ["adds = self.adds\nfor add in adds:\n    x = add.add(self.conv(x), x)", "print(len(self.adds))\n" + SUMS]
)
def test_a_list_that_is_only_walked_becomes_a_module_list(body: str) -> None:
    (fix,) = offered(net(KEPT, body), "QL406")
    assert fix.applicability is Applicability.SAFE


RELU = ("self.relu = nn.ReLU()", "x = self.relu(self.conv(x) + x)")


@pytest.mark.parametrize(
    "rest",
    [
        "\n\ndef watch(net, hook):\n    net.relu.register_forward_hook(hook)\n",
        "\n\ndef both(net):\n    return nn.Sequential(net.conv, net.relu)\n",
        "\n\ndef last(net):\n    act = net.relu\n    return act\n",
    ],
)
def test_a_relu_that_others_hold_stays_behind_the_sum(rest: str) -> None:
    text = net(*RELU, rest)
    (fix,) = offered(text, "QL401")
    assert "x = self.relu(self.add.add(self.conv(x), x))" in fixed_texts({NAME: text}, fix)[NAME]


@pytest.mark.parametrize(
    "rest",
    [
        "\n\ndef clip(x):\n    act = torch.relu\n    return act(x)\n",
        "\n\nclass Other(nn.Module):\n    def last(self):\n        return self.relu\n",
    ],
)
def test_a_relu_that_others_only_name_alike_goes(rest: str) -> None:
    text = net(*RELU, rest)
    (fix,) = offered(text, "QL401")
    assert "self.add.add_relu(self.conv(x), x)" in fixed_texts({NAME: text}, fix)[NAME]


BLOCK = """

class Base(nn.Module):
    def __init__(self, channels{default}):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 1)

{between}
class Block(Base):
    def forward(self, x, y):
        return self.conv(x) + y
"""


@pytest.mark.parametrize(
    ("before", "default", "between", "count"),
    [
        ("", "=4", "", 1),
        ("", ": int = 4", "", 1),
        ("\n\nWIDTH = 4\n", "=WIDTH", "", 1),
        ("\n\nWIDTH = 4\n", "=WIDTH", "WIDTH = 8\n\n", 0),
        ("", "=4, norm=nn.BatchNorm2d", "", 1),
        ("", "=4, act=nn.ReLU()", "", 0),
        ("", "=4, act=nn.Conv2d(1, 1, 1)", "", 0),
    ],
)
def test_parameters_are_copied_where_they_mean_the_same(before: str, default: str, between: str, count: int) -> None:
    block = before + BLOCK.format(default=default, between=between)
    text = net("self.block = Block()", "x = self.block(self.conv(x), x)", block)
    assert len(offered(text, "QL401")) == count


STUBS = {
    "self.stubs = [QuantStub() for _ in range(2)]": "x = self.conv(self.stubs[0](self.dequant(x)))",
    "self.stub = QuantStub": "x = self.conv(self.stub()(self.dequant(x)))",
    "self.count = 1": "x = self.conv(QuantStub()(self.dequant(x)))",
}


@pytest.mark.parametrize("init", STUBS)
def test_a_layer_behind_a_stub_that_is_not_found_is_not_left_float(init: str) -> None:
    text = net(init, STUBS[init])
    assert [d.code for d in check([NAME], Config(), {NAME: text}).diagnostics] == ["QL207"]
    fixed = fix_texts([NAME], Config(), {NAME: text})
    batch = (torch.randn(2, 4, 8, 8),)
    with quiet(), torch.no_grad():
        quantize(module_of(fixed.texts[NAME], NAME).Net().eval(), [batch])(*batch)


DEPLOY = """

def deploy(x):
    m = Net()
    m.qconfig = tq.get_default_qconfig("fbgemm")
{before}    p = tq.prepare(m)
    p.eval()
    p(x)
    return tq.convert(p)(x)
"""


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("", 1),
        ("    m.eval()\n", 0),
        ("    m = m.eval()\n", 0),
        ("    m.train(False)\n", 0),
    ],
)
def test_modules_are_fused_in_eval_mode(before: str, lines: int) -> None:
    text = net("self.bn = nn.BatchNorm2d(4)", "x = self.bn(self.conv(x))", DEPLOY.replace("{before}", before))
    (fix,) = offered(text, "QL503")
    fixed = fixed_texts({NAME: text}, fix)[NAME]
    assert fixed.count("    m.eval()\n    tq.fuse_modules(m,") - before.count("    m.eval()\n") == lines
    with quiet(), torch.no_grad():
        module_of(fixed, NAME).deploy(torch.randn(2, 4, 8, 8))


@pytest.mark.parametrize(("module", "revealed"), [("torch.quantization", ("QL901",)), ("torch.ao.quantization", ())])
def test_a_fix_in_the_style_of_the_file_says_that_it_is_old(module: str, revealed: tuple[str, ...]) -> None:
    text = net("pass", "x = torch.cat([self.conv(x), x], 1)")
    text = text.replace("from torch.ao.nn.quantized import FloatFunctional\n", "").replace(
        "import torch.ao.quantization as tq\n", ""
    )
    fixes = offered(text.replace("torch.ao.quantization", module), "QL101")
    assert fixes[0].reveals == revealed


TRAINED = """

def deploy({parameter}):
    {made}
    m.qconfig = tq.get_default_qconfig("fbgemm")
    {prepared}
    p(torch.ones(1, 4, 8, 8))
    c = tq.convert(p)
    {rest}
    return c
"""
M, COPY = "", "p = tq.prepare(m)"


@pytest.mark.parametrize(
    ("parameter", "prepared", "rest", "applicability"),
    [
        (M, COPY, "pass", Applicability.SAFE),
        (M, COPY, "train(m)", Applicability.UNSAFE),
        (M, "m = p = tq.prepare(m)", "m.eval()", Applicability.SAFE),
        (M, "p = tq.prepare(m, inplace=True)", "check(m)", Applicability.SAFE),
        ("m: Net", COPY, "pass", Applicability.UNSAFE),
    ],
)
def test_the_mode_of_a_model_that_goes_on(
    parameter: str, prepared: str, rest: str, applicability: Applicability
) -> None:
    made = "m.train()" if parameter else "m = Net()"
    script = TRAINED.format(parameter=parameter, made=made, prepared=prepared, rest=rest)
    text = net("self.bn = nn.BatchNorm2d(4)", "x = self.bn(self.conv(x))", script)
    assert [fix.applicability for fix in offered(text, "QL304")] == [applicability]


@pytest.mark.parametrize(
    ("init", "rest", "applicability"),
    [
        ("pass", "", Applicability.SAFE),
        ("self.__dict__.update(scale=2)", "", Applicability.UNSAFE),
        ("pass", "def bare():\n    return Net.__new__(Net)\n", Applicability.UNSAFE),
    ],
)
def test_objects_that_are_put_together_by_hand_make_a_new_submodule_a_doubt(
    init: str, rest: str, applicability: Applicability
) -> None:
    found = offered(net(init, "x = self.conv(x) + x", rest), "QL401")
    assert found and found[0].applicability is applicability
