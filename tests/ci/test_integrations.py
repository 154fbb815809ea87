"""The files that CI services read, run as the services run them: pre-commit, the GitHub Action, the GitLab job."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

ROOT = Path(__file__).resolve().parents[2]
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
ROW = 15

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the files are for bash")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    source = tmp_path_factory.mktemp("source")
    for name in ("qlsp", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "net.py").write_text(NET)
    return folder


def bash(script: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A step as a runner starts it: it ends at the first command that fails."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_the_action_annotates_and_writes_sarif(project: Path, wheels: Path, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = {name: str(each["default"]) for name, each in action["inputs"].items()}
    (wheel,) = wheels.glob("*.whl")
    results = []
    for step in action["runs"]["steps"]:
        if "run" in step:
            env = {name: substituted(value, inputs, str(wheel)) for name, value in step["env"].items()}
            results.append(bash(step["run"], project, RUNNER_TEMP=str(tmp_path), **env))
    install, check = results
    assert install.returncode == 0, install.stderr
    assert check.returncode == 1, check.stderr
    (annotation,) = [line for line in check.stdout.splitlines() if line.startswith("::")]
    assert re.match(rf"::error title=QL101 cat-mixed-scales,file=net\.py,line={ROW},", annotation)
    (result,) = json.loads((project / "qlsp.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == ROW
    upload = action["runs"]["steps"][-1]
    assert upload["with"]["sarif_file"] == "${{ inputs.sarif-file }}" and "always()" in upload["if"]


def substituted(value: str, inputs: dict[str, str], action_path: str) -> str:
    """An expression of the runner."""

    def replace(match: re.Match[str]) -> str:
        scope, _, name = match[1].partition(".")
        return {"inputs": inputs, "github": {"action_path": action_path}}[scope][name]

    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", replace, value)


def test_the_gitlab_job_writes_both_reports(project: Path, wheels: Path, tmp_path: Path) -> None:
    job: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))["qlsp"]
    venv.create(tmp_path / "venv", with_pip=True)
    path = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    script = "\n".join(job["script"])
    done = bash(script, project, PATH=path, PIP_FIND_LINKS=str(wheels), **job["variables"])
    assert done.returncode == 1 and f"net.py:{ROW}:29: QL101" in done.stdout, done.stderr
    reports = job["artifacts"]["reports"]
    (quality,) = json.loads((project / reports["codequality"]).read_text())
    assert quality["location"]["positions"]["begin"]["line"] == ROW
    (suite,) = list(JUnitXml.fromfile(str(project / reports["junit"])))
    assert (suite.name, suite.failures) == ("net.py", 1)
    (project / "net.py").write_text("x = 1\n")
    script = job["script"][-1]
    assert bash(script, project, PATH=path, **job["variables"]).returncode == 0


def test_pre_commit_from_a_clone(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for name in (".pre-commit-hooks.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, clone / name)
    shutil.copytree(ROOT / "qlsp", clone / "qlsp", dirs_exist_ok=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], cwd=clone, check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "as it is"], cwd=clone, check=True)
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    (project / "notes.md").write_text("no Python\n")
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}

    def pre_commit(hook: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "try-repo", str(clone), hook, "--all-files"]
        return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)

    done = pre_commit("qlsp")
    assert done.returncode == 1 and f"net.py:{ROW}:29: QL101" in done.stdout, done.stdout + done.stderr
    fixed = pre_commit("qlsp-fix")
    assert fixed.returncode == 1 and "files were modified by this hook" in fixed.stdout
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    again = pre_commit("qlsp")
    assert again.returncode == 0 and "Passed" in again.stdout, again.stdout
