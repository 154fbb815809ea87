"""The import directions of ``docs/architecture.md`` hold in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "qlsp"
MODULES = sorted(PACKAGE.rglob("*.py"))

FREE = ("qlsp/__init__.py", "qlsp/__main__.py")
"""Entry points without a layer."""

THIRD_PARTY = {
    "libcst": ("syntax", "analysis"),
    "pygls": ("lsp",),
    "lsprotocol": ("lsp",),
    "torch": (),
}
"""Who may import these packages."""


@dataclass(frozen=True)
class Import:
    """One imported module, relative to ``qlsp`` if it is ours; ``deferred`` if not at module level."""

    row: int
    name: str
    deferred: bool


def table() -> dict[str, list[str]]:
    """Layer to the layers and modules it may import."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, section = text.partition("| layer | may import |")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, flags=re.M)
    return {layer: re.findall(r"`([\w.]+)`", allowed) or [allowed.strip()] for layer, allowed in rows}


TABLE = table()


def imports(path: Path) -> Iterator[Import]:
    """Every import of a file, also those inside functions; not those for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    top = set(map(id, tree.body))

    def walk(node: ast.AST, deferred: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inner = deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.Import):
                yield from (Import(child.lineno, alias.name, inner) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = list(package[: len(package) - child.level + 1]) if child.level else []
                module = ".".join([*base, *([child.module] if child.module else [])])
                for alias in child.names:
                    yield Import(child.lineno, f"{module}.{alias.name}", inner)
            elif not (id(child) in top and _type_checking(child)):
                yield from walk(child, inner)

    yield from walk(tree, False)


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def allowed(path: Path, name: str) -> bool:
    """May the file import ``qlsp`` module or name ``name`` (without ``qlsp.``)?"""
    if "." not in name and not (PACKAGE / name).exists() and not (PACKAGE / f"{name}.py").exists():
        return True  # a name of qlsp/__init__.py, such as __version__
    rules = [layer(path), *TABLE[layer(path)]]
    return "everything" in rules or any(name == rule or name.startswith(f"{rule}.") for rule in rules)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_table(path: Path) -> None:
    if str(path.relative_to(ROOT)) in FREE:
        return
    assert layer(path) in TABLE, f"docs/architecture.md has no row for {layer(path)}"
    wrong = [
        f"{path.relative_to(ROOT)}:{item.row} imports {item.name}"
        for item in imports(path)
        if item.name.startswith("qlsp.") and not allowed(path, item.name.removeprefix("qlsp."))
    ]
    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_third_party_packages_stay_in_their_layers(path: Path) -> None:
    for item in imports(path):
        package = item.name.split(".")[0]
        if package in THIRD_PARTY:
            assert layer(path) in THIRD_PARTY[package], f"{path}:{item.row} imports {package}"


def test_nothing_imports_the_maintainers_tools() -> None:
    users = [
        path for path in MODULES if layer(path) != "dev" for item in imports(path) if "qlsp.dev" in item.name
    ]
    assert not users


def test_no_code_asks_which_backend_it_is() -> None:
    asks = re.compile(r"\bbackend(\.name)?\s*(==|!=)|[\"']\s*(==|!=)\s*\w*\.?backend\b")
    for path in MODULES:
        for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not asks.search(line), f"{path.relative_to(ROOT)}:{row}: {line.strip()}"


def test_the_command_line_defers_the_library() -> None:
    heavy = ("qlsp.engine", "qlsp.project", "qlsp.analysis", "qlsp.syntax", "qlsp.lsp")
    early = [
        item.name for item in imports(PACKAGE / "cli.py") if item.name.startswith(heavy) and not item.deferred
    ]
    assert not early


def test_the_table_is_read() -> None:
    assert TABLE["values"] == ["-"] and TABLE["cli"] == ["everything"]
    assert TABLE["config"] == ["diagnostics"] and "analysis.facts" in TABLE["rules"]
    assert not allowed(PACKAGE / "values" / "value.py", "text.Span")
    assert not allowed(PACKAGE / "rules" / "any.py", "analysis.interpreter")
    assert allowed(PACKAGE / "rules" / "any.py", "analysis.facts.Facts")
