"""An optimizer holds the parameters of the model that `prepare_qat` copied.

## What it does
Flags `prepare_qat` without `inplace=True` if an optimizer was built for the model before, and that optimizer trains the
model afterwards.

## Why it matters
`prepare_qat` works on a copy. The copy has parameters of its own, and the optimizer holds those of the original: it
steps, the gradients of the copy only grow, and nothing is trained. Nothing warns. Measured with torch 2.13.0 on the
model below: 0 of 4 parameters change in four steps, with the optimizer built afterwards 4 of 4.

## Bad
    from torch import nn, optim
    from torch.ao.quantization import QuantWrapper, get_default_qat_qconfig, prepare_qat


    def train(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = get_default_qat_qconfig("x86")
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        net = prepare_qat(net)  # QL317
        for batch in batches:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
        return net

## Good
    from torch import nn, optim
    from torch.ao.quantization import QuantWrapper, get_default_qat_qconfig, prepare_qat


    def train(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        for batch in batches:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
        return net

## Fix safety
The fix moves the line that builds the optimizer behind `prepare_qat`, if both stand in one block and nothing between
uses the optimizer. The model stays the same.

## When it is silent
`prepare_qat` works in place (the parameters stay the same objects), another optimizer is built afterwards, the old one
is not used any more, the model or the optimizer comes from outside, or the original is trained on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, ModelStep, ScriptFacts, StepKind
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import before
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId, exclusive
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(code="QL317", name="optimizer-before-prepare", severity=Severity.ERROR, since="0.1", fix="safe")

_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per prepare call that leaves an optimizer behind."""
    script = ctx.script
    if script is None or script.vendor:
        return
    wrong: dict[SpanId, Finding] = {}
    right: set[SpanId] = set()
    for index, call in calls(script):
        if not _copies(call):
            continue
        if _built_anew(script, index, call):
            right.add(call.span)
            continue
        built = _left_behind(script, index, call)
        if built is not None:
            model = f"`{call.model}`" if call.model else "the model"
            note = Note(Message.of("optimizer-built-here"), built.span)
            message = Message.of("optimizer-before-prepare", call=call.spelling, model=model)
            wrong.setdefault(call.span, Finding(call.span, message, related=(note,), subject=index))
    yield from (finding for span, finding in wrong.items() if span not in right)


def _copies(call: LifecycleCall) -> bool:
    row = call.row
    trains = row.stage is Stage.PREPARE and row.workflow is Workflow.EAGER and row.mode is Mode.QAT
    alone = "run_fn" not in row.params and not call.in_forward and not call.ignored and call.rebinds is None
    return trains and alone and call.inplace is False


def _later(script: ScriptFacts, index: int, call: LifecycleCall) -> Iterator[ModelStep]:
    """What happens to the model behind the call, in other runs too: an object that a run makes is there after it."""
    for other in script.events[index + 1 :]:
        if isinstance(other, ModelStep) and other.members & call.members and not exclusive(other.guard, call.guard):
            yield other


def _built_anew(script: ScriptFacts, index: int, call: LifecycleCall) -> bool:
    return any(step.kind is StepKind.OPTIMIZER for step in _later(script, index, call))


def _left_behind(script: ScriptFacts, index: int, call: LifecycleCall) -> ModelStep | None:
    """The optimizer of the original that goes on with the copy."""
    built = {
        number: event
        for _, event in before(script, index)
        if isinstance(event, ModelStep) and event.kind is StepKind.OPTIMIZER
        if event.members <= call.members or call.members <= event.members
        for number in event.objects
    }
    later = list(_later(script, index, call))
    used = [step for step in later if step.kind is StepKind.STEP and step.objects <= built.keys()]
    if not used or not _goes_on(call, later):
        return None
    return built[next(iter(sorted(used[0].objects)))]


def _goes_on(call: LifecycleCall, later: list[ModelStep]) -> bool:
    """Is it the copy that is used from here on?"""
    if call.bound and call.bound == call.model:
        return True
    runs = [step.objects for step in later if step.kind is StepKind.RUN]
    original = any(call.original in objects for objects in runs)
    return call.result is not None and not original and any(call.result in objects for objects in runs)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Build the optimizer for the model that is prepared."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    call, edit = call_of(ctx, finding), ctx.edits()
    built = _left_behind(ctx.script, finding.subject, call)
    if built is None or call.path != built.path or call.bound != call.model:
        raise NoFix("other functions, or another name")
    _, between = edit.bound_between(built.span, call.span)
    targets, value = edit.assignment(built.statement)
    if set(_NAME.findall(value)) & between or not edit.runs_once(built.span):
        raise NoFix("a name that is bound between")
    if len(targets) != 1 or edit.mentioned_between(built.span, call.span, targets[0]):
        raise NoFix("an optimizer that is used between")
    edit.move_behind(built.statement, call.span)
    title, reason = Message.of("fix-optimizer-behind"), Message.of("fix-optimizer-behind-reason")
    yield edit.fix(title, reason, Applicability.SAFE)
