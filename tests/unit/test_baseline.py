"""Baselines: written, applied, shrunk; what is hidden, what is stale, what is neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlsp import baseline, cli
from qlsp.baseline import Baseline, BaselineError, Entry
from qlsp.config import Config
from qlsp.diagnostics import Diagnostic, Message, Severity
from qlsp.engine import check
from qlsp.identity import Identity
from qlsp.text import Place, Source, Span

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
        return self.dequant(torch.cat([a, b], 1))
"""
TWICE = NET.replace(
    "        return self.dequant(torch.cat([a, b], 1))\n",
    "        c = torch.cat([a, b], 1)\n        return self.dequant(c), self.dequant(torch.cat([a, b], 1))\n",
)
RIGHT = NET.replace("torch.cat([a, b], 1)", "a")
MAIN = "from net import Net\nfrom torch.ao.quantization import prepare\nm = Net()\nprepare(m)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


def run(capsys: Any, *arguments: str) -> tuple[int, list[str], str]:
    """Exit status, ``path:row CODE`` of each finding, standard error."""
    capsys.readouterr()
    status = cli.main(["check", "--isolated", "--output-format", "json", *arguments])
    out, err = capsys.readouterr()
    found = json.loads(out) if out else []
    return status, [f"{item['filename']}:{item['location']['row']} {item['code']}" for item in found], err


def written(capsys: Any, *arguments: str) -> None:
    status, _, err = run(capsys, "--write-baseline", "base.json", *arguments)
    assert status == 0, err


def test_what_is_known_is_hidden_and_what_is_new_is_not(project: Path, capsys: Any) -> None:
    written(capsys)
    assert run(capsys, "--baseline", "base.json") == (0, [], "")
    (project / "net.py").write_text("# moved\n\n\n" + NET.replace("torch.cat([a, b], 1)", "torch.cat(\n[a, b], 1)"))
    status, found, _ = run(capsys, "--baseline", "base.json")
    assert (status, found) == (1, ["net.py:18 QL101", "base.json:2 QL004"]), "another text is another finding"
    (project / "net.py").write_text("# moved\n\n\n" + NET)
    assert run(capsys, "--baseline", "base.json") == (0, [], "")
    (project / "net.py").write_text(TWICE)
    assert run(capsys, "--baseline", "base.json")[:2] == (1, ["net.py:16 QL101"]), "one is known, two occur"


def test_what_no_longer_occurs_is_a_finding_until_the_file_is_rewritten(project: Path, capsys: Any) -> None:
    written(capsys)
    (project / "net.py").write_text(RIGHT)
    status, found, _ = run(capsys, "--baseline", "base.json")
    assert (status, found) == (1, ["base.json:2 QL004"])
    status, found, err = run(capsys, "--baseline", "base.json", "--fix")
    assert (status, found) == (0, []) and "base.json: 1 line corrected" in err
    assert json.loads((project / "base.json").read_text()) == {"version": 1, "findings": []}
    assert run(capsys, "--baseline", "base.json") == (0, [], "")


def test_counts_shrink(project: Path, capsys: Any) -> None:
    (project / "net.py").write_text(TWICE)
    written(capsys)
    (entry,) = json.loads((project / "base.json").read_text())["findings"]
    assert entry == {
        "path": "net.py", "rule": "QL101", "symbol": "Net.forward", "text": "torch.cat([a, b], 1)", "count": 2
    }  # fmt: skip
    (project / "net.py").write_text(NET)
    assert run(capsys, "--baseline", "base.json")[1] == ["base.json:2 QL004"]
    run(capsys, "--baseline", "base.json", "--fix")
    assert json.loads((project / "base.json").read_text())["findings"][0]["count"] == 1
    assert (project / "net.py").read_text() == NET, "what the baseline knows is not fixed"


def test_what_the_run_cannot_tell_is_not_stale(project: Path, capsys: Any) -> None:
    (project / "other.py").write_text("import torch  # quantization\n")
    written(capsys)
    assert run(capsys, "--baseline", "base.json", "other.py") == (0, [], ""), "not checked"
    assert run(capsys, "--baseline", "base.json", "--ignore", "QL101") == (0, [], ""), "switched off"
    (project / "net.py").write_text(NET.replace("return self", "return self("))
    status, found, _ = run(capsys, "--baseline", "base.json", "net.py")
    assert (status, found) == (1, ["net.py:15 QL001"]), "a syntax error hides it"
    (project / "net.py").unlink()
    assert run(capsys, "--baseline", "base.json", "other.py")[1] == ["base.json:2 QL004"], "the file is gone"


def test_a_block_checked_without_its_root_is_not_stale(project: Path, capsys: Any) -> None:
    stubs = "self.quant_a, self.quant_b, self.dequant = QuantStub(), QuantStub(), DeQuantStub()"
    block = NET.replace(stubs, "pass")
    for name in ("quant_a", "quant_b", "dequant"):
        block = block.replace(f"self.{name}(", "(")
    root = (
        "from torch import nn\nfrom torch.ao.quantization import DeQuantStub, QuantStub\nfrom block import Net\n\n\n"
        "class Root(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.q, self.d, self.net = QuantStub(), DeQuantStub(), Net()\n\n"
        "    def forward(self, x):\n        x = self.q(x)\n        return self.d(self.net(x, x))\n"
    )
    (project / "net.py").unlink()
    (project / "block.py").write_text(block)
    (project / "root.py").write_text(root)
    written(capsys)
    assert len(json.loads((project / "base.json").read_text())["findings"]) == 1
    assert run(capsys, "--baseline", "base.json") == (0, [], "")
    assert run(capsys, "--baseline", "base.json", "block.py") == (0, [], "")


def test_paths_count_from_the_folder_of_the_file(project: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "ci").mkdir()
    assert run(capsys, "--write-baseline", "ci/base.json")[0] == 0
    assert json.loads((project / "ci/base.json").read_text())["findings"][0]["path"] == "../net.py"
    monkeypatch.chdir(project / "ci")
    assert run(capsys, "--baseline", "base.json", "..") == (0, [], "")


def test_hidden_findings_are_suppressed_results_in_sarif(project: Path, capsys: Any) -> None:
    written(capsys)
    cli.main(["check", "--isolated", "--baseline", "base.json", "--output-format", "sarif"])
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    (suppression,) = result["suppressions"]
    assert suppression["kind"] == "external"
    assert suppression["location"]["physicalLocation"]["artifactLocation"]["uri"] == "base.json"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no baseline"),
        ("[]", "no list of findings"),
        ('{"findings": []}', "version None"),
        ('{"version": 2, "findings": []}', "version 2"),
        ('{"version": 1, "findings": [3]}', "no entry"),
        ('{"version": 1, "findings": [{"path": "", "rule": "", "symbol": "", "text": "", "count": true}]}', "no entry"),
        ('{"version": 1, "findings": {}}', "no list of findings"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_baseline(project: Path, capsys: Any, text: str, says: str) -> None:
    (project / "base.json").write_text(text)
    with pytest.raises(BaselineError, match=says):
        baseline.read(Source.from_text("base.json", text))
    status, _, err = run(capsys, "--baseline", "base.json")
    assert status == 2 and says in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--baseline", "absent.json"],
        ["--write-baseline", "b.json", "--fix"],
        ["--write-baseline", "b.json", "--add-ignore"],
        ["--write-baseline", "b.json", "--baseline", "b.json"],
        ["--write-baseline", "no/such/folder/b.json"],
    ],
)
def test_arguments_that_contradict(project: Path, capsys: Any, arguments: list[str]) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 2 and err.startswith("qlsp: ") and err.count("\n") == 1


def test_files_from(project: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "list.txt").write_text("net.py\n\n")
    (project / "other.py").write_text(NET)
    assert run(capsys, "--files-from", "list.txt")[1] == ["net.py:15 QL101"]
    assert run(capsys, "other.py", "--files-from", "list.txt")[1] == ["net.py:15 QL101", "other.py:15 QL101"]
    (project / "list.txt").write_text("")
    assert run(capsys, "--files-from", "list.txt")[:2] == (0, [])
    assert run(capsys, "--files-from", "absent")[0] == 2
    assert run(capsys, "-", "--files-from", "-")[0] == 2


# --- properties -----------------------------------------------------------------------------------------------------

TEXT = "\n".join(f"x{number} = f(1)" for number in range(8)) + "\n"
SOURCES = {"a.py": Source.from_text("a.py", TEXT), "b.py": Source.from_text("b.py", TEXT)}


def finding(path: str, row: int, code: str) -> Diagnostic:
    start = TEXT.index(f"x{row} = ") + len("x0 = ")
    return Diagnostic(code, "name", Message.of("m"), Severity.ERROR, Place(path, Span(start, start + len("f(1)"))))


codes = st.sampled_from(["QL101", "QL201", "QL001"])
findings = st.lists(st.builds(finding, st.sampled_from(["a.py", "b.py"]), st.integers(0, 7), codes), max_size=12)


@given(known=findings, now=findings)
def test_nothing_is_lost_or_both_reported_and_hidden(known: list[Diagnostic], now: list[Diagnostic]) -> None:
    usual = [item for item in known if item.code not in baseline.NEVER_KNOWN]
    text = baseline.render(baseline.entries_of(usual, SOURCES, "."))
    read = baseline.read(Source.from_text("base.json", text))
    applied = baseline.apply(read, now, SOURCES, lambda _: True)
    assert len(applied.kept) + len(applied.hidden) == len(now)
    assert all(item.code != "QL001" for item in (each.diagnostic for each in applied.hidden))
    missing = sum(entry.count - left for entry, left in applied.stale)
    assert len(applied.hidden) + missing == len(usual)
    again = baseline.read(Source.from_text("base.json", baseline.shrunk(read, applied.stale)))
    after = baseline.apply(again, now, SOURCES, lambda _: True)
    assert (after.kept, after.stale) == (applied.kept, [])


entries = st.builds(
    Entry, st.builds(Identity, st.text(), st.text(), st.text(), st.text()), st.integers(1, 9), st.just(0)
)


@given(st.lists(entries, unique_by=lambda entry: entry.identity))
def test_a_rendered_file_is_read_back(known: list[Entry]) -> None:
    source = Source.from_text("base.json", baseline.render(known))
    found = baseline.read(source)
    assert {(e.identity, e.count) for e in found.entries} == {(e.identity, e.count) for e in known}
    assert [entry.row for entry in found.entries] == list(range(2, len(known) + 2))
    assert isinstance(found, Baseline)


def test_check_takes_a_baseline_of_any_form() -> None:
    source = Source.from_text("base.json", json.dumps({"version": 1, "findings": []}))
    result = check(["net.py"], Config(), {"net.py": NET}, baseline=baseline.read(source))
    assert [item.code for item in result.diagnostics] == ["QL101"] and result.stale == ()
