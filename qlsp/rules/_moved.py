"""Names that moved: statements that use them, what they raise, and the names that exist put in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from qlsp.analysis.facts import NameUse, ScriptFacts, UseForm
from qlsp.diagnostics import NoFix
from qlsp.rules.api import Finding, RuleContext
from qlsp.values.value import SpanId

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

_FROM = re.compile(r"from\s+([\w.]+)\s+import\s+")
_REACHED = ("torch.ao.quantization", "torch.ao.nn")
"""Packages whose names ``import torch`` is enough for."""
_BY_ITSELF = ("torch.ao.quantization.quantize_fx", "torch.ao.quantization.backend_config", "torch.ao.ns")


def statements(script: ScriptFacts) -> Iterator[list[NameUse]]:
    """The uses of names that moved, by the statement that they stand in."""
    for _, uses in groupby(script.names, key=lambda use: use.statement):
        yield list(uses)


def anchor(use: NameUse) -> SpanId:
    """An import is reported as a whole, an attribute where it stands."""
    return use.span if use.form is UseForm.ATTRIBUTE else use.statement


def gone(use: NameUse, version: tuple[int, ...] | None) -> bool:
    """Does the name certainly not exist in the version in use, or in the newest one where that is not known?"""
    move = use.missing
    if move is None or use.guarded:
        return False
    return move.until is None or version is None or version >= move.until


def elsewhere(use: NameUse) -> bool:
    """Is the name in another library now?"""
    return use.missing is not None and use.missing.home is not None and not use.missing.home.startswith("torch.")


def error(use: NameUse) -> str:
    """What the use raises."""
    assert use.missing is not None
    if use.missing.error is not None:
        return use.missing.error
    parent, _, last = use.name.rpartition(".")
    if use.form is UseForm.ATTRIBUTE:
        return f"AttributeError: module '{parent}' has no attribute '{last}'"
    if use.form is UseForm.IMPORT:
        return f"ModuleNotFoundError: No module named '{use.name}'"
    return f"ImportError: cannot import name '{last}' from '{parent}'"


def uses_of(ctx: RuleContext, finding: Finding) -> list[NameUse]:
    """The uses of the statement that a finding is about."""
    assert ctx.script is not None
    return next(uses for uses in statements(ctx.script) if uses[0].statement == finding.subject)


def home(use: NameUse) -> str:
    """The name that is to be used."""
    if use.missing is not None:
        if use.missing.home is None:
            raise NoFix(f"{use.name} is nowhere")
        return use.missing.home
    if use.namespace is None:
        return use.name
    return use.namespace.new


@dataclass(frozen=True)
class _Part:
    """One name of an import: as written, and the name that is to be imported in its place."""

    text: str
    home: str


def rename(edit: EditBuilder, uses: list[NameUse]) -> None:
    """Put the names that exist in the place of those of a statement."""
    first = uses[0]
    if first.form is UseForm.FROM:
        _rename_from(edit, uses)
        return
    for use in uses:
        if use.form is UseForm.IMPORT:
            text = edit.text(use.span)
            if not text.startswith(use.name):
                raise NoFix("a name that is spelled with spaces")
            edit.replace(use.span, home(use) + text[len(use.name) :])
        else:
            edit.replace(use.span, _spelled(edit, use))


def _spelled(edit: EditBuilder, use: NameUse) -> str:
    """The new name as this file can write it."""
    target, path = home(use), use.span.path
    root = edit.text(use.span).partition(".")[0].rstrip()
    if use.through != "torch":
        root = edit.imported_as(path, "torch") or ""
    if root and target.startswith(_REACHED) and not target.startswith(_BY_ITSELF):
        return root + target.removeprefix("torch")
    return edit.import_name(path, target)


def _rename_from(edit: EditBuilder, uses: list[NameUse]) -> None:
    place = edit.place(uses[0].statement)
    text = edit.text(place)
    head = _FROM.match(text)
    if head is None:
        raise NoFix("an import that is not written in one piece")
    moved = {edit.text(use.span).split()[0]: home(use) for use in uses}
    parts = [_part(piece, head[1], moved) for piece in _names(text[head.end() :])]
    modules = list(dict.fromkeys(part.home.rpartition(".")[0] for part in parts))
    if len(modules) == 1 and all(part.text.split()[0] == part.home.rpartition(".")[2] for part in parts):
        edit.replace(edit.part(place, head.start(1), head.end(1)), modules[0])
        return
    if "#" in text or "\\" in text:
        raise NoFix("an import with comments")
    lines = [f"from {module} import {', '.join(_imported(parts, module))}" for module in modules]
    edit.replace(place, edit.lines(uses[0].statement, lines))


def _names(text: str) -> list[str]:
    inner = "\n".join(line.partition("#")[0] for line in text.splitlines()).strip().strip("()")
    return [" ".join(piece.split()) for piece in inner.split(",") if piece.strip()]


def _part(piece: str, module: str, moved: dict[str, str]) -> _Part:
    name = piece.split()[0]
    return _Part(piece, moved.get(name, f"{module}.{name}"))


def _imported(parts: list[_Part], module: str) -> Iterator[str]:
    for part in parts:
        parent, _, last = part.home.rpartition(".")
        if parent == module:
            name, _, bound = part.text.partition(" as ")
            bound = bound.strip() or name
            yield last if bound == last else f"{last} as {bound}"
