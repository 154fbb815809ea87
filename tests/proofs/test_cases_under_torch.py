"""The Markdown cases, run: torch's own warnings, exceptions and scales must be what the pages expect."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mdtest import Case, cases_of, expects_findings
from scoring import configuration
from under_torch import QUANTIZED_TWICE, Place, Seen, agrees, run, shown

from qlsp.diagnostics import Predicts
from qlsp.engine import check
from qlsp.rules.api import all_rules
from qlsp.text import LineIndex

OBSERVED = {
    "cat-mixed-scales": "cat_warnings",
    "quantstub-on-quantized": "quantized_twice",
    "quantstub-reused": "stub_reused",
}

RAISING = frozenset(rule.meta.name for rule in all_rules() if rule.meta.predicts is Predicts.RAISES)

RAISING_AS = {("missing-dequantstub", "error")}
"""Rules that predict an exception at one severity only."""

UNPARSABLE = "it does not parse"

RULES = list(cases_of("rules"))
SEMANTICS = list(cases_of("semantics"))


def with_net(case: Case) -> bool:
    """Does the last file define ``Net``, so that the case must say how to run it?"""
    if case.inputs is not None:
        return True
    return "class Net(" in case.files[-1].text


def ran(case: Case, folder: Path) -> Seen:
    assert case.inputs is not None, "a case with a class Net needs a json inputs block"
    if "skip" in case.inputs:
        pytest.skip(case.inputs["skip"])
    return run(case.texts(), folder.resolve(), case.inputs)


def sometimes_raising(case: Case) -> set[Place]:
    """The lines of findings that predict an exception although their rule does not always, and those they refer to."""
    texts = case.texts()
    result = check(list(texts), configuration(values=case.config), texts)
    places = [
        place
        for found in result.diagnostics
        if found.predicts is Predicts.RAISES and found.name not in RAISING
        for place in (found.place, *(each.place for each in found.related))
    ]
    lines = {path: LineIndex(text) for path, text in texts.items()}
    return {(place.path, lines[place.path].position(place.span.start)[0]) for place in places}


@pytest.mark.parametrize("case", [case for case in RULES if with_net(case)], ids=lambda case: case.id)
def test_rule_case(case: Case, tmp_path: Path) -> None:
    seen = ran(case, tmp_path)
    assert case.inputs is not None
    expected = {
        rule: {(file.name, row) for file in case.files for row, _, name in file.expected() if name == rule}
        for rule in OBSERVED
    }
    observed = {rule: getattr(seen, attribute) for rule, attribute in OBSERVED.items()}
    if case.inputs.get("shared"):
        del expected["quantstub-reused"], observed["quantstub-reused"]
    raising = {(file.name, row) for file in case.files for row, _, name in file.expected() if name in RAISING}
    raising |= sometimes_raising(case)
    if case.inputs.get("torch_warns"):
        own = {place for place in seen.cat_warnings if place[0] not in case.texts()}
        assert own, "torch did not warn"
        observed["cat-mixed-scales"] = seen.cat_warnings - own
    if raising:
        assert seen.raised, "nothing raised"
        message, place = seen.raised[0]
        assert place in raising or case.inputs.get("raises_outside"), seen.raised[0]
        assert place not in expected["quantstub-on-quantized"] or QUANTIZED_TWICE in message
    else:
        assert seen.raised == []
    if raising <= expected["quantstub-on-quantized"]:
        assert observed == expected
    else:  # the run ends before the last line
        assert all(observed[rule] <= expected[rule] for rule in observed)


@pytest.mark.parametrize("case", [case for case in SEMANTICS if with_net(case)], ids=lambda case: case.id)
def test_semantics_case(case: Case, tmp_path: Path) -> None:
    seen = ran(case, tmp_path)
    assert seen.raised == []
    wrong = []
    rows = {(file.name, row): text for file in case.files for row, text in file.revealed().items()}
    for place, value, model in seen.revealed:
        text = rows[place]
        if text is not None and not agrees(text, value, model):
            wrong.append(f"{place[0]}:{place[1]} expects {text}, is {shown(value)}")
    assert not wrong, "\n".join(["", *wrong])
    unreached = set(rows) - {place for place, _, _ in seen.revealed}
    allowed = set(case.inputs.get("unreached", [])) if case.inputs else set()
    assert {row for _, row in unreached} == allowed
    if expects_findings(case.page):
        found = {(file.name, row, name) for file in case.files for row, _, name in file.expected()}
        assert seen.cat_warnings == {(path, row) for path, row, name in found if name == "cat-mixed-scales"}


@pytest.mark.parametrize("case", RULES + SEMANTICS, ids=lambda case: case.id)
def test_case_is_python(case: Case) -> None:
    if case.inputs is not None and case.inputs.get("skip") == UNPARSABLE:
        return
    for file in case.files:
        ast.parse(file.text)
