"""The worker process: holds syntax trees and analyses, and answers the newest job only."""

from __future__ import annotations

import gc
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from qlsp.config import Config, ConfigError, excluded, from_options
from qlsp.diagnostics import Diagnostic
from qlsp.engine import CheckResult, check, pieces, tensors_in
from qlsp.lsp.exchange import (
    LENGTH,
    Checked,
    CheckedFile,
    Hello,
    Job,
    OpenFile,
    RuleInfo,
    TensorMap,
    TensorNote,
    Tensors,
    pack,
    unpack,
)
from qlsp.lsp.retain import Change, retained
from qlsp.report.page import as_markdown
from qlsp.rules.api import Rule, all_rules
from qlsp.text import Place, Source, SourceError, read_source

SYNTAX_ERROR = "QL001"
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

    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(stdin, jobs), daemon=True).start()
    send(Hello(tuple(map(_rule_info, all_rules()))))
    gc.freeze()
    worker = Worker(send, lambda: not jobs.empty())
    while True:
        job = jobs.get()
        while not jobs.empty():
            job = jobs.get()
        worker.run(job)


def _read_jobs(stdin: BinaryIO, jobs: queue.SimpleQueue[Job]) -> None:
    while True:
        header = stdin.read(LENGTH.size)
        body = stdin.read(LENGTH.unpack(header)[0]) if len(header) == LENGTH.size else b""
        if not body:
            os._exit(0)  # the server is gone
        message = unpack(body)
        if isinstance(message, Job):
            jobs.put(message)


def _rule_info(rule: Rule) -> RuleInfo:
    meta = rule.meta
    return RuleInfo(meta.code, meta.name, meta.preview, as_markdown(meta, rule.page))


@dataclass(frozen=True, slots=True)
class Shown:
    """What the editor shows for a document: a text and the findings in it."""

    text: str
    findings: tuple[Diagnostic, ...]


class Worker:
    """Answers jobs. Remembers what is shown, for the time in which a text does not parse."""

    def __init__(self, send: Callable[[object], None], superseded: Callable[[], bool]) -> None:
        self._send = send
        self._superseded = superseded
        self._shown: dict[str, Shown] = {}
        self._configs: dict[tuple[str, ...], Config] = {}

    def run(self, job: Job) -> None:
        """Send the findings of a job; then, if nothing newer waits, what hovering needs."""
        self._shown = {file.path: self._shown[file.path] for file in job.files if file.path in self._shown}
        texts = {file.path: file.text for file in job.files}
        problems: dict[str, None] = {}
        groups = self._groups(job.files, problems)
        results = [(files, self._check(files, config, texts, problems)) for config, files in groups]
        answered = {each.path: each for files, result in results for each in self._answers(files, result)}
        files = tuple(answered.get(file.path, CheckedFile(file.path, file.version, ())) for file in job.files)
        elsewhere = _places(finding for file in files for finding in file.findings)
        others = _texts(elsewhere, texts, [result.sources for _, result in results if result is not None])
        self._send(Checked(job.number, files, others, tuple(problems)))
        if not self._superseded():
            self._send(_tensors(job.number, results, texts))

    def _groups(
        self, files: Iterable[OpenFile], problems: dict[str, None]
    ) -> list[tuple[Config, list[OpenFile]]]:
        """The files to check, those of one configuration together."""
        groups: list[tuple[Config, list[OpenFile]]] = []
        for file in files:
            if not file.settings.enable:
                continue
            config = self._config(file, problems)
            if file.on_disk and _left_out(file, config):
                continue
            for known, members in groups:
                if known == config:
                    members.append(file)
                    break
            else:
                groups.append((config, [file]))
        return groups

    def _config(self, file: OpenFile, problems: dict[str, None]) -> Config:
        """The configuration of a file, found as the command line finds it; the last good one if it is broken."""
        own = [file.settings.configuration] if file.settings.configuration else []
        start = os.path.realpath(file.path if file.on_disk else file.folder or ".")
        key = (os.path.dirname(start), *own, *file.settings.values)
        try:
            config = from_options(False, [*own, *file.settings.values], start)
        except ConfigError as error:
            problems.setdefault(str(error).replace("--config ", "setting "))
            return self._configs.get(key, Config(root=file.folder or "."))
        if config.root == "." and file.folder:
            config = replace(config, root=file.folder)
        self._configs[key] = config
        return config

    def _check(
        self, files: list[OpenFile], config: Config, texts: Mapping[str, str], problems: dict[str, None]
    ) -> CheckResult | None:
        named = [file.path for file in files if file.settings.show_syntax_errors]
        try:
            return check([file.path for file in files], config, texts, named)
        except Exception as error:
            traceback.print_exc()
            problems.setdefault(f"internal error: {type(error).__name__}: {error}; please report it")
            return None

    def _answers(self, files: list[OpenFile], result: CheckResult | None) -> Iterable[CheckedFile]:
        for file in files:
            earlier = self._shown.get(file.path, Shown(file.text, ()))
            change = Change.between(earlier.text, file.text)
            found = result.diagnostics if result is not None else ()
            live = [each for each in found if each.place.path == file.path]
            if not file.settings.show_syntax_errors:
                live = [each for each in live if each.code != SYNTAX_ERROR]
            broken = pieces(result.analysis, file.path) if result is not None and earlier.findings else ()
            old = [each for each in earlier.findings if each.code != SYNTAX_ERROR]
            stale = retained(old, change, broken, live) if broken else []
            order = sorted([*live, *stale], key=lambda each: (each.place.span.start, each.code))
            kept = set(map(id, stale))
            marks = frozenset(index for index, each in enumerate(order) if id(each) in kept)
            self._shown[file.path] = Shown(file.text, tuple(order))
            yield CheckedFile(file.path, file.version, tuple(order), marks)


def _left_out(file: OpenFile, config: Config) -> bool:
    """Does the configuration exclude the file or a folder above it?"""
    root = os.path.realpath(config.root)
    path = os.path.realpath(file.path)
    while path.startswith(os.path.join(root, "")):
        if excluded(config, path):
            return True
        path = os.path.dirname(path)
    return "site-packages" in path.split(os.sep)


def _places(findings: Iterable[Diagnostic]) -> Iterable[Place]:
    for finding in findings:
        yield from (each.place for each in finding.related)
        yield from (Place(edit.path, edit.span) for fix in finding.fixes for edit in fix.edits)


def _texts(
    places: Iterable[Place], open_texts: Mapping[str, str], sources: Iterable[Mapping[str, Source]]
) -> dict[str, str]:
    """The texts of the files that places lie in and that are not open."""
    known = [*sources]
    found: dict[str, str] = {}
    for path in {place.path for place in places} - set(open_texts):
        source = next((each[path] for each in known if path in each), None)
        try:
            found[path] = (source or read_source(path)).text
        except SourceError:
            continue
    return found


def _tensors(
    number: int, results: Iterable[tuple[list[OpenFile], CheckResult | None]], texts: Mapping[str, str]
) -> Tensors:
    maps: list[TensorMap] = []
    sources: list[Mapping[str, Source]] = []
    for files, result in results:
        if result is not None:
            sources.append(result.sources)
            maps.extend(_tensor_map(file, result) for file in files)
    built = [note.built for each in maps for note in each.notes if note.built is not None]
    return Tensors(number, tuple(maps), _texts(built, texts, sources))


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
