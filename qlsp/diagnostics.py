"""What the tool says: diagnostics, related places and fixes. Frozen, picklable, free of syntax nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from qlsp.text import Edit, Place


class Severity(str, Enum):
    """How bad a finding is; ``rank`` orders them for ``--fail-on``."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """3 for an error, 2 for a warning, 1 for a hint."""
        return {"error": 3, "warning": 2, "info": 1}[self.value]


class Predicts(str, Enum):
    """What running the code will show: an exception, or nothing at all."""

    RAISES = "raises"
    SILENT = "silent"


class Applicability(str, Enum):
    """SAFE keeps the float model bit-identical in every context in view; DISPLAY is never applied."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


@dataclass(frozen=True, slots=True)
class Message:
    """A message id of the catalogue and the values of its placeholders."""

    id: str
    params: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, id: str, **params: object) -> Message:
        """Build a message; parameter values are rendered by ``str``."""
        return cls(id, tuple((key, str(value)) for key, value in sorted(params.items())))


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains the finding: where a branch got its scale, the first use of a stub."""

    message: Message
    place: Place


class NoFix(Exception):
    """A rewrite that cannot be made right, so it is not offered; the text says why, for tests and debugging."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One atomic rewrite: all of its edits or none. ``last``: it rests on what the rest of the code does to scales, so
    it is made alone, when no other fix is left. ``reveals`` are the codes of findings that the mistake hides, since
    without it there is something to find."""

    title: Message
    applicability: Applicability
    reason: Message
    edits: tuple[Edit, ...]
    last: bool = False
    reveals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding at one place."""

    code: str
    name: str
    message: Message
    severity: Severity
    place: Place
    predicts: Predicts = Predicts.SILENT
    assumes: Message | None = None
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that an ignore comment hides, the comment, and the reason it gives."""

    diagnostic: Diagnostic
    place: Place
    reason: str | None
