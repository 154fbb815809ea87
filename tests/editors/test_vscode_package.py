"""What the VS Code extension promises in its manifest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from qlsp import __version__

FOLDER = Path(__file__).resolve().parents[2] / "editors" / "vscode"
MANIFEST: dict[str, Any] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
SETTINGS: dict[str, Any] = MANIFEST["contributes"]["configuration"]["properties"]
SOURCE = "".join(path.read_text(encoding="utf-8") for path in sorted((FOLDER / "src").glob("*.ts")))


def test_a_workspace_cannot_choose_the_program() -> None:
    limits = MANIFEST["capabilities"]["untrustedWorkspaces"]
    assert limits["supported"] == "limited"
    choosers = {"qlsp.path", "qlsp.interpreter", "qlsp.importStrategy", "qlsp.configuration"}
    assert set(limits["restrictedConfigurations"]) == choosers <= set(SETTINGS)


def test_every_command_and_setting_is_there() -> None:
    commands = {each["command"] for each in MANIFEST["contributes"]["commands"]}
    assert commands == set(re.findall(r'registerCommand\("([\w.]+)"', SOURCE))
    assert {name for name in re.findall(r'"(qlsp\.\w+)"', SOURCE) if name not in commands | {"qlsp.exe"}} <= {
        *SETTINGS, "qlsp.status",
    }  # fmt: skip


def test_the_server_leaves_its_namesake_to_the_extension() -> None:
    names = re.search(r"clientCommands: \[(.*?)\]", SOURCE)
    assert names is not None and "qlsp.restart" in names[1]


def test_version_and_lock_file() -> None:
    assert MANIFEST["version"] == __version__
    lock = (FOLDER / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock and '"integrity"' in lock
