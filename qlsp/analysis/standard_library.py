"""The standard library's helpers: ``copy``, ``collections``, ``functools``, ``itertools``, ``math``, ``operator``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst

from qlsp.analysis.builtin_calls import BuiltinCalls
from qlsp.analysis.expressions import number_of
from qlsp.analysis.machine import MAX_UNROLL, Argument, Arguments
from qlsp.analysis.records import RECORD_MAKERS
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    A_NUMBER,
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
    is_number,
    options_of,
)

PARTIAL = "functools.partial"
GETTERS = frozenset({"operator.itemgetter", "operator.attrgetter", "operator.methodcaller"})
CASTS = frozenset({"typing.cast", "typing_extensions.cast", "torch.jit.annotate"})
"""What gives its second argument."""

SAME = frozenset({"torch.jit._unwrap_optional", "typing.assert_type", "typing.reveal_type"})
"""What gives its first argument."""

NO_TENSORS = ("math.", "numpy.", "random.", "time.", "os.", "sys.", "warnings.", "logging.")
"""Modules whose functions give no tensors of torch, if they get numbers only."""

INSPECTED = {"isclass": {"builtins.type"}, "isfunction": {"types.FunctionType"}}
"""Functions of ``inspect`` and the classes they ask for."""

CHECKPOINT_OPTIONS = frozenset(
    {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}
)
OPERATORS = {
    "add": "+",
    "iadd": "+",
    "concat": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "or_": "|",
}
SIX = frozenset({"filter", "map", "range", "xrange", "zip"})
TREE_MAPS = frozenset({"tree_map", "tree_map_only"})
COMBINING: dict[str, Callable[..., Iterable[tuple[Value, ...]]]] = {
    "product": itertools.product,
    "combinations": itertools.combinations,
    "combinations_with_replacement": itertools.combinations_with_replacement,
    "permutations": itertools.permutations,
    "pairwise": lambda items: zip(items, items[1:], strict=False),
    "zip_longest": itertools.zip_longest,
}
"""Functions of ``itertools`` that give tuples of the items of sequences."""


class StandardLibrary(BuiltinCalls):
    """Calls of the standard library."""

    def standard_library(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """What models use of the standard library; None for what is not followed."""
        first = arguments.positional[0].value if arguments.positional else None
        if name in RECORD_MAKERS:
            return self.record_type(arguments, state)
        if name in CASTS and len(arguments.positional) == 2:
            return arguments.positional[1].value
        if name in SAME and first is not None:
            return first
        module, _, function = name.rpartition(".")
        if module == "six.moves":
            return self._six(function, arguments, node, state)
        match module:
            case "copy" if first is not None:
                return self.copy_graph(first, state) if function == "deepcopy" else self.shallow_copy(first, state)
            case "collections" | "collections.OrderedDict":
                return self._collection(function, arguments, node, state)
            case "dataclasses":
                return self.dataclass_function(function, arguments, state)
            case "inspect" if function in INSPECTED and first is not None:
                kinds = INSPECTED[function]
                return choice([(guard, self._is_instance(v, kinds, state)) for guard, v in options_of(first)])
            case "itertools" | "itertools.chain":
                return self._itertools(function, arguments, node, state)
            case "functools":
                return self._functools(function, arguments, node, state)
            case "operator":
                return self._operator(function, arguments, node, state)
            case "types" if function == "MethodType":
                return _bound(first, arguments.get(1, "object"))
            case "types" if function == "SimpleNamespace" and not arguments.open:
                given: dict[str, Value] = {k: a.value for k, a in arguments.keywords.items()}
                return self.allocate(state, Instance(Symbol(name), given))
            case "math" if all(isinstance(a.value, Const) for a in arguments.positional):
                return self._math(function, arguments)
            case "random" if function in ("choice", "sample", "choices") and first is not None:
                element = self.element(first, -1, state)
                return element if function == "choice" else self.allocate(state, ListObject(None, element))
            case "torch.utils._pytree" if function in TREE_MAPS:
                return self._mapped_tree(function, arguments, node, state)
            case "torch.utils.checkpoint" if function == "checkpoint" and first is not None:
                kept = {key: value for key, value in arguments.keywords.items() if key not in CHECKPOINT_OPTIONS}
                return self.call(first, Arguments(arguments.positional[1:], kept, arguments.open), node, state)
        if name.startswith(NO_TENSORS):
            values = [argument.value for argument in (*arguments.positional, *arguments.keywords.values())]
            if all(self._is_numeric(value, state) for value in values):
                return number_of(name, *values)
        return None

    def _six(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """``six.moves``: the builtins under the names of Python 2 and 3."""
        if name == "reduce":
            return self._reduce(arguments, node, state)
        return self.builtin({"xrange": "range"}.get(name, name), arguments, node, state) if name in SIX else None

    def _mapped_tree(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """``tree_map``: a function of every leaf of nested containers."""
        values = [argument.value for argument in arguments.positional]
        only = self.class_names(node.args[0].value, state) if name == "tree_map_only" and node.args else None
        if len(values) != (2 if only is None else 3):
            return None
        function, tree = values[-2:]
        saved, count = self.path, itertools.count()
        span = self.span(node)

        def mapped(value: Value) -> Value:
            thing = self.load(state, value) if isinstance(value, Ref) else None
            if isinstance(value, TupleValue):
                return replace(value, items=tuple(map(mapped, value.items)))
            if isinstance(thing, ListObject) and thing.items is not None:
                return self.allocate(state, ListObject(tuple(map(mapped, thing.items))))
            if isinstance(thing, DictObject) and thing.rest is None:
                return self.allocate(state, DictObject(tuple((key, mapped(entry)) for key, entry in thing.entries)))
            if isinstance(thing, (ListObject, DictObject)):
                return Unknown("a tree of unknown size")
            if only is not None and self._is_instance(value, only, state) == Const(False):
                return value
            self.path = (*saved, (span, next(count)))
            result = self.call(function, Arguments.of(value), node, state)
            self.path = saved
            return result

        return mapped(tree)

    def _is_numeric(self, value: Value, state: State) -> bool:
        """A number, or a sequence of numbers."""
        if is_number(value):
            return True
        items = self.items(value, state)
        return items is not None and all(is_number(item) for item in items)

    def _collection(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        match name:
            case "OrderedDict":
                return self._builtin_dict(arguments, node, state)
            case "fromkeys":
                return self._builtin_dict_fromkeys(arguments, node, state)
            case "defaultdict":
                factory = arguments.positional[0].value if arguments.positional else None
                return self.allocate(state, DictObject((), None, factory))
            case "deque":
                return self.new_sequence(Arguments(arguments.positional[:1]), state)
        return None

    # --- itertools ----------------------------------------------------------------------------------

    def _itertools(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        values = [argument.value for argument in arguments.positional]
        if name in COMBINING:
            return self._combined(name, arguments, state)
        if not values:
            return None
        items = self.items(values[0], state)
        match name:
            case "chain":
                return self._chained(values, state)
            case "from_iterable":
                return self._chained(items, state) if items is not None else self._nested(values[0], state)
            case "islice" if items is not None and all(isinstance(value, Const) for value in values[1:]):
                bounds = [value.value for value in values[1:] if isinstance(value, Const)]
                return self.allocate(state, ListObject(tuple(itertools.islice(items, *bounds))))
            case "repeat" if len(values) == 2 and isinstance(values[1], Const) and isinstance(values[1].value, int):
                return TupleValue((values[0],) * max(0, min(values[1].value, MAX_UNROLL)))
            case "repeat":
                return self.allocate(state, ListObject(None, values[0]))
            case "count":
                return self.allocate(state, ListObject(None, Unknown(A_NUMBER)))
            case "cycle" | "islice" | "tee":
                element = self.comprehension_element(values[0], state)
                several = self.allocate(state, ListObject(None, element))
                return several if name != "tee" else TupleValue((values[0], values[0]))
            case "starmap" if len(values) == 2:
                return self._starmap(values[0], values[1], node, state)
            case "accumulate" if items is not None:
                step = arguments.get(1, "func") or Symbol("operator.add")
                return self._accumulated(step, items, node, state)
        return None

    def _chained(self, values: Sequence[Value], state: State) -> Value:
        parts = [self.items(value, state) for value in values]
        if all(part is not None for part in parts):
            return TupleValue(tuple(item for part in parts if part is not None for item in part))
        elements = [(NO_GUARD, self.comprehension_element(value, state)) for value in values]
        return self.allocate(state, ListObject(None, choice(elements)))

    def _nested(self, value: Value, state: State) -> Value:
        inner = self.comprehension_element(value, state)
        return self.allocate(state, ListObject(None, self.comprehension_element(inner, state)))

    def _combined(self, name: str, arguments: Arguments, state: State) -> Value | None:
        values = [argument.value for argument in arguments.positional]
        count = len(values) if name in ("product", "zip_longest") else 1
        known = [self.items(value, state) for value in values[:count]]
        rest = [value.value for value in values[count:] if isinstance(value, Const)]
        options: dict[str, Any] = {}
        for key, argument in arguments.keywords.items():
            options[key] = argument.value if key == "fillvalue" else getattr(argument.value, "value", None)
        if name == "zip_longest":
            options.setdefault("fillvalue", Const(None))
        if None in known or len(rest) < len(values) - count:
            return None
        try:
            rows = list(itertools.islice(COMBINING[name](*known, *rest, **options), MAX_UNROLL + 1))
        except (TypeError, ValueError):
            return None
        if len(rows) <= MAX_UNROLL:
            return TupleValue(tuple(TupleValue(tuple(row)) for row in rows))
        everything = choice([(NO_GUARD, item) for part in known for item in part or ()])
        return self.allocate(state, ListObject(None, TupleValue((everything,) * len(rows[0]))))

    def _starmap(self, function: Value, rows: Value, node: cst.Call, state: State) -> Value | None:
        items = self.items(rows, state)
        known = [self.items(item, state) for item in items] if items is not None else [None]
        if None in known:
            return None
        columns = map(TupleValue, zip(*(row for row in known if row is not None), strict=False))
        return self._builtin_map(Arguments.of(function, *columns), node, state)

    def _accumulated(self, step: Value, items: Sequence[Value], node: cst.Call, state: State) -> Value:
        found = list(items[:1])
        for _, total in self._totals(step, items, node, state):
            found.append(total)
        return self.allocate(state, ListObject(tuple(found)))

    # --- functools, operator, math ------------------------------------------------------------------

    def _functools(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        match name:
            case "partial":
                shown = tuple((str(i), a.value) for i, a in enumerate(arguments.positional))
                keywords: dict[str, Value] = {k: a.value for k, a in arguments.keywords.items()}
                return self.allocate(state, Instance(Symbol(PARTIAL), keywords, shown))
            case "reduce":
                return self._reduce(arguments, node, state)
        return None

    def _operator(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        values = [argument.value for argument in arguments.positional]
        if f"operator.{name}" in GETTERS:
            shown = tuple((str(i), value) for i, value in enumerate(values))
            return self.allocate(state, Instance(Symbol(f"operator.{name}"), {}, shown))
        if len(values) == 2 and name == "getitem":
            return self.item(values[0], values[1], state)
        if len(values) == 2 and name in OPERATORS and not any(self.has_tensor(value, state) for value in values):
            return self.binary(OPERATORS[name], values[0], values[1], node, (node.func, node.func), state)
        return None

    def shallow_copy(self, value: Value, state: State) -> Value:
        """``copy.copy``: an object of its own that holds what the original holds."""
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if thing is None or not isinstance(value, Ref):
            return value
        copy = self.new_instance(state, thing) if isinstance(thing, Instance) else self.allocate(state, thing)
        if value.oid in self.summaries:
            self.summaries.add(copy.oid)
        self.copied(value.oid, copy.oid)
        return copy

    def _math(self, name: str, arguments: Arguments) -> Value:
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
        function, iterable = (argument.value for argument in arguments.positional[:2])
        items, start = self.items(iterable, state), arguments.get(2, "initial")
        if items is None:
            return self._reduced(function, iterable, start, node, state)
        values = items if start is None else [start, *items]
        if not values:
            return Unknown("reduce() of nothing")
        totals = [total for _, total in self._totals(function, values, node, state)]
        return totals[-1] if totals else values[0]

    def _totals(
        self, function: Value, values: Sequence[Value], node: cst.Call, state: State
    ) -> Iterable[tuple[int, Value]]:
        """The results of a function of the result so far and the next value."""
        total = values[0] if values else Unknown("reduce() of nothing")
        saved = self.path
        span = self.span(node)
        for number, item in enumerate(values[1:]):
            self.path = (*saved, (span, number))
            total = self.call(function, Arguments.of(total, item), node, state)
            self.path = saved
            yield number, total

    def _reduced(self, function: Value, iterable: Value, start: Value | None, node: cst.Call, state: State) -> Value:
        """``reduce`` over an unknown number of values."""
        if isinstance(iterable, Unknown):
            return iterable

        def step(total: Value, arm: State) -> Value:
            return self.call(function, Arguments.of(total, self.comprehension_element(iterable, arm)), node, arm)

        first = start if start is not None else self.element(iterable, 0, state)
        return self.passed_on(first, step, self.span(node), state)

    # --- callable objects ---------------------------------------------------------------------------

    def call_partial(self, partial: Instance, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A call of a ``functools.partial`` object."""
        if not partial.arguments:
            return Unknown("an empty partial")
        function = partial.arguments[0][1]
        positional = [Argument(value) for _, value in partial.arguments[1:]]
        keywords = {name: Argument(value) for name, value in partial.attributes.items()}
        merged = Arguments([*positional, *arguments.positional], {**keywords, **arguments.keywords}, arguments.open)
        return self.call(function, merged, node, state)

    def _call_getter(self, getter: Instance, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A call of what ``operator.itemgetter`` and kin give."""
        kind = getter.cls.name.rpartition(".")[2]
        keys = [value for _, value in getter.arguments]
        if len(arguments.positional) != 1 or not keys or not isinstance(keys[0], Const):
            return Unknown(f"{kind} of unknown values")
        target = arguments.positional[0].value
        if kind == "methodcaller":
            method = self.attribute(target, str(keys[0].value), state)
            return self.call(method, Arguments.of(*keys[1:]), node, state)
        if kind == "itemgetter":
            found = [self.item(target, key, state) for key in keys]
        else:
            found = [self.attribute(target, str(key.value), state) for key in keys if isinstance(key, Const)]
        return found[0] if len(found) == 1 else TupleValue(tuple(found))

    def call_object(self, ref: Ref, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """Calls of partial objects and getters come first."""
        instance = self.instance(state, ref)
        if instance is not None and node is not None:
            if instance.cls == Symbol(PARTIAL):
                return self.call_partial(instance, arguments, node, state)
            if instance.cls.name in GETTERS:
                return self._call_getter(instance, arguments, node, state)
        return super().call_object(ref, arguments, node, state)


def _bound(function: Value | None, receiver: Value | None) -> Value:
    """A function as a method of an object."""
    if not isinstance(function, FunctionValue) or receiver is None:
        return Unknown("a method of something that is not followed")
    return Bound(receiver, function.name, function)
