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


def inspect_file(path: Path, root: Path | None = None, *, in_process: bool = True) -> dict[str, Any]:
    """The `inspect` map of one file, or with `root` of a program: all files there, `path` the one that holds `Net`."""
    paths = _paths(path, root)
    return _placed(_parsed(_call(paths) if in_process else _spawn(paths)), path, root)


def inspect_files(programs: Sequence[tuple[Path, Path | None]]) -> list[dict[str, Any]]:
    """The `inspect` map of each program, asked of one process that serves them all."""
    files = {name: index for index, program in enumerate(programs) for name in _paths(*program)}
    whole = _parsed(_spawn(list(files)))
    maps: list[dict[str, Any]] = [{"roots": []} for _ in programs]
    for found in whole["roots"]:
        maps[files[found["filename"]]]["roots"].append(found)
    return [_placed(each, *program) for each, program in zip(maps, programs, strict=True)]


def check_file(path: Path, root: Path | None = None) -> list[Finding]:
    """The findings on one file or program, asked in this process."""
    from qlsp.config import Config
    from qlsp.diagnostics import Predicts
    from qlsp.engine import check
    from qlsp.text import LineIndex

    result = check(_paths(path, root), Config())
    found = []
    for each in result.diagnostics:
        row, _ = LineIndex(result.sources[each.place.path].text).position(each.place.span.start)
        file = _file(each.place.path, path, root)
        found.append(Finding(each.code, row, each.predicts is Predicts.RAISES, file))
    return found


def _paths(path: Path, root: Path | None) -> list[str]:
    if root is None:
        return [str(path.resolve())]
    return sorted(str(each.resolve()) for each in root.rglob("*.py"))


def _file(filename: str, path: Path, root: Path | None) -> str:
    """How a place names the file: empty for `path`, else its path below the root."""
    found = Path(filename).resolve()
    return "" if root is None or found == path.resolve() else found.relative_to(root.resolve()).as_posix()


def _placed(found: dict[str, Any], path: Path, root: Path | None) -> dict[str, Any]:
    """The map with the `file` of each site."""
    for each in found["roots"]:
        for site in each["sites"]:
            site["file"] = _file(site["filename"], path, root)
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
