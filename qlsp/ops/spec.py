"""One row of a backend table: how an operator is spelled and what it does to quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from qlsp.values.qparams import FixedScale
from qlsp.values.value import Origin, Tensor, Value
from qlsp.values.workflow import Weights


class Observation(str, Enum):
    """Where the scale of a quantized output comes from (torch's ``ObservationType`` words where they exist).

    NONE: the output is not quantized.
    """

    OWN = "own"
    SHARE = "share"
    FIXED = "fixed"
    DERIVED = "derived"
    FIRST_INPUT = "first-input"
    NONE = "none"


class Shape(str, Enum):
    """How the output relates to the data of the first input, and of what Python type it is.

    SAME is the input itself or a copy of it; PAIR is (values, indices); TWO is (output, second output with a
    scale of its own); STATE is an LSTM's (output, (hidden, cell)); EACH is a tuple with one output per input.
    """

    NEW = "new"
    SAME = "same"
    VIEW = "view"
    PART = "part"
    PARTS = "parts"
    PAIR = "pair"
    TWO = "two"
    STATE = "state"
    EACH = "each"
    INTEGER = "integer"
    SCALAR = "scalar"


class Role(str, Enum):
    """Rows that mean something to rules beyond their arithmetic. COPY: raw integer codes go into the first operand."""

    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    CAT = "cat"
    LOSS = "loss"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Case:
    """What is different under an argument.

    It holds if ``parameter`` has one of ``values`` (a type stands for all its instances, ``Tensor`` for a
    tensor), with no values if it is given at all, and with ``absent`` also if it is not given. ``raises``,
    ``shape`` and ``observation`` replace those of the row; None keeps the row's. The first case that holds
    counts; a case that cannot be decided does not hold.
    """

    parameter: str
    values: tuple[object, ...] = ()
    absent: bool = False
    raises: str | None = None
    shape: Shape | None = None
    observation: Observation | None = None


@dataclass(frozen=True, slots=True)
class OpSpec:
    """An operator row.

    ``functions``, ``methods``, ``modules``, ``functionals`` and ``operators`` are its spellings: qualified
    functions (canonical names), tensor methods, module classes, methods of FloatFunctional, Python operators
    (``+``, ``+=``, ``[]``, and ``-x``, ``+x``, ``~x`` for the unary ones). ``params`` is the order of its
    positional parameters (for a method the receiver is the first, for a module ``forward``'s). ``tensors``
    are the parameters that take tensors, ``sequence`` the one that takes a list of them, ``optional`` those that a
    method of FloatFunctional can do without, ``constructor`` a module's constructor parameters.

    ``raises`` is the literal error a quantized input meets, None if a kernel exists; of a module with a
    quantized class it is the error of the float class, when convert does not swap it. ``mixed`` are
    the errors of a float operand behind and before a quantized one, None if they are not errors of their own and
    an empty text if there is none.
    ``on_float`` is the error of the quantized class (or functional) on a float input, None if there is no
    such class or it accepts float.
    ``on_number`` is the error of a Python number where the quantized functional takes a tensor.
    ``formerly`` are the errors of a quantized input in other versions of the library.
    ``float_function`` is the function that a method of a FloatFunctional calls until convert swaps it.
    ``refused`` is an error of prepare, calibration or convert under torch's default qconfig, ``trained_refused``
    that of prepare_qat, training or the convert after it. They hold for qconfigs that observe weights in one of
    the ways of ``refused_weights``, or for all. ``cases`` list what arguments change.

    ``packed`` are the attributes of a module that are methods of its quantized class.

    ``weights`` says that two modules of the class, or two calls of the function, differ although their
    arguments agree (parameters, random numbers). ``swapped`` says that convert replaces the class (module
    with a qconfig), and ``observed`` that prepare gives it an output observer. ``since`` and ``until``
    (exclusive) bound the library versions the row holds for. ``source`` is where the behaviour was read or
    measured.
    """

    op: str
    observation: Observation
    source: str
    functions: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    functionals: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    params: tuple[str, ...] = ("input",)
    tensors: tuple[str, ...] = ("input",)
    sequence: str | None = None
    optional: tuple[str, ...] = ()
    constructor: tuple[str, ...] = ()
    shape: Shape = Shape.NEW
    fixed: FixedScale | None = None
    raises: str | None = None
    mixed: tuple[str | None, str | None] | None = None
    on_float: str | None = None
    on_number: str | None = None
    formerly: tuple[str, ...] = ()
    float_function: str | None = None
    refused: str | None = None
    trained_refused: str | None = None
    refused_weights: tuple[Weights, ...] = ()
    packed: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    weights: bool = False
    swapped: bool = False
    observed: bool = False
    role: Role | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """One call of an operator on tensors of one run.

    ``inputs`` are the tensor operands in the order of the row's ``tensors``, or the members of its
    ``sequence``. ``arguments`` are the other arguments (and a module's constructor arguments) as pairs of a
    parameter and a key: (type name, repr) of a Python constant, the qualified name of a library symbol,
    anything else for what is not known; equal keys, equal values. ``owner`` is the module or FloatFunctional
    instance, ``converted`` whether convert swaps that instance. ``number`` gives equal value numbers to equal
    keys. ``outputs`` is the known length of a list result.
    """

    spec: OpSpec
    inputs: tuple[Tensor, ...]
    arguments: tuple[object, ...]
    origin: Origin
    number: Callable[[tuple[object, ...]], int]
    owner: int | None = None
    converted: bool = False
    outputs: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result, and the error the converted model raises here. After an error the result is that of the
    corrected program, so that the next wrong line is found too."""

    value: Value
    raises: str | None = None
