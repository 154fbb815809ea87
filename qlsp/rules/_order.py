"""What happened to a model before and after an event of its run: modes, forward runs, other life-cycle calls."""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Handover, LifecycleCall, LifeEvent, ModelStep, QconfigAssignment, ScriptFacts, StepKind
from qlsp.values.value import exclusive
from qlsp.values.workflow import Stage

ModelEvent = LifecycleCall | QconfigAssignment | Handover | ModelStep

MODES = {StepKind.TRAIN: True, StepKind.EVAL: False, StepKind.MODE: None}
NORMALIZES = ("torch.nn.BatchNorm", "torch.nn.SyncBatchNorm")
DROPS = ("torch.nn.Dropout", "torch.nn.AlphaDropout", "torch.nn.FeatureAlphaDropout")


def of_model(event: LifeEvent, other: ModelEvent) -> bool:
    """Do two events of one run concern a model, or a part of it, on paths that can both be taken?"""
    if not isinstance(event, (LifecycleCall, QconfigAssignment, Handover, ModelStep)):
        return False
    same = event.entry == other.entry and bool(event.members & other.members)
    return same and not exclusive(event.guard, other.guard)


def before(script: ScriptFacts, index: int) -> Iterator[tuple[int, ModelEvent]]:
    """What may have happened to the model of an event before it, the latest first."""
    event = script.events[index]
    assert isinstance(event, (LifecycleCall, QconfigAssignment, Handover, ModelStep))
    for number in range(index - 1, -1, -1):
        other = script.events[number]
        if of_model(other, event):
            assert isinstance(other, (LifecycleCall, QconfigAssignment, Handover, ModelStep))
            yield number, other


def after(script: ScriptFacts, index: int) -> Iterator[tuple[int, ModelEvent]]:
    """What may happen to the model of an event after it."""
    event = script.events[index]
    assert isinstance(event, (LifecycleCall, QconfigAssignment, Handover, ModelStep))
    for number in range(index + 1, len(script.events)):
        other = script.events[number]
        if of_model(other, event):
            assert isinstance(other, (LifecycleCall, QconfigAssignment, Handover, ModelStep))
            yield number, other


def calls_before(script: ScriptFacts, index: int, *stages: Stage) -> list[tuple[int, LifecycleCall]]:
    """The life-cycle calls of these stages that certainly came before an event, the latest first."""
    event = script.events[index]
    assert isinstance(event, (LifecycleCall, QconfigAssignment, Handover, ModelStep))
    return [
        (number, other)
        for number, other in before(script, index)
        if isinstance(other, LifecycleCall) and other.row.stage in stages and other.guard <= event.guard
    ]


def calls_after(script: ScriptFacts, index: int, *stages: Stage) -> list[tuple[int, LifecycleCall]]:
    """The life-cycle calls of these stages that may follow an event."""
    return [
        (number, other)
        for number, other in after(script, index)
        if isinstance(other, LifecycleCall) and other.row.stage in stages
    ]


def training(script: ScriptFacts, index: int, module: int, built_here: bool) -> bool | None:
    """Is a module in training mode at an event? None where it is not known.

    A module that this run builds is in training mode until something says otherwise. Code that gets the model and is
    not in view may change the mode.
    """
    event = script.events[index]
    assert isinstance(event, (LifecycleCall, QconfigAssignment, Handover, ModelStep))
    for _, other in before(script, index):
        if module not in other.members:
            continue
        if isinstance(other, Handover) and other.callee != "a call":
            return None
        if isinstance(other, ModelStep) and other.kind in MODES:
            return MODES[other.kind] if other.guard <= event.guard else None
    return True if built_here else None


def fed(script: ScriptFacts, start: int, end: int) -> bool:
    """May data have passed through a model, or its state been loaded, between two events?"""
    return any(
        start < number < end
        and (
            isinstance(other, Handover)
            or isinstance(other, ModelStep)
            and other.kind in (StepKind.RUN, StepKind.LOAD)
        )
        for number, other in before(script, end)
    )


def loaded(script: ScriptFacts, index: int) -> bool:
    """May a saved state be loaded into a model after an event?"""
    return any(isinstance(other, ModelStep) and other.kind is StepKind.LOAD for _, other in after(script, index))
