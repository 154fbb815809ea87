"""The abstract state: names and heap objects to values; ``fork`` and ``merge``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from qlsp.values.value import NO_GUARD, ClassValue, Guard, SpanId, Symbol, Unknown, Value, choice, join


@dataclass(frozen=True, slots=True)
class ListObject:
    """A list: known ``items``, or (``items`` is None) an unknown number of ``element``. ``once`` marks an iterator,
    whose items are gone when they have been read."""

    items: tuple[Value, ...] | None
    element: Value | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class DictObject:
    """A dict with constant keys in insertion order; ``rest`` stands for entries under unknown keys, ``factory`` makes
    those that are missing (``defaultdict``), and ``attributes`` says that entries can be read as attributes."""

    entries: tuple[tuple[object, Value], ...] = ()
    rest: Value | None = None
    factory: Value | None = None
    attributes: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a project class or of a library class. ``arguments`` are a library constructor's."""

    cls: ClassValue | Symbol
    attributes: dict[str, Value] = field(default_factory=dict, hash=False)
    arguments: tuple[tuple[str, Value], ...] = ()
    created: SpanId | None = None

    def with_attribute(self, name: str, value: Value) -> Instance:
        """The instance after ``self.name = value``."""
        return replace(self, attributes={**self.attributes, name: value})


HeapObject = ListObject | DictObject | Instance


@dataclass(slots=True)
class State:
    """Names of the running function, the heap, and the branch decisions taken so far."""

    names: dict[str, Value] = field(default_factory=dict)
    heap: dict[int, HeapObject] = field(default_factory=dict)
    guard: Guard = NO_GUARD

    def fork(self, *decisions: tuple[int, int]) -> State:
        """An independent copy that has taken these branch decisions."""
        return State(dict(self.names), dict(self.heap), self.guard | frozenset(decisions))


def merge(states: list[State], base: Guard) -> State | None:
    """One state that covers all; the decisions below ``base`` move into the guards of differing values."""
    if not states:
        return None
    first = states[0]
    if len(states) == 1:
        return first
    result = first
    for other in states[1:]:
        result = _merge_two(result, other, base)
    return result


def _merge_two(left: State, right: State, base: Guard) -> State:
    left_guard, right_guard = left.guard - base, right.guard - base
    names: dict[str, Value] = {}
    for name in left.names.keys() | right.names.keys():
        mine, theirs = left.names.get(name), right.names.get(name)
        if mine is None or theirs is None:
            present = mine if mine is not None else theirs
            assert present is not None
            absent = Unknown(f"'{name}' is set on some paths only")
            guard, other = (left_guard, right_guard) if theirs is None else (right_guard, left_guard)
            names[name] = choice([(guard, present), (other, absent)])
        else:
            names[name] = join(mine, theirs, left_guard, right_guard)
    heap = dict(left.heap)
    for oid, theirs_object in right.heap.items():
        mine_object = heap.get(oid)
        if mine_object is None:
            heap[oid] = theirs_object
        elif mine_object is not theirs_object and mine_object != theirs_object:
            heap[oid] = _merge_objects(mine_object, theirs_object, left_guard, right_guard)
    return State(names, heap, left.guard & right.guard)


def _merge_objects(left: HeapObject, right: HeapObject, left_guard: Guard, right_guard: Guard) -> HeapObject:
    if isinstance(left, Instance) and isinstance(right, Instance):
        attributes: dict[str, Value] = {}
        for name in [*left.attributes, *(n for n in right.attributes if n not in left.attributes)]:
            mine, theirs = left.attributes.get(name), right.attributes.get(name)
            if mine is None or theirs is None:
                present = mine if mine is not None else theirs
                assert present is not None
                attributes[name] = present
            else:
                attributes[name] = join(mine, theirs, left_guard, right_guard)
        return replace(left, attributes=attributes)
    if isinstance(left, ListObject) and isinstance(right, ListObject):
        if left.items is not None and right.items is not None and len(left.items) == len(right.items):
            pairs = zip(left.items, right.items, strict=True)
            return ListObject(tuple(join(a, b, left_guard, right_guard) for a, b in pairs))
        return ListObject(None, _elements(left, right))
    if isinstance(left, DictObject) and isinstance(right, DictObject):
        mine_entries, their_entries = dict(left.entries), dict(right.entries)
        entries: list[tuple[object, Value]] = []
        for key in [*mine_entries, *(k for k in their_entries if k not in mine_entries)]:
            if key in mine_entries and key in their_entries:
                merged = join(mine_entries[key], their_entries[key], left_guard, right_guard)
            else:
                merged = mine_entries[key] if key in mine_entries else their_entries[key]
            entries.append((key, merged))
        rests = [r for r in (left.rest, right.rest) if r is not None]
        rest = choice([(NO_GUARD, r) for r in rests]) if rests else None
        return replace(left, entries=tuple(entries), rest=rest)
    return left


def _elements(*lists: ListObject) -> Value | None:
    values = [
        value
        for each in lists
        for value in (each.items if each.items is not None else (each.element,))
        if value is not None
    ]
    return choice([(NO_GUARD, value) for value in values]) if values else None
