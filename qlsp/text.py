"""Text, places in it, and every conversion between offsets, lines and columns."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Units = Literal["utf-8", "utf-16", "utf-32"]

_NEWLINE = re.compile(r"\r\n?|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of code points in one segment of a source."""

    start: int
    end: int
    segment: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a named file."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of a span of a file by other text."""

    path: str
    span: Span
    content: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of Python text: a whole file, or one cell of a notebook."""

    text: str
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file as text, with what is needed to write it back unchanged. ``raw`` is the whole text of a notebook."""

    path: str
    segments: tuple[Segment, ...]
    encoding: str = "utf-8"
    bom: bool = False
    raw: str | None = None

    @property
    def text(self) -> str:
        """The text of the file: that of the only segment, or the JSON of a notebook."""
        if self.raw is not None:
            return self.raw
        (segment,) = self.segments
        return segment.text

    @classmethod
    def from_text(cls, path: str, text: str) -> Source:
        """Make a source of one segment."""
        return cls(path, (Segment(text),))


class SourceError(Exception):
    """A file that cannot be read, decoded or encoded; the message is one line."""


class LineIndex:
    r"""Lines of a text; a line ends at ``\r\n``, ``\n`` or ``\r`` and at nothing else."""

    __slots__ = ("_contents", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [0]
        contents = []
        for match in _NEWLINE.finditer(text):
            contents.append(match.start())
            starts.append(match.end())
        contents.append(len(text))
        self._starts = starts
        self._contents = contents

    def __len__(self) -> int:
        """Number of lines; the text after the last line break counts as one, also when it is empty."""
        return len(self._starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the row and the column of an offset, both counted from one."""
        offset = max(0, min(offset, len(self.text)))
        row = bisect_right(self._starts, offset)
        return row, offset - self._starts[row - 1] + 1

    def offset(self, row: int, column: int) -> int:
        """Return the offset of a row and a column, both counted from one and clamped to the text."""
        if row < 1:
            return 0
        if row > len(self._starts):
            return len(self.text)
        return max(self._starts[row - 1], min(self._starts[row - 1] + column - 1, self._contents[row - 1]))

    def line_text(self, row: int) -> str:
        """Return a line, counted from one, without its line break."""
        return self.text[self._starts[row - 1] : self._contents[row - 1]]

    def to_units(self, row: int, column: int, encoding: Units) -> int:
        """Return a column as a number of code units counted from zero, as editors send it."""
        before = self.line_text(row)[: max(0, column - 1)]
        return _length(before, encoding)

    def from_units(self, row0: int, units: int, encoding: Units) -> int:
        """Return the offset of a row and a column in code units, both from zero and clamped to the text.

        A column inside a character means the start of that character.
        """
        if row0 < 0:
            return 0
        if row0 >= len(self._starts):
            return len(self.text)
        start, end = self._starts[row0], self._contents[row0]
        units = max(0, units)
        line = self.text[start:end]
        if encoding == "utf-32" or line.isascii():
            return min(start + units, end)
        width = _width(encoding)
        for index, character in enumerate(line):
            units -= width(character)
            if units < 0:
                return start + index
        return end


def _utf8_width(character: str) -> int:
    code = ord(character)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def _utf16_width(character: str) -> int:
    return 2 if character > "\uffff" else 1


def _width(encoding: Units) -> Callable[[str], int]:
    return _utf8_width if encoding == "utf-8" else _utf16_width


def _length(text: str, encoding: Units) -> int:
    if encoding == "utf-32" or text.isascii():
        return len(text)
    return sum(map(_width(encoding), text))


def apply(text: str, edits: Iterable[Edit]) -> str:
    """A text of one segment with edits made; their places count in the text as it is."""
    parts = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if edit.span.start < position:
            raise ValueError("edits that overlap")
        parts += [text[position : edit.span.start], edit.content]
        position = edit.span.end
    return "".join(parts) + text[position:]


def read_source(path: str, encoding: str | None = None) -> Source:
    """Read a file, with the encoding that Python itself would use for its own if none is given."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SourceError(f"cannot be read: {_one_line(reason)}") from error
    return decode(path, data, encoding)


def decode(path: str, data: bytes, encoding: str | None = None) -> Source:
    """Make a source of a file's bytes."""
    bom = data.startswith(_BOM)
    if encoding is None:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError as error:
            raise SourceError(f"cannot be decoded: {_one_line(str(error))}") from error
    if bom:
        data, encoding = data[len(_BOM) :], "utf-8"
    try:
        text = data.decode(encoding)
        same = encoding == "utf-8" or text.encode(encoding) == data
    except (UnicodeError, LookupError, ValueError) as error:
        raise SourceError(f"cannot be decoded: {_one_line(str(error))}") from error
    if not same:
        raise SourceError(f"cannot be decoded: {encoding} does not give back the same bytes")
    return Source(path, (Segment(text),), encoding, bom)


def encode(source: Source) -> bytes:
    """Return the bytes of a source of one segment, as they stood in its file."""
    try:
        return (_BOM if source.bom else b"") + source.text.encode(source.encoding)
    except (UnicodeError, LookupError) as error:
        raise SourceError(f"cannot be encoded: {_one_line(str(error))}") from error


def _one_line(message: str) -> str:
    return " ".join(message.split())
