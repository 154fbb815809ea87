"""Where a file uses the names of packages that moved: its imports, and attributes of what it imports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import libcst as cst

from qlsp.analysis.facts import NameUse, UseForm
from qlsp.analysis.program import ModuleModel
from qlsp.backends.spec import MovedNames
from qlsp.syntax.names import bindings, dotted
from qlsp.syntax.parse import ChunkError, Unit, children, walk
from qlsp.values.value import SpanId

_CATCHES = re.compile(r"\b(?:Base)?Exception\b|\b(?:Import|ModuleNotFound|Attribute|Name)Error\b")
_ASKS = re.compile(
    r"(?i:version|hasattr|signature|type_checking|available|\bsys\b|find_spec|\bhas_|installed|older|newer)|TORCH"
)
_SKIPS = re.compile(r"skip|version", re.I)
_EXPECTS = re.compile(r"\b(?:suppress|raises|assertRaises\w*|assertWarns\w*|warns|importorskip)\b")


def name_uses(module: ModuleModel, moved: MovedNames) -> list[NameUse]:
    """The uses of the names of packages with names that moved, in the order of the file.

    Code that is made for several versions (under a handler for import errors, or a condition about versions) says
    ``guarded``.
    """
    watched = _Watched(moved)
    local = watched.locals(module.imports)
    gate = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted({*local, *watched.last})))})\b")
    found: list[NameUse] = []
    for unit in module.syntax.all_units.values():
        if gate.search(unit.text):
            try:
                node = unit.node
            except ChunkError:
                continue
            uses = _Walk(module, unit, watched, module.imports).of(node, _Around(node))
            found.extend(use for use in uses if use.namespace is not None or use.missing is not None)
    return found


def made_for_several(unit: Unit, node: cst.CSTNode) -> bool:
    """Does a node stand under a handler of errors, or under a condition about versions?"""
    return any(_tries(outer) and any(inner is node for inner in walk(outer)) for outer in walk(unit.node))


def _tries(node: cst.CSTNode) -> bool:
    match node:
        case cst.Try():
            return bool(node.handlers)
        case cst.If() | cst.IfExp():
            return bool(_ASKS.search(cst.Module([]).code_for_node(node.test)))
        case _:
            return False


@dataclass(frozen=True)
class _Watched:
    moved: MovedNames

    @property
    def last(self) -> set[str]:
        """The last parts of the packages' names."""
        return {package.rpartition(".")[2] for package in self.moved.packages}

    def has(self, name: str) -> bool:
        """Is it one of the packages, or a name in one?"""
        return any(name == package or name.startswith(f"{package}.") for package in self.moved.packages)

    def locals(self, imports: Mapping[str, str]) -> list[str]:
        """Imported names that stand for a package or something in it."""
        return [name for name, target in imports.items() if self.has(target)]


@dataclass(frozen=True)
class _Around:
    """What is around a node: its statement, names that stand for something else there, code for several versions."""

    statement: cst.CSTNode
    hidden: frozenset[str] = frozenset()
    guarded: bool = False


@dataclass(frozen=True)
class _Walk:
    """Visits a chunk; ``imports`` are the names that are imported where it stands."""

    module: ModuleModel
    unit: Unit
    watched: _Watched
    imports: Mapping[str, str]

    def of(self, node: cst.CSTNode, around: _Around) -> Iterator[NameUse]:
        """The uses in a node."""
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            around = replace(around, statement=node)
        match node:
            case cst.Import():
                yield from self._import(node, around)
            case cst.ImportFrom():
                yield from self._import_from(node, around)
            case cst.Attribute():
                yield from self._attribute(node, around)
            case cst.FunctionDef() | cst.Lambda():
                yield from self._function(node, around)
            case _:
                guarded = around.guarded or self._guards(node)
                yield from self._below(children(node), replace(around, guarded=guarded))

    def _below(self, nodes: Iterable[cst.CSTNode], around: _Around) -> Iterator[NameUse]:
        for node in nodes:
            yield from self.of(node, around)

    def _guards(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Try():
                return any(_catches(handler) for handler in node.handlers)
            case cst.If() | cst.IfExp():
                return bool(_ASKS.search(self._text(node.test)))
            case cst.With():
                return any(_EXPECTS.search(self._text(item.item)) for item in node.items)
            case _:
                return False

    def _function(self, node: cst.FunctionDef | cst.Lambda, around: _Around) -> Iterator[NameUse]:
        own = {parameter.name.value for parameter in walk(node.params) if isinstance(parameter, cst.Param)}
        imports: dict[str, str] = {}
        guarded = around.guarded
        if isinstance(node, cst.FunctionDef):
            guarded = guarded or any(_SKIPS.search(self._text(each)) for each in node.decorators)
            for inner in walk(node.body):
                if isinstance(inner, (cst.Import, cst.ImportFrom)):
                    found = bindings(cst.SimpleStatementLine([inner]), self.module.name, self.module.is_package)
                    imports.update((each.name, each.target) for each in found if each.name != "*")
                elif isinstance(inner, (cst.AssignTarget, cst.AnnAssign, cst.For, cst.NamedExpr)):
                    own.update(name.value for name in walk(inner.target) if isinstance(name, cst.Name))
                elif isinstance(inner, cst.AsName) and isinstance(inner.name, cst.Name):
                    own.add(inner.name.value)
        inside = _Walk(self.module, self.unit, self.watched, {**self.imports, **imports})
        hidden = (around.hidden | own) - imports.keys()
        yield from inside._below(children(node), replace(around, hidden=hidden, guarded=guarded))

    def _import(self, node: cst.Import, around: _Around) -> Iterator[NameUse]:
        for alias in node.names:
            name = dotted(alias.name)
            if name is not None and self.watched.has(name):
                yield self._use(alias, around, UseForm.IMPORT, name, "")

    def _import_from(self, node: cst.ImportFrom, around: _Around) -> Iterator[NameUse]:
        base = dotted(node.module) if node.module is not None and not node.relative else None
        if base is None:
            return
        if isinstance(node.names, cst.ImportStar):
            if self.watched.has(base):
                yield self._use(node, around, UseForm.STAR, base, base)
            return
        for alias in node.names:
            name = f"{base}.{dotted(alias.name)}"
            if self.watched.has(name):
                yield self._use(alias, around, UseForm.FROM, name, base)

    def _attribute(self, node: cst.Attribute, around: _Around) -> Iterator[NameUse]:
        name = dotted(node)
        if name is None:
            yield from self.of(node.value, around)
            return
        first, _, rest = name.partition(".")
        target = self.imports.get(first)
        if target is not None and first not in around.hidden and self.watched.has(f"{target}.{rest}"):
            yield self._use(node, around, UseForm.ATTRIBUTE, f"{target}.{rest}", target)

    def _use(self, node: cst.CSTNode, around: _Around, form: UseForm, name: str, through: str) -> NameUse:
        moved = self.watched.moved
        missing = moved.star(name) if form is UseForm.STAR else moved.missing(name)
        span, statement = self._span(node), self._span(around.statement)
        return NameUse(span, statement, form, name, through, around.guarded, moved.namespace(name), missing)

    def _span(self, node: cst.CSTNode) -> SpanId:
        return SpanId(self.unit.path, self.unit.index, self.unit.ordinal(node))

    def _text(self, node: cst.CSTNode) -> str:
        return self.unit.source(self.unit.span(self.unit.ordinal(node)))


def _catches(handler: cst.ExceptHandler) -> bool:
    """Does a handler catch what a name that is not there raises?"""
    if handler.type is None:
        return True
    caught = (dotted(node) for node in walk(handler.type) if isinstance(node, (cst.Name, cst.Attribute)))
    return any(_CATCHES.search(name) for name in caught if name is not None)
