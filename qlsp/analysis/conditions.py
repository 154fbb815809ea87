"""Conditions: which arms can run, under which branch decision, with which refinements."""

from __future__ import annotations

from collections.abc import Callable, Collection

import libcst as cst

from qlsp.analysis.globals import Globals
from qlsp.values.state import DictObject, ListObject, State
from qlsp.values.value import (
    Choice,
    Const,
    Guard,
    Ref,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    exclusive,
)

SEQUENCES = frozenset({"builtins.list", "builtins.tuple", "typing.List", "typing.Tuple"})
MAPPINGS = frozenset({"builtins.dict", "typing.Dict", "collections.OrderedDict", "collections.abc.Mapping"})


class Conditions(Globals):
    """Truth of values and the forks it causes."""

    def branch(self, test: cst.BaseExpression, state: State) -> list[tuple[bool, State]]:
        """The arms that can run: (truth, state of that arm). One entry where the condition is known.

        The given state is used up: an arm may be the very object.
        """
        value = self.eval(test, state)
        truth = self.truth(value, state)
        if truth is not None:
            return [(truth, state)]
        if isinstance(value, Choice):
            return self._branch_choice(test, value, state)
        key, positive = self._key(test, value)
        decided = dict(state.guard).get(key)
        arms = [arm for arm in (1, 0) if decided is None or decided == arm]
        result = []
        for arm in arms:
            taken = state.fork((key, arm)) if len(arms) > 1 else state
            holds = (arm == 1) == positive
            self.refine(test, holds, taken)
            result.append((holds, taken))
        return sorted(result, key=lambda pair: not pair[0])

    def asserted(self, test: cst.BaseExpression, state: State) -> None:
        """The truth of an assertion is asked for (see ``traces``)."""

    def _branch_choice(
        self, test: cst.BaseExpression, value: Choice, state: State
    ) -> list[tuple[bool, State]]:
        """A condition whose value depends on earlier branches: each truth keeps the guards that lead to it."""
        by_truth: dict[bool, list[Guard]] = {}
        for guard, option in value.options:
            if exclusive(guard, state.guard):
                continue
            truth = self.truth(option, state)
            for outcome in (True, False) if truth is None else (truth,):
                by_truth.setdefault(outcome, []).append(guard)
        key = self.number(("branch", self.span(test), self.path))
        result = []
        for outcome in (True, False):
            guards = by_truth.get(outcome)
            if guards is None:
                continue
            common = frozenset.intersection(*guards)
            arm = state.fork(*common, (key, int(outcome))) if len(by_truth) > 1 else state
            self.refine(test, outcome, arm)
            result.append((outcome, arm))
        return result

    def _key(self, test: cst.BaseExpression, value: Value) -> tuple[int, bool]:
        """The number of a decision, and whether arm 1 means that the condition holds."""
        if isinstance(value, Unknown) and value.symbol is not None:
            symbol, positive = value.symbol, True
            while symbol and symbol[0] == "not":
                inner = symbol[1]
                assert isinstance(inner, tuple)
                symbol, positive = inner, not positive
            return self.number(("symbol", symbol)), positive
        if isinstance(value, Tensor):
            return self.number(("symbol", ("truth", value.number))), True
        return self.number(("branch", self.span(test), self.path)), True

    def truth(self, value: Value, state: State) -> bool | None:
        """Truth of a value, None if both are possible."""
        match value:
            case Const():
                return bool(value.value)
            case TupleValue():
                return bool(value.items)
            case Ref():
                thing = self.load(state, value)
                if isinstance(thing, ListObject):
                    return bool(thing.items) if thing.items is not None else None
                if isinstance(thing, DictObject):
                    return bool(thing.entries) or (None if thing.rest is not None else False)
                return True
            case Tensor() | Unknown():
                return None
            case Choice():
                truths = {
                    self.truth(option, state)
                    for guard, option in value.options
                    if not exclusive(guard, state.guard)
                }
                return truths.pop() if len(truths) == 1 else None
            case _:
                return True

    def refine(self, test: cst.BaseExpression, holds: bool, state: State) -> None:
        """Narrow a name that the condition tests: ``x is None``, ``x is not None``, ``x``, ``not x``,
        ``isinstance(x, ...)``, and each part of an ``and`` that holds."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            self.refine(test.expression, not holds, state)
            return
        if isinstance(test, cst.BooleanOperation):
            conjunction = isinstance(test.operator, cst.And)
            if conjunction == holds:
                self.refine(test.left, holds, state)
                self.refine(test.right, holds, state)
            return
        if isinstance(test, (cst.Name, cst.Attribute, cst.NamedExpr)):
            self._keep(test, state, lambda value: self.truth(value, state) is not (not holds))
            return
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            comparison = test.comparisons[0]
            against_none = isinstance(comparison.comparator, cst.Name) and comparison.comparator.value == "None"
            if against_none and isinstance(comparison.operator, (cst.Is, cst.IsNot)):
                wants_none = isinstance(comparison.operator, cst.Is) == holds
                self._keep(test.left, state, lambda value: _maybe_none(value, wants_none))
                return
        question = self.class_question(test, state)
        if question is not None:
            name, classes, positive = question
            self._refine_class(name, classes, holds == positive, state)

    def class_question(self, test: cst.BaseExpression, state: State) -> tuple[str, set[str], bool] | None:
        """(name, classes, whether it holds for them) of ``isinstance(name, classes)``, ``torch.is_tensor(name)``,
        ``type(name) is class`` and kin."""
        match test:
            case cst.Call(args=[cst.Arg(value=cst.Name(value=name)), cst.Arg(value=classes)]):
                if self._asks(test.func, state) in ("builtins.isinstance", "torch.jit.isinstance"):
                    return name, self.class_names(classes, state), True
            case cst.Call(args=[cst.Arg(value=cst.Name(value=name))]):
                if self._asks(test.func, state) == "torch.is_tensor":
                    return name, {"torch.Tensor"}, True
            case cst.Comparison(
                left=cst.Call(func=cst.Name(value="type"), args=[cst.Arg(value=cst.Name(value=name))]),
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=classes)],
            ) if isinstance(operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual, cst.In, cst.NotIn)):
                positive = not isinstance(operator, (cst.IsNot, cst.NotEqual, cst.NotIn))
                return name, self.class_names(classes, state), positive
        return None

    def _asks(self, function: cst.BaseExpression, state: State) -> str | None:
        value = self.eval(function, State({}, state.heap, state.guard))
        return value.name if isinstance(value, Symbol) else None

    def _refine_class(self, name: str, classes: set[str], holds: bool, state: State) -> None:
        value = state.names.get(name)
        if not isinstance(value, Tensor) or not value.collection or not classes:
            return
        if classes <= {"torch.Tensor"}:
            state.names[name] = self.plain_input(value) if holds else self.list_input(value, state)
        elif classes <= SEQUENCES:
            state.names[name] = self.list_input(value, state) if holds else self.plain_input(value)
        elif classes <= MAPPINGS and holds:
            state.names[name] = self.dict_input(value, state)

    def _keep(self, node: cst.BaseExpression, state: State, wanted: Callable[[Value], bool]) -> None:
        """Drop the alternatives of a name or an attribute that a condition rules out."""
        value, store = self._place(node, state)
        if not isinstance(value, Choice) or store is None:
            return
        kept = [(guard, option) for guard, option in value.options if wanted(option)]
        if kept:
            store(choice(kept))
            common = frozenset.intersection(*(guard for guard, _ in kept))
            state.guard = state.guard | common

    def _place(
        self, node: cst.BaseExpression, state: State
    ) -> tuple[Value | None, Callable[[Value], None] | None]:
        """What a name or ``name.attribute`` stands for, and how to set it."""
        if isinstance(node, cst.NamedExpr):
            node = node.target
        if isinstance(node, cst.Name):
            name = node.value
            return state.names.get(name), lambda value: state.names.update({name: value})
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            attribute, owner = node.attr.value, state.names.get(node.value.value)
            instance = self.instance(state, owner) if owner is not None else None
            if instance is not None and isinstance(owner, Ref):
                oid, found = owner.oid, instance

                def store(value: Value) -> None:
                    state.heap[oid] = found.with_attribute(attribute, value)

                return instance.attributes.get(attribute), store
        return None, None

    def class_names(self, node: cst.BaseExpression, state: State) -> set[str]:
        """Canonical names of the classes in the second argument of isinstance (see ``library``)."""
        raise NotImplementedError

    def plain_input(self, value: Tensor) -> Tensor:
        """An input that is known to be one tensor (see ``objects``)."""
        raise NotImplementedError

    def dict_input(self, value: Tensor, state: State) -> Value:
        """An input that is known to be a dict of tensors (see ``items``)."""
        raise NotImplementedError

    def list_input(self, value: Tensor, state: State) -> Value:
        """An input that is known to be a list of tensors (see ``objects``)."""
        raise NotImplementedError


def collection_symbol(value: Tensor, classes: Collection[str]) -> tuple[object, ...]:
    """The symbol of the question whether an input of unknown structure is of one of some classes."""
    symbol: tuple[object, ...] = ("collection", value.number)
    if set(classes) <= {"torch.Tensor"}:
        return symbol
    return ("not", symbol) if set(classes) <= SEQUENCES else ("instance", value.number, tuple(sorted(classes)))


def _maybe_none(value: Value, wants_none: bool) -> bool:
    if isinstance(value, Unknown):
        return True
    return (isinstance(value, Const) and value.value is None) == wants_none
