"""Compare the analyzer with torch on generated models.

python -m tests.oracle.run --models 300 --seed 1 [--keep-failures DIR]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.oracle.compare import Comparison, Unit, Verdict, compare
from tests.oracle.findings import CAT_RULE, Finding, Judgement, Outcome, judge
from tests.oracle.generate import Model, generate, keys, mistake_keys
from tests.oracle.grammar.core import Coverage
from tests.oracle.hook import InspectError, check_file, inspect_file, inspect_files, known_rules
from tests.oracle.program import Line
from tests.oracle.truth import Truth, observe

Inspect = Callable[[Path, Path | None], dict[str, Any]]

NEEDED_AGREEMENT = 0.99
NEEDED_CAUGHT = 0.97
NEEDED_COUNT = 20
FULL_RUN, LONG_RUN = 300, 2000
"""From how many models on every piece of grammar, and every rule with a mistake, must have come up often enough."""
RECHECKS = ((101, 0.35), (202, 1.7))
"""Seed and input gain of the runs that tell equal by construction from equal by chance."""


@dataclass
class Case:
    """One model, what torch did and how the map compares."""

    model: Model
    path: Path
    truth: Truth
    root: Path | None = None
    comparison: Comparison = field(default_factory=Comparison)
    findings: list[Finding] = field(default_factory=list)
    judgement: Judgement = field(default_factory=Judgement)
    error: str = ""

    @property
    def name(self) -> str:
        """How the program is called in the folder of the run."""
        return self.path.name if self.root is None else self.root.name

    def source(self, line: Line) -> str:
        """The text of a line."""
        file, row = line
        text = self.model.others[file] if file else self.model.text
        return text.split("\n")[row - 1].strip()

    def at(self, line: Line) -> str:
        """A line, for a reader."""
        file, row = line
        return f"{self.name}{'/' * bool(file)}{file}:{row}"


@dataclass
class Report:
    """A whole run."""

    cases: list[Case]
    coverage: Coverage
    seconds: defaultdict[str, float]

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
        """Coverage keys that came up too rarely for the length of the run."""
        needed = keys() if len(self.cases) >= FULL_RUN else []
        if len(self.cases) >= LONG_RUN:
            needed += mistake_keys()
        return [key for key in needed if self.coverage.counts[key] < NEEDED_COUNT]

    def wrong(self) -> list[tuple[Case, str, Finding]]:
        """Findings that torch contradicts."""
        return [
            (case, kind, finding)
            for case in self.cases
            for kind in ("wrong_raises", "beside", "wrong_cats")
            for finding in getattr(case.judgement, kind)
        ]

    def outcomes(self) -> list[tuple[Case, Outcome]]:
        """The planted mistakes."""
        return [(case, outcome) for case in self.cases for outcome in case.judgement.outcomes]

    def uncaught(self) -> list[Case]:
        """Models that raise where nothing says so, though the rule of their mistake exists."""
        return [case for case in self._raising() if not case.judgement.caught]

    def caught(self) -> float:
        """The share of the exceptions that were predicted."""
        return 1 - len(self.uncaught()) / max(1, len(self._raising()))

    def _raising(self) -> list[Case]:
        known = known_rules()
        return [
            case
            for case in self.cases
            if case.truth.failure and any(each.rule in known for each in case.judgement.outcomes if each.raises)
        ]

    def passed(self) -> bool:
        """Whether everything the oracle demands holds; the counts only where the run is long enough."""
        sound = not (self.wrong_same() or self.clashes() or self.errors() or self.wrong())
        return sound and self.agreement() >= NEEDED_AGREEMENT and self.caught() >= NEEDED_CAUGHT and not self.thin()


def observe_model(model: Model, path: Path, seed: int = 0, gain: float = 1.0) -> Truth:
    return observe_text(model, model.text, path, seed, gain)


def observe_text(model: Model, text: str, path: Path, seed: int = 0, gain: float = 1.0, batches: int = 1) -> Truth:
    """What torch does with `text`, the text of `model` or what a fix made of it."""
    return observe(
        text,
        str(path),
        shapes=model.shapes,
        call=model.call,
        engine=model.engine,
        seed=seed,
        gain=gain,
        entry=model.entry,
        batches=batches,
        main=model.main,
        others=model.others,
    )


def models(count: int, seed: int, coverage: Coverage, only: Sequence[str] = ()) -> Iterator[Model]:
    """The generated models of a run."""
    for index in range(count):
        yield generate(f"{seed}:{index}", coverage, only)


def run(count: int, seed: int, folder: Path, inspect: Inspect | None = None, only: Sequence[str] = ()) -> Report:
    """Generate, observe, inspect and check `count` models; the files are left in `folder`.

    Without `inspect` the analyzer is asked for the maps once for all files, in a process of its own. An interrupt ends
    the run with the models there are.
    """
    report = Report([], Coverage(), defaultdict(float))
    try:
        for model in models(count, seed, report.coverage, only):
            path, root = model.write(folder, f"model_{len(report.cases):04}")
            report.cases.append(_judged(model, path, root, inspect, report.seconds))
    except KeyboardInterrupt:
        print(f"interrupted after {len(report.cases)} models")
    if inspect is None:
        maps = inspect_files([(case.path, case.root) for case in report.cases])
        for case, found in zip(report.cases, maps, strict=True):
            _compare(case, found)
    return report


def _judged(
    model: Model, path: Path, root: Path | None, inspect: Inspect | None, seconds: defaultdict[str, float]
) -> Case:
    """Everything about one model."""
    with _timed(seconds, "torch"):
        case = Case(model, path, observe_model(model, path), root)
    if inspect is not None:
        with _timed(seconds, "inspect"):
            try:
                _compare(case, inspect(path, root))
            except InspectError as error:
                case.error = str(error)
    with _timed(seconds, "check"):
        case.findings = check_file(path, root)
        case.judgement = judge(model, case.truth, case.findings)
        if case.judgement.wrong_cats:
            case.judgement = judge(model, _warned_somehow(case), case.findings)
    return case


@contextmanager
def _timed(seconds: defaultdict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[what] += time.perf_counter() - start


def _compare(case: Case, found: dict[str, Any]) -> None:
    case.comparison = compare(found, case.truth)
    if case.comparison.counts()[Verdict.WRONG_DIFFERENT]:
        case.comparison = compare(found, by_construction(case))


def _warned_somehow(case: Case) -> Truth:
    """The truth of `case` with what torch warns of, and what differs, under other weights and ranges too."""
    others = [observe_model(case.model, case.path, seed, gain) for seed, gain in RECHECKS]
    lines = [line for each in (case.truth, *others) for line in each.warned]
    return replace(by_construction(case), warned=lines)


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


def show(report: Report, *, limit: int = 40, coverage: bool = True) -> None:
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
    _show_findings(report, limit)
    _show_mistakes(report)
    if coverage:
        _show_coverage(report)


def _show_disagreements(report: Report, limit: int) -> None:
    lines = []
    for case in report.cases:
        if case.error:
            lines.append(f"{case.name}: {case.error}")
        if case.comparison.idle:
            lines.append(f"{case.name}: cats that never run, {case.comparison.idle}")
        for text in case.comparison.clashes:
            lines.append(f"{case.name}: {text}")
        for unit in case.comparison.units:
            if unit.verdict is not Verdict.EQUAL:
                line = unit.file, unit.row
                lines.append(
                    f"{case.at(line)}:{unit.column} {unit.verdict.value} via {list(unit.path)} "
                    f"torch {list(unit.torch)} qlsp {list(unit.qlsp)} {unit.note}\n      {case.source(line)}"
                )
    _print_some(lines, limit)


def _show_findings(report: Report, limit: int) -> None:
    """Print what torch contradicts, and what it raises where nothing says so."""
    raising = sum(case.truth.failure is not None for case in report.cases)
    kinds = Counter(kind for _, kind, _ in report.wrong())
    print(f"models that raise: {raising}, predicted: {report.caught():.2%} (where the rule exists)")
    print(f"  predicted, and the model runs         {kinds['wrong_raises']}")
    print(f"  predicted in a line without a mistake {kinds['beside']}")
    print(f"  {CAT_RULE} where torch does not warn      {kinds['wrong_cats']}")
    tolerated = sum(len(case.judgement.tolerated) for case in report.cases)
    print(f"  scales apart by less than it looks at {tolerated}")
    print(f"  cats torch warns of without {CAT_RULE}    {sum(len(c.judgement.missed_cats) for c in report.cases)}")
    lines = [_line(case, finding.line, f"{kind} {finding.code}") for case, kind, finding in report.wrong()]
    for case in report.uncaught():
        kinds_planted = ", ".join(each.kind for each in case.judgement.outcomes if each.raises)
        failure = case.truth.failure
        assert failure is not None
        lines.append(_line(case, (failure.file, failure.row or 1), f"uncaught {kinds_planted}: {failure.message[:90]}"))
    lines += [_line(case, line, "missed cat") for case in report.cases for line in case.judgement.missed_cats]
    _print_some(lines, limit)


def _line(case: Case, line: Line, text: str) -> str:
    return f"{case.at(line)} {text}\n      {case.source(line)}"


def _print_some(lines: Sequence[str], limit: int) -> None:
    for line in lines[:limit]:
        print(f"  {line}")
    if len(lines) > limit:
        print(f"  ... and {len(lines) - limit} more")


def _show_mistakes(report: Report) -> None:
    """Print a line per rule: planted, shown by torch, found; and findings torch contradicts."""
    known = known_rules()
    wrong = Counter(finding.code for _, _, finding in report.wrong())
    found: dict[str, list[Outcome]] = {}
    for _, outcome in report.outcomes():
        found.setdefault(outcome.rule, []).append(outcome)
    print("rule    planted  shown  found  missed  contradicted")
    for rule in sorted(found):
        each = found[rule]
        hits = sum(one.found for one in each)
        print(
            f"{rule:7} {len(each):7} {sum(one.shown for one in each):6} {hits:6} {len(each) - hits:7} {wrong[rule]:13}"
            f"{'' if rule in known else '  (no such rule yet)'}"
        )
    missed = Counter(one.kind for _, one in report.outcomes() if not one.found and one.rule in known)
    for kind, count in missed.most_common(60):
        print(f"  missed {count:3} {kind}")


def _show_coverage(report: Report) -> None:
    print("coverage:")
    for key in [*keys(), *mistake_keys()]:
        count = report.coverage.counts[key]
        print(f"  {count:5} {key}{'   <- under ' + str(NEEDED_COUNT) if count < NEEDED_COUNT else ''}")


def _keep_failures(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case in report.cases:
        counts = case.comparison.counts()
        judged = case.judgement
        wrong = not judged.sound or judged.caught is False or judged.missed_cats
        wrong = wrong or not all(each.found for each in judged.outcomes)
        if case.error or case.comparison.clashes or counts.total() != counts[Verdict.EQUAL] or wrong:
            case.model.write(folder, case.name.removesuffix(".py"))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.run", description=__doc__)
    parser.add_argument("--models", type=int, default=FULL_RUN)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rules", default="", help="plant mistakes of these rules only, such as QL401,QL402")
    parser.add_argument("--qlsp-in-process", action="store_true", help="call the analyzer in this process")
    parser.add_argument("--keep-failures", type=Path, metavar="DIR", help="copy the files that disagree there")
    parser.add_argument("--limit", type=int, default=40, help="how many disagreements to print")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        inspect = inspect_file if options.qlsp_in_process else None
        only = [rule for rule in options.rules.split(",") if rule]
        report = run(options.models, options.seed, Path(folder), inspect, only)
    show(report, limit=options.limit, coverage=not only)
    if options.keep_failures:
        _keep_failures(report, options.keep_failures)
    return 0 if report.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
