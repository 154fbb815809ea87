"""A model is converted that was never prepared.

## What it does
Flags `convert` and `convert_fx` of a model whose whole life is in view, if nothing prepared it.

## Why it matters
Convert replaces modules that have an observer. Without prepare there is none: eager mode's `convert` gives the float
model back without a word (measured with torch 2.13.0: 0 modules quantized), and `convert_fx` raises

    ValueError: input model must be a GraphModule

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        for batch in batches:
            net(batch)
        return convert(net)  # QL321

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## When it is silent
The model comes from outside, code that is not in view gets it, a part of it is not known, it is prepared on some path,
or what `convert` is asked for needs no observers (a mapping, reference modules).
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Handover, LifecycleCall, ScriptFacts
from qlsp.diagnostics import Message, Predicts, Severity
from qlsp.rules._life import calls
from qlsp.rules._order import before
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL321", name="convert-without-prepare", severity=Severity.ERROR, since="0.1")

PLAIN = frozenset({"module", "model", "graph_module", "inplace"})
MADE_QUANTIZED = ("torch.ao.nn.quantized.", "torch.ao.nn.qat.", "torch.ao.nn.intrinsic.qat.")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per convert call that finds no observers."""
    script = ctx.script
    if script is None or script.vendor:
        return
    bare: dict[SpanId, Finding] = {}
    fine: set[SpanId] = set()
    for index, call in calls(script):
        if call.row.stage is not Stage.CONVERT or call.in_forward:
            continue
        if not _bare(script, index, call):
            fine.add(call.span)
            continue
        model = f"`{call.model}`" if call.model else "the model"
        traced = call.row.workflow is Workflow.FX
        kind = "convert-without-prepare-fx" if traced else "convert-without-prepare"
        message = Message.of(kind, call=call.spelling, model=model)
        predicts = Predicts.RAISES if traced else Predicts.SILENT
        bare.setdefault(call.span, Finding(call.span, message, predicts=predicts, subject=index))
    yield from (finding for span, finding in bare.items() if span not in fine)


def _bare(script: ScriptFacts, index: int, call: LifecycleCall) -> bool:
    """Is every event of the model in view, and none of them a prepare?"""
    if call.row.workflow not in (Workflow.EAGER, Workflow.FX) or not call.passed <= PLAIN or not call.contents.whole:
        return False
    if any(cls.startswith(MADE_QUANTIZED) and "FloatFunctional" not in cls for _, cls in call.contents.modules):
        return False
    return not any(
        isinstance(other, Handover) or isinstance(other, LifecycleCall) and other.row.stage is not Stage.FUSE
        for _, other in before(script, index)
    )
