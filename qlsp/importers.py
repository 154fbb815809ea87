"""Who uses a file: the files of its project that import it, directly or through others.

A root may stand in a file that nobody named and no editor has open. It is found from the bytes of the project's files:
those that do not hold the name of the module and a name of what it defines are not looked at any further. Files are
read once, and again when they change.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from qlsp import discover
from qlsp.config import Config, Configs
from qlsp.layout import package_top, project_root, source_folders
from qlsp.notebook import source_of
from qlsp.outline import Import, Outline, Use, outline
from qlsp.text import SourceError
from qlsp.triage import MARKERS

MAX_FILES = 10_000
"""Files of a project that are read; more make the answer partial."""

MAX_BYTES = 96_000_000
"""Bytes of all of them."""

MAX_FILE = 1_000_000
"""Bytes of one of them: what is longer was generated."""

MAX_IMPORTERS = 12
"""Files that are added to a run, the nearest first; more make the answer partial."""

MAX_TEXT = 100_000
"""Bytes of the files that are added."""

MAX_USERS = 200
"""Files that use those of a run and are followed to others; more make the answer partial."""

MAX_TARGETS = 40
"""Files of a run for which is asked whether files outside make them be about quantization."""

FEW = 8
"""With more modules than this to look for, all imports are read at once."""

PACKAGE = "__init__.py"


@dataclass(frozen=True, slots=True)
class Importers:
    """The files that use those of a run. ``leads``: the names of each that lead to those of the run. ``paths`` are the
    files in which such a name and quantization meet, so that they may hold roots. ``quantizing``: the names of those
    files, and of the run, that lead to quantization in files outside. ``partial``: there are more, or some were not
    read."""

    paths: tuple[str, ...] = ()
    leads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    quantizing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    partial: bool = False


@dataclass(slots=True)
class _File:
    """A file of a project: its bytes, and what they say, on demand."""

    path: str
    data: bytes
    signature: tuple[int, int] = (0, 0)
    _outline: Outline | None = None

    @property
    def may_quantize(self) -> bool:
        """May a name of it lead to quantization? Without a mark, only what a package passes on."""
        return self.path.endswith(PACKAGE) or any(marker.encode() in self.data for marker in MARKERS)

    @property
    def outline(self) -> Outline:
        """Its imports and definitions; none if it is no Python."""
        if self._outline is None:
            text = self.data.decode("utf-8", "replace")
            if self.path.endswith(".ipynb"):
                try:
                    text = "\n".join(segment.text for segment in source_of(self.path, text).segments)
                except SourceError:
                    text = ""
            self._outline = outline(text)
        return self._outline


@dataclass(slots=True)
class _Project:
    """The files below the root of a project."""

    root: str
    files: dict[str, _File] = field(default_factory=dict)
    partial: bool = False
    read: int | None = None

    def refresh(self, configs: Configs, state: int) -> None:
        """Look at the folders again if the state of the disk is another one; changed files are read again."""
        if self.read == state:
            return
        self.read, self.partial = state, False
        files: dict[str, _File] = {}
        size = 0
        for path in discover.walk(self.root, configs, discover.Collection()):
            if len(files) == MAX_FILES or size > MAX_BYTES:
                self.partial = True
                break
            found = self._entry(path)
            if found is not None:
                files[path] = found
                size += len(found.data)
        self.files = files

    def _entry(self, path: str) -> _File | None:
        try:
            about = os.stat(path)
            signature = (about.st_mtime_ns, about.st_size)
            known = self.files.get(path)
            if known is not None and known.signature == signature:
                return known
            if about.st_size > MAX_FILE:
                return None
            with open(path, "rb") as file:
                return _File(path, file.read(), signature)
        except OSError:
            return None


class ImportIndex:
    """Answers who imports a file. One index may serve many runs; ``state`` is a number of the state of the disk, and
    while it stays the same, no folder is looked at again."""

    def __init__(self) -> None:
        self._projects: dict[str, _Project] = {}
        self._given: dict[str, _File] = {}

    def around(
        self, paths: Sequence[str], configs: Configs, texts: Mapping[str, str] | None = None, state: int = 0
    ) -> Importers:
        """The files that use those of a run and are not among them. ``texts`` are newer than the disk."""
        given = {os.path.abspath(path): text for path, text in (texts or {}).items()}
        by_root: dict[str, list[str]] = {}
        for path in paths:
            root = project_root(path, configs.of(path))
            if root is not None and "site-packages" not in path.split(os.sep):
                by_root.setdefault(os.path.abspath(root), []).append(os.path.abspath(path))
        self._projects = {root: self._projects.get(root) or _Project(root) for root in by_root}
        found: list[str] = []
        leads: dict[str, set[str]] = {}
        quantizing: dict[str, set[str]] = {}
        partial = False
        for root, targets in by_root.items():
            project = self._projects[root]
            project.refresh(configs, state)
            files = {**project.files, **self._overlay(given, root)}
            search = _Search(files, configs)
            reached = search.users(targets)
            roots = search.roots(reached, targets)
            few = _affordable([files[path] for path in roots])
            found.extend(few)
            leads.update(reached)
            partial = partial or project.partial or search.cut or len(few) < len(roots)
            quantizing.update(search.quantizing([*targets[:MAX_TARGETS], *found]))
        spell = os.path.relpath if not all(map(os.path.isabs, paths)) else str
        spelled, also = (
            {spell(path): frozenset(names) for path, names in each.items()} for each in (leads, quantizing)
        )
        return Importers(tuple(map(spell, found)), spelled, also, partial)

    def _overlay(self, texts: Mapping[str, str], root: str) -> Mapping[str, _File]:
        """The files whose text is given, as far as they stand in a project."""
        inside = {path: text for path, text in texts.items() if path.startswith(os.path.join(root, ""))}
        for path, text in inside.items():
            data = text.encode("utf-8", "replace")
            known = self._given.get(path)
            if known is None or known.data != data:
                self._given[path] = _File(path, data)
        self._given = {path: file for path, file in self._given.items() if path in texts}
        return {path: self._given[path] for path in inside}


@dataclass(frozen=True, slots=True)
class _Edge:
    """A file that is imported: the names taken of it, with what they are bound to, or None for the module itself, which
    ``alias`` stands for (None: all of its names are taken)."""

    path: str
    names: tuple[tuple[str, str], ...] | None
    alias: str | None = None
    renamed: bool = False


class _Search:
    """One search from files to those that use them. ``cut``: it was given up."""

    def __init__(self, files: Mapping[str, _File], configs: Configs) -> None:
        self.files, self.configs = files, configs
        self.cut = False
        self._tops: dict[str, str] = {}
        self._resolved: dict[str, list[_Edge]] = {}
        self._chunks: dict[str, set[int]] = {}
        self._quantizing: dict[str, tuple[set[str], set[int]]] = {}
        self._linked: set[str] = set()

    def users(self, targets: Collection[str]) -> dict[str, set[str]]:
        """The files that use a name of the targets, directly or through others, each with its names that lead there."""
        if self.files.keys() <= set(targets):
            return {}
        wanted = {path: set(file.outline.names) for path in targets if (file := self.files.get(path)) is not None}
        leads = {path: set(names) for path, names in wanted.items()}
        while wanted and not self.cut:
            grown: dict[str, set[str]] = {}
            for file in self._candidates(wanted):
                use = self._use(file, wanted)
                if use:
                    known = leads.setdefault(file.path, set())
                    led, chunks = file.outline.led(use)
                    if chunks:
                        self._chunks.setdefault(file.path, set()).update(chunks)
                    new = {*led, *use.passed} - known
                    if new:
                        known |= new
                        grown[file.path] = new
            wanted = grown
            self.cut = len(leads.keys() - set(targets)) > MAX_USERS
        return {path: names for path, names in leads.items() if names}

    def roots(self, reached: Mapping[str, Collection[str]], targets: Collection[str]) -> list[str]:
        """The files in which a statement that leads to the targets is about quantization."""
        self._linked = {*reached, *targets}
        others = (path for path in reached if path not in targets)
        return [path for path in others if self._chunks.get(path, set()) & self._quantization(path)[1]]

    def quantizing(self, paths: Iterable[str]) -> dict[str, set[str]]:
        """The names that lead to quantization of the files that have a statement which does."""
        found = {path: self._quantization(path) for path in paths if path in self.files}
        return {path: names for path, (names, chunks) in found.items() if chunks}

    def _quantization(self, path: str) -> tuple[set[str], set[int]]:
        """The names and statements of a file that lead to quantization, those of the files it imports counted."""
        if path not in self._quantizing:
            self._quantizing[path] = set(), set()
            file = self.files[path]
            inside: dict[str, Collection[str]] = {}
            for edge in self._edges(file):
                if edge.path != path and (edge.path in self._linked or self.files[edge.path].may_quantize):
                    inside[edge.path] = self._quantization(edge.path)[0]
            use = self._use(file, inside)
            use.names.update(alias for each in file.outline.imports for alias in _marked_names(each))
            names, chunks = file.outline.led(use, _marked)
            self._quantizing[path] = {*names, *use.passed}, chunks
        return self._quantizing[path]

    def _candidates(self, wanted: Mapping[str, Collection[str]]) -> Iterator[_File]:
        """The files whose bytes name one of the modules and one of the names."""
        gates = [(_gate(path), [name.encode() for name in names]) for path, names in wanted.items() if names]
        for file in list(self.files.values()):
            if len(gates) > FEW or any(
                gate in file.data and any(name in file.data for name in names) for gate, names in gates
            ):
                yield file

    def _use(self, file: _File, wanted: Mapping[str, Collection[str]]) -> Use:
        """What a file takes of the names that are wanted of other files."""
        use = Use()
        for edge in self._edges(file):
            names = wanted.get(edge.path) if edge.path != file.path else None
            if not names:
                continue
            if edge.names is not None:
                use.names.update(alias for name, alias in edge.names if name in names)
            elif edge.alias is None:
                use.names.update(names)
            else:
                use.modules.setdefault(edge.alias, set()).update(names)
                use.passed.update([edge.alias] if edge.renamed else names)
        return use

    def _edges(self, file: _File) -> list[_Edge]:
        """The files that the imports of a file may mean."""
        if file.path not in self._resolved:
            edges = (self._targets(each, file.path) for each in file.outline.imports)
            self._resolved[file.path] = [edge for found in edges for edge in found]
        return self._resolved[file.path]

    def _targets(self, imported: Import, importer: str) -> Iterator[_Edge]:
        module = imported.module.lstrip(".")
        dots = len(imported.module) - len(module)
        folder = os.path.dirname(importer)
        if dots:
            folders: Iterable[str] = (_up(folder, dots - 1),)
        else:
            folders = dict.fromkeys((self._top(importer), folder, *self._sources(importer)))
        relative = module.replace(".", os.sep)
        star = any(name == "*" for name, _ in imported.names)
        alias = imported.alias or (None if dots or imported.literal else module.partition(".")[0])
        for start in folders:
            base = os.path.join(start, relative) if relative else start
            modules = []
            for name, bound in () if star else imported.names:
                inner = os.path.join(base, name)
                for path in (f"{inner}.py", os.path.join(inner, PACKAGE)):
                    if path in self.files:
                        modules.append(name)
                        yield _Edge(path, None, bound, bound != name)
            names = tuple(pair for pair in imported.names if pair[0] not in modules)
            for path in (f"{base}.py", os.path.join(base, PACKAGE)):
                if path in self.files and (star or names or not imported.names):
                    yield _Edge(path, names if names and not star else None, None if star else alias)

    def _top(self, path: str) -> str:
        folder = os.path.dirname(path)
        if folder not in self._tops:
            self._tops[folder] = package_top(path)
        return self._tops[folder]

    def _sources(self, path: str) -> tuple[str, ...]:
        config: Config = self.configs.of(path)
        return tuple(map(os.path.abspath, source_folders(path, config)))


def _gate(path: str) -> bytes:
    """What a file that imports this one holds: the last name of the module. A package may be imported as a dot."""
    folder, file = os.path.split(path)
    return b"import" if file == PACKAGE else os.path.splitext(file)[0].encode()


def _affordable(files: Sequence[_File]) -> list[str]:
    """The first files, as many as may be added."""
    sizes = accumulate(len(file.data) for file in files)
    return [file.path for file, size in zip(files[:MAX_IMPORTERS], sizes, strict=False) if size <= MAX_TEXT]


def _marked(text: str) -> bool:
    return any(marker in text for marker in MARKERS)


def _marked_names(imported: Import) -> Iterator[str]:
    """What an import binds that is about quantization by its name."""
    if not imported.names and imported.alias is not None and _marked(imported.module):
        yield imported.alias
    for name, alias in imported.names:
        if _marked(imported.module) or _marked(name):
            yield alias


def _up(folder: str, levels: int) -> str:
    for _ in range(levels):
        folder = os.path.dirname(folder)
    return folder
