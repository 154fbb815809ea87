"""The machine: what every part of the interpreter shares. Frames, heap access, value numbers, budgets, facts."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from qlsp.analysis.facts import Context, Facts
from qlsp.analysis.program import ClassModel, Finder, FunctionModel, ModuleModel
from qlsp.backends.spec import Backend
from qlsp.syntax.parse import Unit
from qlsp.values.state import HeapObject, Instance, State
from qlsp.values.value import (
    NO_GUARD,
    CallPath,
    ClassValue,
    FunctionValue,
    Guard,
    Ref,
    SpanId,
    Symbol,
    Unknown,
    Value,
)
from qlsp.values.workflow import Workflow

MAX_STEPS = 400_000
MAX_ENTRY_STEPS = 25_000
MAX_FILE_STEPS = 100_000
MAX_DEPTH = 40
MAX_UNROLL = 64
MAX_ITEMS = 4096
"""A list that grows beyond this many items is one of unknown length; what a display spells out may be longer."""


class BudgetExceeded(Exception):
    """One root or entry took more steps than its budget: its remaining calls stay undecided."""


LIMITS = (BudgetExceeded, RecursionError)
"""What ends the run of a root or an entry that is too large to follow."""


@dataclass(slots=True)
class Frame:
    """A running function: where its code stands, its receiver's class, what it has returned so far. ``builder`` is
    the class for whose objects it runs: its own, or that of the method it was called from. ``assigned`` are the names
    that ``:=`` has bound. ``uneven`` says that some of the yields happen on some ways or an unknown number of times;
    ``depth`` and ``guard`` are the loops and decisions around the call."""

    unit: Unit
    module: ModuleModel
    name: str
    owner: ClassModel | None = None
    receiver: Value | None = None
    closure: int = 0
    returns: list[tuple[Value, State, cst.Return]] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    uneven: bool = False
    depth: int = 0
    guard: Guard = NO_GUARD
    nonlocals: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    loops: list[LoopExits] = field(default_factory=list)
    statement: cst.BaseSmallStatement | None = None
    arguments: tuple[Value, ...] = ()
    builder: SpanId | None = None


@dataclass(slots=True)
class LoopExits:
    """States that left the running loop body early."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Argument:
    """One evaluated call argument with the expression it came from."""

    value: Value
    node: cst.BaseExpression | None = None


@dataclass(slots=True)
class Arguments:
    """Evaluated call arguments. ``open`` says that ``*`` or ``**`` of unknown content was passed, ``more`` that
    the parameters ``*args`` and ``**kwargs`` may get more than what is shown."""

    positional: list[Argument] = field(default_factory=list)
    keywords: dict[str, Argument] = field(default_factory=dict)
    open: bool = False
    more: bool = False

    @classmethod
    def of(cls, *values: Value) -> Arguments:
        """Positional arguments without syntax."""
        return cls([Argument(value) for value in values])

    def get(self, index: int, name: str) -> Value | None:
        """The argument at this position or with this keyword."""
        if name in self.keywords:
            return self.keywords[name].value
        return self.positional[index].value if index < len(self.positional) else None


class Machine:
    """Shared data of one analysis. The interpreter's parts are mix-ins over it."""

    def __init__(self, finder: Finder, backend: Backend) -> None:
        self.finder = finder
        self.backend = backend
        self.facts: Facts | None = None
        self.frame: Frame | None = None
        self.path: CallPath = ()
        self.muted = 0
        self.steps = 0
        self.entry_steps = 0
        self.limit = MAX_ENTRY_STEPS
        self.cut = False
        self.spent = 0
        self.given_up: dict[tuple[SpanId, str], None] = {}
        self.depth = 0
        self.static_heap: dict[int, HeapObject] = {}
        self.functions: dict[SpanId, FunctionModel] = {}
        self.class_models: dict[tuple[SpanId, int], ClassModel] = {}
        self.closures: dict[int, dict[str, Value]] = {}
        self.closure_frames: dict[int, Frame] = {}
        self.effective: dict[int, Value] | None = None
        self.loop_depth = 0
        self.conditions = 0
        self.loop_guard: Guard = NO_GUARD
        self.summaries: set[int] = set()
        self.named: dict[tuple[int, str], SpanId] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next_oid = 1

    def number(self, key: tuple[object, ...]) -> int:
        """The value number of a key; equal keys have equal numbers."""
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    def fresh(self, *hint: object) -> int:
        """A value number that equals no other."""
        return self.number(("fresh", len(self._numbers), *hint))

    def begin_budget(self) -> None:
        """A run begins: what the entries of a file may take together is bounded, and what each may take."""
        self.steps, self.cut = 0, False
        self.limit = min(MAX_ENTRY_STEPS, MAX_FILE_STEPS - self.entry_steps)

    def end_budget(self) -> None:
        """The run is over; questions between two runs have a budget of their own."""
        self.entry_steps += self.steps
        self.spent += self.steps
        self.steps, self.limit, self.conditions = 0, MAX_ENTRY_STEPS, 0

    def begin_root_budget(self, context: Context) -> None:
        """The forward of a root begins; one that nobody uses may take less."""
        self.steps, self.limit = 0, MAX_ENTRY_STEPS if context.workflow is Workflow.NONE else MAX_STEPS

    def end_root_budget(self) -> None:
        """The forward of a root is over; it counts for no entry."""
        self.spent += self.steps
        self.steps, self.limit = 0, MAX_ENTRY_STEPS

    def tick(self) -> None:
        """Count one step of the budget."""
        self.steps += 1
        if self.steps > self.limit:
            raise BudgetExceeded

    def give_up(self, span: SpanId, what: str, error: Exception) -> str:
        """Note that a run was ended: where it began, and why."""
        deep = "calls that nest too deeply" if isinstance(error, RecursionError) else str(error)
        reason = f"{what} with {deep}" if deep else self._too_long(what)
        self.given_up[span, reason] = None
        return reason

    def _too_long(self, what: str) -> str:
        if self.facts is None and self.limit < MAX_ENTRY_STEPS:
            return f"{what} after the {MAX_FILE_STEPS} steps of its file"
        return f"{what} of more than {self.limit} steps"

    @property
    def current(self) -> Frame:
        """The running frame."""
        assert self.frame is not None
        return self.frame

    def span(self, node: cst.CSTNode) -> SpanId:
        """The span id of a node of the running frame's unit."""
        unit = self.current.unit
        return SpanId(unit.path, unit.index, unit.ordinal(node))

    def allocate(self, state: State, thing: HeapObject) -> Ref:
        """Put a new object on the heap."""
        oid = self._next_oid
        self._next_oid += 1
        state.heap[oid] = thing
        return Ref(oid)

    def new_instance(self, state: State, thing: Instance) -> Ref:
        """Put a new instance on the heap; one built in a loop of unknown length stands for several."""
        ref = self.allocate(state, thing)
        if self.loop_depth:
            self.summaries.add(ref.oid)
        return ref

    def enter_loop(self, guard: Guard) -> None:
        """A loop of unknown length begins: what runs under the same guard runs in every pass."""
        if self.loop_depth == 0:
            self.loop_guard = guard
        self.loop_depth += 1

    def load(self, state: State, ref: Ref) -> HeapObject | None:
        """The object a reference points to, or None if this path did not build it."""
        found = state.heap.get(ref.oid)
        return found if found is not None else self.static_heap.get(ref.oid)

    def instance(self, state: State, value: Value) -> Instance | None:
        """The instance a value points to, if it is one."""
        if isinstance(value, Ref):
            found = self.load(state, value)
            if isinstance(found, Instance):
                return found
        return None

    def class_model(self, value: ClassValue) -> ClassModel:
        """The model of a class value."""
        return self.class_models[value.span, value.closure]

    def class_value(self, model: ClassModel) -> ClassValue:
        """The value of a class model."""
        self.class_models[model.span, model.closure] = model
        return ClassValue(model.span, model.name, model.closure)

    def function_value(self, model: FunctionModel, closure: int = 0) -> FunctionValue:
        """The value of a function model."""
        self.functions[model.span] = model
        owner = model.owner.span if model.owner is not None else None
        if model.owner is not None:
            self.class_models[model.owner.span, model.owner.closure] = model.owner
            closure = closure or model.owner.closure
        return FunctionValue(model.span, model.name, owner, closure)

    def capture(self, state: State) -> int:
        """Remember the names in scope for a nested function or class."""
        number = len(self.closures) + 1
        scope = dict(self.closures.get(self.current.closure, {}))
        scope.update(state.names)
        self.closures[number] = scope
        self.closure_frames[number] = self.current
        return number

    def mro(self, value: ClassValue | Symbol) -> list[ClassModel | Symbol | Unknown]:
        """The method resolution order; library classes and unknown bases are single entries."""
        raise NotImplementedError
