"""One QuantStub quantizes several different float tensors in one run.

## What it does
Flags the second and every later call of one QuantStub instance on another float tensor: other inputs, members of
`*args` or of a list in a loop, a tensor that comes back from a float island.

## Why it matters
A stub has one observer, and after convert one scale. It has to cover the widest of the tensors, so the narrow
ones are left with a few of the 256 codes. Nothing warns. Measured with torch 2.13.0 (x86 qconfig), SQNR of the
narrow tensor in dB:

| ratio of the ranges | one stub | a stub each |
|---|---|---|
| 1 | 32.0 | 32.1 |
| 3 | 25.6 | 32.1 |
| 10 | 15.8 | 32.1 |
| 100 | 0.4 | 32.1 |

In quantization-aware training the moving average of the ranges clips the wide tensor as well: at a ratio of 10
it falls from 32.2 to 17.9 dB.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.image = nn.Linear(8, 4)
            self.speed = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, image, speed):
            image = self.image(self.quant(image))
            speed = self.speed(self.quant(speed))  # QL201
            return self.dequant(image), self.dequant(speed)

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.quant_speed = QuantStub()
            self.image = nn.Linear(8, 4)
            self.speed = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, image, speed):
            image = self.image(self.quant(image))
            speed = self.speed(self.quant_speed(speed))
            return self.dequant(image), self.dequant(speed)

## Fix safety
Safe: the call gets a stub of its own, made like the first one; the float model stays the same to the bit. Where the
tensors later meet in a concatenation that shared the stub's scale, the concatenation becomes one with an observer in
the same fix, or moves before the stub if all its inputs are bare stub outputs. In a loop of known length every pass
gets a stub, which is unsafe: a longer loop would be cut off. There is no fix for a block or a helper that is called
several times, nor for a loop of unknown length.

## When it is silent
Calls that exclude each other (two arms of an `if`, an early return), the same tensor twice, slices, chunks and time
steps of one tensor. Tensors that only meet in one concatenation need one scale: after calibration that is
right, so it is silent for post-training quantization and a hint where the mode is not known (concatenate the float
tensors first, then quantize once: right in both modes).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from qlsp.analysis.facts import Mode, OpCall, Workflow
from qlsp.analysis.scales import terminal_consumers
from qlsp.diagnostics import Fix, Message, NoFix, Severity
from qlsp.ops.spec import Role
from qlsp.rules._rewrites import (
    QUANT_STUB,
    Doubts,
    call_of,
    doubt_the_class,
    join_cats,
    one_for_each_pass,
    raw_cats,
    require_converted_receiver,
    require_eager,
    require_one_call,
    require_stub_call,
    uses,
    with_one_stub,
)
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor, Unknown, exclusive

META = RuleMeta(code="QL201", name="quantstub-reused", severity=Severity.WARNING, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call of a stub on another float tensor than its first."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    by_stub: dict[int, list[OpCall]] = {}
    for call in ctx.facts.op_calls.values():
        if call.spec.role is Role.QUANTIZE and call.converted and call.owner is not None and _usable(call):
            by_stub.setdefault(call.owner, []).append(call)
    for owner, calls in by_stub.items():
        yield from _reuse(ctx, owner, calls)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A stub for this tensor; where all tensors meet in one concatenation, one stub behind it."""
    call = call_of(ctx, finding.subject)
    cats = raw_cats(ctx.facts, call)
    joined = [partial(with_one_stub, ctx, cat) for cat in cats[:1]] if len(cats) == 1 else []
    yield from attempts(*joined, lambda: _own_stub(ctx, call))


def _own_stub(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, call.span)
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


def _reuse(ctx: RuleContext, owner: int, calls: list[OpCall]) -> Iterator[Finding]:
    reported = []
    for number, call in enumerate(calls):
        earlier = [
            other
            for other in calls[:number]
            if not exclusive(other.guard, call.guard) and not _bases(other) & _bases(call)
        ]
        if earlier:
            reported.append((call, earlier[0]))
        elif _many(ctx, call):
            reported.append((call, call))
    if not reported:
        return
    meets = _meet_in_one_cat(ctx, calls)
    if meets and ctx.facts.context.mode is not Mode.UNKNOWN:
        return
    submodule = ctx.facts.submodules.get(owner)
    stub = submodule.path if submodule is not None else "QuantStub"
    for call, first in reported:
        other = "the other members of the list" if first is call else "its first use"
        id = "quantstub-reused-meets-cat" if meets else "quantstub-reused"
        related = () if first.span == call.span else (Note(Message.of("quantstub-first-use", stub=stub), first.span),)
        severity = Severity.INFO if meets else None
        message = Message.of(id, stub=stub, first=other)
        subject = (call.span, call.path)
        yield Finding(call.span, message, severity, assumes=assumption(ctx), related=related, subject=subject)


def _meet_in_one_cat(ctx: RuleContext, calls: list[OpCall]) -> bool:
    """True if all that becomes of the stub's outputs is one concatenation."""
    consumers = [consumer for call in calls for consumer in terminal_consumers(ctx.facts, call)]
    spans = {(consumer.span, consumer.path) for consumer in consumers}
    return len(spans) == 1 and consumers[0].spec.role is Role.CAT
