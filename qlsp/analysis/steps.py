"""What scripts do to models besides life-cycle calls: modes, forward runs, checkpoints, devices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import libcst as cst

from qlsp.analysis.facts import (
    Handover,
    LifecycleCall,
    LifeEvent,
    ModelContents,
    ModelStep,
    ObserverInstance,
    QconfigAssignment,
    QconfigKind,
    StepKind,
)
from qlsp.analysis.lifecycle import Lifecycle, without_chain
from qlsp.analysis.machine import Arguments
from qlsp.analysis.name_uses import made_for_several
from qlsp.analysis.program import ClassModel
from qlsp.backends.spec import LifecycleRow
from qlsp.syntax.names import dotted
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    NONE,
    Bound,
    Const,
    FunctionValue,
    Ref,
    SpanId,
    Symbol,
    TupleValue,
    Unknown,
    Value,
    options_of,
)
from qlsp.values.workflow import Mode

MAPPINGS = tuple(
    f"torch.ao.quantization.{name} "
    for name in ("QConfigMapping", "get_default_qconfig_mapping", "get_default_qat_qconfig_mapping")
)
MAPPING = "qconfig_mapping"
SPEC = "qconfig_spec"
QCONFIG_CLASSES = ("torch.ao.quantization.QConfig", "torch.ao.quantization.QConfigDynamic")
OBSERVER_BUILT = "an observer that is built"
DEVICE = "torch.device"
SWITCHES = {"disable_observer": StepKind.OBSERVERS_OFF, "enable_observer": StepKind.OBSERVERS_ON}
ADDS = re.compile(r"\b(?:add_module|register_module)\(\s*(?:name\s*=\s*)?[^\"'\s]|\b_modules\b")
"""Text that gives a model a module under a name that is not written out."""



class Steps(Lifecycle):
    """Records the steps of models, in the order of execution.

    ``stepped`` are the models of the running entry, whose objects begin with ``first``. ``given`` says what the
    qconfigs are made for that models from outside get. While a model runs (``inside_run``), the calls of its parts
    are no steps.
    """

    stepped: set[int]
    given: dict[int, Mode]
    inside_run: bool
    first: int

    def begin_entry(self) -> None:
        """No model was seen yet."""
        super().begin_entry()
        self.stepped, self.given, self.first = set(), {}, self._next_oid

    def settle_entry(self) -> None:
        """Steps of models that no life-cycle call gets and that no qconfig is given to say nothing."""
        super().settle_entry()
        events = self.script.events
        start = next((i for i, event in enumerate(events) if _entry_of(event) == self.entry), len(events))
        if not any(isinstance(event, (LifecycleCall, QconfigAssignment)) for event in events[start:]):
            kept = (event for event in events[start:] if not isinstance(event, ModelStep) or self.tells(event))
            events[start:] = list(kept)

    def tells(self, step: ModelStep) -> bool:
        """Does a step say something although its run moves no model through its life?"""
        return False

    def record_lifecycle(
        self,
        row: LifecycleRow,
        model: Value,
        arguments: Arguments,
        node: cst.Call,
        state: State,
        copies: dict[int, int],
    ) -> Value:
        """Add to the event what the model holds."""
        start = len(self.script.events)
        contents = self.contents(model, state) if self._recording() else ModelContents()
        result = super().record_lifecycle(row, model, arguments, node, state, copies)
        recorded = self.script.events[start] if len(self.script.events) > start else None
        if isinstance(recorded, LifecycleCall):
            original, made = (each.oid if isinstance(each, Ref) else None for each in (model, result))
            self.script.events[start] = replace(
                recorded,
                contents=contents,
                given=self._given(row, arguments, node, state),
                unexpected=self._unexpected(row, arguments, node),
                asked=self._asked(row, arguments, node, state),
                bound=self._bound(node),
                original=original,
                result=made,
            )
            self.stepped |= recorded.members
        return result

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """See an observer that is built where a QConfig takes what builds one; know a device by its text."""
        if name in QCONFIG_CLASSES:
            wrong = tuple(
                parameter
                for position, parameter in enumerate(("activation", "weight"))
                if self._made_already(arguments.get(position, parameter), state)
            )
            if wrong:
                self._emit(ObserverInstance(self.span(node), dotted(node.func) or "QConfig", wrong))
        text = arguments.get(0, "type") if name == DEVICE and self.facts is None else None
        if isinstance(text, Const) and isinstance(text.value, str):
            return Unknown("a device", (DEVICE, text.value))
        value = super().library_call(name, arguments, node, state)
        return Unknown(OBSERVER_BUILT) if name in self.backend.weights.factories else value

    def _made_already(self, value: Value | None, state: State) -> bool:
        options = [option for _, option in options_of(value)] if value is not None else []
        return bool(options) and all(
            isinstance(option, Unknown) and option.reason == OBSERVER_BUILT
            or isinstance(option, Ref) and self._is_model(option, state)
            for option in options
        )

    def _given(
        self, row: LifecycleRow, arguments: Arguments, node: cst.Call, state: State
    ) -> tuple[QconfigKind, SpanId] | None:
        """What a traced front end gets in place of a QConfigMapping, and where that stands in the call."""
        value = arguments.get(row.params.index(MAPPING), MAPPING) if MAPPING in row.params else None
        if value is None:
            return None
        kinds = {self.qconfig_kind(option, state) for _, option in options_of(value)}
        named = [each for each in node.args if each.keyword is not None and each.keyword.value == MAPPING]
        place = named[0].value if named else node.args[1].value if len(node.args) > 1 else node
        return (kinds.pop() if len(kinds) == 1 else QconfigKind.UNKNOWN, self.span(place))

    def _asked(self, row: LifecycleRow, arguments: Arguments, node: cst.Call, state: State) -> frozenset[str]:
        """The library classes in a set, or as keys of a dict that is written out."""
        spec = arguments.get(1, SPEC) if SPEC in row.params else None
        if spec is None or arguments.open or arguments.get(row.params.index("mapping"), "mapping") is not None:
            return frozenset()
        named = [each for each in node.args if each.keyword is not None and each.keyword.value == SPEC]
        shown = named[0].value if named else node.args[1].value
        items = self.items(spec, state) if isinstance(spec, (Ref, TupleValue)) else None
        values = list(items or ())
        if isinstance(shown, cst.Dict):
            values = [self.eval(each.key, state) for each in shown.elements if isinstance(each, cst.DictElement)]
        return frozenset(value.name for value in values if isinstance(value, Symbol))

    def _unexpected(
        self, row: LifecycleRow, arguments: Arguments, node: cst.Call
    ) -> tuple[tuple[str, SpanId], ...]:
        if row.keywords is None or arguments.keywords.keys() <= {*row.params, *row.keywords}:
            return ()
        if made_for_several(self.current.unit, node):
            return ()
        named = [(each.keyword.value, each) for each in node.args if each.keyword is not None]
        return tuple((name, self.span(each)) for name, each in named if name not in (*row.params, *row.keywords))

    def _assign_qconfig(self, target: Value, value: Value, state: State) -> None:
        start = len(self.script.events)
        super()._assign_qconfig(target, value, state)
        recorded = self.script.events[start] if len(self.script.events) > start else None
        if isinstance(recorded, QconfigAssignment):
            kinds = {self.qconfig_kind(option, state) for _, option in options_of(value)}
            modes = {self.qconfig_mode(option) for _, option in options_of(value)}
            kind = kinds.pop() if len(kinds) == 1 else QconfigKind.UNKNOWN
            mode = modes.pop() if len(modes) == 1 else Mode.UNKNOWN
            self.script.events[start] = replace(recorded, kind=kind, mode=mode)
            self.stepped |= recorded.members
            for _, option in options_of(target):
                key = self._identity(option)
                if isinstance(option, Unknown) and key is not None:
                    self.given[key] = mode

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Remember what a call does to a model, then make it."""
        if self.facts is not None or not self._recording() or self.inside_run:
            return super().call(function, arguments, node, state)
        self.inside_run = self._step(function, arguments, node, state) is StepKind.RUN
        try:
            return super().call(function, arguments, node, state)
        finally:
            self.inside_run = False

    def _step(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> StepKind | None:
        """Remember a step; which one it was."""
        if isinstance(function, Symbol):
            return None
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        receiver = self._receiver_model(function, name, state)
        if receiver is not None:
            kind = self._kind_of_method(name, arguments)
            return self._took(kind, self.members_of(receiver, state), node, state) if kind is not None else None
        options = [option for _, option in options_of(function)]
        if options and all(self._is_model(option, state) for option in options):
            members = [m for each in options for m in self.members_of(each, state)]
            run = frozenset(option.oid for option in options if isinstance(option, Ref))
            return self._took(StepKind.RUN, members, node, state, run)
        return None

    def _took(
        self,
        kind: StepKind,
        members: Iterable[int],
        node: cst.CSTNode,
        state: State,
        objects: frozenset[int] = frozenset(),
    ) -> StepKind:
        known = frozenset(members)
        if known:
            self.stepped |= known
            shown = _shown(node)
            span, statement, looped = self.span(node), self._statement(node), self.loop_depth > 0
            guard, path, entry = state.guard, self.path, self.entry
            self._emit(ModelStep(span, statement, kind, known, shown, guard, path, entry, looped, objects))
        return kind

    def _receiver_model(self, function: Value, name: str, state: State) -> Value | None:
        """The model that a method of every module is called on."""
        if isinstance(function, Bound) and function.function is None and self._is_model(function.receiver, state):
            return function.receiver
        if isinstance(function, Unknown) and function.symbol is not None and function.symbol[-2:] == (".", name):
            return Unknown(function.reason, function.symbol[:-2])
        return None

    def _is_model(self, value: Value, state: State) -> bool:
        instance = self.instance(state, value)
        if instance is not None:
            return (self.native_base(instance) or "").startswith(("torch.nn.", "torch.ao.")) or any(
                isinstance(entry, ClassModel) and "forward" in entry.methods for entry in self.mro(instance.cls)
            )
        return isinstance(value, Unknown) and value.symbol is not None and self._identity(value) in self.stepped

    def _kind_of_method(self, name: str, arguments: Arguments) -> StepKind | None:
        first = arguments.get(0, "mode") if name == "train" else arguments.get(0, "device")
        match name:
            case "eval":
                return StepKind.EVAL
            case "train":
                if first is None:
                    return StepKind.TRAIN
                if isinstance(first, Const):
                    return StepKind.TRAIN if first.value else StepKind.EVAL
                return StepKind.MODE
            case "forward":
                return StepKind.RUN
            case "load_state_dict":
                return StepKind.LOAD
            case "cuda":
                return StepKind.CUDA
            case "cpu":
                return StepKind.CPU
            case "to":
                return self._device(first)
            case "apply":
                function = arguments.get(0, "fn")
                last = function.name.rpartition(".")[2] if isinstance(function, Symbol) else ""
                return SWITCHES.get(last)
            case _:
                return None

    def _device(self, value: Value | None) -> StepKind | None:
        """The device that ``to`` moves a model to, as far as its text says."""
        text = str(value.value) if isinstance(value, Const) and isinstance(value.value, str) else None
        if isinstance(value, Unknown) and value.symbol is not None and value.symbol[0] == DEVICE:
            text = str(value.symbol[1])
        if text is None:
            return StepKind.DEVICE if value is not None and not isinstance(value, Symbol) else None
        return StepKind.CUDA if text.startswith("cuda") else StepKind.CPU if text.startswith("cpu") else StepKind.DEVICE

    def _bound(self, node: cst.Call) -> str:
        """The name that the running statement gives to the result of a call, or of a chain on it."""
        statement = self.current.statement
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return ""
        same = without_chain(statement.value, node) is node
        return dotted(statement.targets[0].target) or "" if same else ""

    def _paths(self, model: Ref, reached: set[int], state: State) -> frozenset[str] | None:
        """The names of the modules of a model; None if it may have others."""
        things = [self.load(state, Ref(oid)) for oid in reached if oid > 0]
        open_ended = any(
            isinstance(thing, ListObject)
            and (thing.items is None or thing.element is not None)
            or isinstance(thing, DictObject)
            and thing.rest is not None
            for thing in things
        )
        classes = (entry for thing in things if isinstance(thing, Instance) for entry in self.mro(thing.cls))
        modules = {id(each.module): each.module for each in classes if isinstance(each, ClassModel)}
        named = any(module.shows(ADDS) for module in (self.current.module, *modules.values()))
        if open_ended or named or reached & self.summaries:
            return None
        return frozenset(filter(None, self._names(model, state).values()))

    def _names(self, root: Ref, state: State) -> dict[int, str]:
        """The path of every instance under a root (see ``interpreter``)."""
        raise NotImplementedError

    # --- what is in a model, what a qconfig is --------------------------------------------------------

    def contents(self, model: Value, state: State) -> ModelContents:
        """The modules of a model, and what its qconfigs are made for."""
        modules: set[tuple[int, str]] = set()
        modes: set[Mode] = set()
        foreign = self.handed | self.outside | self.static_heap.keys()
        reached = self._reach(model, state)
        for oid in reached:
            thing = self.instance(state, Ref(oid)) if oid > 0 else None
            if thing is None:
                continue
            base = self.native_base(thing)
            if base is not None:
                modules.add((self.origin_of(oid), base))
            qconfig = thing.attributes.get("qconfig")
            if qconfig is not None and qconfig != NONE:
                modes.update(self.qconfig_mode(option) for _, option in options_of(qconfig))
        root = self.instance(state, model)
        leaf = root.cls.name if root is not None and isinstance(root.cls, Symbol) else None
        key = self._identity(model)
        if root is None and key in self.given:
            modes.add(self.given[key])
        whole = root is not None and not any(oid < self.first or oid in foreign for oid in reached)
        paths = self._paths(model, reached, state) if isinstance(model, Ref) else None
        return ModelContents(key, leaf, frozenset(modules), frozenset(modes), whole, paths)

    def qconfig_kind(self, value: Value, state: State) -> QconfigKind:
        """What is assigned as a qconfig."""
        if self.is_qconfig(value):
            return QconfigKind.QCONFIG
        match value:
            case Const(value=None):
                return QconfigKind.NONE
            case Const(value=str()):
                return QconfigKind.TEXT
            case Symbol() if value.name in QCONFIG_CLASSES:
                return QconfigKind.CLASS
            case Symbol() if value.name in self.backend.qconfig_makers or f"{value.name} " in MAPPINGS:
                return QconfigKind.FUNCTION
            case Symbol() if value.name in self.backend.weights.observers:
                return QconfigKind.OBSERVER
            case Symbol(name="torch.ao.quantization"):
                return QconfigKind.PACKAGE
            case FunctionValue():
                return QconfigKind.FUNCTION
            case Ref() if isinstance(self.load(state, value), DictObject):
                return QconfigKind.DICT
            case Unknown(reason=reason) if reason.startswith(MAPPINGS):
                return QconfigKind.MAPPING
            case _:
                return QconfigKind.UNKNOWN


def _shown(node: cst.CSTNode) -> str:
    """How a call names what it is made on."""
    if not isinstance(node, cst.Call):
        return ""
    return dotted(node.func.value if isinstance(node.func, cst.Attribute) else node.func) or ""


def _entry_of(event: LifeEvent) -> int | None:
    """The run that an event is of, None for events of no order."""
    return event.entry if isinstance(event, (LifecycleCall, QconfigAssignment, Handover, ModelStep)) else None
