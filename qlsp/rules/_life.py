"""Questions to the order of life-cycle events that several rules ask."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import Handover, LifecycleCall, QconfigAssignment, ScriptFacts
from qlsp.rules.api import Finding, RuleContext
from qlsp.values.value import exclusive
from qlsp.values.workflow import Stage

NEED_A_QCONFIG = ("QL503",)
"""Findings about the layers of a prepared model that a qconfig reaches."""
_MAY_PREPARE = re.compile(r"prepare|quant|qat", re.IGNORECASE)


def calls(script: ScriptFacts) -> Iterator[tuple[int, LifecycleCall]]:
    """The life-cycle calls of a file with their places in the order of events."""
    for index, event in enumerate(script.events):
        if isinstance(event, LifecycleCall):
            yield index, event


def assignments(script: ScriptFacts) -> Iterator[tuple[int, QconfigAssignment]]:
    """The assignments of a qconfig other than None to something that may be a module."""
    for index, event in enumerate(script.events):
        if isinstance(event, QconfigAssignment) and not event.cleared and not event.in_forward:
            yield index, event


def assigned_after(script: ScriptFacts, index: int) -> bool:
    """Does the model of this call, or a part of it, get a qconfig later in the same run?"""
    call = script.events[index]
    assert isinstance(call, LifecycleCall)
    return any(
        later > index
        and event.entry == call.entry
        and event.members & call.members
        and not exclusive(event.guard, call.guard)
        for later, event in assignments(script)
    )


def prepared_before(script: ScriptFacts, index: int) -> list[tuple[int, LifecycleCall]]:
    """The eager prepare calls that certainly ran before this assignment on the model it is made on."""
    event = script.events[index]
    assert isinstance(event, QconfigAssignment)
    return [
        (earlier, call)
        for earlier, call in calls(script)
        if earlier < index
        and call.entry == event.entry
        and call.row.stage is Stage.PREPARE
        and call.members & event.members
        and call.guard <= event.guard
    ]


def moved_after(script: ScriptFacts, index: int, stage: Stage) -> bool:
    """Does a call of this stage on the same model follow?"""
    event = script.events[index]
    assert isinstance(event, QconfigAssignment)
    return any(
        later > index
        and call.entry == event.entry
        and call.row.stage is stage
        and call.members & event.members
        and not exclusive(call.guard, event.guard)
        for later, call in calls(script)
    )


def may_be_prepared_after(script: ScriptFacts, index: int) -> bool:
    """Is the model prepared again, or handed to code that by its name may do that?"""
    event = script.events[index]
    assert isinstance(event, QconfigAssignment)
    if moved_after(script, index, Stage.PREPARE):
        return True
    return any(
        isinstance(later, Handover)
        and later.entry == event.entry
        and later.members & event.members
        and _MAY_PREPARE.search(later.callee)
        for later in script.events[index + 1 :]
    )


def call_of(ctx: RuleContext, finding: Finding) -> LifecycleCall:
    """The call that a finding is about."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    event = ctx.script.events[finding.subject]
    assert isinstance(event, LifecycleCall)
    return event
