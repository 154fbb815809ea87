"""The model that a life-cycle call gives back is thrown away.

## What it does
Flags `prepare`, `prepare_qat`, `convert`, `quantize`, `quantize_dynamic` and `fuse_modules` without
`inplace=True`, and `prepare_fx`, `prepare_qat_fx`, `convert_fx` and `fuse_fx`, when the call is a statement of its
own.

## Why it matters
Without `inplace=True` these functions work on a copy and give it back. The model the code goes on with has no
observers, or is not converted; a later `convert` of it does nothing. Measured with torch 2.13.0: 0 modules are
quantized, and neither an exception nor a warning says so.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        prepare(net)  # QL303
        for batch in batches:
            net(batch)
        convert(net)  # QL303
        return net

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        prepare(net, inplace=True)
        for batch in batches:
            net(batch)
        convert(net, inplace=True)
        return net

## When it is silent
`inplace` is True or not known, the result is used, or a test expects the call to fail.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall
from qlsp.diagnostics import Message, Severity
from qlsp.rules._life import calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL303", name="result-ignored", severity=Severity.ERROR, since="0.1")

STAGES = (Stage.FUSE, Stage.PREPARE, Stage.CONVERT, Stage.DYNAMIC)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per life-cycle call whose result nobody gets."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for _, call in calls(script):
        if call.statement in seen or not _thrown_away(call):
            continue
        seen.add(call.statement)
        model = f"`{call.model}`" if call.model else "the model"
        kind = "result-ignored" if call.rebinds is None else "result-kept-local"
        if "inplace" not in call.row.params:
            kind = f"{kind}-traced"
        yield Finding(call.statement, Message.of(kind, call=call.spelling, model=model))


def _thrown_away(call: LifecycleCall) -> bool:
    if call.row.workflow not in (Workflow.EAGER, Workflow.FX) or call.row.stage not in STAGES:
        return False
    return call.inplace is False and (call.ignored or call.rebinds is not None)
