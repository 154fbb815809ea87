"""A model is converted inside a `DataParallel` or `DistributedDataParallel` wrapper.

## What it does
Flags `prepare` and `prepare_qat` of a model in such a wrapper, if `convert` gets the wrapper as well.

## Why it matters
The quantized kernels run on the CPU, and what convert gives back is still a wrapper for GPUs. Its forward compares the
device of every buffer with its own first device and raises (the text is that of `DataParallel.forward` in torch 2.13.0;
not run here, as it takes a GPU):

    RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0])

The names in the checkpoint begin with `module.` as well. torchvision's script for training met the same with
`DistributedDataParallel` and unwraps the model before it converts it (pytorch/vision#2191).

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qat_qconfig, prepare_qat


    def train(batches):
        net = nn.DataParallel(QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)))).train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)  # QL319
        for batch in batches:
            net(batch).pow(2).mean().backward()
        return convert(net.cpu().eval())

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qat_qconfig, prepare_qat


    def train(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).train()
        net.qconfig = get_default_qat_qconfig("x86")
        net = prepare_qat(net)
        ready = nn.DataParallel(net)
        for batch in batches:
            ready(batch).pow(2).mean().backward()
        return convert(net.cpu().eval())

## When it is silent
The model is unwrapped before it is converted (`convert(net.module)`), or nothing in view wraps it.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, ScriptFacts
from qlsp.diagnostics import Message, Severity
from qlsp.rules._life import calls
from qlsp.rules._order import after
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL319", name="wrapped-dataparallel", severity=Severity.WARNING, since="0.1")

WRAPPERS = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per prepare call of a wrapper that is converted."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if call.row.stage is not Stage.PREPARE or not _wrapped(call) or call.span in seen:
            continue
        converted = _converted(script, index, call)
        if converted is not None:
            seen.add(call.span)
            model = f"`{call.model}`" if call.model else "the model"
            note = Note(Message.of("dataparallel-converted-here"), converted.span)
            message = Message.of("wrapped-dataparallel", call=call.spelling, model=model)
            yield Finding(call.span, message, related=(note,), subject=index)


def _wrapped(call: LifecycleCall) -> bool:
    eager = call.row.workflow is Workflow.EAGER and not call.in_forward and "run_fn" not in call.row.params
    return eager and call.contents.leaf in WRAPPERS


def _converted(script: ScriptFacts, index: int, call: LifecycleCall) -> LifecycleCall | None:
    """The convert call that gets the same wrapper."""
    for _, other in after(script, index):
        if isinstance(other, LifecycleCall) and other.row.stage is Stage.CONVERT:
            same = _wrapped(other) and other.contents.root == call.contents.root
            return other if same else None
    return None
