"""In quantization-aware training one moving-average observer serves the inputs of a concatenation.

## What it does
Flags a concatenation of a model for quantization-aware training whose inputs all pass one fake-quantize module: one
QuantStub that is called on several inputs, or modules whose `activation_post_process` code in view ties after
prepare_qat.

## Why it matters
After calibration one observer is right here, since it keeps the widest range it has seen. The default fake-quantize
modules of training keep a moving average of the ranges instead: with tensors of different range it settles between
them, and clips the wide one. Nothing warns. Measured with torch 2.13.0 (x86 qconfig, two inputs, 400 batches), SQNR
of the whole concatenation in dB:

| ratio of the ranges | one stub on each input | one stub behind the concatenation |
|---|---|---|
| 1 | 35.5 | 35.7 |
| 3 | 25.7 | 34.2 |
| 10 | 20.2 | 33.8 |

## Bad
    import torch
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = tq.QuantStub()
            self.conv = nn.Conv2d(8, 4, 1)
            self.dequant = tq.DeQuantStub()

        def forward(self, near, far):
            x = torch.cat([self.quant(near), self.quant(far)], dim=1)  # QL104
            return self.dequant(self.conv(x))


    net = Net().train()
    net.qconfig = tq.get_default_qat_qconfig("x86")
    net = tq.prepare_qat(net)

## Good
    import torch
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = tq.QuantStub()
            self.conv = nn.Conv2d(8, 4, 1)
            self.dequant = tq.DeQuantStub()

        def forward(self, near, far):
            x = self.quant(torch.cat([near, far], dim=1))
            return self.dequant(self.conv(x))


    net = Net().train()
    net.qconfig = tq.get_default_qat_qconfig("x86")
    net = tq.prepare_qat(net)

## Fix safety
Unsafe, since a model that was trained with the old observers has to be trained again: concatenate the float tensors
and quantize once; or a stub for each of two inputs and a FloatFunctional for the concatenation. The float output stays
the same to the bit.

## When it is silent
After calibration, and where the mode is not known (there `quantstub-reused` gives a hint). A qconfig that is built by
hand, whose observer may keep the maximum. The same tensor twice, slices of one tensor, inputs that exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from qlsp.analysis.facts import Mode, OpCall, Submodule, Workflow
from qlsp.analysis.scales import Scales, is_cat
from qlsp.diagnostics import Applicability, Fix, Message, Severity
from qlsp.rules._one_scale import with_one_stub
from qlsp.rules._rewrites import call_of
from qlsp.rules._stubs import own_stub, reused
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.qparams import ObservedScale
from qlsp.values.value import Tensor, Unknown

META = RuleMeta(
    code="QL104", name="shared-observer-averages", severity=Severity.WARNING, since="0.1", fix="unsafe"
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every concatenation whose inputs share a moving average."""
    context = ctx.facts.context
    if context.workflow is not Workflow.EAGER or context.mode is not Mode.QAT:
        return
    for reuse in reused(ctx):
        stub = ctx.facts.submodules.get(reuse.owner)
        if reuse.cat is not None and _averages(stub):
            call, first = reuse.calls[0]
            path = stub.path if stub is not None else "QuantStub"
            notes = [Note(Message.of("averages-call", stub=path), each.span) for each in (first, call)]
            message = Message.of("shared-observer-averages", observer=f"the stub `{path}`")
            yield _finding(ctx, reuse.cat, message, notes if first is not call else notes[:1], call)
    if ctx.facts.ties:
        scales = Scales(ctx.facts)
        for call in ctx.facts.op_calls.values():
            owners = _tied(ctx, call)
            if len(owners) > 1 and is_cat(call) and scales.verdict(call).outcome == "same":
                names = ", ".join(f"`{owner.path}`" for owner in owners)
                message = Message.of("shared-observer-averages", observer=f"the tied observer of {names}")
                yield _finding(ctx, call, message, [], None)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """One stub behind the concatenation, else a stub each and an observer for the result."""
    assert isinstance(finding.subject, tuple)
    cat, stub_call = finding.subject
    if stub_call is None:
        return
    one = next(reuse for reuse in reused(ctx) if reuse.cat is not None and (reuse.cat.span, reuse.cat.path) == cat)
    rewrites: list[Callable[[], Fix]] = [lambda: with_one_stub(ctx, call_of(ctx, cat))]
    if len(one.calls) == 1:
        rewrites.append(lambda: own_stub(ctx, call_of(ctx, stub_call)))
    reason = Message.of("fix-averages-reason")
    for each in attempts(*rewrites):
        yield replace(each, applicability=Applicability.UNSAFE, reason=reason)


def _averages(module: Submodule | None) -> bool:
    """False for a qconfig that is built by hand: its observer need not be a moving average."""
    qconfig = module.qconfig if module is not None else None
    if not isinstance(qconfig, Unknown) or qconfig.symbol is None or qconfig.symbol[0] != "qconfig":
        return True
    made = qconfig.symbol[1]
    return not (isinstance(made, tuple) and str(made[0]).endswith(".QConfig"))


def _tied(ctx: RuleContext, call: OpCall) -> list[Submodule]:
    """The modules with one tied observer that make the inputs of a call."""
    found: dict[int, object] = {}
    for alternative in call.alternatives:
        for operand in alternative.operands:
            value = operand.value
            scale = value.qparams.scale if isinstance(value, Tensor) and value.qparams is not None else None
            if isinstance(scale, ObservedScale):
                found[scale.observer.owner] = ctx.facts.ties.get(scale.observer.owner)
    keys = set(found.values())
    modules = [module for owner in found if (module := ctx.facts.submodules.get(owner)) is not None]
    return modules if len(keys) == 1 and None not in keys and all(map(_averages, modules)) else []


def _finding(ctx: RuleContext, cat: OpCall, message: Message, notes: list[Note], stub: OpCall | None) -> Finding:
    subject = ((cat.span, cat.path), (stub.span, stub.path) if stub is not None else None)
    return Finding(cat.span, message, assumes=assumption(ctx), related=tuple(notes), subject=subject)
