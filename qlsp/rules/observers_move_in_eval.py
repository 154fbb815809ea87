"""A model that is trained for quantization is evaluated, and its observers go on.

## What it does
Flags `eval()` of a model that `prepare_qat` has prepared, if data passes through the model afterwards and nothing
in view has called `disable_observer` on it.

## Why it matters
`eval()` does not stop the observers of fake-quantize modules: every batch of the evaluation moves the ranges, so the
result depends on the data it is measured on and on how often that is done. Measured with torch 2.13.0: 20 batches of
twice the width in eval mode move the scale of the input from 0.027 to 0.034, and none with `disable_observer`.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import QuantWrapper, get_default_qat_qconfig, prepare_qat


    def train(batches, held_out):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)
        for batch in batches:
            net(batch).pow(2).mean().backward()
        net.eval()  # QL324
        with torch.no_grad():
            scores = [net(batch).mean() for batch in held_out]
        return net, scores

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import QuantWrapper, disable_observer, get_default_qat_qconfig, prepare_qat


    def train(batches, held_out):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)
        for batch in batches:
            net(batch).pow(2).mean().backward()
        net.eval()
        net.apply(disable_observer)
        with torch.no_grad():
            scores = [net(batch).mean() for batch in held_out]
        return net, scores

## Fix safety
The fix is shown only. Who trains on afterwards calls `enable_observer` there.

## When it is silent
The observers are switched off somewhere in the run, code that is not in view gets the model, the qconfig is not one
for training, or what is evaluated is converted first.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Handover, LifecycleCall, ModelStep, ScriptFacts, StepKind
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._order import MODES, after, before
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(code="QL324", name="observers-move-in-eval", severity=Severity.INFO, since="0.1", fix="display")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per evaluation whose data moves the ranges."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, event in enumerate(script.events):
        if not isinstance(event, ModelStep) or event.kind is not StepKind.EVAL or event.span in seen:
            continue
        if not _observed(script, index, event):
            continue
        run = _run(script, index)
        if run is not None:
            seen.add(event.span)
            model = f"`{event.shown}`" if event.shown else "the model"
            note = Note(Message.of("observers-run"), run.span)
            yield Finding(event.span, Message.of("observers-move-in-eval", model=model), related=(note,), subject=index)


def _observed(script: ScriptFacts, index: int, event: ModelStep) -> bool:
    """Is this certainly a model that was prepared for training, with observers that nothing may have switched off?"""
    for _, other in before(script, index):
        if isinstance(other, Handover) and other.callee != "a call":
            return False
        if isinstance(other, ModelStep) and other.kind is StepKind.OBSERVERS_OFF:
            return False
        if isinstance(other, LifecycleCall) and other.row.stage in (Stage.PREPARE, Stage.CONVERT):
            row, root = other.row, other.contents.root
            trains = row.stage is Stage.PREPARE and row.mode is Mode.QAT and row.workflow is Workflow.EAGER
            whole = root in event.members and other.guard <= event.guard and "run_fn" not in row.params
            return trains and whole and other.contents.modes == {Mode.QAT} and not other.in_forward
    return False


def _run(script: ScriptFacts, index: int) -> ModelStep | None:
    """The first run of the model in eval mode, before anything changes it."""
    for _, other in after(script, index):
        if isinstance(other, (Handover, LifecycleCall)):
            return None
        if isinstance(other, ModelStep):
            if other.kind in MODES and other.kind is not StepKind.EVAL or other.kind is StepKind.OBSERVERS_OFF:
                return None
            if other.kind is StepKind.RUN:
                return other
    return None


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Show where the observers are switched off."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    step, edit = ctx.script.events[finding.subject], ctx.edits()
    assert isinstance(step, ModelStep)
    if not step.shown or not edit.runs_once(step.span):
        raise NoFix("a model without a name, or a call that does not stand alone")
    name = edit.spell(finding.span.path, "torch.ao.quantization.disable_observer")
    edit.insert_after(step.statement, f"{step.shown}.apply({name})")
    yield edit.fix(Message.of("fix-observers-off"), Message.of("fix-observers-off-reason"), Applicability.DISPLAY)
