"""A baseline: findings that a team knows of and does not want to see again.

The file is JSON with an entry on each line, sorted, so that it merges well::

    {"version": 1, "findings": [
    {"path": "models/neck.py", "rule": "QL101", "symbol": "Neck.forward", "text": "torch.cat([a, b])", "count": 1}
    ]}

An entry is about the findings of one rule in one function that mark the same text; ``path`` counts from the folder
of the file. Rows and columns are no part of it, so moved code stays known.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qlsp.diagnostics import Diagnostic, Message, Severity, Suppressed
from qlsp.identity import Identity, identities
from qlsp.text import LineIndex, Place, Source, Span

VERSION = 1
STALE, STALE_NAME = "QL004", "stale-baseline"
NEVER_KNOWN = frozenset({"QL001", "QL002", "QL003", STALE})
"""What these rules say is about the file, the run or the baseline: no baseline hides it."""
_KEYS = {"path": str, "rule": str, "symbol": str, "text": str, "count": int}


class BaselineError(Exception):
    """A file that is no baseline; the message is one line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Known findings of one identity: how many, and the row of the file that says so (from one)."""

    identity: Identity
    count: int
    row: int = 0


@dataclass(frozen=True, slots=True)
class Baseline:
    """The entries of a file; the paths of their identities count from its folder."""

    source: Source
    entries: tuple[Entry, ...]

    @property
    def path(self) -> str:
        """The file."""
        return self.source.path


@dataclass(slots=True)
class Applied:
    """What a baseline leaves of some findings, what it hides, and the entries that occur less often than they say.

    ``stale`` holds each such entry with the number of its findings that are left.
    """

    kept: list[Diagnostic] = field(default_factory=list)
    hidden: list[Suppressed] = field(default_factory=list)
    stale: list[tuple[Entry, int]] = field(default_factory=list)


def read(source: Source) -> Baseline:
    """The entries of a file; raises ``BaselineError``."""
    try:
        record = json.loads(source.text)
    except ValueError as error:
        raise BaselineError(f"{source.path}: no baseline: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("findings"), list):
        raise BaselineError(f"{source.path}: no baseline: it has no list of findings")
    if record.get("version") != VERSION:
        raise BaselineError(f"{source.path}: a baseline of version {record.get('version')}, this qlsp reads {VERSION}")
    rows = _rows(source.text, len(record["findings"]))
    entries = [_entry(item, row, source.path) for item, row in zip(record["findings"], rows, strict=True)]
    return Baseline(source, tuple(entries))


def render(entries: Sequence[Entry]) -> str:
    """The text of a file with these entries."""
    lines = [
        json.dumps(
            {
                "path": entry.identity.path,
                "rule": entry.identity.code,
                "symbol": entry.identity.symbol,
                "text": entry.identity.text,
                "count": entry.count,
            },
            ensure_ascii=False,
        )
        for entry in sorted(entries, key=lambda entry: entry.identity)
    ]
    inner = "".join(f"\n{line}{',' if number < len(lines) else ''}" for number, line in enumerate(lines, 1))
    return f'{{"version": {VERSION}, "findings": [{inner}\n]}}\n'


def entries_of(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source], folder: str) -> list[Entry]:
    """Entries for all of these findings, in a file that stands in ``folder``."""
    counts = Counter(_local(identity, folder) for identity in identities(diagnostics, sources))
    return [Entry(identity, count) for identity, count in counts.items()]


def apply(
    baseline: Baseline,
    diagnostics: Sequence[Diagnostic],
    sources: Mapping[str, Source],
    judged: Callable[[Identity], bool],
) -> Applied:
    """Hide what the baseline knows. ``judged`` says of an identity with an absolute path whether the run can tell
    that there is no such finding."""
    folder = os.path.dirname(os.path.abspath(baseline.path))
    entries = {entry.identity: entry for entry in baseline.entries}
    left = {identity: entry.count for identity, entry in entries.items()}
    index = LineIndex(baseline.source.text)
    result = Applied()
    for item, identity in zip(diagnostics, identities(diagnostics, sources), strict=True):
        key = _local(identity, folder)
        if item.code not in NEVER_KNOWN and left.get(key, 0) > 0:
            left[key] -= 1
            result.hidden.append(Suppressed(item, _place(baseline, entries[key], index), None))
        else:
            result.kept.append(item)
    result.stale = [
        (entry, entry.count - left[identity])
        for identity, entry in entries.items()
        if left[identity] > 0
        and judged(replace(identity, path=os.path.normpath(os.path.join(folder, identity.path))))
    ]
    return result


def stale_findings(baseline: Baseline, stale: Sequence[tuple[Entry, int]]) -> list[Diagnostic]:
    """A QL004 finding for each entry that no longer occurs, or not so often."""
    index = LineIndex(baseline.source.text)
    return [
        Diagnostic(
            STALE,
            STALE_NAME,
            Message.of(
                "stale-baseline",
                rule=entry.identity.code,
                where=entry.identity.symbol or "<module>",
                path=entry.identity.path,
                text=entry.identity.text[:60],
                count=entry.count,
                left=left,
            ),
            Severity.WARNING,
            _place(baseline, entry, index),
        )
        for entry, left in stale
    ]


def shrunk(baseline: Baseline, stale: Sequence[tuple[Entry, int]]) -> str:
    """The text of the file without what is stale."""
    counts = {entry.identity: left for entry, left in stale}
    entries = [replace(entry, count=counts.get(entry.identity, entry.count)) for entry in baseline.entries]
    return render([entry for entry in entries if entry.count])


def _entry(item: Any, row: int, path: str) -> Entry:
    if not isinstance(item, dict) or any(type(item.get(key)) is not kind for key, kind in _KEYS.items()):
        raise BaselineError(f"{path}:{row}: no entry of a baseline: it needs {', '.join(_KEYS)}")
    identity = Identity(item["path"], item["rule"], item["symbol"], item["text"])
    return Entry(identity, item["count"], row)


def _rows(text: str, count: int) -> list[int]:
    """The rows of the entries; all at the first where the file was written by hand in another form."""
    lines = LineIndex(text)
    rows = [row for row in range(1, len(lines) + 1) if lines.line_text(row).lstrip().startswith('{"path"')]
    return rows if len(rows) == count else [1] * count


def _place(baseline: Baseline, entry: Entry, index: LineIndex) -> Place:
    start = index.offset(entry.row, 1)
    return Place(baseline.path, Span(start, start + len(index.line_text(entry.row))))


def _local(identity: Identity, folder: str) -> Identity:
    """The identity with its path as it counts from a folder."""
    try:
        path = os.path.relpath(identity.path, folder)
    except ValueError:  # another drive
        path = os.path.abspath(identity.path)
    return replace(identity, path=path.replace(os.sep, "/"))
