"""Which files a run checks: named files as they are, folders searched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qlsp.config import Config, Configs, excluded

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


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
            files = list(_walk(path, configs, found))
            if not files and not found.failed:
                found.complaints.append(f"{path}: no Python files")
        elif path.endswith(".ipynb"):
            found.fail(f"{path}: notebooks are not supported")
            continue
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


def _walk(folder: str, configs: Configs, found: Collection) -> Iterator[str]:
    """Regular ``*.py`` files below a folder, sorted; links to folders are not followed, so no loop occurs."""

    def unreadable(error: OSError) -> None:
        found.fail(f"{error.filename}: {error.strerror}")

    ignored = GitIgnores(folder)
    for parent, folders, files in os.walk(folder, onerror=unreadable):
        config = configs.of(parent)
        folders[:] = sorted(name for name in folders if not _skipped(parent, name, config, ignored, folder=True))
        for name in sorted(files):
            path = os.path.normpath(os.path.join(parent, name))
            if name.endswith(".py") and os.path.isfile(path) and not _skipped(parent, name, config, ignored):
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
        self._specs: dict[str, GitIgnoreSpec | None] = {}
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
        return self._ignores(os.path.join(os.path.realpath(parent), name), folder)

    def _ignores(self, path: str, folder: bool) -> bool:
        above = os.path.dirname(path)
        while True:
            spec = self._spec(above)
            if spec is not None:
                relative = os.path.relpath(path, above).replace(os.sep, "/")
                answer = spec.check_file(f"{relative}/" if folder else relative).include
                if answer is not None:
                    return answer
            if above == self._root or os.path.dirname(above) == above:
                return False
            above = os.path.dirname(above)

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            lines = _lines(os.path.join(folder, ".gitignore"))
            if folder == self._root:
                lines = [*_lines(os.path.join(folder, ".git", "info", "exclude")), *lines]
            self._specs[folder] = _compiled(lines)
        return self._specs[folder]


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _compiled(lines: list[str]) -> GitIgnoreSpec | None:
    """The patterns of a file; one that git would not understand either is left out."""
    if not any(line.strip() and not line.startswith("#") for line in lines):
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        good = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except ValueError:
                continue
            good.append(line)
        return GitIgnoreSpec.from_lines(good)
