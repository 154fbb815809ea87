"""What the rewrites of several rules share: doubts, the contexts of a call, submodules that a class gets.

Each rewrite starts from the facts and checks that it is right in every context of the run; ``NoFix`` says that
it is not. What narrows a rewrite that is right to UNSAFE is collected as a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.ops.spec import Role
from qlsp.rules.api import RuleContext
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
    from qlsp.syntax.edits import EditBuilder, Expression, MethodAt
    from qlsp.syntax.view import ClassAt

FLOAT_FUNCTIONAL = "torch.ao.nn.quantized.FloatFunctional"
QUANT_STUB = "torch.ao.quantization.QuantStub"
DEQUANT_STUB = "torch.ao.quantization.DeQuantStub"

CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
UNCALLABLE = ("torch.nn.ModuleList", "torch.nn.ModuleDict")
SHARES = "fix-doubt-shared-observer"
_OWN_ATTRIBUTES = re.compile(r"\bdef\s+__(?:setattr|getattribute|new)__\b|\.__new__\b|\b__dict__\s*\.\s*update\b")


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
            shares = any(each.id == SHARES for each in self.reasons)
            return edit.fix(title, self.reasons[0], Applicability.UNSAFE, ("QL201", "QL404") if shares else ())
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


def require_eager(ctx: RuleContext, span: SpanId, doubts: Doubts) -> None:
    """No context of another front end; a class that no root reaches is a doubt."""
    for facts, _ in uses(ctx, span):
        if facts.context.workflow is Workflow.NONE:
            doubts.add(Message.of("fix-doubt-unknown-use", root=facts.context.root))
        elif facts.context.workflow is not Workflow.EAGER:
            raise NoFix(f"{facts.context.root} is for another front end")


def require_converted_receiver(ctx: RuleContext, edit: EditBuilder, span: SpanId) -> None:
    """A new submodule of the method's object will be swapped: it is registered and a qconfig reaches it. The object is
    one of the method's class, not one that the method was called on by another class."""
    names = {each.name for each in edit.family(edit.method(span).cls).everyone}
    for facts, call in uses(ctx, span):
        if facts.context.workflow is not Workflow.EAGER:
            continue
        submodule = facts.submodules.get(call.receiver) if call.receiver is not None else None
        if submodule is None:
            raise NoFix("the receiver is no registered module")
        if submodule.cls.rpartition(".")[2] not in names:
            raise NoFix("the receiver is no object of the method's class")
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
    if edit.runs_children(method.cls):
        raise NoFix("the class runs its children: a new one would run too")
    if family.unseen:
        doubts.add(Message.of("fix-doubt-unseen-base", model=method.cls.name))
    kin = "|".join(re.escape(member.name) for member in family.everyone)
    made_bare = edit.matches(re.compile(rf"\b(?:{kin})\s*\.\s*__new__\b"))
    if made_bare or any(_OWN_ATTRIBUTES.search(member.text) for member in family.everyone):
        doubts.add(Message.of("fix-doubt-attributes"))
    if edit.lists_children(method.cls):
        doubts.add(Message.of("fix-doubt-children"))
    if edit.loads_prepared(method.cls.unit.path):
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


def an_observer_for(
    ctx: RuleContext, edit: EditBuilder, span: SpanId, hint: str, constructor: str, doubts: Doubts
) -> str:
    """What a method calls at a place for a new FloatFunctional or stub: one for each pass of a loop of known length,
    else one of its own. Where one object makes the call several times, its calls share the observer."""
    if runs_known_passes(ctx, edit, span):
        doubts.add(Message.of("fix-doubt-passes"))
        return one_for_each_pass(ctx, edit, span, hint, constructor)
    doubt_one_call(ctx, span, doubts)
    return f"{edit.method(span).receiver}.{edit.add_submodule(span, hint, constructor)}"


def doubt_one_call(ctx: RuleContext, span: SpanId, doubts: Doubts) -> None:
    """An observer that several calls share is a doubt; they have to get float or quantized tensors alike."""
    try:
        require_one_call(ctx, span)
    except NoFix:
        kinds = {
            tuple(_domain(operand.value) for operand in alternative.operands)
            for facts, call in uses(ctx, span)
            if facts.context.workflow is Workflow.EAGER
            for alternative in call.alternatives
        }
        if len(kinds) != 1 or any(Domain.UNKNOWN in each for each in kinds):
            raise
        doubts.add(Message.of(SHARES))


def _domain(value: Tensor | Unknown) -> Domain:
    return value.domain if isinstance(value, Tensor) else Domain.UNKNOWN


def runs_known_passes(ctx: RuleContext, edit: EditBuilder, span: SpanId) -> bool:
    """True for a call in the only loop around it, which every object runs once, with as many passes everywhere."""
    if not edit.repeats(span):
        return False
    try:
        head, _ = _passes(ctx, span)
        edit.loop(span, head)
    except NoFix:
        return False
    return True


def _passes(ctx: RuleContext, span: SpanId) -> tuple[SpanId, int]:
    """The head of the loop around a call and the number of its passes, the same in all contexts."""
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
    return heads.pop(), lengths.pop()


def one_for_each_pass(
    ctx: RuleContext, edit: EditBuilder, span: SpanId, hint: str, constructor: str, made: str = ""
) -> str:
    """A ModuleList with an object for each pass of the loop around a call, and the name of a pass's object.

    The number of passes is what every context shows; a longer list would be cut off, so this is never SAFE. ``made``
    is the call that makes an object, if not that of the constructor without arguments.
    """
    head, number = _passes(ctx, span)
    loop = edit.loop(span, head)
    method = edit.method(span)
    path = method.cls.unit.path
    each = made or f"{edit.spell(path, constructor)}()"
    modules = edit.spell(path, "torch.nn.ModuleList")
    name = edit.add_line(span, f"{hint}s", f"{modules}([{each} for _ in range({number})])")
    local = edit.local_name(span, hint)
    target = loop.target.text if loop.target.name is not None else f"({loop.target.text})"
    edit.replace(loop.target.place, f"{local}, {target}")
    edit.replace(loop.iterable.place, f"zip({method.receiver}.{name}, {loop.iterable.text})")
    return local


def each_tensor(edit: EditBuilder, elements: tuple[Expression, ...] | None, change: object) -> None:
    """Rewrite the members of a list that is written out."""
    if elements is None:
        raise NoFix("a list that is not written out")
    assert callable(change)
    for element in elements:
        edit.replace(element.place, change(element.operand))


def consumers(facts: Facts, producer: OpCall) -> Iterator[OpCall]:
    """The calls that take a producer's own output as an operand."""
    own = set(outputs(producer))
    for call in facts.op_calls.values():
        if call is not producer and any(
            isinstance(operand.value, Tensor) and identity(operand.value) in own
            for alternative in call.alternatives
            for operand in alternative.operands
        ):
            yield call


def outputs(call: OpCall) -> list[tuple[object, ...]]:
    """What names the tensors that a call gives back."""
    found = []
    values: list[Value] = [alternative.output for alternative in call.alternatives]
    while values:
        value = values.pop()
        if isinstance(value, Tensor):
            found.append(identity(value))
        elif isinstance(value, Choice):
            values.extend(option for _, option in value.options)
        elif isinstance(value, TupleValue):
            values.extend(value.items)
    return found


def identity(value: Tensor | Unknown) -> tuple[object, ...]:
    """What names a tensor among the operands of a run."""
    return (value.number, value.origin, value.domain) if isinstance(value, Tensor) else (None,)
