"""One FloatFunctional serves several operations in one run.

## What it does
Flags the second and every later operation of one FloatFunctional: at another place, in another pass of a loop, in
another call of the block that holds it.

## Why it matters
A FloatFunctional has one observer, and after convert one scale. It has to cover the widest of the results, so the
narrow ones are left with a few of the 256 codes. Nothing warns. Measured with torch 2.13.0 (x86 qconfig), SQNR of
the narrow sum in dB:

| ratio of the ranges | one FloatFunctional | one each |
|---|---|---|
| 1 | 32.8 | 32.7 |
| 3 | 26.4 | 32.7 |
| 10 | 16.3 | 32.7 |
| 100 | 0.2 | 32.7 |

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(4, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.add = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            x = self.add.add(x, self.first(x))
            x = self.add.add(x, self.second(x))  # QL404
            return self.dequant(x)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(4, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.add = FloatFunctional()
            self.add_2 = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            x = self.add.add(x, self.first(x))
            x = self.add_2.add(x, self.second(x))
            return self.dequant(x)

## Fix safety
Safe: the call gets a FloatFunctional of its own; the float model stays the same to the bit. In a loop of known length
every pass gets one, which is unsafe: a longer loop would be cut off. There is no fix for a loop of unknown length,
nor for a block or a helper that is called several times.

## When it is silent
Calls that exclude each other (two arms of an `if`, a flag of the constructor), the same operation on the same tensors,
`add_scalar` and `mul_scalar`, which have no observer. A concatenation that only feeds the next one of the same
FloatFunctional: after calibration, the range of the last one is that of all (in quantization-aware training the moving
average falls between them, and it is reported). Behind a DeQuantStub, where `functional-on-float` reports. Where a
block with weights is called several times on purpose, as in a siamese network, it is a hint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, Mode, OpCall, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Severity
from qlsp.ops.spec import Role
from qlsp.rules._cats import join_cats
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._functionals import aliased_at, functional_at
from qlsp.rules._rewrites import (
    FLOAT_FUNCTIONAL,
    Doubts,
    call_of,
    consumers,
    doubt_the_class,
    one_for_each_pass,
    require_converted_receiver,
    require_eager,
    require_one_call,
    uses,
)
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import NO_GUARD, Choice, SpanId, Tensor, TupleValue, Value, exclusive

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(code="QL404", name="functional-reused", severity=Severity.WARNING, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every observed operation of a FloatFunctional but its first."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    by_owner: dict[int, list[OpCall]] = {}
    for call in ctx.facts.op_calls.values():
        if call.owner is not None and _counts(ctx.facts, call):
            by_owner.setdefault(call.owner, []).append(call)
    for owner, calls in by_owner.items():
        if ctx.facts.context.mode is Mode.QAT or not _one_growing_cat(ctx.facts, calls):
            yield from _reuse(ctx, owner, calls)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A FloatFunctional for this operation."""
    call = call_of(ctx, finding.subject)
    places = (functional_at, aliased_at)
    yield from attempts(*(partial(_own_functional, ctx, call, place) for place in places))


def _own_functional(
    ctx: RuleContext, call: OpCall, place: Callable[[RuleContext, EditBuilder, SpanId], tuple[str, str]]
) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    doubt_the_class(edit, method, doubts)
    attribute, operation = place(ctx, edit, call.span)
    for facts, use in uses(ctx, call.span):
        own, holder = facts.submodules[use.owner or 0], facts.submodules[use.receiver or 0]
        if own.qconfig != holder.qconfig:
            raise NoFix("a FloatFunctional with a qconfig of its own")
    function = edit.call(call.span).function
    if edit.repeats(call.span):
        if place is aliased_at:
            raise NoFix("a name for a FloatFunctional in a loop")
        functional = one_for_each_pass(ctx, edit, call.span, attribute, FLOAT_FUNCTIONAL)
        edit.replace(function, f"{functional}.{operation}")
        edit.remove_submodule(method.cls, attribute)
        doubts.add(Message.of("fix-doubt-passes"))
        join_cats(ctx, edit, call, doubts)
        return doubts.fix(edit, Message.of("fix-functional-for-each-pass"), Message.of("fix-own-functional-reason"))
    require_one_call(ctx, call.span)
    name = edit.add_submodule(call.span, attribute, FLOAT_FUNCTIONAL, near=attribute)
    join_cats(ctx, edit, call, doubts)
    edit.replace(function, f"{method.receiver}.{name}.{operation}")
    title = Message.of("fix-own-functional", functional=name)
    return doubts.fix(edit, title, Message.of("fix-own-functional-reason"))


def _counts(facts: Facts, call: OpCall) -> bool:
    """An operation with an observer, of one FloatFunctional that is certain, that stays one in the fixed model."""
    owner = facts.submodules.get(call.owner or 0)
    if not call.converted or not call.spec.functionals or not call.spec.observed:
        return False
    if owner is None or owner.cls != FLOAT_FUNCTIONAL or owner.several:
        return False
    one_of_some = bool(call.path) and call.path[-1][0] == call.span
    return not one_of_some and cause_of(call) is not Cause.FUNCTIONAL_ON_FLOAT


def _one_growing_cat(facts: Facts, calls: list[OpCall]) -> bool:
    """Concatenations each of which only feeds the next."""
    if any(call.spec.role is not Role.CAT for call in calls):
        return False
    for number, call in enumerate(calls):
        after = [each for each in consumers(facts, call) if not call.loop or each.loop]
        if call.loop:
            after = [each for each in after if each is not call]
        if number < len(calls) - 1 and after != [calls[number + 1]] or call.loop and after:
            return False
    return True


def _reuse(ctx: RuleContext, owner: int, calls: list[OpCall]) -> Iterator[Finding]:
    functional = ctx.facts.submodules[owner].path
    for number, call in enumerate(calls):
        earlier = [each for each in calls[:number] if not exclusive(each.guard, call.guard) and not _same(each, call)]
        if not earlier and not _changes(call):
            continue
        first = earlier[0] if earlier else call
        other = "its first use" if first.span != call.span else "an earlier pass or call"
        note = Note(Message.of("functional-first-use", functional=functional), first.span)
        message = Message.of("functional-reused", functional=functional, first=other)
        severity = Severity.INFO if _shared_block(ctx.facts, first, call) else None
        related = (note,) if first.span != call.span else ()
        subject = (call.span, call.path)
        yield Finding(call.span, message, severity, assumes=assumption(ctx), related=related, subject=subject)


def _numbers(call: OpCall) -> set[int]:
    values: list[Value] = [alternative.output for alternative in call.alternatives]
    found: set[int] = set()
    while values:
        match values.pop():
            case Tensor() as tensor:
                found.add(tensor.number)
            case Choice() as merged:
                values.extend(option for _, option in merged.options)
            case TupleValue() as several:
                values.extend(several.items)
            case _:
                pass
    return found


def _same(one: OpCall, other: OpCall) -> bool:
    """Two calls with one result: the observer sees it twice."""
    return bool(_numbers(one) & _numbers(other))


def _changes(call: OpCall) -> bool:
    """A call in a loop of unknown length whose operands are others in every pass."""
    if not call.loop:
        return False
    ways = set()
    for each in call.alternatives:
        tensors = [operand.value for operand in each.operands if isinstance(operand.value, Tensor)]
        if any(tensor.many for tensor in tensors):
            return True
        if each.guard == NO_GUARD:
            ways.add(tuple((tensor.origin, tensor.number) for tensor in tensors))
    return len(ways) > 1


def _shared_block(facts: Facts, first: OpCall, call: OpCall) -> bool:
    """A block with weights is called several times: its FloatFunctionals are shared with its weights."""
    if first.span != call.span or first is call:
        return False
    start = next((n for n, pair in enumerate(zip(first.path, call.path, strict=False)) if pair[0] != pair[1]), 0)
    if not any(step[1] == -1 for step in call.path[start:]):
        return False
    block = facts.submodules[call.owner or 0].path.rpartition(".")[0]
    weighted = [other.owner for other in facts.op_calls.values() if other.spec.weights and other.owner is not None]
    names = {owner: facts.submodules[owner].path for owner in weighted if owner in facts.submodules}
    inside = Counter(owner for owner in weighted if names.get(owner, "").startswith(block))
    return max(inside.values(), default=0) > 1
