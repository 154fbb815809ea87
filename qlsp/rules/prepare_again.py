"""A model is prepared a second time because the first time it had no qconfig.

## What it does
Flags `prepare` or `prepare_qat` in place on a model that an earlier one, in place too, got without a qconfig.

## Why it matters
The first call stores `qconfig = None` on every module of the model. A module's own attribute beats that of the model
around it, so the qconfig that is assigned afterwards reaches nothing, and the second call does nothing either. Measured
with torch 2.13.0: 0 modules are quantized, and no warning comes with the second call.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        prepare(net, inplace=True)
        net.qconfig = get_default_qconfig("x86")
        prepare(net, inplace=True)  # QL322
        for batch in batches:
            net(batch)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        prepare(net, inplace=True)
        for batch in batches:
            net(batch)
        return convert(net)

## When it is silent
The first call works on a copy, or the model may have had a qconfig.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, QconfigState, ScriptFacts
from qlsp.diagnostics import Message, Severity
from qlsp.rules._life import calls
from qlsp.rules._order import calls_before
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL322", name="prepare-again", severity=Severity.ERROR, since="0.1")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per prepare call that finds nothing left to do."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if not _in_place(call) or call.qconfig is not QconfigState.SET or call.span in seen:
            continue
        first = _without_qconfig(script, index, call)
        if first is not None:
            seen.add(call.span)
            model = f"`{call.model}`" if call.model else "the model"
            note = Note(Message.of("prepared-bare"), first.span)
            yield Finding(call.span, Message.of("prepare-again", call=call.spelling, model=model), related=(note,))


def _in_place(call: LifecycleCall) -> bool:
    row = call.row
    eager = row.stage is Stage.PREPARE and row.workflow is Workflow.EAGER and "run_fn" not in row.params
    return eager and call.inplace is True and not call.in_forward


def _without_qconfig(script: ScriptFacts, index: int, call: LifecycleCall) -> LifecycleCall | None:
    """The earlier call that got the whole model without a qconfig; only the latest one counts."""
    for _, other in calls_before(script, index, Stage.PREPARE):
        bare = _in_place(other) and other.qconfig is QconfigState.ABSENT
        return other if bare and call.members <= other.members and other.span != call.span else None
    return None
