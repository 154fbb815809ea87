"""Facts: what the interpreter saw. Picklable and free of syntax nodes, so that they can cross a process border.

A fact is keyed by (span, context, call path); a later pass over a loop body replaces the earlier fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from qlsp.ops.spec import OpSpec
from qlsp.values.value import CallPath, Guard, SpanId, Tensor, Unknown, Value
from qlsp.values.workflow import Mode, Workflow


@dataclass(frozen=True, slots=True)
class Context:
    """One way a root is used. ``assumed`` is True where no prepare call names the front end."""

    root: str
    span: SpanId
    workflow: Workflow
    mode: Mode
    instance: str | None = None
    assumed: bool = True


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
    whose method makes the call."""

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


@dataclass(frozen=True, slots=True)
class Submodule:
    """A module instance of a root: its path, class and where it was built. ``arguments`` are shown values."""

    path: str
    cls: str
    span: SpanId | None
    qconfig: object = None


@dataclass(frozen=True, slots=True)
class Return:
    """A value that leaves a root's forward."""

    span: SpanId
    value: Value
    guard: Guard


@dataclass(slots=True)
class Facts:
    """All facts of one context. ``submodules`` maps instance ids to what they are."""

    context: Context
    op_calls: dict[tuple[SpanId, CallPath], OpCall] = field(default_factory=dict)
    returns: list[Return] = field(default_factory=list)
    submodules: dict[int, Submodule] = field(default_factory=dict)
    reveals: dict[tuple[SpanId, CallPath], Value] = field(default_factory=dict)
    gave_up: str | None = None


__all__ = [
    "Alternative",
    "Context",
    "Facts",
    "Mode",
    "OpCall",
    "Operand",
    "Return",
    "Submodule",
    "Workflow",
]
