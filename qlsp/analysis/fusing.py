"""Fuse calls: what they are asked to fuse, what that does to the model, and what could be fused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from qlsp.analysis.facts import (
    Context,
    Facts,
    FloatChange,
    Fusable,
    FuseForm,
    FuseGroup,
    Fusion,
    OpCall,
    Submodule,
)
from qlsp.analysis.flow import Flow
from qlsp.analysis.layers import Layers
from qlsp.analysis.machine import LIMITS, Arguments
from qlsp.analysis.program import ClassModel
from qlsp.backends.spec import FuserRow, LifecycleRow
from qlsp.values.state import Instance, State
from qlsp.values.value import (
    ClassValue,
    Const,
    Domain,
    FunctionValue,
    Ref,
    SpanId,
    Symbol,
    Tensor,
    TupleValue,
    Value,
)
from qlsp.values.workflow import Mode, Workflow

FLOW_STEPS = 30_000
MAX_FLOWS = 48
"""Forward passes of models that are fused, in one file."""

IDENTITY = Symbol("torch.nn.Identity")
CUSTOM = frozenset({"fuser_func", "fuse_custom_config_dict", "*", "?"})
"""Arguments by which a caller brings fusers of its own."""

Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A name of a fuse call, looked up: the object that holds it, its last part, and what stands there."""

    holder: Ref
    name: str
    module: Value


class Fusing(Layers):
    """What fuse functions make of models."""

    fused: set[int]
    flows: int

    def fuse(
        self, row: LifecycleRow, model: Value, arguments: Arguments, passed: frozenset[str], state: State
    ) -> Fusion | None:
        """Fuse the modules of a model as a fuse call does; what it was asked for, None where that is not known."""
        self.fused |= {self.origin_of(oid) for oid in self._reach(model, state)}
        given = arguments.get(row.params.index("modules_to_fuse"), "modules_to_fuse")
        if given is None or passed & CUSTOM or not isinstance(model, Ref):
            return None
        instance = self.instance(state, model)
        form, lists = self._lists(given, state)
        if form is None or instance is None or not self._is_module_instance(instance):
            return None
        if form is not FuseForm.GOOD:
            return Fusion(form)
        flow = self._flow(model, state)
        groups = []
        for names in lists:
            groups.append(self._fuse_group(row, model, names, flow, state))
        if len(groups) == 1 and groups[0].fusable is False and self._divides(groups[0].parts):
            return Fusion(FuseForm.FLAT, tuple(groups))
        return Fusion(form, tuple(groups))

    def _is_module_instance(self, instance: Instance) -> bool:
        return (self.native_base(instance) or "").startswith(("torch.nn.", "torch.ao."))

    # --- the list -----------------------------------------------------------------------------------

    def _lists(self, given: Value, state: State) -> tuple[FuseForm | None, Names]:
        """How the list is written, and its sequences of names; no form where it is not known."""
        if isinstance(given, Const) and isinstance(given.value, str):
            return FuseForm.NAME, ()
        items = self.items(given, state)
        if not items or isinstance(given, Const):
            return None, ()
        if all(map(_is_name, items)):
            return FuseForm.GOOD, (tuple(item.value for item in items if isinstance(item, Const)),)
        if any(self._module_like(item, state) for item in items):
            return FuseForm.MODULES, ()
        if any(map(_is_name, items)):
            known = all(_is_name(item) or self.items(item, state) is not None for item in items)
            return (FuseForm.MIXED if known else None), ()
        groups: list[tuple[str, ...]] = []
        for item in items:
            inner = self.items(item, state) if self.instance(state, item) is None else None
            if inner is None:
                return None, ()
            if any(self._module_like(each, state) for each in inner):
                return FuseForm.MODULES, ()
            if not all(map(_is_name, inner)):
                deep = all(isinstance(each, (Ref, TupleValue)) and self.items(each, state) for each in inner)
                return (FuseForm.DEEP if inner and deep else None), ()
            groups.append(tuple(each.value for each in inner if isinstance(each, Const)))
        return FuseForm.GOOD, tuple(groups)

    def _module_like(self, value: Value, state: State) -> bool:
        instance = self.instance(state, value)
        return instance is not None and self._is_module_instance(instance)

    def _divides(self, parts: tuple[str | None, ...]) -> bool:
        """Is a sequence several ones that can be fused, one behind the other?"""
        if not parts:
            return True
        rows = self.backend.fuser_rows
        return any(
            parts[:length] in rows and self._divides(parts[length:]) for length in (3, 2) if length <= len(parts)
        )

    # --- one sequence -------------------------------------------------------------------------------

    def _fuse_group(
        self, row: LifecycleRow, model: Ref, names: tuple[str, ...], flow: Flow | None, state: State
    ) -> FuseGroup:
        found = [self._find(model, name, state) for name in names]
        missing = tuple(
            (name, each) for name, each in zip(names, found, strict=True) if isinstance(each, tuple)
        )
        places = [each for each in found if isinstance(each, Place)]
        parts = tuple(self._class_of(each, state) if isinstance(each, Place) else None for each in found)
        if missing or len(places) < len(names) or None in parts:
            return FuseGroup(names, parts, missing)
        known = tuple(part for part in parts if part is not None)
        fuser = self.backend.fuser_rows.get(known)
        if fuser is None:
            lengths = (length for length in (3, 2) if known[:length] in self.backend.fuser_rows)
            return FuseGroup(names, parts, fusable=False, beginning=next(lengths, 0))
        change, culprit, span = self._change(names, places, flow)
        self._replace(row, fuser, places, state)
        return FuseGroup(names, parts, (), True, change, culprit, span)

    def _find(self, model: Ref, name: str, state: State) -> Place | tuple[str, ...] | None:
        """Where a dotted name leads: a place, the names there are instead, or None where that is not known."""
        holder: Value = model
        *way, last = name.split(".")
        for part in way:
            inner = self._child(holder, part, state)
            if inner is None or isinstance(inner, tuple):
                return inner
            holder = inner
        child = self._child(holder, last, state)
        if child is None or isinstance(child, tuple):
            return child
        return Place(holder, last, child) if isinstance(holder, Ref) else None

    def _child(self, holder: Value, name: str, state: State) -> Ref | tuple[str, ...] | None:
        instance = self.instance(state, holder)
        if instance is None or not isinstance(holder, Ref):
            return None
        if name in instance.attributes:
            value = instance.attributes[name]
            return value if isinstance(value, Ref) else None
        closed = holder.oid not in self.handed and "*" not in instance.attributes
        for entry in self.mro(instance.cls):
            if isinstance(entry, ClassModel):
                closed = closed and not {name, "__getattr__", "__getattribute__"} & (
                    entry.methods.keys() | entry.attributes.keys()
                )
            else:
                closed = closed and isinstance(entry, Symbol) and entry.name.startswith(("torch.", "builtins.", "abc."))
        if isinstance(instance.cls, Symbol) and not instance.attributes:
            closed = False
        names = tuple(key for key, value in instance.attributes.items() if self._module_like(value, state))
        return names if closed and names else None

    def _class_of(self, place: Place, state: State) -> str | None:
        instance = self.instance(state, place.module)
        return instance.cls.name if instance is not None else None

    def _change(
        self, names: tuple[str, ...], places: list[Place], flow: Flow | None
    ) -> tuple[FloatChange | None, str | None, SpanId | None]:
        """Does the float model compute something else once the sequence is one module?"""
        if flow is None:
            return None, None, None
        owners = [place.module.oid for place in places if isinstance(place.module, Ref)]
        for number, (first, second) in enumerate(zip(owners, owners[1:], strict=False)):
            broken = flow.between(first, second) if flow.known(first, second) else None
            if broken is not None:
                culprit = names[number] if broken.change is FloatChange.CONSUMER else names[number + 1]
                return broken.change, culprit, broken.span
        return None, None, None

    def _replace(self, row: LifecycleRow, fuser: FuserRow, places: list[Place], state: State) -> None:
        fused = fuser.trained if row.mode is Mode.QAT else fuser.fused
        first = self.instance(state, places[0].module)
        if fused is None or first is None or not isinstance(places[0].module, Ref):
            return
        cls = Symbol(fused)
        attributes = dict(first.attributes) if first.cls == cls else {}
        new = self.new_instance(state, replace(first, cls=cls, attributes=attributes))
        self.lineage[new.oid] = self.origin_of(places[0].module.oid)
        self.fused.add(self.origin_of(new.oid))
        self.set_attribute(places[0].holder, places[0].name, new, state)
        for place in places[1:]:
            gone = self.new_instance(state, Instance(IDENTITY, {}, (), first.created))
            self.set_attribute(place.holder, place.name, gone, state)

    def _flow(self, model: Ref, state: State) -> Flow | None:
        """Run the forward of the float model for what feeds what; None where it cannot be followed."""
        if self.flows >= MAX_FLOWS or self.facts is not None:
            return None
        self.flows += 1
        span = self.span(self.current.unit.node)
        facts = Facts(Context("", span, Workflow.EAGER, Mode.UNKNOWN))
        saved = (self.frame, self.path, self.steps, self.limit, self.loop_depth, self.loop_guard, self.depth)
        stack, effective, built, created = list(self._stack), self.effective, self.built, list(self.created)
        self.facts, self.effective, self.path, self.loop_depth = facts, None, (), 0
        self.steps, self.limit, self.depth = 0, FLOW_STEPS, 0
        self._stack.clear()
        self.on_demand += 1
        try:
            self.forward_of(model, state.fork(), facts)
        except LIMITS:
            return None
        finally:
            self.on_demand -= 1
            self.facts, self.effective = None, effective
            self._stack[:] = stack
            self.built, self.created = built, created
            self.frame, self.path, self.steps, self.limit, self.loop_depth, self.loop_guard, self.depth = saved
        return Flow(facts)

    def forward_of(self, root: Ref, state: State, facts: Facts) -> None:
        """Run a model's forward on its inputs (see ``interpreter``)."""
        raise NotImplementedError

    # --- code that may fuse -------------------------------------------------------------------------

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A function or method that says it fuses may have fused what it gets, also where that is not followed."""
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        name = node.func.value if isinstance(node.func, cst.Name) else name
        if self.facts is None and "fuse" in name.lower():
            values = [argument.value for argument in (*arguments.positional, *arguments.keywords.values())]
            receiver = getattr(function, "receiver", None)
            if receiver is not None:
                values.append(receiver)
            for value in values:
                if not isinstance(value, (Const, FunctionValue, ClassValue)):
                    self.fused |= {self.origin_of(oid) for oid in self._reach(value, state)}
        return super().call(function, arguments, node, state)

    def may_be_fused(self, model: Value, state: State) -> bool:
        """May code have fused modules of a model, in view or not?"""
        if not isinstance(model, Ref):
            return True
        reached = self._reach(model, state)
        known = {self.origin_of(oid) for oid in reached}
        unseen = any(oid in self.handed or oid in self.outside or oid in self.static_heap for oid in reached)
        return unseen or bool(known & self.fused)

    def fusable(self, facts: Facts) -> list[Fusable]:
        """The sequences of modules of a root that feed each other alone, are all in the quantized region and can
        be fused; a sequence of three is not counted as one of two, too."""
        flow = Flow(facts)
        found: list[Fusable] = []
        used: set[int] = set()
        for owner in flow.calls:
            chain = [owner]
            while len(chain) < 3 and (follower := flow.follower(chain[-1])) is not None and follower not in chain:
                chain.append(follower)
            modules = [facts.submodules.get(each) for each in chain]
            for length in (3, 2):
                parts = _parts(modules[:length])
                members = chain[:length]
                if len(members) < length or parts not in self.backend.fuser_rows or used & set(members):
                    continue
                if not all(call.converted for call in flow.calls[owner]):
                    continue
                if any(_in_float(call) for member in members for call in flow.calls[member]):
                    continue
                used |= set(members)
                paths = tuple(module.path for module in modules[:length] if module is not None)
                found.append(Fusable(paths, tuple(members), parts))
        return found


def _in_float(call: OpCall) -> bool:
    """Does a call certainly get a float tensor?"""
    values = [operand.value for alternative in call.alternatives for operand in alternative.operands]
    return any(isinstance(value, Tensor) and value.domain is Domain.FLOAT for value in values)


def _is_name(value: Value) -> bool:
    return isinstance(value, Const) and isinstance(value.value, str)


def _parts(modules: list[Submodule | None]) -> tuple[str, ...]:
    return tuple(module.cls if module is not None else "" for module in modules)


