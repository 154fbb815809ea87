"""Python builtins, the standard library's helpers, and methods of lists, dicts and strings."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from qlsp.analysis.calls import Calls
from qlsp.analysis.machine import MAX_UNROLL, Argument, Arguments
from qlsp.analysis.objects import MODULE_ATTRIBUTES
from qlsp.values.state import DictObject, HeapObject, Instance, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Bound,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    Guard,
    Ref,
    Symbol,
    Tensor,
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
NUMBER_FUNCTIONS: dict[str, Callable[..., object]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "abs": abs,
    "round": round,
    "max": max,
    "min": min,
    "divmod": divmod,
    "pow": pow,
    "ord": ord,
    "chr": chr,
}
PARTIAL = "functools.partial"


class BuiltinCalls(Calls):
    """Calls that need no table."""

    def builtin(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A call of a builtin function or type."""
        row = self.backend.functions.get(f"builtins.{name}")
        if row is not None and any(self.has_tensor(a.value, state) for a in arguments.positional):
            return self.apply(row, name, arguments, node, state)
        handler: Callable[[Arguments, cst.Call, State], Value] | None = getattr(self, f"_builtin_{name}", None)
        if handler is not None:
            return handler(arguments, node, state)
        return self._computed(name, arguments)

    def _computed(self, name: str, arguments: Arguments) -> Value:
        function = NUMBER_FUNCTIONS.get(name)
        values = [argument.value for argument in arguments.positional]
        if function is None or arguments.keywords or not all(isinstance(v, Const) for v in values):
            return Unknown(f"{name}() of unknown values")
        try:
            result = function(*(v.value for v in values if isinstance(v, Const)))
        except Exception:
            return Unknown(f"{name}() fails")
        return Const(result) if isinstance(result, (int, float, str, bool)) else Unknown(f"{name}()")

    def _builtin_len(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "obj")
        items = self.items(value, state) if value is not None else None
        return Const(len(items)) if items is not None else Unknown("the length of an unknown iterable")

    def _builtin_range(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        bounds = [a.value for a in arguments.positional]
        if bounds and all(isinstance(b, Const) and isinstance(b.value, int) for b in bounds):
            try:
                numbers = range(*(b.value for b in bounds if isinstance(b, Const)))
            except (TypeError, ValueError):
                return Unknown("a range that fails")
            if len(numbers) <= MAX_UNROLL:
                return TupleValue(tuple(Const(number) for number in numbers))
        return self.allocate(state, ListObject(None, Unknown("a number of an unknown range")))

    def _builtin_enumerate(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterable")
        if value is None:
            return Unknown("enumerate() of nothing")
        start = arguments.get(1, "start")
        first = start.value if isinstance(start, Const) and isinstance(start.value, int) else 0
        items = self.items(value, state)
        if items is not None:
            pairs = [TupleValue((Const(number), item)) for number, item in enumerate(items, start=first)]
            return TupleValue(tuple(pairs))
        element = TupleValue((Unknown("a counter"), self.comprehension_element(value, state)))
        return self.allocate(state, ListObject(None, element))

    def _builtin_zip(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        columns = [argument.value for argument in arguments.positional]
        known = [self.items(column, state) for column in columns]
        lengths = [len(items) for items in known if items is not None]
        if not columns:
            return TupleValue(())
        if not lengths:
            element = TupleValue(tuple(self.comprehension_element(column, state) for column in columns))
            return self.allocate(state, ListObject(None, element))
        rows = []
        for position in range(min(lengths)):
            row = []
            for column, items in zip(columns, known, strict=True):
                row.append(items[position] if items is not None else self._paired(column, position, state))
            rows.append(TupleValue(tuple(row)))
        return TupleValue(tuple(rows))

    def _paired(self, column: Value, position: int, state: State) -> Value:
        """An element that is paired with a module or number: the iterable is a list, not a tensor's rows."""
        if isinstance(column, Tensor) and column.collection:
            column = self.list_input(column, state)
        return self.element(column, position, state)

    def _builtin_list(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterable")
        if value is None:
            return self.allocate(state, ListObject(()))
        items = self.items(value, state)
        if items is not None:
            return self.allocate(state, ListObject(tuple(items)))
        return self.allocate(state, ListObject(None, self.comprehension_element(value, state)))

    def _builtin_set(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._builtin_list(arguments, node, state)

    def _builtin_iter(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._builtin_list(arguments, node, state)

    def _builtin_tuple(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterable")
        items = self.items(value, state) if value is not None else []
        if items is not None:
            return TupleValue(tuple(items))
        assert value is not None
        return self.allocate(state, ListObject(None, self.comprehension_element(value, state)))

    def _builtin_reversed(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "sequence")
        items = self.items(value, state) if value is not None else None
        if items is not None:
            return TupleValue(tuple(reversed(items)))
        return value if value is not None else Unknown("reversed() of nothing")

    def _builtin_sorted(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterable")
        items = self.items(value, state) if value is not None else None
        if items is None or arguments.keywords:
            element = self.element(value, -1, state) if value is not None else None
            return self.allocate(state, ListObject(None, element))
        plain = [item.value for item in items if isinstance(item, Const)]
        if len(plain) == len(items):
            try:
                return self.allocate(state, ListObject(tuple(Const(v) for v in sorted(plain))))
            except TypeError:
                return Unknown("sorted() fails")
        element = choice([(NO_GUARD, item) for item in items]) if items else None
        return self.allocate(state, ListObject(None, element))

    def _builtin_dict(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
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

    def _builtin_sum(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterable")
        items = self.items(value, state) if value is not None else None
        row = self.backend.functions.get("builtins.sum")
        if row is not None and value is not None and len(arguments.positional) == 1 and not arguments.keywords:
            members = items if items is not None else [self.element(value, -1, state)]
            if any(self.has_tensor(member, state) for member in members):
                return self.apply(row, "sum", arguments, node, state)
        if items is None:
            return Unknown("a sum of an unknown iterable")
        total: Value = arguments.get(1, "start") or Const(0)
        operand = node.args[0].value
        for item in items:
            total = self.binary("+", total, item, node, (operand, operand), state)
        return total

    def _builtin_map(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        if len(arguments.positional) < 2:
            return Unknown("map() of nothing")
        function = arguments.positional[0].value
        rows = self._builtin_zip(Arguments(arguments.positional[1:]), node, state)
        items = self.items(rows, state)
        if items is None:
            element = self.element(rows, -1, state)
            assert isinstance(element, TupleValue)
            self.enter_loop(state.guard)
            result = self.call(function, Arguments.of(*element.items), node, state)
            self.loop_depth -= 1
            return self.allocate(state, ListObject(None, self.marked_many(result)))
        saved = self.path
        results = []
        span = self.span(node)
        for number, row in enumerate(items):
            assert isinstance(row, TupleValue)
            self.path = (*saved, (span, number))
            results.append(self.call(function, Arguments.of(*row.items), node, state))
        self.path = saved
        return self.allocate(state, ListObject(tuple(results)))

    def _builtin_getattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        target, name = arguments.get(0, "object"), arguments.get(1, "name")
        if target is None or not isinstance(name, Const):
            return Unknown("getattr() with a computed name")
        value = self.attribute(target, str(name.value), state)
        default = arguments.get(2, "default")
        if default is not None and isinstance(value, Unknown):
            instance = self.instance(state, target)
            return default if instance is not None and self._closed(instance) else value
        return value

    def _closed(self, instance: Instance) -> bool:
        """True if every class of the instance is in view or a library module: a missing attribute is missing."""
        return not any(isinstance(entry, Unknown) for entry in self.mro(instance.cls))

    def _builtin_setattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        values = [argument.value for argument in arguments.positional]
        if len(values) == 3 and isinstance(values[1], Const):
            self.assign_attribute(values[0], str(values[1].value), values[2], state)
        return Const(None)

    def _builtin_hasattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        target, name = arguments.get(0, "obj"), arguments.get(1, "name")
        instance = self.instance(state, target) if target is not None else None
        if instance is None or not isinstance(name, Const) or not isinstance(instance.cls, ClassValue):
            return Unknown("hasattr() of an unknown object")
        if str(name.value) in instance.attributes:
            return Const(True)
        assert isinstance(target, Ref)
        found = self._class_attribute(instance.cls, str(name.value), None, state)
        if not isinstance(found, Unknown):
            return Const(True)
        if self.native_base(instance) in (None, "torch.nn.Module") and self._closed(instance):
            return Const(str(name.value) in MODULE_ATTRIBUTES)
        return Unknown("hasattr() of a library object")

    def _builtin_isinstance(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "obj")
        if value is None or len(node.args) < 2:
            return Unknown("isinstance() of nothing")
        classes = self.class_names(node.args[1].value, state)
        return choice(
            [
                (guard, self._is_instance(option, classes, state))
                for guard, option in (value.options if isinstance(value, Choice) else ((NO_GUARD, value),))
            ]
        )

    def _is_instance(self, value: Value, classes: set[str], state: State) -> Value:
        if not classes:
            return Unknown("isinstance() of an unknown class")
        if isinstance(value, Tensor):
            if value.collection:
                return Unknown("is an input a tensor or a list", ("collection", value.number))
            return Const("torch.Tensor" in classes)
        if isinstance(value, Const):
            names = {f"builtins.{kind.__name__}" for kind in type(value.value).__mro__}
            return Const(bool(names & classes))
        if isinstance(value, TupleValue):
            return Const(bool({"builtins.tuple", "collections.abc.Sequence", "typing.Sequence"} & classes))
        instance = self.instance(state, value)
        if instance is not None:
            order = self.mro(instance.cls)
            names = {entry.name if isinstance(entry, Symbol) else "" for entry in order}
            names |= {
                f"{entry.module.path}:{entry.name}" for entry in order if not isinstance(entry, (Symbol, Unknown))
            }
            if names & classes or "torch.nn.Module" in classes:
                return Const(True)
            return Unknown("isinstance()") if any(isinstance(e, Unknown) for e in order) else Const(False)
        if isinstance(value, Ref):
            kind = type(self.load(state, value)).__name__
            wanted = {"ListObject": "builtins.list", "DictObject": "builtins.dict"}.get(kind)
            if wanted in classes:
                return Const(True)
            return Const(False) if classes <= {"torch.Tensor", "builtins.tuple"} else Unknown("isinstance()")
        return Unknown("isinstance() of an unknown value")

    def class_names(self, node: cst.BaseExpression, state: State) -> set[str]:
        """Canonical names of the classes in the second argument of isinstance; empty if one is unknown."""
        nodes = [e.value for e in node.elements] if isinstance(node, cst.Tuple) else [node]
        names = set()
        for each in nodes:
            value = self.eval(each, State({}, state.heap, state.guard))
            if isinstance(value, Symbol):
                names.add(value.name)
            elif isinstance(value, ClassValue):
                model = self.class_model(value)
                names.add(f"{model.module.path}:{model.name}")
            else:
                return set()
        return names

    def _builtin_type(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "object")
        instance = self.instance(state, value) if value is not None else None
        return instance.cls if instance is not None else Unknown("type() of an unknown value")

    def _builtin_next(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterator")
        items = self.items(value, state) if value is not None else None
        if items:
            return items[0]
        return self.element(value, -1, state) if value is not None else Unknown("next() of nothing")

    def _builtin_print(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return Const(None)

    def _builtin_all(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._quantified(arguments, state, all)

    def _builtin_any(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._quantified(arguments, state, any)

    def _quantified(self, arguments: Arguments, state: State, quantifier: Callable[..., bool]) -> Value:
        value = arguments.get(0, "iterable")
        items = self.items(value, state) if value is not None else None
        truths = [self.truth(item, state) for item in items] if items is not None else [None]
        if None in truths:
            return Unknown("a condition on unknown values")
        return Const(quantifier(truths))

    # --- standard library ---------------------------------------------------------------------------

    def standard_library(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """``copy``, ``collections``, ``functools``, ``itertools``, ``math``: what models use of them."""
        first = arguments.positional[0].value if arguments.positional else None
        match name:
            case "copy.deepcopy":
                return self.copy_graph(first, state) if first is not None else None
            case "copy.copy":
                return first
            case "collections.OrderedDict" | "collections.defaultdict":
                if name.endswith("defaultdict"):
                    return self.allocate(state, DictObject((), None))
                return self._builtin_dict(arguments, node, state)
            case "functools.partial":
                shown = tuple((str(i), a.value) for i, a in enumerate(arguments.positional))
                keywords: dict[str, Value] = {k: a.value for k, a in arguments.keywords.items()}
                return self.allocate(state, Instance(Symbol(PARTIAL), keywords, shown))
            case "types.SimpleNamespace":
                given: dict[str, Value] = {k: a.value for k, a in arguments.keywords.items()}
                return None if arguments.open else self.allocate(state, Instance(Symbol(name), given))
            case "functools.reduce":
                return self._reduce(arguments, node, state)
            case "itertools.chain":
                parts = [self.items(a.value, state) for a in arguments.positional]
                if all(part is not None for part in parts):
                    return TupleValue(tuple(v for part in parts if part is not None for v in part))
                return self.allocate(state, ListObject(None, Unknown("an element of a chain")))
            case _ if name.startswith("math.") and all(isinstance(a.value, Const) for a in arguments.positional):
                return self._math(name.removeprefix("math."), arguments)
        return None

    def _math(self, name: str, arguments: Arguments) -> Value:
        import math

        function = getattr(math, name, None)
        values = [a.value.value for a in arguments.positional if isinstance(a.value, Const)]
        if not callable(function):
            return Unknown(f"math.{name}")
        try:
            return Const(function(*values))
        except Exception:
            return Unknown(f"math.{name} fails")

    def _reduce(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        if len(arguments.positional) < 2:
            return Unknown("reduce() of nothing")
        function = arguments.positional[0].value
        items = self.items(arguments.positional[1].value, state)
        if not items:
            return Unknown("reduce() of an unknown iterable")
        start = arguments.get(2, "initial")
        values = list(items) if start is None else [start, *items]
        total = values[0]
        saved = self.path
        span = self.span(node)
        for number, item in enumerate(values[1:]):
            self.path = (*saved, (span, number))
            total = self.call(function, Arguments.of(total, item), node, state)
        self.path = saved
        return total

    def call_partial(self, partial: Instance, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A call of a ``functools.partial`` object."""
        if not partial.arguments:
            return Unknown("an empty partial")
        function = partial.arguments[0][1]
        positional = [Argument(value) for _, value in partial.arguments[1:]]
        keywords = {name: Argument(value) for name, value in partial.attributes.items()}
        merged = Arguments([*positional, *arguments.positional], {**keywords, **arguments.keywords}, arguments.open)
        return self.call(function, merged, node, state)

    def call_object(self, ref: Ref, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """Calls of partial objects come first."""
        instance = self.instance(state, ref)
        if instance is not None and instance.cls == Symbol(PARTIAL) and node is not None:
            return self.call_partial(instance, arguments, node, state)
        return super().call_object(ref, arguments, node, state)

    # --- containers ---------------------------------------------------------------------------------

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
                merged = self._builtin_dict(arguments, cst.Call(cst.Name("dict")), state)
                other = self.load(state, merged) if isinstance(merged, Ref) else None
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
