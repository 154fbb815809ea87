"""One scale for the inputs of a concatenation: one stub behind it, one on every branch, observers that are tied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, Mode, OpCall, Workflow
from qlsp.analysis.scales import Scales, is_cat
from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.ops.spec import Observation, Role
from qlsp.rules._rewrites import Doubts, consumers, doubt_the_class, require_one_call, uses
from qlsp.rules.api import RuleContext
from qlsp.values.qparams import ObservedScale
from qlsp.values.value import Domain, SpanId, Tensor, Unknown

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder, Expression

PREPARE = "torch.ao.quantization.prepare"
INDEXED = ("torch.nn.Sequential", "torch.nn.ModuleList")
_PATH = re.compile(r"(?:(?!__)[^\W\d]\w*|\d+)(?:\.(?:(?!__)[^\W\d]\w*|\d+))*")
_FUSES = re.compile(r"\bfuse\w*\s*\(")
_COMPUTED_NAME = re.compile(
    r"\b(?:[gs]et|has|del)attr\(\s*[^,()]+,(?!\s*(?:'\w+'|\"\w+\")\s*[,)])|\bget_submodule\(\s*(?![\s'\"])"
)
"""Text that reaches an attribute by a name that does not stand there."""


def with_one_stub(ctx: RuleContext, call: OpCall) -> Fix:
    """``self.quant(torch.cat([x, y], dim))`` where every input is a bare stub output."""
    edit, doubts = ctx.edits(), Doubts()
    add_one_stub(ctx, edit, call, doubts)
    return doubts.fix(edit, Message.of("fix-cat-one-stub"), Message.of("fix-cat-one-stub-reason"))


def add_one_stub(ctx: RuleContext, edit: EditBuilder, call: OpCall, doubts: Doubts) -> None:
    """The edits of R2."""
    method = edit.method(call.span)
    if edit.repeats(call.span):
        raise NoFix("a concatenation in a loop")
    doubt_the_class(edit, method, doubts)
    site = edit.call(call.span)
    if site.spelling is None or any(argument.star or argument.keyword == "out" for argument in site.arguments):
        raise NoFix("arguments that are not shown")
    stubs = _bare_stubs(ctx, call)
    for facts, _ in uses(ctx, call.span):
        if facts.context.workflow not in (Workflow.EAGER, Workflow.NONE):
            raise NoFix(f"{facts.context.root} is for another front end")
    require_one_call(ctx, call.span)
    tensors = site.argument(0, "tensors")
    if tensors is None:
        raise NoFix("no tensors")
    if tensors.each is not None and len({stub.span for stub in stubs}) == 1:
        stubs = stubs[:1]
        elements: tuple[Expression, ...] = (tensors.each,)
    elif tensors.elements is not None and len(tensors.elements) == len(stubs):
        elements = tensors.elements
    else:
        raise NoFix("a list that is not written out")
    names: list[str] = []
    for element, stub in zip(elements, stubs, strict=True):
        if edit.method(stub.span).function.node is not method.function.node:
            raise NoFix("a stub called in another method")
        names.append(edit.receiver_attribute(stub.span))
        _feeds_only(ctx, edit, stub, call, element)
        edit.unwrap_call(stub.span)
    sources = {edit.constructor(method.cls, name) for name in names}
    if len(sources) != 1:
        raise NoFix("stubs of different arguments")
    counts = {name: names.count(name) for name in names}
    kept = next((name for name in names if edit.uses_of(method.cls, name) == counts[name] + 1), None)
    if kept is None:
        raise NoFix("every stub has other uses")
    for name in counts:
        if name != kept and not edit.matches(_COMPUTED_NAME):
            edit.remove_submodule(method.cls, name, counts[name])
    edit.wrap(site.place, f"{method.receiver}.{kept}(", ")")


def _bare_stubs(ctx: RuleContext, call: OpCall) -> list[OpCall]:
    """The stub calls whose outputs are the inputs of a concatenation, the same in all contexts."""
    found: list[tuple[SpanId, ...]] = []
    result: list[OpCall] = []
    for facts, use in uses(ctx, call.span):
        qconfigs = set()
        for alternative in use.alternatives:
            stubs = [_stub_of(facts, operand.value) for operand in alternative.operands]
            found.append(tuple(stub.span for stub in stubs))
            result = stubs
            for stub in stubs:
                submodule = facts.submodules.get(stub.owner) if stub.owner is not None else None
                if submodule is None or stub.receiver != use.receiver:
                    raise NoFix("a stub of another module")
                qconfigs.add(submodule.qconfig)
        if len(qconfigs) > 1:
            raise NoFix("stubs of different qconfigs")
    if len(set(found)) != 1:
        raise NoFix("the inputs depend on the context")
    return result


def _stub_of(facts: Facts, value: Tensor | Unknown) -> OpCall:
    """The stub call whose very output a tensor is."""
    if isinstance(value, Tensor) and value.origin is not None:
        producer = facts.op_calls.get((value.origin.span, value.origin.path))
        if producer is not None and producer.spec.role is Role.QUANTIZE and producer.owner is not None:
            outputs = {a.output.number for a in producer.alternatives if isinstance(a.output, Tensor)}
            inputs = [a.operands[0].value for a in producer.alternatives]
            floats = all(isinstance(v, Tensor) and v.domain is not Domain.QUANTIZED for v in inputs)
            if value.number in outputs and floats:
                return producer
    raise NoFix("an input is no bare stub output")


def _feeds_only(ctx: RuleContext, edit: EditBuilder, stub: OpCall, cat: OpCall, element: Expression) -> None:
    """The stub call is the list member itself, or a name that is read there and nowhere else."""
    for facts, use in uses(ctx, stub.span):
        for consumer in consumers(facts, use):
            if consumer.span != cat.span:
                raise NoFix("a stub output with another use")
    if not edit.feeds_only(stub.span, cat.span, element):
        raise NoFix("a stub output that is read elsewhere")


def with_shared_stub(ctx: RuleContext, call: OpCall) -> Fix:
    """One stub called on every branch: right after calibration, wrong in training."""
    if ctx.facts.context.mode is not Mode.PTQ:
        raise NoFix("the mode is not known to be post-training quantization")
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    stubs = _bare_stubs(ctx, call)
    require_one_call(ctx, call.span)
    for facts, _ in uses(ctx, call.span):
        if facts.context.workflow is not Workflow.EAGER or facts.context.mode is not Mode.PTQ:
            raise NoFix("not post-training quantization everywhere")
    first = edit.receiver_attribute(stubs[0].span)
    for stub in stubs[1:]:
        for facts, use in uses(ctx, stub.span):
            if any(consumer.span != call.span for consumer in consumers(facts, use)):
                raise NoFix("a stub output with another use")
        name = edit.receiver_attribute(stub.span)
        if edit.constructor(method.cls, name) != edit.constructor(method.cls, first):
            raise NoFix("stubs of different arguments")
        if name != first:
            edit.replace(edit.call(stub.span).function, f"{method.receiver}.{first}")
            edit.remove_submodule(method.cls, name)
    doubts.add(Message.of("fix-cat-shared-stub-reason"))
    return doubts.fix(edit, Message.of("fix-cat-shared-stub"), Message.of("fix-cat-shared-stub-reason"))


def with_tied_observers(ctx: RuleContext, call: OpCall) -> Fix:
    """``p.b.activation_post_process = p.a.activation_post_process`` after prepare: one observer for all branches.

    Right after calibration only, and only where every model that runs the concatenation is prepared in view.
    """
    edit = ctx.edits()
    lines: dict[SpanId, list[str]] = {}
    contexts = _contexts(ctx, call)
    for facts in contexts:
        prepare = facts.context.prepared
        if prepare is None or facts.context.workflow is not Workflow.EAGER or facts.context.mode is not Mode.PTQ:
            raise NoFix("not prepared in view for post-training quantization")
        same = [other for other in ctx.everywhere if other.context.prepared == prepare]
        if not all(any(other is each for each in contexts) for other in same):
            raise NoFix("prepare gets other models too")
        site = edit.call(prepare)
        if edit.qualified(site.place.path, site.spelling) != PREPARE:
            raise NoFix("no plain prepare")
        name = edit.result_name(prepare)
        added = [f"{name}{other} = {name}{first}" for first, other in _ties(facts, edit, call)]
        if lines.setdefault(prepare, added) != added:
            raise NoFix("prepare gets models of different structure")
    for prepare, added in lines.items():
        for line in added:
            edit.insert_after(prepare, line)
    reason = Message.of("fix-cat-tied-reason")
    return replace(edit.fix(Message.of("fix-cat-tied"), reason, Applicability.UNSAFE), last=True)


def _contexts(ctx: RuleContext, call: OpCall) -> list[Facts]:
    found: list[Facts] = []
    for facts, _ in uses(ctx, call.span):
        if not any(facts is other for other in found):
            found.append(facts)
    return found


def _ties(facts: Facts, edit: EditBuilder, call: OpCall) -> Iterator[tuple[str, str]]:
    """The observers of a concatenation's inputs as paths in the prepared model: the first, and one to be replaced.

    Nothing else may change: concatenations of one scale keep one, and this one gets one.
    """
    scales = Scales(facts)
    tied = dict(facts.ties)
    calls = [other for other in facts.op_calls.values() if other.span == call.span]
    pairs: dict[tuple[int, int], tuple[str, str]] = {}
    for use in calls:
        owners = list(dict.fromkeys(_observed_by(operand.value) for a in use.alternatives for operand in a.operands))
        first = next(iter(owners), None)
        if any(owner in facts.ties for owner in owners):
            raise NoFix("an observer that is tied already")
        if first is None or len({_qconfig(facts, owner) for owner in owners}) != 1:
            raise NoFix("observers of different qconfigs")
        for other in owners[1:]:
            pairs[first, other] = (_slot(facts, edit, first), _slot(facts, edit, other))
            tied[first] = tied.setdefault(first, ("one observer", first))
            tied[other] = tied[first]
    after = Scales(replace(facts, ties=tied))
    for cat in filter(is_cat, facts.op_calls.values()):
        before = scales.verdict(cat).outcome
        if after.verdict(cat).outcome != ("same" if cat.span == call.span else before):
            raise NoFix("another concatenation would get several scales")
    yield from pairs.values()


def _observed_by(value: Tensor | Unknown) -> int:
    scale = value.qparams.scale if isinstance(value, Tensor) and value.qparams is not None else None
    if not isinstance(scale, ObservedScale):
        raise NoFix("a scale of no observer")
    return scale.observer.owner


def _qconfig(facts: Facts, owner: int) -> object:
    submodule = facts.submodules.get(owner)
    return submodule.qconfig if submodule is not None else None


def _slot(facts: Facts, edit: EditBuilder, owner: int) -> str:
    """``.block.conv.activation_post_process``: where the prepared model holds a module's observer."""
    submodule = facts.submodules.get(owner)
    if submodule is None or not submodule.cls.startswith("torch.") or not _PATH.fullmatch(submodule.path):
        raise NoFix("no plain path to the observer")
    observed = [use for use in facts.op_calls.values() if use.owner == owner]
    if not all(use.spec.observed and use.spec.observation is Observation.OWN for use in observed):
        raise NoFix("a module without an observer of its own")
    if "BatchNorm" in submodule.cls and edit.matches(_FUSES):
        raise NoFix("the batch norm may be fused into the layer before it")
    parent, _, last = submodule.path.rpartition(".")
    if last.isdigit() and any(s.path == parent and s.cls not in INDEXED for s in facts.submodules.values()):
        raise NoFix("an index of no list")
    parts = [f"[{part}]" if part.isdigit() else f".{part}" for part in submodule.path.split(".")]
    return f"{''.join(parts)}.activation_post_process"
