"""Where the tensors of calls come from: two tensors of one source have one distribution."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from qlsp.analysis.facts import Facts, OpCall
from qlsp.values.value import Choice, Tensor, TupleValue, Value, exclusive

DEPTH = 12


@dataclass(frozen=True)
class Sources:
    """The sources of the tensors of one context: an input, or what computes a tensor from such sources.

    Slices, chunks and time steps of one tensor have one source, and so has what one module computes from them.
    """

    facts: Facts

    @cached_property
    def _producers(self) -> dict[int, OpCall]:
        """The first call that gives a value of a number."""
        found: dict[int, OpCall] = {}
        for call in self.facts.op_calls.values():
            for alternative in call.alternatives:
                for tensor in tensors_of(alternative.output):
                    found.setdefault(tensor.number, call)
        return found

    @cached_property
    def _operands(self) -> list[Tensor]:
        values = (o.value for c in self.facts.op_calls.values() for a in c.alternatives for o in a.operands)
        return [value for value in values if isinstance(value, Tensor)]

    @cached_property
    def _members(self) -> frozenset[int]:
        """The members of inputs that may be lists of tensors."""
        return frozenset(value.number for value in self._operands if value.collection and value.number != value.base)

    @cached_property
    def _many(self) -> frozenset[int]:
        """Values that stand for several tensors themselves, not for the parts of one."""
        return frozenset(value.base for value in self._operands if value.many and value.number == value.base)

    def of(self, call: OpCall) -> frozenset[Hashable]:
        """The sources of a call's first operand, one for each alternative."""
        values = (alternative.operands[0].value for alternative in call.alternatives if alternative.operands)
        return frozenset(self._source(value, DEPTH) for value in values if isinstance(value, Tensor))

    def many(self, call: OpCall) -> bool:
        """Does a call in a loop of unknown length certainly see tensors of several sources?"""
        values = [alternative.operands[0].value for alternative in call.alternatives if alternative.operands]
        tensors = [value for value in values if isinstance(value, Tensor)]
        if not call.loop or not tensors:
            return False
        if all(tensor.many and tensor.base in self._many for tensor in tensors):
            return True
        images = call.spec.op.startswith("conv2d")
        if images and all(tensor.number in self._members for tensor in tensors):
            return True
        return self._differs_by_pass(call)

    def _differs_by_pass(self, call: OpCall) -> bool:
        """A tensor that a pass hands to the next one: alternatives of different scales, no branch between them."""
        found = [
            (alternative.guard, value.qparams)
            for alternative in call.alternatives
            if alternative.operands and isinstance(value := alternative.operands[0].value, Tensor)
        ]
        return any(
            qparams != other and not exclusive(guard, others)
            for number, (guard, qparams) in enumerate(found)
            for others, other in found[:number]
        )

    def _source(self, tensor: Tensor, depth: int) -> Hashable:
        producer = self._producers.get(tensor.base)
        if producer is None or depth == 0:
            return tensor.base
        own = producer.owner if producer.spec.weights or producer.spec.observed else None
        operands = producer.alternatives[0].operands
        values = [operand.value for operand in operands]
        if not values or not all(isinstance(value, Tensor) and value.base != tensor.base for value in values):
            return tensor.base
        inner = tuple(self._source(value, depth - 1) for value in values if isinstance(value, Tensor))
        return (producer.spec.op, own, producer.arguments, inner)


def tensors_of(value: Value) -> list[Tensor]:
    """The tensors in a value, through alternatives and tuples."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Choice):
        return [tensor for _, option in value.options for tensor in tensors_of(option)]
    if isinstance(value, TupleValue):
        return [tensor for item in value.items for tensor in tensors_of(item)]
    return []
