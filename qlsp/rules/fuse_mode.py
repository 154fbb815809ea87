"""BatchNorm is fused in the wrong mode.

## What it does
Flags `fuse_modules` of a convolution or linear layer with its BatchNorm while the model is in training mode, and
`fuse_modules` of such layers in a model that `prepare_qat` gets afterwards.

## Why it matters
`fuse_modules` folds the running statistics of the BatchNorm into the weights, which only makes sense when they no
longer move. In training mode it raises (torch 2.13):

    AssertionError: Fusion only for eval!

In eval mode it works, but what training is to adapt is gone: measured with torch 2.13.0, 0 BatchNorms are left in the
example after `fuse_modules` and `prepare_qat`, against 1 inside of `ConvBnReLU2d` with `fuse_modules_qat`, which takes
a model in either mode.

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub, fuse_modules, get_default_qat_qconfig, prepare_qat


    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()

        def forward(self, x):
            return self.dequant(self.relu(self.bn(self.conv(self.quant(x)))))


    def build():
        net = Stem().eval()
        net = fuse_modules(net, ["conv", "bn", "relu"])  # QL305
        net.train()
        net.qconfig = get_default_qat_qconfig("x86")
        return prepare_qat(net)

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub, fuse_modules_qat, get_default_qat_qconfig, prepare_qat


    class Stem(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()

        def forward(self, x):
            return self.dequant(self.relu(self.bn(self.conv(self.quant(x)))))


    def build():
        net = Stem().eval()
        net = fuse_modules_qat(net, ["conv", "bn", "relu"])
        net.train()
        net.qconfig = get_default_qat_qconfig("x86")
        return prepare_qat(net)

## Fix safety
Unsafe: in front of `prepare_qat` the fix takes `fuse_modules_qat`, whose modules have other names in a checkpoint;
elsewhere it calls `eval()` before.

## When it is silent
The mode or the sequence is not known, the same call also serves calibration, `prepare_qat` comes on other paths, or
the project uses a torch below 1.12, whose `fuse_modules` went by the mode of the model. A sequence without a layer in
front of the BatchNorm is not folded.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import FuseForm, FuseGroup, LifecycleCall, ModelStep, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._fuse import fuse_calls
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import MODES, NORMALIZES, before, calls_after, training
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(
    code="QL305",
    name="fuse-mode",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)

AO = "torch.ao.quantization."
BY_MODE = (1, 12)
"""Before this version of torch, ``fuse_modules`` went by the mode of the model, and had no twin for training."""
FOLDS = ("torch.nn.Conv", "torch.nn.Linear")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per fuse call that folds a BatchNorm in the wrong mode."""
    script = ctx.script
    if script is None or (ctx.torch is not None and ctx.torch < BY_MODE):
        return
    seen = set()
    for index, call, fusion in fuse_calls(ctx):
        if call.row.mode is Mode.QAT or call.span in seen or call.in_forward or fusion.form is not FuseForm.GOOD:
            continue
        group = next((group for group in fusion.groups if _folds(group)), None)
        finding = _judged(script, index, call, group) if group is not None else None
        if finding is not None:
            seen.add(call.span)
            yield finding


def _folds(group: FuseGroup) -> bool:
    """Does a sequence certainly fold a BatchNorm into the layer before it?"""
    layer, norm = group.parts[:2] if len(group.parts) > 1 else (None, None)
    return bool(group.fusable and layer and norm and layer.startswith(FOLDS) and norm.startswith(NORMALIZES))


def _judged(script: ScriptFacts, index: int, call: LifecycleCall, group: FuseGroup) -> Finding | None:
    model = f"`{call.model}`" if call.model else "the model"
    names = ", ".join(f"`{name}`" for name in group.names)
    later = _trained(script, index)
    if _in_training(script, index, call):
        twin = "Take `fuse_modules_qat`." if later is not None else "Call `eval()` before."
        message = Message.of("fuse-mode", call=call.spelling, model=model, names=names, remedy=twin)
        return Finding(call.span, message, subject=index)
    if later is None or _serves_calibration(script, call):
        return None
    message = Message.of("fuse-mode-qat", call=call.spelling, model=model, names=names)
    note = Note(Message.of("qat-prepared-here"), later.span)
    return Finding(call.span, message, Severity.WARNING, Predicts.SILENT, related=(note,), subject=index)


def _in_training(script: ScriptFacts, index: int, call: LifecycleCall) -> bool:
    """Are all BatchNorms of the model in training mode, without a branch in between that may depend on the mode?"""
    norms = [module for module, cls in call.contents.modules if cls.startswith(NORMALIZES)]
    if not norms or not all(training(script, index, module, call.contents.whole) for module in norms):
        return False
    last = next((e for _, e in before(script, index) if isinstance(e, ModelStep) and e.kind in MODES), None)
    return call.guard == (last.guard if last is not None else frozenset())


def _trained(script: ScriptFacts, index: int) -> LifecycleCall | None:
    """The ``prepare_qat`` that gets the fused model next, on the same paths: a branch between may depend on the
    mode."""
    call = script.events[index]
    assert isinstance(call, LifecycleCall)
    for _, later in calls_after(script, index, Stage.PREPARE, Stage.CONVERT):
        qat = later.row.stage is Stage.PREPARE and later.row.mode is Mode.QAT and later.row.workflow is Workflow.EAGER
        return later if qat and later.guard == call.guard else None
    return None


def _serves_calibration(script: ScriptFacts, call: LifecycleCall) -> bool:
    """Does the same call also fuse a model that is prepared for calibration?"""
    same = [number for number, other in calls(script) if other.span == call.span]
    return any(later.row.mode is Mode.PTQ for number in same for _, later in calls_after(script, number, Stage.PREPARE))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Fuse for training, or set the mode in the line before."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    call, edit = call_of(ctx, finding), ctx.edits()
    if _trained(ctx.script, finding.subject) is not None:
        if _serves_calibration(ctx.script, call):
            raise NoFix("the call also serves calibration")
        name = edit.import_name(call.span.path, f"{AO}fuse_modules_qat")
        edit.replace(edit.call(call.span).function, name)
        title, reason = Message.of("fix-fuse-qat"), Message.of("fix-fuse-qat-reason")
    else:
        if not call.model or not edit.runs_once(call.span):
            raise NoFix("a model without a name, or a call that does not stand alone")
        edit.insert_before(call.span, f"{call.model}.eval()")
        title, reason = Message.of("fix-set-mode", model=call.model, mode="eval"), Message.of("fix-set-mode-reason")
    yield edit.fix(title, reason, Applicability.UNSAFE)
