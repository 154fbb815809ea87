"""A DeQuantStub is called on a list, tuple or dict.

## What it does
Flags the call of a DeQuantStub whose argument is certainly a list, a tuple or a dict of tensors.

## Why it matters
In the float model and in calibration a DeQuantStub is the identity and takes anything. After convert it calls
`dequantize()` on what it gets, and raises at this line:

    AttributeError: 'tuple' object has no attribute 'dequantize'

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.a = nn.Linear(8, 4)
            self.b = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant((self.a(x), self.b(x)))  # QL209

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.a = nn.Linear(8, 4)
            self.b = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return (self.dequant(self.a(x)), self.dequant(self.b(x)))

## Fix safety
Safe where the list, tuple or dict is written out in the call: each member goes through the stub, which may serve many
tensors. Otherwise unsafe: a comprehension calls the stub on each member, whatever it is.

## When it is silent
Where the argument may be a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._rewrites import Doubts, call_of, require_direct_call, require_eager, uses
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts

META = RuleMeta(
    code="QL209",
    name="dequant-on-collection",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

COLLECTIONS = ("list", "tuple", "dict")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each DeQuantStub call that certainly gets a collection."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for key, call in ctx.facts.op_calls.items():
        kind = ctx.facts.unfit.get(key)
        if call.spec.role is Role.DEQUANTIZE and call.owner is not None and call.converted and kind in COLLECTIONS:
            stub = ctx.facts.submodules[call.owner].path
            message = Message.of("dequant-on-collection", stub=stub, kind=kind)
            yield Finding(call.span, message, assumes=assumption(ctx), subject=key)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Call the stub on each member."""
    call = call_of(ctx, finding.subject)
    kind = ctx.facts.unfit[call.span, call.path]
    yield from attempts(lambda: _written(ctx, call), lambda: _comprehension(ctx, call, kind))


def _written(ctx: RuleContext, call: OpCall) -> Fix:
    """The members are written out in the call."""
    edit, doubts = ctx.edits(), Doubts()
    _require_alike(ctx, call, doubts)
    site = edit.call(call.span)
    argument = site.argument(0, "x")
    span = call.alternatives[0].operands[0].span
    members = edit.members(span) if argument is not None and len(site.arguments) == 1 and span is not None else None
    if not members or any(member.text[:1] in "([{" or member.name == "None" for member in members):
        raise NoFix("members that are not written out, or that are collections themselves")
    function = edit.text(site.function)
    for member in members:
        edit.wrap(member.place, f"{function}(", ")")
    edit.strip_call(call.span)
    return doubts.fix(edit, Message.of("fix-dequantize-each"), Message.of("fix-dequantize-reason"))


def _comprehension(ctx: RuleContext, call: OpCall, kind: str) -> Fix:
    """A comprehension over what a name or another call gives."""
    edit, doubts = ctx.edits(), Doubts()
    _require_alike(ctx, call, doubts)
    site = edit.call(call.span)
    argument = site.argument(0, "x")
    if argument is None or len(site.arguments) != 1 or site.spelling is None:
        raise NoFix("a call with other than one argument")
    local = edit.local_name(call.span, "out")
    given = argument.value.operand
    each = f"{site.spelling}({local})"
    text = {
        "list": f"[{each} for {local} in {given}]",
        "tuple": f"tuple({each} for {local} in {given})",
        "dict": f"{{key: {each} for key, {local} in {given}.items()}}",
    }[kind]
    edit.replace(site.place, text)
    reason = Message.of("fix-members-reason")
    return edit.fix(Message.of("fix-dequantize-each"), reason, Applicability.UNSAFE)


def _require_alike(ctx: RuleContext, call: OpCall, doubts: Doubts) -> None:
    """Every context passes a collection of the same kind to a stub itself."""
    require_eager(ctx, call.span, doubts)
    require_direct_call(ctx, call.span, Role.DEQUANTIZE)
    for facts, use in uses(ctx, call.span):
        if (
            facts.context.workflow is Workflow.EAGER
            and facts.unfit.get((use.span, use.path)) != ctx.facts.unfit[call.span, call.path]
        ):
            raise NoFix(f"another kind of argument in {facts.context.root}")
