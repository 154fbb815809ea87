"""Questions about the statements around a node: loops, names that are bound, values that are read once."""

from __future__ import annotations

import re

import libcst as cst

from qlsp.diagnostics import NoFix
from qlsp.syntax.edits.parts import Expression, LoopAt
from qlsp.syntax.edits.slices import Slices
from qlsp.syntax.parse import Unit, bound_names, count_names, walk
from qlsp.syntax.view import At, NodeKey


class Blocks(Slices):
    """Loops, blocks and names of the function around a node."""

    def loop(self, key: NodeKey, head: NodeKey) -> LoopAt:
        """The loop or comprehension with this head, if it is the only one of the function around a node."""
        at, wanted = self.view.at(key), self.view.at(head)
        found = None
        inner = at.node
        for node in self.view.ancestors(at):
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                break
            if isinstance(node, cst.While) or isinstance(node, (cst.For, cst.CompFor)) and inner is node.iter:
                raise NoFix("a loop without a head, or the head itself")
            if isinstance(node, cst.For):
                loop: cst.For | cst.CompFor = node
            elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
                loop = node.for_in
                if loop.inner_for_in is not None:
                    raise NoFix("a comprehension with two loops")
            else:
                inner = node
                continue
            inner = node
            if found is not None or loop is not wanted.node or loop.asynchronous is not None:
                raise NoFix("a loop in a loop")
            found = loop
        if found is None:
            raise NoFix("not in this loop")
        target, iterable = (self._expression(At(at.unit, node)) for node in (found.target, found.iter))
        return LoopAt(At(at.unit, found), target, iterable)

    def in_constructor(self, key: NodeKey) -> bool:
        """True if a node stands in an ``__init__``."""
        function = self.view.function(self.view.at(key))
        node = function.node if function is not None else None
        return isinstance(node, cst.FunctionDef) and node.name.value == "__init__"

    def runs_once(self, key: NodeKey) -> bool:
        """False where a node is part of a comprehension, a lambda or a condition of its statement."""
        at = self.view.at(key)
        kinds = (cst.CompFor, cst.BaseComp, cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.Comparison)
        for node in self.view.ancestors(at):
            if isinstance(node, cst.BaseStatement):
                return not isinstance(node, (cst.If, cst.While))
            if isinstance(node, kinds):
                return False
        return True

    def may_rebind(self, key: NodeKey, name: str) -> bool:
        """True if a statement may bind a name anew: a name of the function that it gives back if it is a
        parameter, or a name of the script."""
        at = self.view.at(key)
        function = self.view.function(at)
        if function is None:
            return self.view.enclosing_class(at) is None
        if not isinstance(function.node, cst.FunctionDef):
            return False
        nodes = list(walk(function.node))
        if any(isinstance(node, (cst.Global, cst.Nonlocal)) for node in nodes) or self._nested(function):
            return False
        parameters = {node.name.value for node in nodes if isinstance(node, cst.Param)}
        if name not in parameters:
            return any(isinstance(node, cst.Assign) and _sets(node, name) for node in nodes)
        returns = [node for node in nodes if isinstance(node, cst.Return) and node.value is not None]
        return bool(returns) and all(count_names(node, name) for node in returns)

    def bound_between(self, first: NodeKey, last: NodeKey) -> tuple[frozenset[str], frozenset[str]]:
        """Names that a statement may bind, and that those behind it up to another one of its block may bind."""
        one, other = (self.view.statement(self.view.at(each)) for each in (first, last))
        if self.view.parent(one) is None and self.view.parent(other) is None:
            names = [unit.names for unit in self._units(one, other)]
        else:
            names = [bound_names("statement", None, text) for text in self._texts(one, other)]
        if not names:
            raise NoFix("statements in another order")
        return names[0], frozenset().union(*names[1:])

    def mentioned_between(self, first: NodeKey, last: NodeKey, name: str) -> bool:
        """Does the text between two statements of one block use a name, plain or dotted?"""
        one, other = (self.view.statement(self.view.at(each)) for each in (first, last))
        pattern = re.compile(rf"(?<![\w.]){re.escape(name)}\b")
        return any(pattern.search(text) for text in self._texts(one, other)[1:])

    def _texts(self, one: At, other: At) -> list[str]:
        """The statement, and those behind it up to another one of its block."""
        block = self.view.parent(one)
        if block is not self.view.parent(other):
            raise NoFix("statements of different blocks")
        if block is None:
            return [unit.text for unit in self._units(one, other)]
        if not isinstance(block, cst.IndentedBlock):
            raise NoFix("statements of different blocks")
        body = list(block.body)
        start, end = body.index(one.node), body.index(other.node)  # type: ignore[arg-type]
        return [At(one.unit, node).text for node in body[start:end]]

    def _units(self, one: At, other: At) -> list[Unit]:
        if one.unit.path != other.unit.path or one.unit.segment != other.unit.segment:
            raise NoFix("statements of different blocks")
        units = self.view.file(one.unit.path).syntax.units
        return list(units[units.index(one.unit) : units.index(other.unit)])

    def grown(self, key: NodeKey, name: str) -> Expression:
        """What a local name is first set to, if the function but appends new objects to it, all before a statement."""
        at = self.view.at(key)
        function, end = self.view.function(at), self.view.statement(at).span.end
        if function is None or self.view.repeats(at) or self._nested(function):
            raise NoFix("not once in a function")
        start: Expression | None = None
        for node in walk(function.node):
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            found = At(function.unit, node)
            parent = self.view.parent(found)
            holder = self.view.parent(At(function.unit, parent)) if parent is not None else None
            if parent is at.node or isinstance(parent, cst.Attribute) and parent.attr is node:
                continue
            if found.span.start >= end or isinstance(parent, cst.Param):
                raise NoFix(f"{name} is used elsewhere")
            if isinstance(parent, cst.AssignTarget) and isinstance(holder, cst.Assign) and start is None:
                start = self._expression(At(function.unit, holder.value))
            elif not _appends(parent, holder):
                raise NoFix(f"{name} is used elsewhere")
        if start is None:
            raise NoFix(f"{name} is not set here")
        return start

    def local_name(self, key: NodeKey, hint: str) -> str:
        """A name that the function around a node does not use."""
        function = self.view.function(self.view.at(key))
        if function is None:
            raise NoFix("not in a function")
        names = {node.value for node in walk(function.node) if isinstance(node, cst.Name)}
        return unused(hint, names | set(self.view.file(key.path).imports))

    def feeds_only(self, producer: NodeKey, consumer: NodeKey, element: Expression) -> bool:
        """True if a call is the expression itself, or what a name holds that only this expression reads."""
        made, used = self.view.at(producer), self.view.at(consumer)
        if isinstance(made.node, cst.BaseExpression) and self._expression(made).place == element.place:
            return True
        statement, other = self.view.statement(made), self.view.statement(used)
        block = self.view.parent(statement)
        if element.name is None or "." in element.name or block is not self.view.parent(other):
            return False
        if not isinstance(block, cst.IndentedBlock):
            return False
        if _made_name(statement.node, made.node) != element.name:
            return False
        function = self.view.function(made)
        if function is None or self.view.repeats(made) or self._nested(function):
            return False
        return self._read_once(block, statement.node, other.node, element.name, function)

    def _nested(self, function: At) -> bool:
        return any(
            isinstance(node, (cst.FunctionDef, cst.Lambda)) for node in walk(function.node) if node is not function.node
        )

    def _read_once(
        self, block: cst.IndentedBlock, made: cst.CSTNode, used: cst.CSTNode, name: str, function: At
    ) -> bool:
        """One read of a name between the statement that sets it and the one that sets it anew."""
        body = list(block.body)
        start, end = body.index(made), body.index(used)  # type: ignore[arg-type]
        if start > end:
            return False
        reads = 0
        for number, statement in enumerate(body[start + 1 :], start + 1):
            count = count_names(statement, name)
            stored = _stores(statement, name)
            if number < end and count or number == end and count - stored != 1:
                return False
            if number == end:
                reads = 1
                if stored:
                    return True
            elif number > end and stored and count == stored:
                return True
            elif number > end and count:
                return False
        after = At(function.unit, block)
        outer = self.view.parent(after)
        return reads == 1 and (outer is function.node or count_names(function.node, name) == 2)


def _made_name(statement: cst.CSTNode, made: cst.CSTNode) -> str | None:
    """The name that a statement gives to what an expression or an augmented assignment makes."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    target: cst.BaseExpression | None = None
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and small.value is made:
        target = small.targets[0].target
    elif isinstance(small, cst.AugAssign) and small is made:
        target = small.target
    return target.value if isinstance(target, cst.Name) else None


def _sets(node: cst.Assign, name: str) -> bool:
    return any(isinstance(each.target, cst.Name) and each.target.value == name for each in node.targets)


def _appends(attribute: cst.CSTNode | None, call: cst.CSTNode | None) -> bool:
    """``name.append(Made())``"""
    if not isinstance(attribute, cst.Attribute) or attribute.attr.value != "append":
        return False
    return isinstance(call, cst.Call) and len(call.args) == 1 and isinstance(call.args[0].value, cst.Call)


def _stores(node: cst.CSTNode, name: str) -> int:
    """1 if a plain assignment at the top of a statement sets a name."""
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        return int(isinstance(target, cst.Name) and target.value == name)
    return 0


def unused(hint: str, taken: set[str]) -> str:
    """A name like a hint that is not taken."""
    if hint not in taken:
        return hint
    number = 2
    while f"{hint}_{number}" in taken:
        number += 1
    return f"{hint}_{number}"
