"""A qconfig is assigned after the model was prepared.

## What it does
Flags an assignment to `.qconfig` of a model that an earlier `prepare` or `prepare_qat` of the same run has
already prepared, where no later prepare follows.

## Why it matters
Prepare reads the qconfig and inserts the observers; afterwards nobody reads it again. Without a qconfig at that
time the model stays in float: measured with torch 2.13.0, 0 modules are quantized, and the only sign is the
warning `None of the submodule got qconfig applied`.

Calling prepare a second time, in place, does not repair it: the first one stored `qconfig = None` on every child.
Nor has a second qconfig an effect on a model that had one at prepare: convert reads the observers that are there
(only a single layer's weight observer comes from its qconfig even then). Measured: the same output to the bit.
Assign before the first prepare, or build the model again.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))).eval()
        net = prepare(net)
        net.qconfig = get_default_qconfig("x86")  # QL302
        for batch in batches:
            net(batch)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## Fix safety
The fix moves the assignment before prepare, if both stand in one block and nothing between binds a name that it
needs. The model is then quantized, as the code asks.

## When it is silent
`qconfig = None` after prepare (it keeps a layer from being converted), a model that is prepared again later, a
layer of a model that had a qconfig (convert takes the weight observer from it), and methods whose order is not
known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import QconfigAssignment, QconfigState, QconfigTarget, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import NEED_A_QCONFIG, assignments, call_of, may_be_prepared_after, moved_after, prepared_before
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL302", name="qconfig-after-prepare", severity=Severity.ERROR, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per assignment that comes too late."""
    script = ctx.script
    if script is None or script.vendor:
        return
    early = {
        event.span
        for index, event in assignments(script)
        if moved_after(script, index, Stage.PREPARE) and not prepared_before(script, index)
    }
    seen = set()
    for index, event in assignments(script):
        if event.span in seen or event.span in early:
            continue
        prepare = _too_late(script, index, event)
        if prepare is not None:
            seen.add(event.span)
            model = f"`{event.shown}`" if event.shown else "the model"
            note = Note(Message.of("qconfig-prepared-here"), script.events[prepare].span)
            message = Message.of("qconfig-after-prepare", model=model)
            yield Finding(event.span, message, related=(note,), subject=prepare)


def _too_late(script: ScriptFacts, index: int, event: QconfigAssignment) -> int | None:
    """The prepare call that this assignment comes after, if it certainly has no effect."""
    earlier = prepared_before(script, index)
    if not earlier or event.target is QconfigTarget.TENSOR or may_be_prepared_after(script, index):
        return None
    if any(call.row.workflow is not Workflow.EAGER or call.in_forward for _, call in earlier):
        return None
    states = {call.qconfig for _, call in earlier}
    if states == {QconfigState.ABSENT}:
        return earlier[-1][0]
    if event.target is QconfigTarget.LEAF:
        return None
    certain = event.prepared or moved_after(script, index, Stage.CONVERT)
    if states <= {QconfigState.ABSENT, QconfigState.OUTSIDE} or certain:
        return earlier[-1][0]
    return None


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Assign before prepare, if nothing that the assignment needs stands between."""
    call = call_of(ctx, finding)
    edit = ctx.edits()
    targets, value = edit.assignment(finding.span)
    if len(targets) != 1 or not call.model or not _TARGET.fullmatch(targets[0]):
        raise NoFix("a target that is not a plain name")
    bound, later = edit.bound_between(call.span, finding.span)
    owner = targets[0].removesuffix(".qconfig")
    if (set(_NAME.findall(value)) | {owner.partition(".")[0], call.model.partition(".")[0]}) & later:
        raise NoFix("a name that is bound between")
    if set(_NAME.findall(value)) & bound or not edit.runs_once(call.span):
        raise NoFix("a name that prepare's statement binds")
    prepared, inner = _prepared_name(edit.text(call.statement), owner)
    if prepared and prepared != call.model:
        edit.insert_before(call.span, f"{call.model}{inner}.qconfig = {value}")
        edit.delete_statement(finding.span)
    elif owner == call.model or owner.startswith(f"{call.model}."):
        edit.move_statement(finding.span, before=call.span)
    else:
        raise NoFix("a name of something else")
    title, reason = Message.of("fix-move-qconfig"), Message.of("fix-move-qconfig-reason")
    yield edit.fix(title, reason, Applicability.SAFE, NEED_A_QCONFIG)


_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\.qconfig")
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_BINDS = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*=(?!=)")


def _prepared_name(statement: str, owner: str) -> tuple[str, str]:
    """The name that prepare's statement gives to the copy, and what of it the assignment is made on."""
    found = _BINDS.match(statement)
    name = found[1] if found is not None else ""
    if name and (owner == name or owner.startswith(f"{name}.")):
        return name, owner.removeprefix(name)
    return "", ""
