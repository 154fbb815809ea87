"""Documentation is generated or checked: rule pages, README commands, links, the demo, the rule scaffold."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from qlsp.config import HORIZON, KEYS, Config, Resolver
from qlsp.dev import docs, new_rule
from qlsp.engine import validate
from qlsp.messages.en import MESSAGES
from qlsp.rules.api import Rule, all_rules

ROOT = Path(__file__).resolve().parents[2]
RULES = all_rules()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_rule_pages_are_current() -> None:
    assert docs.differences(docs.FOLDER) == [], "run python -m qlsp.dev.docs"


def test_the_page_about_the_configuration_is_current() -> None:
    text = docs.CONFIGURATION.read_text(encoding="utf-8")
    assert docs.configuration(text) == text, "run python -m qlsp.dev.docs"
    for key in KEYS:
        assert f"| `{key}` |" in text
    with pytest.raises(ValueError, match="lacks"):
        docs.configuration(text.replace("<!-- /keys -->", ""))


def toml_blocks() -> list[str]:
    text = docs.CONFIGURATION.read_text(encoding="utf-8")
    return [textwrap.dedent(block) for block in re.findall(r"```toml\n(.*?)```", text, flags=re.S)]


def test_the_examples_of_the_configuration_hold(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(toml_blocks()[0])
    assert Resolver(check=validate).of(str(tmp_path)).mode == "qat"
    for keys, prefix in ((KEYS, ""), (HORIZON, "horizon.")):
        for name, key in keys.items():
            config = Resolver(True, [f"{prefix}{name} = {key.example}"], check=validate).of(".")
            assert config != Config(), f"{prefix}{name}"


def test_pages_are_written_and_removed(tmp_path: Path) -> None:
    (tmp_path / "no-such-rule.md").write_text("")
    wanted = docs.pages()
    assert docs.write(tmp_path) == sorted([*wanted, "no-such-rule.md"])
    assert docs.differences(tmp_path) == [] and docs.write(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == wanted.keys()
    (tmp_path / "README.md").write_text("old")
    assert docs.differences(tmp_path) == ["README.md"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.meta.name)
def test_a_rule_is_complete(rule: Rule) -> None:
    """Name, page and message of every rule."""
    meta = rule.meta
    assert re.fullmatch(r"QL\d{3}", meta.code) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", meta.name)
    assert [other.meta.name for other in RULES if meta.code == other.meta.code] == [meta.name]
    assert [other.meta.code for other in RULES if meta.name == other.meta.name] == [meta.code]
    assert (ROOT / "qlsp" / "rules" / f"{meta.name.replace('-', '_')}.py").is_file()
    assert meta.name in MESSAGES
    headings = re.findall(r"^## (.+)$", rule.page, flags=re.M)
    wanted = ["What it does", "Why it matters"]
    if rule.check is not None:
        wanted += ["Bad", "Good"]
    assert [heading for heading in headings if heading in wanted] == wanted
    assert not rule.page.startswith("\n")


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.check], ids=lambda rule: rule.meta.name)
@pytest.mark.parametrize("heading", ["Bad", "Good"])
def test_examples_are_python(rule: Rule, heading: str) -> None:
    _, _, rest = rule.page.partition(f"\n## {heading}\n")
    example = textwrap.dedent(rest.split("\n## ")[0])
    ast.parse(example)
    assert (f"# {rule.meta.code}" in example) is (heading == "Bad")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def readme_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    return [block.strip() for block in blocks]


def test_readme_has_two_commands() -> None:
    try_it, test_it = readme_commands()
    assert try_it.endswith("qlsp check docs/demo") and "pip install . " in try_it
    assert "pytest" in test_it and "[test]" in test_it
    assert all("\n" not in command for command in (try_it, test_it))


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.rstrip().splitlines()[-1] == readme_commands()[1]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert subprocess.run(["bash", "-n", ".ci/run"], cwd=ROOT, check=False).returncode == 0


def test_the_demo_loses_its_signal() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "docs/demo/attention.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    number = re.fullmatch(r"int8 against float: (-?[\d.]+) dB\n", run.stdout)
    assert number is not None and float(number[1]) < 10
    promised = re.search(r"keeps ([\d.]+) dB", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert promised is not None and abs(float(promised[1]) - float(number[1])) < 0.5


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, to be written to."""
    shutil.copytree(ROOT / "qlsp", tmp_path / "qlsp", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests" / "cases" / "rules").mkdir(parents=True)
    return tmp_path


def in_copy(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def test_a_new_rule_is_found_by_being_there(copy: Path) -> None:
    run = in_copy(copy, "qlsp.dev.new_rule", "cat-mixed-dtypes", "--code", "QL199", "--severity", "error")
    assert run.returncode == 0, run.stderr
    assert '"cat-mixed-dtypes": ' in run.stdout
    rule_file = copy / "qlsp" / "rules" / "cat_mixed_dtypes.py"
    ast.parse(rule_file.read_text())
    cases = (copy / "tests" / "cases" / "rules" / "cat-mixed-dtypes.md").read_text()
    assert "# error: [cat-mixed-dtypes]" in cases
    explained = in_copy(copy, "qlsp", "explain", "QL199")
    assert explained.returncode == 0 and explained.stdout.startswith("cat-mixed-dtypes (QL199)\n")
    (copy / "net.py").write_text("# QuantStub\nx = 1\n")
    checked = in_copy(copy, "qlsp", "check", "--isolated", "net.py")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    again = in_copy(copy, "qlsp.dev.new_rule", "cat-mixed-dtypes", "--code", "QL198")
    assert again.returncode == 2 and "QL199 cat-mixed-dtypes exists" in again.stderr


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("Cat", "QL199", "lower-case words"),
        ("cat_mixed", "QL199", "lower-case words"),
        ("cat-mixed", "QL1", "three digits"),
        ("cat-mixed", "QL101", "QL101 cat-mixed-scales exists"),
        ("cat-mixed-scales", "QL199", "QL101 cat-mixed-scales exists"),
    ],
)
def test_bad_names_of_a_new_rule(tmp_path: Path, name: str, code: str, text: str) -> None:
    with pytest.raises(new_rule.NewRuleError, match=text):
        new_rule.create(tmp_path, name, code, "error")
    assert not any(tmp_path.iterdir())


def test_a_new_rule_overwrites_nothing(tmp_path: Path) -> None:
    case_file = tmp_path / "tests" / "cases" / "rules" / "cat-mixed-dtypes.md"
    case_file.parent.mkdir(parents=True)
    case_file.write_text("mine")
    with pytest.raises(new_rule.NewRuleError, match=r"cat-mixed-dtypes\.md exists"):
        new_rule.create(tmp_path, "cat-mixed-dtypes", "QL199", "error")
    assert case_file.read_text() == "mine" and not (tmp_path / "qlsp").exists()
