"""One row of a backend table: how an operator is spelled and what it does to quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from qlsp.values.qparams import FixedScale
from qlsp.values.value import Origin, Tensor, Value


class Observation(str, Enum):
    """Where the scale of a quantized output comes from (torch's ``ObservationType`` words where they exist)."""

    OWN = "own"
    SHARE = "share"
    FIXED = "fixed"
    DERIVED = "derived"
    FIRST_INPUT = "first-input"
    NONE = "none"


class Shape(str, Enum):
    """How the output relates to the data of the first input, and of what Python type it is."""

    NEW = "new"
    VIEW = "view"
    PART = "part"
    PARTS = "parts"
    PAIR = "pair"
    INTEGER = "integer"
    SCALAR = "scalar"


class Role(str, Enum):
    """Rows that mean something to rules beyond their arithmetic."""

    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    CAT = "cat"


@dataclass(frozen=True, slots=True)
class OpSpec:
    """An operator row.

    ``functions``, ``methods``, ``modules``, ``functionals`` and ``operators`` are its spellings: qualified
    functions, tensor methods, module classes, methods of FloatFunctional, Python operators. ``params`` is the
    order of its positional parameters (for a method the receiver is the first), ``tensors`` those that take
    tensors, ``sequence`` the one that takes a list of them. ``raises`` is the literal error a quantized input
    meets, None if a kernel exists. ``weights`` says that two modules of the class differ although their
    arguments agree. ``swapped`` says that convert replaces the class (module with a qconfig), and
    ``observed`` that prepare gives it an output observer. ``since`` and ``until`` (exclusive) bound the
    library versions the row holds for. ``source`` is where the behaviour was read or measured.
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
    shape: Shape = Shape.NEW
    fixed: FixedScale | None = None
    raises: str | None = None
    weights: bool = False
    swapped: bool = False
    observed: bool = False
    role: Role | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """One call of an operator on tensors of one run.

    ``arguments`` are the constant arguments (and a module's constructor arguments), ``owner`` the module or
    FloatFunctional instance, ``converted`` whether convert swaps that instance. ``number`` gives equal value
    numbers to equal keys. ``outputs`` is the known length of a list result.
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
