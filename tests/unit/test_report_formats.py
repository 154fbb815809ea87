"""The formats for other tools, read back by parsers of theirs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from junitparser import JUnitXml
from sarif_pydantic.sarif import Sarif

from qlsp import cli
from qlsp.diagnostics import Applicability, Diagnostic, Fix, Message, Predicts, Related, Severity, Suppressed
from qlsp.identity import fingerprints, identities
from qlsp.report import full
from qlsp.report.findings import Findings, RuleText
from qlsp.report.formats import FORMATS
from qlsp.text import Edit, Place, Source, Span

TEXT = """\
class Net:
    def forward(self, x):
        s = "🚀名"; y = torch.cat([a, b])
        return torch.cat([a,  b])
"""
OWNER = Message.of("cat-scale-from", owner="conv_a: 100%, x\nsecond")
RULES = (RuleText("QL101", "cat-mixed-scales", "A summary.", "# A page", "error"),)


def at(marked: str, number: int = 0) -> Place:
    start = [match.start() for match in re.finditer(re.escape(marked), TEXT)][number]
    return Place("models/na me.py", Span(start, start + len(marked)))


def finding(place: Place, **changes: Any) -> Diagnostic:
    return replace(Diagnostic("QL101", "cat-mixed-scales", OWNER, Severity.ERROR, place), **changes)


FIX = Fix(OWNER, Applicability.SAFE, OWNER, (Edit("models/na me.py", at("torch.cat([a, b])").span, "self.cat(\n1)"),))
FIRST = finding(
    at("torch.cat([a, b])"),
    predicts=Predicts.RAISES,
    related=(Related(OWNER, at("class Net")),),
    fixes=(FIX, replace(FIX, applicability=Applicability.DISPLAY)),
)
SECOND = finding(at("torch.cat([a,  b])"), severity=Severity.INFO)
HIDDEN = Suppressed(finding(at("return")), at("class Net"), "known")
SOURCES = {"models/na me.py": Source.from_text("models/na me.py", TEXT)}
FINDINGS = Findings([FIRST, SECOND], SOURCES, [HIDDEN], 1, False, RULES, "0.1.0")
EMPTY = Findings([], {}, rules=RULES, version="0.1.0")


def test_the_command_line_knows_every_format() -> None:
    assert tuple(FORMATS) == cli.OUTPUT_FORMATS


def test_json_lines_are_the_objects_of_the_array() -> None:
    lines = FORMATS["json-lines"](FINDINGS).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(FORMATS["json"](FINDINGS))
    assert len(lines) == 2 and FORMATS["json-lines"](EMPTY) == ""


# --- SARIF ----------------------------------------------------------------------------------------------------------


def test_sarif_says_what_the_findings_say() -> None:
    log = json.loads(FORMATS["sarif"](FINDINGS))
    Sarif.model_validate(log)
    (run,) = log["runs"]
    assert run["tool"]["driver"]["rules"][0]["help"]["markdown"] == "# A page"
    first, second, hidden = run["results"]
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "models/na%20me.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 23, "endLine": 3, "endColumn": 40},
    }
    assert (first["ruleId"], first["ruleIndex"], first["level"], second["level"]) == ("QL101", 0, "error", "note")
    (related,) = first["relatedLocations"]
    assert related["physicalLocation"]["region"]["endColumn"] == 10
    (fix,) = first["fixes"]
    (replacement,) = fix["artifactChanges"][0]["replacements"]
    assert replacement["insertedContent"] == {"text": "self.cat(\n1)"}
    assert "fixes" not in second and "suppressions" not in first
    assert hidden["suppressions"][0]["kind"] == "inSource" and hidden["suppressions"][0]["justification"] == "known"
    marks = [result["partialFingerprints"]["qlspFinding/v1"] for result in run["results"]]
    assert len(set(marks)) == 3


@lru_cache(maxsize=1)
def official_schema() -> Any:
    """The schema of the standard as the package of its reference tool carries it."""
    cache = Path(__file__).resolve().parents[2] / ".cache"
    cache.mkdir(exist_ok=True)
    archive = cache / "microsoft-sarif-multitool-linux-5.7.0.tgz"
    if not archive.exists():
        command = ["npm", "pack", "--silent", "@microsoft/sarif-multitool-linux@5.7.0"]
        subprocess.run(command, cwd=cache, check=True, capture_output=True)
    with tarfile.open(archive) as files:
        member = files.extractfile("package/sarif-2.1.0.json")
        assert member is not None
        return json.loads(member.read().decode("utf-8-sig"))


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm, which brings the schema")
@pytest.mark.parametrize("findings", [FINDINGS, EMPTY], ids=["findings", "empty"])
def test_sarif_is_valid_by_the_official_schema_if_npm_is_there(findings: Findings) -> None:
    log = json.loads(FORMATS["sarif"](findings))
    checker = jsonschema.validators.validator_for(official_schema())(official_schema())
    assert [error.message for error in checker.iter_errors(log)] == []
    log["runs"][0]["columnKind"] = "bytes"
    assert not checker.is_valid(log)


# --- GitHub, GitLab, JUnit ------------------------------------------------------------------------------------------


def github_commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Commands as the runner reads them (``actions/runner``, ``ActionCommand``)."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
        assert match is not None, line
        values = dict(part.split("=", 1) for part in match[2].split(","))
        unescaped = {key: _unescape(_unescape_value(value)) for key, value in values.items()}
        found.append((match[1], unescaped, _unescape(match[3])))
    return found


def _unescape_value(text: str) -> str:
    return text.replace("%3A", ":").replace("%2C", ",")


def _unescape(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_github_annotations() -> None:
    first, second = github_commands(FORMATS["github"](FINDINGS))
    assert first[0] == "error" and second[0] == "notice"
    assert first[1] == {
        "title": "QL101 cat-mixed-scales",
        "file": "models/na me.py",
        "line": "3",
        "endLine": "3",
        "col": "23",
        "endColumn": "40",
    }
    assert first[2].endswith("conv_a: 100%, x\nsecond is made here")
    assert FORMATS["github"](EMPTY) == ""


def test_a_finding_over_several_rows_has_no_columns_on_github() -> None:
    whole = finding(Place("models/na me.py", Span(0, len(TEXT) - 1)))
    ((_, values, _),) = github_commands(FORMATS["github"](Findings([whole], SOURCES)))
    assert (values["line"], values["endLine"]) == ("1", "4") and "col" not in values


def test_gitlab_code_quality() -> None:
    first, second = json.loads(FORMATS["gitlab"](FINDINGS))
    assert (first["severity"], second["severity"]) == ("critical", "info")
    assert first["location"]["path"] == "models/na me.py"
    assert first["location"]["positions"]["begin"] == {"line": 3, "column": 23}
    assert re.fullmatch("[0-9a-f]{32}", first["fingerprint"]) and first["fingerprint"] != second["fingerprint"]
    assert json.loads(FORMATS["gitlab"](EMPTY)) == []


def test_junit() -> None:
    (suite,) = list(JUnitXml.fromstring(FORMATS["junit"](FINDINGS).encode()))
    assert (suite.name, suite.tests, suite.failures) == ("models/na me.py", 2, 2)
    case = next(iter(suite))
    assert case.name == "QL101 cat-mixed-scales" and case.result[0].type == "error"
    (passed,) = list(JUnitXml.fromstring(FORMATS["junit"](EMPTY).encode()))
    assert (passed.tests, passed.failures) == (1, 0)


def test_junit_replaces_what_xml_cannot_hold() -> None:
    item = finding(at("class Net"), message=Message.of("cat-scale-from", owner="\x00\x1b\ud800x"))
    (suite,) = list(JUnitXml.fromstring(FORMATS["junit"](Findings([item], SOURCES)).encode()))
    assert "\ufffd\ufffd\ufffdx" in next(iter(suite)).result[0].message


# --- one finding, one place -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["a\r\nb = X\r\n", "\tb = X\n", 's = "🚀"; b = X\n', "\fb = X\n", "b = X", "a\rb = X\r", "\n\n   名 = X"],
    ids=["crlf", "tab", "emoji", "form feed", "no end", "cr", "chinese"],
)
def test_all_formats_agree_on_the_place(text: str) -> None:
    start = text.index("X")
    item = Diagnostic("QL101", "cat-mixed-scales", OWNER, Severity.ERROR, Place("net.py", Span(start, start + 1)))
    findings = Findings([item], {"net.py": Source.from_text("net.py", text)})
    (record,) = json.loads(FORMATS["json"](findings))
    row, column = record["location"]["row"], record["location"]["column"]
    assert FORMATS["concise"](findings).startswith(f"net.py:{row}:{column}: ")
    assert f"--> net.py:{row}:{column}\n" in full.report(findings)
    (result,) = json.loads(FORMATS["sarif"](findings))["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": row, "startColumn": column, "endLine": row, "endColumn": column + 1}
    ((_, values, _),) = github_commands(FORMATS["github"](findings))
    assert (values["line"], values["col"]) == (str(row), str(column))
    begin = json.loads(FORMATS["gitlab"](findings))[0]["location"]["positions"]["begin"]
    assert (begin["line"], begin["column"]) == (row, column)


def test_full_shows_the_first_fix_as_a_diff() -> None:
    lines = full.report(FINDINGS).splitlines()
    start = next(number for number, line in enumerate(lines) if "(safe fix)" in line)
    assert lines[start + 1 : start + 4] == [
        '  | -         s = "🚀名"; y = torch.cat([a, b])',
        '  | +         s = "🚀名"; y = self.cat(',
        "  | + 1)",
    ]
    assert "(display fix)" in lines[start + 4] or "display fix" in "".join(lines[start + 4 : start + 6])


# --- identity -------------------------------------------------------------------------------------------------------


def test_identity_names_the_symbol_and_the_text() -> None:
    first, second = identities([FIRST, SECOND], SOURCES)
    assert (first.symbol, first.text) == ("Net.forward", "torch.cat([a, b])")
    assert second == first, "white space is no part of it"
    assert len(set(fingerprints([FIRST, SECOND], SOURCES))) == 2


def test_identity_survives_moved_code() -> None:
    moved = "import torch\n\n\n" + TEXT.replace("    ", "\t")
    shift = moved.index("torch.cat([a, b])")
    item = finding(Place("models/na me.py", Span(shift, shift + len("torch.cat([a, b])"))))
    (there,) = identities([item], {"models/na me.py": Source.from_text("models/na me.py", moved)})
    (here,) = identities([FIRST], SOURCES)
    assert there == here


@pytest.mark.parametrize(
    ("text", "marked", "symbol"),
    [
        ("x = HERE\n", "HERE", ""),
        ("class A:\n    x = HERE\n", "HERE", "A"),
        ("class A:\n    def f(self):\n        if x:\n            HERE\n", "HERE", "A.f"),
        ("def f():\n    def g():\n        pass\n    HERE\n", "HERE", "f"),
        ("class A:\n    def f(self, x=HERE):\n        pass\n", "HERE", "A"),
        ('def f():\n    s = """\ndef g():\n"""\n    HERE\n', "HERE", "f"),
        ("class A:\n    async def f(self):\n        HERE\n", "HERE", "A.f"),
        ("class A:\n    def f(self):\n        g(1,\nHERE)\n", "HERE", "A.f"),
    ],
)
def test_symbols(text: str, marked: str, symbol: str) -> None:
    start = text.index(marked)
    item = finding(Place("a.py", Span(start, start + len(marked))))
    (identity,) = identities([item], {"a.py": Source.from_text("a.py", text)})
    assert identity.symbol == symbol
