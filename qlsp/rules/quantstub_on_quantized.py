"""A QuantStub is called on a tensor that is already quantized.

## What it does
Flags the call of a QuantStub whose input is certainly quantized: the output of a quantized layer, of another
stub, or of a block that forgot its DeQuantStub.

## Why it matters
The float model and the calibration run, because there a stub is the identity. The converted model raises at
this line, after calibration or days of training:

    NotImplementedError: Could not run 'aten::quantize_per_tensor' with arguments from the 'QuantizedCPU' backend

A stub cannot requantize, so it cannot give two branches one scale either: for a concatenation use
`FloatFunctional.cat`.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.again = QuantStub()
            self.first = nn.Conv2d(3, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.first(self.quant(x))
            x = self.again(x)  # QL202
            return self.dequant(self.second(x))

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(3, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.first(self.quant(x))
            return self.dequant(self.second(x))

## Fix safety
Safe where every context in view passes a quantized tensor: the call is removed, and the stub with it if nothing
else uses it. If the stub gave two inputs of a concatenation one scale, the concatenation gets an observer instead.
Where the stub also sees float tensors: unsafe, a DeQuantStub before the stub. There is no fix for a stub in a
Sequential or a QuantWrapper (its call is not in the source), for a call that runs other modules of a list too, nor for
a recurrent state that is float in the first step only.

## When it is silent
Where the stub's input may be float: an unknown caller, a branch, a tensor that passed a DeQuantStub. Behind an operator
without a quantized kernel (QL401): what is missing there is a DeQuantStub before the operator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.analysis.scales import Scales
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._cats import join_cats
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._rewrites import (
    QUANT_STUB,
    Doubts,
    call_of,
    dequant_stub,
    doubt_the_class,
    quantized_everywhere,
    require_converted_receiver,
    require_direct_call,
    require_eager,
    require_one_call,
    require_stub_call,
)
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor

META = RuleMeta(
    code="QL202",
    name="quantstub-on-quantized",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every stub call that is certain to see a quantized tensor."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    scales = Scales(ctx.facts)
    for call in ctx.facts.op_calls.values():
        if call.spec.role is not Role.QUANTIZE or not call.converted or call.owner is None:
            continue
        inputs = [alternative.operands[0].value for alternative in call.alternatives]
        certain = all(isinstance(v, Tensor) and v.domain is Domain.QUANTIZED for v in inputs)
        if certain and not any(_behind_a_mistake(ctx, v) for v in inputs):
            yield _finding(ctx, scales, call, inputs[0])


def _behind_a_mistake(ctx: RuleContext, value: object) -> bool:
    """The tensor comes from a call that raises: a DeQuantStub before that call makes the stub right."""
    assert isinstance(value, Tensor)
    origin = value.origin
    call = ctx.facts.op_calls.get((origin.span, origin.path)) if origin is not None else None
    return call is not None and cause_of(call) is Cause.FLOAT_OP


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Remove the call; where it may see a float tensor too, put a DeQuantStub before it."""
    call = call_of(ctx, finding.subject)
    yield from attempts(lambda: _removed(ctx, call), lambda: _dequantized(ctx, call))


def _removed(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    quantized_everywhere(ctx, call.span, doubts)
    require_direct_call(ctx, call.span)
    site = edit.call(call.span)
    if len(site.arguments) != 1:
        raise NoFix("a stub call with other than one argument")
    title = Message.of("fix-remove-stub", stub=site.spelling or "the QuantStub")
    if join_cats(ctx, edit, call, doubts):
        title = Message.of("fix-remove-stub-and-join", stub=site.spelling or "the QuantStub")
    edit.unwrap_call(call.span)
    with contextlib.suppress(NoFix):  # a stub that is nobody's attribute stays, unused
        edit.remove_submodule(edit.method(call.span).cls, require_stub_call(ctx, edit, call.span))
    return doubts.fix(edit, title, Message.of("fix-remove-stub-reason"))


def _dequantized(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    require_one_call(ctx, call.span)
    stub = require_stub_call(ctx, edit, call.span)
    method = edit.method(call.span)
    doubt_the_class(edit, method, doubts)
    site = edit.call(call.span)
    if len(site.arguments) != 1 or site.arguments[0].star:
        raise NoFix("a stub call with other than one argument")
    dequant = dequant_stub(ctx, edit, call)
    if edit.uses_of(method.cls, stub) > 2:
        edit.replace(site.function, f"{method.receiver}.{edit.add_submodule(call.span, stub, QUANT_STUB, near=stub)}")
    edit.wrap(site.arguments[0].value.place, f"{method.receiver}.{dequant}(", ")")
    reason = Message.of("fix-dequantize-first-reason")
    doubts.add(reason)
    return doubts.fix(edit, Message.of("fix-dequantize-first"), reason)


def _finding(ctx: RuleContext, scales: Scales, call: OpCall, value: object) -> Finding:
    assert isinstance(value, Tensor)
    assert call.owner is not None
    submodule = ctx.facts.submodules.get(call.owner)
    stub = submodule.path if submodule is not None else "QuantStub"
    owner = scales.owner(value.qparams.scale if value.qparams is not None else None)
    notes: tuple[Note, ...] = ()
    if value.origin is not None:
        notes = (Note(Message.of("cat-scale-from", owner=owner), value.origin.span),)
    message = Message.of("quantstub-on-quantized", stub=stub, owner=owner)
    return Finding(call.span, message, assumes=assumption(ctx), related=notes, subject=(call.span, call.path))
