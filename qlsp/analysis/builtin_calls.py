"""Python builtins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from qlsp.analysis.expressions import number_of
from qlsp.analysis.kinds import Kinds
from qlsp.analysis.machine import MAX_UNROLL, Arguments
from qlsp.values.state import DictObject, ListObject, State
from qlsp.values.value import (
    A_NUMBER,
    NO_GUARD,
    Const,
    Ref,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    is_number,
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

NEVER_TENSORS = frozenset({"int", "float", "str", "ord", "chr", "hash", "id", "repr", "callable", "issubclass"})
"""What gives no tensor, whatever it is called with."""

class BuiltinCalls(Kinds):
    """Calls that need no table."""

    def builtin(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A call of a builtin function or type."""
        row = self.backend.functions.get(f"builtins.{name}")
        if row is not None and any(self.has_tensor(a.value, state) for a in arguments.positional):
            return self.apply(row, name, arguments, node, state)
        method = f"_builtin_{name.replace('.', '_')}"
        handler: Callable[[Arguments, cst.Call, State], Value] | None = getattr(self, method, None)
        if handler is not None:
            return handler(arguments, node, state)
        return self._computed(name, arguments)

    def _computed(self, name: str, arguments: Arguments) -> Value:
        function = NUMBER_FUNCTIONS.get(name)
        values = [argument.value for argument in arguments.positional]
        known = not arguments.keywords and all(isinstance(value, Const) for value in values)
        if function is None or not known:
            if name in NEVER_TENSORS or (function is not None and all(map(is_number, values))):
                return number_of(name, *values)
            unknown = [value.reason for value in values if isinstance(value, Unknown) and not is_number(value)]
            return Unknown(unknown[0] if unknown else f"{name}() of unknown values")
        try:
            result = function(*(v.value for v in values if isinstance(v, Const)))
        except Exception:
            return Unknown(f"{name}() fails")
        return Const(result) if isinstance(result, (int, float, str, bool)) else Unknown(f"{name}()")

    def _builtin_len(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "obj")
        items = self.items(value, state) if value is not None else None
        if items is not None:
            return Const(len(items))
        symbol = ("len", value.oid) if isinstance(value, Ref) else None
        if isinstance(value, Tensor):
            symbol = ("len", value.number)
        return Unknown(A_NUMBER, symbol)

    def _builtin_range(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        bounds = [a.value for a in arguments.positional]
        if bounds and all(isinstance(b, Const) and isinstance(b.value, int) for b in bounds):
            try:
                numbers = range(*(b.value for b in bounds if isinstance(b, Const)))
            except (TypeError, ValueError):
                return Unknown("a range that fails")
            if len(numbers) <= MAX_UNROLL:
                return TupleValue(tuple(Const(number) for number in numbers))
        return self.allocate(state, ListObject(None, Unknown(A_NUMBER)))

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
        element = TupleValue((Unknown(A_NUMBER), self.comprehension_element(value, state)))
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
        return self.new_sequence(arguments, state)

    def _builtin_set(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._builtin_list(arguments, node, state)

    def _builtin_iter(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        made = self.new_sequence(arguments, state)
        thing = self.load(state, made) if isinstance(made, Ref) else None
        if isinstance(made, Ref) and isinstance(thing, ListObject):
            state.heap[made.oid] = replace(thing, once=True)
        return made

    def spend(self, iterable: Value, state: State) -> None:
        """A loop takes what an iterator still has, or some of it."""
        thing = self.load(state, iterable) if isinstance(iterable, Ref) else None
        if isinstance(iterable, Ref) and isinstance(thing, ListObject) and thing.once:
            state.heap[iterable.oid] = replace(self.loosened(thing), once=True)

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
        return self._any_of(value, state)

    def _any_of(self, value: Value | None, state: State) -> Value:
        """Members of an iterable of unknown length, in another order or some of them only."""
        if value is None or isinstance(value, Unknown):
            return value if value is not None else Unknown("a call without an iterable")
        return self.allocate(state, ListObject(None, self.comprehension_element(value, state)))

    def _builtin_sorted(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "iterable")
        items = self.items(value, state) if value is not None else None
        if items is None:
            return self._any_of(value, state)
        order = self.order_of(items, arguments, node, state)
        if order is not None:
            return self.allocate(state, ListObject(tuple(order)))
        anything = choice([(NO_GUARD, item) for item in items])
        return self.allocate(state, ListObject((anything,) * len(items)))

    def _builtin_max(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._extreme("max", arguments, node, state)

    def _builtin_min(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self._extreme("min", arguments, node, state)

    def _extreme(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        values: list[Value] | None = [argument.value for argument in arguments.positional]
        if len(arguments.positional) == 1:
            values = self.items(arguments.positional[0].value, state)
        if not values:
            return Unknown(f"{name}() of an unknown iterable")
        order = self.order_of(values, arguments, node, state)
        if order is not None:
            return order[-1 if name == "max" else 0]
        return number_of(name, *values) if all(map(is_number, values)) else choice([(NO_GUARD, v) for v in values])

    def _builtin_filter(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        if len(arguments.positional) < 2:
            return Unknown("filter() of nothing")
        function, iterable = (argument.value for argument in arguments.positional[:2])
        items = self.items(iterable, state)
        if items is None:
            return self._any_of(iterable, state)
        kept: list[tuple[bool | None, Value]] = []
        for item in items:
            verdict = item if function == Const(None) else self.call(function, Arguments.of(item), node, state)
            kept.append((self.truth(verdict, state), item))
        left = tuple(item for truth, item in kept if truth is not False)
        if all(truth is not None for truth, _ in kept):
            return self.allocate(state, ListObject(left))
        return self.allocate(state, self.loosened(ListObject(left)))

    def _builtin_dict_fromkeys(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        keys = self.items(arguments.positional[0].value, state) if arguments.positional else None
        value = arguments.get(1, "value") or Const(None)
        if keys is None or not all(isinstance(key, (Const, Symbol)) for key in keys):
            return self.allocate(state, DictObject((), value))
        names = [key.value if isinstance(key, Const) else key for key in keys]
        return self.allocate(state, DictObject(tuple((name, value) for name in dict.fromkeys(names))))

    def _builtin_bool(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "object")
        truth = self.truth(value, state) if value is not None else False
        if truth is not None:
            return Const(truth)
        return Unknown(A_NUMBER, value.symbol if isinstance(value, Unknown) else None)

    def _builtin_dict(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        return self.new_dict(arguments, state)

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
            return default if instance is not None and self.is_closed(instance) else value
        return value

    def _builtin_setattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        values = [argument.value for argument in arguments.positional]
        if len(values) == 3 and isinstance(values[1], Const):
            self.assign_attribute(values[0], str(values[1].value), values[2], state)
        return Const(None)

    def _builtin_delattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        target, name = arguments.get(0, "object"), arguments.get(1, "name")
        if target is not None and isinstance(name, Const):
            self.delete_attribute(target, str(name.value), state)
        return Const(None)

    def _builtin_next(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """The first item, which an iterator then no longer has."""
        value, default = arguments.get(0, "iterator"), arguments.get(1, "default")
        if value is None:
            return Unknown("next() of nothing")
        items = self.items(value, state)
        if items is None:
            found = self.element(value, -1, state)
            return found if default is None else choice([(NO_GUARD, found), (NO_GUARD, default)])
        if not items:
            return default if default is not None else Unknown("next() of nothing")
        if isinstance(value, Ref) and isinstance(self.load(state, value), ListObject):
            state.heap[value.oid] = ListObject(tuple(items[1:]), once=True)
            return items[0]
        fresh = bool(node.args) and isinstance(node.args[0].value, cst.Call)
        return items[0] if fresh else choice([(NO_GUARD, item) for item in items])

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
