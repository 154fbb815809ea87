"""Import bindings of a statement, and dotted names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import libcst as cst


@dataclass(frozen=True, slots=True)
class Binding:
    """A name that an import binds, and the qualified name it stands for.

    ``others`` are what handlers bind the name to where the import fails, ``behind`` what is imported before it in the
    same ``try``. ``typing``: only type checkers see it.
    """

    name: str
    target: str
    others: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    typing: bool = False


def dotted(node: cst.BaseExpression) -> str | None:
    """Return ``a.b.c`` for a name or a chain of attributes of a name."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def bindings(node: cst.BaseStatement, module: str, is_package: bool) -> list[Binding]:
    """Return the import bindings of a statement and of the blocks in it.

    Of two branches that exclude each other, the first one that binds a name wins; code that follows in
    sequence overrides what came before.  Functions and classes have names of their own and are left out.
    """
    package = module if is_package else module.rpartition(".")[0]
    table: dict[str, Binding] = {}
    for binding in _statement(node, package):
        table.pop(_key(binding), None)
        table[_key(binding)] = binding
    return list(table.values())


def _key(binding: Binding) -> str:
    return f"*{binding.target}" if binding.name == "*" else binding.name


def _statement(node: cst.CSTNode, package: str) -> Iterator[Binding]:
    if isinstance(node, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        for small in node.body:
            yield from _simple(small, package)
    elif isinstance(node, cst.If):
        arms: list[cst.CSTNode] = [node.body]
        if node.orelse is not None:
            arms.append(node.orelse)
        if (dotted(node.test) or "").rpartition(".")[2] == "TYPE_CHECKING":
            found = list(_first(arms[1:], package))
            seen = set(map(_key, found))
            yield from found
            yield from (replace(each, typing=True) for each in _statement(node.body, package) if _key(each) not in seen)
            return
        yield from _first(arms, package)
    elif isinstance(node, cst.Try | cst.TryStar):
        body: list[cst.CSTNode] = [node.body]
        if node.orelse is not None:
            body.append(node.orelse)
        tried = list(_sequence(body, package))
        seen = {_key(binding) for binding in tried}
        caught = list(_first((handler.body for handler in node.handlers), package))
        for number, each in enumerate(tried):
            others = tuple(other.target for other in caught if _key(other) == _key(each))
            before = tuple(other.target for other in tried[: number + 1]) if others else ()
            yield replace(each, others=(*each.others, *others), behind=(*each.behind, *before))
        yield from (b for b in caught if _key(b) not in seen)
        if node.finalbody is not None:
            yield from _statement(node.finalbody.body, package)
    elif isinstance(node, cst.Match):
        yield from _first((case.body for case in node.cases), package)
    elif isinstance(node, cst.For | cst.While):
        yield from _statement(node.body, package)
        if node.orelse is not None:
            yield from _statement(node.orelse, package)
    elif isinstance(node, cst.With | cst.Else):
        yield from _statement(node.body, package)
    elif isinstance(node, cst.IndentedBlock):
        yield from _sequence(node.body, package)


def _sequence(nodes: Iterable[cst.CSTNode], package: str) -> Iterator[Binding]:
    for node in nodes:
        yield from _statement(node, package)


def _first(arms: Iterable[cst.CSTNode], package: str) -> Iterator[Binding]:
    seen: set[str] = set()
    for arm in arms:
        bound = list(_statement(arm, package))
        yield from (binding for binding in bound if _key(binding) not in seen)
        seen.update(map(_key, bound))


def _simple(node: cst.BaseSmallStatement, package: str) -> Iterator[Binding]:
    if isinstance(node, cst.Import):
        for alias in node.names:
            name = dotted(alias.name)
            if name is None:
                continue
            bound = _as_name(alias)
            if bound is None:
                first = name.partition(".")[0]
                yield Binding(first, first)
            else:
                yield Binding(bound, name)
    elif isinstance(node, cst.ImportFrom):
        base = _base(node, package)
        if base is None:
            return
        if isinstance(node.names, cst.ImportStar):
            yield Binding("*", base)
            return
        for alias in node.names:
            name = dotted(alias.name)
            if name is not None:
                yield Binding(_as_name(alias) or name, f"{base}.{name}" if base else name)


def _as_name(alias: cst.ImportAlias) -> str | None:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return None


def _base(node: cst.ImportFrom, package: str) -> str | None:
    module = dotted(node.module) if node.module is not None else ""
    if module is None:
        return None
    if not node.relative:
        return module
    parts = package.split(".") if package else []
    up = len(node.relative) - 1
    if up and up >= len(parts):
        return None
    parts = parts[: len(parts) - up]
    return ".".join([*parts, module] if module else parts)
