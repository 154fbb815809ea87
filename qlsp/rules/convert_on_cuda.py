"""A model is converted, or runs converted, on a GPU.

## What it does
Flags `convert` of a model that was moved to CUDA and not back, and the first move to CUDA of a converted model that
runs afterwards.

## Why it matters
Eager mode's quantized layers pack their weights with kernels that only the CPU has. Convert on a GPU raises

    RuntimeError: Could not run 'quantized::conv2d_prepack' with arguments from the

as users report (pytorch/pytorch#42288), and the maintainers say that the convert step on the GPU is not supported
(pytorch/pytorch#32680). It was not measured for this page, as it takes a GPU. Training for quantization on a GPU is
fine: fake-quantize modules run there.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qat_qconfig, prepare_qat


    def train(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).cuda().train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)
        for batch in batches:
            net(batch.cuda()).pow(2).mean().backward()
        return convert(net.eval())  # QL316

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qat_qconfig, prepare_qat


    def train(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).cuda().train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)
        for batch in batches:
            net(batch.cuda()).pow(2).mean().backward()
        return convert(net.cpu().eval())

## Fix safety
The fix moves the model to the CPU in the line before. It is unsafe, since what runs afterwards may still give it data
from the GPU.

## When it is silent
The device is not known (a flag, `torch.cuda.is_available()`), code that is not in view gets the model in between, or
convert is asked for a reference model.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Handover, LifecycleCall, ModelStep, ScriptFacts, StepKind
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import after, before
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Mode, Stage, Workflow

META = RuleMeta(
    code="QL316",
    name="convert-on-cuda",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)

PLAIN = frozenset({"module", "inplace", "remove_qconfig"})
DEVICES = (StepKind.CUDA, StepKind.CPU, StepKind.DEVICE)
PACKED = ("torch.nn.Conv", "torch.nn.Linear", "torch.ao.nn.intrinsic.", "torch.ao.nn.qat.")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per convert call of a model on a GPU, or per move of a converted one to it."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if not _converts(call):
            continue
        moved = _device(script, index, call)
        if moved is not None:
            finding = _finding("convert-on-cuda", call.span, call, moved, index)
        else:
            later = _moved_after(script, index, call)
            if later is None:
                continue
            finding = _finding("convert-then-cuda", later.span, call, None, None)
        if finding.span not in seen:
            seen.add(finding.span)
            yield finding


def _finding(kind: str, span: SpanId, call: LifecycleCall, moved: ModelStep | None, subject: int | None) -> Finding:
    model = f"`{call.model}`" if call.model else "the model"
    place = moved.span if moved is not None else call.span
    note = Note(Message.of("cuda-moved-here" if moved is not None else "cuda-converted-here"), place)
    message = Message.of(kind, call=call.spelling, model=model)
    return Finding(span, message, related=(note,), subject=subject)


def _converts(call: LifecycleCall) -> bool:
    """Does this certainly give layers that pack their weights?"""
    contents = call.contents
    eager = call.row.stage is Stage.CONVERT and call.row.workflow is Workflow.EAGER and not call.in_forward
    static = bool(contents.modes) and contents.modes <= {Mode.PTQ, Mode.QAT}
    packs = not contents.modules or any(name.startswith(PACKED) for _, name in contents.modules)
    return eager and static and packs and call.passed <= PLAIN


def _device(script: ScriptFacts, index: int, call: LifecycleCall) -> ModelStep | None:
    """Where the model was moved to a GPU that it is certainly still on."""
    for _, other in before(script, index):
        if isinstance(other, Handover) and other.callee != "a call":
            return None
        if isinstance(other, ModelStep) and other.kind in DEVICES:
            whole = other.guard <= call.guard and call.contents.root in other.members
            return other if other.kind is StepKind.CUDA and whole else None
    return None


def _moved_after(script: ScriptFacts, index: int, call: LifecycleCall) -> ModelStep | None:
    """The first move of the converted model to a GPU, if it runs there."""
    name, moved = call.bound or call.model, None
    if not (call.bound or call.inplace):
        return None
    for _, other in after(script, index):
        if isinstance(other, (Handover, LifecycleCall)):
            return None
        if not isinstance(other, ModelStep):
            continue
        if other.kind in DEVICES:
            same = other.shown == name and other.path == call.path
            moved = other if other.kind is StepKind.CUDA and same else None
        elif other.kind is StepKind.RUN and moved is not None:
            return moved if other.shown == name else None
    return None


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Convert on the CPU."""
    if finding.subject is None:
        raise NoFix("a converted model that is moved")
    call, edit = call_of(ctx, finding), ctx.edits()
    if not call.model or not edit.runs_once(call.span):
        raise NoFix("a model without a name, or a call that does not stand alone")
    edit.insert_before(call.span, f"{call.model}.cpu()")
    title = Message.of("fix-to-cpu", model=call.model)
    yield edit.fix(title, Message.of("fix-to-cpu-reason"), Applicability.UNSAFE)
