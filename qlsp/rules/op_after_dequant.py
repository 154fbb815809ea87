"""A layer behind DeQuantStub is quantized by convert, but gets a float tensor.

## What it does
Flags the call of a layer that will be quantized and whose input has left the quantized region through a DeQuantStub.

## Why it matters
The qconfig of the model reaches every layer in it, also those behind the DeQuantStub. Convert swaps them, and the
converted model raises at this line:

    NotImplementedError: Could not run 'quantized::linear' with arguments from the 'CPU' backend

Measured with the last layer left in float by `qconfig = None`: 35.6 dB.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.body = nn.Linear(8, 8)
            self.dequant = DeQuantStub()
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            x = self.dequant(self.body(self.quant(x)))
            return self.head(x)  # QL205

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.body = nn.Linear(8, 8)
            self.dequant = DeQuantStub()
            self.head = nn.Linear(8, 4)
            self.head.qconfig = None

        def forward(self, x):
            x = self.dequant(self.body(self.quant(x)))
            return self.head(x)

## Fix safety
Safe where the layer runs behind the DeQuantStub only, in every model in view, and nothing in view sets its qconfig
later: it stays in float. If it is meant to be quantized, move the DeQuantStub behind it instead. Where code in view
fuses the layer, which loses the setting, or walks over the modules of a model to set qconfigs, no fix is offered.

## When it is silent
Where the layer has `qconfig = None`, where it is not certain that a qconfig reaches it, and where its input may be
quantized.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Alternative, Facts, OpCall, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._boundary import inputs_of, is_configured, is_swapped_layer, require_only_root
from qlsp.rules._causes import Cause, cause_of, raising
from qlsp.rules._rewrites import Doubts, call_of, require_eager, uses
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(
    code="QL205",
    name="op-after-dequant",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

_SETS = re.compile(r"([\w.]*[\w\])])\s*\.\s*qconfig\s*(?::[^=\n]*)?=(?!=)")
_WALKS = re.compile(r"\bsetattr\s*\(|\bpropagate_qconfig_?\s*\(|\bqconfig_dict\b|\.apply\s*\(\s*\w*qconfig")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each swapped layer that certainly gets a dequantized tensor."""
    if not is_configured(ctx.facts):
        return
    corrected = _corrected(ctx) | _requantized(ctx)
    for call in raising(ctx, Cause.BEHIND_DEQUANT):
        if is_swapped_layer(ctx.facts, call) and not corrected & {tensor.number for tensor in inputs_of(call)}:
            layer = ctx.facts.submodules[call.owner or 0].path
            message = Message.of("op-after-dequant", layer=layer, error=call.alternatives[0].raises)
            yield Finding(call.span, message, assumes=assumption(ctx), subject=(call.span, call.path))


def _corrected(ctx: RuleContext) -> set[int]:
    """Results of calls that raise on a stub's tensor without a DeQuantStub: what is wrong is there."""
    return {
        each.output.number
        for call in ctx.facts.op_calls.values()
        for each in call.alternatives
        if each.raises is not None and isinstance(each.output, Tensor) and not _any_dequantized(each)
    }


def _requantized(ctx: RuleContext) -> set[int]:
    """What a stub that convert does not find leaves float: its registration puts the layers behind it right."""
    strays = {member for stray in ctx.facts.strays.values() for member in stray.members}
    return {
        tensor.number
        for call in ctx.facts.op_calls.values()
        if call.spec.role is Role.QUANTIZE and call.owner in strays
        for tensor in inputs_of(call)
    }


def _any_dequantized(alternative: Alternative) -> bool:
    """Has an operand left the quantized region before the call?"""
    values = [operand.value for operand in alternative.operands]
    return any(isinstance(value, Tensor) and value.dequantized for value in values)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Leave the layer in float."""
    call = call_of(ctx, finding.subject)
    here = list(attempts(lambda: _left_float(ctx, call)))
    yield from here or attempts(lambda: _block_left_float(ctx, call))


def _left_float(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    attribute = _attribute(ctx, call)
    for facts, use in uses(ctx, call.span):
        if facts.context.workflow is Workflow.EAGER:
            _require_float(facts, _prefix(facts, use) + attribute)
    _require_kept(edit, attribute)
    edit.configure(edit.method(call.span).cls, attribute, "qconfig = None")
    return doubts.fix(edit, Message.of("fix-qconfig-none", layer=attribute), Message.of("fix-qconfig-none-reason"))


def _block_left_float(ctx: RuleContext, call: OpCall) -> Fix:
    """The block around the layer stays float, in the model that calls it behind the DeQuantStub."""
    edit, doubts = ctx.edits(), Doubts()
    if not call.path:
        raise NoFix("not in a block")
    site = call.path[0][0]
    attribute = ctx.facts.submodules[call.owner or 0].path.partition(".")[0]
    for facts in require_only_root(ctx, site):
        _require_float(facts, attribute)
    _require_kept(edit, attribute)
    edit.configure(edit.method(site).cls, attribute, "qconfig = None")
    return doubts.fix(edit, Message.of("fix-qconfig-none", layer=attribute), Message.of("fix-qconfig-none-reason"))


def _attribute(ctx: RuleContext, call: OpCall) -> str:
    """The attribute of the calling object that holds the layer, the same one in every context."""
    found: set[str] = set()
    for facts, use in uses(ctx, call.span):
        if facts.context.workflow is Workflow.EAGER:
            owner, prefix = facts.submodules.get(use.owner or 0), _prefix(facts, use)
            if owner is None or not owner.path.startswith(prefix):
                raise NoFix("not a layer of the receiver")
            found.add(owner.path.removeprefix(prefix).partition(".")[0])
    if len(found) != 1:
        raise NoFix("layers of several attributes")
    return found.pop()


def _prefix(facts: Facts, call: OpCall) -> str:
    receiver = facts.submodules.get(call.receiver) if call.receiver is not None else None
    if receiver is None:
        raise NoFix("the receiver is no registered module")
    return f"{receiver.path}.".lstrip(".")


def _require_float(facts: Facts, top: str) -> None:
    """What stands at a path runs on float tensors only: it may stay float."""
    inside = {
        oid
        for oid, submodule in facts.submodules.items()
        if submodule.path == top or submodule.path.startswith(f"{top}.")
    }
    for other in facts.op_calls.values():
        if other.owner not in inside and other.receiver not in inside:
            continue
        if other.spec.role is Role.QUANTIZE:
            raise NoFix("a stub among the layers")
        swapped = other.converted and other.spec.on_float is not None
        if swapped and cause_of(other) is not Cause.BEHIND_DEQUANT:
            raise NoFix("a layer that runs in the quantized region too")
        if any(tensor.domain not in (Domain.FLOAT, Domain.INTEGER) for tensor in inputs_of(other)):
            raise NoFix("an operator that gets a quantized tensor")


def _require_kept(edit: EditBuilder, attribute: str) -> None:
    """Nothing in view sets the qconfig of the layer later, or loses it by fusing the layer."""
    name = re.escape(attribute)
    if edit.matches(re.compile(r"\bfuse_\w+\s*\(")) and edit.matches(re.compile(rf"[\"'](?:[\w.]+\.)?{name}[\"'.]")):
        raise NoFix("the layer is fused, and the fused module has no qconfig of its own")
    if edit.matches(_WALKS):
        raise NoFix("code that may set any qconfig")
    for target in edit.found(_SETS):
        last = target.rpartition(".")[2]
        loop = re.compile(rf"\bfor\b[^\n:]*\b{re.escape(target)}\b[^\n:]*\bin\b")
        if last == attribute or not last.isidentifier() or edit.matches(loop):
            raise NoFix("a statement that sets the qconfig later")
