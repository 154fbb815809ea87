"""The worker process: holds syntax trees and analyses, and answers the newest job only."""

from __future__ import annotations

import gc
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from qlsp.config import Config, ConfigError, Configs, Resolver, excluded
from qlsp.diagnostics import Diagnostic
from qlsp.engine import CheckResult, check, pieces, tensors_in, validate
from qlsp.fixing import Applied, choose
from qlsp.importers import ImportIndex
from qlsp.lsp.exchange import (
    LENGTH,
    Checked,
    CheckedFile,
    FixAll,
    FixedAll,
    Hello,
    Job,
    OpenFile,
    RuleInfo,
    Settings,
    TensorMap,
    TensorNote,
    Tensors,
    pack,
    unpack,
)
from qlsp.lsp.retain import Change, edits_between, retained
from qlsp.report.page import as_markdown
from qlsp.rules.api import Rule, all_rules
from qlsp.text import Place, Source, apply

SYNTAX_ERROR = "QL001"
MAX_ROUNDS = 50
_TARGET = re.compile(r"(\w+)[ \t]*=[ \t]*\Z")


def main() -> None:
    """Serve jobs from standard input until it ends."""
    stdin = sys.stdin.buffer
    stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not end up between messages

    def send(message: object) -> None:
        try:
            stdout.write(pack(message))
            stdout.flush()
        except OSError:
            os._exit(0)

    messages: queue.SimpleQueue[object] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(stdin, messages), daemon=True).start()
    send(Hello(tuple(map(_rule_info, all_rules()))))
    gc.freeze()
    worker = Worker(send, lambda: not messages.empty())
    while True:
        match messages.get():
            case Job() as job:
                worker.run(job)
            case FixAll() as request:
                send(worker.fix_all(request))


def _read(stdin: BinaryIO, messages: queue.SimpleQueue[object]) -> None:
    while True:
        header = stdin.read(LENGTH.size)
        body = stdin.read(LENGTH.unpack(header)[0]) if len(header) == LENGTH.size else b""
        if not body:
            os._exit(0)  # the server is gone
        messages.put(unpack(body))


def _rule_info(rule: Rule) -> RuleInfo:
    meta = rule.meta
    return RuleInfo(meta.code, meta.name, meta.preview, as_markdown(meta, rule.page))


@dataclass(frozen=True, slots=True)
class Shown:
    """What the editor shows for a document: a text and the findings in it."""

    text: str
    findings: tuple[Diagnostic, ...]


class OpenConfigs:
    """The configuration of each file, found as the command line finds it, with the editor's settings on top.

    Where it is broken, ``problems`` says so, and the last good one of ``earlier`` goes on.
    """

    def __init__(self, files: Iterable[OpenFile], earlier: dict[str, Config]) -> None:
        self.problems: dict[str, None] = {}
        self._files = {file.path: file for file in files}
        self._earlier = earlier
        self._resolvers: dict[tuple[Settings, str], Resolver | ConfigError] = {}
        self._by_path: dict[str, Config] = {}
        self._rooted: dict[tuple[int, str], Config] = {}

    def of(self, path: str) -> Config:
        """The configuration of a file or a folder."""
        if path not in self._by_path:
            file = self._files.get(path, OpenFile(path, 0, ""))
            try:
                self._by_path[path] = self._earlier[path] = self._read(file)
            except ConfigError as error:
                self.problems.setdefault(str(error).replace("--config ", "setting "))
                self._by_path[path] = self._earlier.get(path) or Config(root=file.folder or ".")
        return self._by_path[path]

    def _read(self, file: OpenFile) -> Config:
        config = self._resolver(file.settings, file.folder or "").of(
            file.path if file.on_disk else file.folder or "."
        )
        if config.root != "." or not file.folder:
            return config
        key = (id(config), file.folder)
        return self._rooted.setdefault(key, replace(config, root=file.folder))

    def _resolver(self, settings: Settings, folder: str) -> Resolver:
        key = (settings, folder)
        if key not in self._resolvers:
            named = settings.configuration
            own = [os.path.join(folder, os.path.expanduser(named))] if named else []
            try:
                self._resolvers[key] = Resolver(False, [*own, *settings.values], check=validate)
            except ConfigError as error:
                self._resolvers[key] = error
        found = self._resolvers[key]
        if isinstance(found, ConfigError):
            raise found
        return found


class Worker:
    """Answers jobs. Remembers what is shown, for the time in which a text does not parse."""

    def __init__(self, send: Callable[[object], None], superseded: Callable[[], bool]) -> None:
        self._send = send
        self._superseded = superseded
        self._shown: dict[str, Shown] = {}
        self._configs: dict[str, Config] = {}
        self._index = ImportIndex()

    def run(self, job: Job) -> None:
        """Send the findings of a job; then, if nothing newer waits, what hovering needs."""
        paths = {file.path for file in job.files}
        self._shown = {path: shown for path, shown in self._shown.items() if path in paths}
        configs = OpenConfigs(job.files, self._configs)
        result = self._check(job.files, configs, job.disk)
        files = tuple(self._answer(file, result, configs) for file in job.files)
        sources = result.sources if result is not None else {}
        elsewhere = _places(finding for file in files for finding in file.findings)
        self._send(Checked(job.number, files, _texts(elsewhere, paths, sources), tuple(configs.problems)))
        if result is not None and not self._superseded():
            maps = tuple(_tensor_map(file, result) for file in job.files)
            built = [note.built for each in maps for note in each.notes if note.built is not None]
            self._send(Tensors(job.number, maps, _texts(built, paths, sources)))

    def fix_all(self, request: FixAll) -> FixedAll:
        """Apply the safe fixes of a document, in rounds, until none is left; a text stays if it would break."""
        files, path = request.files, request.path
        original = text = next(file.text for file in files if file.path == path)
        for _ in range(MAX_ROUNDS):
            result = self._check(files, OpenConfigs(files, self._configs), request.disk)
            chosen = _safe(result, path, OpenConfigs(files, self._configs)) if result is not None else []
            if not chosen:
                break
            fixed = apply(text, (edit for one in chosen for edit in one.fix.edits))
            files = tuple(replace(file, text=fixed) if file.path == path else file for file in files)
            after = self._check(files, OpenConfigs(files, self._configs), request.disk)
            if result is None or after is None or _damage(after, path) > _damage(result, path):
                break
            text = fixed
        return FixedAll(request.number, tuple(edits_between(path, original, text)))

    def _check(self, files: Iterable[OpenFile], configs: OpenConfigs, disk: int) -> CheckResult | None:
        """The one place that lets no exception through."""
        files = tuple(files)
        texts = {file.path: file.text for file in files}
        try:
            paths = [file.path for file in files if file.settings.enable and not _left_out(file, configs)]
            named = [file.path for file in files if file.settings.show_syntax_errors]
            importers = self._index.around(paths, configs, texts, disk)
            return check(paths, configs, texts, named, importers=importers)
        except Exception as error:
            traceback.print_exc()
            message = f"internal error: {type(error).__name__}: {error}; please report it"
            configs.problems.setdefault(message)
            return None

    def _answer(self, file: OpenFile, result: CheckResult | None, configs: OpenConfigs) -> CheckedFile:
        earlier = self._shown.get(file.path, Shown(file.text, ()))
        live: list[Diagnostic] = []
        stale: list[Diagnostic] = []
        if result is not None:
            live = [each for each in result.diagnostics if each.place.path == file.path]
            if not file.settings.show_syntax_errors:
                live = [each for each in live if each.code != SYNTAX_ERROR]
            old = [each for each in earlier.findings if each.code != SYNTAX_ERROR]
            broken = pieces(result.analysis, file.path) if old and file.path in result.analysis.loaded else ()
            if broken:
                stale = retained(old, Change.between(earlier.text, file.text), broken, live)
        findings = tuple(sorted([*live, *stale], key=lambda each: (each.place.span.start, each.code)))
        self._shown[file.path] = Shown(file.text, findings)
        fixable = result is not None and bool(_safe(result, file.path, configs))
        return CheckedFile(file.path, file.version, findings, fixable)


def _safe(result: CheckResult, path: str, configs: Configs) -> list[Applied]:
    """The safe fixes of a file that change nothing else and do not meet."""
    own = [each for each in result.diagnostics if each.place.path == path]
    return [one for one in choose(own, configs) if all(edit.path == path for edit in one.fix.edits)]


def _damage(result: CheckResult, path: str) -> int:
    """How many statements of a file do not parse."""
    return sum(piece.broken + sum(m.broken for m in piece.members) for piece in pieces(result.analysis, path))


def _left_out(file: OpenFile, configs: Configs) -> bool:
    """Does the configuration exclude the file or a folder above it?"""
    if not file.on_disk:
        return False
    config = configs.of(file.path)
    root = os.path.join(os.path.realpath(config.root), "")
    path = os.path.realpath(file.path)
    while path.startswith(root):
        if excluded(config, path):
            return True
        path = os.path.dirname(path)
    return "site-packages" in path.split(os.sep)


def _places(findings: Iterable[Diagnostic]) -> Iterable[Place]:
    for finding in findings:
        yield from (each.place for each in finding.related)
        yield from (Place(edit.path, edit.span) for fix in finding.fixes for edit in fix.edits)


def _texts(
    places: Iterable[Place], open_paths: Container[str], sources: Mapping[str, Source]
) -> dict[str, str]:
    """The texts of the files that places lie in and that are not open."""
    paths = {place.path for place in places if place.path not in open_paths}
    return {path: sources[path].text for path in paths if path in sources}


def _tensor_map(file: OpenFile, result: CheckResult) -> TensorMap:
    notes: dict[TensorNote, int] = {}
    spans: dict[tuple[int, int, int], None] = {}
    for each in tensors_in(result.analysis, file.path):
        note = TensorNote(each.root, each.domain, each.dtype, each.owner, each.built)
        index = notes.setdefault(note, len(notes))
        start, end = each.place.span.start, each.place.span.end
        spans.setdefault((start, end, index))
        line = file.text[file.text.rfind("\n", 0, start) + 1 : start]
        if target := _TARGET.search(line):
            name = start - len(line) + target.start()
            spans.setdefault((name, name + len(target[1]), index))
    return TensorMap(file.path, file.version, tuple(sorted(spans)), tuple(notes))
