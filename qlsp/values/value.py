"""Abstract values and ``join``.

Values are immutable. Mutable Python objects (lists, dicts, instances) are ``Ref`` values that point into the
heap of a ``State``, so that aliases stay visible. Alternatives of a merge are a ``Choice`` whose options carry
the guard (branch decisions) under which they hold; options with contradicting guards never meet again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from qlsp.values.qparams import QParams

MAX_OPTIONS = 8
"""More alternatives than this become ``Unknown``."""

Guard = frozenset[tuple[int, int]]
"""Branch decisions on the way to a value or a call: (number of the branch, arm)."""

NO_GUARD: Guard = frozenset()


@lru_cache(maxsize=1 << 16)
def exclusive(left: Guard, right: Guard) -> bool:
    """True if no run takes both ways: they decide one branch differently."""
    if not left or not right:
        return False
    decisions = dict(left)
    return any(decisions.get(key, arm) != arm for key, arm in right)


class Domain(str, Enum):
    """Is a tensor quantized after convert?"""

    FLOAT = "float"
    QUANTIZED = "quantized"
    INTEGER = "integer"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SpanId:
    """A syntax node named by file, chunk and ordinal: picklable, resolved to a span on demand."""

    path: str
    unit: int
    ordinal: int


Step = tuple[SpanId, int]
"""A call site (or loop) on the call path, with the pass of an unrolled loop (0 otherwise)."""

CallPath = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tensor got its scale: the call and the way to it."""

    span: SpanId
    path: CallPath


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of one run.

    ``number`` is its value number: equal numbers, equal float values (stubs, fake-quantize and dequantize
    are the identity of the float model). ``base`` is the number of the tensor it is a view or slice of.
    ``many`` marks a value that stands for several different tensors of a run (an element of a list of unknown
    length). ``collection`` marks an input that may be a list or dict of tensors. ``dequantized`` marks a float
    tensor that left the quantized region through a DeQuantStub.
    """

    domain: Domain
    number: int
    base: int
    qparams: QParams | None = None
    origin: Origin | None = None
    many: bool = False
    collection: bool = False
    dequantized: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A Python constant."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Const) and type(other.value) is type(self.value) and other.value == self.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something of a library, by its canonical qualified name: ``torch.cat``, ``torch.nn.Conv2d``."""

    name: str


@dataclass(frozen=True, slots=True)
class TupleValue:
    """A tuple of known length."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class RecordType(Symbol):
    """A class made by ``collections.namedtuple``: its fields, and the defaults of the last of them."""

    fields: tuple[str, ...] = ()
    defaults: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordValue(TupleValue):
    """A named tuple. ``cls`` is what made it, for its methods."""

    fields: tuple[str, ...] = ()
    cls: ClassValue | RecordType | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A pointer to a mutable object in the heap."""

    oid: int


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function of the project. ``closure`` is the id of the defining scope's captured names, 0 for none."""

    span: SpanId
    name: str
    owner: SpanId | None = None
    closure: int = 0


@dataclass(frozen=True, slots=True)
class ClassValue:
    """A class of the project."""

    span: SpanId
    name: str
    closure: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """A callable with its receiver: ``self.conv.forward``, ``x.view``, ``partial(f, a)``."""

    receiver: Value
    name: str
    function: FunctionValue | None = None


@dataclass(frozen=True, slots=True)
class Super:
    """``super()`` of a method: continue after ``owner`` in the receiver's MRO."""

    receiver: Value
    owner: SpanId


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not modelled. ``reason`` feeds the statistics; ``symbol`` names an immutable unknown (a flag), so that
    two tests of it take the same arm."""

    reason: str
    symbol: tuple[object, ...] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, each under its guard. Built by ``join`` only."""

    options: tuple[tuple[Guard, Value], ...]


Value = (
    Tensor | Const | Symbol | TupleValue | Ref | FunctionValue | ClassValue | Bound | Super | Unknown | Choice
)

NONE = Const(None)

ASSUMED_QCONFIG = Symbol("a qconfig that is assumed to be set")
"""What the modules of a model have on which nobody in view sets a qconfig."""

OPEN_QCONFIG = Symbol("a qconfig may come from the caller")
"""What modules without a qconfig have where a constructor sets qconfigs on other parts of the model."""

TOO_MANY = Unknown("too many alternatives")
"""What more alternatives than ``MAX_OPTIONS`` become; it stays what it is in every further merge."""

A_NUMBER = "a number read from a tensor"
"""The reason of an ``Unknown`` that is certainly no tensor."""


def is_number(value: Value) -> bool:
    """True for what is certainly no tensor: a constant, a size, a counter, an argument that its hint calls a number."""
    return isinstance(value, Const) or (isinstance(value, Unknown) and value.reason == A_NUMBER)


def options_of(value: Value) -> tuple[tuple[Guard, Value], ...]:
    """The alternatives of a value; a plain value is one alternative without a guard."""
    return value.options if isinstance(value, Choice) else ((NO_GUARD, value),)


def something(value: Choice) -> tuple[tuple[Guard, Value], ...]:
    """The alternatives other than None: what is asked of None raises."""
    return tuple(pair for pair in value.options if pair[1] != NONE) or value.options


def choice(options: list[tuple[Guard, Value]]) -> Value:
    """Merge alternatives: equal values keep what their guards have in common, too many become ``Unknown``."""
    merged: dict[Value, Guard] = {}
    for guard, value in options:
        for inner, option in options_of(value):
            full = guard | inner
            merged[option] = merged[option] & full if option in merged else full
    if len(merged) == 1:
        return next(iter(merged))
    if len(merged) > MAX_OPTIONS or TOO_MANY in merged:
        return TOO_MANY
    return Choice(tuple((guard, value) for value, guard in sorted(merged.items(), key=_order)))


def _order(item: tuple[Value, Guard]) -> str:
    return repr(item[0])


def join(left: Value, right: Value, left_guard: Guard = NO_GUARD, right_guard: Guard = NO_GUARD) -> Value:
    """The least value that covers both; commutative, associative and idempotent on equal guards."""
    if left == right:
        return left
    return choice([(left_guard, left), (right_guard, right)])


def feasible(options: tuple[tuple[Guard, Value], ...], guard: Guard) -> list[tuple[Guard, Value]]:
    """The options that can occur on a way with these decisions."""
    return [(inner, value) for inner, value in options if not exclusive(inner, guard)]
