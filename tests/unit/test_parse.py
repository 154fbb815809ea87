"""Units of a file: trees on demand, numbers and places of nodes, syntax problems, the cache."""

from __future__ import annotations

import ast
import importlib.util
import symtable
import warnings
from collections import Counter
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libcst.metadata import MetadataWrapper, PositionProvider

from qlsp.syntax import parse
from qlsp.syntax.chunks import scan
from qlsp.syntax.parse import ChunkError, FileSyntax, SyntaxProblem, Unit, parse_file, walk
from qlsp.text import LineIndex, Segment, Source, Span

MODEL = '''\
"""Model 😀."""
import torch  # the library
from torch import nn


def conv(cin, cout, k=3):
    """Make a block."""
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, bias=False),  # no bias
        nn.BatchNorm2d(cout),
    )


@register("net")
class Net(nn.Module, Mixin["é"]):  # the model
    """Doc."""

    width: int = 64; depth = 3

    def __init__(self, **kw):
        super().__init__()
        self.stem = (conv(3, self.width))
        self.add = torch.ao.nn.quantized.FloatFunctional()

    @torch.no_grad()
    def forward(self, x: "Tensor") -> "Tensor":
        # a comment
        y = self.stem(x) if x.dim() == 4 else (
            self.stem(x[None])  # another
        )

        return self.add.add(((x)), y), f"{y.shape!r:>{self.width}} 😀 {(x)}"


if __name__ == "__main__":
    net = Net()
    print(net)
'''


def file(text: str, path: str = "m.py") -> FileSyntax:
    return parse_file(Source.from_text(path, text))


def find(unit: Unit, kind: type[cst.CSTNode], text: str) -> Span:
    """The span of the only node of a class with a given source."""
    root = unit.node
    spans = [unit.span(unit.ordinal(node)) for node in walk(root) if isinstance(node, kind)]
    (span,) = [span for span in spans if unit.source(span) == text]
    return span


def test_units_of_a_model() -> None:
    syntax = file(MODEL)
    assert syntax.path == "m.py"
    assert syntax.source.text == MODEL
    assert [(u.index, u.kind, u.name) for u in syntax.units] == [
        (0, "statement", None),
        (1, "statement", None),
        (2, "statement", None),
        (3, "function", "conv"),
        (4, "class", "Net"),
        (9, "statement", None),
    ]
    assert [(u.index, u.kind, u.name) for u in syntax.units[4].members] == [
        (5, "statement", None),
        (6, "statement", None),
        (7, "function", "__init__"),
        (8, "function", "forward"),
    ]
    assert list(syntax.all_units) == list(range(10))
    assert syntax.all_units[7] is syntax.units[4].members[2]
    assert syntax.problems() == ()
    assert all(u.text == MODEL[u.start : u.end] and u.path == "m.py" for u in syntax.all_units.values())


def test_nodes_are_statements() -> None:
    syntax = file(MODEL)
    assert [type(unit.node) for unit in syntax.all_units.values()] == [
        cst.SimpleStatementLine,
        cst.SimpleStatementLine,
        cst.SimpleStatementLine,
        cst.FunctionDef,
        cst.ClassDef,
        cst.SimpleStatementLine,
        cst.SimpleStatementLine,
        cst.FunctionDef,
        cst.FunctionDef,
        cst.If,
    ]


def test_the_node_of_a_class_is_its_header() -> None:
    unit = file(MODEL).units[4]
    node = unit.node
    assert isinstance(node, cst.ClassDef)
    assert cst.Module([]).code_for_node(node) == '@register("net")\nclass Net(nn.Module, Mixin["é"]): pass\n'
    assert unit.source(unit.span(0)) == 'class Net(nn.Module, Mixin["é"]):'
    assert unit.text.startswith("@register") and unit.text.endswith('{(x)}"')


def test_the_node_of_a_class_in_one_line_is_all_of_it() -> None:
    unit = file("x = 1\nclass A(B): a = 1; b = 2\n").units[1]
    node = unit.node
    assert isinstance(node, cst.ClassDef)
    assert len(node.body.body) == 2
    assert unit.members == ()


def test_spans_leave_out_own_parentheses() -> None:
    forward = file(MODEL).all_units[8]
    assert forward.source(find(forward, cst.Arg, "((x))")) == "((x))"
    assert forward.source(find(forward, cst.Call, "self.stem(x[None])")) == "self.stem(x[None])"
    values = [n for n in walk(forward.node) if isinstance(n, cst.Name) and len(n.lpar) == 2]
    span = forward.span(forward.ordinal(values[0]))
    assert MODEL[span.start - 2 : span.end + 2] == "((x))"


def test_the_span_of_a_function_starts_at_def() -> None:
    forward = file(MODEL).all_units[8]
    assert forward.text.startswith("@torch.no_grad()")
    assert forward.source(forward.span(0)).startswith('def forward(self, x: "Tensor")')


def test_ordinals_number_the_walk() -> None:
    for unit in file(MODEL).all_units.values():
        nodes = list(walk(unit.node))
        assert [unit.ordinal(node) for node in nodes] == list(range(len(nodes)))
        assert all(unit.node_at(number) is node for number, node in enumerate(nodes))
        assert nodes[0] is unit.node
    with pytest.raises(KeyError):
        unit.ordinal(cst.Name("x"))
    with pytest.raises(IndexError):
        unit.node_at(10_000)


WHITESPACE = (
    cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Newline, cst.Comment
)  # fmt: skip


def all_nodes(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, WHITESPACE):
        return []
    return [node, *(below for child in node.children for below in all_nodes(child))]


def installed(name: str) -> str:
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    path = Path(spec.submodule_search_locations[0]) / rest
    if not path.exists():
        pytest.skip(f"{name} is not installed")
    return path.read_bytes().decode("utf-8")


FILES = [
    "libcst/_nodes/op.py",
    "json/decoder.py",
    "asyncio/base_events.py",
    "hypothesis/internal/reflection.py",
    "torch/nn/functional.py",
    "torch/testing/_internal/common_quantization.py",
    "torch/ao/quantization/fake_quantize.py",
]


@pytest.mark.parametrize("name", [*FILES[:4], "torch/ao/quantization/fake_quantize.py"])
def test_the_walk_meets_every_node_but_white_space(name: str) -> None:
    module = cst.parse_module(installed(name))
    for statement in module.body:
        nodes = list(walk(statement))
        assert len({id(node) for node in nodes}) == len(nodes)
        assert {id(node) for node in nodes} == {id(node) for node in all_nodes(statement)}


PLACED = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseStatement, cst.Arg, cst.Param, cst.Decorator)
Placed = Counter[tuple[str, int, int]]


def provided_places(text: str) -> Placed:
    """What LibCST says about the nodes of a whole file."""
    index = LineIndex(text)
    places = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True).resolve(PositionProvider)
    return Counter(
        (
            type(node).__name__,
            index.offset(place.start.line, place.start.column + 1),
            index.offset(place.end.line, place.end.column + 1),
        )
        for node, place in places.items()
        if isinstance(node, PLACED) and not isinstance(node, cst.ClassDef)
    )


def unit_places(text: str) -> Placed:
    """What the units say; the body that a class header is given does not count."""
    found: Placed = Counter()
    for unit in file(text).all_units.values():
        skipped = {id(unit.node)}
        if unit.members:
            assert isinstance(unit.node, cst.ClassDef)
            skipped.update(map(id, walk(unit.node.body)))
        for number, node in enumerate(walk(unit.node)):
            if isinstance(node, PLACED) and not (
                isinstance(node, cst.ClassDef) or id(node) in skipped - {id(unit.node)}
            ):
                span = unit.span(number)
                found[type(node).__name__, span.start, span.end] += 1
    return found


@pytest.mark.parametrize("name", FILES)
def test_places_are_those_of_libcst(name: str) -> None:
    text = installed(name)
    assert unit_places(text) == provided_places(text)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", ["    ", "\t", "  "])
def test_places_with_other_line_breaks_and_indentation(newline: str, indent: str) -> None:
    text = MODEL.replace("    ", indent).replace("\n", newline)
    assert unit_places(text) == provided_places(text)
    assert sum(unit_places(text).values()) > 100


STATEMENTS = [
    "x = (a + (b)) * ((c)) ; y = -d",
    "f((a), *b, k=(c), **d)[1:(2), ...].e",
    "@d(1)\n# c\nasync def f(a, /, b: int = 1, *c, d=(2), **e) -> (int):\n    # c\n    return await (a)",
    "if (a):\n    pass\nelif b: c\nelse:\n    # c\n    d\n    # e",
    "try:\n    import a\nexcept (A) as e:\n    pass\nfinally:\n    b",
    "with (a) as b, c: pass",
    "for (a, b) in c: break\nelse: d",
    "match a:\n    case {'k': [b, *c], **d} if e:\n        f\n    case A(b, c=1) | (None): pass",
    "[a for b in c if (d) for e in f]; {a: b for c in d}; {*a, b}; lambda x, *y: (x)",
    "x = 'a' 'b' f'{(a)!r:{b}}é' \"😀\"",
    "class A(B, c=(d)):\n    '''Doc'''\n    x = (1)\n\n    @p\n    def f(self): (self)\n    class C: y = 2",
    "while (a := b) is not (c): del d[0], e",
    "x = a if b else (c, *d)\n",
    "x: (int) = \\\n    1",
    "global x; nonlocal y; assert (a), b; raise (c) from d",
]


@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["    ", "\t", " "]),
    st.sampled_from(["\n", "\n\n# c\n", "  # é\n", "\n\f\n"]),
)
def test_places_in_random_programs(statements: list[str], newline: str, indent: str, gap: str) -> None:
    text = gap.join(statements).replace("    ", indent).replace("\n", newline)
    assert unit_places(text) == provided_places(text)
    assert file(text).problems() == ()


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    x = 1\n\f    yy = 2\n    zzz = 3\n",
        "\fxx = yy\n",
        "if a:\n  x\n\\\n  yy = 1\n  z\n",
        "class A:\n  x = 1\n  \\\n yy = (2)\n",
    ],
)
def test_places_where_libcst_does_not_print_the_text_back(text: str) -> None:
    syntax = file(text)
    assert syntax.problems() == ()
    seen = []
    for unit in syntax.all_units.values():
        for number, node in enumerate(walk(unit.node)):
            if isinstance(node, cst.Name) and node.value not in ("_",):
                assert unit.source(unit.span(number)) == node.value
                seen.append(node.value)
    assert "yy" in seen


PIECES = [
    *(
        "x",
        "(",
        ")",
        "[",
        "{",
        "'",
        '"""',
        "f'",
        "\\",
        "\\\n",
        "#",
        ":",
        ",",
        "=",
        "@d\n",
        "\n",
        "\r",
        "    ",
        " ",
        "\t",
    ),
    *(
        "\f",
        "\0",
        "é",
        "😀",
        "\ud800",
        "\ufeff",
        "\u2028",
        "def f():",
        "class A:",
        "return ",
        "else:",
        "import ",
        ";",
    ),
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Programs with some characters lost and some pieces put in."""
    text = "\n".join(draw(st.lists(st.sampled_from(STATEMENTS), max_size=3)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(["", *PIECES]))
        text = text[:place] + piece + text[place + draw(st.integers(0, 3)) :]
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))


@given(damaged())
@settings(max_examples=400)
def test_any_text_has_true_places_and_only_true_problems(text: str) -> None:
    syntax = file(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
        assert syntax.problems() == ()
    except (SyntaxError, ValueError):
        pass
    assert all(0 <= problem.span.start <= problem.span.end <= len(text) for problem in syntax.problems())
    for unit in syntax.all_units.values():
        try:
            nodes = list(walk(unit.node))
        except ChunkError as error:
            assert unit.start <= error.offset <= unit.end
            continue
        for number, node in enumerate(nodes):
            span = unit.span(number)
            assert unit.start <= span.start <= span.end <= unit.end
            if isinstance(node, cst.Name):
                assert unit.source(span) == node.value


def test_places_without_the_private_module(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = unit_places(MODEL)
    monkeypatch.setattr(parse, "_recorded", lambda module, code, wanted: None)
    monkeypatch.setattr(parse, "_trees", parse._Cache(100, 100_000))
    assert unit_places(MODEL) == expected


def test_places_of_the_second_segment() -> None:
    syntax = parse_file(Source("n.ipynb", (Segment("a = 1\n", 0), Segment("", 1), Segment("b = cc\n", 3))))
    assert [(unit.index, unit.segment, unit.text) for unit in syntax.units] == [
        (0, 0, "a = 1"),
        (1, 2, "b = cc"),
    ]
    unit = syntax.units[1]
    assert find(unit, cst.Name, "cc") == Span(4, 6, 2)


def test_an_edit_parses_one_method_anew() -> None:
    before = file(MODEL)
    after = file("# moved\n" + MODEL.replace("x.dim() == 4", "x.dim() == 5"))
    same = [
        a.node is b.node for a, b in zip(before.all_units.values(), after.all_units.values(), strict=True)
    ]
    assert same == [True] * 8 + [False, True]
    moved, old = after.all_units[7], before.all_units[7]
    assert moved.span(5) == Span(old.span(5).start + 8, old.span(5).end + 8)


def test_the_cache_is_bounded() -> None:
    cache: parse._Cache[int] = parse._Cache(3, 10)
    for number, text in enumerate(["aa", "bb", "cc", "dd"]):
        cache.put((text,), number)
    assert [cache.get((text,)) for text in ("aa", "bb", "cc", "dd")] == [None, 1, 2, 3]
    cache.get(("bb",))
    cache.put(("e" * 7,), 4)
    assert [cache.get((text,)) for text in ("bb", "cc", "dd", "e" * 7)] == [1, None, None, 4]
    cache.put(("f" * 11,), 5)
    assert cache.get(("f" * 11,)) is None


def failure(unit: Unit) -> tuple[str, int, bool]:
    with pytest.raises(ChunkError) as caught:
        _ = unit.node
    return caught.value.message, caught.value.offset, caught.value.legal


def test_a_broken_chunk_hides_only_itself() -> None:
    text = MODEL.replace("y = self.stem(x) if", "y = self.stem(x) iff")
    syntax = file(text)
    good = {index: unit for index, unit in syntax.all_units.items() if index != 8}
    assert all(unit.node for unit in good.values())
    (problem,) = syntax.problems()
    message, offset, legal = failure(syntax.all_units[8])
    assert (problem.message, problem.span.start, False) == (message, offset, legal)
    assert text[problem.span.start :].startswith("iff x.dim()")


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("x = 1\ny = = 2\nz = 3\n", "= 2", "invalid syntax"),
        ("x = (1\n", "(1", "'(' was never closed"),
        ("é = '😀'; y = = 2\n", "= 2", "invalid syntax"),
        ("x = 'a\n", "'a", "unterminated string literal"),
        ("'''a\n", "'''a", "unterminated triple-quoted string literal"),
        ("def f():\n    x = 1\n    y = = 2\n", "= 2", "invalid syntax"),
        ("class A:\n    x = 1\n    def f(self):\n        y = = 2\n    z = 3\n", "= 2", "invalid syntax"),
        ("class A\n    x = 1\n", "", "expected ':'"),
        ("class A:\n    @a\n\n    def f(self): pass\n    if x:\n    y = 1\n", "", None),
        ("x = 1\n    y = 2\n", "y = 2", "unexpected indent"),
        ("class A:\n    x = 1\n        y = 2\n", "y = 2", "unexpected indent"),
        ("def f():\nx = 1\n", "", "expected an indented block after function definition"),
        ("x = '\ud800'\n", "\ud800", "invalid character: lone surrogate"),
        ("x = 1 $ 2\n", "$", "invalid syntax"),
        ("print 'a'\n", "print", "Missing parentheses in call to 'print'. Did you mean print(...)?"),
    ],
)
def test_problems_have_cpythons_place(text: str, at: str, message: str | None) -> None:
    for prefix in ("", "import a\n\n", "# é\r\n\r\n"):
        (problem,) = file(prefix + text).problems()
        if message is not None:
            assert problem.message == message
        assert (prefix + text)[problem.span.start :].startswith(at)
        assert 0 <= problem.span.start <= problem.span.end <= len(prefix + text)


def test_two_broken_chunks_are_two_problems() -> None:
    problems = file("x = = 1\ny = 2\ndef f(:\n    pass\nz = 3\n").problems()
    assert [problem.span.start for problem in problems] == [4, 20]


def test_a_wrong_dedent_between_good_chunks_is_a_problem() -> None:
    text = "class A:\n    def f(self):\n        pass\n  def g(self):\n    pass\n"
    syntax = file(text)
    assert len(syntax.problems()) == 1


@pytest.mark.parametrize("line", ["x", "x = (", "   \fx = 1"])
def test_a_line_left_of_the_methods_of_a_class_is_a_problem(line: str) -> None:
    text = f"class A:\n    def f(self): pass\n{line}\n    def g(self): pass\n"
    syntax = file(text)
    assert [unit.name for unit in syntax.units[0].members] == ["f", None, "g"]
    (problem,) = syntax.problems()
    assert text[problem.span.start :].startswith(("x", "("))
    assert failure(syntax.all_units[2])[2] is False
    assert syntax.all_units[1].node and syntax.all_units[3].node


@pytest.mark.parametrize(
    "text",
    [
        'x = f"{a["b"]}"\n',
        "type X = int\n",
        "def f[T](x: T) -> T: pass\n",
        "x = '\0'\n",
        "try:\n    a\nexcept A, B:\n    c\n",
    ],
)
def test_a_text_that_only_libcst_accepts_is_no_problem(text: str) -> None:
    syntax = file(text)
    assert syntax.problems() == ()
    assert all(unit.node for unit in syntax.units)


def test_a_text_that_only_cpython_accepts_is_no_problem() -> None:
    text = "a = 1\nif a:\n if b:\n\t x = 1\n y = 2\n"
    syntax = file(text)
    assert syntax.problems() == ()
    assert failure(syntax.units[1]) == ("legal Python that this parser does not read", 6, True)


@pytest.mark.parametrize("operator", [" + ", ".", "()."])
def test_deep_nesting_is_refused(operator: str) -> None:
    syntax = file("x = 1\ny = " + operator.join(["a"] * 5000) + "\nz = 2\n")
    message, offset, _ = failure(syntax.units[1])
    assert (message, offset) == ("nests too deeply", 6)
    assert syntax.units[2].node


def test_nesting_below_the_limit_has_places() -> None:
    unit = file("x = " + "a + " * 190 + "bb\n").units[0]
    assert find(unit, cst.Name, "bb") == Span(4 + 190 * 4, 6 + 190 * 4)


def test_a_split_that_needed_repair_follows_cpython_where_it_accepts_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "x = 1\nclass A:\n    y = 2\n"
    wrong = scan("x = 1\nclass A:\n    y = '")
    monkeypatch.setattr("qlsp.syntax.parse.scan", lambda text: wrong)
    assert [unit.text for unit in file(text).all_units.values()] == ["x = 1", text[6:-1], "y = 2"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = 1", {"x"}),
        ("x: int = 1", {"x"}),
        ("x: 'a' = b", {"x"}),
        ("a = b = c(d)", {"a", "b"}),
        ("a, (b, *c) = d", {"a", "b", "c"}),
        ("a.b, c[d], e = f", {"d", "e"}),
        ("a = 1; b = 2", {"a", "b"}),
        ("x += 1", {"x"}),
        ("x //= 1", {"x"}),
        ("import a.b, c as d", {"a", "c", "d"}),
        ("from a import (  # b\n    b,  # c\n    c as d,\n)", {"b", "c", "d"}),
        ("from a import b, \\\n    c", {"b", "c"}),
        ("try:\n    import a\nexcept E as e:\n    a = None", {"a", "e"}),
        ("if x:\n    import a\n    b = 1\n    def f(): pass\n    class C: pass", {"a", "b", "f", "C"}),
        ("if x == 1: a = b == c", {"a"}),
        ("else_ = 1", {"else_"}),
        ("for i, (j, k) in l:\n    m = 1", {"i", "j", "k", "m"}),
        ("with a as b, c as (d, e): f = 1", {"b", "d", "e", "f"}),
        ("with (\n    a as b,\n    c as d,\n): pass", {"b", "d"}),
        ("if (n := f()): pass", {"n"}),
        ("def f(a=1):\n    x = 1", {"f"}),
        ("class C:\n    x = 1", {"C"}),
        ("async def g(): pass", {"g"}),
        ("match x:\n    case [a, b]: pass", {"a", "b"}),
        ("type X = int", {"X", "type"}),
        ("(a,\n b) = c", {"a", "b"}),
        ("[a, b] = c", {"a", "b"}),
        ("x = y == z", {"x"}),
        ("x = f(\n    a=1,\n    b={'k': 2},\n)\n", {"x"}),
        ("x = [y for y in z]", {"x"}),
        ("x = 'a = 1'  # b = 2", {"x"}),
        ("f(a=1)", set()),
        ("del x", set()),
        ("x.y = 1", set()),
        ("x = (", {"x"}),
    ],
)
def test_names(text: str, names: set[str]) -> None:
    (unit,) = file(text).units
    assert unit.names == names


@pytest.mark.parametrize("name", FILES)
def test_names_miss_nothing_that_a_module_binds(name: str) -> None:
    text = installed(name)
    table = symtable.symtable(text, name, "exec")
    bound = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    assert bound - {name for unit in file(text).units for name in unit.names} <= {"__annotations__"}


def test_problem_and_error_are_plain_values() -> None:
    assert SyntaxProblem(Span(1, 2), "m") == SyntaxProblem(Span(1, 2), "m")
    error = ChunkError("m", 3)
    assert (str(error), error.message, error.offset, error.legal) == ("m", "m", 3, False)
