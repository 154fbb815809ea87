"""Which fixes the rules about the boundary offer, and where they must not."""

from __future__ import annotations

from textwrap import indent

import pytest
from contract import problems

from qlsp.config import Config
from qlsp.diagnostics import Applicability, Fix
from qlsp.engine import check

HEAD = """\
import torch
import torch.ao.quantization as tq
from torch import nn
from torch.ao.nn.quantized import FloatFunctional

"""


def offered(code: str, init: str, forward: str, rest: str = "", params: str = "x") -> list[Fix]:
    """The fixes of the only finding of a rule in a class."""
    text = f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    text += indent(init, "        ") + f"\n\n    def forward(self, {params}):\n" + indent(forward, "        ")
    text += f"\n\n{rest}\n"
    found = check(["net.py"], Config(), {"net.py": text}).diagnostics
    (diagnostic,) = [each for each in found if each.code == code]
    return list(diagnostic.fixes)


def applicabilities(fixes: list[Fix]) -> list[str]:
    return [fix.applicability.value for fix in fixes]


BOTH = "self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()\n"
HEADED = BOTH + "self.body = nn.Linear(8, 8)\nself.head = nn.Linear(8, 4)"
BEHIND = "x = self.dequant(self.body(self.quant(x)))\nreturn self.head(x)"

PREPARE = """
def quantized(batches):
    net = Net().eval()
    {}
    net = tq.prepare(net)
    for batch in batches:
        net(batch)
    return tq.convert(net)
"""


def test_a_layer_behind_the_stub_stays_float() -> None:
    assert applicabilities(offered("QL205", HEADED, BEHIND)) == ["safe"]
    rest = PREPARE.format('net.qconfig = tq.get_default_qconfig("x86")')
    assert applicabilities(offered("QL205", HEADED, BEHIND, rest)) == ["safe"]


@pytest.mark.parametrize(
    "lines",
    [
        "net.qconfig = net.head.qconfig = tq.default_qconfig",
        "net.head.qconfig = tq.default_qconfig\n    net.qconfig = tq.default_qconfig",
        "for module in net.modules():\n        module.qconfig = tq.default_qconfig",
        "for name, part in net.named_children():\n        part.qconfig = tq.default_qconfig",
        "for part in net.children():\n        setattr(part, 'qconfig', tq.default_qconfig)",
        "net.qconfig = tq.default_qconfig\n    net = tq.fuse_modules(net, [['head', 'act']])",
        "net.qconfig = tq.default_qconfig\n    tq.propagate_qconfig_(net)",
    ],
)
def test_a_setting_that_would_be_lost_is_not_offered(lines: str) -> None:
    init = HEADED + "\nself.act = nn.ReLU()"
    forward = "x = self.dequant(self.body(self.quant(x)))\nreturn self.act(self.head(x))"
    assert offered("QL205", init, forward, PREPARE.format(lines)) == []


def test_a_layer_of_both_regions_is_not_left_float() -> None:
    forward = "x = self.dequant(self.body(self.quant(x)))\nreturn self.body(x)"
    assert offered("QL205", HEADED, forward) == []


STUB = "self.dequant = tq.DeQuantStub()\nself.fc = nn.Linear(8, 4)"


@pytest.mark.parametrize(
    ("init", "call", "expected"),
    [
        ("self.stubs = [tq.QuantStub()]", "self.stubs[0](x)", ["safe"]),
        ("self.stubs = (tq.QuantStub(),)", "self.stubs[0](x)", ["safe"]),
        ("self.stubs = {'a': tq.QuantStub()}", "self.stubs['a'](x)", ["safe"]),
        ("self.stubs = {'type': tq.QuantStub()}", "self.stubs['type'](x)", []),
        ("self.stubs = {'items': tq.QuantStub()}", "self.stubs['items'](x)", []),
        ("self.stubs = {'a.b': tq.QuantStub()}", "self.stubs['a.b'](x)", []),
        ("self.stubs = {0: tq.QuantStub()}", "self.stubs[0](x)", []),
        ("self.stubs = {'a': tq.QuantStub()}", "self.stubs.get('a')(x)", []),
        ("self.stubs = [tq.QuantStub()]\nself.stubs.reverse()", "self.stubs[0](x)", []),
        ("self.stubs = [tq.QuantStub()]", "(self.stubs + [])[0](x)", []),
        ("self.stubs = [tq.QuantStub(), nn.Linear(8, 8)]", "self.stubs[0](x)", []),
        ("self.stubs = [tq.QuantStub(), None]", "self.stubs[0](x)", []),
        ("self.stubs = [tq.QuantStub()] * 2", "self.stubs[0](x)", []),
        ("stubs = [tq.QuantStub()]\nself.stubs = stubs", "self.stubs[0](x)", ["safe"]),
        ("stubs = []\nstubs.append(tq.QuantStub())\nself.stubs = stubs", "self.stubs[0](x)", ["safe"]),
        ("stubs = [tq.QuantStub()]\nself.stubs = stubs\nprint(stubs)", "self.stubs[0](x)", []),
        ("stubs = [tq.QuantStub()]\nstubs.extend(stubs)\nself.stubs = stubs", "self.stubs[0](x)", []),
        ("stub = tq.QuantStub()\nstubs = []\nstubs.append(stub)\nself.stubs = stubs", "self.stubs[0](x)", []),
        ("self.stubs = other = [tq.QuantStub()]", "self.stubs[0](x)", []),
    ],
)
def test_containers(init: str, call: str, expected: list[str]) -> None:
    fixes = offered("QL207", f"{init}\n{STUB}", f"return self.dequant(self.fc({call}))")
    assert applicabilities(fixes) == expected


def test_a_container_before_the_module_starts_is_left() -> None:
    text = HEAD + "class Net(nn.Module):\n    def __init__(self):\n        self.stubs = [tq.QuantStub()]\n"
    text += "        super().__init__()\n" + indent(STUB, "        ")
    text += "\n\n    def forward(self, x):\n        return self.dequant(self.fc(self.stubs[0](x)))\n"
    found = check(["net.py"], Config(), {"net.py": text}).diagnostics
    assert [(each.code, each.fixes) for each in found] == [("QL207", ())]


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("stub = tq.QuantStub()\nreturn self.dequant(self.fc(stub(x)))", ["safe"]),
        ("self.stub = tq.QuantStub()\nreturn self.dequant(self.fc(self.stub(x)))", ["safe"]),
        ("stub = tq.QuantStub(qconfig=None)\nreturn self.dequant(self.fc(stub(x)))", []),
        ("stub = tq.QuantStub()\nfor _ in range(2):\n    x = stub(x)\nreturn self.dequant(self.fc(x))", []),
        ("stub = tq.QuantStub()\nstub(x + 1)\nreturn self.dequant(self.fc(stub(x)))", []),
    ],
)
def test_stubs_of_forward(forward: str, expected: list[str]) -> None:
    assert applicabilities(offered("QL207", STUB, forward)) == expected


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("self.quant(x)\nreturn self.dequant(self.fc(x))", ["safe"]),
        ("q = self.quant(x)\nreturn self.dequant(self.fc(x))", ["safe"]),
        ("self.quant(x)\nscale = x.abs()\nreturn self.dequant(self.fc(x)) * scale.max()", []),
        ("y = x\nself.quant(x)\nreturn self.dequant(self.fc(y))", []),
        ("for _ in range(2):\n    self.quant(x)\nreturn self.dequant(self.fc(x))", []),
        ("self.quant(x + 1)\nreturn self.dequant(self.fc(x + 1))", []),
    ],
)
def test_dropped_results(forward: str, expected: list[str]) -> None:
    init = BOTH + "self.fc = nn.Linear(8, 4)"
    assert applicabilities(offered("QL206", init, forward)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("self.fc(x)", ["safe"]),
        ("[self.fc(x), self.fc(x)]", ["safe"]),
        ("{'a': self.fc(x)}", ["safe"]),
        ("[self.fc(each) for each in (x, x)]", ["unsafe"]),
        ("dict(a=self.fc(x))", []),
        ("tuple(self.fc(each) for each in (x, x))", []),
    ],
)
def test_what_leaves(value: str, expected: list[str]) -> None:
    fixes = offered("QL204", BOTH + "self.fc = nn.Linear(8, 4)", f"x = self.quant(x)\nreturn {value}")
    assert applicabilities(fixes) == expected


def test_no_dequantstub_in_a_class_that_is_a_part_of_a_model_too() -> None:
    rest = (
        """
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.dequant, self.fc = Net(), tq.DeQuantStub(), nn.Linear(4, 4)

    def forward(self, x):
        return self.dequant(self.fc(self.inner(x)))
"""
        + PREPARE.format("net.qconfig = tq.default_qconfig")
        + "    out = 1\n"
    )
    text = "return self.fc(self.quant(x))"
    with pytest.raises(ValueError):
        offered("QL204", BOTH + "self.fc = nn.Linear(8, 4)", text, rest)


@pytest.mark.parametrize(
    ("forward", "params", "expected"),
    [
        ("return self.dequant(self.fc(x))", "x", [Applicability.SAFE]),
        ("return self.dequant(self.add.add(x, y))", "x, y", [Applicability.UNSAFE]),
        ("for _ in range(2):\n    x = self.fc(x)\nreturn self.dequant(x)", "x", []),
        ("return self.dequant(self.fc(*x))", "x", []),
    ],
)
def test_what_enters(forward: str, params: str, expected: list[Applicability]) -> None:
    init = "self.dequant = tq.DeQuantStub()\nself.fc = nn.Linear(8, 8)\nself.add = FloatFunctional()"
    assert [fix.applicability for fix in offered("QL203", init, forward, params=params)] == expected


STUBS = f"{BOTH}self.fc = nn.Linear(8, 8)"
TOKENS = f"{STUBS}\nself.table = nn.Embedding(10, 8)\nself.q_ids = tq.QuantStub()\nself.table.qconfig = None"
FITTING = {
    "an index": (
        STUBS + "\nself.q = tq.QuantStub()",
        "i = self.q(x.argmax(0))\nreturn self.dequant(self.fc(self.quant(x)))[i]",
    ),
    "an embedding before a stub": (
        TOKENS,
        "x = self.table(self.q_ids(x))\nreturn self.dequant(self.fc(self.quant(x)))",
    ),
    "members with names": (STUBS, "x, y = self.quant((x, x + 1))\nreturn self.dequant(self.fc(x)), self.dequant(y)"),
}
UNFIT = {
    "the only stub": (
        STUBS.replace("quant, self.dequant = tq.QuantStub(), ", "q_ids, self.dequant = tq.QuantStub(), ")
        + "\nself.table = nn.Embedding(10, 8)\nself.table.qconfig = None",
        "return self.dequant(self.fc(self.table(self.q_ids(x))))",
    ),
    "a layer without a stub": (TOKENS, "y = self.table(self.q_ids(x))\nreturn self.fc(y), self.dequant(self.quant(y))"),
    "a sum with quantized tensors": (
        f"{STUBS}\nself.q = tq.QuantStub()",
        "y = self.fc(self.quant(x))\nreturn self.dequant(y * self.q(x > 0))",
    ),
    "a member that is returned": (STUBS, "x, h = self.quant((x, x + 1))\nreturn self.dequant(self.fc(x)), h"),
    "members that are concatenated": (
        STUBS,
        "a, b = self.quant((x, x + 1))\nreturn self.dequant(torch.cat([a, b], 1))",
    ),
    "a mask among the members": (
        STUBS,
        "x, m = self.quant((x, x > 0))\nreturn self.dequant(self.fc(x)), self.dequant(m)",
    ),
    "members that a loop reads": (STUBS, "xs = self.quant([x, x + 1])\nreturn [self.dequant(self.fc(x)) for x in xs]"),
    "a stub with other calls": (
        STUBS,
        "x, y = self.quant((x, x + 1))\nz = self.quant(x * 2)\nreturn self.dequant(self.fc(x)), self.dequant(y), z",
    ),
    "one member twice": (STUBS, "x, y = self.quant((x, x))\nreturn self.dequant(self.fc(x)), self.dequant(y)"),
}


@pytest.mark.parametrize("case", FITTING)
def test_a_stub_on_no_float_tensor_goes(case: str) -> None:
    init, forward = FITTING[case]
    assert applicabilities(offered("QL208", init, forward)) == ["unsafe"]


@pytest.mark.parametrize("case", UNFIT)
def test_a_stub_on_no_float_tensor_stays_where_another_mistake_would_show(case: str) -> None:
    init, forward = UNFIT[case]
    assert not offered("QL208", init, forward)


FAMILY = """
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub, convert, default_qconfig, prepare


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.fc = nn.Linear(8, 8)

    def _run(self, x):
        return self.fc(self.conv(x).mean([2, 3]))

    def forward(self, x):
        return self._run(x)


class Quantizable(Net):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()

    def forward(self, x):
        return self.dequant(self._run(self.quant(x)))


def quantized(batch):
    net = Quantizable().eval()
    net.qconfig = default_qconfig
    net = prepare(net)
    net(batch)
    return convert(net)
"""


@pytest.mark.parametrize("float_model", ["", "\n\ndef plain():\n    return Net()\n"])
def test_no_stub_in_a_base_class_that_is_a_float_model_too(float_model: str) -> None:
    texts = {"test.py": FAMILY + float_model}
    found = [each for each in check(list(texts), Config(), texts).diagnostics if each.code == "QL412"]
    assert [bool(each.fixes) for each in found] == [not float_model]
    assert not list(problems(texts, Config()))
