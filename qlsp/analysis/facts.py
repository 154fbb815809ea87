"""Facts: what the interpreter saw. Picklable and free of syntax nodes, so that they can cross a process border.

A fact is keyed by (span, context, call path); a later pass over a loop body replaces the earlier fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from qlsp.backends.spec import LifecycleRow, NameMove, Namespace
from qlsp.ops.spec import OpSpec
from qlsp.values.value import CallPath, Guard, SpanId, Tensor, Unknown, Value
from qlsp.values.workflow import Mode, Weights, Workflow


class QconfigUse(str, Enum):
    """What a qconfig of a mapping makes of a layer: quantized with observed inputs, left in float, or not known."""

    STATIC = "static"
    FLOAT = "float"
    UNKNOWN = "unknown"


class MappingKey(str, Enum):
    """What an entry of a QConfigMapping is for."""

    GLOBAL = "global"
    TYPE = "type"
    NAME = "name"
    REGEX = "regex"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """An entry of a QConfigMapping: made at ``span``, ``key`` is the name of a class or function, of a module, or a
    pattern (None: not known). Equal ``number``: one qconfig. ``sure``: every run makes it, once."""

    span: SpanId
    kind: MappingKey
    key: str | None
    use: QconfigUse
    number: int | None = None
    sure: bool = False


@dataclass(frozen=True, slots=True)
class QconfigMapping:
    """What a QConfigMapping, or a dict in its place, says. ``bare``: it does not begin with the library's defaults.
    ``whole``: it has no other entries."""

    bare: bool
    entries: tuple[MappingEntry, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Tracing:
    """What a prepare call of FX is asked for. ``mapping`` is None where it is not known; ``plain``: no custom or
    backend configuration is passed."""

    mapping: QconfigMapping | None
    plain: bool


@dataclass(frozen=True, slots=True)
class Context:
    """One way a root is used. ``assumed`` is True where no prepare call names the front end; else ``prepared`` is
    that call, and ``fused`` says that some code may have fused modules of the model before. ``model`` identifies
    the root in the events of a file: the file, and the object that it is a copy of. ``fed``: it is called on what
    another model gives back, ``feeds``: another model is called on what it gives back, or code in view expects it to
    be quantized; both where code out of view may have wrapped it before. ``tracing`` is what the prepare call of FX is
    asked for."""

    root: str
    span: SpanId
    workflow: Workflow
    mode: Mode
    instance: str | None = None
    assumed: bool = True
    model: tuple[str, int] | None = None
    prepared: SpanId | None = None
    fused: bool = True
    fed: bool = False
    feeds: bool = False
    tracing: Tracing | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor operand: its expression, and what it is in one alternative of the run."""

    span: SpanId | None
    value: Tensor | Unknown


@dataclass(frozen=True, slots=True)
class Alternative:
    """Operands that can occur together, and the result they give. ``raises``: the converted model's error."""

    guard: Guard
    operands: tuple[Operand, ...]
    output: Value
    raises: str | None = None


@dataclass(frozen=True, slots=True)
class OpCall:
    """A call of an operator row. ``owner`` is the module or FloatFunctional instance; ``open`` says that the
    list of operands has an unknown number of further members like the ones shown. ``receiver`` is the instance
    whose method makes the call. ``alias`` says that the owner is a second name, which convert does not swap.
    ``held`` says that something besides the statement may look at the tensor that an in-place call changes; None of
    a call that changes none. ``arguments`` are those that are no tensors
    (see ``ops.spec.Application``)."""

    span: SpanId
    path: CallPath
    spec: OpSpec
    spelling: str
    alternatives: tuple[Alternative, ...]
    guard: Guard
    owner: int | None = None
    converted: bool = False
    open: bool = False
    loop: bool = False
    receiver: int | None = None
    alias: bool = False
    arguments: tuple[object, ...] = ()
    held: bool | None = None


@dataclass(frozen=True, slots=True)
class FunctionalUse:
    """A call of a method of a FloatFunctional or of its kin, known or not, or of the object itself (``method`` is
    ``forward``). ``cls`` is the class of the instance ``owner`` (a name of the project for a subclass), built at
    ``made``. ``unexpected`` are keywords that a known method lacks, ``missing`` are parameters without a value;
    ``surplus``: more positional arguments than parameters. ``operands`` are the first two arguments."""

    span: SpanId
    path: CallPath
    owner: int
    cls: str
    method: str
    known: bool
    made: SpanId | None
    guard: Guard
    unexpected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    surplus: bool = False
    operands: tuple[Value, ...] = ()

    @property
    def fits(self) -> bool:
        """Does the class have such a method, with such parameters?"""
        return self.known and not (self.unexpected or self.missing or self.surplus)


@dataclass(frozen=True, slots=True)
class Submodule:
    """A module instance of a root: its path, class and where it was built.

    ``cls`` is a qualified name for a library class, else the name of a class of the project. ``spec`` is the row of
    its library class, its own or the one it derives from, ``arguments`` are those of the library's constructor
    (pairs of a parameter and a key, see ``ops.spec.Application``). ``weights`` says how the ``qconfig`` that
    reaches it observes weights, ``holder`` is the path of the module that has this qconfig, ``assigned`` the
    statement that gives it; each is None where it is not known. ``several``: it stands for all that a loop of unknown
    length builds. ``code`` are the chunks (file and number) of the
    methods of a subclass of a library layer.
    """

    path: str
    cls: str
    span: SpanId | None
    qconfig: object = None
    spec: OpSpec | None = None
    arguments: tuple[tuple[str, object], ...] = ()
    weights: Weights | None = None
    holder: str | None = None
    assigned: SpanId | None = None
    several: bool = False
    code: frozenset[tuple[str, int]] = frozenset()


REST = "*"
"""The name of what a call passes besides its known arguments: a list or dict that is not known."""

PARAMETER = "parameter"
"""The first part of the key of an argument that is a parameter of a layer which convert swaps."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """``layer.weight`` read by forward, of a layer whose quantized class has a method of that name. ``owner`` is
    the layer's instance id."""

    span: SpanId
    path: CallPath
    owner: int
    name: str
    guard: Guard


@dataclass(frozen=True, slots=True)
class Alias:
    """A further name that a parent has for one of its submodules, which convert does not swap: it swaps the first
    name only. ``parent`` and ``original`` are instance ids, ``span`` is where the name was given."""

    parent: int
    name: str
    original: int
    span: SpanId | None


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of what leaves a root's forward: an expression of the return statement, with what it is.

    ``container`` is None where the expression is a tensor itself; otherwise ``value`` is a tuple of the tensors in
    the ``list``, ``tuple``, ``dict`` or ``object`` that it stands for. ``name``: the expression is this local name.
    """

    span: SpanId
    value: Value
    container: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """A value that leaves a root's forward, through the return statement at ``span``. ``leaves`` are its parts as
    the statement shows them."""

    span: SpanId
    value: Value
    guard: Guard
    leaves: tuple[Leaf, ...] = ()


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter of a root's forward: the number of the tensor that it is, and whether its annotation says so."""

    name: str
    number: int
    annotated: bool


class Keeping(str, Enum):
    """Why a model does not know a module: built while forward runs, kept in a plain list, tuple or dict, or
    never built (the class itself is called like a module), or an attribute of a class instead of its objects."""

    FORWARD = "forward"
    CONTAINER = "container"
    CLASS = "class"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Stray:
    """Modules of classes that convert swaps and that it does not find.

    ``span`` is the construction in forward, else the statement that sets ``attribute`` of ``holder``.
    ``members`` are the instances. ``container`` is ``list``, ``tuple`` or ``dict``; ``takes`` says that a
    ModuleList or ModuleDict can hold the same and that nothing in it has parameters, ``others`` that there are other
    modules in it too.
    """

    span: SpanId
    kind: Keeping
    classes: frozenset[str]
    members: frozenset[int]
    holder: int | None = None
    attribute: str | None = None
    container: str | None = None
    takes: bool = False
    others: bool = False


@dataclass(frozen=True, slots=True)
class TracedUse:
    """Python needs the value of what FX traces with: a ``condition``, a ``loop``, or a builtin of this name."""

    span: SpanId
    path: CallPath
    kind: str


@dataclass(slots=True)
class Facts:
    """All facts of one context.

    ``submodules`` maps instance ids to what they are, ``aliases`` the instances that stand for a second name of
    another one. ``unread`` are the stub calls whose result is dropped, ``unfit`` those that certainly get no tensor:
    a ``list``, ``tuple``, ``dict``, ``None`` or ``number``; ``listed`` are the members of the lists and tuples.
    ``inputs`` are the tensors that forward gets, ``strays`` the modules that convert does not find. ``ties`` are
    the modules that code in view gives an observer by hand after prepare: equal keys for one observer, None for one
    that is not known. ``tied`` says that code in view does so for models like this one, nobody knows which.
    ``fusable`` are the modules that could be fused, ``fused`` says that code may have fused some of the model.
    ``evaluated`` are the calls that were reached. ``callees``: where a branch decided what is called, the numbers
    (in the call path) of the alternatives that may be. ``reasons``: value numbers of tensors to why it is not known
    whether they are quantized. ``traced`` is what stops FX, in the order of the run.
    """

    context: Context
    traced: dict[tuple[SpanId, CallPath], TracedUse] = field(default_factory=dict)
    op_calls: dict[tuple[SpanId, CallPath], OpCall] = field(default_factory=dict)
    returns: list[Return] = field(default_factory=list)
    submodules: dict[int, Submodule] = field(default_factory=dict)
    parameters: dict[tuple[SpanId, CallPath], Parameter] = field(default_factory=dict)
    aliases: dict[int, Alias] = field(default_factory=dict)
    unread: set[tuple[SpanId, CallPath]] = field(default_factory=set)
    unfit: dict[tuple[SpanId, CallPath], str] = field(default_factory=dict)
    listed: dict[tuple[SpanId, CallPath], tuple[Value, ...]] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    strays: dict[tuple[SpanId, Keeping], Stray] = field(default_factory=dict)
    functional_uses: dict[tuple[SpanId, CallPath], FunctionalUse] = field(default_factory=dict)
    reveals: dict[tuple[SpanId, CallPath], Value] = field(default_factory=dict)
    gave_up: str | None = None
    ties: dict[int, object] = field(default_factory=dict)
    fusable: list[Fusable] = field(default_factory=list)
    fused: bool = False
    tied: bool = False
    evaluated: set[SpanId] = field(default_factory=set)
    callees: dict[tuple[SpanId, CallPath], frozenset[int]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)

    def why_unknown(self, value: Tensor) -> str:
        """Why the domain of a tensor is not known."""
        found = self.reasons.get(value.number) or self.reasons.get(value.base)
        return found or "a tensor of unknown domain"


class QconfigState(str, Enum):
    """Did a model get a qconfig before it is prepared?

    ``ABSENT``: certainly nowhere in it. ``OUTSIDE``: the model comes from elsewhere and nothing in view gives it
    one. ``MAYBE``: something that is not followed may have given it one. ``SET``: some part of it has one.
    """

    ABSENT = "absent"
    OUTSIDE = "outside"
    MAYBE = "maybe"
    SET = "set"


class FloatChange(str, Enum):
    """Why fusing a sequence of modules changes what the float model computes.

    ``SHARED``: a later module of the sequence is also called elsewhere. ``CONSUMER``: the output of an earlier one
    is also used elsewhere. ``APART``: another operator stands between two of them, or they run in another order.
    """

    SHARED = "shared"
    CONSUMER = "consumer"
    APART = "apart"


@dataclass(frozen=True, slots=True)
class FuseGroup:
    """One sequence of modules of a fuse call.

    ``names`` are the names as given, ``parts`` the classes that they stand for (None where that is not known),
    ``missing`` the names that the model certainly does not have, each with the names it has there. ``fusable`` says
    whether a fuser exists, None where a class is not known. ``change`` says why the float model changes, ``span`` is
    the call in forward that shows it, ``culprit`` the name it is about. ``beginning`` is how many of the first modules
    of a sequence without a fuser can be fused.
    """

    names: tuple[str, ...]
    parts: tuple[str | None, ...]
    missing: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fusable: bool | None = None
    change: FloatChange | None = None
    culprit: str | None = None
    span: SpanId | None = None
    beginning: int = 0


class FuseForm(str, Enum):
    """How the list of a fuse call is written: ``GOOD``, a single ``NAME``, ``MIXED`` names and lists, nested too
    ``DEEP``, ``MODULES`` in place of names, or several sequences in one ``FLAT`` list."""

    GOOD = "good"
    NAME = "name"
    MIXED = "mixed"
    DEEP = "deep"
    MODULES = "modules"
    FLAT = "flat"


@dataclass(frozen=True, slots=True)
class Fusion:
    """What a fuse call is asked to fuse."""

    form: FuseForm
    groups: tuple[FuseGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Fusable:
    """Modules of a root that could be fused and are not: their paths, and the calls of them that raise."""

    paths: tuple[str, ...]
    owners: tuple[int, ...]
    parts: tuple[str, ...]


class StepKind(str, Enum):
    """What a script does to a model besides life-cycle calls.

    ``MODE``: ``train(flag)`` with a flag that is not known. ``RUN``: its forward runs. ``OPTIMIZER``: one is built for
    its parameters. ``STEP``: one of its parameters steps, or goes with the model to code that is not in view. ``LOAD``:
    ``load_state_dict``. ``DEVICE``: it moves to a device that is not known.
    """

    EVAL = "eval"
    TRAIN = "train"
    MODE = "mode"
    RUN = "run"
    OPTIMIZER = "optimizer"
    STEP = "step"
    LOAD = "load"
    CUDA = "cuda"
    CPU = "cpu"
    DEVICE = "device"
    OBSERVERS_OFF = "observers off"
    OBSERVERS_ON = "observers on"


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A step of a model. ``members`` identify the module it is called on and every module in it, as those of a
    life-cycle call; ``shown`` is how the code names the model. ``looped``: it stands in a loop. ``objects`` are what
    runs, a copy and its original told apart; of ``OPTIMIZER`` and ``STEP``, the optimizers that it may be."""

    span: SpanId
    statement: SpanId
    kind: StepKind
    members: frozenset[int]
    shown: str
    guard: Guard
    path: CallPath
    entry: int
    looped: bool
    objects: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ModelContents:
    """What is in a model when a life-cycle call gets it.

    ``root`` identifies the model itself, ``leaf`` is its class if it is one of the library. ``modules`` are its modules
    and the model with their library classes (of a module of the project, the one it derives from), ``modes`` what the
    qconfigs in it are made for. ``whole`` says that every module is in view and that this run built them all.
    ``paths`` are the names of the modules in it, None if it may have others.
    """

    root: int | None = None
    leaf: str | None = None
    modules: frozenset[tuple[int, str]] = frozenset()
    modes: frozenset[Mode] = frozenset()
    whole: bool = False
    paths: frozenset[str] | None = None


class QconfigKind(str, Enum):
    """What is assigned as a qconfig: one of the library, None, a ``str``, a function that makes one and was not
    called, the class ``QConfig``, an observer, a ``QConfigMapping``, a ``dict``, a module of the library."""

    QCONFIG = "qconfig"
    NONE = "none"
    TEXT = "text"
    FUNCTION = "function"
    CLASS = "class"
    OBSERVER = "observer"
    MAPPING = "mapping"
    DICT = "dict"
    PACKAGE = "package"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LifecycleCall:
    """A life-cycle call of a script, a function or a method.

    ``members`` identify the model and every module in it; a copy that a life-cycle call makes keeps the identity
    of what it is a copy of. ``passed`` are the names of the arguments given (``*`` for an argument list that is
    not known). ``inplace`` is None where it is not known. ``ignored``: the call is a statement of its own.
    ``rebinds`` is the name of a parameter that the statement binds to the result although the caller keeps the
    old model. ``fusion`` is what a fuse call fuses, as far as it is written out; ``contents`` what the model holds,
    ``tracing`` what a prepare call of FX is asked for. ``given`` is the kind of the qconfigs that a traced front end
    gets, and where they stand; ``unexpected`` are keywords that the function does not have, if nothing around says
    that the code is made for several versions. ``bound`` is the name that the statement gives to the
    result; ``original`` and ``result`` are the objects that the call gets and gives back, which differ where it copies.
    ``asked`` are the classes that ``quantize_dynamic`` is asked for, with its default mapping.
    """

    span: SpanId
    statement: SpanId
    row: LifecycleRow
    spelling: str
    model: str
    members: frozenset[int]
    passed: frozenset[str]
    inplace: bool | None
    ignored: bool
    qconfig: QconfigState
    guard: Guard
    path: CallPath
    entry: int
    in_forward: bool = False
    rebinds: str | None = None
    fusion: Fusion | None = None
    contents: ModelContents = ModelContents()
    tracing: Tracing | None = None
    given: tuple[QconfigKind, SpanId] | None = None
    unexpected: tuple[tuple[str, SpanId], ...] = ()
    asked: frozenset[str] = frozenset()
    bound: str = ""
    original: int | None = None
    result: int | None = None


class QconfigTarget(str, Enum):
    """What a qconfig is assigned to."""

    MODULE = "module"
    LEAF = "leaf"
    TENSOR = "tensor"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class QconfigAssignment:
    """``target.qconfig = value``, or ``setattr``. ``cleared``: the value is None. ``LEAF`` is a library layer.
    ``prepared``: the target is certainly a module that prepare has given its observers, no copy of it. ``kind`` and
    ``mode`` say what is assigned: of a QConfig, what it is made for."""

    span: SpanId
    target: QconfigTarget
    shown: str
    members: frozenset[int]
    cleared: bool
    guard: Guard
    path: CallPath
    entry: int
    in_forward: bool = False
    prepared: bool = False
    kind: QconfigKind = QconfigKind.UNKNOWN
    mode: Mode = Mode.UNKNOWN


@dataclass(frozen=True, slots=True)
class StrayAttribute:
    """An attribute set on a QConfig or a module that nobody reads it from."""

    span: SpanId
    name: str
    on: str


@dataclass(frozen=True, slots=True)
class QconfigCall:
    """A QConfig is called as if it were a function."""

    span: SpanId
    spelling: str


@dataclass(frozen=True, slots=True)
class ObserverInstance:
    """A QConfig gets a module in place of what builds one, for these parameters."""

    span: SpanId
    spelling: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Handover:
    """Models are passed to a function that is not in view, in this statement."""

    span: SpanId
    callee: str
    members: frozenset[int]
    guard: Guard
    entry: int


@dataclass(frozen=True, slots=True)
class ExportedMode:
    """``eval()`` or ``train()`` of a model that torch.export made. ``trains``: the mode asked for, None if it is not
    known."""

    span: SpanId
    method: str
    trains: bool | None
    shown: str
    guard: Guard
    entry: int


@dataclass(frozen=True, slots=True)
class OutputUse:
    """What a converted model gives back meets an operator that refuses a quantized tensor. ``model`` is the object
    that the model is a copy of, ``raises`` the error if this output is quantized."""

    span: SpanId
    spelling: str
    model: int
    raises: str


class UseForm(str, Enum):
    """How a file uses a name: ``import a.b``, ``from a import b``, ``from a import *``, or as an attribute."""

    IMPORT = "import"
    FROM = "from"
    STAR = "star"
    ATTRIBUTE = "attribute"


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name of a package with names that moved.

    ``statement`` is the one it stands in, ``name`` the qualified name as written, ``through`` what the imported name
    that it begins with stands for (of ``from``: the module). ``guarded``: the code around is made for several
    versions, or expects an error. ``namespace`` says that the name is in an old one, ``missing`` that it does not
    exist.
    """

    span: SpanId
    statement: SpanId
    form: UseForm
    name: str
    through: str
    guarded: bool
    namespace: Namespace | None = None
    missing: NameMove | None = None


LifeEvent = (
    LifecycleCall
    | QconfigAssignment
    | StrayAttribute
    | QconfigCall
    | ObserverInstance
    | Handover
    | ModelStep
    | ExportedMode
)


@dataclass(slots=True)
class ScriptFacts:
    """What the script, the functions and the methods of a file do to models and qconfigs, in the order of
    execution. Events of one ``entry`` follow each other in one run; the order of entries is not known.
    ``vendor``: the file uses a package with a front end of its own. ``uses`` are what happens to the results of
    converted models, as if they were quantized, ``names`` the uses of packages that moved."""

    vendor: bool = False
    path: str = ""
    uses: list[OutputUse] = field(default_factory=list)
    names: list[NameUse] = field(default_factory=list)
    events: list[LifeEvent] = field(default_factory=list)


__all__ = [
    "Alias",
    "Alternative",
    "Context",
    "Facts",
    "FunctionalUse",
    "Handover",
    "Input",
    "Keeping",
    "Leaf",
    "LifecycleCall",
    "Mode",
    "ModelContents",
    "ModelStep",
    "NameUse",
    "ObserverInstance",
    "OpCall",
    "Operand",
    "OutputUse",
    "Parameter",
    "QconfigAssignment",
    "QconfigCall",
    "QconfigKind",
    "QconfigState",
    "QconfigTarget",
    "Return",
    "ScriptFacts",
    "StepKind",
    "Stray",
    "StrayAttribute",
    "Submodule",
    "UseForm",
    "Weights",
    "Workflow",
]
