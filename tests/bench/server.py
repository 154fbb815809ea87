"""How fast the language server is: ``python -m tests.bench.server [CLASSES]``.

Prints milliseconds (median and 90th percentile) of a hover while nothing runs, of a hover while a file of about
15 lines per class is analysed after each keystroke, and of the findings after a keystroke. Compare numbers of one run
only; ``tests/lsp/test_latency.py`` compares the first two in every test run.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_lsp.client import make_test_lsp_client

from tests.lsp import models
from tests.lsp.session import SERVER, Buffer, Editor

EVERY = 40
"""One model in so many has a finding."""


@dataclass(frozen=True)
class Latencies:
    """Seconds of single requests."""

    start: float
    first: float
    idle: Sequence[float]
    busy: Sequence[float]
    findings: Sequence[float]


def p90(times: Sequence[float]) -> float:
    """The 90th percentile."""
    return statistics.quantiles(times, n=10)[-1]


async def measure(folder: Path, classes: int, rounds: int) -> Latencies:
    """Hover over one file while nothing runs and while a large one is analysed."""
    begin = time.perf_counter()
    client = make_test_lsp_client()
    await client.start_io(*SERVER)
    editor = Editor(client, "neovim")
    await editor.start(folder)
    start = time.perf_counter() - begin
    small = editor.open(folder / "net.py", models.FINDING)
    await small.diagnostics()
    first = time.perf_counter() - begin
    idle = [await _hover(small) for _ in range(20 * rounds)]
    large = editor.open(folder / "large.py", models.large(classes, EVERY))
    await large.diagnostics()
    busy: list[float] = []
    findings: list[float] = []
    for number in range(rounds):
        begin = time.perf_counter()
        large.type(f"{models.large(classes, EVERY)}\n\nnote = {number}\n")
        waiting = asyncio.ensure_future(large.diagnostics())
        while not waiting.done():
            busy.append(await _hover(small))
            await asyncio.sleep(0.002)
        await waiting
        findings.append(time.perf_counter() - begin)
    await client.shutdown_session()
    await client.stop()
    return Latencies(start, first, idle, busy, findings)


async def _hover(buffer: Buffer) -> float:
    begin = time.perf_counter()
    await buffer.hover(buffer.text.index("cat(["))
    return time.perf_counter() - begin


def main() -> None:
    classes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        seen = asyncio.run(measure(Path(folder), classes, 10))
    print(
        f"file: {models.large(classes, EVERY).count(chr(10))} lines, {len(seen.busy)} hovers while it is analysed"
    )
    print(f"initialize {1000 * seen.start:.0f} ms, first findings {1000 * seen.first:.0f} ms")
    for name in ("idle", "busy", "findings"):
        times = getattr(seen, name)
        print(f"{name:9} median {1000 * statistics.median(times):8.1f}   p90 {1000 * p90(times):8.1f}")


if __name__ == "__main__":
    main()
