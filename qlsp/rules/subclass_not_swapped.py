"""A subclass of a quantizable layer gets a quantized tensor, but convert does not swap it.

## What it does
Flags the call of a module whose class derives from a layer that convert swaps (`class CausalConv(nn.Conv1d)`), on a
quantized tensor. A call that the subclass makes on its own weights (`F.conv2d(x, self.weight)`) counts as well.

## Why it matters
Convert looks a module up by its exact class, so a subclass stays as it is, with float weights, in the middle of the
quantized model. Float model and calibration run; the converted model raises one of

    RuntimeError: Input type (c10::quint8) and bias type (float) should be the same
    RuntimeError: mat1 and mat2 must have the same dtype, but got QUInt8 and Float

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Padded(nn.Conv2d):
        def forward(self, x):
            return super().forward(nn.functional.pad(x, (1, 1, 1, 1)))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = Padded(3, 8, 3)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.conv(x))  # QL509

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Padded(nn.Module):
        def __init__(self, inputs, outputs, kernel):
            super().__init__()
            self.conv = nn.Conv2d(inputs, outputs, kernel)

        def forward(self, x):
            return self.conv(nn.functional.pad(x, (1, 1, 1, 1)))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = Padded(3, 8, 3)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.conv(x))

## When it is silent
If the project names a mapping of its own (`mapping=`, `convert_custom_config_dict`, `from_float`, a change of the
default mappings), which may swap the class; for subclasses whose float kernel takes quantized tensors (ReLU6,
LeakyReLU); if the subclass gets float tensors or no qconfig.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Submodule, Workflow
from qlsp.diagnostics import Message, Predicts, Severity
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._layers import Reach, is_library, reach, site
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption

META = RuleMeta(
    code="QL509",
    name="subclass-not-swapped",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
)

CAUSES = (Cause.NOT_SWAPPED, Cause.WEIGHT_FUNCTION)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each call on a subclass that stays float among quantized tensors."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for call in ctx.facts.op_calls.values():
        number = call.owner if call.owner is not None else call.receiver
        layer = ctx.facts.submodules.get(number) if number is not None else None
        if layer is None or not _stays(layer) or call.alias or cause_of(call) not in CAUSES:
            continue
        yield _finding(ctx, call, layer)


def _stays(layer: Submodule) -> bool:
    """A subclass that a qconfig reaches, of a class that convert swaps."""
    derived = layer.spec is not None and layer.spec.swapped and not is_library(layer)
    return derived and reach(layer) in (Reach.YES, Reach.ASSUMED)


def _finding(ctx: RuleContext, call: OpCall, layer: Submodule) -> Finding:
    assert layer.spec is not None
    message = Message.of(
        "subclass-not-swapped",
        module=layer.path or "the module",
        kind=layer.cls,
        base=layer.spec.modules[0].rpartition(".")[2],
        error=call.alternatives[0].raises or "",
    )
    place = site(call, layer)
    notes = (Note(Message.of("subclass-raises-here"), call.span),) if place != call.span else ()
    return Finding(place, message, assumes=assumption(ctx), related=notes)
