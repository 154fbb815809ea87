"""A prepared model is converted before it has seen any data.

## What it does
Flags `convert` of a model that was prepared for post-training quantization, if no forward runs in
between.

## Why it matters
The observers have no ranges, so convert gives every tensor scale 1 and zero point 0. Measured with torch 2.13.0: 1.5
instead of 37.1 dB, with the warning `must run observer before calling calculate_qparams. Returning default scale and
zero point`. Data that passes through the model after convert changes nothing.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)
        return convert(net)  # QL307

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

## Fix safety
The fix is shown only: nobody but you knows the data.

## When it is silent
Code that is not in view gets the model in between, a state is loaded into it (also after convert: the saved scales
replace those that were found), prepare and convert stand in functions
whose order is not known, the qconfig needs no data (dynamic, weight only) or is not known, or the model is a bare
layer, which convert leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import before, fed, loaded
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(code="QL307", name="missing-calibration", severity=Severity.ERROR, since="0.1", fix="display")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per convert call on a model without data."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen: dict[SpanId, Finding] = {}
    for index, call, prepare in _converts(script):
        if prepare is not None:
            model = f"`{call.model}`" if call.model else "the model"
            note = Note(Message.of("calibration-prepared-here"), prepare.span)
            message = Message.of("missing-calibration", call=call.spelling, model=model)
            seen.setdefault(call.span, Finding(call.span, message, related=(note,), subject=index))
    everywhere = (each for other in {id(s): s for s in (script, *ctx.scripts)}.values() for each in _converts(other))
    fine = {call.span for _, call, prepare in everywhere if prepare is None} if seen else set()
    yield from (finding for span, finding in seen.items() if span not in fine)


def _converts(script: ScriptFacts) -> Iterator[tuple[int, LifecycleCall, LifecycleCall | None]]:
    """The convert calls of a file's runs; with each the call that prepared a model that never sees data nor a state."""
    for index, call in calls(script):
        if call.row.stage is Stage.CONVERT and call.row.workflow is Workflow.EAGER and not call.in_forward:
            yield index, call, None if loaded(script, index) else _prepared(script, index, call)


def _prepared(script: ScriptFacts, index: int, call: LifecycleCall) -> LifecycleCall | None:
    """The call that prepared the model of a convert call, if nothing can have passed through it since."""
    for number, other in before(script, index):
        if not isinstance(other, LifecycleCall) or other.row.stage is not Stage.PREPARE:
            continue
        whole = other.guard <= call.guard and call.members <= other.members | _new(other, call)
        static = other.row.mode is Mode.PTQ and other.contents.modes == {Mode.PTQ} and "run_fn" not in other.row.params
        alone = other.contents.leaf is not None and len(other.contents.modules) == 1
        return other if whole and static and not alone and not fed(script, number, index) else None
    return None


def _new(prepare: LifecycleCall, convert: LifecycleCall) -> frozenset[int]:
    """Modules that only the later call knows: those that fusing made."""
    return convert.members - prepare.members if prepare.contents.root in convert.members else frozenset()


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Show where the data has to pass through."""
    call, edit = call_of(ctx, finding), ctx.edits()
    if not call.model or not edit.runs_once(call.span):
        raise NoFix("a model without a name, or a call that does not stand alone")
    loop = ["for batch in calibration_data:", f"    {call.model}(batch)"]
    edit.insert_before(call.span, edit.lines(call.statement, loop))
    yield edit.fix(Message.of("fix-calibrate"), Message.of("fix-calibrate-reason"), Applicability.DISPLAY)
