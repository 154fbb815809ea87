"""What the rules about FloatFunctionals share: those that convert does not find, and how a call is spelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qlsp.analysis.facts import FunctionalUse, Keeping, OpCall, Stray, Workflow
from qlsp.analysis.scales import Scales, is_cat
from qlsp.diagnostics import NoFix
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._rewrites import FLOAT_FUNCTIONAL, uses
from qlsp.rules.api import RuleContext
from qlsp.values.value import Domain, SpanId, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

Q_FUNCTIONAL = "torch.ao.nn.quantized.QFunctional"
FUNCTIONALS = (FLOAT_FUNCTIONAL, Q_FUNCTIONAL)


@dataclass(frozen=True, slots=True)
class Loss:
    """A call through a FloatFunctional that convert does not find: the converted model raises, or, with a
    concatenation, joins tensors of different scales."""

    stray: Stray
    call: OpCall
    raises: str | None

    @property
    def key(self) -> tuple[object, ...]:
        """What a finding keeps of it."""
        return (self.call.span, self.call.path)


def losses(ctx: RuleContext, kind: Keeping) -> list[tuple[Stray, list[Loss]]]:
    """The FloatFunctionals of an eager mode model that are kept where convert does not find them, and what that
    costs. Those that only meet float tensors, or tensors of one scale, cost nothing."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return []
    scales = Scales(ctx.facts)
    found = []
    for stray in ctx.facts.strays.values():
        if stray.kind is not kind or FLOAT_FUNCTIONAL not in stray.classes:
            continue
        lost = []
        for use in _uses(ctx, stray):
            call = ctx.facts.op_calls.get((use.span, use.path))
            if call is not None and _loses(scales, call):
                raises = next((each.raises for each in call.alternatives if each.raises is not None), None)
                lost.append(Loss(stray, call, raises))
        if lost:
            found.append((stray, lost))
    return found


def sites(ctx: RuleContext, stray: Stray) -> set[SpanId]:
    """The places where the members of a stray are used, in every context."""
    found: set[SpanId] = set()
    for facts in ctx.everywhere:
        same = facts.strays.get((stray.span, stray.kind))
        members = same.members if same is not None else frozenset()
        found.update(call.span for call in facts.op_calls.values() if call.owner in members)
    return found


def strays_cat(ctx: RuleContext, call: OpCall) -> bool:
    """Is a concatenation one of a FloatFunctional that convert does not find? That is the mistake then."""
    if call.owner is None:
        return False
    return any(FLOAT_FUNCTIONAL in stray.classes and call.owner in stray.members for stray in ctx.facts.strays.values())


def functional_at(ctx: RuleContext, edit: EditBuilder, span: SpanId) -> tuple[str, str]:
    """Attribute and method of a call ``self.attribute.method(...)`` of the receiver's own FloatFunctional."""
    receiver, *rest = (edit.call(span).spelling or "").split(".")
    if receiver != edit.method(span).receiver or len(rest) != 2:
        raise NoFix("not a method of an attribute of the receiver")
    for facts, call in uses(ctx, span):
        owner, holder = facts.submodules.get(call.owner or 0), facts.submodules.get(call.receiver or 0)
        if owner is None or holder is None or owner.path != f"{holder.path}.{rest[0]}".lstrip("."):
            raise NoFix("not the call of the receiver's own FloatFunctional")
    return rest[0], rest[1]


def aliased_at(ctx: RuleContext, edit: EditBuilder, span: SpanId) -> tuple[str, str]:
    """The same for a call ``name.method(...)`` of a local name for it."""
    name, dot, operation = (edit.call(span).spelling or "").partition(".")
    if not dot or "." in operation or name == edit.method(span).receiver:
        raise NoFix("not a method of a name")
    attributes = set()
    for facts, call in uses(ctx, span):
        owner, holder = facts.submodules.get(call.owner or 0), facts.submodules.get(call.receiver or 0)
        if owner is None or holder is None or not owner.path.startswith(f"{holder.path}.".lstrip(".")):
            raise NoFix("not the call of the receiver's own FloatFunctional")
        attributes.add(owner.path.removeprefix(f"{holder.path}.".lstrip(".")))
    attribute = attributes.pop()
    if attributes or not attribute.isidentifier():
        raise NoFix("not one attribute of the receiver")
    return attribute, operation


def _uses(ctx: RuleContext, stray: Stray) -> list[FunctionalUse]:
    return [
        use
        for use in ctx.facts.functional_uses.values()
        if use.owner in stray.members and use.cls == FLOAT_FUNCTIONAL
    ]


def _loses(scales: Scales, call: OpCall) -> bool:
    if cause_of(call) is Cause.NOT_SWAPPED:
        return True
    if not is_cat(call):
        return False
    outcome = scales.verdict(call).outcome
    return outcome == "mixed" or outcome == "unknown" and _quantized(call)


def _quantized(call: OpCall) -> bool:
    """Every operand that is shown is certainly quantized."""
    return all(
        isinstance(operand.value, Tensor) and operand.value.domain is Domain.QUANTIZED
        for alternative in call.alternatives
        for operand in alternative.operands
    )
