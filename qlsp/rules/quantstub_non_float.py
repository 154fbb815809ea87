"""A QuantStub gets what is no float tensor: token ids, a mask, a list, None.

## What it does
Flags the call of a QuantStub on an integer or boolean tensor, on a list, tuple or dict, on None or on a number.

## Why it matters
In the float model a stub is the identity, so it takes anything. The observer that prepare puts behind it does not:
calibration raises at this line.

    NotImplementedError: "histogram_cpu" not implemented for 'Long'

A tuple gives `'tuple' object has no attribute 'numel'`. Indices and masks need no quantization at all.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.quant_best = QuantStub()
            self.fc = nn.Linear(8, 8)
            self.dequant = DeQuantStub()

        def forward(self, x):
            best = self.quant_best(x.argmax(0))  # QL208
            y = self.dequant(self.fc(self.quant(x)))
            return y[best]

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.fc = nn.Linear(8, 8)
            self.dequant = DeQuantStub()

        def forward(self, x):
            best = x.argmax(0)
            y = self.dequant(self.fc(self.quant(x)))
            return y[best]

## Fix safety
Unsafe: the call is removed from an integer tensor; the members of a list or tuple that is written out get a stub
each. Whether what follows takes that is not checked.

## When it is silent
Where the tensor is not certain to be an integer one: an input counts as such if its annotation says so or an embedding
gets it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._boundary import inputs_of
from qlsp.rules._rewrites import QUANT_STUB, call_of, require_direct_call, require_stub_call
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain

META = RuleMeta(
    code="QL208",
    name="quantstub-non-float",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each stub call that certainly gets no float tensor."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    indices = _indices(ctx.facts)
    for key, call in ctx.facts.op_calls.items():
        if call.spec.role is not Role.QUANTIZE or call.owner is None or not call.converted:
            continue
        kind = ctx.facts.unfit.get(key) or ("integer tensor" if _is_integer(call, indices) else None)
        if kind is not None:
            stub = ctx.facts.submodules[call.owner].path
            message = Message.of("quantstub-non-float", stub=stub, kind=kind)
            yield Finding(call.span, message, assumes=assumption(ctx), subject=key)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Remove the call, or give each member of a written list a stub."""
    call = call_of(ctx, finding.subject)
    if ctx.facts.unfit.get((call.span, call.path)) in ("list", "tuple"):
        yield from attempts(lambda: _each(ctx, call))
    elif (call.span, call.path) not in ctx.facts.unfit:
        yield from attempts(lambda: _removed(ctx, call))


def _indices(facts: Facts) -> set[int]:
    """The tensors that an embedding looks up."""
    found: set[int] = set()
    for call in facts.op_calls.values():
        if call.spec.op.startswith("embedding"):
            found.update(tensor.number for tensor in list(inputs_of(call))[:1])
    return found


def _is_integer(call: OpCall, indices: set[int]) -> bool:
    given = list(inputs_of(call))
    whole = len(given) == len(call.alternatives) > 0
    return whole and all(tensor.domain is Domain.INTEGER or tensor.number in indices for tensor in given)


def _removed(ctx: RuleContext, call: OpCall) -> Fix:
    edit = ctx.edits()
    require_direct_call(ctx, call.span)
    stub = require_stub_call(ctx, edit, call.span)
    edit.unwrap_call(call.span)
    edit.remove_submodule(edit.method(call.span).cls, stub)
    title = Message.of("fix-remove-stub", stub=stub)
    return edit.fix(title, Message.of("fix-integer-reason"), Applicability.UNSAFE)


def _each(ctx: RuleContext, call: OpCall) -> Fix:
    edit = ctx.edits()
    stub = require_stub_call(ctx, edit, call.span)
    site = edit.call(call.span)
    argument = site.argument(0, "x")
    if argument is None or len(site.arguments) != 1 or not argument.elements or edit.repeats(call.span):
        raise NoFix("members that are not written out")
    method = edit.method(call.span)
    names = [stub]
    for _ in argument.elements[1:]:
        names.append(edit.add_submodule(call.span, stub, QUANT_STUB, near=stub))
    for name, element in zip(names, argument.elements, strict=True):
        edit.wrap(element.place, f"{method.receiver}.{name}(", ")")
    edit.strip_call(call.span)
    title = Message.of("fix-stub-for-each-member")
    return edit.fix(title, Message.of("fix-members-reason"), Applicability.UNSAFE)
