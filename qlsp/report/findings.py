"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qlsp.diagnostics import Diagnostic, Suppressed
from qlsp.text import Source


@dataclass(frozen=True, slots=True)
class RuleText:
    """What a report says about a rule itself; ``page`` is Markdown, ``severity`` that of most findings."""

    code: str
    name: str
    summary: str
    page: str
    severity: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a run in order, the sources they point into, what was hidden, and the rules that were on.

    ``files`` is the number of files that were checked, ``failed`` says that the run was not whole. ``rules`` are
    those of the tool, by code.
    """

    diagnostics: Sequence[Diagnostic]
    sources: Mapping[str, Source]
    suppressed: Sequence[Suppressed] = ()
    files: int | None = None
    failed: bool = False
    rules: Sequence[RuleText] = ()
    version: str = ""
    locale: str = field(default="en")
