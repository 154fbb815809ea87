"""A qconfig for post-training quantization is given to a model that is prepared for training.

## What it does
Flags the assignment of a qconfig such as `get_default_qconfig("x86")` to a model that `prepare_qat` gets.

## Why it matters
Such a qconfig holds observers and no fake-quantize modules. `prepare_qat` inserts them without a word, and the model
trains in plain float: it never feels the rounding it is to learn. Measured with torch 2.13.0: 0 FakeQuantize
modules in the model below, 5 with the qconfig for training.

## Bad
    from torch import nn
    import torch.ao.quantization as tq


    def build():
        net = tq.QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = tq.get_default_qconfig("x86")  # QL308
        return tq.prepare_qat(net)

## Good
    from torch import nn
    import torch.ao.quantization as tq


    def build():
        net = tq.QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = tq.get_default_qat_qconfig("x86")
        return tq.prepare_qat(net)

## Fix safety
The fix takes the qconfig of the same name for training. It does what `prepare_qat` asks for; the float model stays the
same.

## When it is silent
Another part of the model has a qconfig for training or one that is not known, the qconfig is not one of the library,
or the model is prepared where the assignment is not in view.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import QconfigAssignment, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import assignments, calls
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId, exclusive
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(code="QL308", name="ptq-qconfig-for-qat", severity=Severity.ERROR, since="0.1", fix="safe")

TWINS = {
    "get_default_qconfig": "get_default_qat_qconfig",
    "default_qconfig": "default_qat_qconfig",
    "default_symmetric_qnnpack_qconfig": "default_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig": "default_per_channel_symmetric_qnnpack_qat_qconfig",
}
"""The qconfig for training of the same name."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per assignment of a qconfig that cannot train."""
    script = ctx.script
    if script is None or script.vendor:
        return
    wrong: dict[SpanId, Finding] = {}
    right: set[SpanId] = set()
    for index, event in assignments(script):
        prepare = _trained(script, index, event)
        if prepare is None:
            right.add(event.span)
        else:
            model = f"`{event.shown}`" if event.shown else "the model"
            note = Note(Message.of("qat-prepared-here"), prepare)
            message = Message.of("ptq-qconfig-for-qat", model=model)
            wrong.setdefault(event.span, Finding(event.span, message, related=(note,), subject=index))
    yield from (finding for span, finding in wrong.items() if span not in right)


def _trained(script: ScriptFacts, index: int, event: QconfigAssignment) -> SpanId | None:
    """Where the model is prepared for training although none of its qconfigs is made for that.

    An assignment in a constructor counts in every method; in others only if nothing else assigns one anywhere.
    """
    others = [each for _, each in assignments(script) if each.members & event.members]
    if event.mode is not Mode.PTQ or any(each.mode is not Mode.PTQ for each in others):
        return None
    found = [
        call
        for number, call in calls(script)
        if number > index and call.members & event.members and call.row.stage is Stage.PREPARE
    ]
    first = found[0] if found and not exclusive(found[0].guard, event.guard) else None
    if first is None or first.row.workflow is not Workflow.EAGER or first.row.mode is not Mode.QAT:
        return None
    return first.span if first.contents.modes == {Mode.PTQ} and first.contents.root in event.members else None


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Take the qconfig for training."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    edit = ctx.edits()
    found = edit.assigned_value(finding.span)
    if found is None:
        raise NoFix("no plain assignment")
    value = found[1]
    spelled, bracket, arguments = value.text.partition("(")
    last = spelled.rpartition(".")[2]
    if last not in TWINS or (bracket and not arguments.rstrip().endswith(")")):
        raise NoFix("a value that is not written here")
    name = edit.spell(finding.span.path, f"torch.ao.quantization.{TWINS[last]}", spelled)
    edit.replace(value.inner, f"{name}{bracket}{arguments}")
    yield edit.fix(Message.of("fix-qat-qconfig"), Message.of("fix-qat-qconfig-reason"), Applicability.SAFE)
