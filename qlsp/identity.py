"""What a finding is, wherever it stands: the key of baselines and of fingerprints in reports."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from qlsp.diagnostics import Diagnostic
from qlsp.syntax.chunks import Layout, layout
from qlsp.text import Place, Source


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """File, rule, enclosing class and function (``Net.forward``, empty at the top), and the text that the finding
    marks with every run of white space as one blank. Moved and re-indented code keeps it."""

    path: str
    code: str
    symbol: str
    text: str


def identities(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> Iterator[Identity]:
    """The identity of each finding, in order; findings that look alike have the same."""
    layouts: dict[tuple[str, int], Layout] = {}
    for item in diagnostics:
        place, source = item.place, sources.get(item.place.path)
        if source is None:
            yield Identity(place.path, item.code, "", "")
            continue
        text = source.segments[place.span.segment].text
        key = (place.path, place.span.segment)
        if key not in layouts:
            layouts[key] = layout(text)
        marked = " ".join(text[place.span.start : place.span.end].split())
        yield Identity(place.path, item.code, _symbol(text, layouts[key], place), marked)


def fingerprints(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> Iterator[str]:
    """32 hexadecimal digits for each finding, no two the same in one run; code that moves keeps its own."""
    seen: Counter[Identity] = Counter()
    for identity in identities(diagnostics, sources):
        seen[identity] += 1
        parts = (identity.path, identity.code, identity.symbol, identity.text, str(seen[identity]))
        yield hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


_HEADER = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


def _symbol(text: str, where: Layout, place: Place) -> str:
    names: list[str] = []
    indent: int | None = None
    for start, _ in reversed(where.lines):
        if start > place.span.start:
            continue
        own = _indent(text, start)
        if indent is None or own < indent:
            header = _HEADER.match(text, start)
            if header is not None and indent is not None:
                names.append(header[1])
            indent = own
    return ".".join(reversed(names))


def _indent(text: str, start: int) -> int:
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    return len(text[line:start].expandtabs(8))
