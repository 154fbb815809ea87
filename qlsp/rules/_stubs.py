"""QuantStubs that are called on several tensors in one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qlsp.analysis.facts import OpCall
from qlsp.analysis.scales import terminal_consumers
from qlsp.diagnostics import Fix, Message, NoFix
from qlsp.ops.spec import Role
from qlsp.rules._cats import join_cats
from qlsp.rules._rewrites import (
    QUANT_STUB,
    Doubts,
    doubt_the_class,
    one_for_each_pass,
    require_converted_receiver,
    require_eager,
    require_one_call,
    require_stub_call,
    uses,
)
from qlsp.rules.api import RuleContext
from qlsp.values.value import Domain, Tensor, Unknown, exclusive


@dataclass(frozen=True, slots=True)
class Reuse:
    """A stub with several tensors. ``calls`` are those on another tensor, each with an earlier one, or with itself
    where a loop calls it on several; ``cat`` is the concatenation that is all that becomes of the results."""

    owner: int
    calls: tuple[tuple[OpCall, OpCall], ...]
    cat: OpCall | None


def reused(ctx: RuleContext) -> Iterator[Reuse]:
    """The stubs of a context that see several float tensors in one run."""
    by_stub: dict[int, list[OpCall]] = {}
    for call in ctx.facts.op_calls.values():
        if call.spec.role is Role.QUANTIZE and call.converted and call.owner is not None and _usable(call):
            by_stub.setdefault(call.owner, []).append(call)
    for owner, calls in by_stub.items():
        found = tuple(_pairs(ctx, calls))
        if found:
            yield Reuse(owner, found, _cat(ctx, calls))


def _pairs(ctx: RuleContext, calls: list[OpCall]) -> Iterator[tuple[OpCall, OpCall]]:
    for number, call in enumerate(calls):
        earlier = [
            other
            for other in calls[:number]
            if not exclusive(other.guard, call.guard) and not _bases(other) & _bases(call)
        ]
        if earlier:
            yield call, earlier[0]
        elif _many(ctx, call):
            yield call, call


def _cat(ctx: RuleContext, calls: list[OpCall]) -> OpCall | None:
    """The one concatenation that all of the stub's outputs go to and nothing else."""
    consumers = [consumer for call in calls for consumer in terminal_consumers(ctx.facts, call)]
    spans = {(consumer.span, consumer.path) for consumer in consumers}
    return consumers[0] if len(spans) == 1 and consumers[0].spec.role is Role.CAT else None


def _inputs(call: OpCall) -> list[Tensor | Unknown]:
    return [alternative.operands[0].value for alternative in call.alternatives]


def _usable(call: OpCall) -> bool:
    """A float input, or the result of an unknown function: float or not, another call is another tensor."""
    return all(_called(v) if isinstance(v, Unknown) else v.domain is Domain.FLOAT for v in _inputs(call))


def _called(value: Unknown) -> bool:
    return value.symbol is not None and value.symbol[0] == "call"


def _bases(call: OpCall) -> set[object]:
    """The tensors a call may see, slices counted as what they are slices of."""
    return {v.base if isinstance(v, Tensor) else v.symbol for v in _inputs(call)}


def _many(ctx: RuleContext, call: OpCall) -> bool:
    """A call in a loop over a list of tensors sees several of them."""
    inputs = _inputs(call)
    if not call.loop:
        return False
    if all(isinstance(v, Tensor) and v.many for v in inputs):
        return True
    iterated = all(isinstance(v, Tensor) and v.collection and v.number != v.base for v in inputs)
    return iterated and _feeds_images(ctx, call)


def _feeds_images(ctx: RuleContext, call: OpCall) -> bool:
    """The members go into 2d convolutions, which take batches only: the input is a list, not one tensor."""
    for other in ctx.facts.op_calls.values():
        if not other.spec.op.startswith("conv2d"):
            continue
        for alternative in other.alternatives:
            value = alternative.operands[0].value
            origin = value.origin if isinstance(value, Tensor) else None
            if origin is not None and origin.span == call.span:
                return True
    return False


def own_stub(ctx: RuleContext, call: OpCall) -> Fix:
    """A stub of its own for a call, and an observer for the concatenations that this would tear."""
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    doubt_the_class(edit, method, doubts)
    for facts, use in uses(ctx, call.span):
        stub, owner = facts.submodules.get(use.owner or 0), facts.submodules.get(use.receiver or 0)
        if stub is None or owner is None or stub.qconfig != owner.qconfig:
            raise NoFix("a stub with a qconfig of its own")
    site = edit.call(call.span)
    if len(site.arguments) != 1 or site.arguments[0].star:
        raise NoFix("a stub call with other than one argument")
    value = site.arguments[0].value.name
    attribute = (site.spelling or "quant").rpartition(".")[2]
    if edit.repeats(call.span):
        require_stub_call(ctx, edit, call.span)
        edit.replace(site.function, one_for_each_pass(ctx, edit, call.span, attribute, QUANT_STUB))
        doubts.add(Message.of("fix-doubt-passes"))
        join_cats(ctx, edit, call, doubts)
        return doubts.fix(edit, Message.of("fix-stub-for-each-pass"), Message.of("fix-own-stub-reason"))
    require_one_call(ctx, call.span)
    hint = f"{attribute}_{value}" if value is not None and "." not in value else attribute
    name = edit.add_submodule(call.span, hint, QUANT_STUB, near=attribute)
    joins = join_cats(ctx, edit, call, doubts)
    edit.replace(site.function, f"{method.receiver}.{name}")
    title = "fix-own-stub-and-join" if joins else "fix-own-stub"
    return doubts.fix(edit, Message.of(title, stub=name), Message.of("fix-own-stub-reason"))
