"""Reports: excerpts with marks, one line per finding, JSON, the quantization map."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from qlsp.diagnostics import Applicability, Diagnostic, Fix, Message, Predicts, Related, Severity
from qlsp.qmap import MapInput, MapRoot, MapSite
from qlsp.report import concise, full, map, page
from qlsp.report import json as json_report
from qlsp.report.findings import Findings
from qlsp.report.layout import character_width, display_width
from qlsp.text import Edit, Place, Segment, Source, Span

OWNER = Message.of("cat-scale-from", owner="conv_a")
CAT = Message.of("cat-mixed-scales", spelling="torch.cat", first="conv_a", others="conv_b")

TEXT = "a = 1\nboth = torch.cat([a, b])\nc = 3\n"


def source(text: str) -> dict[str, Source]:
    return {"net.py": Source.from_text("net.py", text)}


def finding(text: str, marked: str, **changes: object) -> Diagnostic:
    """A finding on the first occurrence of ``marked``."""
    start = text.index(marked)
    place = Place("net.py", Span(start, start + len(marked)))
    item = Diagnostic("QL101", "cat-mixed-scales", OWNER, Severity.ERROR, place)
    return replace(item, **changes)  # type: ignore[arg-type]


def excerpt(text: str, marked: str) -> list[str]:
    """The lines of the full report between the first bar and the last."""
    lines = full.report(Findings([finding(text, marked)], source(text))).splitlines()
    bars = [index for index, line in enumerate(lines) if line.strip() == "|"]
    return lines[bars[0] + 1 : bars[-1]]


def test_concise_is_one_line_per_finding() -> None:
    items = [
        finding(TEXT, "torch.cat([a, b])"),
        finding(TEXT, "c = 3", code="QL201", name="quantstub-reused"),
    ]
    assert concise.report(Findings(items, source(TEXT))).splitlines() == [
        "net.py:2:8: QL101 [cat-mixed-scales] the scale of conv_a is made here",
        "net.py:3:1: QL201 [quantstub-reused] the scale of conv_a is made here",
    ]
    assert concise.report(Findings([], {})) == ""


def test_full_shows_source_related_places_and_help() -> None:
    item = finding(
        TEXT,
        "torch.cat([a, b])",
        assumes=Message.of("assuming-eager"),
        related=(Related(Message.of("quantstub-first-use", stub="q"), Place("net.py", Span(0, 5))),),
        fixes=(Fix(OWNER, Applicability.SAFE, OWNER, ()),),
    )
    assert full.report(Findings([item], source(TEXT), files=3)) == (
        "error: QL101 [cat-mixed-scales] the scale of conv_a is made here\n"
        " --> net.py:2:8\n"
        "  |\n"
        "2 | both = torch.cat([a, b])\n"
        "  |        ^^^^^^^^^^^^^^^^^\n"
        "  |\n"
        "  ::: the first use of `q` is here\n"
        " --> net.py:1:1\n"
        "  |\n"
        "1 | a = 1\n"
        "  | -----\n"
        "  |\n"
        "  = note: assuming eager mode: no prepare call in view says otherwise\n"
        "  = help: the scale of conv_a is made here (safe fix)\n"
        "  = help: `qlsp explain cat-mixed-scales` says more\n"
        "\n"
        "1 finding in 3 files: 1 error.\n"
    )


def test_full_counts() -> None:
    items = [
        finding(TEXT, "a"),
        finding(TEXT, "b", severity=Severity.INFO),
        finding(TEXT, "c", severity=Severity.INFO),
    ]
    assert full.report(Findings(items, source(TEXT))).endswith("\n3 findings: 1 error, 2 info.\n")
    assert full.report(Findings([], {}, files=2)) == "No findings in 2 files.\n"
    assert full.report(Findings([], {}, files=1)) == "No findings in 1 file.\n"


@pytest.mark.parametrize(
    ("text", "marked", "expected"),
    [
        ("x\n", "x", ["1 | x", "  | ^"]),
        ("\tx = y\n", "y", ["1 |     x = y", "  |         ^"]),
        ("ab\tx\n", "x", ["1 | ab  x", "  |     ^"]),
        ("a\tb\tc\n", "b\tc", ["1 | a   b   c", "  |     ^^^^^"]),
        ("名 = y\n", "y", ["1 | 名 = y", "  |      ^"]),
        ("x = 名前\n", "名前", ["1 | x = 名前", "  |     ^^^^"]),
        ('s = "🚀"; y\n', "y", ['1 | s = "🚀"; y', "  |           ^"]),
        ("e\u0301 = y\n", "y", ["1 | e\u0301 = y", "  |     ^"]),
        ("a\r\nb\r\n", "b", ["2 | b", "  | ^"]),
        ("a\rb\r", "b", ["2 | b", "  | ^"]),
        ("\fx\n", "x", ["1 | ␌x", "  |  ^"]),
        ('s = "\x1b[31m"; y\n', "y", ['1 | s = "␛[31m"; y', "  |              ^"]),
        ("s = '\u202e'; y\n", "y", ["1 | s = '\ufffd'; y", "  |          ^"]),
        ("x \n", " ", ["1 | x", "  |  ^"]),
    ],
)
def test_marks_stand_under_the_code(text: str, marked: str, expected: list[str]) -> None:
    assert excerpt(text, marked) == expected


def test_a_finding_of_several_rows() -> None:
    text = "f(\n    a,\n\n    b,\n)\ng()\n"
    assert excerpt(text, "f(\n    a,\n\n") == ["1 | f(", "  | ^^", "2 |     a,", "  |     ^^", "3 |"]
    assert excerpt(text, "f(\n    a,\n\n    b,\n)") == [
        "1 | f(",
        "  | ^^",
        "2 |     a,",
        "  |     ^^",
        "3 |",
        "...",
        "5 | )",
        "  | ^",
    ]


def test_an_empty_place_gets_one_mark() -> None:
    item = replace(finding(TEXT, "both"), place=Place("net.py", Span(6, 6)))
    assert "  | ^\n" in full.report(Findings([item], source(TEXT)))
    at_end = replace(item, place=Place("net.py", Span(len(TEXT), len(TEXT))))
    assert "4 |\n  | ^\n" in full.report(Findings([at_end], source(TEXT)))
    assert "1 |\n  | ^\n" in full.report(Findings([replace(item, place=Place("net.py", Span(0, 0)))], source("")))


@pytest.mark.parametrize("before", [0, 10, 500, 100_000])
def test_a_long_line_is_cut_around_the_finding(before: int) -> None:
    text = "a" * before + "MARK" + "b" * 100_000
    shown, marks = excerpt(text, "MARK")
    assert display_width(shown) <= full.MAX_WIDTH + 8
    assert shown[marks.index("^") : marks.rindex("^") + 1] == "MARK"


def test_gutters_line_up() -> None:
    text = "x\n" * 99 + "y\n"
    related = (Related(OWNER, Place("net.py", Span(0, 1))),)
    lines = full.report(Findings([finding(text, "y", related=related)], source(text))).splitlines()
    assert len({line.index("|") for line in lines if "|" in line}) == 1
    assert "  1 | x" in lines and "100 | y" in lines


def test_a_file_without_source_has_no_excerpt() -> None:
    item = finding(TEXT, "a")
    text = full.report(Findings([item], {}))
    assert " --> net.py:1:1\n" in text and "|" not in text
    assert concise.report(Findings([item], {})).startswith("net.py:1:1: QL101")


def test_color_only_when_asked() -> None:
    item = finding(TEXT, "both")
    findings = Findings([item], source(TEXT))
    plain, colored = full.report(findings), full.report(findings, color=True)
    assert "\033" not in plain and "\033[1;31m" in colored
    assert re.sub(r"\033\[[\d;]*m", "", colored) == plain


def test_widths() -> None:
    assert [character_width(c) for c in "aé名🚀\u0301\u200d"] == [1, 1, 2, 2, 0, 0]


def test_json_is_the_contract() -> None:
    text = 'x = "🚀"; y = torch.cat([a, b])\n'
    fix = Fix(
        OWNER,
        Applicability.UNSAFE,
        Message.of("quantstub-first-use", stub="q"),
        (Edit("net.py", Span(0, 1), "z"),),
    )
    item = finding(
        text,
        "torch.cat([a, b])",
        message=CAT,
        predicts=Predicts.RAISES,
        assumes=Message.of("assuming-eager"),
        related=(Related(OWNER, Place("net.py", Span(0, 1))),),
        fixes=(fix, fix),
    )
    (record,) = json.loads(json_report.report(Findings([item], source(text))))
    here = {
        "filename": "net.py",
        "cell": None,
        "location": {"row": 1, "column": 1},
        "end_location": {"row": 1, "column": 2},
    }
    expected_fix = {
        "applicability": "unsafe",
        "message": "the scale of conv_a is made here",
        "reason": "the first use of `q` is here",
        "edits": [{**here, "content": "z"}],
    }
    assert record.pop("message").startswith("`torch.cat` joins tensors of different scales")
    assert record.pop("assumes").startswith("assuming eager mode")
    assert record.pop("url").endswith("/rules/cat-mixed-scales")
    assert record == {
        "code": "QL101",
        "name": "cat-mixed-scales",
        "severity": "error",
        "predicts": "raises",
        "filename": "net.py",
        "cell": None,
        "location": {"row": 1, "column": 14},
        "end_location": {"row": 1, "column": 31},
        "related": [{"message": "the scale of conv_a is made here", **here}],
        "fixes": [expected_fix, expected_fix],
        "fix": expected_fix,
    }


def test_json_without_findings_and_without_fixes() -> None:
    assert json.loads(json_report.report(Findings([], {}))) == []
    (record,) = json.loads(json_report.report(Findings([finding(TEXT, "a")], source(TEXT))))
    assert (record["fixes"], record["fix"], record["assumes"], record["related"]) == ([], None, None, [])


def test_places_in_a_cell() -> None:
    notebook = Source("net.ipynb", (Segment("a\n", 1), Segment("b\nc\n", 4)))
    item = replace(finding(TEXT, "a"), place=Place("net.ipynb", Span(2, 3, 1)))
    sources = {"net.ipynb": notebook}
    assert concise.report(Findings([item], sources)).startswith("net.ipynb:cell 4:2:1: QL101")
    (record,) = json.loads(json_report.report(Findings([item], sources)))
    assert (record["cell"], record["location"]) == (4, {"row": 2, "column": 1})


SITE = MapSite(
    op="cat",
    spelling="torch.cat",
    filename="net.py",
    row=20,
    column=16,
    end_row=20,
    end_column=40,
    call_path=("Net.forward:31",),
    inputs=(MapInput("quantized", "conv_a"), MapInput("float", None)),
    output=MapInput("quantized", "conv_a"),
)
ROOT = MapRoot("Net", None, "net.py", 8, "torch-eager", "ptq", None, (SITE,))


def test_map_as_json_is_the_contract() -> None:
    assert json.loads(map.as_json([ROOT])) == {
        "roots": [
            {
                "name": "Net",
                "instance": None,
                "filename": "net.py",
                "row": 8,
                "backend": "torch-eager",
                "mode": "ptq",
                "rescales": 0,
                "sites": [
                    {
                        "op": "cat",
                        "spelling": "torch.cat",
                        "filename": "net.py",
                        "row": 20,
                        "column": 16,
                        "end_row": 20,
                        "end_column": 40,
                        "call_path": ["Net.forward:31"],
                        "inputs": [
                            {"domain": "quantized", "scale": "conv_a"},
                            {"domain": "float", "scale": None},
                        ],
                        "output": {"domain": "quantized", "scale": "conv_a"},
                    }
                ],
            }
        ]
    }
    assert json.loads(map.as_json([replace(ROOT, rescales=2)]))["roots"][0]["rescales"] == 2
    assert json.loads(map.as_json([])) == {"roots": []}


def test_map_as_text_has_a_line_per_operator() -> None:
    other = replace(SITE, filename="neck.py", spelling="self.名", inputs=(), call_path=())
    assert map.as_text([replace(ROOT, sites=(SITE, other), instance="backbone")]) == (
        "Net at backbone (net.py:8): torch-eager, ptq\n"
        "  place          operator   inputs                     output              called from\n"
        "  20:16          torch.cat  quantized (conv_a), float  quantized (conv_a)  Net.forward:31\n"
        "  neck.py:20:16  self.名                               quantized (conv_a)\n"
        "  0 predicted rescales\n"
    )
    assert map.as_text([]) == ""


class Meta:
    code, name, fix, since, preview = "QL202", "quantstub-on-quantized", "safe", "0.1", True
    severity, predicts = Severity.ERROR, Predicts.RAISES


PAGE = """A stub is called
twice.

## Why it matters
Raises `Could not run 'aten::quantize_per_tensor' with arguments from the 'QuantizedCPU' backend. ...`;
another text is ``a `code` span of some length``, and `aten::X with some arguments and a tail` has a hole.
"""


def test_page_as_markdown_text_and_record() -> None:
    assert page.as_markdown(Meta, PAGE).startswith(
        "# quantstub-on-quantized (QL202)\n\n"
        "Severity error; the code raises an exception; safe fix; since 0.1, preview.\n\nA stub"
    )
    text = page.as_text(Meta, PAGE)
    assert "\nWhy it matters\n--------------\nRaises" in text and "## " not in text
    record = page.as_record(Meta, PAGE)
    assert record["summary"] == "A stub is called twice."
    assert record["explanation"] == PAGE.strip() and json.dumps(record)


@pytest.mark.parametrize(
    ("error", "matches"),
    [
        (
            "NotImplementedError: Could not run 'aten::quantize_per_tensor' with arguments from the"
            " 'QuantizedCPU' backend. This could be because",
            True,
        ),
        ("Could not run 'aten::quantize_per_tensor' with", True),
        ("Could not run\n  'aten::quantize_per_tensor'\n  with arguments", True),
        ("Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend.", False),
        ("RuntimeError: aten::add.out with some arguments and a tail", True),
        ("a `code` span of some length", True),
        ("Could not run", False),
        ("", False),
    ],
)
def test_a_pasted_error_finds_its_page(error: str, matches: bool) -> None:
    assert bool(page.match_length(PAGE, error)) is matches
