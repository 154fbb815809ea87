"""A sum and the ReLU behind it, which a FloatFunctional does in one operation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, OpCall
from qlsp.diagnostics import NoFix
from qlsp.rules._rewrites import consumers, uses
from qlsp.rules.api import RuleContext
from qlsp.values.value import SpanId, Tensor, options_of

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder


FREED = ("QL503",)
"""What shows where a ReLU module loses all its uses but one: it can be fused."""


def lone_relu(facts: Facts, add: OpCall) -> OpCall | None:
    """The ReLU that follows a sum on every path, if nothing else does."""
    after = list(consumers(facts, add))
    relu = after[0] if len(after) == 1 else None
    if relu is None or relu.spec.op != "relu" or not relu.guard <= add.guard or relu.loop != add.loop:
        return None
    made = {each.output.number for each in add.alternatives if isinstance(each.output, Tensor)}
    seen = {each.operands[0].value.number for each in relu.alternatives if isinstance(each.operands[0].value, Tensor)}
    returned = {
        (option.number, option.origin)
        for each in facts.returns
        for _, option in options_of(each.value)
        if isinstance(option, Tensor)
    }
    own = {(each.output.number, each.output.origin) for each in add.alternatives if isinstance(each.output, Tensor)}
    return relu if made == seen and not own & returned else None


def named_in_a_string(ctx: RuleContext, edit: EditBuilder, relu: OpCall) -> bool:
    """Does a string of the file name the ReLU module, as a list of modules to fuse does?"""
    owner = ctx.facts.submodules.get(relu.owner or 0)
    if owner is None:
        return False
    name = re.escape(owner.path.rpartition(".")[2])
    return edit.file_matches(relu.span.path, re.compile(rf"[\"'](?:[^\"'\n]*\.)?{name}[\"']"))


def kept(edit: EditBuilder, relu: OpCall) -> bool:
    """Does code in view name the attribute of a ReLU module for another purpose than to call it or to make it?"""
    if relu.owner is None:
        return False
    try:
        return edit.names(edit.method(relu.span).cls, edit.receiver_attribute(relu.span))
    except NoFix:
        return False


def summed(ctx: RuleContext, edit: EditBuilder, add: OpCall, span: SpanId) -> SpanId:
    """The operand of a ReLU call, which is the sum and nothing else in every context, and which only it reads."""
    for facts, use in uses(ctx, add.span):
        if any(consumer.span != span for consumer in consumers(facts, use)):
            raise NoFix("something else uses the sum")
    producers = {(facts.context, each.path) for facts, each in uses(ctx, add.span)}
    if any((facts.context, each.path) not in producers for facts, each in uses(ctx, span)):
        raise NoFix("the ReLU also gets something else")
    operand = next(iter(uses(ctx, span)))[1].alternatives[0].operands[0].span
    if operand is None or not edit.feeds_only(add.span, span, edit.expression(operand)):
        raise NoFix("the sum is read elsewhere")
    return operand
