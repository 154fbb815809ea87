"""A model is prepared although modules that could be fused never are.

## What it does
Flags the eager prepare call of a model in whose forward modules that torch can fuse feed each other alone (conv and
BatchNorm, conv and ReLU, Linear and ReLU, BatchNorm and ReLU, or three of them), where no code fuses anything of that
model, and that of a model with a BatchNorm1d on quantized tensors that no layer feeds alone. One finding for a model.

## Why it matters
Unfused, every step has an observer and rounds, and in front of a ReLU half of the codes are spent on what it throws
away. Measured with torch 2.13.0 (x86 qconfig, means of five small models):

| modules | not fused | fused |
|---|---|---|
| conv, bn, relu | 28.0 dB | 32.9 dB |
| conv, relu | 29.0 dB | 34.3 dB |
| linear, relu | 31.4 dB | 32.6 dB |

Each step is also a pass over the data. A BatchNorm1d has no quantized kernel at all, so that unfused the converted
model raises `Could not run 'aten::native_batch_norm' with arguments from the 'QuantizedCPU' backend`; then, and where
there is no layer that it could be fused with, the finding is an error.

## Bad
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()

        def forward(self, x):
            return self.dequant(self.relu(self.bn(self.conv(self.quant(x)))))


    net = Net().eval()
    net.qconfig = tq.get_default_qconfig("x86")
    tq.prepare(net, inplace=True)  # QL503

## Good
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()

        def forward(self, x):
            return self.dequant(self.relu(self.bn(self.conv(self.quant(x)))))


    net = Net().eval()
    net = tq.fuse_modules(net, [["conv", "bn", "relu"]])
    net.qconfig = tq.get_default_qconfig("x86")
    tq.prepare(net, inplace=True)

## Fix safety
Unsafe: the fuse call before prepare changes the names in checkpoints, and folding a BatchNorm changes the float
output by rounding. It is offered where the mode is known, and for calibration only where the code calls `eval()`. A
BatchNorm1d that cannot be fused is run in float between two conversions.

## When it is silent
Where any fuse call, or a function or method with "fuse" in its name, gets the model or a part of it, before or after;
where the model comes from outside, or unknown code has had it in hand. Functions (`F.relu`, `torch.relu`) and methods
in place of a module, ReLU6, outputs with a second use, shared modules and ReLUs without a layer before them cannot be
fused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import Fusable, Mode, OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._islands import island
from qlsp.rules._rewrites import call_of
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, attempts
from qlsp.values.value import ASSUMED_QCONFIG, OPEN_QCONFIG

META = RuleMeta(code="QL503", name="missing-fuse", severity=Severity.WARNING, since="0.1", fix="unsafe")

AO = "torch.ao.quantization."
SHOWN = 3
ASKS_FOR_EVAL = ("QL305",)
"""A finding about the new call where ``eval()`` comes too late; its fix calls it before."""
_EVAL = re.compile(r"\.eval\(\)")


NORM = "batch_norm1d"


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for a prepared model with modules that could be fused, or with a BatchNorm1d that cannot."""
    context = ctx.facts.context
    if context.workflow is not Workflow.EAGER or context.prepared is None:
        return
    fusable = [each for each in ctx.facts.fusable if _configured(ctx, each)] if not ctx.facts.fused else []
    raising = next((each for each in fusable if _raises(ctx, each)), None)
    lone = next(_lone_norms(ctx), None)
    if raising is not None:
        message = Message.of("missing-fuse-raises", groups=_shown([raising]))
        yield Finding(context.prepared, message, Severity.ERROR, Predicts.RAISES)
    elif lone is not None:
        layer = ctx.facts.submodules[lone.owner or 0]
        message = Message.of("lone-batch-norm", module=layer.path, error=lone.alternatives[0].raises or "")
        related = (Note(Message.of("norm-called-here"), lone.span),)
        subject = (lone.span, lone.path)
        yield Finding(context.prepared, message, Severity.ERROR, Predicts.RAISES, related=related, subject=subject)
    elif fusable:
        yield Finding(context.prepared, Message.of("missing-fuse", groups=_shown(fusable)))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """The fuse call before prepare; what cannot be fused runs in float."""
    if finding.subject is None:
        yield from attempts(lambda: _fused(ctx))
    else:
        yield from attempts(lambda: island(ctx, call_of(ctx, finding.subject)))


def _shown(groups: list[Fusable]) -> str:
    """The first groups by the paths of their modules."""
    names = "; ".join(", ".join(f"`{path}`" for path in each.paths) for each in groups[:SHOWN])
    return f"{names} and {len(groups) - SHOWN} more" if len(groups) > SHOWN else names


def _lone_norms(ctx: RuleContext) -> Iterator[OpCall]:
    """The calls of a BatchNorm1d that certainly raise, and that nothing can be fused with."""
    partnered = {owner for each in ctx.facts.fusable for owner in each.owners}
    for call in ctx.facts.op_calls.values():
        if call.spec.op != NORM or call.alias or call.owner not in ctx.facts.submodules.keys() - partnered:
            continue
        if call.alternatives and all(each.raises is not None for each in call.alternatives):
            yield call


def _configured(ctx: RuleContext, fusable: Fusable) -> bool:
    """Does code in view give the first module of a sequence its qconfig?"""
    module = ctx.facts.submodules.get(fusable.owners[0])
    return module is not None and module.qconfig not in (None, ASSUMED_QCONFIG, OPEN_QCONFIG)


def _raises(ctx: RuleContext, fusable: Fusable) -> bool:
    """Does a module of the sequence certainly raise as it is?"""
    calls = [call for call in ctx.facts.op_calls.values() if call.owner in fusable.owners[1:]]
    return any(all(alternative.raises is not None for alternative in call.alternatives) for call in calls)


def _fused(ctx: RuleContext) -> Fix:
    context = ctx.facts.context
    assert context.prepared is not None
    if context.mode is Mode.UNKNOWN:
        raise NoFix("the mode is not known")
    others = [f for f in ctx.everywhere if f.context.prepared == context.prepared and f is not ctx.facts]
    if any(each.fusable != ctx.facts.fusable for each in others):
        raise NoFix("the call prepares several models")
    edit = ctx.edits()
    site = edit.call(context.prepared)
    model = site.argument(0, "model")
    path = context.prepared.path
    if model is None or model.value.name is None or edit.repeats(context.prepared):
        raise NoFix("a model without a name")
    if not edit.runs_once(context.prepared):
        raise NoFix("a call in an expression that need not run")
    groups = ctx.facts.fusable
    if context.mode is Mode.QAT:
        groups = [group for group in groups if "ConvTranspose" not in group.parts[0]]
    elif not edit.matches(_EVAL):
        raise NoFix("nothing puts the model into eval mode")
    name = "fuse_modules_qat" if context.mode is Mode.QAT else "fuse_modules"
    spelled = edit.spell(path, f"{AO}{name}")
    first = spelled.partition(".")[0]
    if name == "fuse_modules_qat" and (edit.qualified(path, first) or "").startswith("torch.quantization"):
        raise NoFix("the old namespace has no such function")
    lists = ", ".join("[" + ", ".join(f'"{path}"' for path in group.paths) + "]" for group in groups)
    if context.mode is not Mode.QAT and not edit.shown_before(context.prepared, _sets_eval(model.value.name)):
        edit.insert_before(context.prepared, f"{model.value.name}.eval()")
    edit.insert_before(context.prepared, f"{spelled}({model.value.text}, [{lists}], inplace=True)")
    return edit.fix(Message.of("fix-fuse"), Message.of("fix-fuse-reason"), Applicability.UNSAFE, ASKS_FOR_EVAL)


def _sets_eval(model: str) -> re.Pattern[str]:
    """Text that puts a model into eval mode, and none behind it that puts it back."""
    name = re.escape(model)
    back = rf"(?!.*\b{name}\.train\(\s*(?:True\s*)?\))"
    sets = rf"\b{name}\.(?:eval\(\)|train\(\s*False)|^[ \t]*{name}\s*=[^\n]*\.eval\(\)"
    return re.compile(rf"(?:{sets}){back}", re.S | re.M)
