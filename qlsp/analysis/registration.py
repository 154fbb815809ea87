"""Modules that no model knows: built in forward, kept in a plain container, or never built at all.

``prepare`` and ``convert`` walk the registered children of a model. What they do not find stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from qlsp.analysis.facts import Keeping, Stray
from qlsp.analysis.machine import Arguments
from qlsp.analysis.objects import MODULE_ATTRIBUTES
from qlsp.analysis.optimizers import Optimizers
from qlsp.analysis.program import ClassModel
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    ClassValue,
    Ref,
    SpanId,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    options_of,
)

RESERVED_KEYS = MODULE_ATTRIBUTES | {"keys", "values", "items", "clear", "pop", "update", "get_extra_state"}
"""Keys that a ModuleDict refuses because it has an attribute of that name."""


class Registration(Optimizers):
    """Where attributes were set, and which modules are not registered under a root."""

    places: dict[tuple[int, str], SpanId]
    building: int
    shared: int

    def assign_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Remember the statement that keeps a container or a class in an attribute."""
        if isinstance(self.current.statement, (cst.Assign, cst.AnnAssign)):
            kept = [option for _, option in options_of(value)]
            if any(isinstance(option, (Symbol, TupleValue)) or self._is_container(option, state) for option in kept):
                for _, holder in options_of(target):
                    if isinstance(holder, Ref):
                        self.places[holder.oid, name] = self._statement()
        super().assign_attribute(target, name, value, state)

    def copied(self, original: int, copy: int) -> None:
        """A copy keeps what the original keeps."""
        super().copied(original, copy)
        for (oid, name), span in list(self.places.items()):
            if oid == original:
                self.places[copy, name] = span

    def _is_container(self, value: Value, state: State) -> bool:
        return isinstance(value, Ref) and isinstance(self.load(state, value), (ListObject, DictObject))

    # --- built in forward, or not at all --------------------------------------------------------------

    def instantiate(self, cls: ClassValue, arguments: Arguments, node: cst.CSTNode | None, state: State) -> Value:
        """What a constructor builds belongs to its object."""
        self.building += 1
        try:
            return super().instantiate(cls, arguments, node, state)
        finally:
            self.building -= 1

    def _class_level(self, model: ClassModel, expression: cst.BaseExpression, unit: object) -> Value:
        """What a class holds itself is no child of its objects."""
        self.shared += 1
        try:
            return super()._class_level(model, expression, unit)
        finally:
            self.shared -= 1

    def library_instance(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A module built while forward runs; one that gets a tensor was meant to be built before."""
        ref = super().library_instance(name, arguments, node, state)
        if self.facts is None or self.building or not self._swapped(name) or not isinstance(ref, Ref):
            return ref
        receiver = self.current.receiver
        holder = receiver.oid if isinstance(receiver, Ref) else None
        given = arguments.positional[0].value if arguments.positional else None
        place = self._place_of_class(node, state) if isinstance(given, (Tensor, Unknown)) else None
        if place is not None:
            attribute, span, holder = place
            self.keep_stray(Stray(span, Keeping.CLASS, frozenset({name}), frozenset({ref.oid}), holder, attribute))
            return self.call_object(ref, arguments, node, state)
        if not self.shared and (self._once() or not self._in_function()):
            return ref
        kind = Keeping.SHARED if self.shared else Keeping.FORWARD
        self.keep_stray(Stray(self.span(node), kind, frozenset({name}), frozenset({ref.oid}), holder))
        return ref

    def _once(self) -> bool:
        """Is what this statement builds kept in an attribute, under a condition? The float model may have built
        it before prepare."""
        statement = self.current.statement
        targets = statement.targets if isinstance(statement, cst.Assign) else []
        return self.conditions > 0 and any(isinstance(each.target, cst.Attribute) for each in targets)

    def _in_function(self) -> bool:
        """Not in the body of a class."""
        running = self.functions[self._stack[-1]] if self._stack else None
        return running is not None and running.unit is self.current.unit and running.name == self.current.name

    def _place_of_class(self, node: cst.Call, state: State) -> tuple[str, SpanId, int] | None:
        """The attribute in which a called class is kept, and the statement that keeps it."""
        if not isinstance(node.func, cst.Attribute):
            return None
        holder = self.eval(node.func.value, state)
        attribute = node.func.attr.value
        if not isinstance(holder, Ref) or (holder.oid, attribute) not in self.places:
            return None
        return attribute, self.places[holder.oid, attribute], holder.oid

    def _swapped(self, name: str) -> bool:
        row = self.backend.modules.get(name)
        return name in self.backend.functional_classes or row is not None and row.swapped

    def keep_stray(self, stray: Stray) -> None:
        """Add a fact; one place that keeps several modules is one fact."""
        if self.facts is None or self.muted:
            return
        key = (stray.span, stray.kind)
        known = self.facts.strays.get(key)
        if known is not None:
            members, classes = known.members | stray.members, known.classes | stray.classes
            stray = replace(stray, members=members, classes=classes)
        self.facts.strays[key] = stray

    # --- kept in plain containers ---------------------------------------------------------------------

    def keep_containers(self, tree: Iterable[int], state: State) -> None:
        """The modules that only lists, tuples and dicts in a tree of modules lead to."""
        registered = self.effective or {}
        for oid in tree:
            instance = self.instance(state, Ref(oid))
            if instance is None:
                continue
            for name, value in instance.attributes.items():
                span = self.places.get((oid, name))
                if span is None:
                    continue
                for _, option in options_of(value):
                    self._keep_container(option, oid, name, span, registered, state)

    def _keep_container(
        self, value: Value, holder: int, name: str, span: SpanId, registered: dict[int, Value], state: State
    ) -> None:
        inside = list(self._members(value, state))
        members = [ref for ref in inside if ref.oid not in registered]
        classes = frozenset(filter(None, (self._class_in(ref, state) for ref in members)))
        found = frozenset(ref.oid for ref in members if self._class_in(ref, state) is not None)
        if found:
            container, takes = self._container(value, state)
            others = any(ref.oid not in found for ref in inside)
            self.keep_stray(Stray(span, Keeping.CONTAINER, classes, found, holder, name, container, takes, others))

    def _class_in(self, ref: Ref, state: State) -> str | None:
        """The library class of a module that convert would swap."""
        instance = self.instance(state, ref)
        base = self.native_base(instance) if instance is not None else None
        return base if base is not None and self._swapped(base) else None

    def _plain(self, value: Value, state: State) -> bool:
        """A stub or a FloatFunctional: a module without parameters, which a checkpoint does not mention."""
        instance = self.instance(state, value)
        base = self.native_base(instance) if instance is not None else None
        row = self.backend.modules.get(base or "")
        return base in self.backend.functional_classes or row is not None and row.role is not None

    def _members(self, value: Value, state: State, depth: int = 0) -> Iterator[Ref]:
        """The modules in a container, through containers in it."""
        for _, option in options_of(value):
            thing = self.load(state, option) if isinstance(option, Ref) else None
            if isinstance(thing, Instance) and isinstance(option, Ref):
                if depth:
                    yield option
                continue
            if depth < 4:
                for item in self._inside(option, state):
                    yield from self._members(item, state, depth + 1)

    def _inside(self, value: Value, state: State) -> list[Value]:
        if isinstance(value, TupleValue):
            return list(value.items)
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(thing, ListObject):
            return [*(thing.items or ()), *([thing.element] if thing.element is not None else [])]
        if isinstance(thing, DictObject):
            return [*(entry for _, entry in thing.entries), *([thing.rest] if thing.rest is not None else [])]
        return []

    def _container(self, value: Value, state: State) -> tuple[str, bool]:
        """What kind of container it is, and whether a ModuleList or ModuleDict takes what is in it."""
        inside = self._inside(value, state)
        modules = all(self._plain(option, state) for item in inside for _, option in options_of(item))
        if isinstance(value, TupleValue):
            return "tuple", modules
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(thing, DictObject):
            keys = [key for key, _ in thing.entries]
            plain = all(isinstance(key, str) and key and "." not in key and key not in RESERVED_KEYS for key in keys)
            return "dict", modules and plain and thing.rest is None
        return "list", modules
