"""``qlsp check --add-ignore`` and ``qlsp config`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qlsp import cli
from qlsp.config import KEYS, Config, Resolver

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
COMMENT = b"  # qlsp: ignore[QL101] -- TODO: reason"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_comments_are_added_once(project: Path, capsys: Any) -> None:
    head = "# -*- coding: gbk -*-\r\n# 量化\r\n"
    files = {
        "a.py": (head + NET.replace("\n", "\r\n")).encode("gbk"),
        "b.py": b"\xef\xbb\xbf" + NET.replace("    ", "\t").encode(),
        "c.py": NET.replace("import torch\n", "import torch  # 😀\n", 1).removesuffix("\n").encode(),
        "d.py": b"x = 1\n",
    }
    for name, data in files.items():
        (project / name).write_bytes(data)
    assert cli.main(["check"]) == 1
    capsys.readouterr()
    assert cli.main(["check", "--add-ignore"]) == 0
    assert tuple(capsys.readouterr()) == ("", "qlsp: ignore comments added: 3 in 3 files\n")
    written = {name: (project / name).read_bytes() for name in files}
    assert written["d.py"] == files["d.py"]
    for name in ("a.py", "b.py", "c.py"):
        assert COMMENT in written[name] and written[name].replace(COMMENT, b"") == files[name]
    assert cli.main(["check", "--add-ignore"]) == 0
    assert capsys.readouterr().err == "qlsp: ignore comments added: 0 in 0 files\n"
    assert {name: (project / name).read_bytes() for name in files} == written


def test_what_no_comment_hides_is_still_reported(project: Path, capsys: Any) -> None:
    (project / "bad.py").write_text("# QuantStub\ndef f(:\n")
    (project / "net.py").write_text(NET)
    assert cli.main(["check", "--add-ignore"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("bad.py:2:7: QL001") and out.count("\n") == 1
    assert (project / "bad.py").read_text() == "# QuantStub\ndef f(:\n"


def test_only_selected_findings_get_a_comment(project: Path) -> None:
    (project / "net.py").write_text(NET)
    assert cli.main(["check", "--add-ignore", "--ignore", "QL101"]) == 0
    assert (project / "net.py").read_text() == NET


def test_a_file_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (project / "net.py").write_text(NET)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.replace", refuse)
    assert cli.main(["check", "--add-ignore"]) == 2
    err = capsys.readouterr().err
    assert "qlsp: net.py: cannot be written: Permission denied\n" in err and "Traceback" not in err


def test_standard_input_cannot_be_changed(project: Path, capsys: Any) -> None:
    assert cli.main(["check", "--add-ignore", "-"]) == 2
    assert capsys.readouterr().err == "qlsp: --add-ignore cannot change standard input\n"


# config


def test_config_shows_values_that_read_back(project: Path, capsys: Any) -> None:
    (project / "qlsp.toml").write_text('mode = "qat"\n[per-file-ignores]\n"tests/*" = ["QL1"]\n')
    assert cli.main(["config", ".", "--select", "QL2", "--config", 'horizon.march = "bayes"']) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    file = project / "qlsp.toml"
    assert lines[0] == f"# .: {file}"
    for line in (
        f'mode = "qat"  # {file}',
        f'per-file-ignores."tests/*" = ["QL1"]  # {file}',
        'select = ["QL2"]  # --select',
        'horizon.march = "bayes"  # --config horizon.march = "bayes"',
        'workflow = "auto"  # default',
        "severity = {}  # default",
        "# torch is not set",
    ):
        assert line in lines
    assert all(any(line.removeprefix("# ").startswith(key) for line in lines[1:]) for key in KEYS)
    (project / "shown.toml").write_text(out)
    config = Resolver(config_args=["shown.toml"]).of("x.py")
    assert (config.mode, config.select, config.horizon.march) == ("qat", ("QL2",), "bayes")


def test_config_as_json(project: Path, capsys: Any) -> None:
    (project / "net.py").write_text("")
    assert cli.main(["config", "net.py", "--isolated", "--mode", "qat", "--output-format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["path"], record["file"], record["root"]) == ("net.py", None, ".")
    assert record["values"]["mode"] == {"value": "qat", "origin": "--mode"}
    assert record["values"]["horizon.rescale-us"] == {"value": 44.0, "origin": "default"}
    assert record["values"]["exclude"]["value"] == list(Config().exclude)


def test_config_of_nothing(project: Path, capsys: Any) -> None:
    assert cli.main(["config", "absent.py"]) == 2
    assert capsys.readouterr().err == "qlsp: absent.py: no such file or folder\n"
    (project / "qlsp.toml").write_text("mode = 1\n")
    assert cli.main(["config"]) == 2
    assert capsys.readouterr().err.startswith(f"qlsp: {project / 'qlsp.toml'}: mode: expected one of")


def test_a_broken_configuration_below_is_one_line(project: Path, capsys: Any) -> None:
    (project / "net.py").write_text(NET)
    (project / "sub").mkdir()
    (project / "sub" / "x.py").write_text("")
    (project / "sub" / "qlsp.toml").write_text("mode\n")
    assert cli.main(["check", "net.py"]) == 1
    capsys.readouterr()
    assert cli.main(["check"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"qlsp: {project / 'sub' / 'qlsp.toml'}: ") and err.count("\n") == 1


def test_the_severity_that_fails_is_that_of_the_file(project: Path, capsys: Any) -> None:
    (project / "a").mkdir()
    (project / "a" / "net.py").write_text(NET)
    (project / "a" / "qlsp.toml").write_text('severity.QL101 = "warning"\nfail-on = "error"\n')
    assert cli.main(["check"]) == 0
    assert cli.main(["check", "--fail-on", "warning"]) == 1
    assert "QL101" in capsys.readouterr().out
