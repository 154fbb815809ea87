"""How the oracle asks the analyzer. The only place that knows its command line."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.oracle.findings import Finding

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("--isolated", "--output-format", "json")


class InspectError(Exception):
    """The analyzer gave no map; the text is what it said."""


def inspect_file(path: Path, *, in_process: bool = True) -> dict[str, Any]:
    """The `inspect` map of one file."""
    paths = [str(path.resolve())]
    return _parsed(_call(paths) if in_process else _spawn(paths))


def inspect_files(paths: Sequence[Path], *, in_process: bool = True) -> list[dict[str, Any]]:
    """The `inspect` map of each file; out of process, one process serves them all."""
    if in_process:
        return [inspect_file(path) for path in paths]
    names = {str(path.resolve()): index for index, path in enumerate(paths)}
    whole = _parsed(_spawn(list(names)))
    maps: list[dict[str, Any]] = [{"roots": []} for _ in paths]
    for root in whole["roots"]:
        maps[names[root["filename"]]]["roots"].append(root)
    return maps


def check_file(path: Path) -> list[Finding]:
    """The findings on one file, asked in this process."""
    from qlsp.config import Config
    from qlsp.diagnostics import Predicts
    from qlsp.engine import check
    from qlsp.text import LineIndex

    result = check([str(path)], Config())
    found = []
    for each in result.diagnostics:
        row, _ = LineIndex(result.sources[each.place.path].text).position(each.place.span.start)
        found.append(Finding(each.code, row, each.predicts is Predicts.RAISES))
    return found


def known_rules() -> set[str]:
    """The codes of the rules there are."""
    from qlsp.rules.api import all_rules

    return {rule.meta.code for rule in all_rules()}


def _call(paths: Sequence[str]) -> str:
    from qlsp.cli import main

    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(["inspect", *paths, *OPTIONS])
    if status not in (0, None):
        raise InspectError(f"exit status {status}: {errors.getvalue().strip()}")
    return output.getvalue()


def _spawn(paths: Sequence[str]) -> str:
    command = [sys.executable, "-m", "qlsp", "inspect", *paths, *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise InspectError(f"exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _parsed(output: str) -> dict[str, Any]:
    try:
        parsed = json.loads(output)
    except json.JSONDecodeError as error:
        raise InspectError(f"no JSON: {error}") from error
    if not isinstance(parsed, dict) or "roots" not in parsed:
        raise InspectError("no roots in the map")
    return parsed
