"""Recall and precision on the model files, and the scorer itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from scoring import (
    Found,
    Score,
    built_rules,
    check_by_command,
    check_cases,
    check_in_process,
    model_cases,
    parse_case,
    score,
    torch_cases,
)

EXACT = ("cat-mixed-scales", "quantstub-on-quantized", "quantstub-reused", "syntax-error")
"""Rules that must report every expected finding and nothing else."""


@lru_cache(maxsize=1)
def found_in_torch_files() -> tuple[Found, ...]:
    return tuple(check_cases(torch_cases(), check_in_process))


@lru_cache(maxsize=1)
def torch_scores() -> dict[str, Score]:
    return score(torch_cases(), found_in_torch_files(), built_rules() | set(EXACT))


def wanted_rules() -> list[str]:
    try:
        return sorted(built_rules() | set(EXACT))
    except ImportError:
        return sorted(EXACT)


@pytest.mark.parametrize("name", wanted_rules())
def test_torch_files(name: str) -> None:
    result = torch_scores()[name]
    assert (result.recall, result.precision) == (1.0, 1.0), f"{name}: {result}"


def test_command_line_agrees_with_the_engine() -> None:
    def short(found: Sequence[Found]) -> list[tuple[str, int, str, str]]:
        return sorted((Path(i.path).name, i.row, i.name, i.severity) for i in found)

    assert short(check_cases(torch_cases(), check_by_command)) == short(found_in_torch_files())


def test_horizon_files_do_not_crash_a_rule() -> None:
    horizon = [case for case in model_cases() if case.horizon]
    found = check_cases(horizon, check_in_process)
    assert [item for item in found if item.name in ("rule-crashed", "syntax-error")] == []


@pytest.mark.parametrize("case", model_cases(), ids=lambda case: case.path.stem)
def test_headers_are_sound(case) -> None:
    rows = len(case.text.splitlines())
    assert case.text.splitlines()[0].startswith("# case: ")
    assert all(1 <= row <= rows for _, row in case.expected)
    assert bool(case.expected) == case.path.stem.endswith("_bad")


def test_scorer_counts_hits_misses_and_false_findings() -> None:
    text = "\n".join(
        [
            "# case: X",
            "# expect: a @ line 7",
            "# expect: a @ line 8",
            "# expect: later @ line 8",
            "# allow: b:info",
            "# allow: c",
        ]
    )
    case = parse_case(Path("dir/x_bad.py"), text)
    assert case.expected == (("a", 7), ("a", 8), ("later", 8))
    assert case.allowed == {"b:info", "c"}
    found = [
        Found("dir/x_bad.py", 7, "a", "error"),
        Found("dir/x_bad.py", 9, "a", "error"),
        Found("dir/x_bad.py", 1, "b", "info"),
        Found("dir/x_bad.py", 2, "b", "error"),
        Found("dir/x_bad.py", 2, "c", "error"),
        Found("dir/other.py", 2, "a", "error"),
    ]
    scores = score([case], found, ["a", "b", "c"])
    assert (scores["a"].hits, scores["a"].recall, scores["a"].precision) == (1, 0.5, 0.5)
    assert "x_bad.py:8 a" in str(scores["a"]) and "x_bad.py:9 error[a]" in str(scores["a"])
    assert scores["b"].false == ["x_bad.py:2 error[b]"]
    assert (scores["c"].recall, scores["c"].precision) == (1.0, 1.0)
