"""Text to extents of statements: legal programs as CPython sees them, broken ones with little lost."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import time
import tokenize
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qlsp.syntax.chunks import Extent, from_ast, layout, scan, split
from qlsp.syntax.parse import parse_file
from qlsp.text import LineIndex, Source

MODULE = '''\
#!/usr/bin/env python
# a comment
"""Docstring
def not_a_function():
"""
import os; import sys  # two in one

@decorator
# between
@other(1,
       2)
async def f(x):
    return x
    # inside, at the end

# after f
class A(
    nn.Module,  # base
):  # header
    """Doc
class B:
"""
    x: int = 1; y = 2

    @property
    def p(self): return 1

    class Inner:
        def q(self): pass

    if x:
        def r(self): pass
    else:
        def r(self): pass
class C: pass
match x:
    case 1: pass
    case _:
        pass
try:
    import a
except ImportError:
    a = None
else:
    pass
finally:
    pass
x = [
1,
] \\
  + y
'''


def outline(text: str) -> list[tuple[str, str | None, str]]:
    return [(e.kind, e.name, text[e.start : e.end].split("\n")[0]) for e in split(text)]


def names(extents: tuple[Extent, ...] | list[Extent]) -> list[str | None]:
    return [extent.name for extent in extents]


def flat(extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
    return tuple(replace(e, deep=False, members=flat(e.members)) for e in extents)


def assert_like_cpython(text: str) -> None:
    result = scan(text)
    assert not result.repaired
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert flat(result.extents) == from_ast(text, ast.parse(text))


def test_outline_of_a_module() -> None:
    assert outline(MODULE) == [
        ("statement", None, '"""Docstring'),
        ("statement", None, "import os; import sys  # two in one"),
        ("function", "f", "@decorator"),
        ("class", "A", "class A("),
        ("class", "C", "class C: pass"),
        ("statement", None, "match x:"),
        ("statement", None, "try:"),
        ("statement", None, "x = ["),
    ]
    assert_like_cpython(MODULE)


def test_members_of_a_class() -> None:
    extent = split(MODULE)[3]
    assert extent.header_end is not None
    assert MODULE[extent.start : extent.header_end] == "class A(\n    nn.Module,  # base\n):"
    assert [(m.kind, m.name, MODULE[m.start : m.end]) for m in extent.members] == [
        ("statement", None, '"""Doc\nclass B:\n"""'),
        ("statement", None, "x: int = 1; y = 2"),
        ("function", "p", "@property\n    def p(self): return 1"),
        ("class", "Inner", "class Inner:\n        def q(self): pass"),
        ("statement", None, "if x:\n        def r(self): pass\n    else:\n        def r(self): pass"),
    ]
    assert all(member.members == () and member.header_end is None for member in extent.members)


def test_a_class_of_one_line_has_no_members() -> None:
    (extent,) = split("class A(B): x = 1; y = 2  # c\n")
    assert extent == Extent("class", "A", 0, 29, None, ())


@pytest.mark.parametrize("text", ["", "\n", "  \n\f\n", "# c", "# c\n  # d\n", "\r\r\n"])
def test_a_text_without_statements(text: str) -> None:
    assert split(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "x = 1;",
        "x = 1 ;  # c",
        "\fx = 1\n\f\ny = 2\n",
        "x = 'a\\\nb'\ny = 1\n",
        "x = 1 + \\\n  2\ny = 1\n",
        "def f():\n\tif a:\n\t    b\n\tc\nd\n",
        "def f():\n    x = 1\n\f    y = 2\n",
        "if a:\n  x\n\\\n  y\nz\n",
        "async def f():\n  async with a: pass\n  async for b in c: pass\n  else: pass\nx\n",
        "if a: pass\nelif b: pass\nelse: pass\nx\n",
        "for x in y:\n  pass\n# c\nelse:\n  pass\n",
        "while a: pass\nelse: pass\n",
        "try: a\nexcept* E: b\nfinally: c\n",
        "with (\n a as b,\n c as d\n): pass\n",
        "match = 1\ncase = 2\nmatch[case]\ntype = 3\nprint(match)\n",
        "x = '''a\n'''; y = \"\"\"b\n\"\"\"\n",
        "x = '''\\'''' ; y\nz = 'a\\'b'\n",
        "x = rb'\\'' + Rb\"\\\"\" + u'a' + B'b'\nz\n",
        "x = ''\ny = \"\"\nz = '' ''\n",
        "x = '\"\"\"'\ny = \"'''\"\n",
        "x = f'{a}' f\"{b['c']}\" rf'{d}' fR'''{e\n}'''\ny\n",
        "x = f'{{' + f'}}' + f'{{}}{a}'\ny\n",
        "x = f'{a:{b}}' f'{a!r:>{c}}' f'{a:%H:%M}' f'{ {1: 2}[1] }' f'{(lambda: 1)()}'\ny\n",
        "x = f'\\N{DIGIT ONE}{a}' f'{a}\\n'\ny\n",
        "if x:'a'\nif\"b\": c\nx = 1if'f'else'r'\n",
        "class A:\n  'doc'\n  x = 1\n# c\n  y = 2\n",
        "class A:\n  # c\n  @a\n  # d\n\n  @b\n  def f(): pass\n",
        "class A(metaclass=B[C:D], **{'a': 1}): # c:d\n  pass\n",
        "@a[1:2]\nclass A(B):\n  pass\n",
        "x = {\n  'a': [1, (2, 3)],\n}  # c\n",
        "def f(\n  a,\n  b=(1,\n2),\n): return {\n}\n",
        "é = '中😀'\nclass 名:\n  def 前(self): return '😀'\nx\n",
        "x = (a\n@ b)\ny = (a if b\nelse c)\nz = [a\nfor b in c\nif d]\n",
        "x = (yield\n)\ny = (not\na)\nlambda: (yield)\n",
        "x = a.b(\n  self.c == d,\n  e.f <= g,\n  h=i.j)\n",
        'x = 1 # """\ny = 2 # \'\nz = 3 # (\n',
        "def f(): pass\n\n\n\n    # deep comment\n  # less\ndef g(): pass\n",
        "if a:\n    pass\n  # c\nelse:\n    pass\n",
    ],
)
def test_extents_are_those_of_cpython(text: str) -> None:
    assert_like_cpython(text)
    assert_like_cpython(text.replace("\n", "\r\n"))
    assert_like_cpython(text.replace("\n", "\r"))


@pytest.mark.parametrize(
    "text",
    [
        'x = f"{a["b"]}"',
        'x = f"{a["b"]["c"]}" + f"{"{"}"',
        'x = f"{f"{f\'{1}\'}"}"',
        'x = f"{\n  a["b"]\n}"',
        'x = f"{a:{b["c"]}}"',
        'x = f"{a!r:{"x"}>{10}}}}{{"',
        'x = f"""{a["""b"""]}"""',
        'x = rf"\\{a["b"]}"',
        'x = t"{a["b"]}"',
        'x = f"{"\\n".join(a)}"',
    ],
)
def test_strings_nested_in_formatted_strings(text: str) -> None:
    result = scan(f"{text}\ny = 1\n")
    assert not result.repaired
    assert [(e.start, e.end) for e in result.extents] == [(0, len(text)), (len(text) + 1, len(text) + 6)]


STATEMENTS = [
    "x = 1",
    "x = 1; y = 2;  # two",
    "import a.b as c, d",
    "from a import (\n    b,  # c\n    c,\n)",
    "from . import *",
    "'''doc\nclass at_column_0:\n    '''",
    'x = """a \' \\""" b"""',
    "@a.b(c)\n# between\n@d\ndef f(x, *, y=[1,\n2]) -> 'z':\n    '''doc\ndef g():\n'''\n    return x",
    "async def f():\n    async with a as b, c as d:\n        await b\n    return [x async for x in y]",
    "def f(): return {\n}",
    "if a:\n    x\nelif b:\n    y\n\n# c\nelse:\n    z",
    "try:\n    import q\nexcept (A, B) as e:\n    q = None\nelse:\n    pass\nfinally:\n    pass",
    "while a: x\nelse: y",
    "for a, b in c:\n    if a: break\nelse:\n    pass",
    "match x:\n    case [a, *b] if a:\n        pass\n    case {'k': v, **w}: pass",
    "with open(a) as f: pass",
    "x = a \\\n    + b",
    "x: int = (  # c\n    'a'\n    'b')",
    'é = \'😀\' + """中\n"""',
    "x = f'{a!r:>{b}}' rf\"{c['d']}\" F'''{e\n}'''",
    "x[1:2], y.z = lambda a: (b, {c: d}), 1",
    "del x, y",
    "class A: pass",
    "class A(B, metaclass=C):  # c\n    '''doc'''\n    x = 1\n\n    @p\n    def f(self):\n        return 1\n"
    "    # c\n"
    "    class D:\n        y = 2\n    if z:\n        w = 1\n    else:\n        w = 2\n    v = 1; u = 2",
    "@d\nclass A:\n  async def f(self): pass",
]
GAPS = ["\n", "\n\n", '\n# c \' """ ( \n', "\n\f\n", "  \n", "  # c\n", "\n   # c\n\n"]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Statements with gaps between them, in any kind of line breaks and indentation."""
    parts = [draw(st.sampled_from(["", "\n", "# c\n"]))]
    for statement in draw(st.lists(st.sampled_from(STATEMENTS), max_size=6)):
        parts += [statement, draw(st.sampled_from(GAPS))]
    text = "".join(parts).replace("    ", draw(st.sampled_from(["    ", "\t", " ", "        "])))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))


@given(programs())
def test_random_programs_split_as_cpython_does(text: str) -> None:
    assert_like_cpython(text)


GAP = re.compile(r"\ufeff?(?:[ \t\f]|\\?(?:\r\n?|\n)|#[^\r\n]*)*")


def assert_ordered(extents: tuple[Extent, ...], text: str, start: int, end: int) -> None:
    for extent in extents:
        assert GAP.fullmatch(text, start, extent.start)
        assert start <= extent.start < extent.end <= end
        assert text[extent.start] not in " \t\f\r\n"
        assert text[extent.end - 1] not in " \t\f\r\n"
        if extent.header_end is not None:
            assert extent.start < extent.header_end <= extent.members[0].start
            assert_ordered(extent.members, text, extent.members[0].start, extent.end)
        start = extent.end


TOKENS = [
    "x", "1", "def f():", "class A:", "    ", "  ", "\t", "\n", "\n", "\r\n", "\r", "(", ")", "[", "}",
    "{", "'", '"', '"""', "'''", "f'", 'f"', "f'''", "\\", "\\\n", "#", ":", ",", "@", "@d\n",
    "return ", "import ", "else:", "\f", "\0", "é", "😀", "\ud800", "\u2028", "rb'", ";", "=", "class ",
    "def ", "async ", "if ", "try:", "except:", ".", "\ufeff",
]  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))
@settings(max_examples=500)
def test_any_text_has_ordered_extents_with_nothing_but_space_and_comments_between(text: str) -> None:
    extents = scan(text).extents
    assert_ordered(extents, text, 0, len(text))
    assert GAP.fullmatch(text, extents[-1].end if extents else 0)


CLASS = """\
import torch

class Net(nn.Module):
    '''Doc.'''

    def __init__(self):
        '''Make it.'''
        self.a = 1

    def forward(self, x):
{body}

    @property
    def last(self):
        '''Say it.'''
        return 1

    def __repr__(self):
        return "Net"

def main():
    '''Run it.'''
    return 2
"""


@pytest.mark.parametrize(
    "body",
    [
        "        x = foo(",
        "        x = foo(a,\n        y = [1, {2",
        "        x = 'abc",
        '        x = "abc\n        return x',
        "        x = f'{a",
        "        x = f'{a[\"b'",
        "        x = )",
        "        x = ]}\n        y = 1",
        "        '''abc",
        "        '''abc\n        return x",
        "        x = '''abc",
        "        if x\n            y = 1",
        "        if x:",
        "        self.",
        "        x = \\",
        "        def",
        "        class",
        "        @",
        "        @foo",
        "        else:\n            pass",
        "        x = {'a': 1,\n        for y in z:\n            pass",
        "        x = [\n        self.a = 3\n        y = 2",
        "        x = f'''{a",
        "            x = 1\n        y = 2",
        "        import",
        "        print 'a'",
    ],
)
def test_a_broken_method_hides_no_other(body: str) -> None:
    text = CLASS.replace("{body}", body)
    net = split(text)[1]
    assert names(split(text)) == [None, "Net", "main"]
    assert names(net.members) == [None, "__init__", "forward", "last", "__repr__"]
    good = [text[m.start : m.end] for m in net.members if m.name != "forward"]
    assert good[1:] == [
        "def __init__(self):\n        '''Make it.'''\n        self.a = 1",
        "@property\n    def last(self):\n        '''Say it.'''\n        return 1",
        'def __repr__(self):\n        return "Net"',
    ]
    assert text[split(text)[2].start :] == "def main():\n    '''Run it.'''\n    return 2\n"


@pytest.mark.parametrize(
    "line",
    ["x = foo(", "x = [", "x = '", 'x = """', "x = '''a", "x = {1: (", "x = )", "  y = 1", "x = f'{(", "@a"],
)
def test_a_broken_statement_hides_no_definition(line: str) -> None:
    text = f"import a\n{line}\n\n@b\ndef f():\n    '''Doc.'''\n\nclass A:\n    '''Doc.'''\n    x = 1\n"
    extents = split(text)
    assert names(extents)[-2:] == ["f", "A"]
    assert text[extents[0].start : extents[0].end] == "import a"
    assert text[extents[-2].start : extents[-2].end].endswith("def f():\n    '''Doc.'''")
    assert len(extents[-1].members) == 2


@pytest.mark.parametrize("line", ["x", "x = (", "x = '", "f()"])
def test_a_line_left_of_the_methods_does_not_end_the_class(line: str) -> None:
    text = f"class A:\n    def f(self): pass\n\n{line}\n\n    @a\n    def g(self): pass\n\n    h = 1\ny = 2\n"
    extents = split(text)
    assert names(extents) == ["A", None]
    assert names(extents[0].members) == ["f", None, "g", None]


@pytest.mark.parametrize("line", ["x = (", "x = [1,", "x = f(a, {"])
@pytest.mark.parametrize(
    "after", ["y = 1", "y: int = 1", "a, b = c", "if a:\n    b", "for a in b:\n    c", "f(a, b[c])"]
)
def test_an_open_bracket_ends_at_a_statement_in_column_zero(line: str, after: str) -> None:
    text = f"{line}\n{after}\nz = 1\n"
    assert [text[e.start : e.end] for e in split(text)] == [line, after, "z = 1"]


@pytest.mark.parametrize(
    "text", ["x = f(\na=1,\nb=2)\ny\n", "x = [\nf(a)\n]\ny\n", "x = {a\nfor b in c}\ny\n"]
)
def test_arguments_in_column_zero_are_left_to_cpython(text: str) -> None:
    module = ast.parse(text)
    assert tuple(e.text for e in parse_file(Source.from_text("m.py", text)).units) == tuple(
        text[e.start : e.end] for e in from_ast(text, module)
    )


def test_a_matrix_product_is_no_decorator() -> None:
    assert_like_cpython("x = (a\n    @ b\n    @ c(d)\n)\ny = (a\n@b\n@c\n)\n")


def test_a_docstring_without_end_is_found_among_docstrings_with_code() -> None:
    text = (
        "def a():\n    '''Example.\n\n    def x(): pass\n    '''\n    return 1\n\n"
        "def b():\n    '''Never ends.\n    return 2\n\n"
        "def c():\n    '''Good.'''\n    return 3\n\n"
        "def d():\n    '''Good.'''\n    return 4\n"
    )
    assert names(split(text)) == ["a", "b", "c", "d"]
    assert [text[e.start : e.end].count("return") for e in split(text)] == [1, 1, 1, 1]


def test_a_header_without_colon_keeps_its_members() -> None:
    (extent,) = split("class A(B)\n    def f(self): pass\n    def g(self): pass\n")
    assert extent.header_end == 10
    assert names(extent.members) == ["f", "g"]


def test_an_unfinished_class_header_ends_at_its_body() -> None:
    (extent,) = split("class A(nn.Module:\n    def f(self): pass\n    x = 1\n")
    assert names(extent.members) == ["f", None]


def test_a_member_with_too_little_indentation_stands_alone() -> None:
    text = "class A:\n    def f(self):\n        pass\n  def g(self):\n      pass\n    def h(self): pass\n"
    (extent,) = split(text)
    assert names(extent.members) == ["f", "g", "h"]


def test_a_line_with_too_much_indentation_stands_alone() -> None:
    text = "x = 1\n    y = 2\nz = 3\n"
    assert [text[e.start : e.end] for e in split(text)] == ["x = 1", "y = 2", "z = 3"]


def test_repairs_are_told() -> None:
    texts = ["x = (1)", "x = '", "x = (", "x = )", '"""', "x = (\ndef f(): 1"]
    assert [scan(text).repaired for text in texts] == [False, True, True, True, True, True]


def test_a_byte_order_mark_is_no_part_of_a_statement() -> None:
    assert outline("\ufeffdef f(): pass\n") == [("function", "f", "def f(): pass")]


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("x = " + "a + " * 150 + "a", False),
        ("x = " + "a + " * 250 + "a", True),
        ("x = " + "f(a, b) + " * 250 + "a", True),
        ("x = [" + "a + b, " * 500 + "]", False),
        ("x = {" + "'k': (a.b, [1 + 2]), " * 500 + "}", False),
        ("x = " + "(" * 250 + ")" * 250, True),
        ("x = a" + ".b()" * 150, True),
        ("x = " + "-" * 250 + "a", True),
        ("x = " + "not " * 250 + "a", True),
        ("x = (" + "'a'\n" * 250 + ")", True),
        ("x = f'{" + "(" * 250 + "1" + ")" * 250 + "}'", True),
        ("'''" + "a. b - c (d) " * 500 + "'''", False),
        ("if a: pass\n" + "elif b: pass\n" * 250, True),
        ("def f():\n" + "    x = a + b * c\n" * 500, False),
    ],
)
def test_deep_statements_are_marked(text: str, deep: bool) -> None:
    (extent,) = split(text)
    assert extent.deep is deep


def installed_files() -> list[Path]:
    folders = []
    for package in ("libcst", "torch", "json", "asyncio", "hypothesis", "attr"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            folders.append(Path(spec.submodule_search_locations[0]))
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    return files[:: max(1, len(files) // 150)]


def test_installed_files_split_as_cpython_does() -> None:
    seen = 0
    for file in installed_files():
        text = file.read_bytes().decode("utf-8") if file.stat().st_size < 200_000 else ""
        try:
            module = ast.parse(text)
        except SyntaxError:
            continue
        result = scan(text)
        assert (file, result.repaired) == (file, False)
        assert flat(result.extents) == from_ast(text, module), file
        seen += 1
    assert seen > 50


def test_split_is_cheaper_than_two_parses_of_cpython() -> None:
    text = (MODULE + CLASS.replace("{body}", "        return self.conv(x) + f'{x.shape[0]}'")) * 60
    text = text.replace("#!/usr/bin/env python\n", "")
    ast.parse(text)

    def best(action: object) -> float:
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            action(text)  # type: ignore[operator]
            times.append(time.perf_counter() - begin)
        return min(times)

    assert best(split) < 2 * best(ast.parse)


HOSTILE = [
    "(" * 50_000, '"""' * 50_001, "'" * 50_000, "f'{" * 20_000, "\\\n" * 50_000, "# c\n" * 50_000,
    " \n" * 50_000, "@a\n" * 20_000, "x = f'{{'\n" * 10_000, "if a: b\nelse: c\n" * 10_000,
    "'\\" * 30_000, "(\n@a\n" * 20_000, "(" + "\na.a.a" * 30_000, "class A:\n'''\n" * 5_001,
    'f"{' * 3_000 + '"' * 3_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:8]) for text in HOSTILE])
def test_cost_is_linear_in_hostile_texts(text: str) -> None:
    begin = time.perf_counter()
    split(text)
    assert time.perf_counter() - begin < 8


@pytest.mark.parametrize("module", [tokenize, ast, re, warnings, pytest])
def test_comments_and_logical_lines_are_those_of_the_tokenizer(module: ModuleType) -> None:
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    index = LineIndex(text)
    comments, lines, inside = [], [], False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start = index.offset(token.start[0], token.start[1] + 1)
        if token.type == tokenize.COMMENT:
            comments.append((start, start + len(token.string)))
        elif token.type == tokenize.NEWLINE:
            inside = False
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER) and not inside:
            inside = True
            lines.append(start)
    found = layout(text)
    assert list(found.comments) == comments and [start for start, _ in found.lines] == lines


@pytest.mark.parametrize(
    ("text", "comments", "strings"),
    [
        ("# a\nx = 1 # b\n\x0c# c\r\n", ["# a", "# b", "# c"], []),
        ("x = [ # a\n# b\n1, '# no'] # c", ["# a", "# b", "# c"], []),
        ("x = '''# no\n''' # a\n", ["# a"], ["'''# no\n'''"]),
        ("x = 'a\\\n# no' # a", ["# a"], ["'a\\\n# no'"]),
        ("x = '# no', f'{x}# no' # a", ["# a"], []),
        ("def f(: # a\n# b\nx = '# no", ["# a", "# b"], []),
        ("", [], []),
    ],
)
def test_comments_and_long_strings(text: str, comments: list[str], strings: list[str]) -> None:
    found = layout(text)
    assert [text[start:end] for start, end in found.comments] == comments
    assert [text[start:end] for start, end in found.strings] == strings
