"""Concatenations, stub calls and operators as the text shows them, whether or not a root reaches them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

import libcst as cst

from qlsp.analysis.program import ModuleModel
from qlsp.backends.spec import Backend
from qlsp.ops.spec import Role
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, Unit, walk
from qlsp.values.value import SpanId


def sites(
    module: ModuleModel, backend: Backend, quantizing: Collection[SpanId]
) -> Iterator[tuple[str, SpanId]]:
    """(kind, span) of every concatenation and stub call of a file, and of the calls in model classes of a
    function without a quantized kernel; ``quantizing`` are calls that the interpreter knows as stub calls
    although their spelling does not show it."""
    stubs = _stub_names(module, backend)
    words = _words(module, backend, stubs)
    known = {span.unit for span in quantizing if span.path == module.path}
    modelling = {id(part) for unit in module.syntax.units if _has_forward(unit) for part in (unit, *unit.members)}
    for unit in _parsed(module, lambda unit: unit.index in known or words.search(unit.text) is not None):
        for inner in walk(unit.node):
            if not isinstance(inner, cst.Call):
                continue
            kind = _kind(module, backend, inner, stubs)
            if kind is None and not quantizing:
                continue
            span = SpanId(unit.path, unit.index, unit.ordinal(inner))
            if kind is None and span in quantizing:
                kind = "stub"
            if kind is not None and (kind != "op" or id(unit) in modelling):
                yield kind, span


def _has_forward(unit: Unit) -> bool:
    """A class with a forward: elsewhere an operator rarely meets a tensor of a model."""
    return any(member.name == "forward" for member in unit.members)


def _words(module: ModuleModel, backend: Backend, stubs: Collection[str]) -> re.Pattern[str]:
    """A chunk without a match holds no call that counts by its spelling."""
    counted = {n for n, row in backend.functions.items() if row.role is Role.CAT or row.raises is not None}
    joins = {name for name, row in backend.functionals.items() if row.role is Role.CAT}
    names = {name for name, target in module.imports.items() if backend.canonical(target) in counted}
    names |= {name.rpartition(".")[2] for name in counted} | joins | set(stubs) | {"cat"}
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, names)))})\b")


def _parsed(module: ModuleModel, wanted: Callable[[Unit], bool]) -> Iterator[Unit]:
    """The chunks that are wanted and parse, classes by their members."""
    for unit in module.syntax.all_units.values():
        if unit.members or not wanted(unit):
            continue
        try:
            parsed = unit.node is not None
        except ChunkError:
            continue
        if parsed:
            yield unit


def _kind(module: ModuleModel, backend: Backend, node: cst.Call, stubs: frozenset[str]) -> str | None:
    name = dotted(node.func)
    if name is None:
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "cat":
            return "cat"
        return None
    first, _, rest = name.partition(".")
    if first in module.imports:
        row = backend.functions.get(_qualified(module, backend, name))
        if row is None or row.role in (Role.QUANTIZE, Role.DEQUANTIZE):
            return None
        return "cat" if row.role is Role.CAT else ("op" if row.raises is not None else None)
    last = name.rpartition(".")[2]
    row = backend.functionals.get(last)
    if row is not None and row.role is Role.CAT and "." in name:
        return "cat"
    return "stub" if first == "self" and rest in stubs else None


def _qualified(module: ModuleModel, backend: Backend, name: str) -> str:
    """The canonical name of a dotted name by the file's import table."""
    first, _, rest = name.partition(".")
    target = module.imports.get(first, first)
    return backend.canonical(f"{target}.{rest}" if rest else target)


def _stub_names(module: ModuleModel, backend: Backend) -> frozenset[str]:
    """Attributes that some constructor of the file sets to a QuantStub, as far as the text shows."""
    names: set[str] = set()
    for unit in _parsed(module, lambda unit: "Stub" in unit.text and "__init__" in unit.text):
        names.update(_assigned_stubs(module, backend, unit))
    return frozenset(names)


def _assigned_stubs(module: ModuleModel, backend: Backend, unit: Unit) -> Iterator[str]:
    for inner in walk(unit.node):
        if isinstance(inner, cst.Assign) and isinstance(inner.value, cst.Call):
            row = backend.modules.get(_qualified(module, backend, dotted(inner.value.func) or ""))
            if row is not None and row.role is Role.QUANTIZE:
                for target in inner.targets:
                    if isinstance(target.target, cst.Attribute):
                        yield target.target.attr.value
