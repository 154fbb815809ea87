"""What the questions of an edit builder answer: expressions, calls, operators and loops with their places."""

from __future__ import annotations

from dataclasses import dataclass

from qlsp.diagnostics import NoFix
from qlsp.syntax.view import At, Key, NodeKey
from qlsp.text import Place

Target = NodeKey | Place


@dataclass(frozen=True)
class Expression:
    """An expression: its place with its own parentheses, its text without them."""

    place: Place
    inner: Place
    text: str
    name: str | None
    atom: bool

    @property
    def operand(self) -> str:
        """The text as it can stand before a dot or an operator."""
        return self.text if self.atom else f"({self.text})"


@dataclass(frozen=True)
class ArgumentAt:
    """An argument of a call. ``elements`` are the members of a list or tuple that is written out, ``each`` is the
    member of a list comprehension."""

    value: Expression
    keyword: str | None
    keyword_place: Place | None
    star: str
    elements: tuple[Expression, ...] | None
    each: Expression | None = None


@dataclass(frozen=True)
class OperandAt:
    """An operand of an operator or an argument of a call. ``position`` counts the arguments without a keyword; the
    receiver of a method is the operand ``0`` of an operator and has no position in a call."""

    key: Key
    position: int | None = None
    keyword: str | None = None


@dataclass(frozen=True)
class OperationAt:
    """An operator, an augmented assignment or a call taken apart. ``sign`` is the operator as written, ``name`` the
    dotted name of the function, ``method`` the attribute that is called and ``receiver`` what it is an attribute of.
    """

    place: Place
    operands: tuple[OperandAt, ...]
    sign: str | None = None
    name: str | None = None
    method: str | None = None
    receiver: Key | None = None
    augmented: bool = False


@dataclass(frozen=True)
class SlicesAt:
    """``target[:, :n] = value`` as what is put together along an axis."""

    statement: Place
    target: str
    parts: tuple[str, str]
    axis: int


@dataclass(frozen=True)
class LoopAt:
    """The head of a ``for`` loop or of a comprehension."""

    at: At
    target: Expression
    iterable: Expression


@dataclass(frozen=True)
class CallAt:
    """A call: where its function stands, how it is spelled, which arguments it has."""

    place: Place
    function: Place
    spelling: str | None
    arguments: tuple[ArgumentAt, ...]

    def argument(self, position: int, *keywords: str) -> ArgumentAt | None:
        """The argument at this position or with one of these keywords."""
        if any(argument.star for argument in self.arguments):
            raise NoFix("a call with starred arguments")
        for argument in self.arguments:
            if argument.keyword in keywords:
                return argument
        if position < len(self.arguments) and self.arguments[position].keyword is None:
            return self.arguments[position]
        return None
