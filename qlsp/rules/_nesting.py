"""Calls inside the expression of another call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qlsp.analysis.facts import OpCall
from qlsp.rules.api import RuleContext
from qlsp.values.value import SpanId


def outermost(ctx: RuleContext, calls: Sequence[OpCall]) -> Iterator[OpCall]:
    """The calls that are no operand of another one, directly or through calls of other operators."""
    inner: set[tuple[object, ...]] = set()
    for call in calls:
        inner.update(_inside(ctx, call))
    for call in calls:
        if (call.span, call.path) not in inner:
            yield call


def _inside(ctx: RuleContext, call: OpCall) -> Iterator[tuple[object, ...]]:
    """The keys of the calls that are operands of a call, and their operands."""
    frontier, seen = [call], {call.span}
    while frontier:
        for span in _operands(frontier.pop()):
            key = (span, call.path)
            if span in seen:
                continue
            seen.add(span)
            operand = ctx.facts.op_calls.get(key)
            if operand is not None:
                yield key
                frontier.append(operand)


def _operands(call: OpCall) -> set[SpanId]:
    return {
        operand.span
        for alternative in call.alternatives
        for operand in alternative.operands
        if operand.span is not None
    }
