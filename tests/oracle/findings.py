"""The analyzer's findings on a file against what torch did with it.

Torch raises or it does not; a finding says that it will or it does not. A planted mistake is *found* if the
rule that names it reports its line. An exception is *caught* if a finding that predicts one stands on the line
torch raised at, or if the planted mistake behind it is found where its rule reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.generate import Model
from tests.oracle.grammar.core import Line, Planted
from tests.oracle.grammar.faults.plant import HARMLESS
from tests.oracle.truth import Cat, Truth

CAT_RULE = "QL101"


@dataclass(frozen=True)
class Finding:
    """One finding: its rule, its row, whether it predicts an exception, and its file below the root."""

    code: str
    row: int
    raises: bool = False
    file: str = ""

    @property
    def line(self) -> Line:
        return self.file, self.row


@dataclass(frozen=True)
class Outcome:
    """A planted mistake, in the lines its rule may report; whether torch showed it, whether the rule reported it."""

    rule: str
    kind: str
    lines: tuple[Line, ...]
    raises: bool
    shown: bool
    found: bool


@dataclass
class Judgement:
    """The findings of one file, judged. Lists hold what is wrong with them.

    `wrong_raises`: an exception is predicted and the model runs. `beside`: one is predicted in a line where there
    is none, in a model with another mistake. `wrong_cats`: a cat is reported and torch does not warn of it;
    `tolerated`: it does not, because the scales differ by less than it looks at; `missed_cats`: lines it warns of and
    nothing reports.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    caught: bool | None = None
    wrong_raises: list[Finding] = field(default_factory=list)
    beside: list[Finding] = field(default_factory=list)
    wrong_cats: list[Finding] = field(default_factory=list)
    tolerated: list[Finding] = field(default_factory=list)
    missed_cats: list[Line] = field(default_factory=list)

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
    ran, warned = {cat.place.line for cat in truth.cats}, set(truth.warned)
    planted = [each for each in model.faults if each.rule != CAT_RULE or each.line in ran]
    result = Judgement([_outcome(marks, truth, findings) for marks in _mistakes(planted)])
    predicted = [each for each in findings if each.raises]
    if truth.failure is None:
        result.wrong_raises = predicted
    else:
        raising = [each for each in result.outcomes if each.raises]
        lines = {truth.failure.line, *(line for each in raising for line in each.lines)}
        result.caught = any(each.found for each in raising) or any(each.line in lines for each in predicted)
        rules = {each.rule for each in raising}
        result.beside = [each for each in predicted if each.line not in lines and each.code not in rules]
    reported = {each.line for each in findings if each.code == CAT_RULE}
    others = {each.line for each in model.faults if each.rule != CAT_RULE}
    silent = [each for each in findings if each.code == CAT_RULE and each.line in ran - warned]
    near = {cat.place.line for cat in truth.cats if _differ_a_little(cat)}
    result.wrong_cats = [each for each in silent if each.line not in near]
    result.tolerated = [each for each in silent if each.line in near]
    if any(each.elsewhere and not each.raises for each in model.faults):  # cats reported where they are not called
        warned &= {each.line for each in model.faults if each.rule == CAT_RULE}
    result.missed_cats = sorted(warned - reported - others)
    return result


def _mistakes(faults: Sequence[Planted]) -> list[list[Planted]]:
    """The marks of each planted mistake. Every cat is one of its own; what is harmless is none."""
    cats = [[each] for each in faults if each.rule == CAT_RULE]
    kinds = dict.fromkeys(each.kind for each in faults if each.rule not in (CAT_RULE, HARMLESS))
    return [*cats, *([each for each in faults if each.kind == kind] for kind in kinds)]


def _outcome(marks: Sequence[Planted], truth: Truth, findings: Sequence[Finding]) -> Outcome:
    first, lines = marks[0], tuple(each.line for each in marks)
    found = any(each.code == first.rule and each.line in lines for each in findings)
    return Outcome(first.rule, first.kind, lines, first.raises, _shown(first, set(lines), truth), found)


def _shown(planted: Planted, lines: set[Line], truth: Truth) -> bool:
    """Whether torch did what the mistake leads to: raised, warned, or ran."""
    if planted.raises:
        return truth.failure is not None and (planted.elsewhere or truth.failure.line in lines)
    match planted.rule:
        case "QL101":
            return bool(lines & ({cat.place.line for cat in truth.cats if len(set(cat.inputs)) > 1}))
        case "QL201":
            return bool(lines & _shared_stub_lines(truth))
        case _:
            return truth.failure is None


def _shared_stub_lines(truth: Truth) -> set[Line]:
    """Lines where a stub is called on a tensor that is not the first one it saw."""
    first: dict[str, int] = {}
    lines = set()
    for call in truth.stubs:
        if first.setdefault(call.stub, call.storage) != call.storage:
            lines.add(call.place.line)
    return lines
