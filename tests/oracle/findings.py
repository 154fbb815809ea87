"""The analyzer's findings on a file against what torch did with it.

Torch raises or it does not; a finding says that it will or it does not. A planted mistake is *found* if the
rule that names it reports its line. An exception is *caught* if a finding that predicts one stands on the line
torch raised at, or if the planted mistake behind it is found where its rule reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.generate import Model
from tests.oracle.grammar.core import Planted
from tests.oracle.grammar.faults.plant import HARMLESS
from tests.oracle.truth import Cat, Truth

CAT_RULE = "QL101"


@dataclass(frozen=True)
class Finding:
    """One finding: its rule, its row, and whether it predicts an exception."""

    code: str
    row: int
    raises: bool = False


@dataclass(frozen=True)
class Outcome:
    """A planted mistake, in the lines its rule may report; whether torch showed it, whether the rule reported it."""

    rule: str
    kind: str
    rows: tuple[int, ...]
    raises: bool
    shown: bool
    found: bool


@dataclass
class Judgement:
    """The findings of one file, judged. Lists hold what is wrong with them.

    `wrong_raises`: an exception is predicted and the model runs. `beside`: one is predicted in a line where there
    is none, in a model with another mistake. `wrong_cats`: a cat is reported and torch does not warn of it;
    `tolerated`: it does not, because the scales differ by less than it looks at; `missed_cats`: rows it warns of and
    nothing reports.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    caught: bool | None = None
    wrong_raises: list[Finding] = field(default_factory=list)
    beside: list[Finding] = field(default_factory=list)
    wrong_cats: list[Finding] = field(default_factory=list)
    tolerated: list[Finding] = field(default_factory=list)
    missed_cats: list[int] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.wrong_raises or self.beside or self.wrong_cats)


TOLERANCE = 1e-4
"""What scales may differ by before torch 2.13 warns of a cat; measured with scales of 1/256, 1/2 and 1."""


def _differ_a_little(cat: Cat) -> bool:
    """Are the scales of the inputs different, by less than the tolerance?"""
    scales = [each[0] for each in cat.inputs if isinstance(each, tuple) and isinstance(each[0], float)]
    return len(set(scales)) > 1 and max(scales) - min(scales) < TOLERANCE


def judge(model: Model, truth: Truth, findings: Sequence[Finding]) -> Judgement:
    """Hold the findings against what torch did."""
    ran, warned = {cat.place.row for cat in truth.cats}, set(truth.warned_rows)
    planted = [each for each in model.faults if each.rule != CAT_RULE or each.row in ran]
    result = Judgement([_outcome(marks, truth, findings) for marks in _mistakes(planted)])
    predicted = [each for each in findings if each.raises]
    if truth.failure is None:
        result.wrong_raises = predicted
    else:
        raising = [each for each in result.outcomes if each.raises]
        lines = {truth.failure.row, *(row for each in raising for row in each.rows)}
        result.caught = any(each.found for each in raising) or any(each.row in lines for each in predicted)
        rules = {each.rule for each in raising}
        result.beside = [each for each in predicted if each.row not in lines and each.code not in rules]
    reported = {each.row for each in findings if each.code == CAT_RULE}
    others = {each.row for each in model.faults if each.rule != CAT_RULE}
    silent = [each for each in findings if each.code == CAT_RULE and each.row in ran - warned]
    near = {cat.place.row for cat in truth.cats if _differ_a_little(cat)}
    result.wrong_cats = [each for each in silent if each.row not in near]
    result.tolerated = [each for each in silent if each.row in near]
    if any(each.elsewhere and not each.raises for each in model.faults):  # cats reported where they are not called
        warned &= {each.row for each in model.faults if each.rule == CAT_RULE}
    result.missed_cats = sorted(warned - reported - others)
    return result


def _mistakes(faults: Sequence[Planted]) -> list[list[Planted]]:
    """The marks of each planted mistake. Every cat is one of its own; what is harmless is none."""
    cats = [[each] for each in faults if each.rule == CAT_RULE]
    kinds = dict.fromkeys(each.kind for each in faults if each.rule not in (CAT_RULE, HARMLESS))
    return [*cats, *([each for each in faults if each.kind == kind] for kind in kinds)]


def _outcome(marks: Sequence[Planted], truth: Truth, findings: Sequence[Finding]) -> Outcome:
    first, rows = marks[0], tuple(each.row for each in marks)
    found = any(each.code == first.rule and each.row in rows for each in findings)
    return Outcome(first.rule, first.kind, rows, first.raises, _shown(first, set(rows), truth), found)


def _shown(planted: Planted, rows: set[int], truth: Truth) -> bool:
    """Whether torch did what the mistake leads to: raised, warned, or ran."""
    if planted.raises:
        return truth.failure is not None and (planted.elsewhere or truth.failure.row in rows)
    match planted.rule:
        case "QL101":
            return bool(rows & ({cat.place.row for cat in truth.cats if len(set(cat.inputs)) > 1}))
        case "QL201":
            return bool(rows & _shared_stub_rows(truth))
        case _:
            return truth.failure is None


def _shared_stub_rows(truth: Truth) -> set[int]:
    """Rows where a stub is called on a tensor that is not the first one it saw."""
    first: dict[str, int] = {}
    rows = set()
    for call in truth.stubs:
        if first.setdefault(call.stub, call.storage) != call.storage:
            rows.add(call.place.row)
    return rows
