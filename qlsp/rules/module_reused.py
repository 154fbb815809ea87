"""A module with an observer is called on several different tensors in one run.

## What it does
Flags the second and every later call of one module that has an observer of its own (LeakyReLU, Hardswish, ELU,
a normalization, a Linear, a Conv) on another quantized tensor: several sites, passes of a loop, a block that is
called twice. A warning for modules without weights, a hint for modules with weights, which are often shared on
purpose (heads over feature levels, siamese branches).

## Why it matters
The module has one observer, and after convert one output scale. It has to cover the widest of its results, so the
narrow ones are left with a few of the 256 codes. Nothing warns. Measured with torch 2.13.0 (x86 qconfig), SQNR of the
narrow tensor in dB, for a LeakyReLU that is called behind two convolutions:

| ratio of the ranges | one module | a module each |
|---|---|---|
| 1 | 30.3 | 30.6 |
| 3 | 25.2 | 30.6 |
| 10 | 16.5 | 30.6 |
| 100 | 0.7 | 30.6 |

A Linear that is called on inputs of ratio 100 gives 13.0 against 41.1 dB.

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.a = nn.Conv2d(3, 8, 3)
            self.b = nn.Conv2d(8, 8, 3)
            self.act = nn.LeakyReLU(0.1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.act(self.a(self.quant(x)))
            x = self.act(self.b(x))  # QL501
            return self.dequant(x)

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.a = nn.Conv2d(3, 8, 3)
            self.b = nn.Conv2d(8, 8, 3)
            self.act_a = nn.LeakyReLU(0.1)
            self.act_b = nn.LeakyReLU(0.1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.act_a(self.a(self.quant(x)))
            x = self.act_b(self.b(x))
            return self.dequant(x)

## Fix safety
Unsafe: the call, or each pass of a loop of known length, gets a module of its own, made by the same constructor call.
The float output stays the same; code that looks a module up by its name or counts modules sees one more, and prepared
checkpoints get new keys. There is no fix for a module with weights: its own weights would be another model.

## When it is silent
Modules without an observer (ReLU, pooling, Dropout), or whose quantized class keeps the input's scale (ReLU6). Calls
that exclude each other, calls on the same tensor, and slices, chunks or time steps of one tensor. Stubs and
FloatFunctionals have rules of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.ops.spec import Observation
from qlsp.rules._cats import join_cats
from qlsp.rules._rewrites import (
    Doubts,
    call_of,
    doubt_the_class,
    one_for_each_pass,
    require_converted_receiver,
    require_eager,
    require_one_call,
    uses,
)
from qlsp.rules._sources import Sources
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor, exclusive

META = RuleMeta(code="QL501", name="module-reused", severity=Severity.WARNING, since="0.1", fix="unsafe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call of an observed module on another tensor than its first."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    calls: dict[int, list[OpCall]] = {}
    for call in ctx.facts.op_calls.values():
        if call.owner is not None and _observed(call):
            calls.setdefault(call.owner, []).append(call)
    sources = Sources(ctx.facts)
    for owner, group in calls.items():
        yield from _reuse(ctx, sources, owner, group)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A module of its own for this call, if it has no weights."""
    call = call_of(ctx, finding.subject)
    if not call.spec.weights:
        yield from attempts(lambda: _own_module(ctx, call))


def _observed(call: OpCall) -> bool:
    """A call whose result gets its scale from the module's own observer, certainly on quantized tensors."""
    spec = call.spec
    if not (call.converted and spec.observed and spec.observation is Observation.OWN and spec.modules):
        return False
    if spec.role is not None:
        return False
    values = [operand.value for alternative in call.alternatives for operand in alternative.operands]
    return all(isinstance(value, Tensor) and value.domain is Domain.QUANTIZED for value in values)


def _reuse(ctx: RuleContext, sources: Sources, owner: int, calls: list[OpCall]) -> Iterator[Finding]:
    submodule = ctx.facts.submodules.get(owner)
    if submodule is not None and submodule.several:
        return
    name = submodule.path if submodule is not None else calls[0].spelling.rpartition(".")[2]
    reported = set()
    for number, call in enumerate(calls):
        if call.span in reported:
            continue
        first = next((other for other in calls[:number] if _differ(sources, other, call)), None)
        if first is None and not sources.many(call):
            continue
        reported.add(call.span)
        weights = call.spec.weights
        message = Message.of("module-reused-weights" if weights else "module-reused", module=name)
        related: tuple[Note, ...] = ()
        if first is not None and first.span != call.span:
            related = (Note(Message.of("module-first-use", module=name), first.span),)
        yield Finding(
            call.span,
            message,
            Severity.INFO if weights else None,
            assumes=assumption(ctx),
            related=related,
            subject=(call.span, call.path),
        )


def _differ(sources: Sources, first: OpCall, second: OpCall) -> bool:
    return not exclusive(first.guard, second.guard) and not sources.of(first) & sources.of(second)


def _own_module(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    doubt_the_class(edit, method, doubts)
    for facts, use in uses(ctx, call.span):
        module, owner = facts.submodules.get(use.owner or 0), facts.submodules.get(use.receiver or 0)
        if module is None or owner is None or module.qconfig != owner.qconfig:
            raise NoFix("a module with a qconfig of its own")
    attribute = edit.receiver_attribute(call.span)
    constructor = edit.constructor(method.cls, attribute)
    if not isinstance(ast.parse(constructor, mode="eval").body, ast.Call):
        raise NoFix("a module that is made elsewhere")
    if edit.repeats(call.span):
        each = one_for_each_pass(ctx, edit, call.span, attribute, "", constructor)
        edit.remove_submodule(method.cls, attribute)
        join_cats(ctx, edit, call, doubts)
        edit.replace(edit.call(call.span).function, each)
        return edit.fix(Message.of("fix-module-for-each-pass"), Message.of("fix-doubt-passes"), Applicability.UNSAFE)
    require_one_call(ctx, call.span)
    name = edit.add_line(call.span, attribute, constructor, near=attribute)
    join_cats(ctx, edit, call, doubts)
    edit.replace(edit.call(call.span).function, f"{method.receiver}.{name}")
    reason = doubts.reasons[0] if doubts.reasons else Message.of("fix-own-module-reason")
    return edit.fix(Message.of("fix-own-module", module=name), reason, Applicability.UNSAFE)
