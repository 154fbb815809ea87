"""What reports share: rows and columns of places, and widths in a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from qlsp.text import LineIndex, Place, Source


@dataclass(frozen=True, slots=True)
class Location:
    """A place as people read it: rows and columns from one, columns in code points."""

    row: int
    column: int
    end_row: int
    end_column: int
    cell: int | None


@dataclass(slots=True)
class Locator:
    """Turns places into rows and columns. A file without a source (it could not be read) is at its start."""

    sources: Mapping[str, Source]
    _indexes: dict[tuple[str, int], LineIndex] = field(default_factory=dict)

    def index(self, place: Place) -> LineIndex | None:
        """The lines of the place's file or cell, None where there is no text."""
        source = self.sources.get(place.path)
        if source is None:
            return None
        key = (place.path, place.span.segment)
        if key not in self._indexes:
            self._indexes[key] = LineIndex(source.segments[place.span.segment].text)
        return self._indexes[key]

    def locate(self, place: Place) -> Location:
        """Rows and columns of a place."""
        index = self.index(place)
        if index is None:
            return Location(1, 1, 1, 1, None)
        cell = self.sources[place.path].segments[place.span.segment].cell
        return Location(*index.position(place.span.start), *index.position(place.span.end), cell)

    def name(self, place: Place) -> str:
        """``path:row:column``, with the cell of a notebook."""
        at = self.locate(place)
        cell = f"cell {at.cell}:" if at.cell is not None else ""
        return f"{place.path}:{cell}{at.row}:{at.column}"


def character_width(character: str) -> int:
    """Columns a character takes in a terminal."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def display_width(text: str) -> int:
    """Columns a text without tabs and control characters takes in a terminal."""
    return sum(map(character_width, text))
