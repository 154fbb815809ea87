"""For people at a terminal: each finding with its source lines, related places and fixes."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from qlsp.diagnostics import Applicability, Diagnostic, Fix, Severity
from qlsp.messages import render
from qlsp.report.changes import changed_lines
from qlsp.report.findings import Findings
from qlsp.report.layout import Location, Locator, character_width
from qlsp.text import Place, apply

TAB_STOP = 4
MAX_WIDTH = 160
"""Columns of a source line that are shown; a longer line is cut around the finding."""
MAX_ROWS = 4
"""Rows of a finding that are shown; of a longer one the middle is left out."""

_BLUE, _BOLD = "1;34", "1"
_SIGN_COLOR = {"-": "31", "+": "32"}
_SEVERITY_COLOR = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.INFO: "1;36"}


def report(findings: Findings, *, color: bool = False) -> str:
    """The findings and a last line that counts them."""
    writer = _Writer(findings, color)
    blocks = ["\n".join(writer.finding(item)) + "\n" for item in findings.diagnostics]
    return "\n".join([*blocks, _summary(findings.diagnostics, findings.files)])


def _summary(diagnostics: Sequence[Diagnostic], files: int | None) -> str:
    where = "" if files is None else f" in {_count(files, 'file')}"
    if not diagnostics:
        return f"No findings{where}.\n"
    by_severity = Counter(item.severity for item in diagnostics)
    parts = [f"{by_severity[severity]} {severity.value}" for severity in Severity if by_severity[severity]]
    return f"{_count(len(diagnostics), 'finding')}{where}: {', '.join(parts)}.\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class _Writer:
    def __init__(self, findings: Findings, color: bool) -> None:
        self.sources = findings.sources
        self.locator = Locator(findings.sources)
        self.locale = findings.locale
        self.color = color

    def finding(self, item: Diagnostic) -> Iterator[str]:
        color = _SEVERITY_COLOR[item.severity]
        head = f"{self._paint(item.severity.value + ':', color)} {self._paint(item.code, _BOLD)}"
        yield f"{head} [{item.name}] {render(item.message, self.locale)}"
        places = [item.place, *(related.place for related in item.related)]
        gutter = max(len(str(self.locator.locate(place).end_row)) for place in places)
        yield from self._excerpt(item.place, gutter, "^", color)
        for related in item.related:
            yield f"{' ' * gutter} {self._paint(':::', _BLUE)} {render(related.message, self.locale)}"
            yield from self._excerpt(related.place, gutter, "-", _BLUE)
        if item.assumes is not None:
            yield self._remark(gutter, "note:", render(item.assumes, self.locale))
        for number, fix in enumerate(item.fixes):
            text = f"{render(fix.title, self.locale)} ({fix.applicability.value} fix)"
            yield self._remark(gutter, "help:", text)
            if number == 0 and fix.applicability is not Applicability.DISPLAY:
                yield from self._changes(fix, gutter)
        yield self._remark(gutter, "help:", f"`qlsp explain {item.name}` says more")

    def _remark(self, gutter: int, label: str, text: str) -> str:
        return f"{' ' * gutter} {self._paint('=', _BLUE)} {self._paint(label, _BOLD)} {text}"

    def _changes(self, fix: Fix, gutter: int) -> Iterator[str]:
        """The lines that a fix takes away and adds."""
        bar = f"{' ' * gutter} {self._paint('|', _BLUE)}"
        for path, segment in dict.fromkeys((edit.path, edit.span.segment) for edit in fix.edits):
            source = self.sources.get(path)
            if source is None:
                continue
            old = source.segments[segment].text
            edits = [edit for edit in fix.edits if (edit.path, edit.span.segment) == (path, segment)]
            for sign, line in changed_lines(old, apply(old, edits)):
                shown = "".join(map(_visible, line.expandtabs(TAB_STOP)))
                yield f"{bar} {self._paint(f'{sign} {shown}', _SIGN_COLOR[sign])}".rstrip()

    def _excerpt(self, place: Place, gutter: int, mark: str, color: str) -> Iterator[str]:
        yield f"{' ' * gutter}{self._paint('-->', _BLUE)} {self.locator.name(place)}"
        index = self.locator.index(place)
        if index is None:
            return
        at = self.locator.locate(place)
        bar = self._paint("|", _BLUE)
        empty = f"{' ' * gutter} {bar}"
        yield empty
        before = at.row - 1
        for row in _shown_rows(at):
            if row != before + 1:
                yield self._paint("...", _BLUE)
            before = row
            line = index.line_text(row)
            start = at.column - 1 if row == at.row else len(line) - len(line.lstrip())
            end = at.end_column - 1 if row == at.end_row else len(line)
            shown, padding, length = _underline(line, start, end)
            yield f"{self._paint(str(row).rjust(gutter), _BLUE)} {bar} {shown}".rstrip()
            if length or place.span.start == place.span.end:
                length = max(length, 1)
                yield f"{empty} {' ' * padding}{self._paint(mark * length, color)}"
        yield empty

    def _paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.color else text


def _shown_rows(at: Location) -> list[int]:
    last = at.end_row - 1 if at.end_column == 1 and at.end_row > at.row else at.end_row
    rows = list(range(at.row, last + 1))
    return rows if len(rows) <= MAX_ROWS else [*rows[: MAX_ROWS - 1], rows[-1]]


def _underline(line: str, start: int, end: int) -> tuple[str, int, int]:
    """The line as a terminal shows it, and the column and number of the marks under ``start`` to ``end``."""
    pieces: list[str] = []
    widths: list[int] = []
    column = 0
    for character in line:
        piece = " " * (TAB_STOP - column % TAB_STOP) if character == "\t" else _visible(character)
        pieces.append(piece)
        widths.append(sum(map(character_width, piece)))
        column += widths[-1]
    low, high = 0, len(line)
    if column > MAX_WIDTH:
        low = max(0, min(start, len(line)) - MAX_WIDTH // 4)
        high, room = low, MAX_WIDTH
        while high < len(line) and widths[high] <= room:
            room -= widths[high]
            high += 1
    head, tail = "…" if low else "", "…" if high < len(line) else ""
    shown = head + "".join(pieces[low:high]) + tail
    first = max(low, start)
    padding = len(head) + sum(widths[low:first])
    length = sum(widths[first : min(end, high)])
    return shown, padding, length


def _visible(character: str) -> str:
    """The character, or a stand-in for one that would steer the terminal."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    unsafe = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDIRECTIONAL
    return "\ufffd" if unsafe else character


_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
