"""`forward` reads the weight or bias of a layer that convert swaps, and there it is a method.

## What it does
Flags `self.fc.weight` and `self.conv.bias` in what `forward` runs, where the layer is a Linear, a convolution or an
embedding that a qconfig reaches.

## Why it matters
The quantized layer keeps its weight packed and gives it back through a method of the same name. Float model and
calibration run; the converted model raises one of

    AttributeError: 'function' object has no attribute 'abs'
    TypeError: linear(): argument 'weight' (position 2) must be Tensor, not method

Norms keep their parameters as tensors, and every layer keeps its numbers (`in_features`, `kernel_size`).

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.fc = nn.Linear(4, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.dequant(self.fc(self.quant(x)))
            return x / self.fc.weight.abs().max()  # QL510

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.fc = nn.Linear(4, 4)
            self.dequant = DeQuantStub()
            self.register_buffer("gain", self.fc.weight.detach().abs().max())

        def forward(self, x):
            x = self.dequant(self.fc(self.quant(x)))
            return x / self.gain

## When it is silent
In constructors and other methods that forward does not call, for layers that no qconfig reaches, for norms, and where
it is not known whether the layer is quantized.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Submodule, Workflow
from qlsp.diagnostics import Message, Predicts, Severity
from qlsp.rules._layers import Reach, is_library, meets_quantized, reach
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption

META = RuleMeta(
    code="QL510",
    name="weight-attribute-in-forward",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each parameter that is a method after convert."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for read in ctx.facts.parameters.values():
        layer = ctx.facts.submodules.get(read.owner)
        if layer is None or not _is_packed(ctx, read.owner, layer):
            continue
        kind = layer.cls.rpartition(".")[2]
        message = Message.of(
            "weight-attribute-in-forward", module=layer.path or "the module", name=read.name, kind=kind
        )
        notes = (Note(Message.of("module-made-here"), layer.span),) if layer.span is not None else ()
        yield Finding(read.span, message, assumes=assumption(ctx), related=notes)


def _is_packed(ctx: RuleContext, number: int, layer: Submodule) -> bool:
    """Is it certain that convert swaps the layer?"""
    if not is_library(layer) or layer.spec is None:
        return False
    if layer.weights is not None and layer.weights in layer.spec.refused_weights:
        return False
    reached = reach(layer)
    return reached is Reach.YES or reached is Reach.ASSUMED and meets_quantized(ctx.facts, number)
