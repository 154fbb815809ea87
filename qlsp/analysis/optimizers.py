"""Optimizers: whose parameters they hold, and where they go on after a model has changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from qlsp.analysis.exports import Exports
from qlsp.analysis.facts import ModelStep, StepKind
from qlsp.analysis.machine import Arguments
from qlsp.analysis.program import ClassModel
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import walk
from qlsp.values.state import Instance, State
from qlsp.values.value import Ref, Symbol, TupleValue, Unknown, Value, options_of

OPTIMIZERS = "torch.optim."
SCHEDULERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")
LISTS_PARAMETERS = frozenset({"parameters", "named_parameters"})

_MARK = "an optimizer"


class Optimizers(Exports):
    """Records which optimizer holds the parameters of which model, and when it steps.

    ``trained`` are the members of the models whose parameters an optimizer got, by the number of the optimizer: one for
    each call that builds one.
    """

    trained: dict[int, frozenset[int]]

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """An optimizer is known by the call that builds it."""
        value = super().library_call(name, arguments, node, state)
        if self.facts is None and isinstance(value, Unknown) and _builds(name):
            return Unknown(value.reason, (_MARK, self._optimizer(node)))
        return value

    def tells(self, step: ModelStep) -> bool:
        """An optimizer steps that another run built for a model that it moved through its life."""
        return step.kind is StepKind.STEP and any(
            isinstance(event, ModelStep)
            and event.kind is StepKind.OPTIMIZER
            and event.entry != step.entry
            and event.objects & step.objects
            for event in self.script.events
        )

    def _optimizer(self, node: cst.Call) -> int:
        return self.number((_MARK, self.span(node), self.path))

    def _step(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> StepKind | None:
        """Remember where an optimizer is built, gets more parameters, and steps."""
        if isinstance(function, Symbol):
            if _builds(function.name):
                self.trained[self._optimizer(node)] = members = self._owned(node, state)
                self._took(StepKind.OPTIMIZER, members, node, state, frozenset({self._optimizer(node)}))
            return None
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        if name == "add_param_group":
            self._took(StepKind.OPTIMIZER, self._owned(node, state), node, state)
        elif name == "step":
            self._steps([_receiver(option) for _, option in options_of(function)], node, state)
            for argument in arguments.positional:
                self._steps([argument.value], node, state)
        return super()._step(function, arguments, node, state)

    def _steps(self, values: Iterable[Value], node: cst.CSTNode, state: State) -> None:
        """One of these optimizers steps; nothing is remembered if there is something else among them."""
        options = [option for value in values for _, option in options_of(value)]
        numbers = {_number(option) for option in options}
        known = frozenset(number for number in numbers if number is not None)
        if known and len(known) == len(numbers):
            members = frozenset().union(*(self.trained.get(number, frozenset()) for number in known))
            self._took(StepKind.STEP, members, node, state, known)

    def _owned(self, node: cst.Call, state: State) -> frozenset[int]:
        """The members of the models whose parameters a call gets, as its arguments say."""
        found: frozenset[int] = frozenset()
        for argument in node.args:
            for inner in walk(argument.value):
                function = inner.func if isinstance(inner, cst.Call) else None
                lists = isinstance(function, cst.Attribute) and function.attr.value in LISTS_PARAMETERS
                if lists and isinstance(function, cst.Attribute) and dotted(function.value) is not None:
                    found |= self.members_of(self.eval(function.value, state), state)
        return found

    def _hand_over(self, values: Iterable[Value], callee: str, state: State) -> None:
        """Code that gets an optimizer together with its model trains the model with it."""
        values = list(values)
        super()._hand_over(values, callee, state)
        self._together(values, state)

    def left(self, value: Value, state: State) -> None:
        """What an entry gives back goes to code that is not in view; what it keeps in an object, to other methods."""
        instance = self.instance(state, value) if isinstance(value, Ref) else None
        if isinstance(value, TupleValue):
            self._together(value.items, state)
        elif instance is not None and self.trained:
            kept = {name: each for name, each in instance.attributes.items() if not self._set_by_others(instance, name)}
            self._together(kept.values(), state)

    def _set_by_others(self, instance: Instance, name: str) -> bool:
        """May a method that is not running give an attribute another value?"""
        sets = re.compile(rf"\bself\.{re.escape(name)}\s*=[^=]")
        methods = (m for cls in self.mro(instance.cls) if isinstance(cls, ClassModel) for m in cls.methods.values())
        return any(sets.search(method.unit.text) for method in methods if method.unit is not self.current.unit)

    def _together(self, values: Iterable[Value], state: State) -> None:
        if not self.trained or not self._recording() or self.facts is not None:
            return
        values = list(values)
        optimizers = [value for value in values if any(_number(option) is not None for _, option in options_of(value))]
        others = frozenset().union(*(self.members_of(value, state) for value in values if value not in optimizers))
        for optimizer in optimizers:
            held = (self.trained.get(number, frozenset()) for number in _numbers(optimizer))
            if any(members & others for members in held):
                statement = self.current.statement
                self._steps([optimizer], statement if statement is not None else self.current.unit.node, state)


def _builds(name: str) -> bool:
    """Is this the class of an optimizer?"""
    return name.startswith(OPTIMIZERS) and not name.startswith(SCHEDULERS) and name.rpartition(".")[2][:1].isupper()


def _receiver(function: Value) -> Value:
    """The optimizer of ``optimizer.step``."""
    if isinstance(function, Unknown) and function.symbol is not None and function.symbol[-2:] == (".", "step"):
        return Unknown(function.reason, function.symbol[:-2])
    return function


def _number(value: Value) -> int | None:
    symbol = value.symbol if isinstance(value, Unknown) else None
    return symbol[1] if symbol is not None and len(symbol) == 2 and symbol[0] == _MARK else None  # type: ignore[return-value]


def _numbers(value: Value) -> Iterator[int]:
    for _, option in options_of(value):
        number = _number(option)
        if number is not None:
            yield number
