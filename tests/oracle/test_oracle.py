"""The analyzer's map against torch on generated models."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
if sys.version_info < (3, 11):
    pytest.skip("frames know the columns of calls from Python 3.11 on", allow_module_level=True)

from tests.oracle.compare import Verdict, compare, judge, split
from tests.oracle.hook import inspect_file
from tests.oracle.run import FULL_RUN, NEEDED_AGREEMENT, NEEDED_CAUGHT, Report, run
from tests.oracle.truth import Cat, Place, Step, Truth

MODELS = int(os.environ.get("QLSP_ORACLE_MODELS", str(FULL_RUN)))
SEED = int(os.environ.get("QLSP_ORACLE_SEED", "1"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(MODELS, SEED, tmp_path_factory.mktemp("models"), inspect_file)


def test_every_file_gets_a_map(report: Report) -> None:
    assert [(case.name, case.error) for case in report.errors()] == []


def test_no_scale_is_called_the_same_that_torch_tells_apart(report: Report) -> None:
    assert [f"{case.at((unit.file, unit.row))}" for case, unit in report.wrong_same()] == []
    assert [f"{case.name}: {text}" for case, text in report.clashes()] == []


def test_cats_agree(report: Report) -> None:
    assert report.agreement() >= NEEDED_AGREEMENT, report.verdicts()


@pytest.mark.skipif(MODELS < FULL_RUN, reason="a short run cannot reach every key")
def test_every_key_is_covered(report: Report) -> None:
    assert report.thin() == []


def test_every_planted_mistake_shows(report: Report) -> None:
    assert [(case.name, outcome) for case, outcome in report.outcomes() if not outcome.shown] == []


def test_no_finding_is_contradicted(report: Report) -> None:
    assert [(case.name, kind, finding) for case, kind, finding in report.wrong()] == []


def test_exceptions_are_predicted(report: Report) -> None:
    assert report.caught() >= NEEDED_CAUGHT, [case.name for case in report.uncaught()]


# -- the comparison itself ----------------------------------------------------------------------------------


def test_split_numbers_inputs_by_the_first_of_their_kind() -> None:
    assert split(["a", "b", "a", None, "b"]) == (0, 1, 0, "float", 1)


@pytest.mark.parametrize(
    ("torch", "qlsp", "verdict"),
    [
        ([(0, 0)], [(0, 0)], Verdict.EQUAL),
        ([(0, 1), (0, 0)], [(0, 0), (0, 1)], Verdict.EQUAL),
        ([(0, 1)], [(0, 0)], Verdict.WRONG_SAME),
        ([(0, 0)], [(0, 1)], Verdict.WRONG_DIFFERENT),
        ([(0, 1)], [("?", 1)], Verdict.UNDECIDED),
        ([(0, 1, 2)], [(0, 0, "?")], Verdict.WRONG_SAME),
        ([(0, 1)], [], Verdict.UNDECIDED),
        ([(0, "float")], [(0, 1)], Verdict.WRONG_DOMAIN),
        ([(0, 1), (0, 0)], [(0, 1)], Verdict.UNDECIDED),
        ([(0, 1)], [(0, 1), (0, 0)], Verdict.WRONG_SAME),
        ([(0, 1)], [(0, 1, 2)], Verdict.WRONG_DIFFERENT),
    ],
)
def test_judge(torch: Any, qlsp: Any, verdict: Verdict) -> None:
    assert judge(torch, qlsp) is verdict


def _site(row: int, path: list[str], *inputs: tuple[str, str | None], file: str = "") -> dict[str, Any]:
    return {
        "file": file,
        "op": "cat",
        "spelling": "torch.cat",
        "row": row,
        "column": 5,
        "call_path": path,
        "inputs": [{"domain": domain, "scale": scale} for domain, scale in inputs],
    }


def _map(*sites: dict[str, Any]) -> dict[str, Any]:
    return {"roots": [{"name": "Net", "sites": list(sites)}]}


def _cat(row: int, path: tuple[int, ...], *inputs: tuple[float, int] | None, file: str = "") -> Cat:
    steps = tuple(Step("Net.forward", step) for step in path)
    return Cat(Place(row, 5, row, 20, file), steps, "torch.cat", inputs)


A, B = (0.1, 3), (0.2, 5)


def test_sites_are_matched_by_their_call_path() -> None:
    found = _map(
        _site(3, ["Net.forward:30"], ("quantized", "a"), ("quantized", "a")),
        _site(3, ["Net.forward:31"], ("quantized", "a"), ("quantized", "b")),
    )
    truth = Truth([_cat(3, (31,), A, B), _cat(3, (30,), A, A)])
    assert [unit.verdict for unit in compare(found, truth).units] == [Verdict.EQUAL, Verdict.EQUAL]


def test_sites_are_matched_by_their_file() -> None:
    same, apart = [("quantized", "a"), ("quantized", "a")], [("quantized", "a"), ("quantized", "b")]
    found = _map(_site(3, [], *same), _site(3, [], *apart, file="lib/parts.py"))
    truth = Truth([_cat(3, (), A, B, file="lib/parts.py"), _cat(3, (), A, A)])
    assert [unit.verdict for unit in compare(found, truth).units] == [Verdict.EQUAL, Verdict.EQUAL]
    assert compare(found, Truth([_cat(3, (), A, A)])).idle == [("lib/parts.py", 3)]


def test_scales_are_held_against_each_other_across_cats() -> None:
    same = ("quantized", "a"), ("quantized", "a")
    found = _map(_site(3, [], *same), _site(4, [], *same))
    assert compare(found, Truth([_cat(3, (), A, A), _cat(4, (), A, A)])).clashes == []
    assert len(compare(found, Truth([_cat(3, (), A, A), _cat(4, (), B, B)])).clashes) == 2


def test_cats_that_never_run_are_noticed() -> None:
    found = _map(_site(3, [], ("quantized", "a")), _site(9, [], ("quantized", "a")))
    assert compare(found, Truth([_cat(3, (), A)])).idle == [("", 9)]


def test_float_inputs_must_be_float() -> None:
    found = _map(_site(3, [], ("float", None), ("float", None)))
    assert compare(found, Truth([_cat(3, (), None, None)])).units[0].verdict is Verdict.EQUAL
    assert compare(found, Truth([_cat(3, (), A, A)])).units[0].verdict is Verdict.WRONG_DOMAIN


def test_a_map_can_be_made_out_of_process(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n", encoding="utf-8")
    assert inspect_file(path, in_process=False) == {"roots": []}
