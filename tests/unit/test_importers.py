"""A file checked alone is judged through the models that use it, in whatever file of its project they stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qlsp import check_paths, cli, importers
from qlsp.config import Resolver
from qlsp.importers import Importers, ImportIndex

BLOCK = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)


def block():
    return Block()
"""
FLOAT = """\
from torch import nn
{imports}


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = {Block}()

    def forward(self, x):
        return self.block(x)
"""
MAIN = """\
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub, get_default_qconfig, prepare
{imports}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant, self.part = QuantStub(), DeQuantStub(), {Block}()

    def forward(self, x):
        return self.dequant(self.part(self.quant(x)))


def main():
    model = Net().eval()
    model.qconfig = get_default_qconfig("x86")
    return prepare(model)
"""
PACKAGE = "pkg/__init__.py"


def main(imports: str, name: str = "Block", text: str = MAIN) -> str:
    """A file that uses a class under a name."""
    return text.replace("{imports}", imports).replace("{Block}", name)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a project."""
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: Any, *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    cli.main(["check", "--output-format", "json", *arguments])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def rows(found: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(item["filename"], item["location"]["row"], item["code"]) for item in found]


FORMS: dict[str, dict[str, str]] = {
    "from import": {"block.py": BLOCK, "main.py": main("from block import Block")},
    "renamed": {"block.py": BLOCK, "main.py": main("from block import Block as Part", "Part")},
    "several lines": {"block.py": BLOCK, "main.py": main("from block import (  # of ours\n    block,\n    Block,\n)")},
    "a backslash": {"block.py": BLOCK, "main.py": main("from block import \\\n    Block")},
    "module": {"block.py": BLOCK, "main.py": main("import block", "block.Block")},
    "module, renamed": {"block.py": BLOCK, "main.py": main("import os, block as parts", "parts.Block")},
    "star": {"block.py": BLOCK, "main.py": main("from block import *")},
    "a function that builds it": {"block.py": BLOCK, "main.py": main("from block import block", "block")},
    "in a function": {
        "block.py": BLOCK,
        "main.py": main("", "make").replace(
            "class Net", "def make():\n    from block import Block\n\n    return Block()\n\n\nclass Net"
        ),
    },
    "in a try": {
        "block.py": BLOCK,
        "main.py": main("try:\n    from block import Block\nexcept ImportError:\n    Block = None"),
    },
    "through another file": {
        "block.py": BLOCK,
        "neck.py": main("from block import Block", text=FLOAT),
        "main.py": main("from neck import Inner", "Inner"),
    },
    "through two others": {
        "block.py": BLOCK,
        "neck.py": main("import block", "block.Block", FLOAT),
        "body.py": main("from neck import Inner as Neck", "Neck", FLOAT),
        "main.py": main("from body import Inner", "Inner"),
    },
    "a package": {PACKAGE: "", "pkg/block.py": BLOCK, "main.py": main("from pkg.block import Block")},
    "a module of a package": {
        PACKAGE: "",
        "pkg/block.py": BLOCK,
        "main.py": main("import pkg.block", "pkg.block.Block"),
    },
    "a package without __init__": {"pkg/block.py": BLOCK, "main.py": main("from pkg.block import Block")},
    "from package import module": {
        PACKAGE: "",
        "pkg/block.py": BLOCK,
        "main.py": main("from pkg import block", "block.Block"),
    },
    "passed on by a package": {
        PACKAGE: "from .block import Block\n",
        "pkg/block.py": BLOCK,
        "main.py": main("from pkg import Block"),
    },
    "passed on with a star": {
        PACKAGE: "from .block import *\n",
        "pkg/block.py": BLOCK,
        "main.py": main("import pkg", "pkg.Block"),
    },
    "passed on by two packages": {
        PACKAGE: "from .inner import Block as Part\n",
        "pkg/inner/__init__.py": "from .block import Block\n",
        "pkg/inner/block.py": BLOCK,
        "main.py": main("import pkg as parts", "parts.Part"),
    },
    "relative": {PACKAGE: "", "pkg/block.py": BLOCK, "pkg/main.py": main("from .block import Block")},
    "relative module": {PACKAGE: "", "pkg/block.py": BLOCK, "pkg/main.py": main("from . import block", "block.Block")},
    "from above": {
        PACKAGE: "",
        "pkg/block.py": BLOCK,
        "pkg/a/__init__.py": "",
        "pkg/a/main.py": main("from ..block import Block"),
    },
    "from above, without __init__": {"pkg/block.py": BLOCK, "pkg/a/main.py": main("from ..block import Block")},
    "a src folder": {
        "src/pkg/__init__.py": "",
        "src/pkg/block.py": BLOCK,
        "tests/test_net.py": main("from pkg.block import Block"),
    },
    "from the root of the project": {
        "pkg/__init__.py": "",
        "pkg/block.py": BLOCK,
        "tools/deep/main.py": main("from pkg.block import Block"),
    },
    "beside a script of a package": {
        PACKAGE: "",
        "pkg/block.py": BLOCK,
        "pkg/main.py": main("from block import Block"),
    },
    "a notebook": {
        "block.py": BLOCK,
        "main.ipynb": json.dumps(
            {
                "cells": [{"cell_type": "code", "source": main("from block import Block")}],
                "metadata": {},
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        ),
    },
    "quantized by a helper of another file": {
        "block.py": BLOCK,
        "tools.py": "from torch.ao.quantization import *\n\n\ndef ready(model):\n    model.eval()\n"
        '    model.qconfig = get_default_qconfig("x86")\n    return prepare(QuantWrapper(model))\n',
        "main.py": "from block import Block\nfrom tools import ready\n\nmodel = ready(Block())\n",
    },
    "stubs in a base class of another file": {
        "block.py": BLOCK,
        "base.py": "from torch import nn\nfrom torch.ao.quantization import DeQuantStub, QuantStub\n\n\n"
        "class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.enter, self.leave = QuantStub(), DeQuantStub()\n",
        "main.py": "from base import Base\nfrom block import Block\n\n\nclass Net(Base):\n    def __init__(self):\n"
        "        super().__init__()\n        self.part = Block()\n\n    def forward(self, x):\n"
        "        return self.leave(self.part(self.enter(x)))\n",
    },
}


def target(files: dict[str, str]) -> str:
    return next(name for name in files if name.endswith("block.py"))


@pytest.mark.parametrize("form", FORMS)
def test_a_root_in_a_file_that_is_not_named(project: Path, capsys: Any, form: str) -> None:
    write(project, FORMS[form])
    block = target(FORMS[form])
    (item,) = check(capsys, block)
    assert (item["filename"], item["location"]["row"], item["code"]) == (block, 11, "QL101")
    together = [each for each in check(capsys, ".") if each["filename"] == block]
    assert [rows([item])] == [rows(together)], "a file alone is judged as in the whole project"


SILENT: dict[str, dict[str, str]] = {
    "nobody imports it": {
        "block.py": BLOCK,
        "main.py": main("from blocks import Block"),
        "blocks.py": "Block = None\n",
    },
    "only its name is used": {"block.py": BLOCK, "main.py": main("# from block import Block", "nn.Identity")},
    "used, but not by the model": {
        "block.py": BLOCK,
        "main.py": main("from block import Block", "nn.Identity") + "\n\ndef other():\n    return Block()\n",
    },
    "only for a type": {
        "block.py": BLOCK,
        "main.py": main(
            "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from block import Block", "nn.Identity"
        ),
    },
    "without quantization": {"block.py": BLOCK, "main.py": main("from block import Block", text=FLOAT)},
    "another module of that name": {
        "block.py": BLOCK,
        "app/block.py": BLOCK.replace("torch.cat([self.a(x), self.b(x)], 1)", "self.a(x)"),
        "app/main.py": main("from block import Block"),
    },
    "a path that is set while it runs": {
        "vendor/block.py": BLOCK,
        "main.py": main('import sys\n\nsys.path.insert(0, "vendor")\nfrom block import Block'),
    },
}


@pytest.mark.parametrize("form", SILENT)
def test_what_no_model_uses_stays_silent(project: Path, capsys: Any, form: str) -> None:
    write(project, SILENT[form])
    assert check(capsys, target(SILENT[form])) == []


def test_root_and_way_are_named(project: Path, capsys: Any) -> None:
    files = FORMS["through another file"]
    write(project, files)
    (item,) = check(capsys, str(project / "block.py"))
    note = item["related"][-1]
    assert Path(note["filename"]).name == "main.py" and note["location"]["row"] == 18
    assert "`Net`" in note["message"] and "Net.forward > Inner.forward > Block.forward" in note["message"]
    assert {Path(each["filename"]).name for each in check(capsys, "block.py", "neck.py")} == {"block.py"}
    assert len(check_paths([str(project / "block.py")])) == 1


def test_what_a_search_leaves_out_holds_no_root(project: Path, capsys: Any) -> None:
    write(project, {"block.py": BLOCK, "gen/main.py": main("from block import Block"), ".gitignore": "gen/\n"})
    assert check(capsys, "block.py") == []
    (project / "qlsp.toml").write_text("respect-gitignore = false\n")
    assert len(check(capsys, "block.py")) == 1
    (project / "qlsp.toml").write_text('respect-gitignore = false\nextend-exclude = ["gen"]\n')
    assert check(capsys, "block.py") == []
    assert len(check(capsys, "block.py", "gen/main.py")) == 1


def test_the_project_ends_at_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    write(tmp_path, {"inner/block.py": BLOCK, "main.py": main("from inner.block import Block"), "inner/setup.py": ""})
    monkeypatch.chdir(tmp_path)
    assert check(capsys, "inner/block.py") == []


def test_findings_and_comments_of_other_files_are_not_reported(project: Path, capsys: Any) -> None:
    wrong = main("from block import Block").replace(
        "return prepare(model)", "prepare(model)  # qlsp: ignore[QL999]\n    ("
    )
    write(project, {"block.py": BLOCK, "main.py": wrong})
    assert {each["filename"] for each in check(capsys, ".")} == {"block.py", "main.py"}
    assert rows(check(capsys, "block.py")) == [("block.py", 11, "QL101")]


def test_a_fix_has_every_root_in_view(project: Path, capsys: Any) -> None:
    """A class in another file derives from the block, and has a method of the name that the fix would take."""
    heir = "class Heir(Block):\n    def cat(self):\n        return 1"
    write(project, {"block.py": BLOCK, "main.py": main("from block import Block")})
    (alone,) = check(capsys, "block.py")
    assert alone["fix"]["applicability"] == "safe"
    write(project, {"other.py": main(f"from block import Block\n\n\n{heir}", "Heir")})
    (item,) = check(capsys, "block.py")
    together = next(each for each in check(capsys, ".") if each["filename"] == "block.py")
    assert item["fix"] == together["fix"] != alone["fix"]
    write(project, {"other.py": f"from block import Block\n\n\n{heir}\n"})
    (item,) = check(capsys, "block.py")
    assert item["fix"] == together["fix"], "a class without quantization derives from it"


def test_a_fix_changes_no_other_file(project: Path, capsys: Any) -> None:
    write(project, {"block.py": BLOCK, "main.py": main("from block import Block")})
    cli.main(["check", "--fix", "--unsafe-fixes", "block.py"])
    assert "self.cat.cat([self.a(x), self.b(x)], 1)" in (project / "block.py").read_text()
    assert (project / "main.py").read_text() == main("from block import Block")
    assert check(capsys, ".") == []


def test_a_search_that_gives_up_says_so(project: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"block.py": BLOCK, **{f"main{n}.py": main("from block import Block") for n in range(3)}})
    monkeypatch.setattr(importers, "MAX_IMPORTERS", 2)
    (item,) = check(capsys, "block.py", "--statistics")
    assert "safe" not in {fix["applicability"] for fix in item["fixes"]}
    cli.main(["check", "block.py", "--statistics"])
    assert "importers: 2 read, gave up" in capsys.readouterr().err
    monkeypatch.setattr(importers, "MAX_FILES", 0)
    assert check(capsys, "block.py") == []


def test_the_index_follows_the_disk(project: Path) -> None:
    write(project, {"block.py": BLOCK})
    index, configs, block = ImportIndex(), Resolver(), str(project / "block.py")

    def users(state: int, texts: dict[str, str] | None = None) -> list[str]:
        return [Path(path).name for path in index.around([block], configs, texts, state).paths]

    assert users(0) == []
    write(project, {"main.py": main("from block import Block")})
    assert users(0) == [] and users(1) == ["main.py"], "folders are looked at where something may have changed"
    (project / "main.py").rename(project / "net.py")
    assert users(2) == ["net.py"]
    write(project, {"net.py": main("", "nn.Identity")})
    assert users(3) == []
    newer = {str(project / "net.py"): main("from block import Block")}
    assert users(3, newer) == ["net.py"] and users(3) == []
    write(project, newer)
    assert users(4) == ["net.py"]
    (project / "net.py").unlink()
    assert users(5) == []
    assert index.around([], configs) == Importers()


def test_a_run_over_many_files_is_not_cut_short_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("", encoding="utf-8")
    (tmp_path / "base.py").write_text("class Base:\n    pass\n", encoding="utf-8")
    paths = [str(tmp_path / "base.py")]
    for number in range(importers.MAX_USERS + 5):
        path = tmp_path / f"m{number}.py"
        path.write_text("from base import Base\n\n\nclass Own(Base):\n    pass\n", encoding="utf-8")
        paths.append(str(path))
    (tmp_path / "outside.py").write_text("from base import Base\n", encoding="utf-8")
    assert not ImportIndex().around(paths, Resolver()).partial
