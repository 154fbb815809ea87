"""Files as sources: Python files as they are, notebooks as one program of their code cells.

A notebook is read cell by cell; magics and shell lines become code of the same length that does nothing, so that
places in a cell stay what they are. ``rewritten`` changes nothing of the file but the sources of the changed cells.
The format is that of ``nbformat`` 4 (https://nbformat.readthedocs.io/en/latest/format_description.html).
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qlsp.text import Edit, Segment, Source, SourceError, apply, read_source
from qlsp.text import decode as decode_python

SUFFIX = ".ipynb"


def read(path: str) -> Source:
    """Read a Python file or a notebook; raises ``SourceError``."""
    if not path.endswith(SUFFIX):
        return read_source(path)
    return _notebook(path, read_source(path, "utf-8"))


def decode(path: str, data: bytes) -> Source:
    """Make a source of a file's bytes; raises ``SourceError``."""
    if not path.endswith(SUFFIX):
        return decode_python(path, data)
    return _notebook(path, decode_python(path, data, "utf-8"))


def source_of(path: str, text: str) -> Source:
    """Make a source of a file's text; raises ``SourceError`` if that is not what the path says."""
    plain = Source.from_text(path, text)
    return _notebook(path, plain) if path.endswith(SUFFIX) else plain


def rewritten(source: Source, edits: Iterable[Edit]) -> str:
    """The text of the file after edits, whose places count in the segments of the source as they are."""
    if source.raw is None:
        return apply(source.text, edits)
    by_segment: dict[int, list[Edit]] = {}
    for edit in edits:
        by_segment.setdefault(edit.span.segment, []).append(edit)
    cells = {cell.number: cell for cell in _cells(source.raw)}
    changes = []
    for number, own in by_segment.items():
        segment = source.segments[number]
        assert segment.cell is not None
        cell = cells[segment.cell]
        content = _source_value(source.raw, cell, apply(cell.text, own))
        changes.append((cell.start, cell.end, content))
    parts, position = [], 0
    for start, end, content in sorted(changes):
        parts += [source.raw[position:start], content]
        position = end
    return "".join(parts) + source.raw[position:]


@dataclass(frozen=True, slots=True)
class _Cell:
    """A code cell: its number among all cells (from one), and where the value of ``source`` stands in the file."""

    number: int
    text: str
    start: int
    end: int


def _notebook(path: str, plain: Source) -> Source:
    raw = plain.text
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"is no notebook: {' '.join(str(error).split())}") from error
    if not isinstance(record, dict) or not isinstance(record.get("cells"), list):
        raise SourceError("is no notebook of format 4: it has no list of cells")
    if not all(map(_is_cell, record["cells"])):
        raise SourceError("is no notebook: a cell is not what it should be")
    cells = _cells(raw) if _is_python(record) else ()
    segments = [Segment(text, cell.number) for cell in cells if (text := _python(cell.text)) is not None]
    return Source(path, tuple(segments) or (Segment(""),), plain.encoding, plain.bom, raw)


def _is_cell(item: object) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("cell_type"), str):
        return False
    source = item.get("source")
    return isinstance(source, str) or isinstance(source, list) and all(isinstance(line, str) for line in source)


def _is_python(record: Mapping[str, Any]) -> bool:
    """Is the language that the notebook names Python? One that names none is taken to be."""
    metadata = record.get("metadata")
    if not isinstance(metadata, dict):
        return True
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        entry = metadata.get(table)
        if isinstance(entry, dict) and key in entry:
            return str(entry[key]).lower() in ("python", "ipython", "python3")
    return True


# --- the file ---------------------------------------------------------------------------------------------------------

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def _cells(raw: str) -> Iterator[_Cell]:
    """The code cells of a text that is JSON."""
    top = dict(_members(raw, _skip(raw, 0)))
    for number, (start, _) in enumerate(_items(raw, top["cells"][0]), 1):
        places = dict(_members(raw, start))
        kind, _ = _DECODER.raw_decode(raw, places["cell_type"][0])
        if kind == "code":
            begin, end = places["source"]
            value, _ = _DECODER.raw_decode(raw, begin)
            yield _Cell(number, value if isinstance(value, str) else "".join(value), begin, end)


def _members(raw: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Key and place of the value of each member of an object."""
    position = _skip(raw, start + 1)
    while raw[position] != "}":
        key, position = _DECODER.raw_decode(raw, position)
        begin = _skip(raw, _skip(raw, position) + 1)
        _, end = _DECODER.raw_decode(raw, begin)
        yield key, (begin, end)
        position = _skip(raw, end)
        position = _skip(raw, position + 1) if raw[position] == "," else position


def _items(raw: str, start: int) -> Iterator[tuple[int, int]]:
    """The places of the items of an array."""
    position = _skip(raw, start + 1)
    while raw[position] != "]":
        _, end = _DECODER.raw_decode(raw, position)
        yield position, end
        position = _skip(raw, end)
        position = _skip(raw, position + 1) if raw[position] == "," else position


def _skip(raw: str, position: int) -> int:
    match = _BLANK.match(raw, position)
    assert match is not None
    return match.end()


_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")


def _source_value(raw: str, cell: _Cell, text: str) -> str:
    """A new value of ``source``, written as the old one was: one string, or an array with a string for each line."""
    old = raw[cell.start : cell.end]
    ascii_only = old.isascii() and "\\u" in old
    if not old.startswith("["):
        return json.dumps(text, ensure_ascii=ascii_only)
    lines = [json.dumps(line, ensure_ascii=ascii_only) for line in _LINE.findall(text)]
    if not lines:
        return "[]"
    places = list(_items(raw, cell.start))
    before = raw[cell.start + 1 : places[0][0]] if places else ""
    after = raw[places[-1][1] : cell.end - 1] if places else ""
    between = raw[places[0][1] : places[1][0]] if len(places) > 1 else f",{before or ' '}"
    return f"[{before}{between.join(lines)}{after}]"


# --- magics -----------------------------------------------------------------------------------------------------------

_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_PYTHON_CELLS = ("capture", "prun", "time", "timeit")
"""Cell magics whose cell is Python."""
_MAGIC = re.compile(r"[ \t]*(?:[%!]|\?{1,2}\w|[\w.]+\?{1,2}[ \t]*$)")
_ASSIGNED = re.compile(r"[ \t]*[\w., \t]+=[ \t]*(?=[%!])")


def _python(text: str) -> str | None:
    """A cell with code that does nothing in place of its magics; None if it is not Python at all."""
    cell_magic = _CELL_MAGIC.match(text)
    if cell_magic is not None and cell_magic[1] not in _PYTHON_CELLS:
        return None
    if cell_magic is None and _parses(text):
        return text
    done = ""
    continued = False
    for line in _LINE.findall(text):
        if continued or _begins_statement(done):
            continued, line = _without_magic(line, continued)
        done += line
    return done


def _without_magic(line: str, continued: bool) -> tuple[bool, str]:
    """A line without its magic, and whether the next one belongs to the magic."""
    body, end = (line[:-1], "\n") if line.endswith("\n") else (line, "")
    assigned = _ASSIGNED.match(body)
    start = assigned.end() if assigned is not None else len(body) - len(body.lstrip(" \t"))
    if not (continued or assigned is not None or _MAGIC.match(body)):
        return False, line
    code = body[start:]
    nothing = "0" if assigned is not None else "pass"
    masked = f"{nothing}#{code[len(nothing) + 1 :]}" if len(code) > len(nothing) else "#" + code[1:]
    if len(code) == len(nothing):
        masked = nothing
    if continued and not code:
        masked = ""
    return code.endswith("\\"), body[:start] + masked + end


def _begins_statement(before: str) -> bool:
    """Is what stands before a line complete, so that the line is not part of a string or a bracket?"""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(before).readline):
            pass
    except tokenize.TokenError:
        return False
    except SyntaxError:
        return True
    return not before.rstrip("\n").endswith("\\")


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
