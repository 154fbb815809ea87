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
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))).eval()
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
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        prepare(net, inplace=True)
        for batch in batches:
            net(batch)
        convert(net, inplace=True)
        return net

## Fix safety
The fix adds `inplace=True`, so that the model the code goes on with is the one that is prepared or converted. In FX
graph mode it binds the result to the name of the model, if that name is local. It is unsafe where a checkpoint is
loaded behind `prepare`, and for `fuse_modules` and `fuse_fx` where the code handles a `state_dict`: the names of the
parameters and buffers are then others.

## When it is silent
`inplace` is True or not known, the result is used, or a test expects the call to fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall
from qlsp.diagnostics import Fix, Message, NoFix, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL303", name="result-ignored", severity=Severity.ERROR, since="0.1", fix="safe")

STAGES = (Stage.FUSE, Stage.PREPARE, Stage.CONVERT, Stage.DYNAMIC)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per life-cycle call whose result nobody gets."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if call.statement in seen or not _thrown_away(call):
            continue
        seen.add(call.statement)
        model = f"`{call.model}`" if call.model else "the model"
        kind = "result-ignored" if call.rebinds is None else "result-kept-local"
        if "inplace" not in call.row.params:
            kind = f"{kind}-traced"
        yield Finding(call.statement, Message.of(kind, call=call.spelling, model=model), subject=index)


def _thrown_away(call: LifecycleCall) -> bool:
    if call.row.workflow not in (Workflow.EAGER, Workflow.FX) or call.row.stage not in STAGES:
        return False
    return call.inplace is False and (call.ignored or call.rebinds is not None)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Work in place where the call can; bind the result to the name of the model where it cannot."""
    call = call_of(ctx, finding)
    from qlsp.rules._rewrites import Doubts

    edit, doubts = ctx.edits(), Doubts()
    if edit.loads_prepared(call.span.path):
        doubts.add(Message.of("fix-doubt-checkpoint"))
    elif call.row.stage is Stage.FUSE and edit.matches(_STATE_DICT):
        doubts.add(Message.of("fix-doubt-fused"))
    if call.row.stage is Stage.FUSE and _fused_again(ctx, call):
        raise NoFix("in place, another call would fuse the same modules a second time, which raises")
    if "inplace" in call.row.params:
        edit.set_argument(call.span, call.row.params.index("inplace"), "inplace", "True")
        yield doubts.fix(edit, Message.of("fix-inplace"), Message.of("fix-inplace-reason"))
        return
    if not call.model or "." in call.model or not call.ignored or not edit.may_rebind(call.span, call.model):
        raise NoFix("not a local name, or one that others share")
    edit.wrap(call.statement, f"{call.model} = ", "")
    title = Message.of("fix-rebind", model=call.model)
    yield doubts.fix(edit, title, Message.of("fix-rebind-reason"))


def _fused_again(ctx: RuleContext, call: LifecycleCall) -> bool:
    """Does another call fuse modules that this one may fuse?"""
    assert ctx.script is not None
    others = [
        each
        for each in ctx.script.events
        if isinstance(each, LifecycleCall)
        and each.row.stage is Stage.FUSE
        and each.span != call.span
        and each.members & call.members
    ]
    own = _fused(call)
    return any(own is None or (names := _fused(each)) is None or own & names for each in others)


def _fused(call: LifecycleCall) -> frozenset[str] | None:
    """The names that a call fuses, None where they are not written out."""
    if call.fusion is None or not call.fusion.groups:
        return None
    return frozenset(name for group in call.fusion.groups for name in group.names)


_STATE_DICT = re.compile(r"\b(?:load_)?state_dict\b")
