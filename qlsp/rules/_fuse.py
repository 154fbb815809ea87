"""Questions to fuse calls that several rules ask."""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import FuseGroup, Fusion, LifecycleCall, Workflow
from qlsp.rules._life import calls
from qlsp.rules.api import RuleContext
from qlsp.values.workflow import Stage


def fuse_calls(ctx: RuleContext) -> Iterator[tuple[int, LifecycleCall, Fusion]]:
    """The fuse calls of eager mode whose list is known, with their places in the order of events.

    A call that runs several times, on several models or for several names, is several events.
    """
    if ctx.script is None or ctx.script.vendor:
        return
    for index, call in calls(ctx.script):
        if call.row.stage is Stage.FUSE and call.row.workflow is Workflow.EAGER and call.fusion is not None:
            yield index, call, call.fusion


def changed(fusion: Fusion) -> list[FuseGroup]:
    """The sequences that change the float model."""
    return [group for group in fusion.groups if group.change is not None]


def shown(names: tuple[str, ...]) -> str:
    """Names as a list in a message."""
    return ", ".join(f"`{name}`" for name in names)


def classes(group: FuseGroup) -> str:
    """The classes of a sequence as a list in a message."""
    return ", ".join((part or "?").rpartition(".")[2].rpartition(":")[2] for part in group.parts)
