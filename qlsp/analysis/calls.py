"""Calls: project functions, classes, module instances; library calls go to ``library``."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from qlsp.analysis.classes import decorator_kind
from qlsp.analysis.machine import MAX_DEPTH, Argument, Arguments, Frame
from qlsp.analysis.module_containers import ModuleContainers
from qlsp.analysis.program import ClassModel, FunctionModel
from qlsp.analysis.recursion import leads_nowhere
from qlsp.syntax.names import dotted
from qlsp.values.state import DictObject, Instance, ListObject, State, merge
from qlsp.values.value import (
    NO_GUARD,
    Bound,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    Guard,
    RecordType,
    Ref,
    SpanId,
    Super,
    Symbol,
    TupleValue,
    Unknown,
    Value,
    choice,
    exclusive,
    something,
)

MAX_RECURSION = 5


class Calls(ModuleContainers):
    """Call dispatch."""

    built: dict[SpanId, set[SpanId | None]]
    sites: dict[SpanId, set[SpanId | None]]
    created: list[tuple[Ref, ClassValue | Symbol, SpanId | None]]
    _stack: list[SpanId]
    _passed: dict[SpanId, tuple[Value, ...]]

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Call a value."""
        self.tick()
        match function:
            case Choice():
                return self._call_options(function, arguments, node, state)
            case FunctionValue():
                return self.call_function(function, None, arguments, node, state)
            case ClassValue():
                return self.instantiate(function, arguments, node, state)
            case Bound():
                if function.function is not None:
                    return self.call_function(function.function, function.receiver, arguments, node, state)
                return self.native_method(function, arguments, node, state)
            case Ref():
                return self.call_object(function, arguments, node, state)
            case RecordType():
                return self.new_record(function, arguments, state)
            case Symbol():
                return self.library_call(function.name, arguments, node, state)
            case Unknown():
                return self._unknown_call(function, arguments, node, state)
            case _:
                return Unknown("a call of something that is not a function")

    def _unknown_call(self, function: Unknown, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A call of a name that nothing is known of: equal calls may give equal values, others need not."""
        if not isinstance(node.func, cst.Name):
            return Unknown(function.reason)
        keys = (self.key_of(argument.value, state) for argument in arguments.positional)
        return Unknown(function.reason, ("call", node.func.value, *keys))

    def _call_options(self, function: Choice, arguments: Arguments, node: cst.Call, state: State) -> Value:
        method = self.method_of_tensors(function, arguments, node, state)
        if method is not None:
            return method
        base = state.guard
        values: list[tuple[Guard, Value]] = []
        outcomes: list[State] = []
        saved = self.path
        span = self.span(node)
        key = self.number(("callee", span, saved))
        followed: dict[int, Guard] = {}
        callable_ones = something(function)
        for number, (guard, option) in enumerate(function.options):
            if exclusive(guard, base) or (guard, option) not in callable_ones:
                continue
            if not isinstance(option, Const):
                followed[number] = guard
            arm = state.fork(*guard, (key, number))
            self.path = (*saved, (span, number))
            value = self.call(option, arguments, node, arm)
            values.append((arm.guard - base, value))
            outcomes.append(arm)
        self.path = saved
        if self.facts is not None and not self.muted and all(followed.values()):
            self.facts.callees[(span, saved)] = frozenset(followed)
        self.adopt(state, outcomes, base)
        return choice(values) if values else Unknown("no alternative is left")

    def method_of_tensors(self, function: Choice, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """A tensor method whose receiver has alternatives: one call (see ``library``)."""
        raise NotImplementedError

    def special_call(self, node: cst.Call, state: State) -> Value | None:
        """``super()`` and ``super(Class, self)``."""
        if not (isinstance(node.func, cst.Name) and node.func.value == "super") or "super" in state.names:
            return Unknown("a look at the running frame")
        frame = self.current
        if len(node.args) == 2:
            cls = self.eval(node.args[0].value, state)
            receiver = self.eval(node.args[1].value, state)
            if isinstance(cls, ClassValue):
                return Super(receiver, cls.span)
        if frame.owner is None or frame.receiver is None:
            return Unknown("super() outside a method")
        return Super(frame.receiver, frame.owner.span)

    # --- functions ----------------------------------------------------------------------------------

    def call_function(
        self,
        function: FunctionValue,
        receiver: Value | None,
        arguments: Arguments,
        node: cst.CSTNode | None,
        state: State,
    ) -> Value:
        """Call a function of the project: its body runs on the abstract arguments."""
        model = self.functions[function.span]
        positional = arguments.positional
        if receiver is None and _is_method(model) and positional and isinstance(positional[0].value, Ref):
            receiver, rest = positional[0].value, positional[1:]
            arguments = Arguments(rest, arguments.keywords, arguments.open, arguments.more)
        if self.depth >= MAX_DEPTH or self._stack.count(function.span) >= MAX_RECURSION:
            return Unknown("a recursion that is not followed")
        wrapper = self.opaque(model) if self.facts is not None else None
        if wrapper is not None:
            arguments = _unknown_arguments(arguments, f"an argument behind the decorator {wrapper}")
        saved_frame, saved_path, saved_names = self.frame, self.path, state.names
        base = state.guard
        if node is not None and self.frame is not None:
            self.path = (*saved_path, (self.span(node), -1))
        frame = Frame(model.unit, model.module, model.name, model.owner, receiver, function.closure)
        frame.depth, frame.guard = self.loop_depth, base
        caller = saved_frame.builder if saved_frame is not None else None
        of_object = model.owner is not None and receiver is not None and not isinstance(receiver, ClassValue)
        frame.builder = model.owner.span if of_object and model.owner is not None else caller
        if saved_frame is not None and self.closure_frames.get(function.closure) is saved_frame:
            self.closures[function.closure].update(saved_names)
        self.frame = frame
        self.depth += 1
        self._stack.append(function.span)
        outer = self._passed.get(function.span)
        try:
            inner = State({}, state.heap, state.guard)
            self._bind_parameters(model, receiver, arguments, inner)
            frame.arguments = self._passed[function.span] = tuple(inner.names.values())
            if outer is not None and leads_nowhere(outer, frame.arguments, lambda ref: self.load(inner, ref)):
                return Unknown("a recursion that is not followed")
            value = self._run_body(model, frame, inner, base, state)
        finally:
            if outer is None:
                self._passed.pop(function.span, None)
            else:
                self._passed[function.span] = outer
            self.frame, self.path = saved_frame, saved_path
            self.depth -= 1
            self._stack.pop()
            state.names = saved_names
            state.guard = base
        return value if wrapper is None else Unknown(f"the result of a function with the decorator {wrapper}")

    def _run_body(self, model: FunctionModel, frame: Frame, inner: State, base: Guard, state: State) -> Value:
        node = model.node
        if isinstance(node, cst.Lambda):
            value = self.eval(node.body, inner)
            state.heap = inner.heap
            return value
        end = self.suite(node.body, inner)
        outcomes = [(value, outcome) for value, outcome, _ in frame.returns]
        if end is not None:
            outcomes.append((Const(None), end))
        if not outcomes:
            return Unknown(f"{model.name}() does not return")
        states = []
        for _, outcome in outcomes:
            for name in frame.nonlocals & outcome.names.keys():
                state.names[name] = outcome.names[name]
            outcome.names = {}
            states.append(outcome)
        values = [(outcome.guard - base, value) for value, outcome in outcomes]
        merged = merge(states, base)
        assert merged is not None
        state.heap = merged.heap
        if frame.yields:
            found = ListObject(tuple(frame.yields))
            return self.allocate(state, self.loosened(found) if frame.uneven else found)
        return choice(values)

    def _bind_parameters(
        self, model: FunctionModel, receiver: Value | None, arguments: Arguments, state: State
    ) -> None:
        parameters = model.node.params
        positional = [argument.value for argument in arguments.positional]
        if receiver is not None and decorated_receiver(model):
            positional.insert(0, receiver)
        named = {name: argument.value for name, argument in arguments.keywords.items()}
        plain = [*parameters.posonly_params, *parameters.params]
        for position, parameter in enumerate(plain):
            name = parameter.name.value
            if position < len(positional):
                value = positional[position]
            elif name in named:
                value = named.pop(name)
            elif arguments.open:
                value = Unknown(f"argument '{name}' of an open call")
            else:
                value = self._default(parameter, state)
            state.names[name] = value
        rest = positional[len(plain) :]
        star = parameters.star_arg
        if isinstance(star, cst.Param):
            if arguments.open or arguments.more:
                element = (
                    choice([(NO_GUARD, v) for v in rest]) if rest else Unknown("arguments of an open call")
                )
                state.names[star.name.value] = self.allocate(
                    state, ListObject(None, self.marked_many(element))
                )
            else:
                state.names[star.name.value] = TupleValue(tuple(rest))
        for parameter in parameters.kwonly_params:
            name = parameter.name.value
            if name in named:
                state.names[name] = named.pop(name)
            elif arguments.open:
                state.names[name] = Unknown(f"argument '{name}' of an open call")
            else:
                state.names[name] = self._default(parameter, state)
        if parameters.star_kwarg is not None:
            entries = tuple(named.items())
            is_open = arguments.open or arguments.more
            open_rest = Unknown("arguments of an open call") if is_open else None
            state.names[parameters.star_kwarg.name.value] = self.allocate(
                state, DictObject(entries, open_rest)
            )

    def _default(self, parameter: cst.Param, state: State) -> Value:
        if parameter.default is None:
            name = parameter.name.value
            return Unknown(f"argument '{name}' is not known", ("argument", name, *self._call_key()))
        scope = State({}, state.heap, state.guard)
        value = self.eval(parameter.default, scope)
        state.heap = scope.heap
        return value

    def _call_key(self) -> tuple[object, ...]:
        return (self.current.unit.path, self.current.unit.index, self.path)

    # --- classes ------------------------------------------------------------------------------------

    def instantiate(
        self, cls: ClassValue, arguments: Arguments, node: cst.CSTNode | None, state: State
    ) -> Value:
        """Build an instance of a project class by running its constructor."""
        if self.own_metaclass(cls):
            return Unknown(f"an object of {cls.name}, whose metaclass is not followed")
        if self.is_replaced(cls):
            return Unknown(f"an object of {cls.name}, whose decorator puts another class in its place")
        made = self._made_by_class(cls, arguments, node, state)
        if made is not None:
            return made
        span = self.span(node) if node is not None and self.frame is not None else None
        builder = self.frame.builder if self.frame is not None else None
        self.built.setdefault(cls.span, set()).add(builder)
        if span is not None:
            self.sites.setdefault(span, set()).add(builder)
        ref = self.new_instance(state, Instance(cls, {}, (), span))
        self.created.append((ref, cls, span))
        constructor = self._class_attribute(cls, "__init__", ref, state)
        if isinstance(constructor, Bound) and constructor.function is not None:
            self.call_function(constructor.function, ref, arguments, node, state)
            return ref
        instance = self.instance(state, ref)
        assert instance is not None
        base = self.native_base(instance)
        if base is not None and not self._is_dataclass(cls):
            self.native_init(ref, base, arguments, state)
        else:
            self.fields(ref, cls, arguments, state)
        return ref

    def _is_dataclass(self, cls: ClassValue) -> bool:
        names = (dotted(decorator.decorator) for decorator in self.class_model(cls).node.decorators)
        calls = (d.decorator.func for d in self.class_model(cls).node.decorators if isinstance(d.decorator, cst.Call))
        return any(name is not None and name.endswith("dataclass") for name in (*names, *map(dotted, calls)))

    def _made_by_class(
        self, cls: ClassValue, arguments: Arguments, node: cst.CSTNode | None, state: State
    ) -> Value | None:
        """What ``__new__`` of a class gives that builds objects of other classes."""
        found = next((e.methods["__new__"] for e in self.mro(cls) if _has_new(e)), None)  # type: ignore[union-attr]
        if found is None:
            return None
        given = Arguments([Argument(cls), *arguments.positional], arguments.keywords, arguments.open, arguments.more)
        value = self.call_function(self.function_value(found), None, given, node, state)
        instance = self.instance(state, value)
        return value if instance is not None and instance.cls != cls else None

    # --- instances ----------------------------------------------------------------------------------

    def call_object(self, ref: Ref, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """Call an instance: a module's forward, or ``__call__``."""
        instance = self.instance(state, ref)
        if instance is None:
            return Unknown("a call of an object that this path did not build")
        order = self.mro(instance.cls)
        cls = instance.cls if isinstance(instance.cls, ClassValue) else None
        method = self.found_in(order, "__call__", ref, cls, state)
        plain = self.native_base(instance) is None and self.is_closed(instance)
        if plain and isinstance(method, Bound) and method.function is not None:
            return self.call_function(method.function, ref, arguments, node, state)
        return self._call_method(ref, instance, method, arguments, node, state)

    def call_forward(self, ref: Ref, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """``torch.nn.Module.__call__``: the forward of the object."""
        instance = self.instance(state, ref)
        assert instance is not None
        return self._call_method(ref, instance, None, arguments, node, state)

    def _call_method(
        self,
        ref: Ref,
        instance: Instance,
        method: Value | None,
        arguments: Arguments,
        node: cst.Call | None,
        state: State,
    ) -> Value:
        """Call ``__call__`` of an object, its forward if it has none of its own."""
        if method is None:
            method = self._own_forward(ref, instance, state)
        if isinstance(method, Bound) and method.function is not None:
            return self.forward(method, arguments, node, state)
        if method is not None:
            if self.facts is None and not isinstance(method, (FunctionValue, Ref)):
                return Unknown("a model called in a script")
            return self.call(method, arguments, node, state) if node is not None else Unknown("a call without syntax")
        base = self.native_base(instance)
        if base is None:
            return Unknown("a call of an object of unknown class")
        return self.native_forward(ref, base, arguments, node, state)

    def _own_forward(self, ref: Ref, instance: Instance, state: State) -> Value | None:
        """The forward that an object or its class in view has; convert swaps a layer with what was set on it."""
        row = self.backend.modules.get(instance.cls.name)
        swapped = row is not None and row.swapped and self.conversion(ref) is True
        if "forward" in instance.attributes and not swapped:
            return instance.attributes["forward"]
        cls = instance.cls if isinstance(instance.cls, ClassValue) else None
        return self.found_in(self.mro(instance.cls), "forward", ref, cls, state)

    def forward(self, method: Bound, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """Run a project module's forward; outside a root's analysis it stays unknown."""
        if self.facts is None:
            return Unknown("a model called in a script")
        assert method.function is not None
        return self.call_function(method.function, method.receiver, arguments, node, state)

    def copy_graph(self, value: Value, state: State, seen: dict[int, Ref] | None = None) -> Value:
        """``copy.deepcopy``: every reachable object gets a new identity."""
        seen = {} if seen is None else seen
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self.copy_graph(item, state, seen) for item in value.items))
        if isinstance(value, Choice):
            return choice([(guard, self.copy_graph(option, state, seen)) for guard, option in value.options])
        if not isinstance(value, Ref):
            return value
        if value.oid in seen:
            return seen[value.oid]
        thing = self.load(state, value)
        if thing is None:
            return value
        copy = self.new_instance(state, thing) if isinstance(thing, Instance) else self.allocate(state, thing)
        if value.oid in self.summaries:
            self.summaries.add(copy.oid)
        self.copied(value.oid, copy.oid)
        seen[value.oid] = copy
        if isinstance(thing, Instance):
            attributes = {k: self.copy_graph(v, state, seen) for k, v in thing.attributes.items()}
            state.heap[copy.oid] = replace(thing, attributes=attributes)
        elif isinstance(thing, ListObject) and thing.items is not None:
            state.heap[copy.oid] = ListObject(tuple(self.copy_graph(v, state, seen) for v in thing.items))
        elif isinstance(thing, DictObject):
            entries = tuple((k, self.copy_graph(v, state, seen)) for k, v in thing.entries)
            state.heap[copy.oid] = replace(thing, entries=entries)
        return copy

    def copied(self, original: int, copy: int) -> None:
        """An object got a copy (see ``lifecycle``)."""

    def fields(self, ref: Ref, cls: ClassValue, arguments: Arguments, state: State) -> None:
        """What the constructor of a dataclass does (see ``records``)."""
        raise NotImplementedError

    def new_record(self, cls: RecordType, arguments: Arguments, state: State) -> Value:
        """A call of what ``namedtuple`` made (see ``records``)."""
        raise NotImplementedError

    # --- provided by ``library`` --------------------------------------------------------------------

    def native_method(self, function: Bound, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A method of a library object, a list, a dict, a tensor."""
        raise NotImplementedError

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A library function or class."""
        raise NotImplementedError

    def native_init(self, ref: Ref, base: str, arguments: Arguments, state: State) -> None:
        """The constructor of a library class."""
        raise NotImplementedError

    def native_forward(
        self, ref: Ref, base: str, arguments: Arguments, node: cst.Call | None, state: State
    ) -> Value:
        """The forward of a library module."""
        raise NotImplementedError


def _has_new(entry: object) -> bool:
    return isinstance(entry, ClassModel) and "__new__" in entry.methods


def decorated_receiver(model: FunctionModel) -> bool:
    """True if the function takes its receiver as first argument."""
    return decorator_kind(model.node) != "static"


def _unknown_arguments(arguments: Arguments, reason: str) -> Arguments:
    """The same number of arguments, of which nothing is known but what are modules and numbers."""
    positional = [_hidden(argument, reason) for argument in arguments.positional]
    keywords = {name: _hidden(argument, reason) for name, argument in arguments.keywords.items()}
    return Arguments(positional, keywords, arguments.open, arguments.more)


def _hidden(argument: Argument, reason: str) -> Argument:
    plain = isinstance(argument.value, (Const, Ref, Symbol, ClassValue, FunctionValue, Bound))
    return argument if plain else Argument(Unknown(reason), argument.node)


def _is_method(model: FunctionModel) -> bool:
    """True for a method that takes an object, called as a plain function: ``Base.forward(self, x)``."""
    return (
        model.owner is not None
        and isinstance(model.node, cst.FunctionDef)
        and model.name in model.owner.methods
        and decorator_kind(model.node) == "plain"
    )


__all__ = ["Argument", "Calls"]
