"""Widening: one state for all passes of a loop of unknown length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from qlsp.values.state import DictObject, HeapObject, Instance, ListObject, State
from qlsp.values.value import (
    A_NUMBER,
    NO_GUARD,
    NONE,
    Ref,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    is_number,
    options_of,
)

UNSETTLED = Unknown("a loop whose values do not settle")

Key = tuple[object, ...]
Name = TypeVar("Name")


@dataclass(frozen=True)
class Widening:
    """The objects at the head of a loop, which grow into what covers a further pass. Objects with an id of ``mark``
    or more were built in the loop. ``number`` gives value numbers, ``unshared`` takes the scale from what is several.
    """

    heap: dict[int, HeapObject]
    mark: int
    number: Callable[[Key], int]
    unshared: Callable[[Value], Value]

    def states(self, before: State, after: State, span: object) -> State:
        """The state at the head of a loop: changing tensors get one value number for all passes, and what each pass
        builds anew is one object."""
        self.heap.update((oid, thing) for oid, thing in after.heap.items() if oid not in before.heap)
        for oid, thing in before.heap.items():
            self.heap[oid] = self._object(self.heap[oid], after.heap.get(oid, thing), (span, oid))
        names = dict(before.names)
        for name, value in after.names.items():
            old = before.names.get(name)
            names[name] = value if old is None else self._value(old, value, (span, name))
        return State(names, self.heap, before.guard)

    def _object(self, old: HeapObject, new: HeapObject, key: Key) -> HeapObject:
        if old is new or old == new:
            return new
        if isinstance(old, ListObject) and isinstance(new, ListObject):
            return self._list(old, new, key)
        if isinstance(old, DictObject) and isinstance(new, DictObject):
            entries = self._entries(dict(old.entries), dict(new.entries), key)
            rests = [each for each in (old.rest, new.rest) if each is not None]
            rest = self._elements(rests, key) if len(set(rests)) > 1 else new.rest or old.rest
            return replace(new, entries=tuple(entries.items()), rest=rest)
        if isinstance(old, Instance) and isinstance(new, Instance):
            return replace(old, attributes=self._entries(old.attributes, new.attributes, key))
        return new

    def _entries(self, old: Mapping[Name, Value], new: Mapping[Name, Value], key: Key) -> dict[Name, Value]:
        entries: dict[Name, Value] = {}
        for name in [*old, *(name for name in new if name not in old)]:
            if name in old and name in new:
                entries[name] = self._value(old[name], new[name], (*key, str(name)))
            else:
                entries[name] = old[name] if name in old else new[name]
        return entries

    def _value(self, old: Value, new: Value, key: Key) -> Value:
        if old == new:
            return old
        if is_number(old) and is_number(new) and NONE not in (old, new):
            return Unknown(A_NUMBER)
        found: list[Value] = []
        for _, option in (*options_of(old), *options_of(new)):
            if isinstance(option, Tensor):
                phi = self.number(key)
                self._add(found, self.unshared(replace(option, number=phi, base=phi)))
            else:
                self._add(found, self._absorbed(option, found, key))
        return choice([(NO_GUARD, option) for option in found])

    def _list(self, old: ListObject, new: ListObject, key: Key) -> ListObject:
        if old.items is not None and new.items is not None and len(old.items) == len(new.items):
            return ListObject(self._columns(old.items, new.items, key))
        values = [*(old.items or ()), *(new.items or ()), *(v for v in (old.element, new.element) if v is not None)]
        return ListObject(None, self._elements(values, key))

    def _elements(self, values: Sequence[Value], key: Key) -> Value | None:
        """What stands for several elements of a list or dict."""
        found: list[Value] = []
        for value in values:
            for _, option in options_of(value):
                if isinstance(option, Tensor):
                    self._add_element(found, replace(option, number=self.number(("elements", key)), many=True))
                else:
                    self._add(found, self._absorbed(option, found, key))
        return choice([(NO_GUARD, option) for option in found]) if found else None

    def _columns(self, old: tuple[Value, ...], new: tuple[Value, ...], key: Key) -> tuple[Value, ...]:
        pairs = enumerate(zip(old, new, strict=True))
        return tuple(self._value(mine, theirs, (*key, number)) for number, (mine, theirs) in pairs)

    def _add_element(self, found: list[Value], value: Tensor) -> None:
        """A member of a list; those of several passes that differ in what they are parts of are parts of nothing."""
        for position, other in enumerate(found):
            if isinstance(other, Tensor) and replace(other, base=value.base) == value:
                found[position] = other if other.base == value.base else replace(other, base=other.number)
                return
        found.append(value)

    def _add(self, found: list[Value], value: Value) -> None:
        if value not in found:
            found.append(value)

    def _absorbed(self, value: Value, found: list[Value], key: Key) -> Value:
        """A tuple or an object, made one with its like of another pass."""
        for position, other in enumerate(found):
            if isinstance(value, TupleValue) and isinstance(other, TupleValue) and len(value.items) == len(other.items):
                found[position] = replace(other, items=self._columns(other.items, value.items, key))
                return found[position]
            if isinstance(value, Ref) and isinstance(other, Ref) and self._one_site(other.oid, value.oid):
                self.heap[other.oid] = self._object(self.heap[other.oid], self.heap[value.oid], (*key, "object"))
                return other
        return value

    def _one_site(self, old: int, new: int) -> bool:
        """Were two objects of one kind built by two passes of the loop?"""
        if old == new or min(old, new) < self.mark or old not in self.heap or new not in self.heap:
            return False
        mine, theirs = self.heap[old], self.heap[new]
        if isinstance(mine, Instance) and isinstance(theirs, Instance):
            return mine.cls == theirs.cls and mine.created == theirs.created
        return type(mine) is type(theirs)


def holds(known: Mapping[int, HeapObject], heap: Mapping[int, HeapObject]) -> bool:
    """Are the known objects what they were? (New ones do not matter where no name changed.)"""
    return all(heap[oid] is thing or heap[oid] == thing for oid, thing in known.items())


def given_up(before: State, after: State) -> State:
    """The state after a pass without what the pass still changed."""
    names = {name: value if before.names.get(name) == value else UNSETTLED for name, value in after.names.items()}
    heap = {
        oid: thing if oid not in before.heap or before.heap[oid] == thing else _emptied(before.heap[oid], thing)
        for oid, thing in after.heap.items()
    }
    return State(names, heap, after.guard)


def _emptied(before: HeapObject, after: HeapObject) -> HeapObject:
    match after:
        case ListObject():
            return ListObject(None, UNSETTLED)
        case DictObject():
            return DictObject((), UNSETTLED)
        case Instance():
            kept = before.attributes if isinstance(before, Instance) else {}
            attributes = {k: v if kept.get(k) == v else UNSETTLED for k, v in after.attributes.items()}
            return replace(after, attributes=attributes)
