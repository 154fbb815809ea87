"""The worker as a child process: messages over its standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process

from qlsp.lsp.exchange import LENGTH, pack, unpack

_START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from qlsp.lsp.worker import main; main()"


class WorkerProcess:
    """One running worker."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> WorkerProcess:
        """Start a worker that imports from where this process does, whatever the current folder holds."""
        path = [os.path.abspath(folder) for folder in sys.path]
        command = (sys.executable, "-I", "-c", _START, json.dumps(path))
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))

    @property
    def pid(self) -> int:
        """The process id, for the log."""
        return self._process.pid

    async def send(self, message: object) -> None:
        """Send a message; raises ``OSError`` if the worker is gone."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(pack(message))
        await stdin.drain()

    async def receive(self) -> object:
        """Wait for the next message; raises ``EOFError`` if the worker is gone."""
        stdout = self._process.stdout
        assert stdout is not None
        header = await stdout.readexactly(LENGTH.size)
        return unpack(await stdout.readexactly(LENGTH.unpack(header)[0]))

    def kill(self) -> None:
        """End the worker at once."""
        if self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """End the worker and wait for its end."""
        self.kill()
        await self._process.wait()
