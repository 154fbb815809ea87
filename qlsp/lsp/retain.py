"""Differences of texts, and findings of text that does not parse for the moment: they move along with the edits."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

from qlsp.diagnostics import Diagnostic, Related
from qlsp.text import Edit, Place, Span


@dataclass(frozen=True, slots=True)
class Change:
    """One text became another: ``start:old_end`` of the old became ``start:new_end`` of the new."""

    start: int
    old_end: int
    new_end: int

    @classmethod
    def between(cls, old: str, new: str) -> Change:
        """The smallest single change that explains the difference."""
        start = _shared(len(old), len(new), lambda low, high: old[low:high] == new[low:high])
        tail = _shared(
            len(old) - start,
            len(new) - start,
            lambda low, high: old[len(old) - high : len(old) - low] == new[len(new) - high : len(new) - low],
        )
        return cls(start, len(old) - tail, len(new) - tail)

    def forward(self, span: Span) -> Span | None:
        """Where a span of the old text is in the new one: moved, grown around the change, or lost."""
        shift = self.new_end - self.old_end
        if span.end <= self.start:
            return span
        if span.start >= self.old_end:
            return replace(span, start=span.start + shift, end=span.end + shift)
        if span.start <= self.start and self.old_end <= span.end:
            return replace(span, end=span.end + shift)
        return None

    def backward(self, offset: int) -> int | None:
        """Where an offset of the new text was in the old one; None for text that is new."""
        if offset < self.start:
            return offset
        if offset >= self.new_end:
            return offset - (self.new_end - self.old_end)
        return None

    def touches(self, span: Span) -> bool:
        """Was anything of a span of the new text changed?"""
        changed = self.start < max(self.old_end, self.new_end)
        return changed and span.start <= self.new_end and self.start <= span.end


def _shared(old: int, new: int, equal: Callable[[int, int], bool]) -> int:
    """How long the common beginning of two texts is, by halving: slices compare fast."""
    low, high = 0, min(old, new)
    while low < high:
        middle = (low + high + 1) // 2
        if equal(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def edits_between(path: str, old: str, new: str) -> list[Edit]:
    """Small edits that make one text the other."""
    before, after = old.splitlines(True), new.splitlines(True)
    offsets = [0, *accumulate(map(len, before))]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    edits = []
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal":
            part, content = old[offsets[first] : offsets[last]], "".join(after[start:end])
            inner = Change.between(part, content)
            span = Span(offsets[first] + inner.start, offsets[first] + inner.old_end)
            edits.append(Edit(path, span, content[inner.start : inner.new_end]))
    return edits


class Piece(Protocol):
    """A statement or a member of a class, and whether it parses."""

    @property
    def span(self) -> Span: ...

    @property
    def broken(self) -> bool: ...

    @property
    def members(self) -> Sequence[Piece]: ...


def moved(finding: Diagnostic, change: Change) -> Diagnostic | None:
    """An earlier finding at its place in the new text, without fixes; None if the change ran into it."""
    path = finding.place.path
    span = change.forward(finding.place.span)
    if span is None:
        return None
    related = []
    for each in finding.related:
        there = change.forward(each.place.span) if each.place.path == path else each.place.span
        if there is not None:
            related.append(Related(each.message, Place(each.place.path, there)))
    return replace(finding, place=Place(path, span), related=tuple(related), fixes=())


def retained(
    earlier: Iterable[Diagnostic], change: Change, pieces: Sequence[Piece], live: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """The earlier findings that text which does not parse hides, and that nothing has disproved."""
    known = {(each.code, each.place.span) for each in live}
    kept = []
    for finding in earlier:
        found = moved(finding, change)
        if found is None or (found.code, found.place.span) in known:
            continue
        if _hidden(found.place.span, change, pieces) or _rests_on_hidden(found, change, pieces):
            kept.append(found)
    return kept


def _hidden(span: Span, change: Change, pieces: Sequence[Piece]) -> bool:
    """Is the span in a statement that does not parse, or in an unchanged method beside a broken one?"""
    piece = _around(span, pieces)
    if piece is None or not _any_broken(piece):
        return False
    member = _around(span, piece.members)
    return member is None or member.broken or not change.touches(member.span)


def _rests_on_hidden(finding: Diagnostic, change: Change, pieces: Sequence[Piece]) -> bool:
    """Does a finding in an unchanged statement point to a statement that does not parse?"""
    piece = _around(finding.place.span, pieces)
    if piece is None or change.touches(piece.span):
        return False
    places = (each.place for each in finding.related)
    around = (_around(at.span, pieces) for at in places if at.path == finding.place.path)
    return any(other is not None and _any_broken(other) for other in around)


def _any_broken(piece: Piece) -> bool:
    return piece.broken or any(member.broken for member in piece.members)


def _around(span: Span, pieces: Sequence[Piece]) -> Piece | None:
    return next((each for each in pieces if each.span.start <= span.start < max(each.span.end, 1)), None)
