"""The edit builder: text, calls, statements, submodules, imports; what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst
import pytest

from qlsp.backends.torch_eager import EAGER
from qlsp.diagnostics import Applicability, Message, NoFix
from qlsp.project import Project
from qlsp.syntax.edits import CodeView, EditBuilder, merged
from qlsp.syntax.parse import walk
from qlsp.text import Edit, Span, apply
from qlsp.values.value import SpanId

FLOAT_FUNCTIONAL = "torch.ao.nn.quantized.FloatFunctional"
QUANT_STUB = "torch.ao.quantization.QuantStub"


@dataclass
class Bench:
    """A builder on some files, and places in them by their source."""

    texts: dict[str, str]

    def __post_init__(self) -> None:
        self.project = Project((), self.texts)
        for path in self.texts:
            self.project.load(path)
        self.edit = EditBuilder(CodeView(self.project.modules, EAGER.canonical))

    def at(self, source: str, path: str = "net.py", number: int = 0) -> SpanId:
        """The expression (or statement) with this source."""
        module = self.project.module_at(path)
        assert module is not None
        found = []
        for unit in module.syntax.all_units.values():
            if unit.members:
                continue
            for node in walk(unit.node):
                if isinstance(node, (cst.BaseExpression, cst.BaseStatement, cst.BaseSmallStatement)):
                    ordinal = unit.ordinal(node)
                    if unit.source(unit.span(ordinal)) == source:
                        found.append(SpanId(path, unit.index, ordinal))
        return sorted(found, key=self._rank)[number]

    def _rank(self, span: SpanId) -> bool:
        """Expressions before the statements they are."""
        module = self.project.module_at(span.path)
        assert module is not None
        return not isinstance(module.syntax.all_units[span.unit].node_at(span.ordinal), cst.BaseExpression)

    def result(self, path: str = "net.py") -> str:
        fix = self.edit.fix(Message.of("x"), Message.of("x"), Applicability.SAFE)
        assert all(edit.path in self.texts for edit in fix.edits)
        return apply(self.texts[path], [edit for edit in fix.edits if edit.path == path])


def edited(text: str, change: Callable[[Bench], object]) -> str:
    bench = Bench({"net.py": text})
    change(bench)
    return bench.result()


# Calls


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(x)", "f(x, k=1)"),
        ("f()", "f(k=1)"),
        ("f(x,)", "f(x, k=1,)"),
        ("f((x))", "f((x), k=1)"),
        ("f(\n    x,  # why\n)", "f(\n    x, k=1,  # why\n)"),
        ("f(*xs)", "f(*xs, k=1)"),
        ("(f)(x)", "(f)(x, k=1)"),
        ("f(x)(y)", "f(x)(y, k=1)"),
    ],
)
def test_an_argument_is_added(before: str, after: str) -> None:
    assert edited(f"{before}\n", lambda b: b.edit.add_argument(b.at(before), "k=1")) == f"{after}\n"


def test_no_argument_beside_a_bare_generator() -> None:
    with pytest.raises(NoFix):
        edited("f(x for x in y)\n", lambda b: b.edit.add_argument(b.at("f(x for x in y)"), "k=1"))


@pytest.mark.parametrize(
    ("before", "call", "after"),
    [
        ("def f(q, x):\n    x = q(x)\n    return x\n", "q(x)", "def f(q, x):\n    return x\n"),
        ("def f(q, x):\n    x = q(x)\n", "q(x)", "def f(q, x):\n    pass\n"),
        ("y = q(x)\n", "q(x)", "y = x\n"),
        ("y = q(a + b)\n", "q(a + b)", "y = a + b\n"),
        ("y = q(a + b).relu()\n", "q(a + b)", "y = (a + b).relu()\n"),
        ("y = q(a).relu()\n", "q(a)", "y = a.relu()\n"),
        ("y = (q(x))\n", "q(x)", "y = x\n"),
        ("y = q(\n    a +\n    b\n)\n", "q(\n    a +\n    b\n)", "y = (a +\n    b)\n"),
        ("y = q((a +\n  b))\n", "q((a +\n  b))", "y = (a +\n  b)\n"),
        ("y = q(\n    x,  # why\n)\n", "q(\n    x,  # why\n)", "y = (\n    x  # why\n)\n"),
        ("y = q(x for x in z)\n", "q(x for x in z)", "y = (x for x in z)\n"),
        ("f([q(x), 1])\n", "q(x)", "f([x, 1])\n"),
    ],
)
def test_a_call_becomes_its_argument(before: str, call: str, after: str) -> None:
    assert edited(before, lambda b: b.edit.unwrap_call(b.at(call))) == after


@pytest.mark.parametrize("call", ["q(x, y)", "q()", "q(*x)"])
def test_only_a_call_with_one_argument_becomes_it(call: str) -> None:
    with pytest.raises(NoFix):
        edited(f"y = {call}\n", lambda b: b.edit.unwrap_call(b.at(call)))


def test_what_a_call_is_made_of() -> None:
    bench = Bench({"net.py": "torch.cat([a, (b)], dim=1)\nf(*xs)\n[g(h) for h in i]\n"})
    call = bench.edit.call(bench.at("torch.cat([a, (b)], dim=1)"))
    assert call.spelling == "torch.cat" and bench.edit.text(call.function) == "torch.cat"
    tensors, dim = call.argument(0, "tensors"), call.argument(1, "dim", "axis")
    assert tensors is not None and tensors.elements is not None and dim is not None
    assert [bench.edit.text(each.place) for each in tensors.elements] == ["a", "(b)"]
    assert (dim.keyword, dim.value.text) == ("dim", "1")
    with pytest.raises(NoFix):
        bench.edit.call(bench.at("f(*xs)")).argument(0)


# Statements

BLOCK = "def f():\n\tone()  # 1\r\n\t# about two\r\n\ttwo()\r\n\tthree()"


def test_statements_are_inserted_in_the_style_of_their_neighbours() -> None:
    result = edited(BLOCK, lambda b: b.edit.insert_before(b.at("two()"), "new()"))
    assert result == BLOCK.replace("\ttwo()", "\tnew()\r\n\ttwo()")
    result = edited(BLOCK, lambda b: b.edit.insert_after(b.at("one()"), "new()"))
    assert result == BLOCK.replace("# 1\r\n", "# 1\r\n\tnew()\r\n")
    result = edited(BLOCK, lambda b: b.edit.insert_after(b.at("three()"), "new()"))
    assert result == BLOCK + "\r\n\tnew()"


def test_statements_are_deleted_and_moved() -> None:
    result = edited(BLOCK, lambda b: b.edit.delete_statement(b.at("two()")))
    assert result == BLOCK.replace("\ttwo()\r\n", "")
    result = edited(BLOCK, lambda b: b.edit.move_statement(b.at("three()"), b.at("two()")))
    assert result == "def f():\n\tone()  # 1\r\n\t# about two\r\n\tthree()\r\n\ttwo()\r\n"


def test_deleting_a_whole_block_leaves_pass() -> None:
    def change(bench: Bench) -> None:
        bench.edit.delete_statement(bench.at("a()"))
        bench.edit.delete_statement(bench.at("b()"))

    assert edited("if x:\n    a()\n    b()\n", change) == "if x:\n    pass\n"


@pytest.mark.parametrize("text", ["a(); b()\n", "if x: a()\n", "y = 1; a()\n"])
def test_a_statement_that_shares_its_line_stays(text: str) -> None:
    with pytest.raises(NoFix):
        edited(text, lambda b: b.edit.delete_statement(b.at("a()")))


def test_overlapping_edits_are_no_fix() -> None:
    one, other = Edit("net.py", Span(0, 5), "a"), Edit("net.py", Span(3, 6), "b")
    with pytest.raises(NoFix):
        merged([one, other])
    assert merged([one, one]) == (one,)
    first, second = Edit("net.py", Span(7, 7), "1"), Edit("net.py", Span(7, 7), "2")
    assert merged([second, one, first]) == (one, Edit("net.py", Span(7, 7), "21"))


# Submodules and names

NET = """\
import torch
from torch import nn
from torch.ao.quantization import QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.a = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        return self.a(self.quant(x))
"""


def with_submodule(text: str, hint: str = "cat", **files: str) -> str:
    bench = Bench({"net.py": text, **{f"{name}.py": content for name, content in files.items()}})
    bench.edit.add_submodule(bench.at("self.quant(x)"), hint, FLOAT_FUNCTIONAL)
    return bench.result()


def test_a_submodule_stands_behind_its_neighbours_and_is_imported() -> None:
    expected = NET.replace(
        "nn.Conv2d(3, 3, 1)\n", "nn.Conv2d(3, 3, 1)\n        self.cat = FloatFunctional()\n"
    ).replace("from torch.ao.q", "from torch.ao.nn.quantized import FloatFunctional\nfrom torch.ao.q", 1)
    assert with_submodule(NET) == expected


@pytest.mark.parametrize(
    ("line", "spelling", "imported"),
    [
        ("from torch.ao.nn.quantized import FloatFunctional", "FloatFunctional", None),
        ("from torch.ao.nn.quantized import FloatFunctional as FF", "FF", None),
        ("import torch.ao.nn.quantized as nnq", "nnq.FloatFunctional", None),
        ("from torch.nn import quantized as q", "q.FloatFunctional", None),
        ("from torch.ao.nn import quantized", "quantized.FloatFunctional", None),
        (
            "from torch.ao.nn.quantized import QFunctional",
            "FloatFunctional",
            "from torch.ao.nn.quantized import FloatFunctional, QFunctional",
        ),
        (
            "from torch.ao.nn.quantized import QFunctional, FXFloatFunctional",
            "FloatFunctional",
            "from torch.ao.nn.quantized import QFunctional, FXFloatFunctional, FloatFunctional",
        ),
        (
            "from torch.ao.nn.quantized import DeQuantize, QFunctional as QF, Quantize as Q",
            "FloatFunctional",
            "from torch.ao.nn.quantized import DeQuantize, FloatFunctional, QFunctional as QF, Quantize as Q",
        ),
        ("import numpy", "FloatFunctional", "from torch.ao.nn.quantized import FloatFunctional"),
    ],
)
def test_a_class_is_spelled_as_the_file_imports_it(line: str, spelling: str, imported: str | None) -> None:
    result = with_submodule(NET.replace("import torch\n", f"import torch\n{line}\n", 1))
    assert f"self.cat = {spelling}()\n" in result
    assert result.count("import") - NET.count("import") == (1 if imported is None or "QFunc" in imported else 2)
    if imported is not None:
        assert f"{imported}\n" in result


def test_long_spellings_and_old_namespaces_follow_the_file() -> None:
    long = NET.replace("from torch.ao.quantization import QuantStub\n", "").replace(
        "QuantStub()", "torch.ao.quantization.QuantStub()"
    )
    assert "self.cat = torch.ao.nn.quantized.FloatFunctional()\n" in with_submodule(long)
    old = NET.replace("torch.ao.quantization", "torch.quantization")
    assert "from torch.nn.quantized import FloatFunctional\n" in with_submodule(old)


@pytest.mark.parametrize(
    "extra",
    [
        "        self.cat = None\n",
        "        self.register_buffer('cat', None)\n",
        "\n    def cat(self):\n        pass\n",
        "\n    cat = 1\n",
    ],
)
def test_a_name_in_use_is_not_taken(extra: str) -> None:
    text = NET.replace("nn.Conv2d(3, 3, 1)\n", f"nn.Conv2d(3, 3, 1)\n{extra}", 1)
    assert "self.cat_2 = FloatFunctional()" in with_submodule(text)


def test_names_of_subclasses_bases_and_users_are_respected() -> None:
    sub = "from net import Net\n\n\nclass Sub(Net):\n    def forward(self, x):\n        self.cat = x\n"
    assert "self.cat_2 = " in with_submodule(NET, sub=sub)
    base = "from torch import nn\n\n\nclass Base(nn.Module):\n    cat = None\n"
    text = NET.replace("class Net(nn.Module)", "from base import Base\nclass Net(Base)")
    assert "self.cat_2 = " in with_submodule(text, base=base)
    user = "from net import Net\n\nnet = Net()\nnet.cat = 3\n"
    assert "self.cat_2 = " in with_submodule(NET, user=user)
    other = "class Other:\n    def f(self):\n        self.cat = 1\n"
    assert "self.cat = " in with_submodule(NET, other=other)


def test_kin_is_told_by_imports() -> None:
    own = "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n\n\n"
    sub = "class Sub(Net):\n    def __init__(self):\n        self.cat = 1\n"
    assert "self.cat = " in with_submodule(NET, other=own + sub)
    with pytest.raises(NoFix):
        with_submodule(NET, other=f"from net import Net\n\n\n{sub}")
    with pytest.raises(NoFix):
        with_submodule(NET, other=f"import net as n\n\n\n{sub}".replace("(Net)", "(n.Net)"))
    with pytest.raises(NoFix):
        with_submodule(
            NET,
            again="from net import Net as Base\n",
            other=f"from again import Base\n\n\n{sub}".replace("(Net)", "(Base)"),
        )


def test_module_attributes_are_never_names() -> None:
    assert "self.half_2 = " in with_submodule(NET, "half")


@pytest.mark.parametrize("line", ["self.apply(init)", "for m in self.modules(): init(m)", "self._reset()", "return"])
def test_a_submodule_stands_before_what_looks_at_the_model(line: str) -> None:
    text = NET.replace("3, 1)\n", f"3, 1)\n        {line}\n        self.late = nn.ReLU()\n", 1)
    assert f"self.cat = FloatFunctional()\n        {line}\n" in with_submodule(text)


def test_a_class_of_methods_alone_gets_a_constructor() -> None:
    text = NET[: NET.index("    def __init__")] + NET[NET.index("    def forward") :]
    made = "    def __init__(self):\n        super().__init__()\n        self.cat = FloatFunctional()\n\n    def "
    assert made in with_submodule(text)


@pytest.mark.parametrize(
    "text",
    [
        NET.replace("    def __init__(self):", "    def setup(self):"),
        NET.replace("        super().__init__()\n", ""),
        NET + "\n\nclass Sub(Net):\n    def __init__(self):\n        nn.Module.__init__(self)\n",
        NET.replace("    def forward", "    @staticmethod\n    def forward"),
        NET.replace("    def forward(self, x):\n        return", "    def forward(self, x):\n        return lambda x:"),
        NET + "\n\nFloatFunctional = 3\n",
    ],
    ids=["started elsewhere", "no super init", "bypassed", "static", "lambda", "name of something else"],
)
def test_where_no_submodule_can_be_added(text: str) -> None:
    with pytest.raises(NoFix):
        with_submodule(text)


def test_a_submodule_that_only_the_fix_uses_goes() -> None:
    def remove(text: str, **files: str) -> bool:
        bench = Bench({"net.py": text, **{f"{name}.py": content for name, content in files.items()}})
        cls = bench.edit.method(bench.at("self.quant(x)")).cls
        return bench.edit.remove_submodule(cls, "quant")

    assert remove(NET)
    assert not remove(NET + "\n\nprint(Net().quant)\n")
    assert not remove(NET, user="import net\nnet.Net().quant.qconfig = None\n")
    assert remove(NET, other="class Other:\n    def f(self):\n        self.quant = 1\n")
    assert not remove(NET.replace("        self.quant = Q", "        if True:\n            self.quant = Q"))


@pytest.mark.parametrize(
    ("line", "gone", "left"),
    [
        ("self.q, self.r = A(), B()", "q", "self.r = B()"),
        ("self.q, self.r = A(), B()", "r", "self.q = A()"),
        ("self.q, self.r = A(), B()  # two", "r", "self.q = A()  # two"),
        ("self.q, self.r, self.s = A(1, 2), B(), (C)", "r", "self.q, self.s = A(1, 2), (C)"),
        ("self.q, self.r, self.s = A(), B(), C()", "q s", "self.r = B()"),
        ("(self.q, self.r) = (A(), B())", "q", "self.r = B()"),
        ("self.q, self.r = A(), B()", "q r", ""),
        ("self.q, self.r = (\n            A(),\n            B(),\n        )", "q", None),
        ("self.q, self.r = pair", "q", None),
        ("self.q, *self.r = A(), B()", "q", None),
        ("self.q, r = A(), B()", "q", None),
    ],
)
def test_a_submodule_goes_from_an_assignment_of_several(line: str, gone: str, left: str | None) -> None:
    text = NET.replace("self.a = nn.Conv2d(3, 3, 1)", line)
    bench = Bench({"net.py": text})
    cls = bench.edit.method(bench.at("self.quant(x)")).cls
    assert {bench.edit.remove_submodule(cls, name, 0) for name in gone.split()} == {left is not None}
    if left is None:
        return
    fix = bench.edit.fix(Message.of("title"), Message.of("reason"), Applicability.SAFE)
    assert apply(text, fix.edits) == text.replace(f"        {line}\n", f"        {left}\n" if left else "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = self.quant(x)\nreturn f([y])", True),
        ("y = self.quant(x)\nprint(y)\nreturn f([y])", False),
        ("x = self.quant(x)\nreturn f([x])", True),
        ("y = self.quant(x)\nz = f([y])\nreturn y", False),
        ("y = self.quant(x)\ny = f([y])\nreturn y", True),
        ("y = self.quant(x)\nif x:\n    return f([y])", False),
        ("y = self.quant(x)\ng = lambda: y\nreturn f([y])", False),
        ("return f([self.quant(x)])", True),
    ],
)
def test_a_value_that_is_read_once(body: str, expected: bool) -> None:
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    bench = Bench({"net.py": f"class Net:\n    def forward(self, x):\n{lines}\n"})
    source = next(s for s in ("f([y])", "f([x])", "f([self.quant(x)])") if s in body)
    call = bench.edit.call(bench.at(source))
    elements = call.arguments[0].elements
    assert elements is not None
    assert bench.edit.feeds_only(bench.at("self.quant(x)"), bench.at(source), elements[0]) is expected
