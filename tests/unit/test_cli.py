"""The command line: arguments, exit status, what goes to which stream."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from qlsp import __version__, cli, engine
from qlsp.baseline import Baseline
from qlsp.commands.inspect import split_target
from qlsp.config import Config, Configs
from qlsp.diagnostics import Diagnostic, Message, Severity
from qlsp.engine import Analysis, CheckResult
from qlsp.importers import Importers
from qlsp.project import Project
from qlsp.qmap import MapInput, MapRoot, MapSite
from qlsp.rules.api import all_rules
from qlsp.statistics import Statistics
from qlsp.text import Place, Source, Span

ROOT = Path(__file__).resolve().parents[2]
BROKEN = "import QuantStub\ndef f(:\n"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def qlsp(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "qlsp", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False, **options
    )


class FakeEngine:
    """Stands for the engine: remembers how it was called, returns findings of these severities."""

    def __init__(self) -> None:
        self.severities: list[Severity] = []
        self.crashed = False
        self.undecided: list[tuple[str, str, Place]] = []
        self.roots: list[MapRoot] = []
        self.paths: list[str] = []
        self.texts: dict[str, str] = {}
        self.configs: Configs = Config()
        self.class_names: list[str | None] = []

    @property
    def config(self) -> Config:
        """The configuration of the working directory."""
        return self.configs.of(".")

    def check(
        self,
        paths: Sequence[str],
        configs: Configs,
        texts: Mapping[str, str] | None = None,
        named: Collection[str] = (),
        statistics: bool = False,
        baseline: Baseline | None = None,
        importers: Importers | None = None,
    ) -> CheckResult:
        self.paths, self.configs, self.texts = list(paths), configs, dict(texts or {})
        message = Message.of("cat-scale-from", owner="conv")
        diagnostics = tuple(
            Diagnostic("QL101", "cat-mixed-scales", message, severity, Place(paths[0], Span(0, 1)))
            for severity in self.severities
        )
        counted = Statistics(
            files=len(paths),
            parsed=len(paths),
            by_kind={"cat": (3, 4), "stub": (2, 2)},
            undecided=tuple(self.undecided),
            findings={"QL101": len(diagnostics)} if diagnostics else {},
        )
        sources = {path: Source.from_text(path, "x = 1\n") for path in paths}
        return CheckResult(diagnostics, sources, counted, self.crashed, Analysis(Project()))

    def quant_map(
        self, paths: Sequence[str], configs: Configs, class_name: str | None = None
    ) -> tuple[MapRoot, ...]:
        self.paths, self.configs = list(paths), configs
        self.class_names.append(class_name)
        return tuple(root for root in self.roots if class_name in (None, root.name))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setattr(engine, "check", fake.check)
    monkeypatch.setattr(engine, "quant_map", fake.quant_map)
    return fake


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file, as working directory."""
    (tmp_path / "net.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Exit status


@pytest.mark.parametrize(
    ("severities", "arguments", "status"),
    [
        ([], [], 0),
        (["error"], [], 1),
        (["warning"], [], 1),
        (["info"], [], 0),
        (["info", "error"], [], 1),
        (["info"], ["--fail-on", "info"], 1),
        (["warning"], ["--fail-on", "error"], 0),
        (["error"], ["--fail-on", "error"], 1),
        (["info"], ["--config", 'fail-on = "info"'], 1),
        (["info"], ["--config", 'fail-on = "info"', "--fail-on", "error"], 0),
        (["error"], ["--exit-zero"], 0),
    ],
)
def test_status_of_findings(
    fake: FakeEngine, project: Path, severities: list[str], arguments: list[str], status: int
) -> None:
    fake.severities = [Severity(name) for name in severities]
    assert cli.main(["check", *arguments]) == status


def test_a_crashed_rule_is_2_even_with_exit_zero(fake: FakeEngine, project: Path, capsys: Any) -> None:
    fake.crashed, fake.severities = True, [Severity.ERROR]
    assert cli.main(["check", "--exit-zero"]) == 2
    assert "net.py:1:1: QL101" in capsys.readouterr().out


@pytest.mark.parametrize("exit_zero", [[], ["--exit-zero"]])
def test_a_missing_path_is_2_after_the_others(
    fake: FakeEngine, project: Path, capsys: Any, exit_zero: list[str]
) -> None:
    fake.severities = [Severity.ERROR]
    assert cli.main(["check", "absent.py", "net.py", "gone/", *exit_zero]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("net.py:1:1: QL101") and fake.paths == ["net.py"]
    assert err == "qlsp: absent.py: no such file or folder\nqlsp: gone/: no such file or folder\n"


def test_only_a_missing_path_still_gives_a_report(fake: FakeEngine, project: Path, capsys: Any) -> None:
    assert cli.main(["check", "absent.py", "--output-format", "json"]) == 2
    assert json.loads(capsys.readouterr().out) == []


def test_a_folder_without_python_is_0(fake: FakeEngine, project: Path, capsys: Any) -> None:
    (project / "empty").mkdir()
    assert cli.main(["check", "empty"]) == 0
    assert capsys.readouterr().err == "qlsp: empty: no Python files\n"


def test_ctrl_c_is_130(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def interrupt(*_: object, **__: object) -> CheckResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "check", interrupt)
    assert cli.main(["check"]) == 130
    assert capsys.readouterr().err == "qlsp: interrupted\n"


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("error", [ValueError("two\nlines"), RecursionError("deep"), MemoryError()])
def test_an_internal_error_is_one_line_and_2(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, error: Exception, debug: bool
) -> None:
    def crash(*_: object, **__: object) -> CheckResult:
        raise error

    monkeypatch.setattr(engine, "check", crash)
    monkeypatch.setenv("QLSP_DEBUG", "1" if debug else "")
    assert cli.main(["check"]) == 2
    err = capsys.readouterr().err
    assert f"internal error: {type(error).__name__}" in err and err.endswith("please report it\n")
    assert ("Traceback" in err) is debug and (debug or err.count("\n") == 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "COMMAND"),
        (["chekc"], "invalid choice"),
        (["check", "--output-format", "sarf"], "unknown format sarf; did you mean sarif?"),
        (["check", "--no-such-option"], "unrecognized arguments"),
        (["check", "--select", "QL999"], "qlsp: unknown rule QL999 in select"),
        (["check", "--ignore", "cat-mixed-scale"], "did you mean cat-mixed-scales?"),
        (["check", "--ignore", "ql101"], "did you mean QL101?"),
        (["check", "--extend-select", "E501"], "unknown rule E501 in extend-select"),
        (["check", "--config", 'severity.QL999 = "off"'], "unknown rule QL999 in severity"),
        (["check", "--config", 'mdoe = "ptq"'], "did you mean mode?"),
        (["check", "--config", "absent.toml"], "absent.toml: cannot be read"),
        (["check", "--stdin-filename", "a.py"], "--stdin-filename needs -"),
        (["check", "--output-file", "no/such/folder/report"], "no/such/folder/report: cannot write the report"),
        (["check", "book.ipynb"], "book.ipynb: no such file or folder"),
        (["inspect"], "PATH[:CLASS]"),
        (["inspect", "absent.py"], "qlsp: absent.py: no such file or folder"),
        (["inspect", "net.py:Net"], "qlsp: Net: no model of this name"),
        (["explain"], "explain needs a rule"),
        (["explain", "QL101", "--all"], "explain needs a rule"),
        (["explain", "QL999"], "unknown rule QL999"),
        (["explain", "cat-mixed-scale"], "did you mean cat-mixed-scales?"),
        (["explain", "some error that no page knows"], "no rule quotes this error text"),
    ],
)
def test_wrong_arguments_are_2(
    fake: FakeEngine, project: Path, capsys: Any, arguments: list[str], text: str
) -> None:
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert text in err and "Traceback" not in err


@pytest.mark.parametrize("arguments", [["--version"], ["-h"], ["check", "-h"], ["explain", "--help"]])
def test_version_and_help_are_0(capsys: Any, arguments: list[str]) -> None:
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out


# What reaches the engine


def test_options_reach_the_configuration(fake: FakeEngine, project: Path) -> None:
    options = ["--select", "QL1,QL2", "--select", "QL001", "--ignore", "quantstub-reused"]
    assert cli.main(["check", *options, "--workflow", "fx", "--mode", "qat", "--fail-on", "info"]) == 0
    config = fake.config
    assert config.select == ("QL1", "QL2", "QL001") and config.ignore == ("quantstub-reused",)
    assert (config.workflow, config.mode, config.fail_on) == ("fx", "qat", Severity.INFO)


def test_the_configuration_file_is_found_and_can_be_left_out(fake: FakeEngine, project: Path) -> None:
    (project / "qlsp.toml").write_text('mode = "qat"\nexclude = ["old"]\n')
    (project / "old").mkdir()
    (project / "old" / "a.py").write_text("")
    assert cli.main(["check"]) == 0 and (fake.config.mode, fake.paths) == ("qat", ["net.py"])
    assert cli.main(["check", "--isolated"]) == 0 and fake.config.mode == "auto"
    assert fake.paths == ["net.py", os.path.join("old", "a.py")]
    assert cli.main(["check", "--config", 'mode = "ptq"']) == 0 and fake.config.mode == "ptq"


def test_files_of_a_folder(fake: FakeEngine, project: Path) -> None:
    wanted = ["a/b/one.py", "a/two.py", "net.py"]
    hidden = [
        ".git/hook.py",
        ".hidden.py",
        "a/__pycache__/one.py",
        "env/lib/three.py",
        "venv/lib/three.py",
        "node_modules/tool/four.py",
        "a/data.txt",
        "a/stub.pyi",
    ]
    for name in [*wanted, *hidden, "env/pyvenv.cfg"]:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    (project / "folder.py").mkdir()
    assert cli.main(["check"]) == 0
    assert sorted(fake.paths) == sorted(map(os.path.normpath, wanted))
    first = fake.paths
    assert cli.main(["check", "."]) == 0 and fake.paths == first
    assert cli.main(["check", "net.py", ".", "./net.py", "a"]) == 0
    assert sorted(map(os.path.normpath, fake.paths)) == sorted(map(os.path.normpath, wanted))
    assert cli.main(["check", ".hidden.py", "a/data.txt", ".git"]) == 0
    assert fake.paths == [".hidden.py", "a/data.txt", os.path.join(".git", "hook.py")]
    assert cli.main(["check", "env", "venv/lib"]) == 0
    assert fake.paths == [os.path.join("env", "lib", "three.py"), os.path.join("venv", "lib", "three.py")]


def test_links_do_no_harm(fake: FakeEngine, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "loop").symlink_to(project, target_is_directory=True)
    (project / "self.py").symlink_to(project / "self.py")
    (project / "dangling.py").symlink_to(project / "absent.py")
    (project / "same.py").symlink_to(project / "net.py")
    assert cli.main(["check"]) == 0 and fake.paths == ["net.py"]
    assert cli.main(["check", os.path.join("sub", "loop")]) == 0
    assert fake.paths == [os.path.join("sub", "loop", "net.py")]


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input(fake: FakeEngine, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"\xef\xbb\xbfx = 1\r\n")
    assert cli.main(["check", "-", "net.py", "--stdin-filename", "other.py"]) == 0
    assert fake.texts == {"other.py": "x = 1\r\n"} and fake.paths == ["other.py", "net.py"]
    stdin(monkeypatch, "x = 'é'\n".encode("latin-1").replace(b"x", b"# coding: latin-1\nx", 1))
    assert cli.main(["check", "-", "net.py", "--stdin-filename", "net.py"]) == 0
    assert fake.texts == {"net.py": "# coding: latin-1\nx = 'é'\n"} and fake.paths == ["net.py"]
    stdin(monkeypatch, b"")
    assert cli.main(["check", "-"]) == 0 and fake.texts == {"-": ""}


def test_standard_input_that_cannot_be_decoded(
    fake: FakeEngine, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    stdin(monkeypatch, b"x = '\xff'\n")
    assert cli.main(["check", "-", "net.py"]) == 1
    assert capsys.readouterr().out.startswith("-:1:1: QL001 [syntax-error] The file cannot be decoded")
    assert fake.paths == ["net.py"]
    stdin(monkeypatch, b"x = '\xff'\n")
    assert cli.main(["check", "-", "--ignore", "QL001"]) == 0


# Output


def test_formats(fake: FakeEngine, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    fake.severities = [Severity.ERROR]

    def output(*arguments: str) -> str:
        assert cli.main(["check", *arguments]) == 1
        return str(capsys.readouterr().out)

    concise = "net.py:1:1: QL101 [cat-mixed-scales] the scale of conv is made here\n"
    assert output() == output("--output-format", "concise") == concise
    assert "1 finding in 1 file: 1 error." in output("--output-format", "full")
    assert json.loads(output("--output-format", "json"))[0]["code"] == "QL101"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\033[" in output() and "1 finding" in output()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in output() and "1 finding" in output()


def test_several_formats_in_one_run(fake: FakeEngine, project: Path, capsys: Any) -> None:
    fake.severities = [Severity.ERROR]
    formats = ["--output-format", "concise", "--output-format", "json=a.json", "--output-format=sarif=a.sarif"]
    assert cli.main(["check", *formats]) == 1
    assert capsys.readouterr().out.count("\n") == 1
    assert len(json.loads(Path("a.json").read_text(encoding="utf-8"))) == 1
    assert len(json.loads(Path("a.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]) == 1


def test_two_formats_for_one_place_are_refused(fake: FakeEngine, project: Path, capsys: Any) -> None:
    assert cli.main(["check", "--output-format", "json", "--output-format", "sarif"]) == 2
    assert "FORMAT=FILE" in capsys.readouterr().err and fake.paths == []
    assert cli.main(["check", "--output-format", "json="]) == 2


def test_output_file(fake: FakeEngine, project: Path, capsys: Any) -> None:
    fake.severities = [Severity.ERROR]
    assert cli.main(["check", "--output-file", "report.txt"]) == 1
    assert capsys.readouterr().out == ""
    assert (project / "report.txt").read_text().startswith("net.py:1:1: QL101")


def test_statistics_go_to_stderr(fake: FakeEngine, project: Path, capsys: Any) -> None:
    fake.severities = [Severity.ERROR]
    place = Place("net.py", Span(4, 5))
    fake.undecided = [("cat", "rare", place), *[("cat", "often", place)] * 5]
    fake.undecided += [("operator", f"reason {number:02}", place) for number in range(12)]
    assert cli.main(["check", "--statistics"]) == 1
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    lines = err.splitlines()
    assert lines[:9] == [
        "files: 1 checked, 1 parsed",
        "cat: 3 of 4 decided",
        "stub: 2 of 2 decided",
        "undecided: 5 cat: often",
        "  net.py:1:5",
        "  net.py:1:5",
        "  net.py:1:5",
        "  and 2 more (-v lists them)",
        "undecided: 1 cat: rare",
    ]
    assert lines[-3:] == [
        "undecided: 4 more reasons (-v lists them)",
        "findings: QL101 1",
        "findings with a fix: QL101 0 of 1 (0 safe)",
    ]
    assert cli.main(["check", "--statistics", "-v"]) == 1
    assert capsys.readouterr().err.count("  net.py:1:5") == 18


def test_a_reader_that_went_away(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"net{number}.py").write_text(BROKEN)
    command = f"'{sys.executable}' -m qlsp check . | head -n 1; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (1, "") and run.stdout.count("\n") == 1


def test_a_full_disk(project: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    (project / "bad.py").write_text(BROKEN)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "qlsp", "check", "bad.py"]
        run = subprocess.run(
            command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 2 and run.stderr.startswith("qlsp: cannot write the report: ")
    assert "Traceback" not in run.stderr


def test_any_file_name_in_any_locale(tmp_path: Path) -> None:
    try:
        (tmp_path / "名\udcff.py").write_text(BROKEN)
    except OSError:
        pytest.skip("the file system refuses such names")
    environment = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for kind in ("full", "concise", "json"):
        command = [sys.executable, "-m", "qlsp", "check", "--output-format", kind, "."]
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert (run.returncode, run.stderr) == (1, b""), run.stderr
        assert b"syntax-error" in run.stdout


# inspect

SITE = MapSite(
    "cat", "torch.cat", "net.py", 1, 1, 1, 2, (), (MapInput("float", None),), MapInput("quantized", "a")
)


def test_inspect(fake: FakeEngine, project: Path, capsys: Any) -> None:
    fake.roots = [
        MapRoot(name, None, "net.py", 1, "torch-eager", "ptq", 0, (SITE,)) for name in ("Net", "Neck")
    ]
    assert cli.main(["inspect", "."]) == 0
    assert capsys.readouterr().out.startswith("Net (net.py:1): torch-eager, ptq\n")
    arguments = ["net.py:Neck", "--output-format", "json", "--mode", "qat", "--isolated"]
    assert cli.main(["inspect", *arguments]) == 0
    assert [root["name"] for root in json.loads(capsys.readouterr().out)["roots"]] == ["Neck"]
    assert (fake.class_names[-1], fake.config.mode) == ("Neck", "qat")
    assert cli.main(["inspect", "net.py", "net.py:Neck", "net.py:Gone", "--output-format", "json"]) == 2
    out, err = capsys.readouterr()
    assert [root["name"] for root in json.loads(out)["roots"]] == ["Net", "Neck"]
    assert err == "qlsp: Gone: no model of this name\n"


def test_inspect_without_a_model(fake: FakeEngine, project: Path, capsys: Any) -> None:
    assert cli.main(["inspect", "net.py"]) == 0
    assert capsys.readouterr().err == "qlsp: no quantized model found\n"
    (project / "bad.py").write_bytes(b"\xff")
    assert cli.main(["inspect", "bad.py"]) == 2
    assert capsys.readouterr().err.startswith("qlsp: bad.py: cannot be decoded")


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("net.py", ("net.py", None)),
        ("net.py:Net", ("net.py", "Net")),
        ("C:\\net.py", ("C:\\net.py", None)),
        ("C:\\net.py:Net", ("C:\\net.py", "Net")),
        ("net.py:", ("net.py:", None)),
        ("folder:Net", ("folder", "Net")),
    ],
)
def test_targets(target: str, parts: tuple[str, str | None]) -> None:
    assert split_target(target) == parts


# explain


@pytest.mark.parametrize("word", [lambda meta: meta.code, lambda meta: meta.name])
def test_explain_a_rule(capsys: Any, word: Callable[[Any], str]) -> None:
    for rule in all_rules():
        assert cli.main(["explain", word(rule.meta)]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{rule.meta.name} ({rule.meta.code})\n")


def test_explain_formats(capsys: Any) -> None:
    assert cli.main(["explain", "QL101", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "cat-mixed-scales"
    assert cli.main(["explain", "--all", "--output-format", "json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["code"] for record in records] == [rule.meta.code for rule in all_rules()]
    assert cli.main(["explain", "QL101", "--output-format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("# cat-mixed-scales (QL101)\n")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            "NotImplementedError: Could not run 'aten::quantize_per_tensor' with arguments from the"
            " 'QuantizedCPU' backend. This could be because the operator doesn't exist",
            "quantstub-on-quantized",
        ),
        (
            "UserWarning: All inputs of this cat operator must share the same quantization parameters."
            " Otherwise large numerical inaccuracies may occur.",
            "cat-mixed-scales",
        ),
    ],
)
def test_explain_an_error_text(capsys: Any, error: str, name: str) -> None:
    assert cli.main(["explain", error, "--output-format", "json"]) == 0
    assert [record["name"] for record in json.loads(capsys.readouterr().out)] == [name]
    assert cli.main(["explain", *error.split()]) == 0
    assert capsys.readouterr().out.startswith(name)


# Start


def test_the_version(tmp_path: Path) -> None:
    run = qlsp("--version", cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"qlsp {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--version"], ["explain", "--all"], ["-h"]])
def test_light_commands_load_no_library(tmp_path: Path, arguments: list[str]) -> None:
    program = (
        "import sys\nfrom qlsp.cli import main\n"
        f"assert main({arguments!r}) == 0\n"
        "heavy = {'libcst', 'pygls', 'lsprotocol', 'torch', 'qlsp.engine'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_the_demo_has_its_finding(capsys: Any) -> None:
    demo = ROOT / "docs" / "demo"
    assert cli.main(["check", "--isolated", "--output-format", "json", str(demo)]) == 1
    (record,) = json.loads(capsys.readouterr().out)
    line = (demo / "attention.py").read_text().splitlines()[record["location"]["row"] - 1]
    assert record["name"] == "cat-mixed-scales" and "torch.cat" in line
