"""What the rules about the quantization boundary share: which roots have one in view, and how it is repaired."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, Leaf, OpCall, Return, Workflow
from qlsp.diagnostics import NoFix
from qlsp.ops.spec import Role
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._rewrites import DEQUANT_STUB, QUANT_STUB, consumers, uses
from qlsp.rules.api import RuleContext
from qlsp.values.value import (
    ASSUMED_QCONFIG,
    OPEN_QCONFIG,
    Const,
    Domain,
    Origin,
    SpanId,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder


_FEEDS_QUANTIZED = re.compile(r"\bquantize_per_(?:tensor|channel)\b")
_EXPECTS = re.compile(r"\b(?:pytest\s*\.\s*)?raises\s*\(|\bassertRaises\w*\s*\(")

# --- questions about one context ------------------------------------------------------------------------------


def stubs(facts: Facts, cls: str) -> list[int]:
    """The stubs of a class in a model, by id."""
    return [oid for oid, submodule in facts.submodules.items() if submodule.cls == cls]


def is_half(ctx: RuleContext, own: str, other: str) -> bool:
    """Is the root the half of a model that has its other stub in another root in view?

    ``own`` is the class of stub that the root has, ``other`` the one that it lacks. A root that dequantizes its own
    input is the inner part of one.
    """
    if not ctx.facts.context.assumed:
        return False
    if _dequantizes_input(ctx.facts):
        return True
    if stubs(ctx.facts, other):
        return False
    return any(
        facts.context.workflow is Workflow.EAGER and stubs(facts, other) and not stubs(facts, own)
        for facts in ctx.everywhere
    )


def _dequantizes_input(facts: Facts) -> bool:
    inputs = {each.number for each in facts.inputs}
    return any(
        tensor.domain is Domain.FLOAT and not tensor.dequantized and tensor.number in inputs
        for call in facts.op_calls.values()
        if call.spec.role is Role.DEQUANTIZE
        for tensor in inputs_of(call)
    )


def is_configured(facts: Facts) -> bool:
    """Is it certain that the model has a qconfig? A root without a prepare call in view is taken to get one; where
    the call is in view, code out of view may have set one, or nobody."""
    qconfigs = [submodule.qconfig for submodule in facts.submodules.values()]
    return facts.context.assumed or ASSUMED_QCONFIG not in qconfigs and any(map(_is_static, qconfigs))


def used_inside_another(ctx: RuleContext) -> bool:
    """Is the root's class a part of another eager mode root too?"""
    return any(
        submodule.path and submodule.cls == ctx.facts.context.root
        for facts in ctx.everywhere
        if facts.context.workflow is Workflow.EAGER and facts.context.span != ctx.facts.context.span
        for submodule in facts.submodules.values()
    )


def tensors(value: Value) -> Iterator[Tensor | Unknown]:
    """The tensors of a value, and what is not known in it."""
    for _, option in options_of(value):
        if isinstance(option, (Tensor, Unknown)):
            yield option
        elif isinstance(option, TupleValue):
            for item in option.items:
                yield from tensors(item)


def is_quantized(value: Value) -> bool:
    """Is every tensor of a value quantized, in every alternative?"""
    found = list(tensors(value))
    return bool(found) and all(isinstance(each, Tensor) and each.domain is Domain.QUANTIZED for each in found)


def quantized_leaves(returned: Return) -> list[Leaf]:
    """The parts of a return statement that are certainly quantized, or hold a tensor that is."""
    return [leaf for leaf in returned.leaves if is_quantized(leaf.value) or _holds_quantized(leaf)]


def _holds_quantized(leaf: Leaf) -> bool:
    return isinstance(leaf.value, TupleValue) and any(is_quantized(item) for item in leaf.value.items)


def inputs_of(call: OpCall) -> Iterator[Tensor]:
    """The tensors that a call gets."""
    for alternative in call.alternatives:
        for operand in alternative.operands:
            if isinstance(operand.value, Tensor):
                yield operand.value


def leaves_the_model(ctx: RuleContext, call: OpCall) -> bool:
    """Is the result what the root returns in every context, and does nothing else take it?"""
    for facts, use in uses(ctx, call.span):
        made = {_made(each.output) for each in use.alternatives}
        returned = {_made(tensor) for each in facts.returns for tensor in tensors(each.value)}
        if facts.context.feeds or None in made or not made <= returned:
            return False
        if any(True for _ in consumers(facts, use)):
            return False
    return True


def _made(value: object) -> tuple[int, Origin | None] | None:
    """What tells a tensor from the others of a run."""
    return (value.number, value.origin) if isinstance(value, Tensor) else None


def unquantized(facts: Facts) -> set[int]:
    """The tensors that a QuantStub gets and that stay float nevertheless, with their views: convert does not swap
    the stub, or nobody reads its result. Those mistakes have rules of their own."""
    return {
        tensor.base
        for key, call in facts.op_calls.items()
        if call.spec.role is Role.QUANTIZE and call.owner is not None
        if not call.converted or key in facts.unread
        for tensor in inputs_of(call)
    }


def starved(ctx: RuleContext) -> list[OpCall]:
    """The calls that raise because no stub has quantized a tensor, the first one of each tensor."""
    if ctx.facts.context.workflow is not Workflow.EAGER or not is_configured(ctx.facts):
        return []
    if is_half(ctx, DEQUANT_STUB, QUANT_STUB):
        return []
    explained = unquantized(ctx.facts)
    inputs = {each.number for each in ctx.facts.inputs}
    found: dict[int, OpCall] = {}
    places: set[SpanId] = set()
    for call in ctx.facts.op_calls.values():
        if not call.alternatives or cause_of(call) is not Cause.NO_STUB or not is_swapped_layer(ctx.facts, call):
            continue
        floats = [tensor for tensor in inputs_of(call) if tensor.domain is Domain.FLOAT]
        if any(tensor.base in explained or explained and tensor.base not in inputs for tensor in floats):
            continue
        if floats and not any(tensor.base in found for tensor in floats):
            if call.span not in places:
                found.update({tensor.base: call for tensor in floats})
            places.add(call.span)
    return list({id(call): call for call in found.values()}.values())


def is_swapped_layer(facts: Facts, call: OpCall) -> bool:
    """Is the callee a module of a library class below the root? Convert swaps neither the root nor a subclass."""
    submodule = facts.submodules.get(call.owner) if call.owner is not None else None
    known = submodule is not None and submodule.path != "" and "." in submodule.cls
    return known and submodule is not None and _is_static(submodule.qconfig)


def _is_static(qconfig: object) -> bool:
    """Not a qconfig for weights alone, with which a layer takes and gives floats."""
    return not re.search(r"dynamic|weight_only", repr(qconfig), re.I)


def runs_elsewhere(ctx: RuleContext, edit: EditBuilder, facts: Facts) -> bool:
    """May code that this run did not reach call a QuantStub of the model?"""
    called = {call.owner for call in facts.op_calls.values()}
    for oid in stubs(facts, QUANT_STUB):
        names = [name for name in facts.submodules[oid].path.split(".") if not name.isdecimal()]
        if oid not in called and names and edit.matches(re.compile(rf"\.\s*{re.escape(names[-1])}\b(?!\s*[,=:])")):
            return True
    return False


def expects_failure(edit: EditBuilder, facts: Facts) -> bool:
    """Does the function that prepares the model expect something in it to raise?"""
    prepared = facts.context.prepared
    return prepared is not None and edit.chunk_matches(prepared, _EXPECTS)


def never_quantized(ctx: RuleContext) -> list[OpCall]:
    """The calls that certainly raise for want of a stub, as far as the code in view shows who calls the model."""
    found = starved(ctx)
    if not found:
        return []
    edit, context = ctx.edits(), ctx.facts.context
    files = {context.span.path, *([context.prepared.path] if context.prepared is not None else [])}
    if expects_failure(edit, ctx.facts) or any(edit.file_matches(path, _FEEDS_QUANTIZED) for path in files):
        return []
    return [] if context.assumed and runs_elsewhere(ctx, edit, ctx.facts) else found


# --- repairs ----------------------------------------------------------------------------------------------------


def require_qconfig(facts: Facts, oid: int | None) -> None:
    """A stub that is added to a module will be swapped."""
    submodule = facts.submodules.get(oid) if oid is not None else None
    if submodule is None or submodule.qconfig in (None, Const(None), OPEN_QCONFIG):
        raise NoFix("it is not known that a qconfig reaches a new stub")


def root_of(facts: Facts) -> int | None:
    """The id of the root itself."""
    return next((oid for oid, submodule in facts.submodules.items() if submodule.path == ""), None)


def require_only_root(ctx: RuleContext, span: SpanId) -> list[Facts]:
    """The contexts that run the method around a place; in each of them, its object is the root."""
    found = []
    for facts in ctx.everywhere:
        here = [c for c in facts.op_calls.values() if (c.span.path, c.span.unit) == (span.path, span.unit)]
        if not here and not any(each.span == span for each in facts.returns):
            continue
        if facts.context.workflow is Workflow.NONE:
            continue
        if facts.context.workflow is not Workflow.EAGER:
            raise NoFix("another front end uses the class")
        if any(call.receiver != root_of(facts) for call in here):
            raise NoFix("the class is a part of another model too")
        found.append(facts)
    return found


def dequantize_returns(ctx: RuleContext, edit: EditBuilder, span: SpanId) -> bool:
    """Put a DeQuantStub around what a return statement gives back quantized. True if a list is rebuilt for it.

    The statement gives the same back in every context that runs it.
    """
    contexts = require_only_root(ctx, span)
    leaves: list[frozenset[tuple[SpanId, str | None]]] = []
    for facts in contexts:
        require_qconfig(facts, root_of(facts))
        for returned in facts.returns:
            if returned.span == span:
                leaves.append(frozenset((leaf.span, leaf.container) for leaf in quantized_leaves(returned)))
    if not leaves or len(set(leaves)) != 1 or not leaves[0]:
        raise NoFix("not the same in every context")
    method = edit.method(span)
    name = edit.attribute_of(method.cls, DEQUANT_STUB) or edit.add_submodule(span, "dequant", DEQUANT_STUB)
    rebuilt = False
    for place, container in sorted(leaves[0], key=lambda leaf: leaf[0].ordinal):
        expression = edit.expression(place)
        if container is None:
            edit.wrap(expression.place, f"{method.receiver}.{name}(", ")")
        elif container == "list":
            local = edit.local_name(span, "out")
            edit.replace(expression.place, f"[{method.receiver}.{name}({local}) for {local} in {expression.operand}]")
            rebuilt = True
        else:
            raise NoFix("a container whose shape is not written out")
    return rebuilt
