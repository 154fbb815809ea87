"""Triage: which files can matter, and by which of their names, told from their text before any of them is parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from qlsp.analysis.program import LIBRARIES, ModuleModel
from qlsp.backends.spec import Backend
from qlsp.syntax.parse import Unit

MARKERS = ("quant", "Quant")
"""A chunk without any of these holds no stub, no qconfig and no prepare call of its own."""

IMPORTED = re.compile(r"(?:^|[:;])[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b\s*(\([^)]*\)|[^\n#;]*)", re.MULTILINE)

Test = Callable[[str], bool]
"""Is a text about quantization?"""

Target = Callable[[str, str], bool]
"""Is a qualified name, as a file imports it, about quantization?"""

Find = Callable[[str, str], object]
"""The module of a dotted name as seen from a file, None if there is none."""

Locate = Callable[[str, str], str | None]
"""The file of a module as seen from another file; it is not read."""

WORD = re.compile(r"[^\W\d]\w*")


def relevant(
    loaded: Mapping[str, ModuleModel],
    backends: Collection[Backend],
    find: Find = lambda name, importer: None,
    locate: Locate = lambda name, importer: None,
) -> dict[str, frozenset[str]]:
    """The files that name quantization, and those that use one of their names for it, directly or through others;
    each with its names that lead to quantization as the tables know it. ``find`` finds modules that are not loaded."""
    files = [_File(module, _words_of(module), locate) for module in loaded.values()]
    _follow(files, [file for file in files if file.matters], _marked, lambda name, importer: _marked(name))
    tops = {module.name.partition(".")[0] for module in loaded.values()} | LIBRARIES
    patterns = [backend.telling for backend in backends]

    @cache
    def tells(text: str) -> bool:
        return any(pattern.search(text) for pattern in patterns)

    def is_target(name: str, importer: str) -> bool:
        if tells(name):
            return True
        parts = name.split(".")
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return _marked(name) and parts[0] not in tops and any(find(prefix, importer) for prefix in prefixes)

    known = [_File(file.module, file.words, locate) for file in files if file.matters]
    _follow(known, known, tells, is_target)
    return {file.module.path: frozenset(file.leads) for file in known}


def _follow(files: Sequence[_File], pending: Sequence[_File], tells: Test, is_target: Target) -> None:
    """Follow names from the chunks whose text, and the imports whose target, is about quantization."""
    names = _Names()
    while pending:
        grown: set[str] = set()
        for file in pending:
            file.spread(names, tells, is_target)
            grown |= names.add(file.module, file.leads)
        pending = [file for file in files if not file.words.isdisjoint(grown)]


@dataclass
class _Names:
    """Names that lead to quantization: by the path and the last name of their module, by module, and by every package
    that the module is in."""

    at: dict[str, set[str]] = field(default_factory=dict)
    stems: set[str] = field(default_factory=set)
    of: dict[str, set[str]] = field(default_factory=dict)
    inside: dict[str, set[str]] = field(default_factory=dict)
    every: set[str] = field(default_factory=set)

    def add(self, module: ModuleModel, leads: set[str]) -> set[str]:
        """Note the names of a module; those that are new. Files of a library that the tables describe are never
        looked up by name."""
        if module.name.partition(".")[0] in LIBRARIES:
            return set()
        known = self.of.setdefault(module.name, set())
        added = leads - known
        known |= added
        self.at.setdefault(module.path, set()).update(leads)
        self.stems.add(module.name.rpartition(".")[2])
        parts = module.name.split(".")
        for length in range(1, len(parts) + 1):
            self.inside.setdefault(".".join(parts[:length]), set()).update(added)
        self.every |= added
        return added


class _File:
    """A file, and what is known of it so far: ``leads`` are its names that lead to quantization."""

    def __init__(self, module: ModuleModel, words: frozenset[str], locate: Locate) -> None:
        self.module = module
        self._locate = cache(lambda name: locate(name, module.path))
        self.words = words
        self.matters = any(_marked(segment.text) for segment in module.syntax.source.segments)
        self.leads: set[str] = set()
        self._rest = [unit for unit in module.syntax.units if not _is_import(unit)]

    def spread(self, names: _Names, tells: Test, is_target: Target) -> None:
        """From the names of other files to those that this one binds by means of them."""
        aliases: dict[str, set[str]] = {}
        for name, target in self.module.imports.items():
            parent, _, last = target.rpartition(".")
            known = last in names.of.get(parent, ()) or self._has(parent, last, names)
            if known or is_target(target, self.module.path):
                self.leads.add(name)
            elif target in names.inside:
                aliases[name] = names.inside[target]
            elif last in names.stems and (path := self._locate(target)) in names.at:
                aliases[name] = names.at[str(path)]
        for star in self.module.stars:
            self.leads |= names.of.get(star, set())
            if star.rpartition(".")[2] in names.stems:
                self.leads |= names.at.get(self._locate(star) or "", set())
        if any(is_target(star, self.module.path) for star in self.module.stars):
            tells = _marked
        while True:
            led = [unit for unit in self._rest if self._is_led(unit, aliases, names.every, tells)]
            if not led:
                return
            self.matters = True
            self._rest = [unit for unit in self._rest if unit not in led]
            for unit in led:
                self.leads |= unit.names

    def _has(self, parent: str, name: str, names: _Names) -> bool:
        """Does a module, which may be called otherwise from here, have a name that leads to quantization?"""
        return bool(parent) and name in names.every and name in names.at.get(self._locate(parent) or "", ())

    def _is_led(self, unit: Unit, aliases: Mapping[str, set[str]], every: set[str], tells: Test) -> bool:
        text = unit.text
        if tells(text):
            return True
        words = _words(text)
        if not words.isdisjoint(self.leads):
            return True
        if "import" in words and not _imported(text).isdisjoint(every):
            return True
        return any(alias in words and not words.isdisjoint(names) for alias, names in aliases.items())


def _marked(text: str) -> bool:
    return any(marker in text for marker in MARKERS)


def _is_import(unit: Unit) -> bool:
    return unit.kind == "statement" and unit.text.lstrip().startswith(("import ", "from "))


@lru_cache(maxsize=1 << 15)
def _imported(text: str) -> frozenset[str]:
    """The names that import statements in a chunk may bring, also in a function."""
    return frozenset(name for match in IMPORTED.finditer(text) for name in WORD.findall(match[1]))


def _words_of(module: ModuleModel) -> frozenset[str]:
    return frozenset().union(*(_words(segment.text) for segment in module.syntax.source.segments))


@lru_cache(maxsize=1 << 15)
def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text))
