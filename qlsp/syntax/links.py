"""Which files of a run may exchange objects: those that imports connect, in either direction and over others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qlsp.syntax.view import ViewedFile


def connected(files: Mapping[str, ViewedFile]) -> dict[str, frozenset[str]]:
    """For each path the paths of all files that imports connect with it, itself included.

    A file is taken to import every one whose last name stands in one of its imports; a file that imports by computed
    names, every file.
    """
    named: dict[str, list[str]] = {}
    for path, file in files.items():
        named.setdefault(file.name.rpartition(".")[2], []).append(path)
    groups = {path: {path} for path in files}
    for path, file in files.items():
        text = "\n".join(unit.text for unit in file.syntax.units if _IMPORTS in unit.text)
        words = named if _COMPUTED.search(text) else _words(text, file)
        for other in (other for word in words for other in named.get(word, ())):
            _join(groups, path, other)
    frozen = {id(group): frozenset(group) for group in groups.values()}
    return {path: frozen[id(group)] for path, group in groups.items()}


def _join(groups: dict[str, set[str]], one: str, other: str) -> None:
    small, large = sorted((groups[one], groups[other]), key=len)
    if small is not large:
        large |= small
        groups.update(dict.fromkeys(small, large))


def _words(text: str, file: ViewedFile) -> set[str]:
    """The names in the imports of a text; a relative one names the packages of its file as well."""
    found: set[str] = set()
    for match in _IMPORT.finditer(text):
        found.update(_WORD.findall(match[0]))
        if (match[1] or "").startswith("."):
            found.update(file.name.split(".")[:-1])
    return found


_IMPORTS = "import"
_IMPORT = re.compile(r"^[ \t]*(?:from\s+([\w.]+)\s+)?import\b\s*(?:\([^)]*\)|(?:\\\r?\n|[^\n#;])*)", re.M)
_COMPUTED = re.compile(r"\bimport_module\b|__import__|\bimportlib\b|\bexec\s*\(")
_WORD = re.compile(r"[^\W\d]\w*")
