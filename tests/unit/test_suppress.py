"""Ignore comments: what they hide, which hide nothing, what is removed from them, and how one is added."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qlsp import suppress
from qlsp.config import Config
from qlsp.diagnostics import Applicability, Diagnostic, Message, Severity
from qlsp.engine import CheckResult, check
from qlsp.messages import render
from qlsp.rules.api import RuleMeta, all_rules
from qlsp.text import Edit, LineIndex, Place, Source, Span, decode, encode

RULES = [rule.meta for rule in all_rules()]

NET = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant_a, self.quant_b, self.dequant = QuantStub(), QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x, y):
        a = self.a(self.quant_a(x))
        b = self.b(self.quant_b(y))
        return self.dequant(torch.cat([a, b], dim=1))
"""
CALL = "        return self.dequant(torch.cat([a, b], dim=1))"
CLEAN = "        b = self.b(self.quant_b(y))"
"""A line with a finding (QL101) and one without."""


def run(text: str, config: Config | None = None, path: str = "net.py", statistics: bool = False) -> CheckResult:
    return check([path], config or Config(), {path: text}, statistics=statistics)


def codes(result: CheckResult) -> list[str]:
    return [diagnostic.code for diagnostic in result.diagnostics]


def hidden(result: CheckResult) -> list[str]:
    return [each.diagnostic.code for each in result.suppressed]


def only(result: CheckResult) -> Diagnostic:
    (diagnostic,) = [each for each in result.diagnostics if each.code == "QL002"]
    return diagnostic


def edited(text: str, edits: Sequence[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: -edit.span.start):
        text = text[: edit.span.start] + edit.content + text[edit.span.end :]
    return text


def fixed(text: str, config: Config | None = None) -> str:
    """The text after the safe fixes of QL002, one after the other."""
    for _ in range(20):
        fixes = [fix for d in run(text, config).diagnostics if d.code == "QL002" for fix in d.fixes]
        if not fixes:
            return text
        assert fixes[0].applicability is Applicability.SAFE
        text = edited(text, fixes[0].edits)
    raise AssertionError("fixes without end")


def ignored(text: str, config: Config | None = None) -> str:
    """The text after ``--add-ignore``."""
    result = run(text, config)
    comments = suppress.read(Source.from_text("net.py", text), RULES)
    return edited(text, suppress.ignore_edits(comments, result.diagnostics))


# What a comment hides


@pytest.mark.parametrize(
    "comment",
    [
        "# qlsp: ignore[QL101]",
        "# qlsp: ignore[QL101] -- measured, harmless",
        "# qlsp: ignore[QL1]",
        "# qlsp: ignore[QL]",
        "# qlsp: ignore[cat-mixed-scales]",
        "# qlsp: ignore[ QL101 ,]",
        "# qlsp: ignore",
        "# qlsp: ignore -- all of it",
        "#qlsp:ignore[QL101]",
        "# type: ignore  # qlsp: ignore[QL101]",
        "# qlsp: ignore[QL101]  # type: ignore",
        "# a note # qlsp: ignore[QL101] -- and #1 is why",
        "# noqa: QL101",
        "# noqa:QL101",
        "# NOQA: ql101",
        "# noqa: E501, QL101",
        "# noqa: E501 QL101",
        "# noqa: QL1",
        "# noqa",
        "# type: ignore # noqa: QL101 because",
    ],
)
def test_a_comment_on_the_line_hides(comment: str) -> None:
    result = run(NET.replace(CALL, f"{CALL}  {comment}"))
    assert (codes(result), hidden(result)) == ([], ["QL101"])


@pytest.mark.parametrize(
    "comment",
    [
        "# qlsp",
        "# qlsp is a linter",
        "# see qlsp: ignore[QL101]",
        "# noqa: E501",
        "# noqa: because",
        "# ruff: noqa",
        "# noqa-me",
        "# qlspignore[QL101]",
    ],
)
def test_other_comments_hide_nothing_and_are_left_alone(comment: str) -> None:
    result = run(NET.replace(CALL, f"{CALL}  {comment}"))
    assert (codes(result), hidden(result)) == (["QL101"], [])


LONG = """\
        return self.dequant({0}
            torch.cat({1}
                {2}
                [a, b],{3}
                dim=1,
            )
        ){4}
"""


@pytest.mark.parametrize("position", range(5))
def test_a_comment_on_any_line_of_the_statement_hides(position: int) -> None:
    marks = [""] * 5
    marks[position] = "  # qlsp: ignore[QL101]"
    result = run(NET.replace(CALL + "\n", LONG.format(*marks)))
    assert (codes(result), hidden(result)) == ([], ["QL101"])


@pytest.mark.parametrize("place", ["above", "below"])
def test_a_comment_beside_the_statement_hides_nothing(place: str) -> None:
    comment = "        # qlsp: ignore[QL101]\n"
    text = NET.replace(CALL, comment + CALL if place == "above" else CALL + "\n" + comment)
    result = run(text)
    assert sorted(codes(result)) == ["QL002", "QL101"]
    assert "on a line of its own" in render(only(result).message)
    assert bool(only(result).fixes) is (place == "below")


def test_a_comment_in_a_string_hides_nothing() -> None:
    for string in ("'# qlsp: ignore'", '"""\n# qlsp: ignore[QL101]\n"""', "f'{x}# noqa: QL101'"):
        text = NET.replace("dim=1))", f"dim=1)), {string}")
        assert (codes(run(text)), hidden(run(text))) == (["QL101"], [])


def test_a_comment_at_a_decorated_definition() -> None:
    source = Source.from_text("a.py", "@first\n@second  # note\ndef f(x):  # qlsp: ignore\n    return x\n")
    comments = suppress.read(source, RULES)
    assert comments.line_of(Span(0, len(source.text))) == comments.directives[0].line == 2
    assert comments.line_of(Span(0, 5)) == 0


def test_a_header_does_not_hide_its_block() -> None:
    text = NET.replace("def forward(self, x, y):", "def forward(self, x, y):  # qlsp: ignore[QL101]")
    assert sorted(codes(run(text))) == ["QL002", "QL101"]


@pytest.mark.parametrize(
    "head",
    [
        "# qlsp: ignore-file[QL1]\n",
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n\n# qlsp: ignore-file\n",
        '"""Docs."""\n\n# qlsp: ignore-file[cat-mixed-scales] -- generated\n',
    ],
)
def test_a_file_comment_hides_everywhere(head: str) -> None:
    result = run(head + NET)
    assert (codes(result), hidden(result)) == ([], ["QL101"])


def test_reasons_and_places_are_kept() -> None:
    text = NET.replace(CALL, f"{CALL}  # qlsp: ignore[QL101] -- one -- two  # fmt: skip")
    (suppressed,) = run(text).suppressed
    assert suppressed.reason == "one -- two" and suppressed.diagnostic.code == "QL101"
    span = suppressed.place.span
    assert text[span.start : span.end] == "# qlsp: ignore[QL101] -- one -- two"


def test_statistics_count_what_is_reported() -> None:
    result = run(NET.replace(CALL, f"{CALL}  # qlsp: ignore"), statistics=True)
    assert result.statistics.findings == {} and result.statistics.by_kind["cat"] == (1, 1)


# What hides nothing


@pytest.mark.parametrize(
    ("comment", "text"),
    [
        ("# qlsp: ignor[QL101]", "`ignor` is neither `ignore` nor `ignore-file`; did you mean ignore?"),
        ("# qlsp: see the wiki", "`see` is neither"),
        ("# qlsp:", "is neither"),
        ("# qlsp: ignore[QL101", "`]` is missing"),
        ("# qlsp: ignore[]", "no rule is named"),
        ("# qlsp: ignore[,]", "no rule is named"),
        ("# qlsp: ignore QL101", "after `ignore` come rules in brackets"),
        ("# qlsp ignore[QL101]", "write `# qlsp: ignore`, with a colon"),
        ("# qlsp: ignore[QL999]", "there is no rule QL999"),
        ("# qlsp: ignore[ql101]", "there is no rule ql101; did you mean QL101?"),
        ("# qlsp: ignore[cat-mixed-scale]", "did you mean cat-mixed-scales?"),
        ("# qlsp: ignore-file[QL101]", "belongs on a line of its own above the first statement"),
    ],
)
def test_a_malformed_comment_is_reported_and_hides_nothing(comment: str, text: str) -> None:
    result = run(NET.replace(CALL, f"{CALL}  {comment}"))
    assert sorted(codes(result)) == ["QL002", "QL101"]
    finding = only(result)
    assert text in render(finding.message) and finding.fixes == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  # qlsp: ignore[QL101]", ""),
        ("  # qlsp: ignore", ""),
        ("\t#qlsp:ignore[QL101] -- reason   ", ""),
        ("  # noqa: QL101", ""),
        ("  # noqa: QL101, QL201", ""),
        ("  # noqa: E501, QL101", "  # noqa: E501"),
        ("  # noqa: QL101 E501", "  # noqa: E501"),
        ("  # noqa: E501,QL101,F401 -- words", "  # noqa: E501,F401 -- words"),
        ("  # noqa: QL999", ""),
        ("  # note  # qlsp: ignore[QL101]", "  # note"),
        ("  # type: ignore # qlsp: ignore[QL101] -- x  # fmt: skip", "  # type: ignore # fmt: skip"),
        ("  # qlsp: ignore[QL101]  # type: ignore[misc]", "  # type: ignore[misc]"),
        ("  # qlsp: ignore[QL101]  # qlsp: ignore[QL201]", ""),
        ("  # 名 😀 # qlsp: ignore[QL101]", "  # 名 😀"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_unused_comment_is_removed(before: str, after: str, newline: str) -> None:
    text = NET.replace(CLEAN, CLEAN + before).replace("\n", newline)
    assert "QL002" in codes(run(text))
    assert fixed(text) == NET.replace(CLEAN, CLEAN + after).replace("\n", newline)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[QL101, QL201]", "[QL101]"),
        ("[QL201, QL101]", "[QL101]"),
        ("[ QL201 ,QL1,  quantstub-on-quantized ] -- why", "[ QL1 ] -- why"),
        ("[QL201,QL101, QL1]", "[QL101, QL1]"),
    ],
)
def test_an_unused_rule_is_removed(before: str, after: str) -> None:
    text = NET.replace(CALL, f"{CALL}  # qlsp: ignore{before}")
    assert codes(run(text)) == ["QL002"]
    assert fixed(text) == NET.replace(CALL, f"{CALL}  # qlsp: ignore{after}")


@pytest.mark.parametrize("comment", ["# qlsp: ignore-file[QL201]", "# qlsp: ignore[QL201]", "# noqa: QL201"])
def test_an_unused_comment_takes_its_line_along(comment: str) -> None:
    assert fixed(f"# first\n{comment}\nx = 1\n") == "# first\nx = 1\n"
    assert fixed(f"# first\r\n{comment}\r\n# last") == "# first\r\n# last"
    assert fixed(f"# first\n{comment}") == "# first\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = 1 \\\n    # qlsp: ignore[QL101]\ny = 2\n",
        "x = (1,\n# qlsp: ignore[QL101]\n2)\n",
        "if x:\n    y = 1\n    # qlsp: ignore\n",
        "if x:  # qlsp: ignore\n\x0c    # qlsp: ignore\n    y = 1\n",
    ],
)
def test_removing_a_comment_keeps_the_code(text: str) -> None:
    after = fixed(text)
    assert "qlsp" not in after and ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    assert after.count("\x0c") == text.count("\x0c")


@pytest.mark.parametrize(
    ("comment", "config"),
    [
        ("# qlsp: ignore[QL101]", Config(ignore=("QL101",))),
        ("# qlsp: ignore[QL1]", Config(ignore=("QL101",))),
        ("# qlsp: ignore", Config(select=("QL2", "QL002"))),
        ("# qlsp: ignore[QL101]", Config(per_file_ignores={"net.py": ("QL101",)})),
        ("# qlsp: ignore[QL101]", Config(severity={"QL101": "off"})),
        ("# noqa: E501", Config()),
        ("# noqa: E501, F401", Config()),
        ("# noqa", Config()),
        ("# qlsp: ignore[QL101, QL002]", Config()),
        ("# qlsp: ignore[QL101]  # qlsp: ignore[unused-suppression]", Config()),
        ("# qlsp: ignore[QL101]", Config(ignore=("QL002",))),
        ("# qlsp: ignore[QL101]", Config(select=("QL1",))),
    ],
)
def test_what_is_not_called_unused(comment: str, config: Config) -> None:
    assert codes(run(NET.replace(CLEAN, f"{CLEAN}  {comment}"), config))[:1] in ([], ["QL101"])


def test_a_file_with_a_syntax_error_is_not_judged() -> None:
    text = NET.replace(CLEAN, f"{CLEAN}  # qlsp: ignore[QL201]")
    assert codes(run(text)) == ["QL002", "QL101"]
    assert "QL002" not in codes(run(text + "\ndef f(:\n"))
    assert "QL002" in codes(run(text + "\ndef f(:  # qlsp: ignor\n"))


def test_a_class_that_no_model_in_view_uses_is_not_judged() -> None:
    neck = "import torch\nfrom torch import nn\n\n\nclass Neck(nn.Module):\n    def forward(self, a, b):\n"
    neck += "        return torch.cat([a, b], 1)  # qlsp: ignore[QL101]\n"
    root = NET.replace("import torch\n", "import torch\nfrom neck import Neck\n", 1)
    root = root.replace("super().__init__()", "super().__init__()\n        self.neck = Neck()")
    root = root.replace("torch.cat([a, b], dim=1)", "self.neck(a, b)")
    assert codes(run(neck, path="neck.py")) == []
    both = check(["net.py", "neck.py"], Config(), {"net.py": root, "neck.py": neck})
    assert (codes(both), hidden(both)) == ([], ["QL101"])


def test_a_crashed_rule_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    from qlsp import engine

    def crash(_: object) -> object:
        raise ValueError("boom")

    rules = [replace(r, check=crash) if r.meta.code == "QL101" else r for r in all_rules()]
    monkeypatch.setattr(engine, "all_rules", lambda: tuple(rules))
    text = NET.replace(CALL, f"{CALL}  # qlsp: ignore[QL101]")
    assert codes(run(text)) == ["QL003"]
    assert codes(run(NET.replace("class Net(nn.Module):", "class Net(nn.Module):  # qlsp: ignore"))) == ["QL003"]


@pytest.mark.parametrize("comment", ["# qlsp: ignore-file\n", "# qlsp: ignore-file[QL001]\n"])
def test_no_comment_hides_a_syntax_error(comment: str) -> None:
    text = f"{comment}# QuantStub\ndef f(:  # qlsp: ignore\n    pass\n"
    assert codes(run(text)) == ["QL001"]
    finding = only(run(f"{comment}x = 1\n"))
    assert ("QL001 cannot be ignored" in render(finding.message)) is ("QL001" in comment)


def test_only_its_own_name_hides_an_unused_comment() -> None:
    for comment, left in (("[QL]", ["QL002"]), ("[QL0]", ["QL002"]), ("[QL002]", []), ("[unused-suppression]", [])):
        text = NET.replace(CLEAN, f"{CLEAN}  # qlsp: ignore[QL201]  # qlsp: ignore{comment}")
        assert set(codes(run(text))) - {"QL101"} == set(left)
    assert codes(run("# qlsp: ignore-file[QL002]\nx = 1  # qlsp: ignore[QL101]\n")) == []
    assert codes(run("x = 1\n# qlsp: ignore[QL101]  # qlsp: ignore[QL002] -- here\n")) == []


# Adding comments


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "  # qlsp: ignore[QL101] -- TODO: reason"),
        ("   ", "  # qlsp: ignore[QL101] -- TODO: reason"),
        ("  # type: ignore", "  # type: ignore  # qlsp: ignore[QL101] -- TODO: reason"),
        ("  # qlsp: ignore[QL201] -- why", "  # qlsp: ignore[QL201, QL002, QL101] -- why"),
        ("  # qlsp: ignor", "  # qlsp: ignor  # qlsp: ignore[QL002, QL101] -- TODO: reason"),
        ("  # 名 😀", "  # 名 😀  # qlsp: ignore[QL101] -- TODO: reason"),
        ("  # noqa: E501", "  # noqa: E501  # qlsp: ignore[QL101] -- TODO: reason"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_comment_is_added_or_extended(before: str, after: str, newline: str) -> None:
    text = NET.replace(CALL, CALL + before).replace("\n", newline)
    wanted = NET.replace(CALL, CALL + after).replace("\n", newline)
    assert ignored(text) == wanted
    assert codes(run(wanted)) == [] and ignored(wanted) == wanted


CALLS = {
    "brackets": "        return self.dequant(\n            torch.cat(\n                [a, b]))\n",
    "backslash": "        return \\\n            self.dequant( \\\n    torch.cat([a, b]))\n",
    "string": '        return self.dequant(torch.cat([a, b])), """\n  text\n"""\n',
    "string before": '        return """\n  text """, self.dequant(torch.cat([a, b]))\n',
    "tabs": "\t\treturn self.dequant(\ttorch.cat([a, b]))\t\n",
    "one line": "        z = 1; return self.dequant(torch.cat([a, b])); y = 2\n",
    "two": "        return [self.dequant(torch.cat([a, b])),\n            self.dequant(torch.cat([b, a]))]\n",
    "no line break": "        return self.dequant(torch.cat([a, b]))",
    "form feed": "\x0c        return self.dequant(torch.cat([a, b]))\x0c\n",
    "backslash at the end": "        return self.dequant(torch.cat([a, b])) \\\n\n",
}


@pytest.mark.parametrize("name", CALLS)
def test_an_added_comment_keeps_the_code(name: str) -> None:
    call = CALLS[name]
    text = NET.replace(CALL + "\n", call)
    if call.startswith("\t"):
        text = text.replace("    ", "\t")
    assert "QL101" in codes(run(text))
    after = ignored(text)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    if name != "backslash at the end":
        assert codes(run(after)) == [] and after.count("qlsp:") == 1
    assert ignored(after) == after


def test_comments_are_added_to_comments() -> None:
    text = "x = 1\n# qlsp: ignore[QL101]\n# qlsp: ignor\n# qlsp: ignore-file[QL1]\n"
    after = ignored(text)
    assert codes(run(text)) == ["QL002"] * 3 and codes(run(after)) == []
    assert after.splitlines()[1] == "# qlsp: ignore[QL101, QL002]"


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "latin-1", "utf-8-sig"])
def test_encodings_are_kept(encoding: str, tmp_path: Path) -> None:
    word = "é" if encoding == "latin-1" else "量化"
    head = "" if encoding.startswith("utf-8") else f"# -*- coding: {encoding} -*-\r\n"
    data = (head + NET.replace("return", f"x = '{word}'  # {word}\n        return")).encode(encoding)
    source = decode("net.py", data)
    result = run(source.text)
    edits = suppress.ignore_edits(suppress.read(source, RULES), result.diagnostics)
    after = Source.from_text("net.py", edited(source.text, edits))
    written = encode(replace(source, segments=after.segments))
    comment = "  # qlsp: ignore[QL101] -- TODO: reason".encode(encoding.removesuffix("-sig"))
    assert written.replace(comment, b"") == data and comment in written


# Laws

WORDS = st.sampled_from(["QL101", "QL1", "QL2", "QL201", "QL002", "QL", "cat-mixed-scales", "QL001", "QL999"])
LISTS = st.lists(WORDS, max_size=3).map(lambda words: f"[{', '.join(words)}]" if words else "")
COMMENTS = st.one_of(
    st.builds(
        "# qlsp: {}{}{}".format,
        st.sampled_from(["ignore", "ignore-file", "ignor"]),
        LISTS,
        st.sampled_from(["", " -- why"]),
    ),
    LISTS.map(lambda words: f"# noqa{': ' + words.strip('[]') if words else ''}"),
    st.sampled_from(["# 名 😀", "# type: ignore", "# fmt: skip"]),
)
TAILS = st.lists(COMMENTS, max_size=2).map(lambda parts: "  " + "  ".join(parts) if parts else "")
SELECTIONS = st.builds(
    Config,
    select=st.sampled_from([("QL",), ("QL1",), ("QL002", "QL2"), ("QL101", "QL002")]),
    ignore=st.sampled_from([(), ("QL101",), ("QL0",), ("unused-suppression",)]),
)
NEWLINES = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def commented(draw: st.DrawFn) -> str:
    lines = NET.split("\n")
    for row in draw(st.lists(st.sampled_from([0, 5, 6, 11, 12, 13, 14]), max_size=3, unique=True)):
        lines[row] += draw(TAILS)
    for row in draw(st.lists(st.sampled_from([0, 3, 12, 14]), max_size=2, unique=True)):
        lines.insert(row, " " * draw(st.sampled_from([0, 8])) + draw(COMMENTS))
    text = draw(NEWLINES).join(lines)
    return text.replace("(a, b]", "(\x0ca, b]") if draw(st.booleans()) else text


def places(result: CheckResult) -> tuple[set[object], set[object]]:
    reported = {(d.code, d.place.span) for d in result.diagnostics if d.code != "QL002"}
    suppressed = [each.diagnostic for each in result.suppressed]
    return reported, {(d.code, d.place.span) for d in suppressed if d.code != "QL002"}


FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(commented(), SELECTIONS)
def test_no_finding_is_lost_and_none_is_both_reported_and_hidden(text: str, config: Config) -> None:
    bare = text.replace("qlsp:", "qlxp:").replace("noqa", "noka")
    everything, _ = places(run(bare, config))
    reported, suppressed = places(run(text, config))
    assert reported | suppressed == everything and not reported & suppressed


@FEW
@given(commented(), SELECTIONS)
def test_adding_comments_twice_is_adding_them_once(text: str, config: Config) -> None:
    once = ignored(text, config)
    assert codes(run(once, config)) == []
    assert ignored(once, config) == once
    assert ast.dump(ast.parse(once)) == ast.dump(ast.parse(text))


@FEW
@given(commented(), SELECTIONS)
def test_removing_what_is_unused_changes_no_other_finding(text: str, config: Config) -> None:
    after = fixed(text, config)
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    for before, now in zip(places(run(text, config)), places(run(after, config)), strict=True):
        assert sorted(code for code, _ in before) == sorted(code for code, _ in now)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="#qlsp: ignore[QL101],-noqa\n\r'\"()\\ \tx=1😀\x0c", max_size=60))
def test_any_text_is_read(text: str) -> None:
    comments = suppress.read(Source.from_text("a.py", text), RULES)
    index = LineIndex(text)
    for directive in comments.directives:
        assert text[directive.start] == "#" and directive.start < directive.end <= directive.comment[1]
        assert index.position(directive.start)[0] == index.position(directive.end)[0]
    meta = RuleMeta("QL101", "cat-mixed-scales", Severity.ERROR, "0.1")
    finding = Diagnostic(meta.code, meta.name, Message.of("comment-only"), meta.severity, Place("a.py", Span(0, 1)))
    after = edited(text, suppress.ignore_edits(comments, [finding]))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    assert ast.dump(ast.parse(after)) == ast.dump(tree)
