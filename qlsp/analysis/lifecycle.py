"""The life of models: who gets a qconfig, what is prepared and converted, and what is handed to unknown code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import libcst as cst

from qlsp.analysis.configs import Configs
from qlsp.analysis.facts import (
    Handover,
    LifecycleCall,
    LifeEvent,
    QconfigAssignment,
    QconfigCall,
    QconfigState,
    QconfigTarget,
    ScriptFacts,
    StrayAttribute,
)
from qlsp.analysis.library import PARAMETER_LISTS, RETURN_SELF
from qlsp.analysis.machine import Arguments
from qlsp.analysis.objects import MODULE_ATTRIBUTES
from qlsp.analysis.program import ClassModel, FunctionModel, ModuleModel
from qlsp.backends.spec import LifecycleRow
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, Unit, walk
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    NONE,
    Bound,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    Guard,
    Ref,
    SpanId,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    options_of,
)
from qlsp.values.workflow import Mode, Workflow

OBSERVER = "activation_post_process"
"""The attribute under which prepare puts a module's observer."""

STRAY_ATTRIBUTES = frozenset({"share_observation", "share_observer", "share_qconfig"})
"""Attributes that people set to make modules share a scale; nothing reads them."""

QUIET_BUILTINS = frozenset(
    [
        "print",
        "len",
        "isinstance",
        "issubclass",
        "type",
        "id",
        "repr",
        "str",
        "hash",
        "hasattr",
        "getattr",
        "setattr",
        "iter",
        "next",
        "list",
        "tuple",
        "dict",
        "set",
        "enumerate",
        "zip",
        "map",
        "range",
        "sorted",
        "reversed",
        "sum",
        "any",
        "all",
        "min",
        "max",
        "callable",
        "format",
        "bool",
        "super",
        "filter",
    ]
)
"""Builtins that leave a model as it is (a function given to ``map`` is run by the interpreter)."""

OPEN_BUILTINS = frozenset({"exec", "eval", "vars", "delattr", "globals", "locals", "compile", "__import__"})

QUIET_DECORATORS = frozenset(
    [
        "staticmethod",
        "classmethod",
        "property",
        "cached_property",
        "no_grad",
        "inference_mode",
        "enable_grad",
        "lru_cache",
        "cache",
        "contextmanager",
        "abstractmethod",
        "override",
        "overload",
        "fixture",
        "wraps",
        "ignore",
        "unused",
        "export",
        "final",
        "dataclass",
    ]
)
"""Last names of decorators that neither replace a function's result nor touch its arguments."""

QUIET_METHODS = (MODULE_ATTRIBUTES | RETURN_SELF | {"__init__", "__call__", "append", "extend", "update"}) - {"apply"}
QUIET_CALLEES = frozenset({"info", "debug", "warning", "error", "summary", "add_graph", "watch"})
"""What programs call to show a model."""

CONTAINER_METHODS = frozenset({"keys", "values", "items", "insert", "pop", "get_extra_state", "named_modules"})

LIBRARY_CLASSES = ("torch.nn.", "torch.ao.", "builtins.", "abc.", "typing.", "object")
SETTINGS = frozenset({"cfg", "config", "conf", "args", "opt", "opts", "hparams", "params", "options"})

_SETS_QCONFIG = re.compile(r"\bqconfig\b")


class Lifecycle(Configs):
    """Records what scripts do to models, in the order of execution."""

    script: ScriptFacts
    entry: int
    lineage: dict[int, int]
    observers: dict[int, tuple[object, Guard]]
    handed: set[int]
    outside: set[int]
    assigned: set[int]
    executed: set[SpanId]
    constructed: set[SpanId]
    loose: bool
    elsewhere: bool
    on_demand: int
    optional: int
    pending: list[tuple[int, frozenset[SpanId]]]

    def begin_entry(self) -> None:
        """A script, a function or a method starts: nothing is known of what ran before it."""
        self.entry += 1
        self.loose = self.elsewhere = False
        self.assigned, self.executed, self.pending = set(), set(), []

    def settle_entry(self) -> None:
        """An entry is over: where it holds an assignment of a qconfig that this run did not reach, another run
        may reach it."""
        events = self.script.events
        for index, wanted in self.pending:
            event = events[index] if index < len(events) else None
            if isinstance(event, LifecycleCall) and not wanted <= self.executed | self.constructed:
                events[index] = replace(event, qconfig=QconfigState.MAYBE)
        self.pending = []

    def _recording(self) -> bool:
        return not self.muted and not self.on_demand

    def _emit(self, event: LifeEvent) -> None:
        if self._recording():
            self.script.events.append(event)

    def _assigned(self, module: ModuleModel, unit: Unit, node: cst.BaseStatement, name: str) -> Value | None:
        loose, self.on_demand = self.loose, self.on_demand + 1
        try:
            return super()._assigned(module, unit, node, name)
        finally:
            self.loose, self.on_demand = loose, self.on_demand - 1

    def _class_level(self, model: ClassModel, expression: cst.BaseExpression, unit: object) -> Value:
        self.on_demand += 1
        try:
            return super()._class_level(model, expression, unit)
        finally:
            self.on_demand -= 1

    def _statement(self, node: cst.CSTNode | None = None) -> SpanId:
        """The running statement."""
        statement = self.current.statement
        target = statement if statement is not None else node
        return self.span(target if target is not None else self.current.unit.node)

    # --- identity -----------------------------------------------------------------------------------

    def copied(self, original: int, copy: int) -> None:
        """A copy of a model that unknown code has had in its hands is as unknown as the model."""
        super().copied(original, copy)
        if original in self.handed or original in self.static_heap:
            self.handed.add(copy)
        if original in self.outside:
            self.outside.add(copy)
        for (parent, name), span in list(self.named.items()):
            if parent == original:
                self.named[(copy, name)] = span

    def origin_of(self, oid: int) -> int:
        """The object that life-cycle calls made an object from, itself if none did."""
        return self.lineage.get(oid, oid)

    def _unknown_key(self, symbol: tuple[object, ...]) -> int:
        return -self.number(("model", symbol))

    def _identity(self, value: Value) -> int | None:
        if isinstance(value, Ref):
            return self.origin_of(value.oid)
        if isinstance(value, Unknown) and value.symbol is not None:
            return self._unknown_key(value.symbol)
        return None

    def _parents(self, value: Unknown) -> Iterator[int]:
        """The keys of an unknown object and of the objects it was read from."""
        symbol = value.symbol
        while symbol:
            yield self._unknown_key(symbol)
            symbol = symbol[:-2] if len(symbol) > 2 and symbol[-2] == "." else None

    def members_of(self, value: Value, state: State) -> frozenset[int]:
        """The identities of a model and of all modules in it."""
        return frozenset(self.origin_of(oid) for oid in self._reach(value, state))

    def _reach(self, value: Value, state: State) -> set[int]:
        found: set[int] = set()
        queue = [value]
        while queue:
            current = queue.pop()
            if isinstance(current, Choice):
                queue.extend(option for _, option in current.options)
            elif isinstance(current, TupleValue):
                queue.extend(current.items)
            elif isinstance(current, Unknown):
                if current.symbol is not None and not self.is_qconfig(current):
                    found.add(self._unknown_key(current.symbol))
            elif isinstance(current, Bound):
                queue.append(current.receiver)
            elif isinstance(current, Ref) and current.oid not in found:
                found.add(current.oid)
                thing = self.load(state, current)
                if isinstance(thing, Instance):
                    queue.extend(thing.attributes.values())
                    queue.extend(argument for _, argument in thing.arguments)
                elif isinstance(thing, ListObject):
                    queue.extend(thing.items or ())
                    if thing.element is not None:
                        queue.append(thing.element)
                elif isinstance(thing, DictObject):
                    queue.extend(entry for _, entry in thing.entries)
                    if thing.rest is not None:
                        queue.append(thing.rest)
        return found

    def _hand_over(self, values: Iterable[Value], callee: str, state: State) -> None:
        """Code that is not in view gets these values: it may do anything to the models among them."""
        found: set[int] = set()
        for value in values:
            if not isinstance(value, (Const, Tensor, Symbol)):
                found |= self._reach(value, state)
        if found:
            self.handed |= found
            members = frozenset(self.origin_of(oid) for oid in found)
            self._emit(Handover(self._statement(), callee, members, state.guard, self.entry))

    def _hand_down(self, values: Iterable[Value], function: SpanId, state: State) -> None:
        """A recursion that is not followed further gets these values."""
        self._hand_over(values, self.functions[function].name, state)

    # --- does a model have a qconfig? ---------------------------------------------------------------

    def qconfig_state(self, model: Value, state: State) -> QconfigState:
        """What is known of the qconfigs in a model, of each alternative the weakest."""
        order = [QconfigState.SET, QconfigState.MAYBE, QconfigState.OUTSIDE, QconfigState.ABSENT]
        found = {self._qconfig_state(option, state) for _, option in options_of(model)}
        return next(each for each in order if each in found)

    def _qconfig_state(self, model: Value, state: State) -> QconfigState:
        instance = self.instance(state, model)
        if instance is None or not isinstance(model, Ref):
            keys = set(self._parents(model)) if isinstance(model, Unknown) else set()
            if keys & self.assigned:
                return QconfigState.SET
            return QconfigState.MAYBE if self.loose or keys & self.handed else QconfigState.OUTSIDE
        doubt: QconfigState | None = None
        if instance.attributes.get("qconfig") == NONE:
            doubt = QconfigState.MAYBE
        for oid in self._reach(model, state):
            if oid < 0:
                found = QconfigState.SET if oid in self.assigned else QconfigState.ABSENT
            else:
                found = self._own_state(oid, state)
            if found is QconfigState.SET:
                return found
            if found is not QconfigState.ABSENT and doubt is not QconfigState.MAYBE:
                doubt = found
        if self.loose or (self.elsewhere and doubt is None):
            return QconfigState.MAYBE
        if doubt is None and self._in_a_configured_model(model, state):
            return QconfigState.MAYBE
        return doubt if doubt is not None else QconfigState.ABSENT

    def _in_a_configured_model(self, model: Ref, state: State) -> bool:
        """Is the model a part of one that has a qconfig of its own?"""
        return any(
            isinstance(thing, Instance)
            and thing.attributes.get("qconfig", NONE) != NONE
            and (self.native_base(thing) or "").startswith(("torch.nn.", "torch.ao."))
            and model.oid in self._reach(Ref(oid), state)
            for oid, thing in state.heap.items()
        )

    def _own_state(self, oid: int, state: State) -> QconfigState:
        """The state of one module of a tree, by itself."""
        thing = self.load(state, Ref(oid))
        if oid in self.handed or oid in self.static_heap:
            return QconfigState.MAYBE
        if not isinstance(thing, Instance):
            return QconfigState.ABSENT
        if thing.attributes.get("qconfig", NONE) != NONE:
            return QconfigState.SET
        if oid in self.outside:
            return QconfigState.OUTSIDE
        if "qconfig" in dict(thing.arguments) or ".qat." in thing.cls.name:
            return QconfigState.SET
        classes = []
        for entry in self.mro(thing.cls):
            if isinstance(entry, ClassModel):
                if self._may_configure(entry):
                    return QconfigState.MAYBE
                classes.append(entry)
            elif isinstance(entry, Unknown) or not entry.name.startswith(LIBRARY_CLASSES):
                return QconfigState.OUTSIDE
        for name, value in thing.attributes.items():
            unknown = any(isinstance(option, Unknown) for _, option in options_of(value))
            if unknown and (not classes or any(_used_as_module(cls, name) for cls in classes)):
                return QconfigState.OUTSIDE
        return QconfigState.ABSENT

    def _may_configure(self, model: ClassModel) -> bool:
        """A class that may give its instances a qconfig in a way that is not followed."""
        if model.node.decorators:
            return True
        names = model.methods.keys() | model.attributes.keys()
        return bool(names & {"qconfig", "__getattr__", "__getattribute__", "__setattr__"})

    # --- assignments --------------------------------------------------------------------------------

    def assign_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Remember who gives a qconfig to what; see an attribute that nobody reads."""
        if name == "qconfig":
            self._assign_qconfig(target, value, state)
        elif name in STRAY_ATTRIBUTES:
            self._stray(target, name, state)
        elif name == OBSERVER and self.facts is None:
            self._tie(target, value, state)
        if self.facts is None:
            if isinstance(target, Unknown):
                self._hand_over([value], name, state)
            elif self._has_method(target, name, state):
                self._hand_over([target, value], name, state)
        super().assign_attribute(target, name, value, state)

    def set_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Remember where an object gets a further name for something that it has already."""
        instance = self.instance(state, target) if isinstance(value, Ref) and self.frame is not None else None
        others = instance.attributes.items() if instance is not None else ()
        if instance is not None and any(other == value and key != name for key, other in others):
            assert isinstance(target, Ref)
            self.named[(target.oid, name)] = self._naming_place(instance)
        super().set_attribute(target, name, value, state)

    def _naming_place(self, parent: Instance) -> SpanId:
        """The call that builds a library container, where its children come from; else the running statement."""
        if isinstance(parent.cls, Symbol) and parent.created is not None and not self._appends():
            return parent.created
        statement = self.current.statement
        return self.span(statement.value) if isinstance(statement, cst.Expr) else self._statement()

    def _appends(self) -> bool:
        """Is the running statement an expression, such as ``blocks.append(block)``?"""
        return isinstance(self.current.statement, cst.Expr)

    def _has_method(self, target: Value, name: str, state: State) -> bool:
        """A property with a setter, or ``__enter__``: code that assignments and statements run."""
        instance = self.instance(state, target)
        order = self.mro(instance.cls) if instance is not None else []
        return any(isinstance(entry, ClassModel) and name in entry.methods for entry in order)

    def entered(self, value: Value, state: State) -> None:
        """A context manager of the project may do anything to the models it holds."""
        if self.facts is None and any(self._has_method(v, "__enter__", state) for _, v in options_of(value)):
            self._hand_over([value], "__enter__", state)

    def _eval_Yield(self, node: cst.Yield, state: State) -> Value:
        """Who runs a generator has its values in hand until it goes on."""
        start = len(self.current.yields)
        result = super()._eval_Yield(node, state)
        if self.facts is None:
            self._hand_over(self.current.yields[start:], "yield", state)
        return result

    def stored_outside(self, container: Value, value: Value, state: State) -> None:
        """``model.__dict__[name] = value``, or a model put where it is not followed."""
        if self.facts is None:
            receiver = [container.receiver] if isinstance(container, Bound) else []
            self._hand_over([*receiver, value], "an item", state)

    def _assign_qconfig(self, target: Value, value: Value, state: State) -> None:
        span = self._statement()
        self.executed.add(span)
        in_forward = self.facts is not None
        if in_forward and self.current.name == "__init__":
            return
        for _, option in options_of(target):
            if isinstance(option, Unknown):
                self.loose = True
                self.assigned.update(self._parents(option))
        kinds = {self._target_kind(option, state) for _, option in options_of(target)}
        kind = kinds.pop() if len(kinds) == 1 else QconfigTarget.UNKNOWN
        members = frozenset(key for _, option in options_of(target) if (key := self._identity(option)) is not None)
        shown = self._shown_target()
        targets = [option for _, option in options_of(target)]
        prepared = all(isinstance(option, Ref) and option.oid in self.observers for option in targets)
        event = QconfigAssignment(
            span, kind, shown, members, value == NONE, state.guard, self.path, self.entry, in_forward, prepared
        )
        self._emit(event)

    def _shown_target(self) -> str:
        statement = self.current.statement
        if isinstance(statement, cst.Assign) and isinstance(statement.targets[0].target, cst.Attribute):
            return dotted(statement.targets[0].target.value) or ""
        return ""

    def _target_kind(self, target: Value, state: State) -> QconfigTarget:
        if isinstance(target, Tensor):
            return QconfigTarget.TENSOR
        if isinstance(target, Bound) and target.function is None and target.name in ("weight", "bias"):
            layer = self.instance(state, target.receiver)
            return QconfigTarget.TENSOR if layer is not None else QconfigTarget.UNKNOWN
        instance = self.instance(state, target)
        if instance is None:
            return QconfigTarget.UNKNOWN
        leaf = self.native_base(instance) in self.backend.modules and not any(
            self.instance(state, child) is not None for child in instance.attributes.values()
        )
        return QconfigTarget.LEAF if leaf else QconfigTarget.MODULE

    def _stray(self, target: Value, name: str, state: State) -> None:
        found = {self._without_reader(option, name, state) for _, option in options_of(target)}
        if len(found) == 1 and (on := found.pop()) is not None:
            self._emit(StrayAttribute(self._statement(), name, on))

    def _without_reader(self, target: Value, name: str, state: State) -> str | None:
        """What the target is, if certainly nothing reads this attribute from it."""
        if self.is_qconfig(target):
            return "a QConfig"
        if isinstance(target, Unknown) and target.symbol is not None and target.symbol[-2:] == (".", "qconfig"):
            return "a QConfig"
        instance = self.instance(state, target)
        if instance is None or self.native_base(instance) is None:
            return None
        if self.is_qconfig(instance.attributes.get("qconfig", NONE)) and target == NONE:
            return None
        base = self.native_base(instance) or ""
        if not base.startswith(("torch.nn.", "torch.ao.")):
            return None
        reads = re.compile(rf"\b{name}\b(?!\s*=[^=])")
        units = self.current.module.syntax.all_units.values()
        if any(reads.search(unit.text) for unit in units):
            return None
        for entry in self.mro(instance.cls):
            if isinstance(entry, Unknown):
                return None
            if isinstance(entry, ClassModel) and reads.search(entry.unit.text):
                return None
        return "a module"

    # --- observers that are set by hand -------------------------------------------------------------

    def observe(self, model: Value, copies: Mapping[int, int], state: State) -> None:
        """Prepare gives the modules of a model observers, but to those that have one already."""
        for original, copy in copies.items():
            if original in self.observers:
                self.observers[copy] = (None, state.guard)
        for oid in self._reach(model, state):
            if oid > 0:
                self.observers.setdefault(oid, (oid, state.guard))

    def _tie(self, target: Value, value: Value, state: State) -> None:
        """A module of a prepared model gets another observer; one that every path gives it, or an unknown one."""
        targets = [option for _, option in options_of(target)]
        certain = len(targets) == 1 and not self.loop_depth
        key = self._observer_of(value) if certain else None
        for option in targets:
            if isinstance(option, Ref):
                _, guard = self.observers.get(option.oid, (None, None))
                self.observers[option.oid] = (key if state.guard == guard else None, state.guard)

    def _observer_of(self, value: Value) -> object:
        """What tells an observer from others: whose it is, or the object; None if it is not known."""
        if isinstance(value, Bound) and value.name == OBSERVER and isinstance(value.receiver, Ref):
            known = self.observers.get(value.receiver.oid)
            return known[0] if known is not None else None
        return ("object", value.oid) if isinstance(value, Ref) else None

    def ties(self, modules: Iterable[int], copies: Mapping[int, int]) -> dict[int, object]:
        """Observers that the modules of a prepared model share or do not have from prepare."""
        found = {oid: self.observers.get(copies.get(oid, oid), (None, None))[0] for oid in modules}
        own = {oid: copies.get(oid, oid) for oid in modules}
        tied = {oid for oid in modules if own[oid] in self.observers and found[oid] != own[oid]}
        lenders = {found[oid] for oid in tied}
        return {oid: found[oid] for oid in modules if oid in tied or own[oid] in self.observers and own[oid] in lenders}

    # --- qconfigs -----------------------------------------------------------------------------------

    def is_qconfig(self, value: Value) -> bool:
        """True for a QConfig of the library."""
        if isinstance(value, Symbol):
            return value.name in self.backend.qconfigs
        return (
            isinstance(value, Unknown)
            and value.symbol is not None
            and value.symbol[0] == "qconfig"
            and (len(value.symbol) == 2)
        )

    def qconfig_mode(self, value: Value) -> Mode:
        """The mode a qconfig is made for, as far as its name says."""
        name = value.name if isinstance(value, Symbol) else ""
        if isinstance(value, Unknown) and self.is_qconfig(value) and value.symbol is not None:
            made = value.symbol[1]
            name = str(made[0]) if isinstance(made, tuple) else ""
        return dict(self.backend.qconfig_modes).get(name, Mode.UNKNOWN)

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A function that makes a QConfig gives equal values for equal arguments."""
        if name in self.backend.qconfig_makers:
            shown = [self.key_of(argument.value, state) for argument in arguments.positional]
            named = [(key, self.key_of(a.value, state)) for key, a in sorted(arguments.keywords.items())]
            return Unknown("a qconfig", ("qconfig", (name, *shown, *named)))
        return super().library_call(name, arguments, node, state)

    # --- calls --------------------------------------------------------------------------------------

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Watch what a call may do to models, then make it."""
        options = options_of(function)
        if not self.optional and all(self.is_qconfig(option) for _, option in options):
            self._emit(QconfigCall(self.span(node), dotted(node.func) or "the qconfig"))
        if self.facts is not None:
            return super().call(function, arguments, node, state)
        self._watch(function, arguments, node, state)
        value = super().call(function, arguments, node, state)
        if isinstance(function, (FunctionValue, Bound)) and self._decorated(function):
            self._hand_over([value, *_values(arguments)], function.name, state)
        return self._same_model(function, value, node, state)

    def _call_options(self, function: Choice, arguments: Arguments, node: cst.Call, state: State) -> Value:
        self.optional += 1
        try:
            return super()._call_options(function, arguments, node, state)
        finally:
            self.optional -= 1

    def _same_model(self, function: Value, value: Value, node: cst.Call, state: State) -> Value:
        """``model.eval()`` of an unknown model is that model; ``model.parameters()`` are tensors."""
        if not (isinstance(function, Unknown) and isinstance(node.func, cst.Attribute)):
            return value
        name, symbol = node.func.attr.value, function.symbol
        if name in PARAMETER_LISTS:
            return self.parameter_list(name, state)
        if name in RETURN_SELF and symbol is not None and len(symbol) > 2 and symbol[-2:] == (".", name):
            return Unknown(function.reason, symbol[:-2])
        return value

    def _watch(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> None:
        """Hand models over to code that is not followed."""
        match function:
            case Unknown():
                self._watch_unknown(function, arguments, node, state)
            case Symbol():
                self._watch_library(function.name, arguments, state)
            case Bound() if function.function is None:
                self._watch_method(function, arguments, node, state)
            case FunctionValue() | Bound():
                span = function.span if isinstance(function, FunctionValue) else function.function.span  # type: ignore[union-attr]
                if self._stack.count(span) >= 3 or self.depth >= 40:
                    receiver = [function.receiver] if isinstance(function, Bound) else []
                    self._hand_down([*receiver, *_values(arguments)], span, state)
            case ClassValue():
                foreign = any(
                    isinstance(entry, Unknown)
                    or (isinstance(entry, Symbol) and not entry.name.startswith(LIBRARY_CLASSES))
                    for entry in self.mro(function)
                )
                if foreign:
                    self._hand_over(_values(arguments), function.name, state)
            case Ref():
                instance = self.instance(state, function)
                if instance is not None and instance.cls == Symbol("functools.partial"):
                    return
                self._hand_over(_values(arguments), "a call", state)
                classes = self.mro(instance.cls) if instance is not None else []
                if any(isinstance(c, ClassModel) and "forward" in c.methods and self._configures(c) for c in classes):
                    self._hand_over([function], "forward", state)
            case _:
                return

    def _configures(self, cls: ClassModel) -> bool:
        """Does forward name a qconfig of a module (of a tensor, it is no matter here)?"""
        return bool(re.search(r"\bself\b[^=\n]*\.qconfig\s*=|setattr", cls.methods["forward"].unit.text)) and (
            "qconfig" in cls.methods["forward"].unit.text
        )

    def _watch_unknown(self, function: Unknown, arguments: Arguments, node: cst.Call, state: State) -> None:
        values = _values(arguments)
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func) or ""
        if name in QUIET_CALLEES:
            return
        if isinstance(node.func, cst.Attribute) and name not in QUIET_METHODS | CONTAINER_METHODS:
            parent = function.symbol[:-2] if function.symbol is not None else ()
            if parent:
                values.append(Unknown(function.reason, parent))
        self._hand_over(values, name, state)

    def _watch_library(self, name: str, arguments: Arguments, state: State) -> None:
        if name.startswith("builtins."):
            short = name.removeprefix("builtins.")
            self.loose = self.loose or short in OPEN_BUILTINS
            if short == "setattr" and not isinstance(arguments.get(1, "name"), Const):
                self._hand_over(_values(arguments), short, state)
            if short not in QUIET_BUILTINS:
                self._hand_over(_values(arguments), short, state)
            return
        if name in self.backend.lifecycle_calls or name in self.backend.qconfig_makers:
            return
        last = name.rpartition(".")[2]
        if name.startswith("torch.") and not (
            name.startswith("torch.ao.quantization") and last[:1].islower() or last.startswith("_")
        ):
            return
        if last in QUIET_CALLEES:
            return
        if name.startswith(("copy.", "functools.", "collections.", "itertools.", "math.", "typing.", "time.")):
            return
        self._hand_over(_values(arguments), last, state)

    def _watch_method(self, function: Bound, arguments: Arguments, node: cst.Call, state: State) -> None:
        receiver = self.instance(state, function.receiver)
        if receiver is None:
            if not isinstance(function.receiver, (Ref, Const, Tensor, TupleValue)):
                self._hand_over([function.receiver, *_values(arguments)], function.name, state)
            return
        if function.name == "apply":
            self._apply(function.receiver, arguments, node, state)
        elif function.name not in QUIET_METHODS | CONTAINER_METHODS:
            self._hand_over([function.receiver, *_values(arguments)], function.name, state)

    def _apply(self, receiver: Value, arguments: Arguments, node: cst.Call, state: State) -> None:
        """``model.apply(function)``: the function gets every module."""
        function = arguments.get(0, "fn")
        known = isinstance(function, FunctionValue) or (isinstance(function, Bound) and function.function)
        if known and isinstance(receiver, Ref) and function is not None:
            found: list[tuple[str, Value]] = []
            self._all_modules(receiver, "", state, found, set())
            for _, module in found:
                self.call(function, Arguments.of(module), node, state)
        elif not (isinstance(function, Symbol) and function.name.startswith("torch.nn.")):
            self._hand_over([receiver], "apply", state)

    def _decorated(self, function: FunctionValue | Bound) -> bool:
        """True if a decorator may do more than the function itself."""
        value = function if isinstance(function, FunctionValue) else function.function
        model = self.functions.get(value.span) if value is not None else None
        if model is None or not isinstance(model.node, cst.FunctionDef):
            return False
        for decorator in model.node.decorators:
            expression = decorator.decorator
            if isinstance(expression, cst.Call):
                expression = expression.func
            if (dotted(expression) or "").rpartition(".")[2] not in QUIET_DECORATORS:
                return True
        return False

    # --- life-cycle calls ---------------------------------------------------------------------------

    def record_lifecycle(
        self,
        row: LifecycleRow,
        model: Value,
        arguments: Arguments,
        node: cst.Call,
        state: State,
        copies: dict[int, int],
    ) -> Value:
        """Remember a life-cycle call; the model it gives back, a copy unless it works in place.

        ``copies`` takes what the objects of the model become.
        """
        passed = set(arguments.keywords)
        for position in range(len(arguments.positional)):
            passed.add(row.params[position] if position < len(row.params) else "?")
        if arguments.open:
            passed.add("*")
        inplace = self._inplace(row, arguments)
        members = self.members_of(model, state)
        if self._recording():
            qconfig = self.qconfig_state(model, state)
            if qconfig is QconfigState.ABSENT:
                self.pending.append((len(self.script.events), self._assignments_around()))
            event = LifecycleCall(
                self.span(node),
                self._statement(node),
                row,
                dotted(node.func) or row.names[0].rpartition(".")[2],
                self._shown_model(node, row),
                members,
                frozenset(passed),
                inplace,
                self._is_statement(node),
                qconfig,
                state.guard,
                self.path,
                self.entry,
                self.facts is not None,
                self._kept_local(node, row) if inplace is False else None,
            )
            self.script.events.append(event)
        if inplace is False and row.workflow is Workflow.EAGER and self.facts is None:
            return self._copied_model(model, state, copies)
        return model

    def _inplace(self, row: LifecycleRow, arguments: Arguments) -> bool | None:
        if "inplace" not in row.params:
            return False
        value = arguments.get(row.params.index("inplace"), "inplace")
        if value is None:
            return None if arguments.open else False
        return bool(value.value) if isinstance(value, Const) else None

    def _copied_model(self, model: Value, state: State, copies: dict[int, int]) -> Value:
        seen: dict[int, Ref] = {}
        copy = self.copy_graph(model, state, seen)
        for original, ref in seen.items():
            self.lineage[ref.oid] = self.origin_of(original)
            copies[original] = ref.oid
        return copy

    def _shown_model(self, node: cst.Call, row: LifecycleRow) -> str:
        for argument in node.args:
            if argument.keyword is None or argument.keyword.value == row.model:
                return dotted(without_chain(argument.value)) or ""
        return ""

    def _is_statement(self, node: cst.Call) -> bool:
        """Is the call, or a chain of ``eval()`` and the like on its result, a statement of its own?"""
        statement = self.current.statement
        if not isinstance(statement, cst.Expr):
            return False
        return without_chain(statement.value, node) is node

    def _kept_local(self, node: cst.Call, row: LifecycleRow) -> str | None:
        """The parameter that ``net = prepare(net)`` binds, if the function gives nothing back and does nothing
        more with it than run it, and the caller goes on with the old model."""
        statement = self.current.statement
        if not (isinstance(statement, cst.Assign) and statement.value is node and len(statement.targets) == 1):
            return None
        target = statement.targets[0].target
        if not (isinstance(target, cst.Name) and self._stack and self.path):
            return None
        name, model = target.value, self.functions[self._stack[-1]]
        if self._shown_model(node, row) != name or not isinstance(model.node, cst.FunctionDef):
            return None
        if not _drops(model, name, statement) or not self._caller_keeps(model, name):
            return None
        return name

    def _caller_keeps(self, model: FunctionModel, name: str) -> bool:
        """Does the caller, a statement that is nothing but the call, use the name it passes again?"""
        span = self.path[-1][0]
        module = self.finder.module_at(span.path)
        unit = module.syntax.all_units.get(span.unit) if module is not None else None
        if module is None or unit is None:
            return False
        call = unit.node_at(span.ordinal)
        passed = _argument_for(model, name, call) if isinstance(call, cst.Call) else None
        if passed is None or not any(isinstance(n, cst.Expr) and n.value is call for n in walk(unit.node)):
            return False
        if passed.startswith("self."):
            return True
        end = unit.ordinal(call) + sum(1 for _ in walk(call))
        here = (n for n in walk(unit.node) if isinstance(n, cst.Name) and n.value == passed)
        if any(unit.ordinal(n) > end for n in here):
            return True
        later = (u for u in module.syntax.units if unit.kind == "statement" and u.start > unit.start)
        return any(u.kind == "statement" and re.search(rf"\b{re.escape(passed)}\b", u.text) for u in later)

    # --- what a run did not reach -------------------------------------------------------------------

    def _assignments_around(self) -> frozenset[SpanId]:
        """Statements of the running functions that give a qconfig to something."""
        found: set[SpanId] = set()
        for span in self._stack:
            model = self.functions[span]
            found |= _assignments(model.unit, model.node)
            if model.owner is not None and "__init__" in model.owner.methods:
                constructor: FunctionModel = model.owner.methods["__init__"]
                found |= _assignments(constructor.unit, constructor.node)
        if not self._stack:
            for unit in self.current.module.syntax.units:
                if unit.kind == "statement" and _SETS_QCONFIG.search(unit.text):
                    try:
                        found |= _assignments(unit, unit.node)
                    except ChunkError:
                        continue
        return frozenset(found)


def _assignments(unit: Unit, node: cst.CSTNode) -> set[SpanId]:
    """Statements below a node that assign an attribute ``qconfig``."""
    if not _SETS_QCONFIG.search(unit.text):
        return set()
    found: set[SpanId] = set()
    for inner in walk(node):
        if isinstance(inner, cst.Assign):
            if any(_is_qconfig(target.target) for target in inner.targets):
                found.add(SpanId(unit.path, unit.index, unit.ordinal(inner)))
        elif isinstance(inner, cst.Expr) and isinstance(inner.value, cst.Call):
            call = inner.value
            if dotted(call.func) == "setattr" and len(call.args) == 3:
                name = call.args[1].value
                if isinstance(name, cst.SimpleString) and name.evaluated_value == "qconfig":
                    found.add(SpanId(unit.path, unit.index, unit.ordinal(inner)))
    return found


def _is_qconfig(target: cst.BaseExpression) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return any(_is_qconfig(element.value) for element in target.elements)
    return isinstance(target, cst.Attribute) and target.attr.value == "qconfig"


def _drops(model: FunctionModel, name: str, statement: cst.Assign) -> bool:
    """Is what a statement binds to a name lost when the function ends?"""
    nodes = list(walk(model.node))
    parameters = model.node.params
    if name not in {p.name.value for p in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)}:
        return False
    if any(isinstance(n, (cst.Yield, cst.Await, cst.For, cst.While)) and _holds(n, statement) for n in nodes):
        return False
    if any(isinstance(n, (cst.Yield, cst.Lambda, cst.FunctionDef)) and n is not model.node for n in nodes):
        return False
    if any(isinstance(n, cst.Return) and n.value is not None and not _is_none(n.value) for n in nodes):
        return False
    start = next(i for i, n in enumerate(nodes) if n is statement) + sum(1 for _ in walk(statement))
    rest = nodes[start:]
    run = {id(n.func) for n in rest if isinstance(n, cst.Call)}
    for inner in rest:
        function = inner.func if isinstance(inner, cst.Call) else None
        if isinstance(function, cst.Attribute) and function.attr.value in RETURN_SELF:
            run.add(id(function.value))
    return all(id(n) in run for n in rest if isinstance(n, cst.Name) and n.value == name)


def without_chain(expression: cst.BaseExpression, stop: cst.Call | None = None) -> cst.BaseExpression:
    """``net`` of ``net.eval().to(device)``; not further in than a given call."""
    while isinstance(expression, cst.Call) and expression is not stop:
        function = expression.func
        if not (isinstance(function, cst.Attribute) and function.attr.value in RETURN_SELF):
            break
        expression = function.value
    return expression


def _holds(outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
    return any(node is inner for node in walk(outer))


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _argument_for(model: FunctionModel, name: str, call: cst.Call) -> str | None:
    """The dotted name that a call passes for a parameter."""
    names = [p.name.value for p in (*model.node.params.posonly_params, *model.node.params.params)]
    if model.owner is not None:
        names = names[1:]
    positional = [a.value for a in call.args if a.keyword is None and not a.star]
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return dotted(argument.value)
    position = names.index(name) if name in names else len(positional)
    return dotted(positional[position]) if position < len(positional) else None


def _values(arguments: Arguments) -> list[Value]:
    """Every value that a call passes."""
    found = [argument.value for argument in arguments.positional]
    return found + [argument.value for argument in arguments.keywords.values()]


def _used_as_module(cls: ClassModel, name: str) -> bool:
    """Does the text of a class call an attribute, iterate it or look into it?"""
    if name in SETTINGS:
        return False
    return bool(re.search(rf"\bself\.{re.escape(name)}\s*[(\[.]|\bin\s+self\.{re.escape(name)}\b", cls.unit.text))
