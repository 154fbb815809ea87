"""Further names of modules: what a second name, a list or another object holds when convert has replaced a layer."""

from __future__ import annotations

from dataclasses import replace

from qlsp.analysis.facts import Alias
from qlsp.analysis.fusing import Fusing
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import Choice, Ref, Symbol, TupleValue, Value, choice, options_of
from qlsp.values.workflow import Mode

PLAIN = frozenset({Symbol("functools.partial"), Symbol("types.SimpleNamespace")})


class Aliases(Fusing):
    """Objects of their own for what convert does not reach."""

    def split_aliases(self, root: Ref, state: State, mode: Mode) -> dict[int, Alias]:
        """Give each second name of a module an object of its own, as convert does by swapping the first name only.

        ``prepare_qat`` swaps a first time, so that there the second name of a class with a quantization-aware twin
        is a module of its own, which convert swaps, and the third one is left. A stub or a FloatFunctional behind
        a second name is taken as if it were swapped: its finding is the name, not all that follows from it.
        """
        assert self.effective is not None
        found: dict[int, Alias] = {}
        for parent in self._names(root, state):
            instance = self.instance(state, Ref(parent))
            if instance is None or parent not in self.effective:
                continue
            count: dict[int, int] = {}
            for name, value in instance.attributes.items():
                child = self.instance(state, value)
                if child is None or not isinstance(value, Ref):
                    continue
                if not self._is_replaced(value, state):
                    continue
                base = self.native_base(child) or ""
                row = self.backend.modules.get(base)
                functional = base in self.backend.functional_classes
                count[value.oid] = count.get(value.oid, 0) + 1
                if count[value.oid] == 1:
                    continue
                alias = self.allocate(state, child)
                twin = mode is Mode.QAT and base in self.backend.trained_modules and count[value.oid] == 2
                if twin or functional or (row is not None and row.role is not None):
                    self.effective[alias.oid] = self.effective[value.oid]
                if not twin:
                    place = self.named.get((parent, name), instance.created)
                    found[alias.oid] = Alias(parent, name, value.oid, place)
                current = self.instance(state, Ref(parent))
                assert current is not None
                state.heap[parent] = current.with_attribute(name, alias)
        self._split_kept(root, state, found)
        return found

    def _is_replaced(self, value: Value, state: State) -> bool:
        """Does convert put another module in the place of this one?"""
        instance = self.instance(state, value)
        if instance is None or not isinstance(value, Ref) or not self.conversion(value):
            return False
        base = self.native_base(instance) or ""
        row = self.backend.modules.get(base)
        return base in self.backend.functional_classes or (row is not None and row.swapped)

    def is_plain(self, value: Value, state: State) -> bool:
        """Is it an object that is certainly no module, so that nobody finds the modules in it?"""
        instance = self.instance(state, value)
        if instance is None:
            return False
        return instance.cls in PLAIN or (self.native_base(instance) is None and self.is_closed(instance))

    def _split_kept(self, root: Ref, state: State, found: dict[int, Alias]) -> None:
        """What lists, tuples, dicts and objects that are no modules hold of a model: the layers as they were."""
        assert self.effective is not None
        for parent in self._names(root, state):
            instance = self.instance(state, Ref(parent))
            if instance is None or parent not in self.effective:
                continue
            for name, value in instance.attributes.items():
                place = Alias(parent, name, 0, None)
                kept = choice([(g, self._in_attribute(each, place, state, found)) for g, each in options_of(value)])
                current = self.instance(state, Ref(parent))
                if kept != value and current is not None:
                    state.heap[parent] = current.with_attribute(name, kept)

    def _in_attribute(self, value: Value, place: Alias, state: State, found: dict[int, Alias]) -> Value:
        """A module in an attribute is a child; what is in something else there is not."""
        if self.instance(state, value) is not None and not self.is_plain(value, state):
            return value
        return self._as_kept(value, place, state, found, set())

    def _as_kept(self, value: Value, place: Alias, state: State, found: dict[int, Alias], seen: set[int]) -> Value:
        if isinstance(value, Choice):
            return choice([(g, self._as_kept(option, place, state, found, seen)) for g, option in value.options])
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._as_kept(item, place, state, found, seen) for item in value.items))
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if thing is None or not isinstance(value, Ref) or value.oid in seen:
            return value
        if self._is_replaced(value, state):
            return self._left(value, place, state, found)
        if isinstance(thing, Instance) and not self.is_plain(value, state):
            return value
        seen.add(value.oid)
        if isinstance(thing, ListObject):
            items = None if thing.items is None else tuple(
                self._as_kept(item, place, state, found, seen) for item in thing.items
            )
            element = thing.element and self._as_kept(thing.element, place, state, found, seen)
            state.heap[value.oid] = replace(thing, items=items, element=element)
        elif isinstance(thing, DictObject):
            entries = tuple((key, self._as_kept(item, place, state, found, seen)) for key, item in thing.entries)
            state.heap[value.oid] = replace(thing, entries=entries)
        else:
            attributes = {
                name: self._as_kept(item, place, state, found, seen) for name, item in thing.attributes.items()
            }
            state.heap[value.oid] = replace(thing, attributes=attributes)
        return value

    def _left(self, value: Ref, place: Alias, state: State, found: dict[int, Alias]) -> Ref:
        """The float module that something keeps; one object for all that keep it."""
        assert self.effective is not None
        for oid, alias in found.items():
            if alias.original == value.oid and alias.span is None:
                return Ref(oid)
        instance = self.instance(state, value)
        assert instance is not None
        left = self.allocate(state, instance)
        base = self.native_base(instance) or ""
        row = self.backend.modules.get(base)
        if base in self.backend.functional_classes or (row is not None and row.role is not None):
            self.effective[left.oid] = self.effective[value.oid]
        found[left.oid] = Alias(place.parent, place.name, value.oid, None)
        return left
