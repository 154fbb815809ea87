"""A hover does not wait for an analysis. Ratios of one run; ``python -m tests.bench.server`` shows the numbers."""

from __future__ import annotations

from pathlib import Path

from tests.bench.server import measure, p90

SLOWER = 20
"""An event loop that waited for the analysis would answer hundreds of times slower."""


async def test_hover_while_a_large_file_is_analysed(tmp_path: Path) -> None:
    seen = await measure(tmp_path, classes=100, rounds=3)
    assert len(seen.busy) > 20
    assert p90(seen.busy) < SLOWER * p90(seen.idle)
