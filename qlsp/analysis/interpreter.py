"""The interpreter: the parts put together, life-cycle calls, and the forward of a root."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from qlsp.analysis.classes import decorator_kind
from qlsp.analysis.exports import PROGRAM
from qlsp.analysis.facts import Context, Facts, Input, Leaf, LifecycleCall, Return, ScriptFacts, Tracing
from qlsp.analysis.globals import WRAPPER
from qlsp.analysis.machine import LIMITS, Argument, Arguments, Frame
from qlsp.analysis.program import ClassModel, Finder, FunctionModel, ModuleModel
from qlsp.analysis.traces import Traces
from qlsp.backends.spec import Backend, LifecycleRow
from qlsp.ops.spec import Role
from qlsp.syntax.parse import ChunkError, Unit
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    ASSUMED_QCONFIG,
    NONE,
    OPEN_QCONFIG,
    Bound,
    Choice,
    ClassValue,
    Const,
    Domain,
    FunctionValue,
    Guard,
    RecordValue,
    Ref,
    SpanId,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    options_of,
)
from qlsp.values.workflow import Mode, Stage, Workflow

LIST_HINTS = ("List", "list", "Sequence", "Iterable", "Collection")
DICT_HINTS = ("Dict", "dict", "Mapping", "OrderedDict", "MutableMapping")
INTEGER_HINTS = ("LongTensor", "IntTensor", "BoolTensor", "ByteTensor", "ShortTensor", "CharTensor")
_TENSOR_MODULE = re.compile(r"\b\w+\.(?=\w*Tensor\b)")
FED = "an input that another model gives"
NUMBER_HINTS = ("int", "float", "bool", "str")


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A life-cycle call on a model, with the heap as it was then. ``copies`` are the objects that took the place of
    the model's own, if it did not work in place."""

    row: LifecycleRow
    model: Value
    state: State
    span: SpanId
    where: str
    copies: Mapping[int, int]
    reshaped: bool = False
    fused: bool = True
    tracing: Tracing | None = None


class Interpreter(Traces):
    """Runs entries (scripts, functions) and the forward of roots over abstract values."""

    def __init__(self, finder: Finder, backend: Backend) -> None:
        super().__init__(finder, backend)
        self._globals: dict[tuple[str, str], Value] = {}
        self._orders = {}
        self._stack: list[SpanId] = []
        self._passed = {}
        self.running: dict[str, dict[str, Value]] = {}
        self.built, self.sites = {}, {}
        self.created = []
        self.events: list[LifecycleEvent] = []
        self.script = ScriptFacts()
        self.entry = self.on_demand = self.optional = 0
        self.lineage: dict[int, int] = {}
        self.observers: dict[int, tuple[object, Guard]] = {}
        self.handed: set[int] = set()
        self.assigned: set[int] = set()
        self.executed: set[SpanId] = set()
        self.pending: list[tuple[int, frozenset[SpanId]]] = []
        self.constructed: set[SpanId] = set()
        self.outside: set[int] = set()
        self.stepped: set[int] = set()
        self.trained: dict[int, frozenset[int]] = {}
        self.given: dict[int, Mode] = {}
        self.inside_run, self.first = False, 1
        self.stand_ins, self.parameters = set(), {}
        self.loose = self.elsewhere = False
        self.fused: set[int] = set()
        self.flows = 0
        self.places = {}
        self.converted, self.fed, self.feeding, self.reshaped = set(), set(), set(), set()
        self.results = {}
        self.building = self.shared = 0
        self.qconfig_places = {}
        self.derived, self.mapped = {}, {}
        self.filled, self.unfilled, self.resolving = set(), [], 0
        self.filling, self.far, self._names_in_acts = 0, False, None
        self.class_tables, self.foreign_tables = {}, {}

    # --- calls that the tool itself looks for -------------------------------------------------------

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """``reveal_quant(x)`` shows a value to the tests; everything else is an ordinary call."""
        if self.facts is not None:
            self.facts.evaluated.add(self.span(node))
        if isinstance(node.func, cst.Name) and node.func.value == "reveal_quant" and arguments.positional:
            value = arguments.positional[0].value
            if self.facts is not None:
                self.facts.reveals[(self.span(node), self.path)] = self.resolved(value, state)
            return value
        return super().call(function, arguments, node, state)

    def resolved(self, value: Value, state: State) -> Value:
        """A value with lists spelled out, so that it can be shown without the heap."""
        if isinstance(value, Choice):
            return choice([(guard, self.resolved(option, state)) for guard, option in value.options])
        items = self.items(value, state) if isinstance(value, (Ref, TupleValue)) else None
        if items is not None:
            return TupleValue(tuple(self.resolved(item, state) for item in items))
        return value

    def lifecycle_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """prepare, convert and kin: remember the call, give the model back."""
        row = self.backend.lifecycle_calls.get(name)
        if row is None:
            return None
        model = arguments.get(0, row.model)
        if model is None:
            return Unknown(f"{name} without a model")
        copies: dict[int, int] = {}
        if self.facts is None and not self.muted:
            snapshot = State({}, dict(state.heap), state.guard)
            where = self.frame.name if self.frame is not None else ""
            reshaped = bool(self.reshaped & self._reach(model, state))
            fused = self.may_be_fused(model, state)
            tracing, span = self.tracing(row, arguments, node, state), self.span(node)
            self.events.append(LifecycleEvent(row, model, snapshot, span, where, copies, reshaped, fused, tracing))
        start = len(self.script.events)
        result = self.record_lifecycle(row, model, arguments, node, state, copies)
        if row.stage is Stage.FUSE and row.workflow is Workflow.EAGER and self.facts is None:
            self._record_fusion(row, result, arguments, start, state)
            if isinstance(model, Ref) and isinstance(result, Ref):
                self.created = [(result if ref == model else ref, cls, span) for ref, cls, span in self.created]
        if row.stage is Stage.PREPARE and self.facts is None:
            self.observe(result, copies, state)
        if row.stage is Stage.EXPORT:
            number = self.number((PROGRAM, self.span(node), self.path, self.entry))
            return Unknown("an exported program", (PROGRAM, number))
        return result

    def _record_fusion(
        self, row: LifecycleRow, model: Value, arguments: Arguments, start: int, state: State
    ) -> None:
        """Fuse the modules, and add to the event of the call what it was asked for."""
        recorded = self.script.events[start] if len(self.script.events) > start else None
        passed = frozenset(arguments.keywords)
        if arguments.open or len(arguments.positional) > 3:
            passed |= {"*"}
        fusion = self.fuse(row, model, arguments, passed, state)
        if isinstance(recorded, LifecycleCall):
            self.script.events[start] = replace(recorded, fusion=fusion)

    def library_instance(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """QuantWrapper makes a root, so it counts among the models built here."""
        if name == WRAPPER and arguments.positional and self.loop_depth:
            first = arguments.positional[0]
            inner = self._made_elsewhere(first.value, self.span(node), state)
            rest = arguments.positional[1:]
            arguments = replace(arguments, positional=[replace(first, value=inner), *rest])
        ref = super().library_instance(name, arguments, node, state)
        if name == WRAPPER and isinstance(ref, Ref):
            self.created.append((ref, Symbol(WRAPPER), self.span(node)))
        return ref

    def _made_elsewhere(self, value: Value, span: SpanId, state: State) -> Value:
        """What a wrapper gets. Code that goes through the children of a model tests each before it wraps it: what
        the same call has wrapped is not wrapped again, though the test is not followed."""
        if isinstance(value, Choice):
            return choice([(guard, self._made_elsewhere(option, span, state)) for guard, option in value.options])
        if not isinstance(value, Ref):
            return value
        inside = (self.instance(state, Ref(oid)) for oid in (value.oid, *self.submodules_of(value, state)))
        if any(instance is not None and instance.created == span for instance in inside):
            return Unknown("a wrapper around what the same call has made")
        return value

    # --- entries ------------------------------------------------------------------------------------

    def run_script(self, module: ModuleModel) -> State:
        """Execute a file's top-level statements in order."""
        self.begin_budget()
        self.begin_entry()
        state: State | None = State()
        assert state is not None
        last = state
        try:
            for unit in module.syntax.units:
                try:
                    node = unit.node
                except ChunkError:
                    continue
                if state is None:
                    continue
                if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                    self._define(module, unit, node, state)
                    continue
                if not needs_running(node):
                    continue
                self.frame = Frame(unit, module, "<module>")
                self.running[module.path] = state.names
                state = self.execute(node, state)
                if state is not None:
                    last = state
        except LIMITS as error:
            self.cut = True
            self.give_up(SpanId(unit.path, unit.index, 0), "a script", error)
        finally:
            self.frame = None
            self.running.pop(module.path, None)
            self.end_budget()
            self.settle_entry()
        return last

    def _define(
        self, module: ModuleModel, unit: Unit, node: cst.FunctionDef | cst.ClassDef, state: State
    ) -> None:
        """A definition of a script: its decorators may put it into a table of the script."""
        value = self.definition_value(module, unit, node, node.name.value) if node.decorators else None
        if value is not None:
            self.frame = Frame(unit, module, "<module>")
            self.running[module.path] = state.names
            self.filling += 1
            self.decorate(node, value, state)
            self.filling -= 1

    def run_function(self, function: FunctionValue) -> State:
        """Run a function on unknown arguments; a parameter annotated with a model class is such a model."""
        state = State()
        self._run_entry(function, None, state)
        return state

    def _run_entry(self, function: FunctionValue, receiver: Ref | ClassValue | None, state: State) -> None:
        """Run a function or method. What it does to models is told from a run in which optional arguments may
        have any value, not their defaults only."""
        model = self.functions[function.span]
        flags, more = _flags(model), _takes_more(model)
        before, start = state.fork(), len(self.script.events)
        self._run_once(function, receiver, state, {}, False)
        if (flags or more) and len(self.script.events) > start:
            del self.script.events[start:]
            seen, built = len(self.events), len(self.created)
            self._run_once(function, receiver, before, flags, more)
            del self.events[seen:], self.created[built:]

    def _run_once(
        self,
        function: FunctionValue,
        receiver: Ref | ClassValue | None,
        state: State,
        given: dict[str, Value],
        more: bool,
    ) -> None:
        self.begin_budget()
        self.begin_entry()
        model = self.functions[function.span]
        self.frame = Frame(model.unit, model.module, model.name)
        try:
            arguments = self._annotated_arguments(model, state, skip=0 if receiver is None else 1)
            for name, value in given.items():
                arguments.keywords.setdefault(name, Argument(value))
            arguments.more = more
            self.frame = None
            self.elsewhere = receiver is not None and self._configured_elsewhere(model)
            value = self.call_function(function, receiver, arguments, None, state)
            self.frame = Frame(model.unit, model.module, model.name)
            self.left(value, state)
            if isinstance(receiver, Ref):
                self.left(receiver, state)
        except LIMITS as error:
            self.cut = True
            self.give_up(function.span, "a function", error)
        finally:
            self.frame = None
            self.end_budget()
            self.settle_entry()

    def _configured_elsewhere(self, method: FunctionModel) -> bool:
        """Do other parts of the file name a qconfig, so that they may set one before this method runs?"""
        constructor = method.owner.methods.get("__init__") if method.owner is not None else None
        own = [method.unit, *([constructor.unit] if constructor is not None else [])]
        units = method.module.syntax.all_units.values()
        others = (unit for unit in units if not unit.members and not any(unit is each for each in own))
        return any("qconfig" in unit.text and not is_import(unit) for unit in others)

    def run_methods(self, cls: ClassValue, matters: Callable[[str], bool]) -> State:
        """Build an object of a class that is no model on unknown arguments, then run its methods whose text matters,
        and those that name such a method."""
        state = State()
        ref = self.build(cls, state)
        self.constructed = set(self.executed)
        if ref is not None:
            methods = self.class_model(cls).methods
            wanted = _that_matter(methods, matters)
            for name, method in methods.items():
                if name == "__init__" or (name.startswith("__") and name != "__call__") or name not in wanted:
                    continue
                self._run_entry(self.function_value(method), _receiver(method, cls, ref), state)
        return state

    def run_own_methods(self, cls: ClassValue, words: Sequence[str]) -> None:
        """Run the methods of a model class that move a model through its life, for what they do to models. The
        model itself comes from outside."""
        for name, method in self.class_model(cls).methods.items():
            if name.startswith("__") or name == "forward" or not any(w in method.unit.text for w in words):
                continue
            state = State()
            ref = self.build(cls, state)
            if ref is not None:
                self.outside |= self._reach(ref, state)
                self._run_entry(self.function_value(method), _receiver(method, cls, ref), state)
        self.created, self.events = [], []

    def build(self, cls: ClassValue, state: State) -> Ref | None:
        """An object of a class, built on unknown arguments; None if that takes too long."""
        self.begin_budget()
        self.begin_entry()
        try:
            value = self.instantiate(cls, Arguments(more=True), None, state)
            self._constructed(cls, value, state)
        except LIMITS as error:
            self.give_up(cls.span, "a constructor", error)
            return None
        finally:
            self.frame = None
            self.end_budget()
            self.settle_entry()
        return value if isinstance(value, Ref) else None

    def _constructed(self, cls: ClassValue, value: Value, state: State) -> None:
        """The object goes to other methods."""
        constructor = self.class_model(cls).methods.get("__init__")
        if constructor is not None:
            self.frame = Frame(constructor.unit, constructor.module, constructor.name)
            self.left(value, state)

    def _annotated_arguments(self, model: FunctionModel, state: State, skip: int = 0) -> Arguments:
        arguments = Arguments()
        for parameter in model.node.params.params[skip:]:
            if parameter.annotation is None:
                continue
            hint = parameter.annotation.annotation
            if not isinstance(hint, (cst.Name, cst.Attribute)):
                continue
            cls = self.eval(hint, state)
            if isinstance(cls, ClassValue) and self.is_model_class(cls):
                value = self.instantiate(cls, Arguments(more=True), None, state)
                self.outside |= self._reach(value, state)
                arguments.keywords[parameter.name.value] = Argument(value)
        return arguments

    def is_model_class(self, cls: ClassValue) -> bool:
        """True for project classes that derive from a torch module, or with a forward from an unknown class."""
        order = self.mro(cls)
        if any(isinstance(e, Symbol) and e.name.startswith(("torch.nn.", "torch.ao.nn.")) for e in order):
            return True
        foreign = any(isinstance(e, Unknown) or (isinstance(e, Symbol) and _foreign(e.name)) for e in order)
        return foreign and any(isinstance(e, ClassModel) and "forward" in e.methods for e in order)

    # --- roots --------------------------------------------------------------------------------------

    def run_root(
        self,
        root: Ref,
        state: State,
        context: Context,
        copies: Mapping[int, int] | None = None,
        tied: bool = False,
    ) -> Facts:
        """Interpret the forward of a root as it is after convert.

        ``copies`` are the objects it is prepared as; ``tied`` says that its observers may be set by hand.
        """
        self.begin_root_budget(context)
        facts = Facts(context, tied=tied)
        self.stand_ins, self.parameters = set(), {}
        self.effective = self._qconfigs(root, state, context.assumed)
        self.derived = self.derived_layers(root, state)
        if context.workflow is Workflow.EAGER:
            facts.aliases = self.split_aliases(root, state, context.mode)
        self.facts = facts
        self.building = self.shared = 0
        try:
            self.keep_containers(self._names(root, state), state)
            self._forward(root, state, facts)
        except LIMITS as error:
            facts.gave_up = self.give_up(context.span, "a forward", error)
        finally:
            self.facts, self.frame, self.path = None, None, ()
            self.end_root_budget()
            self.loop_depth = self.depth = self.conditions = 0
            self._stack.clear()
            names = self._names(root, state)
            for oid, path in names.items():
                submodule = self.submodule(oid, path, names, state)
                if submodule is not None:
                    facts.submodules[oid] = submodule
            if context.prepared is not None:
                facts.ties = self.ties(facts.submodules, copies or {})
                facts.fused = context.fused or self.may_be_fused(root, state)
                facts.fusable = self.fusable(facts)
            self.effective, self.derived = None, {}
        return facts

    def forward_of(self, root: Ref, state: State, facts: Facts) -> None:
        """Run a model's forward on its inputs."""
        self._forward(root, state, facts)

    def _forward(self, root: Ref, state: State, facts: Facts) -> None:
        instance = self.instance(state, root)
        if instance is None:
            return
        if isinstance(instance.cls, ClassValue):
            method = self.attribute(root, "forward", state)
            if isinstance(method, Bound) and method.function is not None:
                facts.returns.extend(self._run_forward(method, root, state))
                return
            if isinstance(method, (Unknown, Choice)):
                return
        self._native_root(root, instance, state, facts)

    def _run_forward(self, method: Bound, root: Ref, state: State) -> list[Return]:
        """Run forward on its inputs; behind decorators of the project these are the inputs of the method that is
        decorated, behind others nothing is known of them."""
        assert method.function is not None
        model = self.functions[method.function.span]
        own = self._defined(root, "forward", state) if isinstance(model.node, cst.FunctionDef) else None
        if own is None or own.span == model.span:
            if not isinstance(model.node, cst.FunctionDef):
                return []
            wrapper = self.opaque(model)
            names = self._inputs(model, root, state)
            if wrapper is not None or any(hook.before for hook in self.hooks.get(root.oid, ())):
                names = {name: self._of_unknown_domain(value) for name, value in names.items()}
            elif self.facts is not None:
                self.trace(names, model.node, self.facts)
            found = self.call_prepared(method.function, root, names, state)
            hidden = Unknown(f"the result of a function with the decorator {wrapper}")
            return found if wrapper is None else [replace(each, value=hidden, leaves=()) for each in found]
        inputs = self._inputs(own, root, state)
        arguments = _as_arguments(own, inputs)
        scope = State({}, state.heap, state.guard)
        self.frame = Frame(model.unit, model.module, model.name, model.owner, root, method.function.closure)
        self._bind_parameters(model, method.receiver, arguments, scope)
        self.frame = None
        return self.call_prepared(method.function, root, scope.names, state)

    def _defined(self, root: Ref, name: str, state: State) -> FunctionModel | None:
        """The method of the first class that defines it."""
        instance = self.instance(state, root)
        order = self.mro(instance.cls) if instance is not None else []
        methods = (entry.methods[name] for entry in order if isinstance(entry, ClassModel) and name in entry.methods)
        return next(methods, None)

    def _of_unknown_domain(self, value: Value) -> Value:
        if isinstance(value, Choice):
            return choice([(guard, self._of_unknown_domain(option)) for guard, option in value.options])
        return replace(value, domain=Domain.UNKNOWN) if isinstance(value, Tensor) else value

    def _native_root(self, root: Ref, instance: Instance, state: State, facts: Facts) -> None:
        """A root of a library class (QuantWrapper, Sequential): called where it was built."""
        if instance.created is None:
            return
        found = self._syntax_of(instance.created)
        if found is None:
            return
        unit, module, node = found
        self.frame = Frame(unit, module, "<root>")
        number = self.number(("input", "x"))
        tensor = Tensor(Domain.FLOAT, number, number, collection=True)
        self.trace_input(number, facts)
        value = self.call_object(root, Arguments.of(tensor), node, state)
        facts.returns.append(Return(instance.created, value, state.guard))

    def _syntax_of(self, span: SpanId) -> tuple[Unit, ModuleModel, cst.Call] | None:
        """The call that a span id stands for, with its unit and module."""
        module = self.finder.module_at(span.path)
        unit = module.syntax.all_units.get(span.unit) if module is not None else None
        if module is None or unit is None:
            return None
        node = unit.node_at(span.ordinal)
        return (unit, module, node) if isinstance(node, cst.Call) else None

    def call_prepared(
        self, function: FunctionValue, receiver: Ref, names: dict[str, Value], state: State
    ) -> list[Return]:
        """Run a function whose parameters are already bound; what it returns."""
        model = self.functions[function.span]
        frame = Frame(model.unit, model.module, model.name, model.owner, receiver, function.closure)
        frame.arguments = tuple(names.values())
        self.frame = frame
        self._stack.append(function.span)
        inner = State(names, state.heap, state.guard)
        assert isinstance(model.node, cst.FunctionDef)
        end = self.suite(model.node.body, inner)
        found = [
            Return(
                self.span(node),
                self.resolved(value, outcome),
                outcome.guard,
                tuple(self._leaves(node.value, value, outcome)) if node.value is not None else (),
            )
            for value, outcome, node in frame.returns
        ]
        if end is not None:
            found.append(Return(model.span, NONE, end.guard))
        return found

    def _leaves(self, node: cst.BaseExpression, value: Value, state: State) -> Iterator[Leaf]:
        """The parts of a returned value, as far as the expression spells them out."""
        nodes: list[cst.BaseExpression] = []
        items: list[Value] = []
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(node, (cst.Tuple, cst.List)) and not any(
            isinstance(e, cst.StarredElement) for e in node.elements
        ):
            nodes, items = [element.value for element in node.elements], self.items(value, state) or []
        elif isinstance(node, cst.Dict) and isinstance(thing, DictObject):
            nodes = [element.value for element in node.elements if isinstance(element, cst.DictElement)]
            items = [entry for _, entry in thing.entries]
        if nodes and len(nodes) == len(items):
            for inner, item in zip(nodes, items, strict=True):
                yield from self._leaves(inner, item, state)
            return
        if all(isinstance(option, (Tensor, Const, Unknown)) for _, option in options_of(value)):
            yield Leaf(self.span(node), value, name=node.value if isinstance(node, cst.Name) else None)
            return
        kinds = {self.kind_of(option, state) or "object" for _, option in options_of(value)}
        parts = TupleValue(tuple(self._parts(value, state, set())))
        name = node.value if isinstance(node, cst.Name) else None
        yield Leaf(self.span(node), parts, kinds.pop() if len(kinds) == 1 else "object", name)

    def _parts(self, value: Value, state: State, seen: set[int]) -> Iterator[Value]:
        """The tensors in a container or an object that is no module, and what is not known in it."""
        if all(isinstance(option, (Tensor, Unknown)) for _, option in options_of(value)):
            yield value
            return
        for _, option in options_of(value):
            if isinstance(option, (Tensor, Unknown)):
                yield option
            inside: list[Value] = list(option.items) if isinstance(option, TupleValue) else []
            if isinstance(option, Ref) and option.oid not in seen:
                seen.add(option.oid)
                thing = self.load(state, option)
                if isinstance(thing, ListObject):
                    inside = [*(thing.items or ()), *([thing.element] if thing.element is not None else [])]
                elif isinstance(thing, DictObject):
                    inside = [*(entry for _, entry in thing.entries), *([thing.rest] if thing.rest is not None else [])]
                elif isinstance(thing, Instance) and self.native_base(thing) is None:
                    inside = list(thing.attributes.values())
            for item in inside:
                yield from self._parts(item, state, seen)

    def _inputs(self, model: FunctionModel, root: Ref, state: State) -> dict[str, Value]:
        """The inputs of a root's forward: float tensors, lists of them, or numbers, by their annotations."""
        names: dict[str, Value] = {}
        parameters = model.node.params
        plain = [*parameters.posonly_params, *parameters.params]
        if plain:
            names[plain[0].name.value] = root
        for parameter in [*plain[1:], *parameters.kwonly_params]:
            name = parameter.name.value
            given = self._record_input(name, parameter, model, state)
            names[name] = self._input(name, parameter, state, given)
        if isinstance(parameters.star_arg, cst.Param):
            name = parameters.star_arg.name.value
            names[name] = self._many_inputs(name, state)
        if parameters.star_kwarg is not None:
            name = parameters.star_kwarg.name.value
            names[name] = self.allocate(state, DictObject((), self._tensor_input(name, many=True)))
        return names

    def _tensor_input(self, name: str, many: bool = False, collection: bool = False) -> Tensor:
        number = self.number(("input", name))
        domain = Domain.FLOAT
        if self.facts is not None and (self.facts.context.workflow is Workflow.NONE or self.facts.context.fed):
            domain = Domain.UNKNOWN
            fed = self.facts.context.fed
            self.facts.reasons[number] = FED if fed else "no root uses this class"
        return Tensor(domain, number, number, many=many, collection=collection)

    def _many_inputs(self, name: str, state: State) -> Value:
        return self.allocate(state, ListObject(None, self._tensor_input(name, many=True)))

    def _record_input(self, name: str, parameter: cst.Param, model: FunctionModel, state: State) -> Value | None:
        """An input that is an object of a class of the project; None for any other."""
        hint = parameter.annotation.annotation if parameter.annotation is not None else None
        if not isinstance(hint, (cst.Name, cst.Attribute)):
            return None
        saved, self.frame = self.frame, Frame(model.unit, model.module, model.name)
        cls = self.eval(hint, State())
        self.frame = saved
        if not isinstance(cls, ClassValue) or Symbol("torch.Tensor") in self.mro(cls):
            return None
        fields = {each.name: each.hint for each in self.record_fields(cls)}
        if not fields:
            return Unknown(f"input '{name}' is an object", ("input", name))
        values = {field: self._hinted(f"{name}.{field}", hint_text(inner), state) for field, inner in fields.items()}
        if self.is_named_tuple(cls):
            return RecordValue(tuple(values.values()), tuple(values), cls)
        return self.allocate(state, Instance(cls, values))

    def _input(self, name: str, parameter: cst.Param, state: State, given: Value | None) -> Value:
        hint = hint_text(parameter.annotation.annotation) if parameter.annotation is not None else ""
        value = given if given is not None else self._hinted(name, hint, state)
        if parameter.default is None or isinstance(value, Unknown):
            return value
        default = parameter.default
        if isinstance(default, cst.Name) and default.value == "None":
            key = self.number(("given", name))
            return choice([(frozenset({(key, 0)}), NONE), (frozenset({(key, 1)}), value)])
        if isinstance(default, (cst.Name, cst.Integer, cst.Float, cst.SimpleString, cst.UnaryOperation)):
            return Unknown(f"input '{name}' is a number or a flag", ("input", name))
        return value

    def _hinted(self, name: str, hint: str, state: State) -> Value:
        hint = hint.removeprefix("typing.").removeprefix("t.")
        if hint.startswith("Optional["):
            hint = hint[len("Optional[") : -1]
        hint = hint.removesuffix("|None").removeprefix("None|")
        kinds = hint[len("Union[") : -1].split(",") if hint.startswith("Union[") else hint.split("|")
        if len(kinds) > 1 and any(kind.startswith((*LIST_HINTS, *DICT_HINTS, "Tuple", "tuple")) for kind in kinds):
            hint = ""
        if hint.split("|")[0].strip() in NUMBER_HINTS:
            return Unknown(f"input '{name}' is a number or a flag", ("input", name))
        if hint.startswith(LIST_HINTS):
            return self._many_inputs(name, state)
        if hint.startswith(("Tuple[", "tuple[")):
            inner = hint[6:-1].split(",")
            if "..." in hint or not all("Tensor" in part for part in inner):
                return self._many_inputs(name, state)
            return TupleValue(tuple(self._tensor_input(f"{name}[{i}]") for i in range(len(inner))))
        if hint.startswith(DICT_HINTS):
            return self.allocate(state, DictObject((), self._tensor_input(name, many=True)))
        value = self._tensor_input(name, collection="Tensor" not in hint)
        if self.facts is not None:
            self.facts.inputs.append(Input(name, value.number, "Tensor" in hint))
        return value if hint not in INTEGER_HINTS else replace(value, domain=Domain.INTEGER)

    # --- what convert will do -----------------------------------------------------------------------

    def _qconfigs(self, root: Ref, state: State, assumed: bool) -> dict[int, Value]:
        """The qconfig that reaches each registered module, as ``propagate_qconfig_`` hands it down.

        A model on which nobody sets a qconfig is taken to get one. Where prepare is not in view and the
        constructor configures parts, the others may get theirs from the caller; they do if it configures no more than
        embeddings, which the qconfig of a model does not suit.
        """
        found: dict[int, Value] = {}
        inherited: Value = ASSUMED_QCONFIG
        own = self._own_qconfigs(root, state)
        if own and not (assumed and all(self._for_embeddings(qconfig) for qconfig in own)):
            inherited = OPEN_QCONFIG if assumed else NONE
        self._propagate(root, inherited, state, found)
        return found

    def _propagate(self, value: Value, inherited: Value, state: State, found: dict[int, Value]) -> None:
        if isinstance(value, Choice):
            for _, option in value.options:
                self._propagate(option, inherited, state, found)
            return
        instance = self.instance(state, value)
        if instance is None or not isinstance(value, Ref) or value.oid in found:
            return
        own = instance.attributes.get("qconfig", inherited)
        found[value.oid] = own
        for name, child in instance.attributes.items():
            if name != "qconfig" and not self.is_plain(child, state):
                self._propagate(child, own, state, found)

    def _own_qconfigs(self, root: Ref, state: State) -> list[Value]:
        """The qconfigs other than None that are set somewhere in the tree."""
        found = [self.instance(state, Ref(oid)) for oid in self._names(root, state)]
        qconfigs = [instance.attributes.get("qconfig", NONE) for instance in found if instance is not None]
        return [qconfig for qconfig in qconfigs if qconfig != NONE]

    def _for_embeddings(self, qconfig: Value) -> bool:
        return isinstance(qconfig, Symbol) and qconfig.name in self.backend.embedding_qconfigs

    def _names(self, root: Ref, state: State) -> dict[int, str]:
        """The path of every instance under a root; the first name of an alias wins."""
        found: dict[int, str] = {}
        queue: list[tuple[str, Value]] = [("", root)]
        while queue:
            path, value = queue.pop(0)
            if isinstance(value, Choice):
                queue.extend((path, option) for _, option in value.options)
                continue
            if isinstance(value, TupleValue):
                queue.extend((f"{path}[{i}]", item) for i, item in enumerate(value.items))
                continue
            if not isinstance(value, Ref):
                continue
            thing = self.load(state, value)
            if isinstance(thing, Instance):
                if value.oid in found:
                    continue
                found[value.oid] = path
                for name, child in thing.attributes.items():
                    queue.append((f"{path}.{name}" if path else name, child))
            elif isinstance(thing, ListObject) and path.count("[") < 3:
                queue.extend((f"{path}[{i}]", item) for i, item in enumerate(thing.items or ()))
            elif isinstance(thing, DictObject) and path.count("[") < 3:
                queue.extend((f"{path}[{key!r}]", item) for key, item in thing.entries)
        return found

    def owns_stub(self, root: Ref, state: State) -> bool:
        """True if a QuantStub or DeQuantStub stands somewhere under a module."""
        for oid in self._names(root, state):
            instance = self.instance(state, Ref(oid))
            if instance is None:
                continue
            base = self.native_base(instance)
            row = self.backend.modules.get(base or "")
            if row is not None and row.role in (Role.QUANTIZE, Role.DEQUANTIZE):
                return True
        return False

    def submodules_of(self, root: Ref, state: State) -> set[int]:
        """Ids of the instances below a module, itself not among them."""
        return set(self._names(root, state)) - {root.oid}


def _receiver(method: FunctionModel, cls: ClassValue, ref: Ref) -> Ref | ClassValue | None:
    """What a method is called on: an object, its class, or nothing."""
    match decorator_kind(method.node):
        case "class":
            return cls
        case "static":
            return None
        case _:
            return ref


def _as_arguments(model: FunctionModel, names: Mapping[str, Value]) -> Arguments:
    """The inputs of a method, without the object, as the caller of a function around it passes them."""
    parameters = model.node.params
    positional = [p.name.value for p in (*parameters.posonly_params, *parameters.params)][1:]
    keywords = [p.name.value for p in parameters.kwonly_params]
    more = isinstance(parameters.star_arg, cst.Param) or parameters.star_kwarg is not None
    return Arguments(
        [Argument(names[name]) for name in positional], {name: Argument(names[name]) for name in keywords}, more
    )


def _flags(model: FunctionModel) -> dict[str, Value]:
    """Unknown values for the parameters of a function whose default is a constant or an empty container."""
    found: dict[str, Value] = {}
    parameters = model.node.params
    for parameter in (*parameters.params, *parameters.kwonly_params):
        default = parameter.default
        constant = isinstance(default, cst.Name) and default.value in ("None", "True", "False")
        empty = isinstance(default, (cst.Tuple, cst.List, cst.Dict)) and not default.elements
        if constant or empty or isinstance(default, (cst.Integer, cst.Float, cst.SimpleString)):
            name = parameter.name.value
            symbol = ("argument", name, model.span)
            found[name] = Unknown(f"argument '{name}' is not known", symbol)
    return found


def _takes_more(model: FunctionModel) -> bool:
    """Does a function have ``*args`` or ``**kwargs``?"""
    parameters = model.node.params
    return isinstance(parameters.star_arg, cst.Param) or parameters.star_kwarg is not None


def hint_text(node: cst.BaseExpression) -> str:
    """An annotation as compact text; the last name of a dotted one."""
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        return value if isinstance(value, str) else ""
    text = cst.Module([]).code_for_node(node).replace(" ", "")
    return _TENSOR_MODULE.sub("", text.replace("torch.", "").replace("typing.", ""))


def _that_matter(methods: Mapping[str, FunctionModel], matters: Callable[[str], bool]) -> set[str]:
    """The methods whose text matters, and those that name such a method."""
    texts = {name: method.unit.text for name, method in methods.items()}
    found = {name for name, text in texts.items() if matters(text)}
    while True:
        calls = [f".{name}" for name in found]
        added = {name for name, text in texts.items() if name not in found and any(call in text for call in calls)}
        if not added:
            return found
        found |= added


def is_import(unit: Unit) -> bool:
    """Is a chunk nothing but an import?"""
    return unit.kind == "statement" and unit.text.lstrip().startswith(("import ", "from "))


def _foreign(name: str) -> bool:
    """True for a class of a library that the table does not describe."""
    return not name.startswith(("builtins.", "abc.", "typing.", "enum.", "collections.", "torch.autograd."))


def needs_running(node: cst.BaseStatement) -> bool:
    """False for imports and definitions, whose names are looked up on demand."""
    if isinstance(node, cst.SimpleStatementLine):
        return not all(isinstance(small, (cst.Import, cst.ImportFrom)) for small in node.body)
    return True


__all__ = ["Const", "Interpreter", "LifecycleEvent", "SpanId", "Unknown", "is_import"]
