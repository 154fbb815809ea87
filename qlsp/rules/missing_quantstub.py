"""A layer that convert quantizes gets a float tensor.

## What it does
Flags the first call of a layer or FloatFunctional that will be quantized and whose input no QuantStub has quantized:
an input of the model without a stub, a stub that is never called, or a tensor made inside forward.

## Why it matters
Convert accepts the model. The converted model raises at this line, after calibration or days of training:

    NotImplementedError: Could not run 'quantized::conv2d.new' with arguments from the 'CPU' backend

A Linear layer says `quantized::linear`, a FloatFunctional `quantized::add` and the like.

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.image = nn.Conv2d(3, 4, 1)
            self.depth = nn.Conv2d(3, 4, 1)
            self.add = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, image: torch.Tensor, depth: torch.Tensor):
            image = self.image(self.quant(image))
            depth = self.depth(depth)  # QL203
            return self.dequant(self.add.add(image, depth))

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.quant_2 = QuantStub()
            self.image = nn.Conv2d(3, 4, 1)
            self.depth = nn.Conv2d(3, 4, 1)
            self.add = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, image: torch.Tensor, depth: torch.Tensor):
            image = self.image(self.quant(image))
            depth = self.depth(self.quant_2(depth))
            return self.dequant(self.add.add(image, depth))

## Fix safety
Safe where one tensor goes unquantized into one call of each object that runs this code: it gets a QuantStub, which
is the identity in the float model; where a block gets it that others use too, the stub goes before the block. A
model that leaves the quantized region nowhere gets a DeQuantStub too. Several
tensors: unsafe, each gets a stub of its own. A model without any stub can also be wrapped as a whole, before it is
prepared: `QuantWrapper(model)`; that is shown, and never applied.

## When it is silent
In classes that other models in view build, or whose model is called on the result of another one: what they get may
be quantized. In a class without a QuantStub where another one in view has a QuantStub only, and where a branch that
was not taken calls a stub. Where it is not certain that a qconfig reaches the layer. Stubs that convert does not find
are `quantstub-not-registered`, stubs whose result nobody reads `stub-result-unused`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Observation, Role
from qlsp.rules._boundary import (
    dequantize_returns,
    never_quantized,
    quantized_leaves,
    require_only_root,
    require_qconfig,
    root_of,
    stubs,
)
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._rewrites import QUANT_STUB, Doubts, call_of, doubt_the_class, require_eager, uses
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, SpanId, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(
    code="QL203",
    name="missing-quantstub",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

QUANT_WRAPPER = "torch.ao.quantization.QuantWrapper"


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for the first quantized layer that each unquantized tensor meets."""
    for call in never_quantized(ctx):
        layer = ctx.facts.submodules[call.owner or 0].path
        error = call.alternatives[0].raises
        message = Message.of("missing-quantstub", layer=layer, error=error)
        yield Finding(call.span, message, assumes=assumption(ctx), subject=(call.span, call.path))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Quantize the tensor before the layers that get it; show the wrapper where the model has no stubs."""
    call = call_of(ctx, finding.subject)
    here = list(attempts(lambda: _quantized(ctx, call)))
    yield from here or attempts(lambda: _before_the_block(ctx, call))
    yield from attempts(lambda: _wrapped(ctx))


# --- a stub before the layer ------------------------------------------------------------------------------------


def _quantized(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    numbers = {tensor.number for tensor in _floats(call)}
    wanted: dict[SpanId, int] = {}
    for other in ctx.facts.op_calls.values():
        if other.alternatives and cause_of(other) is Cause.NO_STUB and numbers & {t.number for t in _floats(other)}:
            if edit.method(other.span).cls.node is not method.cls.node or other.receiver != call.receiver:
                raise NoFix("several objects get the tensor")
            _require_same_everywhere(ctx, edit, other, doubts)
            wanted.update(_operands(other))
    names = _names(ctx, edit, call, list(dict.fromkeys(wanted.values())))
    for span, number in wanted.items():
        edit.wrap(edit.expression(span).place, f"{method.receiver}.{names[number]}(", ")")
    if not any(other.spec.role is Role.QUANTIZE and other.converted for other in ctx.facts.op_calls.values()):
        _leave(ctx, edit, doubts)
    doubt_the_class(edit, method, doubts)
    if len(names) > 1:
        doubts.add(Message.of("fix-quantize-several-reason"))
    stub = ", ".join(names.values())
    return doubts.fix(edit, Message.of("fix-quantize", stub=stub), Message.of("fix-quantize-reason"))


def _floats(call: OpCall) -> list[Tensor]:
    return [
        operand.value
        for alternative in call.alternatives
        for operand in alternative.operands
        if isinstance(operand.value, Tensor) and operand.value.domain is Domain.FLOAT
    ]


def _operands(call: OpCall) -> dict[SpanId, int]:
    """The float operands of a call by their places."""
    found: dict[SpanId, int] = {}
    for alternative in call.alternatives:
        for operand in alternative.operands:
            value = operand.value
            if not isinstance(value, Tensor) or value.domain is not Domain.FLOAT:
                raise NoFix("an operand that is not known to be float")
            if operand.span is None or found.get(operand.span, value.number) != value.number:
                raise NoFix("an operand that is not written out, or not the same in every case")
            found[operand.span] = value.number
    return found


def _require_same_everywhere(ctx: RuleContext, edit: EditBuilder, call: OpCall, doubts: Doubts) -> None:
    """The call gets the same unquantized tensors in every context, once per object and run."""
    require_eager(ctx, call.span, doubts)
    if edit.repeats(call.span) or call.loop:
        raise NoFix("a call in a loop")
    if any(argument.star for argument in edit.call(call.span).arguments):
        raise NoFix("a call with starred arguments")
    places = _operands(call).keys()
    served: set[tuple[int, int | None]] = set()
    for facts, use in uses(ctx, call.span):
        given = {operand.span for alternative in use.alternatives for operand in alternative.operands}
        if facts.context.workflow is not Workflow.EAGER or given.isdisjoint(places):
            continue
        if cause_of(use) is not Cause.NO_STUB or _operands(use).keys() != places:
            raise NoFix(f"the tensor is quantized in {facts.context.root}")
        if (id(facts), use.receiver) in served:
            raise NoFix("one object makes this call several times")
        served.add((id(facts), use.receiver))
        require_qconfig(facts, use.receiver)


def _names(ctx: RuleContext, edit: EditBuilder, call: OpCall, numbers: list[int]) -> dict[int, str]:
    """An attribute with a stub for each tensor: one that nobody calls yet, or a new one."""
    free = _never_called(ctx, call)
    near = edit.attribute_of(edit.method(call.span).cls, QUANT_STUB)
    found: dict[int, str] = {}
    for number in numbers:
        found[number] = free.pop(0) if free else edit.add_submodule(call.span, "quant", QUANT_STUB, near=near)
    return found


def _never_called(ctx: RuleContext, call: OpCall) -> list[str]:
    """Attributes of the calling object that hold a QuantStub which no context calls."""
    found: list[str] | None = None
    for facts, use in uses(ctx, call.span):
        receiver = facts.submodules.get(use.receiver or 0)
        called = {each.owner for each in facts.op_calls.values()}
        prefix = f"{receiver.path}.".lstrip(".") if receiver is not None else "?"
        here = [
            submodule.path.removeprefix(prefix)
            for oid in stubs(facts, QUANT_STUB)
            if oid not in called and (submodule := facts.submodules[oid]).path.startswith(prefix)
        ]
        here = [name for name in here if name.isidentifier()]
        found = here if found is None else [name for name in found if name in here]
    return found or []


def _before_the_block(ctx: RuleContext, call: OpCall) -> Fix:
    """An input of the model goes through a stub before the blocks that get it."""
    edit, doubts = ctx.edits(), Doubts()
    numbers = {tensor.number for tensor in _floats(call)}
    names = [each.name for each in ctx.facts.inputs if {each.number} == numbers]
    if len(names) != 1:
        raise NoFix("not one input of the model")
    sites: dict[SpanId, None] = {}
    for other in ctx.facts.op_calls.values():
        if cause_of(other) is Cause.NO_STUB and numbers & {tensor.number for tensor in _floats(other)}:
            if not other.path:
                raise NoFix("a layer gets the input itself")
            sites[other.path[0][0]] = None
    first = next(iter(sites))
    contexts = require_only_root(ctx, first)
    for facts in contexts:
        require_qconfig(facts, root_of(facts))
        if not all(_takes_quantized(facts, site, names[0], doubts) for site in sites):
            raise NoFix("the block gets another tensor elsewhere")
    method = edit.method(first)
    name = edit.add_submodule(first, "quant", QUANT_STUB)
    for site in sites:
        written = edit.call(site)
        plain = len(written.arguments) == 1 and not written.arguments[0].star
        if not plain or written.arguments[0].value.name != names[0] or edit.repeats(site):
            raise NoFix("not a call on the input alone")
        if edit.method(site).function.node is not method.function.node:
            raise NoFix("several methods get the input")
        edit.wrap(written.arguments[0].value.place, f"{method.receiver}.{name}(", ")")
    if not any(other.spec.role is Role.QUANTIZE and other.converted for other in ctx.facts.op_calls.values()):
        _leave(ctx, edit, doubts)
    doubt_the_class(edit, method, doubts)
    return doubts.fix(edit, Message.of("fix-quantize", stub=name), Message.of("fix-quantize-reason"))


def _takes_quantized(facts: Facts, site: SpanId, name: str, doubts: Doubts) -> bool:
    """Does a block get an input of the model, and everything in it that reads the input accept a quantized one?"""
    numbers = {each.number for each in facts.inputs if each.name == name}
    found = False
    for call in facts.op_calls.values():
        mine = call.path and call.path[0][0] == site and numbers & {tensor.number for tensor in _floats(call)}
        if not mine:
            continue
        if cause_of(call) is Cause.NO_STUB:
            found = True
        elif call.spec.observation is not Observation.SHARE or call.spec.raises is not None:
            doubts.add(Message.of("fix-bind-float-reason", name=name))
    return found


def _leave(ctx: RuleContext, edit: EditBuilder, doubts: Doubts) -> None:
    """Dequantize what the model gives back, once its first stub makes it quantized."""
    spans = [returned.span for returned in ctx.facts.returns if quantized_leaves(returned)]
    for span in dict.fromkeys(spans):
        if dequantize_returns(ctx, edit, span):
            doubts.add(Message.of("fix-dequantize-list-reason"))


# --- the wrapper ------------------------------------------------------------------------------------------------


def _wrapped(ctx: RuleContext) -> Fix:
    prepared = ctx.facts.context.prepared
    if prepared is None or _has_stubs(ctx.facts) or len(ctx.facts.inputs) != 1:
        raise NoFix("no prepare call in view, a model with stubs, or several inputs")
    edit = ctx.edits()
    call = edit.call(prepared)
    model = call.argument(0, "model")
    if model is None or any(argument.keyword == "inplace" for argument in call.arguments):
        raise NoFix("a model that is prepared in place")
    wrapper = edit.spell(prepared.path, QUANT_WRAPPER)
    edit.wrap(model.value.place, f"{wrapper}(", ")")
    return edit.fix(Message.of("fix-wrapper"), Message.of("fix-wrapper-reason"), Applicability.DISPLAY)


def _has_stubs(facts: Facts) -> bool:
    return bool(stubs(facts, QUANT_STUB))
