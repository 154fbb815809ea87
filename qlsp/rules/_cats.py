"""A concatenation with an observer of its own, what follows from its new scale, and the way through float."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, OpCall
from qlsp.analysis.scales import Scales, is_cat
from qlsp.diagnostics import Fix, Message, NoFix
from qlsp.ops.spec import Observation, Role
from qlsp.rules._rewrites import (
    FLOAT_FUNCTIONAL,
    QUANT_STUB,
    Doubts,
    an_observer_for,
    consumers,
    dequant_stub,
    doubt_the_class,
    each_tensor,
    identity,
    outputs,
    quantized_everywhere,
    require_converted_receiver,
    require_eager,
    require_one_call,
    uses,
)
from qlsp.rules.api import RuleContext
from qlsp.values.qparams import DerivedScale
from qlsp.values.value import SpanId, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import CallAt, EditBuilder


def with_functional(ctx: RuleContext, call: OpCall) -> Fix:
    """``self.cat.cat([a, b], dim)`` with a FloatFunctional of its own."""
    edit, doubts = ctx.edits(), Doubts()
    add_functional(ctx, edit, call, doubts)
    return doubts.fix(edit, Message.of("fix-cat-functional"), Message.of("fix-cat-functional-reason"))


def add_functional(ctx: RuleContext, edit: EditBuilder, call: OpCall, doubts: Doubts) -> None:
    """The edits of R1, also for what would differ in scale from the result."""
    _add_functional(ctx, edit, call, doubts)
    join_cats(ctx, edit, call, doubts)


def _add_functional(ctx: RuleContext, edit: EditBuilder, call: OpCall, doubts: Doubts) -> None:
    method = edit.method(call.span)
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    quantized_everywhere(ctx, call.span, doubts)
    doubt_the_class(edit, method, doubts)
    site = plain_cat(edit, call)
    _as_cat(ctx, edit, call, site)
    functional = an_observer_for(ctx, edit, call.span, "cat", FLOAT_FUNCTIONAL, doubts)
    edit.replace(site.function, f"{functional}.cat")


def plain_cat(edit: EditBuilder, call: OpCall) -> CallAt:
    """The call as written, if it names the operator and shows its arguments."""
    site = edit.call(call.span)
    if edit.qualified(site.place.path, site.spelling) not in call.spec.functions:
        raise NoFix("the concatenation goes by another name")
    if any(argument.star or argument.keyword == "out" for argument in site.arguments):
        raise NoFix("arguments that a FloatFunctional has not")
    return site


def _as_cat(ctx: RuleContext, edit: EditBuilder, call: OpCall, site: CallAt) -> None:
    """Change the arguments of a stacking function to those of ``FloatFunctional.cat``."""
    edit.rename_keyword(site, "axis", "dim")
    edit.rename_keyword(site, "tensors", "x")
    if call.spec.op == "cat":
        return
    tensors = site.argument(0, "tensors")
    if tensors is None:
        raise NoFix("no tensors")
    if call.spec.op == "stack":
        dim = site.argument(1, "dim", "axis")
        text = dim.value.text if dim is not None else "0"
        if not re.fullmatch(r"-?\d+|[A-Za-z_]\w*", text):
            raise NoFix("a dim that is computed")
        each_tensor(edit, tensors.elements, lambda operand: f"{operand}.unsqueeze({text})")
        return
    lowest, joined_dim = {"hstack": (2, 1), "vstack": (2, 0), "dstack": (3, 2), "column_stack": (2, 1)}[call.spec.op]
    for alternative in call.alternatives:
        for operand in alternative.operands:
            if not isinstance(operand.value, Tensor) or rank(ctx.facts, operand.value) < lowest:
                raise NoFix("the rank of an input is not known")
    edit.add_argument(call.span, f"dim={joined_dim}")


RANKS = {"conv1d": 2, "conv2d": 3, "conv3d": 4}
"""The lowest rank of the output of an operator."""
SAME_RANK = (
    "relu", "relu6", "sigmoid", "tanh", "hardtanh", "leaky_relu", "hardswish", "dropout", "batch_norm2d", "clamp",
)  # fmt: skip


def rank(facts: Facts, tensor: Tensor, depth: int = 8) -> int:
    """A rank that the tensor has at least, 0 if nothing is known."""
    for call in facts.op_calls.values():
        for alternative in call.alternatives:
            output = alternative.output
            if not isinstance(output, Tensor) or output.number != tensor.number:
                continue
            if call.spec.role in (Role.QUANTIZE, Role.DEQUANTIZE):
                continue
            known = RANKS.get(call.spec.op.removesuffix("_relu"))
            if known is not None:
                return known
            first = alternative.operands[0].value if alternative.operands else None
            if call.spec.op in SAME_RANK and isinstance(first, Tensor) and depth and first.number != tensor.number:
                return rank(facts, first, depth - 1)
            return 0
    return 0


def through_float(ctx: RuleContext, call: OpCall) -> Fix:
    """``self.quant(torch.cat([self.dequant(a), self.dequant(b)]))``: always legal, always a detour."""
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    if edit.repeats(call.span):
        raise NoFix("a concatenation in a loop")
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    require_one_call(ctx, call.span)
    doubt_the_class(edit, method, doubts)
    site = edit.call(call.span)
    if any(argument.star or argument.keyword == "out" for argument in site.arguments):
        raise NoFix("arguments that are not shown")
    tensors = site.argument(0, "tensors", "x")
    if tensors is None:
        raise NoFix("no tensors")
    dequant = f"{method.receiver}.{dequant_stub(ctx, edit, call)}"
    if tensors.elements is not None:
        for element in tensors.elements:
            edit.replace(element.place, f"{dequant}({element.text})")
    else:
        edit.replace(tensors.value.place, f"[{dequant}(tensor) for tensor in {tensors.value.operand}]")
    quant = edit.add_submodule(call.span, "quant_cat", QUANT_STUB)
    join_cats(ctx, edit, call, doubts)
    edit.wrap(site.place, f"{method.receiver}.{quant}(", ")")
    doubts.add(Message.of("fix-cat-through-float-reason"))
    return doubts.fix(edit, Message.of("fix-cat-through-float"), Message.of("fix-cat-through-float-reason"))


def raw_cats(facts: Facts, call: OpCall) -> list[OpCall]:
    """The raw concatenations that a call's output reaches without a change of scale."""
    found: dict[SpanId, OpCall] = {}
    frontier, seen = [call], {id(call)}
    while frontier:
        for consumer in consumers(facts, frontier.pop()):
            if id(consumer) in seen:
                continue
            seen.add(id(consumer))
            if is_cat(consumer):
                found.setdefault(consumer.span, consumer)
                frontier.append(consumer)
            elif consumer.spec.observation is Observation.SHARE and consumer.spec.role is None:
                frontier.append(consumer)
    return list(found.values())


def join_cats(
    ctx: RuleContext, edit: EditBuilder, call: OpCall, doubts: Doubts, done: set[SpanId] | None = None
) -> bool:
    """Add an observer to the raw concatenations in which a new scale of a call would differ from the others.

    True if there are any. Those whose inputs differ already have a finding, and a fix, of their own; where no such fix
    is certain and the new scale would be the one that wins, the loss there may grow.
    """
    done = {call.span} if done is None else done
    before, lasting = len(done), dict[SpanId, OpCall]()
    for facts, use in uses(ctx, call.span):
        for cat, mixed in _torn(facts, use):
            if mixed:
                lasting.setdefault(cat.span, cat)
            elif cat.span not in done:
                done.add(cat.span)
                _add_functional(ctx, edit, cat, doubts)
    later = [] if doubts.reasons else [cat for span, cat in lasting.items() if span not in done]
    for cat in later:
        if not _has_certain_fix(ctx, cat):
            doubts.add(Message.of("fix-doubt-later-cat", spelling=cat.spelling))
            break
    return len(done) > before


def _has_certain_fix(ctx: RuleContext, cat: OpCall) -> bool:
    """Would a concatenation get an observer by a SAFE fix?"""
    doubts = Doubts()
    try:
        _add_functional(ctx, ctx.edits(), cat, doubts)
    except NoFix:
        return False
    return not doubts.reasons


def _torn(facts: Facts, producer: OpCall) -> Iterator[tuple[OpCall, bool]]:
    """The raw concatenations that have several scales once a call's output gets a new one, and whether they had before.

    Follows the new scale in the order of execution; a concatenation that is torn gets a new one itself. Of those that
    had several before, only the first ones whose scale it decides: their own fix decides the scale of what follows.
    """
    scales = Scales(facts)
    new: dict[tuple[object, ...], object] = dict.fromkeys(outputs(producer), "new")
    behind: set[tuple[object, ...]] = set()
    started = False
    for call in facts.op_calls.values():
        if call is producer:
            started = True
            continue
        labels = [
            [new.get(identity(operand.value)) for operand in alternative.operands] for alternative in call.alternatives
        ]
        if not started or not any(label is not None for each in labels for label in each):
            continue
        if is_cat(call):
            torn = any(len(set(each)) > 1 for each in labels)
            verdict = scales.verdict(call).outcome
            if torn and verdict == "same":
                yield call, False
                new.update(dict.fromkeys(outputs(call), call.span))
                continue
            if verdict == "mixed" and _first(call) in new:
                if _first(call) not in behind:
                    yield call, True
                behind.update(outputs(call))
        elif call.spec.role is not None or call.spec.observation not in (Observation.SHARE, Observation.DERIVED):
            continue
        label = labels[0][0] if labels[0] else None
        if label is not None:
            new.update({output: _derived(call, label) for output in outputs(call)})
            if _first(call) in behind:
                behind.update(outputs(call))


def _first(call: OpCall) -> tuple[object, ...]:
    """The first operand of a call."""
    operands = call.alternatives[0].operands
    return identity(operands[0].value) if operands else (None,)


def _derived(call: OpCall, label: object) -> object:
    """The label of an output: another one for a scale that is computed from the input's."""
    output = call.alternatives[0].output
    scale = output.qparams.scale if isinstance(output, Tensor) and output.qparams is not None else None
    derived = call.spec.observation is Observation.DERIVED and isinstance(scale, DerivedScale)
    return (scale.operator, scale.arguments, label) if derived and isinstance(scale, DerivedScale) else label
