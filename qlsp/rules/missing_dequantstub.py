"""A quantized tensor leaves the model without a DeQuantStub.

## What it does
Flags the return statement of a model's forward that gives a quantized tensor back, and a loss that is computed of
a quantized tensor.

It is an error where the code in view shows that the converted model, or what is done with its result, raises; else
a warning.

## Why it matters
Convert accepts the model, and the model runs: its result is a `quint8` tensor. Softmax, argmax, a loss, a sum or
`numpy()` refuse it, in another function than the one with the mistake:

    NotImplementedError: Could not run 'aten::_log_softmax.out' with arguments from the 'QuantizedCPU' backend

Others, such as `max` and `topk`, go on with 8-bit values.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            x = self.quant(x)
            return self.fc(x)  # QL204

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
Safe where the return statement shows the tensors and the class is used on its own only: a DeQuantStub is the
identity in the float model. A list that is built elsewhere is rebuilt around its members, which is unsafe.

## When it is silent
In classes that other models in view build, in models whose result goes to another model, or to code that expects a
quantized tensor (`out.dequantize()`, `out.int_repr()`), and where the quantized domain of the result is not certain.
A class with a QuantStub only is taken as the first half of a model where another one in view has a DeQuantStub only.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Facts, Leaf, OpCall, OutputUse, Return, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._boundary import (
    dequantize_returns,
    expects_failure,
    inputs_of,
    is_configured,
    is_half,
    is_quantized,
    never_quantized,
    quantized_leaves,
    require_qconfig,
    starved,
    tensors,
    used_inside_another,
)
from qlsp.rules._causes import Cause, cause_of, raising
from qlsp.rules._rewrites import DEQUANT_STUB, QUANT_STUB, Doubts, doubt_the_class, require_eager, uses
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import SpanId, Tensor

META = RuleMeta(code="QL204", name="missing-dequantstub", severity=Severity.WARNING, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each return statement, or loss, that gets a quantized tensor."""
    if ctx.script is not None:
        for use in ctx.script.uses:
            yield from _met(ctx, ctx.script.path, use)
        return
    for call in raising(ctx, Cause.LOSS):
        message = Message.of("missing-dequantstub-loss", call=call.spelling, error=call.alternatives[0].raises)
        yield Finding(
            call.span,
            message,
            Severity.ERROR,
            Predicts.RAISES,
            assumption(ctx),
            subject=(call.span, call.path),
        )
    for returned in _leaving(ctx):
        yield Finding(
            returned.span,
            Message.of("missing-dequantstub", model=ctx.facts.context.root),
            assumes=assumption(ctx),
            related=_where(returned),
            subject=returned.span,
        )


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Put a DeQuantStub around what leaves the model."""
    if isinstance(finding.subject, tuple):
        call = ctx.facts.op_calls[finding.subject]
        yield from attempts(lambda: _before_loss(ctx, call))
    elif isinstance(finding.subject, SpanId):
        span = finding.subject
        yield from attempts(lambda: _around(ctx, span))


def _leaving(ctx: RuleContext) -> Iterator[Return]:
    """The return statements of a root through which a tensor leaves quantized."""
    facts = ctx.facts
    if facts.context.workflow is not Workflow.EAGER or facts.context.feeds or used_inside_another(ctx):
        return
    if not is_configured(facts):
        return
    if is_half(ctx, QUANT_STUB, DEQUANT_STUB) or not _enters(facts) or starved(ctx) and not _quantizes(facts):
        return
    if facts.context.assumed and _enters_unquantized(ctx):
        return
    settled, unfit = _settled(facts), _of_unfit_stubs(facts)
    for returned in facts.returns:
        leaves = [leaf for leaf in quantized_leaves(returned) if not _is_state(facts, returned, leaf)]
        if leaves and not all(_numbers(leaf.value) <= settled or _bases(leaf.value) <= unfit for leaf in leaves):
            yield returned


def _enters_unquantized(ctx: RuleContext) -> bool:
    """Does a layer get an unquantized tensor for which missing-quantstub has no finding? Then what comes in may be
    quantized, and the class is the inner part of a model."""
    unquantized = any(cause_of(call) is Cause.NO_STUB for call in ctx.facts.op_calls.values())
    return unquantized and not never_quantized(ctx)


def _is_state(facts: Facts, returned: Return, leaf: Leaf) -> bool:
    """An input that no stub quantizes and that leaves under its name, beside other results: the state of a recurrent
    model, which comes back quantized with the next call."""
    numbers = {each.number for each in facts.inputs if each.name == leaf.name}
    quantized = {
        tensor.number
        for call in facts.op_calls.values()
        if call.spec.role is Role.QUANTIZE
        for tensor in inputs_of(call)
    }
    return bool(numbers) and not numbers & quantized and len(returned.leaves) > 1


def _enters(facts: Facts) -> bool:
    """Does something in the model quantize a tensor?"""
    return any(call.converted for call in facts.op_calls.values())


def _quantizes(facts: Facts) -> bool:
    return any(call.spec.role is Role.QUANTIZE and call.converted for call in facts.op_calls.values())


def _settled(facts: Facts) -> set[int]:
    """Tensors with a finding of their own: the result of a call that raises, and what a DeQuantStub got that
    convert does not swap."""
    found: set[int] = set()
    for call in facts.op_calls.values():
        if call.spec.role is Role.DEQUANTIZE and not call.converted:
            found.update(tensor.number for tensor in inputs_of(call))
        elif cause_of(call) not in (None, Cause.NO_STUB, Cause.STUB_ON_QUANTIZED):
            for alternative in call.alternatives:
                found |= _numbers(alternative.output)
    return found


def _of_unfit_stubs(facts: Facts) -> set[int]:
    """What a stub gives back that gets no tensor, and its parts: the stub has a finding of its own."""
    calls = (facts.op_calls.get(key) for key in facts.unfit)
    return {base for call in calls if call for each in call.alternatives for base in _bases(each.output)}


def _bases(value: object) -> set[int]:
    return {each.base for each in tensors(value) if isinstance(each, Tensor)}  # type: ignore[arg-type]


def _numbers(value: object) -> set[int]:
    return {each.number for each in tensors(value) if isinstance(each, Tensor)}  # type: ignore[arg-type]


def _where(returned: Return) -> tuple[Note, ...]:
    """Where what leaves was quantized."""
    for leaf in quantized_leaves(returned):
        for tensor in tensors(leaf.value):
            if isinstance(tensor, Tensor) and tensor.origin is not None:
                return (Note(Message.of("missing-dequantstub-made"), tensor.origin.span),)
    return ()


def _met(ctx: RuleContext, path: str, use: OutputUse) -> Iterator[Finding]:
    """The return statements of the converted model whose result an operator refuses."""
    for facts in ctx.everywhere:
        if facts.context.model != (path, use.model) or facts.context.workflow is not Workflow.EAGER:
            continue
        if not is_configured(facts) or not all(_all_quantized(returned) for returned in facts.returns):
            continue
        if expects_failure(ctx.edits(), facts):
            continue
        for returned in facts.returns:
            yield Finding(
                returned.span,
                Message.of("missing-dequantstub-met", model=facts.context.root, call=use.spelling, error=use.raises),
                Severity.ERROR,
                Predicts.RAISES,
                related=(Note(Message.of("missing-dequantstub-meets"), use.span), *_where(returned)),
                subject=returned.span,
            )


def _all_quantized(returned: Return) -> bool:
    return bool(returned.leaves) and all(is_quantized(leaf.value) for leaf in returned.leaves)


# --- fixes ------------------------------------------------------------------------------------------------------


def _around(ctx: RuleContext, span: SpanId) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    if dequantize_returns(ctx, edit, span):
        doubts.add(Message.of("fix-dequantize-list-reason"))
    doubt_the_class(edit, edit.method(span), doubts)
    return doubts.fix(edit, Message.of("fix-dequantize"), Message.of("fix-dequantize-reason"))


def _before_loss(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    for facts, use in uses(ctx, call.span):
        if facts.context.workflow is Workflow.EAGER:
            if cause_of(use) is not Cause.LOSS:
                raise NoFix("the loss gets a float tensor elsewhere")
            require_qconfig(facts, use.receiver)
    span = call.alternatives[0].operands[0].span
    if span is None:
        raise NoFix("an operand that is not written out")
    method = edit.method(call.span)
    doubt_the_class(edit, method, doubts)
    name = edit.attribute_of(method.cls, DEQUANT_STUB) or edit.add_submodule(call.span, "dequant", DEQUANT_STUB)
    edit.wrap(edit.expression(span).place, f"{method.receiver}.{name}(", ")")
    return doubts.fix(edit, Message.of("fix-dequantize"), Message.of("fix-dequantize-reason"))
