"""Modules are fused after the model was prepared or converted.

## What it does
Flags `fuse_modules` of a model that an earlier `prepare` or `convert` of the same run has already changed.

## Why it matters
Prepare gives each module an observer of its own; a module that fusing makes afterwards has none, and convert leaves it
in float between quantized ones. With a ReLU in the sequence the forward of the converted model raises (torch 2.13):

    RuntimeError: Input type (c10::quint8) and bias type (float) should be the same

After convert there is nothing left to fuse:

    AssertionError: did not find fuser method for

A convolution and its BatchNorm alone can be fused behind prepare, if data passes through the model again afterwards.

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub, convert, fuse_modules, get_default_qconfig, prepare


    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()

        def forward(self, x):
            return self.dequant(self.relu(self.bn(self.conv(self.quant(x)))))


    def quantize(batches):
        net = Stem().eval()
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)
        net = fuse_modules(net, ["conv", "bn", "relu"])  # QL306
        for batch in batches:
            net(batch)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub, convert, fuse_modules, get_default_qconfig, prepare


    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()

        def forward(self, x):
            return self.dequant(self.relu(self.bn(self.conv(self.quant(x)))))


    def quantize(batches):
        net = Stem().eval()
        net.qconfig = get_default_qconfig("x86")
        net = fuse_modules(net, ["conv", "bn", "relu"])
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## Fix safety
The fix moves the call before prepare, if both stand in one block and nothing between binds a name that it needs. The
float model computes the same. It is unsafe where a checkpoint is loaded into the prepared model.

## When it is silent
The order is not known, or what is fused is not written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, ScriptFacts
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import calls_after, calls_before, fed
from qlsp.rules._rewrites import Doubts
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(
    code="QL306",
    name="fuse-after-prepare",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per fuse call that comes too late."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if call.row.stage is not Stage.FUSE or call.span in seen or call.in_forward:
            continue
        finding = _late(script, index, call)
        if finding is not None:
            seen.add(call.span)
            yield finding


def _late(script: ScriptFacts, index: int, call: LifecycleCall) -> Finding | None:
    earlier = calls_before(script, index, Stage.PREPARE, Stage.CONVERT)
    if not earlier or call.fusion is None or not call.fusion.groups:
        return None
    _, last = earlier[0]
    configured = not last.contents.modes <= {Mode.UNKNOWN}
    if last.row.workflow is not Workflow.EAGER or not configured or not call.members <= last.members:
        return None
    note = Note(Message.of("fused-behind"), last.span)
    model = f"`{call.model}`" if call.model else "the model"
    if last.row.stage is Stage.CONVERT:
        message = Message.of("fuse-after-convert", call=call.spelling, model=model)
        return Finding(call.span, message, related=(note,), subject=index)
    parts = [part for group in call.fusion.groups for part in group.parts]
    if any(part is None for part in parts):
        return None
    if any(part is not None and part.startswith("torch.nn.ReLU") for part in parts):
        message = Message.of("fuse-after-prepare", call=call.spelling, model=model)
        return Finding(call.span, message, related=(note,), subject=index)
    converted = calls_after(script, index, Stage.CONVERT)
    if not converted or fed(script, index, converted[0][0]):
        return None
    message = Message.of("fuse-after-prepare-bn", call=call.spelling, model=model)
    return Finding(call.span, message, Severity.WARNING, Predicts.SILENT, related=(note,), subject=index)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Fuse before the model is prepared."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    call, edit, doubts = call_of(ctx, finding), ctx.edits(), Doubts()
    earlier = calls_before(ctx.script, finding.subject, Stage.PREPARE, Stage.CONVERT)
    prepare = next(other for _, other in reversed(earlier) if other.row.stage is Stage.PREPARE)
    if call.path != prepare.path or call.model != prepare.model:
        raise NoFix("other functions, or other names")
    _, later = edit.bound_between(prepare.span, call.span)
    text = edit.text(call.statement)
    if (set(_NAME.findall(text)) - {call.model.partition(".")[0]}) & later:
        raise NoFix("a name that is bound between")
    if not edit.runs_once(call.span) or not edit.runs_once(prepare.span):
        raise NoFix("a call that does not stand alone")
    if edit.loads_prepared(call.span.path):
        doubts.add(Message.of("fix-doubt-checkpoint"))
    edit.move_statement(call.statement, before=prepare.span)
    yield doubts.fix(edit, Message.of("fix-fuse-first"), Message.of("fix-fuse-first-reason"))
