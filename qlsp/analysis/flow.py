"""Which module's output feeds which module, in the facts of one forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from qlsp.analysis.facts import Facts, FloatChange, OpCall
from qlsp.values.value import NO_GUARD, Choice, Guard, SpanId, Tensor, TupleValue, Value, exclusive


@dataclass(frozen=True, slots=True)
class Break:
    """Why one module does not feed the other alone: the reason and the call or return that shows it."""

    change: FloatChange
    span: SpanId


@dataclass(frozen=True)
class Flow:
    """The flow of tensors between the modules of one context. A module is meant by its instance id."""

    facts: Facts

    @cached_property
    def calls(self) -> dict[int, list[OpCall]]:
        """The calls of each module."""
        found: dict[int, list[OpCall]] = {}
        for call in self.facts.op_calls.values():
            if call.owner is not None:
                found.setdefault(call.owner, []).append(call)
        return found

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(call): number for number, call in enumerate(self.facts.op_calls.values())}

    @cached_property
    def _consumers(self) -> dict[int, list[tuple[OpCall, Guard]]]:
        """The calls that take the value of a number, and when they do."""
        found: dict[int, list[tuple[OpCall, Guard]]] = {}
        for call in self.facts.op_calls.values():
            if _passes(call):
                continue
            for alternative in call.alternatives:
                for operand in alternative.operands:
                    if isinstance(operand.value, Tensor):
                        entry = (call, alternative.guard | call.guard)
                        found.setdefault(operand.value.number, []).append(entry)
        return found

    def follower(self, owner: int) -> int | None:
        """The module that takes all that a module gives, and nothing else; None if there is none for certain."""
        outputs = self._outputs(owner)
        owners = {call.owner for number in outputs or () for call, _ in self._consumers.get(number, ())}
        if len(owners) != 1:
            return None
        other = owners.pop()
        if other is None or not self.known(owner, other) or self.between(owner, other) is not None:
            return None
        return other if all(_inputs(call) <= (outputs or frozenset()) for call in self.calls[other]) else None

    def known(self, first: int, second: int) -> bool:
        """Are all calls of both followed, each on one known tensor?"""
        calls = [*self.calls.get(first, ()), *self.calls.get(second, ())]
        return bool(self.calls.get(first) and self.calls.get(second)) and all(map(_clear, calls))

    def between(self, first: int, second: int) -> Break | None:
        """What stands in the way of taking two modules as one, of which all calls are known.

        Dropout does not: it is the identity in eval mode, and a ReLU before it is one behind it.
        """
        outputs = self._outputs(first) or frozenset()
        seconds = self.calls[second]
        if any(call.spec.op.endswith("dropout") for number in outputs for call, _ in self._consumers.get(number, ())):
            return None
        strange = [call for call in seconds if not _inputs(call) <= outputs]
        if len(strange) == len(seconds):
            return Break(FloatChange.APART, strange[0].span)
        if strange:
            return Break(FloatChange.SHARED, strange[0].span)
        first_use = min(self._order[id(call)] for call in seconds)
        in_place = any(_in_place(call) for call in seconds)
        for number in outputs:
            for call, guard in self._consumers.get(number, ()):
                later = in_place and self._order[id(call)] > first_use
                if call.owner != second and not later and self._together(guard, seconds):
                    return Break(FloatChange.CONSUMER, call.span)
        for returned in () if in_place else self.facts.returns:
            numbers = {tensor.number for guard, tensor in _tensors(returned.value) if self._together(guard, seconds)}
            if numbers & outputs and self._together(returned.guard, seconds):
                return Break(FloatChange.CONSUMER, returned.span)
        return None

    def _together(self, guard: Guard, calls: list[OpCall]) -> bool:
        return any(not exclusive(guard, call.guard) for call in calls)

    def _outputs(self, owner: int) -> frozenset[int] | None:
        found = set()
        for call in self.calls.get(owner, ()):
            for alternative in call.alternatives:
                if not isinstance(alternative.output, Tensor):
                    return None
                found.add(alternative.output.number)
        return frozenset(found)


def _inputs(call: OpCall) -> set[int]:
    values = (operand.value for alternative in call.alternatives for operand in alternative.operands)
    return {value.number for value in values if isinstance(value, Tensor)}


def _clear(call: OpCall) -> bool:
    """A call on known single tensors that gives single tensors."""
    return (
        not call.loop
        and not call.open
        and all(isinstance(alternative.output, Tensor) for alternative in call.alternatives)
        and all(isinstance(o.value, Tensor) and not o.value.many for a in call.alternatives for o in a.operands)
    )


def _passes(call: OpCall) -> bool:
    """A call that gives the very tensor it takes (a stub in the float model, Identity, Dropout in eval mode)."""
    return all(
        isinstance(alternative.output, Tensor)
        and {alternative.output.number} == {o.value.number for o in alternative.operands if isinstance(o.value, Tensor)}
        for alternative in call.alternatives
    )


def _in_place(call: OpCall) -> bool:
    return call.spec.op == "relu" and any(
        isinstance(pair, tuple) and len(pair) == 2 and pair[1] == ("bool", "True") for pair in call.arguments
    )


def _tensors(value: Value, guard: Guard = NO_GUARD) -> Iterator[tuple[Guard, Tensor]]:
    if isinstance(value, Tensor):
        yield guard, value
    elif isinstance(value, Choice):
        for inner, option in value.options:
            yield from _tensors(option, guard | inner)
    elif isinstance(value, TupleValue):
        for item in value.items:
            yield from _tensors(item, guard)
