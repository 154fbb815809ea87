"""A way through float: the operands are dequantized, the call runs in float, the result is quantized again.

The module that the call is made on must not be quantized itself: a line ``self.module.qconfig = None`` behind its
construction keeps it float where convert or an observer would touch it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qlsp.analysis.facts import OpCall, Submodule, Workflow
from qlsp.diagnostics import Fix, Message, NoFix
from qlsp.ops.spec import OpSpec, Role, Shape
from qlsp.rules._boundary import leaves_the_model
from qlsp.rules._layers import Reach, gets_quantized, reach
from qlsp.rules._rewrites import (
    DEQUANT_STUB,
    QUANT_STUB,
    Doubts,
    an_observer_for,
    consumers,
    dequant_stub,
    doubt_the_class,
    require_converted_receiver,
    require_eager,
    require_stub_call,
    uses,
)
from qlsp.rules.api import RuleContext
from qlsp.values.value import Domain, SpanId, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder
    from qlsp.text import Place

ONE_TENSOR = (Shape.NEW, Shape.SAME, Shape.VIEW, Shape.PART)


def stays_float(spec: OpSpec) -> bool:
    """True if nothing in prepare and convert touches a module of this class: it has no parameters to keep."""
    return not (spec.weights or spec.swapped or spec.observed)


def island(ctx: RuleContext, call: OpCall) -> Fix:
    """``self.quant(op(self.dequant(x)))``; ``op(self.dequant(x))`` where the result is dequantized right away."""
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    if call.spec.shape not in ONE_TENSOR:
        raise NoFix("a result of several tensors")
    method = edit.method(call.span)
    doubt_the_class(edit, method, doubts)
    site = edit.call(call.span)
    if call.owner is not None:
        attribute = require_stub_call(ctx, edit, call.span)
        if not stays_float(call.spec):
            keep_float(ctx, edit, call, attribute)
    places = quantized_operands(ctx, edit, call)
    doubts.add(Message.of("fix-island-reason"))
    behind = nested_dequant(ctx, edit, call, site.place)
    last = behind is not None or leaves_the_model(ctx, call)
    if behind is not None:
        stub = edit.text(edit.call(behind).function)
        edit.strip_call(behind)
    else:
        stub = f"{method.receiver}.{dequant_stub(ctx, edit, call)}"
    if not last:
        again = an_observer_for(ctx, edit, call.span, f"quant_{hint(call)}", QUANT_STUB, doubts)
        edit.insert(site.place.path, site.place.span.start, f"{again}(", site.place.span.segment)
    for place in places:
        edit.wrap(place, f"{stub}(", ")")
    if not last:
        edit.insert(site.place.path, site.place.span.end, ")", site.place.span.segment)
    title = "fix-island-end" if last else "fix-island"
    return doubts.fix(edit, Message.of(title), Message.of("fix-island-reason"))


def hint(call: OpCall) -> str:
    """A word for the attribute of the stub behind a call."""
    return call.spec.op.removeprefix("lazy_")


def quantized_operands(ctx: RuleContext, edit: EditBuilder, call: OpCall) -> list[Place]:
    """The operands that are quantized in some context; none of them may hide in an argument list."""
    found: dict[SpanId, set[Domain]] = {}
    for facts, use in uses(ctx, call.span):
        if facts.context.workflow not in (Workflow.EAGER, Workflow.NONE):
            continue
        for alternative in use.alternatives:
            for operand in alternative.operands:
                domain = operand.value.domain if isinstance(operand.value, Tensor) else Domain.UNKNOWN
                if operand.span is None:
                    raise NoFix("an operand that is not written out")
                found.setdefault(operand.span, set()).add(domain)
    wanted = [span for span, domains in found.items() if Domain.QUANTIZED in domains]
    if not wanted:
        raise NoFix("no operand is quantized")
    return [edit.expression(span).place for span in wanted]


def keep_float(ctx: RuleContext, edit: EditBuilder, call: OpCall, attribute: str) -> None:
    """``self.module.qconfig = None`` behind the line that makes the module."""
    method = edit.method(call.span)
    made = edit.assigned(method.cls, attribute)
    spans = {
        layer.span
        for facts, use in uses(ctx, call.span)
        if use.owner is not None and (layer := facts.submodules.get(use.owner)) is not None
    }
    if len(spans) != 1 or (span := spans.pop()) is None:
        raise NoFix("the module is made in several places")
    place, line = edit.call(span).place, made.place
    if place.path != line.path or not line.span.start <= place.span.start <= line.span.end:
        raise NoFix("the module is made elsewhere")
    edit.insert_after(span, f"{edit.method(span).receiver}.{attribute}.qconfig = None")


def nested_dequant(ctx: RuleContext, edit: EditBuilder, call: OpCall, place: Place) -> SpanId | None:
    """The call of a DeQuantStub whose only argument is this call, in every context."""
    found: set[SpanId | None] = set()
    for facts, use in uses(ctx, call.span):
        behind = [other.span for other in consumers(facts, use)]
        one = [other for other in consumers(facts, use) if other.spec.role is Role.DEQUANTIZE and other.owner]
        found.add(one[0].span if len(behind) == 1 and one else None)
    if len(found) != 1 or (span := found.pop()) is None:
        return None
    site = edit.call(span)
    return span if len(site.arguments) == 1 and site.arguments[0].value.inner == place else None


# --- a module in a container ------------------------------------------------------------------------------------


def island_in_container(ctx: RuleContext, call: OpCall) -> Fix:
    """``nn.Sequential(DeQuantStub(), nn.SiLU(), QuantStub())`` in place of a module without parameters."""
    edit, doubts = ctx.edits(), Doubts()
    if call.owner is None or not stays_float(call.spec) or call.spec.shape not in ONE_TENSOR:
        raise NoFix("a module that has parameters or observers, or several results")
    layer = ctx.facts.submodules.get(call.owner)
    if layer is None or layer.span is None:
        raise NoFix("the module is made out of view")
    for facts in ctx.everywhere:
        made = {number: other for number, other in facts.submodules.items() if other.span == layer.span}
        _require_quantized_calls(facts.context.workflow, list(facts.op_calls.values()), made)
    site = edit.call(layer.span)
    stubs = [edit.spell(site.place.path, name) for name in (DEQUANT_STUB, QUANT_STUB)]
    sequential = edit.spell(site.place.path, "torch.nn.Sequential")
    edit.wrap(site.place, f"{sequential}({stubs[0]}(), ", f", {stubs[1]}())")
    doubts.add(Message.of("fix-island-reason"))
    return doubts.fix(edit, Message.of("fix-island-container"), Message.of("fix-island-reason"))


def _require_quantized_calls(workflow: Workflow, calls: list[OpCall], made: dict[int, Submodule]) -> None:
    """Each of these modules is called once, on a quantized tensor, and a qconfig reaches it."""
    count: dict[int, int] = {}
    for call in calls:
        if call.owner is None or call.owner not in made or workflow is Workflow.NONE:
            continue
        count[call.owner] = count.get(call.owner, 0) + 1
        if workflow is not Workflow.EAGER or not gets_quantized(call) or call.loop:
            raise NoFix("the module gets float tensors too")
        if reach(made[call.owner]) not in (Reach.YES, Reach.ASSUMED):
            raise NoFix("no qconfig reaches the module")
    if any(number > 1 for number in count.values()):
        raise NoFix("one module is called several times")
