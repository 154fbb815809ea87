"""Fusing a list of modules changes what the float model computes.

## What it does
Flags `fuse_modules` and `fuse_modules_qat` on modules that do not feed each other alone in forward: a ReLU or
BatchNorm that is also called elsewhere, an output that is also used elsewhere, another operator between two of them.

## Why it matters
The fused module takes the place of the first one, and the others become `Identity`, wherever they are called. Nothing
raises and nothing warns; the float model is another one before any quantization. Measured with torch 2.13.0, largest
difference of the outputs in parts of the largest output, means of five small models: 93 % with a shared ReLU, 26 %
where the output of the convolution has a second use, 20 % where a BatchNorm stands between the convolution and the
ReLU.

## Bad
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)
            self.relu = nn.ReLU()

        def forward(self, x):
            x = self.relu(self.first(self.quant(x)))
            return self.dequant(self.relu(self.second(x)))


    def build():
        return tq.fuse_modules(Net().eval(), [["first", "relu"]])  # QL506

## Good
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)
            self.relu, self.relu2 = nn.ReLU(), nn.ReLU()

        def forward(self, x):
            x = self.relu(self.first(self.quant(x)))
            return self.dequant(self.relu2(self.second(x)))


    def build():
        return tq.fuse_modules(Net().eval(), [["first", "relu"], ["second", "relu2"]])

## When it is silent
Models whose forward is not followed: an unknown caller of the modules, loops of unknown length, tensors that are not
known. Uses that exclude each other. A use behind a ReLU that works in place sees the ReLU's result either way.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import FloatChange
from qlsp.diagnostics import Message, Severity
from qlsp.rules._fuse import changed, fuse_calls, shown
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta

META = RuleMeta(code="QL506", name="fuse-changes-float", severity=Severity.ERROR, since="0.1")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every fuse call that changes the float model."""
    for index, call, fusion in fuse_calls(ctx):
        group = next(iter(changed(fusion)), None)
        if group is None or group.change is None:
            continue
        shared = group.change is FloatChange.SHARED
        id = "fuse-changes-float" if shared else f"fuse-changes-float-{group.change.value}"
        message = Message.of(id, names=shown(group.names), culprit=group.culprit or "")
        notes = (Note(Message.of("fuse-changes-float-here"), group.span),) if group.span is not None else ()
        yield Finding(call.span, message, related=notes, subject=index)
