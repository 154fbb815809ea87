"""Triage: which files can matter, and by which of their names, told from their text before any of them is parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from qlsp.analysis.program import LIBRARIES, ModuleModel
from qlsp.syntax.parse import Unit

MARKERS = ("quant", "Quant")
"""A chunk without any of these holds no stub, no qconfig and no prepare call of its own."""

WORD = re.compile(r"[^\W\d]\w*")


def relevant(loaded: Mapping[str, ModuleModel]) -> dict[str, frozenset[str]]:
    """The marked files, and those that use one of their marked names, directly or through others; each with its
    names that lead to quantization."""
    files = [_File(module, _words_of(module)) for module in loaded.values()]
    names = _Names()
    pending = [file for file in files if file.matters]
    while pending:
        grown: set[str] = set()
        for file in pending:
            file.spread(names)
            grown |= names.add(file.module, file.leads)
        pending = [file for file in files if not file.words.isdisjoint(grown)]
    return {file.module.path: frozenset(file.leads) for file in files if file.matters}


@dataclass
class _Names:
    """Names that lead to quantization: by module, and by every package that the module is in."""

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
        parts = module.name.split(".")
        for length in range(1, len(parts) + 1):
            self.inside.setdefault(".".join(parts[:length]), set()).update(added)
        self.every |= added
        return added


class _File:
    """A file, and what is known of it so far: ``leads`` are its names that lead to quantization."""

    def __init__(self, module: ModuleModel, words: frozenset[str]) -> None:
        self.module = module
        self.words = words
        self.matters = any(_marked(segment.text) for segment in module.syntax.source.segments)
        self.leads: set[str] = set()
        self._rest = [unit for unit in module.syntax.units if not _is_import(unit)]

    def spread(self, names: _Names) -> None:
        """From the names of other files to those that this one binds by means of them."""
        aliases: dict[str, set[str]] = {}
        for name, target in self.module.imports.items():
            parent, _, last = target.rpartition(".")
            if _marked(target) or last in names.of.get(parent, ()):
                self.leads.add(name)
            elif target in names.inside:
                aliases[name] = names.inside[target]
        for star in self.module.stars:
            self.leads |= names.of.get(star, set())
        while True:
            led = [unit for unit in self._rest if self._is_led(unit, aliases, names.every)]
            if not led:
                return
            self.matters = True
            self._rest = [unit for unit in self._rest if unit not in led]
            for unit in led:
                self.leads |= unit.names

    def _is_led(self, unit: Unit, aliases: Mapping[str, set[str]], every: set[str]) -> bool:
        text = unit.text
        if _marked(text):
            return True
        words = _words(text)
        if not words.isdisjoint(self.leads):
            return True
        if "import" in words and not words.isdisjoint(every):
            return True
        return any(alias in words and not words.isdisjoint(names) for alias, names in aliases.items())


def _marked(text: str) -> bool:
    return any(marker in text for marker in MARKERS)


def _is_import(unit: Unit) -> bool:
    return unit.kind == "statement" and unit.text.lstrip().startswith(("import ", "from "))


def _words_of(module: ModuleModel) -> frozenset[str]:
    return frozenset().union(*(_words(segment.text) for segment in module.syntax.source.segments))


@lru_cache(maxsize=1 << 15)
def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text))
