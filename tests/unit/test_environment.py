"""Installed packages: where they are looked for, and findings in them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from qlsp import cli
from qlsp.config import Config
from qlsp.environment import folders, site_packages

BLOCKS = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)


def block(**options):
    return nn.Sequential(Block())
"""
WRAPPED = """\
from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare
from shapes import block

model = QuantWrapper(block())
model.qconfig = get_default_qconfig("x86")
prepared = prepare(model)
"""
OWN = """\
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub
from shapes.block import Block


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant, self.block = QuantStub(), DeQuantStub(), Block()

    def forward(self, x):
        x = self.block(self.quant(x))
        return self.dequant(x)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose environment has a package ``shapes`` with a module and a function of one name."""
    package = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "shapes"
    package.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr\n")
    (package / "__init__.py").write_text("from .block import *\n")
    (package / "block.py").write_text(BLOCKS)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def check(capsys: Any, *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    cli.main(["check", "--output-format", "json", *arguments])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def rows(found: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(item["filename"], item["location"]["row"], item["code"]) for item in found]


@pytest.mark.parametrize(("text", "row"), [(WRAPPED, 4), (OWN, 12)], ids=["wrapped", "in a model"])
def test_a_finding_in_a_package_stands_at_the_users_call(project: Path, capsys: Any, text: str, row: int) -> None:
    (project / "net.py").write_text(text)
    assert check(capsys) == []
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    found = check(capsys)
    assert rows(found) == [("net.py", row, "QL101")]
    (item,) = found
    assert item["fixes"] == []
    first = item["related"][0]
    assert Path(first["filename"]).parts[-2:] == ("shapes", "block.py") and first["location"]["row"] == 11
    assert "installed package" in first["message"] and "Block.forward" in first["message"]


def test_each_use_of_a_package_is_a_finding(project: Path, capsys: Any) -> None:
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    two = WRAPPED.replace("block())", "block())\nother = QuantWrapper(block())\nprepare(other)")
    (project / "net.py").write_text(two.replace("QuantWrapper(block())\nother", "QuantWrapper(block())\nother"))
    assert rows(check(capsys, "--select", "QL101")) == [("net.py", 4, "QL101"), ("net.py", 5, "QL101")]


def test_nothing_in_a_package_is_changed_or_checked(project: Path, capsys: Any) -> None:
    (project / "net.py").write_text(OWN)
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    block = project.parent / "env/lib/python3.11/site-packages/shapes/block.py"
    cli.main(["check", "--fix", "--unsafe-fixes", "."])
    assert block.read_text() == BLOCKS and (project / "net.py").read_text() == OWN
    (project / "net.py").write_text(OWN.replace("self.quant(x))", "self.quant(x))  # qlsp: ignore[QL101] -- known"))
    assert check(capsys) == []


def test_a_project_module_hides_a_package(project: Path, capsys: Any) -> None:
    (project / "net.py").write_text(WRAPPED)
    (project / "shapes.py").write_text("from torch import nn\n\n\ndef block():\n    return nn.Conv2d(4, 4, 1)\n")
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    assert check(capsys) == []


# --- where ----------------------------------------------------------------------------------------------------


def test_which_environment_counts(tmp_path: Path) -> None:
    for name in ("configured", "active", "project/.venv"):
        (tmp_path / name / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    root = str(tmp_path / "project")
    active = {"VIRTUAL_ENV": str(tmp_path / "active")}

    def where(config: Config, variables: dict[str, str]) -> list[str]:
        return [Path(path).relative_to(tmp_path).parts[0] for path in site_packages(config, variables)]

    assert where(Config(root=root, environment="../configured"), active) == ["configured"]
    assert where(Config(root=root, environment=str(tmp_path / "configured")), {}) == ["configured"]
    assert where(Config(root=root), active) == ["active"]
    assert where(Config(root=root), {"CONDA_PREFIX": str(tmp_path / "active")}) == ["active"]
    assert where(Config(root=root), {}) == ["project"]
    assert where(Config(root=root, environment=""), active) == []
    assert where(Config(root=root, environment="../absent"), active) == []
    assert where(Config(root=str(tmp_path)), {}) == []


FINDER = "from __future__ import annotations\nMAPPING: dict[str, str] = {{'shapes': {path!r}, 'other': '/nowhere'}}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shapes.pth", "# ours\nimport os; os.getcwd()\n\n{src}\n"),
        ("__editable__.shapes-1.0.pth", "{src}"),
        ("shapes.pth", "../../../../shapes/src\n"),
        ("shapes.egg-link", "{src}\n../\n"),
        ("__editable___shapes_1_0_finder.py", FINDER),
    ],
)
def test_editable_installs_are_read(project: Path, capsys: Any, name: str, text: str) -> None:
    site = project.parent / "env/lib/python3.11/site-packages"
    moved = project.parent / "shapes" / "src"
    moved.mkdir(parents=True)
    (site / "shapes").rename(moved / "shapes")
    (project / "net.py").write_text(WRAPPED)
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    assert check(capsys) == []
    folders.cache_clear()
    (site / name).write_text(text.format(src=moved, path=str(moved / "shapes")))
    found = check(capsys)
    assert rows(found) == [("net.py", 4, "QL101")] and found[0]["fixes"] == []
    assert "installed package" in found[0]["related"][0]["message"]


def test_a_project_that_is_installed_itself_is_no_package(project: Path, capsys: Any) -> None:
    site = project.parent / "env/lib/python3.11/site-packages"
    (site / "shapes" / "block.py").rename(project / "block.py")
    (site / "project.pth").write_text(f"{project}\n")
    folders.cache_clear()
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    (project / "net.py").write_text(WRAPPED.replace("from shapes", "from block"))
    found = check(capsys)
    assert rows(found) == [("block.py", 11, "QL101")] and found[0]["fixes"]


@pytest.mark.parametrize("text", ["/nowhere\n", "import shapes_hook\n", "MAPPING = {{\n", "\0\n"])
def test_links_that_lead_nowhere_do_no_harm(project: Path, capsys: Any, text: str) -> None:
    site = project.parent / "env/lib/python3.11/site-packages"
    for name in ("x.pth", "x.egg-link", "__editable___x_finder.py"):
        (site / name).write_text(text)
    folders.cache_clear()
    (project / "qlsp.toml").write_text('environment = "../env"\n')
    (project / "net.py").write_text(WRAPPED)
    assert rows(check(capsys)) == [("net.py", 4, "QL101")]


def test_an_interpreter_names_its_environment(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("")
    assert folders(str(python)) == (str(packages),)
    windows = tmp_path / "windows" / "Lib" / "site-packages"
    windows.mkdir(parents=True)
    assert str(windows) in folders(str(tmp_path / "windows"))


def test_the_environment_that_runs_the_tests_is_found() -> None:
    assert any(Path(folder, "pytest").is_dir() for folder in folders(sys.prefix))
