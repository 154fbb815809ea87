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
gets a stub, which is unsafe: a longer loop would be cut off.

There is no fix where the number of tensors comes from the caller (`*args`, a list or dict that is a parameter, `map`
over one): no list of stubs has the right length. Nor is there one for a block, a helper method or a function that is
called several times: the stub would have to be a parameter of it, and every caller, in view or not, would have to
pass one. Build a block per tensor, or quantize before the call.

## When it is silent
Calls that exclude each other (two arms of an `if`, an early return), the same tensor twice, slices, chunks and time
steps of one tensor. Tensors that only meet in one concatenation need one scale: after calibration that is
right, so it is silent for post-training quantization and a hint where the mode is not known (concatenate the float
tensors first, then quantize once: right in both modes).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from qlsp.analysis.facts import Mode, Workflow
from qlsp.diagnostics import Fix, Message, Severity
from qlsp.rules._cats import raw_cats
from qlsp.rules._one_scale import with_one_stub
from qlsp.rules._rewrites import call_of
from qlsp.rules._stubs import Reuse, own_stub, reused
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts

META = RuleMeta(code="QL201", name="quantstub-reused", severity=Severity.WARNING, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call of a stub on another float tensor than its first."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for reuse in reused(ctx):
        if reuse.cat is None or ctx.facts.context.mode is Mode.UNKNOWN:
            yield from _findings(ctx, reuse)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A stub for this tensor; where all tensors meet in one concatenation, one stub behind it."""
    call = call_of(ctx, finding.subject)
    cats = raw_cats(ctx.facts, call)
    joined = [partial(with_one_stub, ctx, cat) for cat in cats[:1]] if len(cats) == 1 else []
    yield from attempts(*joined, lambda: own_stub(ctx, call))


def _findings(ctx: RuleContext, reuse: Reuse) -> Iterator[Finding]:
    submodule = ctx.facts.submodules.get(reuse.owner)
    stub = submodule.path if submodule is not None else "QuantStub"
    for call, first in reuse.calls:
        other = "the other members of the list" if first is call else "its first use"
        id = "quantstub-reused-meets-cat" if reuse.cat is not None else "quantstub-reused"
        related = () if first.span == call.span else (Note(Message.of("quantstub-first-use", stub=stub), first.span),)
        severity = Severity.INFO if reuse.cat is not None else None
        message = Message.of(id, stub=stub, first=other)
        subject = (call.span, call.path)
        yield Finding(call.span, message, severity, assumes=assumption(ctx), related=related, subject=subject)
