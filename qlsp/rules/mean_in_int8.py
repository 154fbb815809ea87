"""A mean or a global average pool runs in int8 although its result could have a finer scale.

## What it does
Flags `mean` over dimensions and adaptive average pooling to one value per channel on a quantized tensor, if the result
goes to a DeQuantStub or to the layers of a head behind which the model ends.

## Why it matters
The average of many values has a smaller range than the values, but its int8 kernel rounds to the scale of its input.
Measured with torch 2.13 behind a ReLU: 27.5 dB in int8, 48.1 dB behind the DeQuantStub (qnnpack: 33.3 and 49.8). With a
Linear behind it: 31.4 dB, and 41.6 dB if the average is taken in float and quantized again with a scale of its own.
The more layers stand before a head, the less that is worth: with batch norm 33 and 41 dB behind one layer, 40 and 42
behind three, nothing behind six; a ResNet-18 gains 0.3 dB.

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 3)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.conv(self.quant(x))
            x = x.mean((2, 3))  # QL412
            return self.dequant(x)

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 3)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.conv(self.quant(x))
            return self.dequant(x).mean((2, 3))

## Fix safety
Unsafe: the average moves behind the DeQuantStub, or into float between two stubs if layers follow. The float model
stays the same; the border of the quantized region moves.

## When it is silent
On max pooling and on average pooling with a window (their results keep the range), in gates such as squeeze and
excitation (measured: no difference), before a head where more than three layers come first, where the result meets
another tensor, and behind a DeQuantStub.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, Severity
from qlsp.ops.spec import Observation, Role
from qlsp.rules._boundary import tensors
from qlsp.rules._islands import island, quantized_operands
from qlsp.rules._layers import constant, gets_quantized
from qlsp.rules._rewrites import (
    Doubts,
    call_of,
    consumers,
    dequant_stub,
    doubt_the_class,
    require_converted_receiver,
    require_eager,
    require_stub_call,
    uses,
)
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor, Unknown

META = RuleMeta(code="QL412", name="mean-in-int8", severity=Severity.INFO, since="0.1", fix="unsafe")

POOLS = frozenset(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"))
HEAD = frozenset(("linear", "linear_relu", "conv1d", "conv2d", "conv3d", "conv1d_relu", "conv2d_relu", "conv3d_relu"))
LAYERS = 3
"""So many layers may stand before an average with a head; behind more the rounding is lost in their errors."""

KEPT = (Observation.SHARE, Observation.FIXED)


class End(Enum):
    """Where the result of an average goes: out of the quantized region, or there through the layers of a head."""

    OUT = "out"
    HEAD = "head"


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each average that rounds to the scale of its input without need."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for call in ctx.facts.op_calls.values():
        if not _averages(call) or not gets_quantized(call):
            continue
        ends = _ends(ctx.facts, call)
        if ends is None or ends is End.HEAD and _layers_before(ctx.facts, call) > LAYERS:
            continue
        name = "mean-in-int8" if ends is End.OUT else "mean-in-int8-head"
        message = Message.of(name, spelling=call.spelling)
        yield Finding(call.span, message, assumes=assumption(ctx), subject=(call.span, call.path))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Take the average in float."""
    call = call_of(ctx, finding.subject)
    ends = {
        _ends(facts, use) if gets_quantized(use) else None
        for facts, use in uses(ctx, call.span)
        if facts.context.workflow is not Workflow.NONE
    }
    if ends == {End.OUT}:
        yield from attempts(lambda: _behind(ctx, call))
    elif ends == {End.HEAD}:
        yield from attempts(lambda: island(ctx, call))


def _averages(call: OpCall) -> bool:
    """A mean over some dimensions, or one value for each channel."""
    arguments = {str(pair[0]): pair[1] for pair in call.arguments if isinstance(pair, tuple) and len(pair) == 2}
    if call.spec.op == "mean":
        return any(name in arguments for name in ("dim", "axis"))
    if call.spec.op not in POOLS:
        return False
    size = arguments.get("output_size", arguments.get("0"))
    parts = size if isinstance(size, tuple) and constant(size) is None else (size,)
    return bool(parts) and all(constant(part) == "1" for part in parts)


def _ends(facts: Facts, call: OpCall) -> End | None:
    """Where the result goes, None if it meets another tensor, never leaves the quantized region, or passes
    ``LAYERS`` layers, whose own rounding hides that of the average (measured with three: 0 dB)."""
    frontier, seen, head, left = [call], {id(call)}, 0, False
    while frontier:
        behind = list(consumers(facts, frontier.pop()))
        if not behind:
            return None
        for consumer in behind:
            if id(consumer) in seen:
                continue
            seen.add(id(consumer))
            if consumer.spec.role is Role.DEQUANTIZE:
                left = True
                continue
            one = all(len(alternative.operands) == 1 for alternative in consumer.alternatives)
            layer = consumer.spec.op in HEAD and consumer.converted
            if not one or consumer.spec.role is not None or not (layer or consumer.spec.observation in KEPT):
                return None
            head += layer
            if head >= LAYERS:
                return None
            frontier.append(consumer)
    if not left:
        return None
    return End.HEAD if head else End.OUT


def _layers_before(facts: Facts, call: OpCall) -> int:
    """The layers with weights on the longest way to a call; more than ``LAYERS`` where one is called in a loop of
    unknown length, or gets a tensor of which nothing is known."""
    depth: dict[int, int] = {}
    for each in facts.op_calls.values():
        given = [operand.value for alternative in each.alternatives for operand in alternative.operands]
        before = max((_depth(depth, value) for value in given), default=0)
        if each is call:
            return before
        own = (LAYERS + 1 if each.loop else 1) if each.spec.weights else 0
        for alternative in each.alternatives:
            for output in tensors(alternative.output):
                if isinstance(output, Tensor):
                    depth[output.number] = max(depth.get(output.number, 0), before + own)
    return 0


def _depth(depth: dict[int, int], value: Tensor | Unknown) -> int:
    if isinstance(value, Unknown) or value.domain is Domain.UNKNOWN:
        return LAYERS + 1
    return depth.get(value.number, 0)


def _behind(ctx: RuleContext, call: OpCall) -> Fix:
    """Dequantize the operand; the DeQuantStub call that comes later goes away if it has no other input."""
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    if call.owner is not None:
        require_stub_call(ctx, edit, call.span)
    method = edit.method(call.span)
    doubt_the_class(edit, method, doubts)
    places = quantized_operands(ctx, edit, call)
    stub = f"{method.receiver}.{dequant_stub(ctx, edit, call)}"
    for place in places:
        edit.wrap(place, f"{stub}(", ")")
    later = _later(ctx, call)
    if later is not None and edit.method(later.span).function.node is method.function.node:
        outer, inner = edit.call(later.span), edit.call(call.span)
        if edit.text(outer.function) == stub and len(outer.arguments) == 1:
            nested = outer.place.span.start <= inner.place.span.start and inner.place.span.end <= outer.place.span.end
            if nested:
                edit.strip_call(later.span)
            else:
                edit.unwrap_call(later.span)
    reason = Message.of("fix-mean-reason")
    return edit.fix(Message.of("fix-mean"), reason, Applicability.UNSAFE)


def _later(ctx: RuleContext, call: OpCall) -> OpCall | None:
    """The only DeQuantStub call that the result reaches, if it gets nothing else in any context."""
    found: dict[object, OpCall] = {}
    fed: dict[object, int] = {}
    for facts, use in uses(ctx, call.span):
        frontier, seen = [use], {id(use)}
        while frontier:
            for consumer in consumers(facts, frontier.pop()):
                if id(consumer) in seen:
                    continue
                seen.add(id(consumer))
                if consumer.spec.role is Role.DEQUANTIZE:
                    found[consumer.span] = consumer
                    fed[consumer.span] = fed.get(consumer.span, 0) + 1
                else:
                    frontier.append(consumer)
    if len(found) != 1:
        return None
    (later,) = found.values()
    whole = uses(ctx, later.span)
    alone = all(len(other.alternatives) == 1 for _, other in whole) and len(whole) == fed[later.span]
    return later if alone else None
