"""What a file imports and which of its names use which others, told from its text: cheap, and never too little.

Nothing is parsed. An import or a word in a string counts as well: who asks reads the file afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property

_IMPORTED = re.compile(r"import\b[ \t]*(\([^)]*\)|[^\n;#(]*)")
_BEFORE = re.compile(r"(?:.*[;:])?[ \t]*(?:(from)[ \t]*(\.*[ \t]*[\w.]*)[ \t]*)?\Z")
_LITERAL = re.compile(r"import_(?:module|_)\(\s*[\"'](\.*\w[\w.]*)[\"']")
_ALIAS = re.compile(r"([\w.]+|\*)(?:\s+as\s+(\w+))?\Z")
_PROSE = re.compile(r"(\"{3}|'{3}).*?\1|#[^\n]*", re.DOTALL)
_CHUNK = re.compile(
    r"\n(?:(?:async[ \t]+)?(?:def|class)[ \t]+(?P<defined>\w+)|(?P<assigned>\w+)[ \t]*(?::[^=\n]+)?=(?!=)"
    r"|(?:if|for|while|with|try|from|import)\b|@)"
)
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Import:
    """An import: the module with its leading dots, and pairs of a name of it and what that is bound to; no pairs for
    ``import module``, which binds ``alias`` if it has one. A star is a name. ``literal``: a string names the module."""

    module: str
    names: tuple[tuple[str, str], ...] = ()
    alias: str | None = None
    literal: bool = False


@dataclass(frozen=True)
class Chunk:
    """A top-level statement: the name it defines, and its text."""

    name: str | None
    text: str

    @property
    def is_import(self) -> bool:
        """Is it nothing but an import?"""
        return self.text.startswith(("from ", "import "))

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its text."""
        return frozenset(_WORD.findall(self.text))


@dataclass(frozen=True, slots=True)
class Outline:
    """The imports and the top-level statements of a file."""

    imports: tuple[Import, ...]
    chunks: tuple[Chunk, ...]

    @property
    def names(self) -> frozenset[str]:
        """The functions, classes and variables that the file defines."""
        return frozenset(chunk.name for chunk in self.chunks if chunk.name is not None)

    def led(self, use: Use, marked: Callable[[str], bool] = lambda text: False) -> tuple[set[str], set[int]]:
        """The names of the file that lead to a use, or whose text is marked, directly or through each other; and the
        numbers of the statements that do, imports apart."""
        found, users = set(use.names), set[int]()
        rest = [number for number, chunk in enumerate(self.chunks) if not chunk.is_import]
        while True:
            new = [each for each in rest if use.meets(chunk := self.chunks[each], found) or marked(chunk.text)]
            if not new:
                return found, users
            users.update(new)
            found.update(name for each in new if (name := self.chunks[each].name) is not None)
            rest = [number for number in rest if number not in users]


@dataclass(slots=True)
class Use:
    """What a file takes of others: names, and modules with the names in them that count. ``passed`` are those that
    other files get through it."""

    names: set[str] = field(default_factory=set)
    modules: dict[str, set[str]] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.names or self.modules)

    def meets(self, chunk: Chunk, names: Collection[str]) -> bool:
        """Does a statement use one of the names, or a name of one of the modules?"""
        words = chunk.words
        return not words.isdisjoint(names) or any(
            module in words and not words.isdisjoint(inside) for module, inside in self.modules.items()
        )


def outline(text: str) -> Outline:
    """The outline of a text, without its comments and docstrings."""
    text = _PROSE.sub("", text)
    return Outline(tuple(_imports(text)), tuple(_chunks(text)))


def _imports(text: str) -> list[Import]:
    text = text.replace("\\\r\n", " ").replace("\\\n", " ")
    found = [Import(match[1], literal=True) for match in _LITERAL.finditer(text)]
    for match in _IMPORTED.finditer(text):
        before = _BEFORE.match(text, text.rfind("\n", 0, match.start()) + 1, match.start())
        if before is None:
            continue
        names = match[1].strip("() \t\r\n")
        pairs = [pair for each in names.split(",") if (pair := _ALIAS.match(each.strip())) is not None]
        if before[1] is None:
            found.extend(Import(pair[1], (), pair[2]) for pair in pairs)
        elif (module := "".join(before[2].split())) and pairs:
            found.append(Import(module, tuple((pair[1], pair[2] or pair[1]) for pair in pairs)))
    return found


def _chunks(text: str) -> list[Chunk]:
    """Statements that define nothing belong to the definition before them: it may go on in them."""
    text = "\n" + text
    starts = list(_CHUNK.finditer(text))
    ends = [*(each.start() for each in starts), len(text)][1:]
    found: list[Chunk] = []
    name: str | None = None
    for match, end in zip(starts, ends, strict=True):
        name = match["defined"] or match["assigned"] or name
        found.append(Chunk(name, text[match.start() + 1 : end]))
    return found
