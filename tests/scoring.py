"""Runs the analyzer and scores it on the files of ``cases/models`` (format: the README beside them)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

MODELS = Path(__file__).resolve().parent / "cases" / "models"
HORIZON = "horizon_plugin"
"""A file that contains this text is judged by the Horizon backend; every other one is a torch file."""
HEADER_LINES = 20


@dataclass(frozen=True, order=True)
class Found:
    """A finding as the tests compare it."""

    path: str
    row: int
    name: str
    severity: str

    def __str__(self) -> str:
        return f"{self.path}:{self.row} {self.severity}[{self.name}]"


@dataclass(frozen=True)
class ModelCase:
    """A model file and what its header expects."""

    path: Path
    text: str
    expected: tuple[tuple[str, int], ...]
    allowed: frozenset[str]
    settings: tuple[str, ...]

    @property
    def horizon(self) -> bool:
        """True for files that use the Horizon plugin."""
        return HORIZON in self.text


@dataclass
class Score:
    """Hits, and one line of text for each miss and each false finding."""

    hits: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Share of the expected findings that were reported."""
        wanted = self.hits + len(self.missed)
        return self.hits / wanted if wanted else 1.0

    @property
    def precision(self) -> float:
        """Share of the reported findings that are right."""
        reported = self.hits + len(self.false)
        return self.hits / reported if reported else 1.0

    def __str__(self) -> str:
        lines = [f"recall {self.recall:.3f}, precision {self.precision:.3f}, {self.hits} hits"]
        lines += [f"  missed {text}" for text in self.missed]
        lines += [f"  false  {text}" for text in self.false]
        return "\n".join(lines)


def read_text(path: Path) -> str:
    """The text with its line ends as they are."""
    return path.read_bytes().decode("utf-8")


def parse_case(path: Path, text: str) -> ModelCase:
    """Read the header of a model file."""
    expected: list[tuple[str, int]] = []
    allowed: set[str] = set()
    settings: list[str] = []
    for line in text.splitlines()[:HEADER_LINES]:
        if match := re.match(r"\s*# expect: (\S+)(?: @ line (\d+))?", line):
            if match[1] != "none":
                expected.append((match[1], int(match[2])))
        elif match := re.match(r"\s*# allow: (\S+)", line):
            allowed.add(match[1])
        elif match := re.match(r"\s*# config: (.+?)\s*$", line):
            settings.append(match[1])
    return ModelCase(path, text, tuple(expected), frozenset(allowed), tuple(settings))


@lru_cache(maxsize=1)
def model_cases() -> tuple[ModelCase, ...]:
    """Every model file, by name."""
    return tuple(parse_case(path, read_text(path)) for path in sorted(MODELS.glob("*.py")))


def torch_cases() -> tuple[ModelCase, ...]:
    """The model files that do not use the Horizon plugin."""
    return tuple(case for case in model_cases() if not case.horizon)


def score(cases: Iterable[ModelCase], found: Sequence[Found], names: Iterable[str]) -> dict[str, Score]:
    """Compare findings with headers, rule by rule; a rule that is not in ``names`` is left out of both."""
    scores = {name: Score() for name in names}
    for case in cases:
        label = case.path.name
        rest = [item for item in found if Path(item.path).name == label]
        for name, row in case.expected:
            if name not in scores:
                continue
            match = next((item for item in rest if (item.name, item.row) == (name, row)), None)
            if match is None:
                reported = ", ".join(f"{i.row} {i.severity}[{i.name}]" for i in rest) or "nothing"
                scores[name].missed.append(f"{label}:{row} {name}; reported: {reported}")
            else:
                scores[name].hits += 1
                rest.remove(match)
        for item in rest:
            if item.name not in scores or {item.name, f"{item.name}:{item.severity}"} & case.allowed:
                continue
            scores[item.name].false.append(f"{label}:{item.row} {item.severity}[{item.name}]")
    return scores


def built_rules() -> frozenset[str]:
    """Names of the rules that exist."""
    from qlsp.rules.api import all_rules

    return frozenset(rule.meta.name for rule in all_rules())


def check_cases(cases: Sequence[ModelCase], check: Callable[..., list[Found]]) -> list[Found]:
    """Check plain files in one go, and each file that brings settings alone with these."""
    found = check([case.path for case in cases if not case.settings], ())
    for case in cases:
        if case.settings:
            found += check([case.path], case.settings)
    return found


def check_by_command(paths: Sequence[Path], settings: Sequence[str]) -> list[Found]:
    """Run ``python -m qlsp check`` as a user would."""
    command = [sys.executable, "-m", "qlsp", "check", "--isolated", "--output-format", "json"]
    for setting in settings:
        command += ["--config", setting]
    run = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), f"exit status {run.returncode}: {run.stderr.strip()[-2000:]}"
    return [
        Found(item["filename"], item["location"]["row"], item["name"], item["severity"])
        for item in json.loads(run.stdout)
    ]


def check_in_process(paths: Sequence[Path], settings: Sequence[str]) -> list[Found]:
    """Run the engine on files."""
    return check_texts({str(path): read_text(path) for path in paths}, configuration(settings))


def configuration(settings: Sequence[str] = (), values: Mapping[str, Any] | None = None) -> Any:
    """A configuration from ``KEY = VALUE`` settings and a table as it stands under ``[tool.qlsp]``."""
    from qlsp.config import from_options

    return from_options(isolated=True, config_args=[*settings, *_settings(values or {})])


def _settings(table: Mapping[str, Any], prefix: str = "") -> list[str]:
    """A table as ``KEY = VALUE`` settings; JSON spells these values as TOML does."""
    settings = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            settings += _settings(value, f"{prefix}{json.dumps(key)}.")
        else:
            settings.append(f"{prefix}{json.dumps(key)} = {json.dumps(value)}")
    return settings


def check_texts(texts: Mapping[str, str], config: Any = None) -> list[Found]:
    """Run the engine on texts that need not be written to files; in order of path and row."""
    from qlsp import engine
    from qlsp.text import LineIndex

    result = engine.check(list(texts), config if config is not None else configuration(), dict(texts))
    lines = {path: LineIndex(text) for path, text in texts.items()}
    found = []
    for item in result.diagnostics:
        row, _ = lines[item.place.path].position(item.place.span.start)
        found.append(Found(item.place.path, row, item.name, item.severity.value))
    return sorted(found)


def reveal_texts(texts: Mapping[str, str], config: Any = None) -> list[tuple[str, int, str]]:
    """What ``reveal_quant`` shows, as (path, row, text)."""
    from qlsp import engine

    revealed = engine.reveal(list(texts), config if config is not None else configuration(), dict(texts))
    return sorted(revealed)
