"""Python builtins."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from qlsp.analysis.containers import Containers
from qlsp.analysis.machine import MAX_UNROLL, Arguments
from qlsp.analysis.objects import MODULE_ATTRIBUTES
from qlsp.values.state import Instance, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Choice,
    ClassValue,
    Const,
    Ref,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
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


class BuiltinCalls(Containers):
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

    def _builtin_delattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        target, name = arguments.get(0, "object"), arguments.get(1, "name")
        if target is not None and isinstance(name, Const):
            self.delete_attribute(target, str(name.value), state)
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
