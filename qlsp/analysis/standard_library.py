"""The standard library's helpers: ``copy``, ``collections``, ``functools``, ``itertools``, ``math``."""

from __future__ import annotations

import libcst as cst

from qlsp.analysis.builtin_calls import BuiltinCalls
from qlsp.analysis.machine import Argument, Arguments
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import Const, Ref, Symbol, TupleValue, Unknown, Value

PARTIAL = "functools.partial"


class StandardLibrary(BuiltinCalls):
    """Calls of the standard library."""

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
