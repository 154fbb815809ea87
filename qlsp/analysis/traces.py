"""What stops FX: control flow on the stand-ins that forward is traced with."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from qlsp.analysis.aliases import Aliases
from qlsp.analysis.facts import Facts, TracedUse
from qlsp.analysis.machine import Arguments
from qlsp.ops.spec import OpSpec
from qlsp.syntax.parse import walk
from qlsp.values.state import State
from qlsp.values.value import NO_GUARD, Bound, Choice, Ref, Tensor, TupleValue, Unknown, Value
from qlsp.values.workflow import Workflow

COMPARES = (cst.Equal, cst.NotEqual, cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
TAKES_VALUES = frozenset({"len", "int", "float", "bool", "range"})


class Traces(Aliases):
    """Follows which values are stand-ins (``Proxy``) while FX traces a model.

    ``stand_ins`` are the numbers of their tensors, ``parameters`` the names of the root's parameters that its forward
    never binds anew.
    """

    stand_ins: set[int]
    parameters: dict[str, Value]

    def trace(self, names: dict[str, Value], node: cst.FunctionDef | None, facts: Facts) -> None:
        """Forward of the root is about to run."""
        self.stand_ins, self.parameters = set(), {}
        tracing = facts.context.tracing
        if facts.context.workflow is not Workflow.FX or tracing is None or not tracing.plain:
            return
        bound = {inner.target.value for inner in _targets(node) if isinstance(inner.target, cst.Name)}
        given = [*node.params.params, *node.params.kwonly_params][1:] if node is not None else []
        for parameter in given:
            name = parameter.name.value
            value = names.get(name)
            if value is not None:
                self.stand_ins |= {tensor.number for tensor in _tensors(value)}
                if name not in bound:
                    self.parameters[name] = value

    def trace_input(self, number: int, facts: Facts) -> None:
        """The forward of a root of a library class is about to run on one input."""
        tracing = facts.context.tracing
        if facts.context.workflow is Workflow.FX and tracing is not None and tracing.plain:
            self.stand_ins = {number}

    def _tracing(self) -> bool:
        return self.facts is not None and bool(self.stand_ins or self.parameters) and not self.muted

    def apply(
        self,
        row: OpSpec,
        spelling: str,
        arguments: Arguments,
        node: cst.CSTNode,
        state: State,
        owner: Ref | None = None,
    ) -> Value:
        """What an operator makes of a stand-in is one."""
        result = super().apply(row, spelling, arguments, node, state, owner)
        if self.facts is not None and self.stand_ins:
            values = [argument.value for argument in (*arguments.positional, *arguments.keywords.values())]
            if any(self._stands_in(value) for value in values):
                self.stand_ins |= {tensor.number for tensor in _tensors(result)}
                if isinstance(result, Unknown) and result.symbol is None:
                    return Unknown(result.reason, ("tensor", min(self.stand_ins), self.span(node), self.path))
        return result

    def branch(self, test: cst.BaseExpression, state: State) -> list[tuple[bool, State]]:
        """A condition: FX has no value to decide it by."""
        if self._tracing() and state.guard == NO_GUARD and self._undecided(test, state):
            self._stops(test, "condition")
        return super().branch(test, state)

    def asserted(self, test: cst.BaseExpression, state: State) -> None:
        """An assert statement asks for the truth of a value."""
        if self._tracing() and state.guard == NO_GUARD and self._undecided(test, state):
            self._stops(test, "condition")

    def builtin(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Builtins that need a value."""
        if name in TAKES_VALUES and self._tracing() and state.guard == NO_GUARD:
            plain = [argument.node for argument in arguments.positional if argument.node is not None]
            if any(self._is_stand_in(each, state) for each in plain):
                self._stops(node, name)
        return super().builtin(name, arguments, node, state)

    def for_statement(self, statement: cst.For, state: State) -> State | None:
        """A loop over a stand-in."""
        if self._tracing() and state.guard == NO_GUARD and isinstance(statement.iter, cst.Name):
            value = state.names.get(statement.iter.value)
            if isinstance(value, Tensor) and value.number in self.stand_ins:
                self._stops(statement.iter, "loop")
        return super().for_statement(statement, state)

    def _stops(self, node: cst.CSTNode, kind: str) -> None:
        assert self.facts is not None
        span = self.span(node)
        self.facts.traced.setdefault((span, self.path), TracedUse(span, self.path, kind))

    def _undecided(self, test: cst.BaseExpression, state: State) -> bool:
        """Does the truth of an expression certainly depend on a stand-in?"""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self._undecided(test.expression, state)
        if isinstance(test, cst.BooleanOperation):
            if self._undecided(test.left, state):
                return True
            truth = self.truth(self._quietly(test.left, state), state)
            goes_on = truth is True if isinstance(test.operator, cst.And) else truth is False
            return goes_on and self._undecided(test.right, state)
        return self._is_stand_in(test, state)

    def _is_stand_in(self, node: cst.BaseExpression, state: State) -> bool:
        match node:
            case cst.Comparison(comparisons=comparisons):
                plain = all(isinstance(each.operator, COMPARES) for each in comparisons)
                sides = [node.left, *(each.comparator for each in comparisons)]
                return plain and any(self._is_stand_in(side, state) for side in sides)
            case cst.BinaryOperation(left=left, right=right):
                return self._is_stand_in(left, state) or self._is_stand_in(right, state)
            case cst.Subscript(value=value):
                return self._is_stand_in(value, state)
            case cst.Name(value=name) if name in self.parameters and self._in_root():
                return state.names.get(name) == self.parameters[name]
            case cst.Call(func=cst.Attribute(value=receiver)) if self._is_stand_in(receiver, state):
                return True
            case cst.Name() | cst.Attribute() | cst.Call():
                return self._stands_in(self._quietly(node, state))
            case _:
                return False

    def _in_root(self) -> bool:
        return not self.path and self.current.name == "forward"

    def _quietly(self, node: cst.BaseExpression, state: State) -> Value:
        self.muted += 1
        try:
            return self.eval(node, state.fork())
        finally:
            self.muted -= 1

    def _stands_in(self, value: Value) -> bool:
        match value:
            case Tensor():
                return value.number in self.stand_ins
            case Unknown():
                return value.symbol is not None and self._names_one(value.symbol)
            case Bound(receiver=Tensor() as receiver):
                return receiver.number in self.stand_ins
            case Choice():
                return all(self._stands_in(option) for _, option in value.options)
            case TupleValue():
                return any(self._stands_in(item) for item in value.items)
            case _:
                return False

    def _names_one(self, symbol: tuple[object, ...]) -> bool:
        if len(symbol) >= 3 and symbol[0] == "tensor" and symbol[1] in self.stand_ins:
            return True
        return any(isinstance(part, tuple) and self._names_one(part) for part in symbol)


def _tensors(value: Value) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case TupleValue():
            for item in value.items:
                yield from _tensors(item)
        case Choice():
            for _, option in value.options:
                yield from _tensors(option)


def _targets(node: cst.CSTNode | None) -> Iterator[cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.NamedExpr]:
    for inner in walk(node) if node is not None else ():
        if isinstance(inner, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.NamedExpr)):
            yield inner
