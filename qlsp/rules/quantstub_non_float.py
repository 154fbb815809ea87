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
Unsafe: the call is removed from an integer tensor; the members of a list or tuple that is written out and unpacked
get a stub each. There is no fix where that brings another mistake to light: the only stub of a model, a layer without
a stub of its own behind the embedding, a member that is no float tensor, that leaves the model quantized, or that is
concatenated with another one.

## When it is silent
Where the tensor is not certain to be an integer one: an input counts as such if its annotation says so or an embedding
gets it too.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.analysis.scales import is_cat
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._boundary import inputs_of, tensors
from qlsp.rules._rewrites import QUANT_STUB, call_of, require_direct_call, require_one_call, require_stub_call, uses
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Origin, Tensor

META = RuleMeta(
    code="QL208",
    name="quantstub-non-float",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)


Identity = tuple[int, Domain, Origin | None]
"""A tensor of a run and its parts: a stub gives its operand another domain and origin, not another base."""


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
    for facts, use in uses(ctx, call.span):
        _require_taken(facts, use)
    edit.unwrap_call(call.span)
    edit.remove_submodule(edit.method(call.span).cls, stub)
    title = Message.of("fix-remove-stub", stub=stub)
    return edit.fix(title, Message.of("fix-integer-reason"), Applicability.UNSAFE)


def _require_taken(facts: Facts, stub: OpCall) -> None:
    """What follows an integer tensor without its stub takes it, and the root keeps another stub.

    What becomes of the tensor is not known as long as the stub is there. Without it the result of an embedding, or of
    arithmetic with float tensors, is known to be float, and a layer behind it raises.
    """
    made = (each for each in facts.op_calls.values() if each.owner not in (None, stub.owner) and each.converted)
    if facts.context.workflow is Workflow.EAGER and not any(each.spec.role is Role.QUANTIZE for each in made):
        raise NoFix("the only stub of the model")
    floats: set[Identity] = set()
    integers = {_identity(each.output) for each in stub.alternatives if isinstance(each.output, Tensor)}
    for call in facts.op_calls.values():
        given = {_identity(tensor): tensor for tensor in inputs_of(call)}
        others = [tensor for identity, tensor in given.items() if identity not in floats | integers]
        if call is stub or len(others) == len(given) or call.spec.role is Role.DEQUANTIZE:
            continue
        if call.spec.role is Role.QUANTIZE and integers.isdisjoint(given):
            continue
        if call.spec.role is not None or call.converted or any(each.domain is Domain.QUANTIZED for each in others):
            raise NoFix("a call that takes no such tensor")
        float_result = call.spec.op.startswith("embedding") or others or not floats.isdisjoint(given)
        outputs = floats if float_result else integers
        for alternative in call.alternatives:
            outputs.update(_identity(each) for each in tensors(alternative.output) if isinstance(each, Tensor))


def _identity(tensor: Tensor) -> Identity:
    return tensor.base, tensor.domain, tensor.origin


def _require_float_members(facts: Facts, stub: OpCall, number: int) -> None:
    """A stub for each member brings no new mistake: they are float tensors, no two of which meet in a concatenation,
    and none of which leaves the model quantized; the stub has no other call."""
    members = facts.listed.get((stub.span, stub.path), ())
    if not all(isinstance(member, Tensor) and member.domain is Domain.FLOAT for member in members):
        raise NoFix("a member that is no float tensor")
    if len({member.number for member in members if isinstance(member, Tensor)}) != number:
        raise NoFix("one member twice, or members that are not known")
    origin = Origin(stub.span, stub.path)
    for call in facts.op_calls.values():
        if call.owner == stub.owner and call is not stub:
            raise NoFix("the stub has other calls")
        if is_cat(call) and any(tensor.origin == origin for tensor in inputs_of(call)):
            raise NoFix("a concatenation of the members")
    for returned in facts.returns:
        for leaf in returned.leaves:
            if any(isinstance(each, Tensor) and each.origin == origin for each in tensors(leaf.value)):
                raise NoFix("a member leaves the model quantized")


def _each(ctx: RuleContext, call: OpCall) -> Fix:
    edit = ctx.edits()
    stub = require_stub_call(ctx, edit, call.span)
    site = edit.call(call.span)
    argument = site.argument(0, "x")
    if argument is None or len(site.arguments) != 1 or not argument.elements or edit.repeats(call.span):
        raise NoFix("members that are not written out")
    if edit.unpacked(call.span) != len(argument.elements):
        raise NoFix("the members do not get names")
    require_one_call(ctx, call.span)
    for facts, use in uses(ctx, call.span):
        _require_float_members(facts, use, len(argument.elements))
    method = edit.method(call.span)
    names = [stub]
    for _ in argument.elements[1:]:
        names.append(edit.add_submodule(call.span, stub, QUANT_STUB, near=stub))
    for name, element in zip(names, argument.elements, strict=True):
        edit.wrap(element.place, f"{method.receiver}.{name}(", ")")
    edit.strip_call(call.span)
    title = Message.of("fix-stub-for-each-member")
    return edit.fix(title, Message.of("fix-members-reason"), Applicability.UNSAFE)
