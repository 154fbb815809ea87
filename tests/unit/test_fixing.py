"""Fixes into files: rounds, order, what is left alone, how files are written, the command line's options."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qlsp import cli, fixing
from qlsp.config import Config
from qlsp.diagnostics import Applicability, Diagnostic, Fix, Message, Severity
from qlsp.fixing import Fixed, choose, fix_files, fix_source, fix_texts, meets, write_fixed
from qlsp.text import Edit, Place, SourceError, Span, apply, read_source

BAD = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.near = nn.Conv2d(3, 4, 3, padding=1)
        self.far = nn.Conv2d(4, 4, 3, padding=1)
        self.dequant = DeQuantStub()

    def forward(self, x):
        near = self.near(self.quant(x))
        far = self.far(near)
        return self.dequant(torch.cat([near, far], dim=1))
"""

GOOD = (
    BAD.replace(
        "from torch.ao.quantization", "from torch.ao.nn.quantized import FloatFunctional\nfrom torch.ao.quantization", 1
    )
    .replace("DeQuantStub()\n", "DeQuantStub()\n        self.cat = FloatFunctional()\n", 1)
    .replace("torch.cat(", "self.cat.cat(")
)

TWO = BAD.replace(
    "        return self.dequant(torch.cat([near, far], dim=1))\n",
    "        one = torch.cat([near, far], dim=1)\n"
    "        two = torch.cat([far, near], dim=1)\n"
    "        return self.dequant(one), self.dequant(two)\n",
)


def edit(start: int, end: int, content: str = "", path: str = "net.py") -> Edit:
    return Edit(path, Span(start, end), content)


def test_a_text_is_fixed() -> None:
    fixed = fix_source(BAD, "net.py", Config())
    assert fixed.texts == {"net.py": GOOD}
    assert [one.diagnostic.code for one in fixed.applied] == ["QL101"]
    assert len(fixed.before.diagnostics) == 1 and fixed.after.diagnostics == ()
    assert fixed.settled and not fixed.broken


def test_a_second_run_changes_nothing() -> None:
    again = fix_source(GOOD, "net.py", Config())
    assert again.texts == {} and again.applied == ()


def test_fixes_that_meet_wait_for_the_next_round() -> None:
    fixed = fix_source(TWO, "net.py", Config())
    text = fixed.texts["net.py"]
    assert len(fixed.applied) == 2 and fixed.after.diagnostics == ()
    assert "self.cat = FloatFunctional()" in text and "self.cat_2 = FloatFunctional()" in text
    assert "one = self.cat.cat(" in text and "two = self.cat_2.cat(" in text
    assert text.count("import FloatFunctional") == 1


CHAIN = """\
import torch
import torch.ao.quantization as tq
from torch import nn


def join(maps, *, axis):
    return torch.cat(maps, dim=axis)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 4, 1)
        self.two = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return torch.cat([self.one(x), self.two(x)], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = tq.QuantStub()
        self.block = Block()
        self.up = nn.Conv2d(8, 8, 1)
        self.dequant = tq.DeQuantStub()

    def forward(self, x):
        y = self.block(self.quant(x))
        return self.dequant(join([y, self.up(y)], axis=1))


def main():
    net = Net().eval()
    net.qconfig = tq.get_default_qconfig("x86")
    net = tq.prepare(net)
    net(torch.rand(1, 3, 8, 8))
    return tq.convert(net)
"""


def test_unsafe_fixes_come_after_the_safe_ones() -> None:
    """Although the unsafe ones stand above them in the file."""
    text = CHAIN + BAD.replace("class Net", "class Plain")
    kinds = [one.fix.applicability for one in fix_source(text, "net.py", Config(), unsafe=True).applied]
    assert Applicability.SAFE in kinds and Applicability.UNSAFE in kinds
    assert kinds == sorted(kinds, key=lambda kind: kind is Applicability.UNSAFE)


def test_a_fix_that_rests_on_the_others_comes_last_and_alone() -> None:
    fixed = fix_source(CHAIN, "net.py", Config(), unsafe=True)
    assert [item.code for item in fixed.after.diagnostics if item.fixes] == []
    kinds = [one.fix.last for one in fixed.applied]
    assert kinds == sorted(kinds)


@pytest.mark.parametrize(
    ("change", "restore"),
    [
        pytest.param(lambda t: t.replace("\n", "\r\n"), lambda t: t.replace("\r\n", "\n"), id="crlf"),
        pytest.param(lambda t: t.replace("\n", "\r"), lambda t: t.replace("\r", "\n"), id="cr"),
        pytest.param(lambda t: t.replace("    ", "\t"), lambda t: t.replace("\t", "    "), id="tabs"),
        pytest.param(lambda t: t.replace("    ", "  "), lambda t: t.replace("  ", "    "), id="two spaces"),
        pytest.param(
            lambda t: t.replace("\n\n\nclass", "\n\x0c\n\nclass"), lambda t: t.replace("\x0c", ""), id="form feed"
        ),
        pytest.param(
            lambda t: t.replace("        far =", "        fär = '日本語 🎉'  # naïve\n        far ="),
            lambda t: t.replace("        fär = '日本語 🎉'  # naïve\n", ""),
            id="not ascii",
        ),
        pytest.param(
            lambda t: t.replace("dim=1))", "dim=1))  # keep me").replace(
                "\n    def for", "\n    # and me\n    def for"
            ),
            lambda t: t.replace("  # keep me", "").replace("    # and me\n", ""),
            id="comments",
        ),
        pytest.param(lambda t: t.rstrip("\n"), lambda t: t + "\n", id="no last line break"),
    ],
)
def test_other_bytes_stay(change: Any, restore: Any) -> None:
    fixed = fix_source(change(BAD), "net.py", Config())
    text = fixed.texts["net.py"]
    assert restore(text) == GOOD
    assert text == change(GOOD)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + BAD.encode(),
        b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + BAD.encode(),
        BAD.replace("\n", "\r\n").encode(),
    ],
    ids=["bom", "latin-1", "crlf"],
)
def test_files_keep_encoding_and_mode(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "net.py"
    path.write_bytes(data)
    path.chmod(0o750)
    written = fix_files([str(path)], Config())
    assert written.paths == [str(path)] and written.failures == []
    head, _, tail = data.partition(BAD.encode()[:5])
    assert path.read_bytes().startswith(head + BAD.encode()[:5])
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    assert path.read_bytes() == head + GOOD.encode().replace(b"\n", newline)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert [each.name for each in tmp_path.iterdir()] == ["net.py"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text(BAD)
    (tmp_path / "net.py").symlink_to("real.py")
    fix_files([str(tmp_path / "net.py")], Config())
    assert (tmp_path / "net.py").is_symlink() and (tmp_path / "real.py").read_text() == GOOD


def test_a_file_that_changed_since_it_was_read_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.py"
    path.write_text(BAD)
    check = fixing.check

    def slow(*arguments: Any, **options: Any) -> Any:
        result = check(*arguments, **options)
        path.write_text("# somebody else\n" + BAD)
        return result

    monkeypatch.setattr(fixing, "check", slow)
    written = fix_files([str(path)], Config())
    assert written.paths == [] and "changed while it was checked" in written.failures[0]
    assert path.read_text() == "# somebody else\n" + BAD


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(BAD)
    path.chmod(0o444)
    written = fix_files([str(path)], Config())
    assert written.paths == [] and "read-only" in written.failures[0]
    assert path.read_text() == BAD


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.py"
    path.write_text(BAD)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(SourceError, match="No space left"):
        write_fixed(read_source(str(path)), GOOD)
    assert path.read_text() == BAD and [each.name for each in tmp_path.iterdir()] == ["net.py"]


def test_text_that_the_encoding_lacks(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\n")
    with pytest.raises(SourceError, match="cannot be encoded"):
        write_fixed(read_source(str(path)), "# -*- coding: latin-1 -*-\n# \u65e5\n")


# Choice


def finding(start: int, *fixes: Fix, code: str = "QL101", name: str = "cat-mixed-scales") -> Diagnostic:
    place = Place("net.py", Span(start, start + 1))
    return Diagnostic(code, name, Message.of("x"), Severity.ERROR, place, fixes=fixes)


def rewrite(*edits: Edit, kind: Applicability = Applicability.SAFE) -> Fix:
    return Fix(Message.of("x"), kind, Message.of("x"), edits)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (edit(1, 3), edit(2, 4), True),
        (edit(1, 3), edit(3, 4), True),
        (edit(1, 1), edit(1, 1), True),
        (edit(1, 3), edit(4, 5), False),
        (edit(1, 3), edit(1, 3, path="other.py"), False),
    ],
)
def test_edits_that_meet(one: Edit, other: Edit, expected: bool) -> None:
    assert meets(one, other) is meets(other, one) is expected


def test_the_first_finding_wins_and_a_fix_is_all_or_nothing() -> None:
    first = finding(0, rewrite(edit(10, 12), edit(30, 31)))
    second = finding(5, rewrite(edit(11, 11), edit(50, 50)))
    third = finding(9, rewrite(edit(50, 52)))
    assert [one.diagnostic for one in choose([first, second, third], Config())] == [first, third]


def test_applicability_and_configuration_decide() -> None:
    display = rewrite(edit(1, 1), kind=Applicability.DISPLAY)
    unsafe = rewrite(edit(1, 1), kind=Applicability.UNSAFE)
    both = finding(0, display, unsafe)
    assert choose([both], Config()) == []
    assert [one.fix for one in choose([both], Config(), unsafe=True)] == [unsafe]
    safe = finding(0, rewrite(edit(1, 1)))
    assert choose([safe], Config(unfixable=("QL101",))) == []
    assert choose([safe], Config(fixable=("QL2",))) == []


def test_edits_are_made_in_order() -> None:
    assert apply("abcdef", [edit(4, 5, "X"), edit(0, 0, "<"), edit(1, 3, "")]) == "<adXf"
    with pytest.raises(ValueError, match="overlap"):
        apply("abcdef", [edit(0, 3), edit(2, 4)])


def stubbed(monkeypatch: pytest.MonkeyPatch, *fixes: Fix, forever: bool = False) -> None:
    """Let every check of the fixing loop find these fixes, once or in every round."""
    check = fixing.check
    rounds = []

    def fake(*arguments: Any, **options: Any) -> Any:
        rounds.append(1)
        result = check(*arguments, **options)
        found = [finding(n, fix) for n, fix in enumerate(fixes)] if forever or len(rounds) == 1 else []
        return type(result)(tuple(found), result.sources, result.statistics, False, result.analysis)

    monkeypatch.setattr(fixing, "check", fake)


def fixed_text(text: str) -> Fixed:
    return fix_texts(["net.py"], Config(), {"net.py": text})


def test_a_fix_whose_result_does_not_parse_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    stubbed(monkeypatch, rewrite(edit(0, 1, "y")), rewrite(edit(4, 5, "(")), forever=True)
    fixed = fixed_text("x = 1\n")
    assert fixed.texts == {"net.py": "y = 1\n"}
    assert [one.fix.edits[0].content for one in fixed.broken] == ["("]


def test_rounds_that_go_in_circles_end(monkeypatch: pytest.MonkeyPatch) -> None:
    stubbed(monkeypatch, rewrite(edit(0, 1, "y")), forever=True)
    fixed = fixed_text("x = 1\n")
    assert not fixed.settled and fixed.texts == {"net.py": "y = 1\n"}


@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.WARNING, Severity.INFO])
@pytest.mark.parametrize("reveals", [(), ("QL999",)])
def test_a_fix_that_brings_another_finding_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, severity: Severity, reveals: tuple[str, ...]
) -> None:
    """Of three fixes of one round the second brings one; a hint is no reason, nor what the mistake only hid."""
    real = fixing.check
    names = {"x = 1": "a", "y = 2": "BAD", "z = 3": "c"}
    text = "x = 1\ny = 2\nz = 3\n"

    def fake(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        now = result.sources["net.py"].text
        places = {line: now.index(line) for line in names if line in now}
        fixes = {at: rewrite(edit(at, at + 1, names[line])) for line, at in places.items()}
        found = [finding(at, replace(fix, reveals=reveals)) for at, fix in fixes.items()]
        if "BAD" in now:
            found.append(replace(finding(0, code="QL999"), severity=severity))
        return type(result)(tuple(found), result.sources, result.statistics, False, result.analysis)

    monkeypatch.setattr(fixing, "check", fake)
    fixed = fixed_text(text)
    good = severity is Severity.INFO or bool(reveals)
    kept = "BAD = 2" if good else "y = 2"
    assert fixed.texts == {"net.py": f"a = 1\n{kept}\nc = 3\n"} and fixed.settled
    withheld = [one.fix.edits[0].content for one in fixed.withheld]
    assert withheld == ([] if good else ["BAD"])


# The command line


def run(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["check", "--isolated", *arguments])
    return (status, *capsys.readouterr())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fix(folder: Path, capsys: Any) -> None:
    status, out, err = run(capsys, "--fix", "--show-fixes", "net.py")
    assert (status, out) == (0, "") and (folder / "net.py").read_text() == GOOD
    assert err.splitlines()[0].startswith("net.py: 1 x QL101 cat-mixed-scales: ")
    assert err.splitlines()[-1] == "qlsp: 1 finding fixed in 1 file"


def test_diff_changes_nothing(folder: Path, capsys: Any) -> None:
    status, out, err = run(capsys, "--diff", "net.py")
    assert status == 1 and (folder / "net.py").read_text() == BAD
    assert out.startswith("--- net.py\n+++ net.py\n@@") and "+        self.cat = FloatFunctional()\n" in out
    assert "1 finding would be fixed in 1 file" in err
    (folder / "net.py").write_text(GOOD)
    assert run(capsys, "--diff", "net.py")[:2] == (0, "")


def test_fix_only_reports_nothing(folder: Path, capsys: Any) -> None:
    (folder / "net.py").write_text(BAD)
    status, out, _ = run(capsys, "--fix-only", "--config", "unfixable = ['QL101']", "net.py")
    assert (status, out) == (0, "") and (folder / "net.py").read_text() == BAD


def test_a_file_that_cannot_be_written_is_a_failure(folder: Path, capsys: Any) -> None:
    (folder / "net.py").chmod(0o444)
    status, out, err = run(capsys, "--fix", "net.py")
    assert status == 2 and "QL101" in out and "net.py: cannot be written: it is read-only" in err


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    import io

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    status, out, err = run(capsys, "--fix", "-")
    assert (status, out) == (0, GOOD)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
@pytest.mark.parametrize("bad, good", [(BAD, GOOD), (GOOD, GOOD)], ids=["fixed", "nothing to fix"])
def test_standard_input_keeps_its_encoding(
    encoding: str, bad: str, good: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: Any
) -> None:
    import io

    head = "# -*- coding: latin-1 -*-\r\n# é\r\n" if encoding == "latin-1" else "# é\r\n"
    data, wanted = ((head + text.replace("\n", "\r\n")).encode(encoding) for text in (bad, good))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert cli.main(["check", "--isolated", "--fix", "-"]) == 0
    assert capfdbinary.readouterr().out == wanted


def test_the_share_of_findings_with_a_fix(folder: Path, capsys: Any) -> None:
    _, _, err = run(capsys, "--statistics", "net.py")
    assert "findings with a fix: QL101 1 of 1 (1 safe)" in err.splitlines()
