"""Test cases written as Markdown pages.

A heading with code below it is a case. ``python`` blocks are its files: the line before a block may name
it (a code span and a colon), an unnamed one is ``test.py``. ``toml`` blocks configure the case and those
under its subheadings. A ``json inputs`` block says how to run class ``Net`` of the case under torch (see
``proofs``).
At the end of a code line

- ``# error: [rule-name]`` expects exactly one finding of this rule and severity on this line
  (``warning`` and ``info`` alike; several may stand on one line), and every finding must be expected;
- ``# revealed: TEXT`` expects what ``reveal_quant(...)`` on this line shows.

An expectation of a rule that does not exist yet is ignored. ``UPDATE_EXPECTED=1`` rewrites revealed texts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from scoring import Found

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).resolve().parent / "cases"
DEFAULT_NAME = "test.py"

_HEADING = re.compile(r"(#{1,6}) +(.+?)\s*$")
_FENCE = re.compile(r"(`{3,})(.*)$")
_FILE_NAME = re.compile(r"`([^`]+)`:\s*$")
_EXPECTED = re.compile(r"# *(error|warning|info): *\[([a-z0-9-]+)\]")
_REVEALED = re.compile(r"\s*# *revealed: *(.*?)\s*$")
_REVEAL_CALL = re.compile(r"\breveal_quant\(")

Check = Callable[[Mapping[str, str], Mapping[str, Any]], Sequence[Found]]
"""Texts by path and a configuration table to findings."""
Reveal = Callable[[Mapping[str, str], Mapping[str, Any]], Sequence[tuple[str, int, str]]]
"""Texts by path and a configuration table to (path, row, revealed text)."""


class MarkdownError(Exception):
    """A page that is not written as this module's docstring says."""


@dataclass(frozen=True)
class CodeFile:
    """One code block; ``row`` is the row of its first line in the page."""

    name: str
    text: str
    row: int

    def expected(self) -> list[tuple[int, str, str]]:
        """(row in the file, severity, rule name) of each expected finding."""
        return [
            (row, match[1], match[2])
            for row, line in enumerate(self.text.split("\n"), 1)
            for match in _EXPECTED.finditer(line)
        ]

    def revealed(self) -> dict[int, str | None]:
        """Row of each ``reveal_quant`` call to the expected text, None where there is none yet."""
        rows: dict[int, str | None] = {}
        for row, line in enumerate(self.text.split("\n"), 1):
            match = _REVEALED.search(line)
            if match is not None:
                rows[row] = match[1]
            elif _REVEAL_CALL.search(line.split("#")[0]):
                rows[row] = None
        return rows


@dataclass(frozen=True)
class Case:
    """One heading's files, configuration and inputs."""

    page: Path
    title: str
    files: tuple[CodeFile, ...]
    config: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """A name for the test report."""
        return f"{self.page.stem}: {self.title}"

    def texts(self) -> dict[str, str]:
        """File names to contents."""
        return {file.name: file.text for file in self.files}


@dataclass
class _Section:
    level: int
    title: str
    config: dict[str, Any]
    files: list[CodeFile] = field(default_factory=list)
    inputs: dict[str, Any] | None = None


def parse(page: Path, text: str) -> list[Case]:
    """The cases of a page."""
    stack = [_Section(0, "", {})]
    cases: list[Case] = []
    lines = text.split("\n")
    name: str | None = None
    index = 0
    while index < len(lines):
        line = lines[index]
        if heading := _HEADING.match(line):
            _close(stack[-1], stack, page, cases)
            while stack[-1].level >= len(heading[1]):
                stack.pop()
            stack.append(_Section(len(heading[1]), heading[2], dict(stack[-1].config)))
            name = None
        elif fence := _FENCE.match(line):
            end = _block_end(lines, index, fence[1], page)
            body = "\n".join(lines[index + 1 : end]) + "\n"
            _add_block(stack[-1], fence[2].strip(), body, name, index + 2, page)
            index, name = end, None
        elif named := _FILE_NAME.search(line):
            name = named[1]
        elif line.strip():
            name = None
        index += 1
    _close(stack[-1], stack, page, cases)
    titles = [case.title for case in cases]
    if twice := {title for title in titles if titles.count(title) > 1}:
        raise MarkdownError(f"{page.name}: two cases are called {sorted(twice)}")
    return cases


def _block_end(lines: list[str], start: int, fence: str, page: Path) -> int:
    for index in range(start + 1, len(lines)):
        if lines[index].rstrip() == fence:
            return index
    raise MarkdownError(f"{page.name}:{start + 1}: a code block without an end")


def _add_block(section: _Section, kind: str, body: str, name: str | None, row: int, page: Path) -> None:
    if kind == "python":
        name = name or DEFAULT_NAME
        if any(file.name == name for file in section.files):
            raise MarkdownError(f"{page.name}:{row}: a second file {name} under one heading")
        section.files.append(CodeFile(name, body, row))
    elif kind == "toml":
        section.config = _merged(section.config, tomllib.loads(body))
    elif kind == "json inputs":
        section.inputs = json.loads(body)
    elif kind not in ("", "text"):
        raise MarkdownError(f"{page.name}:{row - 1}: a block of kind {kind!r}")


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(before, value) if both else value
    return result


def _close(section: _Section, stack: list[_Section], page: Path, cases: list[Case]) -> None:
    if section.files:
        title = " / ".join(each.title for each in stack[1:])
        cases.append(Case(page, title, tuple(section.files), section.config, section.inputs))


def pages(folder: str) -> list[Path]:
    """The pages of ``cases/<folder>``."""
    return sorted((CASES / folder).glob("*.md"))


def cases_of(folder: str) -> Iterator[Case]:
    """The cases of ``cases/<folder>``."""
    for page in pages(folder):
        yield from parse(page, page.read_text(encoding="utf-8"))


@cache
def expects_findings(page: Path) -> bool:
    """Does some case of a page expect a finding, so that those of all its cases are compared?"""
    return any(file.expected() for case in parse(page, page.read_text(encoding="utf-8")) for file in case.files)


def finding_problems(case: Case, check: Check, built: frozenset[str]) -> list[str]:
    """What differs from the expected findings, one line each; ``built`` names the rules that exist."""
    return list(_finding_problems(case, check, built))


def reveal_problems(case: Case, reveal: Reveal) -> list[str]:
    """What differs from the revealed texts, one line each."""
    return list(_reveal_problems(case, reveal))


def _place(case: Case, name: str, row: int) -> str:
    file = next((file for file in case.files if file.name == name), None)
    if file is None:
        return f"{name}:{row}"
    code = file.text.split("\n")[row - 1].split("  #")[0].strip()
    return f"{case.page.name}:{file.row + row - 1} ({name}:{row}) `{code}`"


def _finding_problems(case: Case, check: Check, built: frozenset[str]) -> Iterator[str]:
    wanted = [
        Found(file.name, row, name, severity)
        for file in case.files
        for row, severity, name in file.expected()
        if name in built
    ]
    rest = list(check(case.texts(), case.config))
    for item in wanted:
        if item in rest:
            rest.remove(item)
        else:
            yield f"missing {item.severity}[{item.name}] at {_place(case, item.path, item.row)}"
    for item in rest:
        yield f"unexpected {item.severity}[{item.name}] at {_place(case, item.path, item.row)}"


def _reveal_problems(case: Case, reveal: Reveal) -> Iterator[str]:
    wanted = {(file.name, row): text for file in case.files for row, text in file.revealed().items()}
    if not wanted:
        return
    shown: dict[tuple[str, int], list[str]] = {}
    for name, row, text in reveal(case.texts(), case.config):
        shown.setdefault((name, row), []).append(text)
    for place, text in wanted.items():
        seen = shown.pop(place, [])
        if text is None:
            yield f"no expectation at {_place(case, *place)}: reveals {' and '.join(seen) or 'nothing'}"
        elif seen != [text]:
            yield f"expected {text}, revealed {' and '.join(seen) or 'nothing'} at {_place(case, *place)}"
    for place, seen in shown.items():
        yield f"unexpected {' and '.join(seen)} at {_place(case, *place)}"


def updated(text: str, cases: Sequence[Case], reveal: Reveal) -> str:
    """The page with what ``reveal`` shows as expectations."""
    lines = text.split("\n")
    for case in cases:
        wanted = {(file.name, row): file for file in case.files for row in file.revealed()}
        if not wanted:
            continue
        for name, row, shown in reveal(case.texts(), case.config):
            file = wanted.get((name, row))
            if file is not None:
                index = file.row + row - 2
                lines[index] = f"{_REVEALED.sub('', lines[index]).rstrip()}  # revealed: {shown}"
    return "\n".join(lines)
