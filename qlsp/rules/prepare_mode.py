"""A model is observed in the wrong mode.

## What it does
Flags a `prepare` after which data passes through the model in training mode, if it has BatchNorm or Dropout; a
`prepare_qat` of a model in eval mode; `prepare_fx` of a model with BatchNorm in training mode, and `prepare_qat_fx` of
one in eval mode.

## Why it matters
In training mode a BatchNorm normalizes with the statistics of the batch and moves its running statistics, and Dropout
drops: the observers see other ranges than the deployed model has. Measured with torch 2.13.0: 3.5 instead of 32.7 dB
with BatchNorm, 31.0 instead of 32.4 dB with Dropout. Nothing warns.

The other functions refuse the wrong mode:

    AssertionError: prepare_qat only works on models in training mode
    AssertionError: Fusion only for eval!

`prepare_qat_fx` takes a model in eval mode without a word; no harm of that was measured.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 2)))
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)  # QL304
        for batch in batches:
            net(batch)
        return convert(net.eval())

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 2)))
        net.qconfig = get_default_qconfig("x86")
        net.eval()
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net.eval())

## Fix safety
The fix sets the mode in the line before prepare. It does what the function asks for. Unsafe where prepare copies a
model that the function gets, or that is used afterwards: it would go on in eval mode.

## When it is silent
The mode is not known: the model comes from outside and nothing in view sets its mode, a flag decides it, or code that
is not in view gets the model. A prepare in training mode that is followed by `eval()` before data comes is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import LifecycleCall, ModelStep, ScriptFacts, StepKind
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import DROPS, NORMALIZES, after, training
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Mode, Stage, Workflow

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(code="QL304", name="prepare-mode", severity=Severity.ERROR, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per prepare call in the wrong mode."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if call.row.stage is not Stage.PREPARE or call.span in seen or call.in_forward:
            continue
        finding = _judged(script, index, call)
        if finding is not None:
            seen.add(call.span)
            yield finding


def _judged(script: ScriptFacts, index: int, call: LifecycleCall) -> Finding | None:
    model = f"`{call.model}`" if call.model else "the model"
    mode = training(script, index, call.contents.root, call.contents.whole) if call.contents.root is not None else None
    if call.row.mode is Mode.QAT:
        if mode is not False:
            return None
        if call.row.workflow is Workflow.EAGER:
            message = Message.of("prepare-mode-qat", call=call.spelling, model=model)
            return Finding(call.span, message, predicts=Predicts.RAISES, subject=index)
        if call.row.workflow is Workflow.FX:
            message = Message.of("prepare-mode-qat-fx", call=call.spelling, model=model)
            return Finding(call.span, message, severity=Severity.INFO, subject=index)
        return None
    if call.row.workflow is Workflow.FX:
        if mode is True and _modules(call, NORMALIZES):
            message = Message.of("prepare-mode-fx", call=call.spelling, model=model)
            return Finding(call.span, message, predicts=Predicts.RAISES, subject=index)
        return None
    return _calibrated_in_training(script, index, call, model) if call.row.workflow is Workflow.EAGER else None


def _calibrated_in_training(script: ScriptFacts, index: int, call: LifecycleCall, model: str) -> Finding | None:
    """Data that passes through a BatchNorm or Dropout in training mode before anything sets the mode."""
    for prefixes, gain in ((NORMALIZES, "3.5 instead of 32.7"), (DROPS, "31.0 instead of 32.4")):
        modules = _modules(call, prefixes)
        for number, event in after(script, index):
            if isinstance(event, LifecycleCall) and event.row.stage in (Stage.CONVERT, Stage.PREPARE):
                break
            if not isinstance(event, ModelStep) or event.kind is not StepKind.RUN or not modules & event.members:
                continue
            whole = call.contents.whole
            if any(training(script, number, module, whole) is True for module in modules & event.members):
                message = Message.of("prepare-mode", call=call.spelling, model=model, db=gain)
                note = Note(Message.of("prepare-mode-run"), event.span)
                return Finding(call.span, message, related=(note,), subject=index)
            break
    return None


def _modules(call: LifecycleCall, prefixes: tuple[str, ...]) -> frozenset[int]:
    return frozenset(module for module, cls in call.contents.modules if cls.startswith(prefixes))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Set the mode in the line before prepare."""
    call, edit = call_of(ctx, finding), ctx.edits()
    if not call.model or not edit.runs_once(call.span):
        raise NoFix("a model without a name, or a call that does not stand alone")
    mode = "train" if call.row.mode is Mode.QAT else "eval"
    edit.insert_before(call.span, f"{call.model}.{mode}()")
    title = Message.of("fix-set-mode", model=call.model, mode=mode)
    if mode == "eval" and _goes_on(edit, call):
        yield edit.fix(title, Message.of("fix-doubt-goes-on", model=call.model), Applicability.UNSAFE)
    else:
        yield edit.fix(title, Message.of("fix-set-mode-reason"), Applicability.SAFE)


def _goes_on(edit: EditBuilder, call: LifecycleCall) -> bool:
    """Does code have the model in hand after a prepare that made a copy, which may go on training it?"""
    if call.inplace or not call.model:
        return False
    name = rf"(?<![\w.]){re.escape(call.model)}\b"
    if edit.shown_before(call.span, re.compile(rf"\A\s*(?:async\s+)?def\s[^:]*{name}")):
        return True
    bound = edit.statement_matches(call.span, re.compile(rf"\A{re.escape(call.model)}\s*(?::[^=\n]*)?=(?!=)"))
    return not bound and edit.shown_after(call.span, re.compile(name))
