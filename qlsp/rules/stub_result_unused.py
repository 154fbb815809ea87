"""The result of a QuantStub is dropped, and what follows uses the float tensor.

## What it does
Flags the call of a QuantStub whose result nobody reads: a statement of its own, or bound to a name that is not read
before it is bound anew, while a layer that will be quantized gets the tensor itself.

## Why it matters
A stub quantizes nothing in place, it gives a quantized tensor back. In the float model and in calibration it is the
identity, so nothing shows. The converted model raises at the layer:

    NotImplementedError: Could not run 'quantized::linear' with arguments from the 'CPU' backend

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.fc = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            self.quant(x)  # QL206
            return self.dequant(self.fc(x))

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.fc = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.fc(x))

## Fix safety
Safe where the argument is a plain name and everything that reads it afterwards takes a quantized tensor; unsafe where
some of it may need the float tensor. There is no fix where an operator without a quantized kernel reads the name.

## When it is silent
Where nothing that follows needs the quantized tensor, and where the name is read on some path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Observation
from qlsp.rules._boundary import inputs_of, is_configured, is_swapped_layer
from qlsp.rules._causes import Cause, cause_of, raising
from qlsp.rules._rewrites import Doubts, call_of, require_eager, uses
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(
    code="QL206",
    name="stub-result-unused",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each dropped result that a layer further on needs."""
    if ctx.facts.context.workflow is not Workflow.EAGER or not is_configured(ctx.facts):
        return
    for key in sorted(ctx.facts.unread, key=lambda key: (key[0].path, key[0].unit, key[0].ordinal)):
        call = ctx.facts.op_calls.get(key)
        layer = _needs(ctx, call) if call is not None and call.converted else None
        if call is None or layer is None:
            continue
        stub = ctx.facts.submodules[call.owner or 0].path
        message = Message.of("stub-result-unused", stub=stub, error=layer.alternatives[0].raises)
        notes = (Note(Message.of("stub-result-unused-needed"), layer.span),)
        yield Finding(call.span, message, assumes=assumption(ctx), related=notes, subject=key)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Bind the result to the name of the argument."""
    call = call_of(ctx, finding.subject)
    yield from attempts(lambda: _bound(ctx, call))


def _needs(ctx: RuleContext, call: OpCall) -> OpCall | None:
    """The first layer that raises because it gets the tensor itself."""
    bases = {tensor.base for tensor in inputs_of(call)}
    for other in raising(ctx, Cause.NO_STUB):
        if is_swapped_layer(ctx.facts, other) and any(tensor.base in bases for tensor in inputs_of(other)):
            return other
    return None


def _bound(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    site = edit.call(call.span)
    argument = site.argument(0, "x")
    name = argument.value.name if argument is not None else None
    if name is None or "." in name or len(site.arguments) != 1 or edit.repeats(call.span):
        raise NoFix("the argument is no plain name, or the call is in a loop")
    for facts, use in uses(ctx, call.span):
        if facts.context.workflow is Workflow.EAGER:
            if use.guard or (use.span, use.path) not in facts.unread:
                raise NoFix("the result is read elsewhere, or the call is not always made")
            _require_readers(edit, facts, use, name, doubts)
    edit.bind_call(call.span, name)
    return doubts.fix(edit, Message.of("fix-bind-stub", name=name), Message.of("fix-quantize-reason"))


def _require_readers(edit: EditBuilder, facts: Facts, call: OpCall, name: str, doubts: Doubts) -> None:
    """The layers read the tensor by this name, and whoever else reads it can take a quantized one."""
    numbers = {tensor.number for tensor in inputs_of(call)}
    readers = False
    for other in facts.op_calls.values():
        mine = [
            operand
            for alternative in other.alternatives
            for operand in alternative.operands
            if getattr(operand.value, "number", None) in numbers
            and getattr(operand.value, "domain", None) is Domain.FLOAT
        ]
        if not mine or other.span == call.span:
            continue
        if cause_of(other) is Cause.NO_STUB or other.spec.observation is Observation.SHARE and not other.spec.raises:
            for operand in mine:
                if operand.span is None or edit.expression(operand.span).name != name:
                    raise NoFix("another name is read")
            readers = True
        elif other.spec.raises is not None:
            raise NoFix("an operator without a quantized kernel reads the name")
        else:
            doubts.add(Message.of("fix-bind-float-reason", name=name))
    if not readers:
        raise NoFix("nobody reads the name")
