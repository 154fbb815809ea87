"""Methods of lists, dicts, strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import libcst as cst

from qlsp.analysis.expressions import number_of
from qlsp.analysis.machine import Arguments
from qlsp.analysis.records import Records
from qlsp.values.state import DictObject, HeapObject, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Bound,
    Const,
    FunctionValue,
    Ref,
    Symbol,
    TupleValue,
    Unknown,
    Value,
    choice,
)

SAFE_STRING_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "replace",
        "split",
        "partition",
        "rpartition",
        "rsplit",
        "join",
        "format",
        "title",
        "capitalize",
        "isdigit",
        "count",
        "find",
        "removeprefix",
        "removesuffix",
    ]
)


class Containers(Records):
    """Methods of Python's containers."""

    def container_method(
        self, ref: Ref, thing: HeapObject, name: str, arguments: Arguments, node: cst.Call, state: State
    ) -> Value:
        """A method of a list or a dict."""
        if isinstance(thing, ListObject):
            return self._list_method(ref, thing, name, arguments, node, state)
        if isinstance(thing, DictObject):
            return self._dict_method(ref, thing, name, arguments, state)
        return Unknown(f"method {name}")

    def _list_method(
        self, ref: Ref, thing: ListObject, name: str, arguments: Arguments, node: cst.Call, state: State
    ) -> Value:
        first = arguments.positional[0].value if arguments.positional else None
        match name:
            case "append" | "add" if first is not None:
                state.heap[ref.oid] = self.appended(thing, first)
                return Const(None)
            case "extend" | "update" if first is not None:
                state.heap[ref.oid] = self.extended(thing, first, state)
                return Const(None)
            case "insert" if len(arguments.positional) == 2:
                value = arguments.positional[1].value
                if thing.items is not None and isinstance(first, Const) and isinstance(first.value, int):
                    items = list(thing.items)
                    items.insert(first.value, value)
                    state.heap[ref.oid] = ListObject(tuple(items))
                else:
                    state.heap[ref.oid] = self.loosened(thing, value)
                return Const(None)
            case "pop":
                return self._pop(ref, thing, first, state)
            case "reverse":
                if thing.items is not None:
                    state.heap[ref.oid] = ListObject(tuple(reversed(thing.items)))
                return Const(None)
            case "copy":
                return self.allocate(state, thing)
            case "clear":
                state.heap[ref.oid] = ListObject(())
                return Const(None)
            case "index" | "count":
                return number_of(f"list.{name}")
            case "sort":
                state.heap[ref.oid] = self._sorted_list(thing, arguments, node, state)
                return Const(None)
            case _:
                state.heap[ref.oid] = self.loosened(thing, None)
                return Unknown(f"list.{name}()")

    def _sorted_list(self, thing: ListObject, arguments: Arguments, node: cst.Call, state: State) -> ListObject:
        """A list after ``sort``, or what ``sorted`` makes of it."""
        order = self.order_of(thing.items, arguments, node, state) if thing.items is not None else None
        return self.loosened(thing) if order is None else ListObject(tuple(order))

    def order_of(
        self, items: Sequence[Value], arguments: Arguments, node: cst.Call, state: State
    ) -> list[Value] | None:
        """Values in the order of their keys; None if the keys are not all known."""
        key, reverse = arguments.keywords.get("key"), arguments.keywords.get("reverse")
        backwards = reverse.value if reverse is not None else Const(False)
        if not isinstance(backwards, Const):
            return None
        keys = list(items)
        if key is not None and key.value != Const(None):
            keys = [self.call(key.value, Arguments.of(item), node, state) for item in items]
        ranks = [_rank(each) for each in keys]
        if None in ranks:
            return None
        try:
            places = sorted(range(len(items)), key=lambda place: ranks[place], reverse=bool(backwards.value))
        except TypeError:
            return None
        return [items[place] for place in places]

    def _pop(self, ref: Ref, thing: ListObject, index: Value | None, state: State) -> Value:
        if thing.items is None:
            return thing.element if thing.element is not None else Unknown("an element of an empty list")
        position = -1 if index is None else (index.value if isinstance(index, Const) else None)
        if not isinstance(position, int) or not -len(thing.items) <= position < len(thing.items):
            value = choice([(NO_GUARD, v) for v in thing.items]) if thing.items else Unknown("an empty list")
            state.heap[ref.oid] = self.loosened(thing, None)
            return value
        items = list(thing.items)
        value = items.pop(position)
        state.heap[ref.oid] = ListObject(tuple(items))
        return value

    def _dict_method(self, ref: Ref, thing: DictObject, name: str, arguments: Arguments, state: State) -> Value:
        first = arguments.positional[0].value if arguments.positional else None
        entries = dict(thing.entries)
        match name:
            case "items" | "values" | "keys":
                return self._view(thing, name, state)
            case "get" | "pop" | "setdefault":
                value: Value = Unknown("get() of nothing")
                if first is not None:
                    value = self.dict_value(replace(thing, factory=None), first, ref, state)
                default = arguments.get(1, "default")
                known = isinstance(first, (Const, Symbol))
                key = first.value if isinstance(first, Const) else first
                missing = known and thing.rest is None and key not in entries
                if missing:
                    value = default if default is not None else Const(None)
                elif known and thing.rest is not None and key not in entries and (name == "get" or default is not None):
                    value = self._maybe(value, default or Const(None), thing, first, ref)
                if name == "pop" and known:
                    entries.pop(key, None)
                    state.heap[ref.oid] = replace(thing, entries=tuple(entries.items()))
                if name == "setdefault" and missing and known:
                    entries[key] = value
                    state.heap[ref.oid] = replace(thing, entries=tuple(entries.items()))
                return value
            case "update":
                other = self.load(state, self.new_dict(arguments, state))
                if isinstance(other, DictObject):
                    entries.update({key: self.claimed(entries.get(key), value) for key, value in other.entries})
                    rest = other.rest if other.rest is not None else thing.rest
                    state.heap[ref.oid] = replace(thing, entries=tuple(entries.items()), rest=rest)
                return Const(None)
            case "popitem" if thing.rest is None and entries:
                key = next(iter(entries)) if arguments.get(0, "last") == Const(False) else [*entries][-1]
                value = entries.pop(key)
                state.heap[ref.oid] = replace(thing, entries=tuple(entries.items()))
                return TupleValue((key if isinstance(key, Symbol) else Const(key), value))
            case "move_to_end" if isinstance(first, Const) and first.value in entries:
                moved = (first.value, entries.pop(first.value))
                front = arguments.get(1, "last") == Const(False)
                order = [moved, *entries.items()] if front else [*entries.items(), moved]
                state.heap[ref.oid] = replace(thing, entries=tuple(order))
                return Const(None)
            case "copy":
                return self.allocate(state, thing)
            case "clear":
                state.heap[ref.oid] = DictObject()
                return Const(None)
            case _:
                return Unknown(f"dict.{name}()")

    def _maybe(self, value: Value, default: Value, thing: DictObject, key: Value | None, ref: Ref) -> Value:
        """An entry that a dict may have, or the default."""
        number = self.number(("symbol", self.presence(thing, key, ref)))
        return choice([(frozenset({(number, 0)}), default), (frozenset({(number, 1)}), value)])

    def new_dict(self, arguments: Arguments, state: State) -> Ref:
        """What ``dict(...)`` of these arguments gives."""
        entries: dict[object, Value] = {}
        rest: Value | None = Unknown("entries of an open call") if arguments.open else None
        value = arguments.get(0, "iterable")
        if value is not None:
            thing = self.load(state, value) if isinstance(value, Ref) else None
            if isinstance(thing, DictObject):
                entries.update(thing.entries)
                rest = thing.rest
            else:
                pairs = self.items(value, state)
                if pairs is None:
                    rest = Unknown("entries of an unknown dict")
                for pair in pairs or []:
                    entry = self.items(pair, state)
                    if entry is not None and len(entry) == 2 and isinstance(entry[0], Const):
                        entries[entry[0].value] = entry[1]
                    else:
                        rest = Unknown("entries of an unknown dict")
        for key, argument in arguments.keywords.items():
            entries[key] = argument.value
        return self.allocate(state, DictObject(tuple(entries.items()), rest))

    def new_sequence(self, arguments: Arguments, state: State) -> Value:
        """What ``list(...)`` of these arguments gives."""
        value = arguments.get(0, "iterable")
        if value is None:
            return self.allocate(state, ListObject(()))
        items = self.items(value, state)
        if items is not None:
            return self.allocate(state, ListObject(tuple(items)))
        return self.allocate(state, ListObject(None, self.comprehension_element(value, state)))

    def _view(self, thing: DictObject, name: str, state: State) -> Value:
        pairs: list[tuple[Value, Value]] = [
            (key if isinstance(key, Symbol) else Const(key), value) for key, value in thing.entries
        ]
        if thing.rest is None:
            if name == "keys":
                return TupleValue(tuple(key for key, _ in pairs))
            if name == "values":
                return TupleValue(tuple(value for _, value in pairs))
            return TupleValue(tuple(TupleValue(pair) for pair in pairs))
        values = choice([(NO_GUARD, v) for _, v in pairs] + [(NO_GUARD, thing.rest)])
        key: Value = Unknown("a key of an unknown dict")
        element = {"keys": key, "values": values}.get(name, TupleValue((key, values)))
        return self.allocate(state, ListObject(None, element))

    def constant_method(self, receiver: Value, name: str, arguments: Arguments, state: State) -> Value:
        """A method of a string or a number."""
        values = [a.value for a in arguments.positional]
        if isinstance(receiver, Const) and isinstance(receiver.value, str) and name in SAFE_STRING_METHODS:
            if name == "join" and values:
                parts = self.items(values[0], state)
                if parts is not None and all(isinstance(p, Const) for p in parts):
                    return Const(receiver.value.join(str(p.value) for p in parts if isinstance(p, Const)))
            elif all(isinstance(v, Const) for v in values) and not arguments.keywords:
                try:
                    result = getattr(receiver.value, name)(*(v.value for v in values if isinstance(v, Const)))
                except Exception:
                    return Unknown(f"str.{name}() fails")
                if isinstance(result, tuple):
                    return TupleValue(tuple(Const(part) for part in result))
                if isinstance(result, list):
                    return self.allocate(state, ListObject(tuple(Const(part) for part in result)))
                return Const(result)
        if isinstance(receiver, Bound):
            return Unknown("a method of a method")
        if isinstance(receiver, FunctionValue):
            return Unknown("an attribute of a function")
        return Unknown(f"method {name} of a value that is not followed")


def _rank(key: Value) -> Any:
    """A known key as something Python can sort by, None for an unknown one."""
    if isinstance(key, Const):
        return key.value
    if isinstance(key, TupleValue) and key.items:
        ranks = [_rank(item) for item in key.items]
        known = ranks.index(None) if None in ranks else len(ranks)
        return tuple(ranks[:known]) if known else None
    return None
