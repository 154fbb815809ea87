"""An exported model is asked for another mode.

## What it does
Flags `eval()` and `train()` of a model that `torch.export` made, also after `prepare_pt2e` and `convert_pt2e`.

## Why it matters
The mode was traced in: a graph has the dropout of training or it has none, and the flag does not change that.
Measured with torch 2.13.0 and torchao 0.18.0:

    NotImplementedError: Calling eval() is not supported yet.
    NotImplementedError: Calling train() is not supported yet.
    NotImplementedError: Calling train() or eval() is not supported for exported models.

The first two come from `torch.export`, the last one after `prepare_pt2e`.

## Bad
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


    def quantize(net, quantizer, x):
        model = torch.export.export(net.eval(), (x,)).module()
        model = prepare_pt2e(model, quantizer)
        model(x)
        model.eval()  # QL706
        return convert_pt2e(model)

## Good
    import torch
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


    def quantize(net, quantizer, x):
        model = torch.export.export(net.eval(), (x,)).module()
        model = prepare_pt2e(model, quantizer)
        model(x)
        move_exported_model_to_eval(model)
        return convert_pt2e(model)

## What else helps
Call `eval()` on the model before it is exported.

## Fix safety
The fix calls torchao's function on the model. It is safe, for the code raised before; it is unsafe in a file that does
not prepare a model with torchao, for the package may not be there.

## When it is silent
The model comes from a function that is not in view or from a file, `allow_exported_model_train_eval` is used, or an
error is expected.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import ExportedMode, LifecycleCall
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(
    code="QL706",
    name="exported-model-eval",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

HOME = "torchao.quantization.pt2e."


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per call."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen: set[SpanId] = set()
    for index, event in enumerate(script.events):
        if isinstance(event, ExportedMode) and event.span not in seen:
            seen.add(event.span)
            names = {"shown": event.shown, "method": event.method, "function": _function(event)}
            yield Finding(event.span, Message.of("exported-model-eval", **names), subject=index)


def _function(event: ExportedMode) -> str:
    return f"move_exported_model_to_{'train' if event.trains else 'eval'}"


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Call torchao's function."""
    assert ctx.script is not None and isinstance(finding.subject, int)
    event, edit = ctx.script.events[finding.subject], ctx.edits()
    assert isinstance(event, ExportedMode)
    if event.trains is None or not event.shown.replace(".", "_").isidentifier():
        raise NoFix("a mode or a model that is not written out")
    name = edit.spell(event.span.path, f"{HOME}{_function(event)}")
    edit.replace(edit.place(event.span), f"{name}({event.shown})")
    prepares = any(
        isinstance(each, LifecycleCall) and each.row.stage is Stage.PREPARE and each.row.workflow is Workflow.PT2E
        for each in ctx.script.events
    )
    reason = "fix-exported-mode-reason" if prepares else "fix-exported-mode-package-reason"
    title = Message.of("fix-exported-mode", function=_function(event))
    yield edit.fix(title, Message.of(reason), Applicability.SAFE if prepares else Applicability.UNSAFE)
