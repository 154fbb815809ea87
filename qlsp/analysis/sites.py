"""Concatenations, stub calls and operators as the text shows them, whether or not a root reaches them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from qlsp.analysis.program import ModuleModel
from qlsp.backends.spec import Backend
from qlsp.ops.spec import Role
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, Unit, walk
from qlsp.values.value import SpanId

OWNER_WORDS = re.compile(r"Stub|Functional")


@dataclass(frozen=True, slots=True)
class _Owners:
    """Attributes that some constructor of the file sets to a stub or to a FloatFunctional, as far as the text shows."""

    stubs: frozenset[str]
    functionals: frozenset[str]


def sites(
    module: ModuleModel, backend: Backend, quantizing: Collection[SpanId]
) -> Iterator[tuple[str, SpanId]]:
    """(kind, span) of every concatenation and stub call of a file, and of the operator calls in classes with a
    forward: functions of the table but for those that quantize and dequantize, and operations of FloatFunctional on
    attributes that a constructor sets to one. ``quantizing`` are calls that the interpreter knows as stub calls
    although their spelling does not show it."""
    owners = _owners(module, backend)
    words, more = _words(module, backend, owners), _operator_words(module, backend, owners)
    known = {span.unit for span in quantizing if span.path == module.path}
    modelling = {id(part) for unit in module.syntax.units if _has_forward(unit) for part in (unit, *unit.members)}

    def wanted(unit: Unit) -> bool:
        if unit.index in known or words.search(unit.text) is not None:
            return True
        return id(unit) in modelling and more.search(unit.text) is not None

    for unit in _parsed(module, wanted):
        for inner in walk(unit.node):
            if not isinstance(inner, cst.Call):
                continue
            kind = _kind(module, backend, inner, owners)
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


def _words(module: ModuleModel, backend: Backend, owners: _Owners) -> re.Pattern[str]:
    """A chunk without a match holds no concatenation and no stub call that its spelling shows."""
    counted = {name for name, row in backend.functions.items() if row.role is Role.CAT}
    joins = {name for name, row in backend.functionals.items() if row.role is Role.CAT}
    names = {name for name, target in module.imports.items() if backend.canonical(target) in counted}
    return _any_of(names | {name.rpartition(".")[2] for name in counted} | joins | owners.stubs | {"cat"})


def _operator_words(module: ModuleModel, backend: Backend, owners: _Owners) -> re.Pattern[str]:
    """A chunk without a match holds no operator call: no name of a module or function of torch, no FloatFunctional."""
    roots = {name.partition(".")[0] for name in backend.functions}
    names = {name for name, target in module.imports.items() if backend.canonical(target).partition(".")[0] in roots}
    return _any_of(names | owners.functionals)


def _any_of(words: Collection[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, words)))})\b" if words else r"(?!)")


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


def _kind(module: ModuleModel, backend: Backend, node: cst.Call, owners: _Owners) -> str | None:
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
        return "cat" if row.role is Role.CAT else "op"
    holder, _, last = name.rpartition(".")
    row = backend.functionals.get(last)
    if row is not None and holder:
        if row.role is Role.CAT:
            return "cat"
        if first == "self" and holder.rpartition(".")[2] in owners.functionals:
            return "op"
    return "stub" if first == "self" and rest in owners.stubs else None


def _qualified(module: ModuleModel, backend: Backend, name: str) -> str:
    """The canonical name of a dotted name by the file's import table."""
    first, _, rest = name.partition(".")
    target = module.imports.get(first, first)
    return backend.canonical(f"{target}.{rest}" if rest else target)


def _owners(module: ModuleModel, backend: Backend) -> _Owners:
    """Stubs and FloatFunctionals among the attributes of a file."""
    stubs: set[str] = set()
    functionals: set[str] = set()
    for unit in _parsed(module, lambda unit: OWNER_WORDS.search(unit.text) is not None and "__init__" in unit.text):
        for name, made in _assigned(module, backend, unit):
            row = backend.modules.get(made)
            if row is not None and row.role is Role.QUANTIZE:
                stubs.add(name)
            elif made in backend.functional_classes:
                functionals.add(name)
    return _Owners(frozenset(stubs), frozenset(functionals))


def _assigned(module: ModuleModel, backend: Backend, unit: Unit) -> Iterator[tuple[str, str]]:
    """Attributes that a chunk sets to the result of a call, and the qualified name of what is called."""
    for inner in walk(unit.node):
        if isinstance(inner, (cst.Assign, cst.AnnAssign)):
            targets = [each.target for each in inner.targets] if isinstance(inner, cst.Assign) else [inner.target]
            for target, value in (pair for each in targets for pair in _pairs(each, inner.value)):
                if isinstance(target, cst.Attribute) and isinstance(value, cst.Call):
                    yield target.attr.value, _qualified(module, backend, dotted(value.func) or "")


def _pairs(
    target: cst.BaseExpression, value: cst.BaseExpression | None
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What each name of an assignment gets; ``a, b = f(), g()`` gives two."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        for left, right in zip(target.elements, value.elements, strict=False):
            yield left.value, right.value
    elif value is not None:
        yield target, value
