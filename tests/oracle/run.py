"""Compare the analyzer with torch on generated models.

python -m tests.oracle.run --models 300 --seed 1 [--keep-failures DIR]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.oracle.compare import Comparison, FaultLine, Unit, Verdict, compare, fault_lines
from tests.oracle.generate import Model, generate, keys
from tests.oracle.grammar.core import Coverage
from tests.oracle.hook import InspectError, inspect_file, inspect_files
from tests.oracle.truth import Truth, observe

Inspect = Callable[[Path], dict[str, Any]]

NEEDED_AGREEMENT = 0.97
NEEDED_COUNT = 20
FULL_RUN = 300
RECHECKS = ((101, 0.35), (202, 1.7))
"""Seed and input gain of the runs that tell equal by construction from equal by chance."""


@dataclass
class Case:
    """One model, what torch did and how the map compares."""

    model: Model
    path: Path
    truth: Truth
    comparison: Comparison = field(default_factory=Comparison)
    faults: list[FaultLine] = field(default_factory=list)
    error: str = ""


@dataclass
class Report:
    """A whole run."""

    cases: list[Case]
    coverage: Coverage
    seconds: dict[str, float]

    def verdicts(self) -> Counter[Verdict]:
        total: Counter[Verdict] = Counter()
        for case in self.cases:
            total += case.comparison.counts()
        return total

    def agreement(self) -> float:
        """The share of executed cats on which the map and torch agree."""
        counts = self.verdicts()
        return counts[Verdict.EQUAL] / max(1, counts.total())

    def wrong_same(self) -> list[tuple[Case, Unit]]:
        return [
            (case, unit) for case in self.cases for unit in case.comparison.units if unit.verdict is Verdict.WRONG_SAME
        ]

    def clashes(self) -> list[tuple[Case, str]]:
        return [(case, text) for case in self.cases for text in case.comparison.clashes]

    def errors(self) -> list[Case]:
        return [case for case in self.cases if case.error]

    def thin(self) -> list[str]:
        """Coverage keys that came up too rarely."""
        return [key for key in keys() if self.coverage.counts[key] < NEEDED_COUNT]

    def passed(self, *, full: bool) -> bool:
        """Whether everything the oracle demands holds; the counts only where the run is long enough."""
        sound = not (self.wrong_same() or self.clashes() or self.errors())
        return sound and self.agreement() >= NEEDED_AGREEMENT and not (full and self.thin())


def observe_model(model: Model, path: Path, seed: int = 0, gain: float = 1.0) -> Truth:
    return observe(
        model.text, str(path), shapes=model.shapes, call=model.call, engine=model.engine, seed=seed, gain=gain
    )


def models(count: int, seed: int, coverage: Coverage) -> Iterator[Model]:
    """The generated models of a run."""
    for index in range(count):
        yield generate(f"{seed}:{index}", coverage)


def run(count: int, seed: int, folder: Path, inspect: Inspect | None = None) -> Report:
    """Generate, observe, inspect and compare `count` models; the files are left in `folder`.

    Without `inspect` the analyzer is asked once for all files, in a process of its own.
    """
    coverage, cases, seconds = Coverage(), [], {"generate": 0.0, "torch": 0.0, "inspect": 0.0}
    clock = time.perf_counter
    start = clock()
    written = list(models(count, seed, coverage))
    seconds["generate"] = clock() - start
    for index, model in enumerate(written):
        path = folder / f"model_{index:04}.py"
        path.write_text(model.text, encoding="utf-8")
        start = clock()
        truth = observe_model(model, path)
        seconds["torch"] += clock() - start
        cases.append(Case(model, path, truth, faults=fault_lines(model, truth)))
    start = clock()
    for case, found in zip(cases, _maps(cases, inspect), strict=True):
        if isinstance(found, str):
            case.error = found
        else:
            case.comparison = compare(found, case.truth)
            if case.comparison.counts()[Verdict.WRONG_DIFFERENT]:
                case.comparison = compare(found, by_construction(case))
    seconds["inspect"] = clock() - start
    return Report(cases, coverage, seconds)


def _maps(cases: Sequence[Case], inspect: Inspect | None) -> Iterator[dict[str, Any] | str]:
    if inspect is None:
        yield from inspect_files([case.path for case in cases], in_process=False)
        return
    for case in cases:
        try:
            yield inspect(case.path)
        except InspectError as error:
            yield str(error)


def by_construction(case: Case) -> Truth:
    """The truth of `case`, where scales are equal only if they are under other weights and ranges too."""
    runs = [case.truth, *(observe_model(case.model, case.path, seed, gain) for seed, gain in RECHECKS)]
    if any(len(each.cats) != len(case.truth.cats) for each in runs):
        return case.truth
    cats = []
    for same_call in zip(*(each.cats for each in runs), strict=True):
        columns = zip(*(cat.inputs for cat in same_call), strict=True)
        inputs = tuple(None if None in column else column for column in columns)
        cats.append(replace(same_call[0], inputs=inputs))
    return replace(case.truth, cats=cats)


# -- printing -----------------------------------------------------------------------------------------------


def show(report: Report, *, limit: int = 40) -> None:
    """Print the agreement and coverage tables."""
    counts = report.verdicts()
    print(f"models: {len(report.cases)}, executed cats: {counts.total()}, agreement: {report.agreement():.2%}")
    for verdict in Verdict:
        print(f"  {verdict.value:16} {counts[verdict]}")
    print(f"  {'scale clashes':16} {len(report.clashes())}")
    print(f"  {'inspect errors':16} {len(report.errors())}")
    print(f"  {'idle cats':16} {sum(len(case.comparison.idle) for case in report.cases)}")
    print("seconds: " + ", ".join(f"{name} {value:.1f}" for name, value in report.seconds.items()))
    _show_disagreements(report, limit)
    _show_faults(report)
    _show_coverage(report)


def _show_disagreements(report: Report, limit: int) -> None:
    lines = []
    for case in report.cases:
        if case.error:
            lines.append(f"{case.path.name}: {case.error}")
        if case.comparison.idle:
            lines.append(f"{case.path.name}: cats that never run, rows {case.comparison.idle}")
        for text in case.comparison.clashes:
            lines.append(f"{case.path.name}: {text}")
        for unit in case.comparison.units:
            if unit.verdict is not Verdict.EQUAL:
                source = case.model.text.split("\n")[unit.row - 1].strip()
                lines.append(
                    f"{case.path.name}:{unit.row}:{unit.column} {unit.verdict.value} via {list(unit.path)} "
                    f"torch {list(unit.torch)} qlsp {list(unit.qlsp)} {unit.note}\n      {source}"
                )
    for line in lines[:limit]:
        print(f"  {line}")
    if len(lines) > limit:
        print(f"  ... and {len(lines) - limit} more")


def _show_faults(report: Report) -> None:
    planted: Counter[str] = Counter(fault.kind for case in report.cases for fault in case.faults)
    shown: Counter[str] = Counter(fault.kind for case in report.cases for fault in case.faults if fault.shown)
    print("planted mistakes (shown by torch / planted):")
    for kind in sorted(planted):
        print(f"  {kind:24} {shown[kind]} / {planted[kind]}")


def _show_coverage(report: Report) -> None:
    print("coverage:")
    for key in keys():
        count = report.coverage.counts[key]
        print(f"  {count:5} {key}{'   <- under ' + str(NEEDED_COUNT) if count < NEEDED_COUNT else ''}")


def _keep_failures(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case in report.cases:
        counts = case.comparison.counts()
        if case.error or case.comparison.clashes or counts.total() != counts[Verdict.EQUAL]:
            (folder / case.path.name).write_text(case.model.text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.run", description=__doc__)
    parser.add_argument("--models", type=int, default=FULL_RUN)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--qlsp-in-process", action="store_true", help="call the analyzer in this process")
    parser.add_argument("--keep-failures", type=Path, metavar="DIR", help="copy the files that disagree there")
    parser.add_argument("--limit", type=int, default=40, help="how many disagreements to print")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        inspect = inspect_file if options.qlsp_in_process else None
        report = run(options.models, options.seed, Path(folder), inspect)
    show(report, limit=options.limit)
    if options.keep_failures:
        _keep_failures(report, options.keep_failures)
    return 0 if report.passed(full=options.models >= FULL_RUN) else 1


if __name__ == "__main__":
    sys.exit(main())
