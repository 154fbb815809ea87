"""Methods of lists, dicts, strings."""

from __future__ import annotations

import libcst as cst

from qlsp.analysis.calls import Calls
from qlsp.analysis.machine import Arguments
from qlsp.values.state import DictObject, HeapObject, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Bound,
    Const,
    FunctionValue,
    Guard,
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


class Containers(Calls):
    """Methods of Python's containers."""

    def container_method(
        self, ref: Ref, thing: HeapObject, name: str, arguments: Arguments, node: cst.Call, state: State
    ) -> Value:
        """A method of a list or a dict."""
        if isinstance(thing, ListObject):
            return self._list_method(ref, thing, name, arguments, state)
        if isinstance(thing, DictObject):
            return self._dict_method(ref, thing, name, arguments, state)
        return Unknown(f"method {name}")

    def _list_method(self, ref: Ref, thing: ListObject, name: str, arguments: Arguments, state: State) -> Value:
        first = arguments.positional[0].value if arguments.positional else None
        match name:
            case "append" | "add" if first is not None:
                state.heap[ref.oid] = self._appended(thing, first)
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
                    state.heap[ref.oid] = self._loosened(thing, value)
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
                return Unknown(f"list.{name}()")
            case _:
                state.heap[ref.oid] = self._loosened(thing, None)
                return Unknown(f"list.{name}()")

    def _appended(self, thing: ListObject, value: Value) -> ListObject:
        if thing.items is not None:
            return ListObject((*thing.items, value))
        return self._loosened(thing, value)

    def _loosened(self, thing: ListObject, value: Value | None) -> ListObject:
        parts: list[tuple[Guard, Value]] = [(NO_GUARD, v) for v in thing.items or ()]
        if thing.element is not None:
            parts.append((NO_GUARD, thing.element))
        if value is not None:
            parts.append((NO_GUARD, self.marked_many(value)))
        return ListObject(None, choice(parts) if parts else None)

    def _pop(self, ref: Ref, thing: ListObject, index: Value | None, state: State) -> Value:
        if thing.items is None:
            return thing.element if thing.element is not None else Unknown("an element of an empty list")
        position = -1 if index is None else (index.value if isinstance(index, Const) else None)
        if not isinstance(position, int) or not -len(thing.items) <= position < len(thing.items):
            value = choice([(NO_GUARD, v) for v in thing.items]) if thing.items else Unknown("an empty list")
            state.heap[ref.oid] = self._loosened(thing, None)
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
                value = self._entry(thing, first) if first is not None else Unknown("get() of nothing")
                default = arguments.get(1, "default")
                known = isinstance(first, (Const, Symbol))
                key = first.value if isinstance(first, Const) else first
                missing = known and thing.rest is None and key not in entries
                if missing:
                    value = default if default is not None else Const(None)
                if name == "pop" and known:
                    entries.pop(key, None)
                    state.heap[ref.oid] = DictObject(tuple(entries.items()), thing.rest)
                if name == "setdefault" and missing and known:
                    entries[key] = value
                    state.heap[ref.oid] = DictObject(tuple(entries.items()), thing.rest)
                return value
            case "update":
                other = self.load(state, self.new_dict(arguments, state))
                if isinstance(other, DictObject):
                    entries.update(other.entries)
                    rest = other.rest if other.rest is not None else thing.rest
                    state.heap[ref.oid] = DictObject(tuple(entries.items()), rest)
                return Const(None)
            case "copy":
                return self.allocate(state, thing)
            case "clear":
                state.heap[ref.oid] = DictObject()
                return Const(None)
            case _:
                return Unknown(f"dict.{name}()")

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
                if isinstance(result, list):
                    return self.allocate(state, ListObject(tuple(Const(part) for part in result)))
                return Const(result)
        if isinstance(receiver, Bound):
            return Unknown("a method of a method")
        if isinstance(receiver, FunctionValue):
            return Unknown("an attribute of a function")
        return Unknown(f"method {name} of a value that is not followed")
