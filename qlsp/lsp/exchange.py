"""What server and worker send each other: immutable values, pickled, each behind its length."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from qlsp.diagnostics import Diagnostic
from qlsp.text import Edit, Place

LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the editor sets. ``configuration`` is a file; ``values`` are ``KEY = VALUE``, as for ``--config``."""

    enable: bool = True
    show_syntax_errors: bool = False
    configuration: str | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A document as the editor has it; ``folder`` is the workspace folder around it."""

    path: str
    version: int
    text: str
    settings: Settings = Settings()
    folder: str | None = None
    on_disk: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """Check every open document. Jobs are numbered; a newer one makes older answers worthless. ``disk`` is a number of
    the state of the disk: while it stays the same, only open documents have changed."""

    number: int
    files: tuple[OpenFile, ...]
    disk: int = 0


@dataclass(frozen=True, slots=True)
class FixAll:
    """Apply the safe fixes of one of the documents until none is left. The number is no job's."""

    number: int
    files: tuple[OpenFile, ...]
    path: str
    disk: int = 0


@dataclass(frozen=True, slots=True)
class FixedAll:
    """The edits that apply the safe fixes of a document."""

    number: int
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """What the server needs to know of a rule; ``page`` is Markdown."""

    code: str
    name: str
    preview: bool
    page: str


@dataclass(frozen=True, slots=True)
class Hello:
    """The worker is up, and these are its rules."""

    rules: tuple[RuleInfo, ...]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The findings of one document, and whether some have fixes that "fix all" would apply."""

    path: str
    version: int
    findings: tuple[Diagnostic, ...]
    fixable: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to a job. ``texts`` are the files that are not open and that findings point into."""

    number: int
    files: tuple[CheckedFile, ...]
    texts: Mapping[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorNote:
    """A tensor seen from one root: domain, dtype and who decides its scale."""

    root: str
    domain: str
    dtype: str | None
    owner: str | None
    built: Place | None


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Tensors of one document: (start, end, index into ``notes``), few notes for many places."""

    path: str
    version: int
    spans: tuple[tuple[int, int, int], ...]
    notes: tuple[TensorNote, ...]


@dataclass(frozen=True, slots=True)
class Tensors:
    """What follows an answer: it is for hovering, and no finding waits for it."""

    number: int
    maps: tuple[TensorMap, ...]
    texts: Mapping[str, str]


def pack(message: object) -> bytes:
    """A message as bytes, length first."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> object:
    """The message in the bytes that follow a length."""
    message: object = pickle.loads(body)
    return message
