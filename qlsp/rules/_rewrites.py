"""Rewrites that several rules share: a concatenation with an observer, one stub behind it, an island.

Each starts from the facts and checks that the rewrite is right in every context of the run; ``NoFix`` says that
it is not. What narrows a rewrite that is right to UNSAFE is collected as a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, Mode, OpCall, Workflow
from qlsp.analysis.scales import Scales, is_cat
from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.ops.spec import Observation, Role
from qlsp.rules.api import RuleContext
from qlsp.values.qparams import DerivedScale, ObservedScale
from qlsp.values.value import (
    OPEN_QCONFIG,
    CallPath,
    Choice,
    Const,
    Domain,
    SpanId,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    exclusive,
)

if TYPE_CHECKING:
    from qlsp.syntax.edits import CallAt, EditBuilder, Expression, MethodAt
    from qlsp.syntax.view import ClassAt

FLOAT_FUNCTIONAL = "torch.ao.nn.quantized.FloatFunctional"
QUANT_STUB = "torch.ao.quantization.QuantStub"
DEQUANT_STUB = "torch.ao.quantization.DeQuantStub"

CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
PREPARE = "torch.ao.quantization.prepare"
UNCALLABLE = ("torch.nn.ModuleList", "torch.nn.ModuleDict")
INDEXED = ("torch.nn.Sequential", "torch.nn.ModuleList")
_PATH = re.compile(r"(?:(?!__)[^\W\d]\w*|\d+)(?:\.(?:(?!__)[^\W\d]\w*|\d+))*")
_FUSES = re.compile(r"\bfuse\w*\s*\(")
_LISTS_CHILDREN = re.compile(r"\.\s*(?:children|named_children)\b|\b_modules\b")
_OWN_ATTRIBUTES = re.compile(r"\bdef\s+__(?:setattr|getattribute|new)__\b|\.__new__\b")
_COMPUTED_NAME = re.compile(
    r"\b(?:[gs]et|has|del)attr\(\s*[^,()]+,(?!\s*(?:'\w+'|\"\w+\")\s*[,)])|\bget_submodule\(\s*(?![\s'\"])"
)
"""Text that reaches an attribute by a name that does not stand there."""


@dataclass
class Doubts:
    """Why a rewrite is not certain to be right everywhere; none, and it is SAFE."""

    reasons: list[Message] = field(default_factory=list)

    def add(self, reason: Message) -> None:
        """One more reason."""
        self.reasons.append(reason)

    def fix(self, edit: EditBuilder, title: Message, reason: Message) -> Fix:
        """The fix: SAFE with its own reason, or UNSAFE with the first doubt."""
        if self.reasons:
            return edit.fix(title, self.reasons[0], Applicability.UNSAFE)
        return edit.fix(title, reason, Applicability.SAFE)


def call_of(ctx: RuleContext, subject: object) -> OpCall:
    """The call that a finding is about."""
    assert isinstance(subject, tuple)
    return ctx.facts.op_calls[subject]


def uses(ctx: RuleContext, span: SpanId) -> list[tuple[Facts, OpCall]]:
    """The calls of one place in all contexts of the run."""
    if _Uses.everywhere is not ctx.everywhere:
        index: dict[SpanId, list[tuple[Facts, OpCall]]] = {}
        for facts in ctx.everywhere:
            for call in facts.op_calls.values():
                index.setdefault(call.span, []).append((facts, call))
        _Uses.everywhere, _Uses.index = ctx.everywhere, index
    return _Uses.index.get(span, [])


class _Uses:
    """The calls of the last run by their places."""

    everywhere: tuple[Facts, ...] | None = None
    index: dict[SpanId, list[tuple[Facts, OpCall]]] = {}


# --- contexts -----------------------------------------------------------------------------------------------


def require_eager(ctx: RuleContext, span: SpanId, doubts: Doubts) -> None:
    """No context of another front end; a class that no root reaches is a doubt."""
    for facts, _ in uses(ctx, span):
        if facts.context.workflow is Workflow.NONE:
            doubts.add(Message.of("fix-doubt-unknown-use", root=facts.context.root))
        elif facts.context.workflow is not Workflow.EAGER:
            raise NoFix(f"{facts.context.root} is for another front end")


def require_converted_receiver(ctx: RuleContext, span: SpanId) -> None:
    """A new submodule of the method's object will be swapped: it is registered and a qconfig reaches it."""
    for facts, call in uses(ctx, span):
        if facts.context.workflow is not Workflow.EAGER:
            continue
        submodule = facts.submodules.get(call.receiver) if call.receiver is not None else None
        if submodule is None:
            raise NoFix("the receiver is no registered module")
        if submodule.qconfig in (None, Const(None)):
            raise NoFix("no qconfig reaches the receiver")
        if submodule.qconfig == OPEN_QCONFIG:
            raise NoFix("it is not known whether a qconfig reaches the receiver")


def require_one_call(ctx: RuleContext, span: SpanId) -> None:
    """One object makes the call once per run: an observer of its own is for one tensor."""
    found = uses(ctx, span)
    for number, (facts, call) in enumerate(found):
        if call.loop:
            raise NoFix("a call in a loop")
        for others, other in found[:number]:
            if others is facts and other.receiver == call.receiver and not exclusive(other.guard, call.guard):
                raise NoFix("one object makes this call several times")


def doubt_the_class(edit: EditBuilder, method: MethodAt, doubts: Doubts) -> None:
    """What in the class and around it could make one more submodule visible."""
    family = edit.family(method.cls)
    if any(name.rpartition(".")[2] in CONTAINERS for name in family.library):
        raise NoFix("the class is a container: its children are its forward")
    if family.runs_children:
        raise NoFix("the class runs its children: a new one would run too")
    if family.unseen:
        doubts.add(Message.of("fix-doubt-unseen-base", model=method.cls.name))
    if any(_OWN_ATTRIBUTES.search(member.text) for member in family.everyone):
        doubts.add(Message.of("fix-doubt-attributes"))
    if edit.matches(_LISTS_CHILDREN):
        doubts.add(Message.of("fix-doubt-children"))
    if edit.loads_prepared():
        doubts.add(Message.of("fix-doubt-checkpoint"))


def quantized_everywhere(ctx: RuleContext, span: SpanId, doubts: Doubts) -> None:
    """All operands are quantized in every context: a quantized kernel of its own will not meet a float."""
    for facts, call in uses(ctx, span):
        if facts.context.workflow is not Workflow.EAGER:
            continue
        for alternative in call.alternatives:
            for operand in alternative.operands:
                value = operand.value
                if isinstance(value, Unknown) or value.domain is Domain.UNKNOWN:
                    doubts.add(Message.of("fix-doubt-unknown-input", root=facts.context.root))
                elif value.domain is not Domain.QUANTIZED:
                    raise NoFix(f"an input is float in {facts.context.root}")


def require_stub_call(ctx: RuleContext, edit: EditBuilder, span: SpanId) -> str:
    """The attribute of a call ``self.stub(...)`` that is a stub itself in every context, not a block that holds one."""
    attribute = edit.receiver_attribute(span)
    for facts, call in uses(ctx, span):
        owner, receiver = facts.submodules.get(call.owner or 0), facts.submodules.get(call.receiver or 0)
        if owner is None or receiver is None or owner.path != f"{receiver.path}.{attribute}".lstrip("."):
            raise NoFix("not the call of the receiver's own stub")
    return attribute


def require_direct_call(ctx: RuleContext, span: SpanId, role: Role = Role.QUANTIZE) -> None:
    """The call is that of a stub in every context, not that of a library container with a stub in it."""
    for facts, call in uses(ctx, span):
        owner = facts.submodules.get(call.owner or 0)
        if owner is None:
            raise NoFix("the stub is no registered module")
        if call.spec.role is not role:
            raise NoFix("the call of other modules too")
        if _in_a_list_of_stubs(facts, owner.path):
            continue
        parent, dot, _ = owner.path.rpartition(".")
        outer = next((each for each in facts.submodules.values() if each.path == parent), None)
        library = outer is None or "." in outer.cls
        if not owner.path.endswith("]") and library and (dot or outer is not None):
            raise NoFix("the call of a container")


def _in_a_list_of_stubs(facts: Facts, path: str) -> bool:
    """Is a module the member of a ModuleList or ModuleDict, which nobody can call, of stubs alone?"""
    parent = path.rpartition(".")[0]
    if not any(s.path == parent and s.cls in UNCALLABLE for s in facts.submodules.values()):
        return False
    members = [s for s in facts.submodules.values() if s.path.startswith(f"{parent}.")]
    return all(member.cls == QUANT_STUB for member in members)


def one_for_each_pass(ctx: RuleContext, edit: EditBuilder, span: SpanId, hint: str, constructor: str) -> str:
    """A ModuleList with an object for each pass of the loop around a call, and the name of a pass's object.

    The number of passes is what every context shows; a longer list would be cut off, so this is never SAFE.
    """
    heads: set[SpanId] = set()
    lengths: set[int] = set()
    passes: dict[tuple[int, int | None], dict[CallPath, int]] = {}
    for facts, call in uses(ctx, span):
        if call.loop or not call.path:
            raise NoFix("a loop of unknown length")
        *way, (head, number) = call.path
        heads.add(head)
        runs = passes.setdefault((id(facts), call.receiver), {})
        runs[tuple(way)] = max(runs.get(tuple(way), 0), number + 1)
    for runs in passes.values():
        if len(runs) > 1:
            raise NoFix("one object runs the loop several times")
        lengths.update(runs.values())
    if len(heads) != 1 or len(lengths) != 1:
        raise NoFix("loops of different lengths")
    loop = edit.loop(span, heads.pop())
    method = edit.method(span)
    path = method.cls.unit.path
    spelled = edit.spell(path, constructor)
    modules = edit.spell(path, "torch.nn.ModuleList")
    name = edit.add_line(span, f"{hint}s", f"{modules}([{spelled}() for _ in range({lengths.pop()})])")
    local = edit.local_name(span, hint)
    target = loop.target.text if loop.target.name is not None else f"({loop.target.text})"
    edit.replace(loop.target.place, f"{local}, {target}")
    edit.replace(loop.iterable.place, f"zip({method.receiver}.{name}, {loop.iterable.text})")
    return local


# --- R1: an observer for the concatenation --------------------------------------------------------------------


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
    require_converted_receiver(ctx, call.span)
    quantized_everywhere(ctx, call.span, doubts)
    doubt_the_class(edit, method, doubts)
    site = plain_cat(edit, call)
    _as_cat(ctx, edit, call, site)
    if edit.repeats(call.span):
        functional = one_for_each_pass(ctx, edit, call.span, "cat", FLOAT_FUNCTIONAL)
        doubts.add(Message.of("fix-doubt-passes"))
    else:
        require_one_call(ctx, call.span)
        functional = f"{method.receiver}.{edit.add_submodule(call.span, 'cat', FLOAT_FUNCTIONAL)}"
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


def each_tensor(edit: EditBuilder, elements: tuple[Expression, ...] | None, change: object) -> None:
    """Rewrite the members of a list that is written out."""
    if elements is None:
        raise NoFix("a list that is not written out")
    assert callable(change)
    for element in elements:
        edit.replace(element.place, change(element.operand))


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


# --- R2: one stub behind a float concatenation ----------------------------------------------------------------


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


def consumers(facts: Facts, producer: OpCall) -> Iterator[OpCall]:
    """The calls that take a producer's own output as an operand."""
    outputs = set(_outputs(producer))
    for call in facts.op_calls.values():
        if call is not producer and any(
            isinstance(operand.value, Tensor) and _identity(operand.value) in outputs
            for alternative in call.alternatives
            for operand in alternative.operands
        ):
            yield call


# --- R3, and the way through float ------------------------------------------------------------------------------


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


def through_float(ctx: RuleContext, call: OpCall) -> Fix:
    """``self.quant(torch.cat([self.dequant(a), self.dequant(b)]))``: always legal, always a detour."""
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    if edit.repeats(call.span):
        raise NoFix("a concatenation in a loop")
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, call.span)
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


def dequant_stub(ctx: RuleContext, edit: EditBuilder, call: OpCall) -> str:
    """A DeQuantStub attribute of the class around a call; one may serve many tensors. A new one if there is none."""
    cls = edit.method(call.span).cls
    name = edit.attribute_of(cls, DEQUANT_STUB)
    if name is not None:
        return name
    _require_no_float_model(ctx, edit, call, cls)
    return edit.add_submodule(call.span, "dequant", DEQUANT_STUB)


def _require_no_float_model(ctx: RuleContext, edit: EditBuilder, call: OpCall, cls: ClassAt) -> None:
    """The first stub of a class makes no quantized model of a float one in view: a model of the class itself, where
    only what derives from it is quantized."""
    receivers = [(facts, facts.submodules.get(use.receiver or 0)) for facts, use in uses(ctx, call.span)]
    quantized = {each.cls for facts, each in receivers if each is not None and facts.context.workflow is Workflow.EAGER}
    if any(name.rpartition(".")[2] == cls.name for name in quantized) or not edit.family(cls).descendants:
        return
    if edit.matches(re.compile(rf"(?<!class )\b{re.escape(cls.name)}\s*\(")):
        raise NoFix("the base class of a quantized model, which is a float model of its own")


# --- what happens downstream -------------------------------------------------------------------------------------


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
    new: dict[tuple[object, ...], object] = dict.fromkeys(_outputs(producer), "new")
    behind: set[tuple[object, ...]] = set()
    started = False
    for call in facts.op_calls.values():
        if call is producer:
            started = True
            continue
        labels = [
            [new.get(_identity(operand.value)) for operand in alternative.operands] for alternative in call.alternatives
        ]
        if not started or not any(label is not None for each in labels for label in each):
            continue
        if is_cat(call):
            torn = any(len(set(each)) > 1 for each in labels)
            verdict = scales.verdict(call).outcome
            if torn and verdict == "same":
                yield call, False
                new.update(dict.fromkeys(_outputs(call), call.span))
                continue
            if verdict == "mixed" and _first(call) in new:
                if _first(call) not in behind:
                    yield call, True
                behind.update(_outputs(call))
        elif call.spec.role is not None or call.spec.observation not in (Observation.SHARE, Observation.DERIVED):
            continue
        label = labels[0][0] if labels[0] else None
        if label is not None:
            new.update({output: _derived(call, label) for output in _outputs(call)})
            if _first(call) in behind:
                behind.update(_outputs(call))


def _first(call: OpCall) -> tuple[object, ...]:
    """The first operand of a call."""
    operands = call.alternatives[0].operands
    return _identity(operands[0].value) if operands else (None,)


def _derived(call: OpCall, label: object) -> object:
    """The label of an output: another one for a scale that is computed from the input's."""
    output = call.alternatives[0].output
    scale = output.qparams.scale if isinstance(output, Tensor) and output.qparams is not None else None
    derived = call.spec.observation is Observation.DERIVED and isinstance(scale, DerivedScale)
    return (scale.operator, scale.arguments, label) if derived and isinstance(scale, DerivedScale) else label


def _outputs(call: OpCall) -> list[tuple[object, ...]]:
    found = []
    values: list[Value] = [alternative.output for alternative in call.alternatives]
    while values:
        value = values.pop()
        if isinstance(value, Tensor):
            found.append(_identity(value))
        elif isinstance(value, Choice):
            values.extend(option for _, option in value.options)
        elif isinstance(value, TupleValue):
            values.extend(value.items)
    return found


def _identity(value: Tensor | Unknown) -> tuple[object, ...]:
    return (value.number, value.origin, value.domain) if isinstance(value, Tensor) else (None,)
