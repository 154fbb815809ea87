"""Which files a run checks: named files as they are, folders searched."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from qlsp.config import Config, Configs, excluded

SUFFIXES = (".py", ".ipynb")


@dataclass(slots=True)
class Collection:
    """The files to check, and what to say about the named paths that gave none."""

    paths: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    failed: bool = False

    def fail(self, complaint: str) -> None:
        """A named path that cannot be checked."""
        self.complaints.append(complaint)
        self.failed = True


def collect(named: Iterable[str], configs: Configs) -> Collection:
    """Python files of the named paths, each once: files as they are, folders searched."""
    found = Collection()
    seen: set[str] = set()
    for path in named:
        if os.path.isdir(path):
            files = list(walk(path, configs, found))
            if not files and not found.failed:
                found.complaints.append(f"{path}: no Python files")
        elif os.path.lexists(path):
            files = [path]
            found.named.add(path)
        else:
            found.fail(f"{path}: no such file or folder")
            continue
        for file in files:
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                found.paths.append(file)
    return found


def walk(folder: str, configs: Configs, found: Collection) -> Iterator[str]:
    """Regular Python files and notebooks below a folder, sorted. Links to folders are not followed: no loop occurs."""

    def unreadable(error: OSError) -> None:
        found.fail(f"{error.filename}: {error.strerror}")

    ignored = GitIgnores(folder)
    for parent, folders, files in os.walk(folder, onerror=unreadable):
        config = configs.of(parent)
        folders[:] = sorted(name for name in folders if not _skipped(parent, name, config, ignored, folder=True))
        for name in sorted(files):
            path = os.path.normpath(os.path.join(parent, name))
            if name.endswith(SUFFIXES) and os.path.isfile(path) and not _skipped(parent, name, config, ignored):
                yield path


def _skipped(parent: str, name: str, config: Config, ignored: GitIgnores, *, folder: bool = False) -> bool:
    path = os.path.join(parent, name)
    if name.startswith(".") or excluded(config, path):
        return True
    if folder and os.path.exists(os.path.join(path, "pyvenv.cfg")):
        return True
    return config.respect_gitignore and ignored.names(path, folder)


class GitIgnores:
    """The ``.gitignore`` files that count in a searched folder: its own, those below, and those above it up to
    the root of its repository. A folder that is itself ignored was named on purpose: there, none counts."""

    def __init__(self, folder: str) -> None:
        self._start = os.path.realpath(folder)
        self._patterns: dict[str, list[_Pattern]] = {}
        self._above: dict[str, list[tuple[str, list[_Pattern]]]] = {}
        self._root = self._start
        self._off = False
        above = self._start
        while not os.path.lexists(os.path.join(above, ".git")):
            if os.path.dirname(above) == above:
                return
            above = os.path.dirname(above)
        self._root = above
        while above != self._start and not self._off:
            rest = os.path.relpath(self._start, above).split(os.sep)
            above = os.path.join(above, rest[0])
            self._off = self._ignores(above, True)

    def names(self, path: str, folder: bool) -> bool:
        """Do they name this file or folder itself?"""
        if self._off:
            return False
        parent, name = os.path.split(path)
        if parent not in self._above:
            self._above[parent] = self._counting_in(os.path.realpath(parent))
        return _ignored(name, folder, self._above[parent])

    def _ignores(self, path: str, folder: bool) -> bool:
        parent, name = os.path.split(path)
        return _ignored(name, folder, self._counting_in(parent))

    def _counting_in(self, folder: str) -> list[tuple[str, list[_Pattern]]]:
        """The patterns that count in a folder, nearest first, with the way to it from the folder of their file."""
        found = []
        above, way = folder, ""
        while True:
            if patterns := self._patterns_of(above):
                found.append((way, patterns))
            if above == self._root or os.path.dirname(above) == above:
                return found
            above, last = os.path.split(above)
            way = f"{last}/{way}"

    def _patterns_of(self, folder: str) -> list[_Pattern]:
        if folder not in self._patterns:
            lines = _lines(os.path.join(folder, ".gitignore"))
            if folder == self._root:
                lines = [*_lines(os.path.join(folder, ".git", "info", "exclude")), *lines]
            self._patterns[folder] = [found for line in lines if (found := _pattern(line)) is not None]
        return self._patterns[folder]


def _ignored(name: str, folder: bool, counting: Iterable[tuple[str, list[_Pattern]]]) -> bool:
    for way, patterns in counting:
        for pattern in reversed(patterns):
            if (folder or not pattern.folders_only) and pattern.regex.fullmatch(way + name):
                return not pattern.negated
    return False


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A line of a ``.gitignore``; the expression is about paths from the folder of the file."""

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            return file.read().split("\n")
    except OSError:
        return []


_GLOB = re.compile(
    r"(?P<start>^\*\*/)|(?P<middle>/\*\*(?=/))|(?P<end>/\*\*$)|(?P<star>\*+)|(?P<one>\?)"
    r"|\[(?P<not>[!^]?)(?P<class>\]?[^\]]*)\]|\\(?P<escaped>.)|(?P<plain>[^*?\[\\])"
)


def _pattern(line: str) -> _Pattern | None:
    """Read a line; None for blank lines, comments, and what git would not understand either."""
    line = re.sub(r"(?<!\\) +$", "", line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    regex = "" if anchored else "(?:.*/)?"
    position = 0
    while position < len(line):
        match = _GLOB.match(line, position)
        if match is None:
            return None
        regex += _translated(match)
        position = match.end()
    try:
        return _Pattern(re.compile(regex, re.DOTALL), negated, folders_only)
    except re.error:
        return None


def _translated(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind == "class":
        members = match["class"].replace("\\", "\\\\").replace("[", "\\[")
        if members.startswith("]"):
            members = "\\" + members
        return f"(?!/)[{'^' if match['not'] else ''}{members}]"
    simple = {"start": "(?:.*/)?", "middle": "(?:/.*)?", "end": "/.+", "star": "[^/]*", "one": "[^/]"}
    return simple.get(str(kind)) or re.escape(match["escaped"] or match["plain"])
