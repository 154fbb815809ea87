"""Quantized branches are dequantized, joined in float, and quantized again.

## What it does
Flags a concatenation of outputs of DeQuantStubs whose result goes into a QuantStub and nowhere else.

## Why it matters
It is right, and it is a way to give the branches one scale: the stub behind the concatenation observes the joined
tensor. But the quantized model leaves and enters the quantized region for it: every branch is written to memory in
float, four times its size, and read again. `FloatFunctional.cat` makes the same one scale with one observer and
stays quantized.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)
            self.again = QuantStub()
            self.head = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            x = self.quant(x)
            a, b = self.a(x), self.b(x)
            y = self.again(torch.cat([self.dequant(a), self.dequant(b)], dim=1))  # QL105
            return self.dequant(self.head(y))

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)
            self.cat = FloatFunctional()
            self.head = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            x = self.quant(x)
            y = self.cat.cat([self.a(x), self.b(x)], dim=1)
            return self.dequant(self.head(y))

## Fix safety
The rewrite is shown, not applied: other code may use the stubs, and the scale then comes from another observer.

## When it is silent
A branch that is float anyway, a result that is also used in float, and operators between that need float.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.analysis.scales import is_cat
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.ops.spec import Role
from qlsp.rules._rewrites import FLOAT_FUNCTIONAL, call_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption
from qlsp.values.value import Choice, Domain, Tensor, TupleValue, Value

META = RuleMeta(code="QL105", name="dequant-cat-requant", severity=Severity.INFO, since="0.1", fix="display")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per concatenation of dequantized tensors that is quantized again."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for call in ctx.facts.op_calls.values():
        if is_cat(call) and _dequantized(ctx, call) and _only_requantized(ctx, call):
            message = Message.of("dequant-cat-requant", spelling=call.spelling)
            yield Finding(call.span, message, assumes=assumption(ctx), subject=(call.span, call.path))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Show the concatenation with a FloatFunctional in place of the three calls around it."""
    call = call_of(ctx, finding.subject)
    edit = ctx.edits()
    site, outer = edit.call(call.span), edit.call(_users(ctx, call)[0].span)
    tensors = site.argument(0, "tensors")
    nested = len(outer.arguments) == 1 and outer.arguments[0].value.inner == site.place
    if tensors is None or tensors.elements is None or not nested or call.spelling.rpartition(".")[2] not in _NAMES:
        raise NoFix("not three nested calls")
    branches = [_DEQUANTIZED.fullmatch(element.text) for element in tensors.elements]
    rest = [argument for argument in site.arguments if argument is not tensors]
    if any(argument.keyword not in (None, "dim", "axis", "axes") for argument in rest) or None in branches:
        raise NoFix("a branch that is no call of a stub")
    method = edit.method(call.span)
    name = edit.add_submodule(call.span, "cat", FLOAT_FUNCTIONAL)
    joined = ", ".join(branch[1] for branch in branches if branch is not None)
    dim = "".join(f", dim={argument.value.text}" for argument in rest)
    edit.replace(outer.place, f"{method.receiver}.{name}.cat([{joined}]{dim})")
    title = Message.of("fix-cat-functional")
    yield edit.fix(title, Message.of("fix-join-quantized-reason"), Applicability.DISPLAY)


_NAMES = ("cat", "concat", "concatenate")
_DEQUANTIZED = re.compile(r"\w+\.\w+\(\s*([\w.]+(?:\([\w., ]*\))?)\s*\)")


def _dequantized(ctx: RuleContext, call: OpCall) -> bool:
    """Does every operand come straight out of a DeQuantStub, in every alternative?"""
    numbers = _left(ctx)
    operands = [operand.value for alternative in call.alternatives for operand in alternative.operands]
    several = all(len(alternative.operands) > 1 or call.open for alternative in call.alternatives)
    return several and all(
        isinstance(value, Tensor) and value.dequantized and value.number in numbers for value in operands
    )


def _left(ctx: RuleContext) -> set[int]:
    """The numbers of tensors that leave the quantized region through a DeQuantStub."""
    return {
        operand.value.number
        for call in ctx.facts.op_calls.values()
        if call.spec.role is Role.DEQUANTIZE
        for alternative in call.alternatives
        for operand in alternative.operands
        if isinstance(operand.value, Tensor) and operand.value.domain is Domain.QUANTIZED
    }


def _only_requantized(ctx: RuleContext, call: OpCall) -> bool:
    """Is a QuantStub that convert swaps the only one to use the result?"""
    numbers = {tensor.number for alternative in call.alternatives for tensor in _tensors(alternative.output)}
    if any(tensor.number in numbers - _left(ctx) for tensor in _returned(ctx)):
        return False
    users = _users(ctx, call)
    return bool(users) and all(user.spec.role is Role.QUANTIZE and user.converted for user in users)


def _users(ctx: RuleContext, call: OpCall) -> list[OpCall]:
    """The calls that get the result in float."""
    numbers = {tensor.number for alternative in call.alternatives for tensor in _tensors(alternative.output)}
    return [other for other in ctx.facts.op_calls.values() if other is not call and _uses(other, numbers)]


def _returned(ctx: RuleContext) -> Iterator[Tensor]:
    for each in ctx.facts.returns:
        yield from _tensors(each.value)


def _uses(call: OpCall, numbers: set[int]) -> bool:
    return any(
        isinstance(operand.value, Tensor) and operand.value.number in numbers and operand.value.qparams is None
        for alternative in call.alternatives
        for operand in alternative.operands
    )


def _tensors(value: Value) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Choice):
        for _, option in value.options:
            yield from _tensors(option)
    elif isinstance(value, TupleValue):
        for item in value.items:
            yield from _tensors(item)
