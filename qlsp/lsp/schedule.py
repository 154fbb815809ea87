"""What is analysed when: the newest state of all documents, one job at a time, in a worker that may die."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qlsp.diagnostics import Diagnostic
from qlsp.lsp.exchange import Checked, FixAll, FixedAll, Hello, Job, OpenFile, RuleInfo, TensorMap, Tensors
from qlsp.lsp.process import WorkerProcess
from qlsp.lsp.retain import Change
from qlsp.text import Edit, LineIndex

ATTEMPTS = 2
TIME_LIMIT = 60.0
"""Seconds after which a job counts as hung."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """One version of an open document."""

    uri: str
    file: OpenFile
    index: LineIndex

    @classmethod
    def of(cls, uri: str, file: OpenFile) -> Document:
        """A document with its lines."""
        return cls(uri, file, LineIndex(file.text))


@dataclass(frozen=True, slots=True)
class Analysed:
    """A finished analysis of one version of a document. ``texts`` are those of other files it points into.
    ``tensors`` come later, so they may belong to an earlier version: ``hovered``."""

    document: Document
    findings: tuple[Diagnostic, ...] = ()
    fixable: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    tensors: TensorMap | None = None
    hovered: Document | None = None


def offset_then(then: Document, now: Document, offset: int) -> int | None:
    """Where an offset of a version was in an earlier one; None for text typed since."""
    if then.file.text is now.file.text:
        return offset
    return Change.between(then.file.text, now.file.text).backward(offset)


class WorkerDied(Exception):
    """The worker ended in the middle of a job."""


class Schedule:
    """Owns the open documents and their newest analyses. All methods run on the event loop."""

    def __init__(self, finished: Callable[[frozenset[str]], None], problem: Callable[[str], None]) -> None:
        self._finished = finished
        self._problem = problem
        self.documents: dict[str, Document] = {}
        self.rules: Mapping[str, RuleInfo] = {}
        self._analysed: dict[str, Analysed] = {}
        self._edited: set[str] = set()
        self._wanted = 0
        self._disk = 0
        self._done = 0
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._process: WorkerProcess | None = None
        self._answer: asyncio.Future[Checked | FixedAll] | None = None
        self._asked: tuple[WorkerProcess, int] | None = None
        self._numbers = itertools.count(-1, -1)
        self._one_at_a_time = asyncio.Lock()
        self._tensors: Tensors | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Documents

    def put(self, uri: str, file: OpenFile) -> None:
        """A document was opened or changed."""
        opened = uri not in self.documents
        self.documents[uri] = Document.of(uri, file)
        self._edited.add(uri)
        self._again(disk=opened)

    def remove(self, uri: str) -> None:
        """A document was closed."""
        if self.documents.pop(uri, None) is not None:
            self._analysed.pop(uri, None)
            self.recheck()

    def update(self, change: Callable[[str, OpenFile], OpenFile]) -> None:
        """The settings or folders of documents changed."""
        for uri, document in self.documents.items():
            self.documents[uri] = replace(document, file=change(uri, document.file))
        self.recheck()

    def recheck(self) -> None:
        """Something changed, maybe on disk: earlier answers are worthless."""
        self._again(disk=True)

    def _again(self, disk: bool) -> None:
        self._disk += disk
        self._wanted += 1
        self._settled.clear()
        self._wake.set()

    def latest(self, uri: str) -> Analysed | None:
        """The last finished analysis of a document, maybe of an earlier version."""
        return self._analysed.get(uri)

    async def settled(self, uri: str) -> Analysed | None:
        """The analysis of the current version of a document, as soon as there is one."""
        while self._done != self._wanted:
            await self._settled.wait()
        return self._analysed.get(uri)

    def current(self) -> bool:
        """Does every analysis belong to the present version of its document?"""
        pairs = [(document, self._analysed.get(uri)) for uri, document in self.documents.items()]
        return all(found is not None and found.document.file.version == each.file.version for each, found in pairs)

    # The worker

    def start(self) -> None:
        """Start the worker early, so that it imports what it needs while the client goes on."""
        self._spawn(self._warm_up())

    def begin(self) -> None:
        """Answer jobs from now on."""
        self._spawn(self._run())

    async def restart(self) -> None:
        """Take a new worker and check everything again."""
        if self._process is not None:
            self._process.kill()
        self.recheck()

    async def close(self) -> None:
        """End the worker."""
        for task in self._tasks:
            task.cancel()
        if self._process is not None:
            await self._process.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _warm_up(self) -> None:
        with contextlib.suppress(OSError):
            await self._worker()

    async def _worker(self) -> WorkerProcess:
        if self._process is None:
            self._process = await WorkerProcess.start()
            log.info("worker %d started", self._process.pid)
            self._spawn(self._listen(self._process))
        return self._process

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            number = self._wanted
            files = tuple(document.file for document in self.documents.values())
            checked = await self._ask(Job(number, files, self._disk))
            if number == self._wanted:
                self._finish(checked if isinstance(checked, Checked) else None)

    async def fixed_all(self, uri: str) -> tuple[Edit, ...]:
        """The edits that apply all safe fixes of a document; none if they cannot be had."""
        document = self.documents.get(uri)
        if document is None:
            return ()
        files = tuple(each.file for each in self.documents.values())
        answer = await self._ask(FixAll(next(self._numbers), files, document.file.path, self._disk))
        return answer.edits if isinstance(answer, FixedAll) else ()

    async def _ask(self, job: Job | FixAll) -> Checked | FixedAll | None:
        """Have a job done; None if the worker died or hung over it again and again."""
        async with self._one_at_a_time:
            return await self._try(job)

    async def _try(self, job: Job | FixAll) -> Checked | FixedAll | None:
        for _ in range(ATTEMPTS):
            try:
                worker = await self._worker()
            except OSError as error:
                self._problem(f"the analysis process does not start: {error}")
                return None
            self._answer = asyncio.get_running_loop().create_future()
            self._asked = worker, job.number
            try:
                await worker.send(job)
                return await asyncio.wait_for(self._answer, TIME_LIMIT)
            except asyncio.TimeoutError:
                log.error("worker %d hung", worker.pid)
                worker.kill()
                self._forget(worker)
            except (WorkerDied, OSError):
                self._forget(worker)
            finally:
                self._answer = None
        self._problem(
            "the analysis process ended twice over these files; it tries again after the next change"
        )
        return None

    async def _listen(self, worker: WorkerProcess) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._receive(worker, await worker.receive())
        log.warning("worker %d ended", worker.pid)
        idle = self._answer is None and self._process is worker
        self._forget(worker)
        mine = self._asked is not None and self._asked[0] is worker
        if mine and self._answer is not None and not self._answer.done():
            self._answer.set_exception(WorkerDied())
        elif idle:
            self.recheck()

    def _forget(self, worker: WorkerProcess) -> None:
        if self._process is worker:
            self._process = None

    def _receive(self, worker: WorkerProcess, message: object) -> None:
        if isinstance(message, Hello):
            self.rules = {rule.code: rule for rule in message.rules}
        elif isinstance(message, (Checked, FixedAll)):
            answers = self._asked == (worker, message.number)  # a request may have been given up
            if answers and self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
        elif isinstance(message, Tensors):
            self._tensors = message
            self._keep_tensors()

    def _finish(self, checked: Checked | None) -> None:
        """Take an answer that is still wanted, and tell whose findings are new."""
        edited = frozenset(self._edited)
        self._edited.clear()
        if checked is not None:
            answers = {answer.path: answer for answer in checked.files}
            for uri, document in self.documents.items():
                answer = answers.get(document.file.path)
                if answer is not None and answer.version == document.file.version:
                    before = self._analysed.get(uri) or Analysed(document)
                    texts = {**before.texts, **checked.texts}
                    self._analysed[uri] = Analysed(
                        document, answer.findings, answer.fixable, texts, before.tensors, before.hovered
                    )
            for line in checked.problems:
                self._problem(line)
        self._done = self._wanted
        self._keep_tensors()
        self._settled.set()
        self._finished(edited)

    def _keep_tensors(self) -> None:
        """Add the tensors to the analysis they belong to; they may arrive before it is taken."""
        message = self._tensors
        if message is None or message.number != self._done:
            return
        self._tensors = None
        maps = {each.path: each for each in message.maps}
        for uri, analysed in self._analysed.items():
            found = maps.get(analysed.document.file.path)
            if found is not None and found.version == analysed.document.file.version:
                texts = {**analysed.texts, **message.texts}
                self._analysed[uri] = replace(analysed, tensors=found, hovered=analysed.document, texts=texts)
