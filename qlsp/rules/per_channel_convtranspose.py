"""A qconfig that observes weights per channel reaches a transposed convolution.

## What it does
Flags the assignment of a qconfig with per-channel weights (`get_default_qconfig` and `get_default_qat_qconfig` for
`x86`, `fbgemm` and `onednn`, `default_per_channel_qconfig`, a `QConfig` with a per-channel weight observer) that
reaches a ConvTranspose1d, ConvTranspose2d or ConvTranspose3d.

## Why it matters
Prepare raises, and in quantization-aware training convert does, after all of the training:

    AssertionError: Per channel weight observer is not supported yet for ConvTranspose{n}d.
    RuntimeError: Per Channel Quantization is currently disabled for transposed conv

With one scale for all weights the layer is quantized: 33 dB. Mind the engine: with torch 2.13 on x86 (oneDNN) the
quantized transposed convolution gives noise (-2.7 dB) if its numbers of channels differ and none is 1; with
`torch.backends.quantized.engine = "fbgemm"` it is right.

## Bad
    from torch import nn
    from torch.ao.quantization import (
        DeQuantStub, QuantStub, convert, get_default_qconfig, prepare
    )


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.down = nn.Conv2d(3, 8, 3)
            self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
            self.dequant = DeQuantStub()

        def forward(self, x):
            return self.dequant(self.up(self.down(self.quant(x))))


    def quantize(batches):
        net = Net().eval()
        net.qconfig = get_default_qconfig("x86")  # QL507
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import (
        DeQuantStub, QuantStub, convert, default_qconfig, get_default_qconfig, prepare
    )


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.down = nn.Conv2d(3, 8, 3)
            self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
            self.dequant = DeQuantStub()

        def forward(self, x):
            return self.dequant(self.up(self.down(self.quant(x))))


    def quantize(batches):
        net = Net().eval()
        net.qconfig = get_default_qconfig("x86")
        net.up.qconfig = default_qconfig
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## Fix safety
Safe where the channels agree (or one number is 1): the layer alone gets a qconfig with one weight scale, that of the
mode in use. Unsafe where they differ or are not known, because of the engine. Where the mode is not known the line is
only shown.

## When it is silent
With qconfigs for `qnnpack` and others with one scale, for layers with a qconfig of their own or None, in FX mode
(which skips them), and where it is not known which qconfig reaches the layer.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Mode, Submodule
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._layers import argument, assigned_layers, constant, layers, qconfig_lines
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Weights

META = RuleMeta(
    code="QL507",
    name="per-channel-convtranspose",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

QCONFIGS = {
    Mode.PTQ: "torch.ao.quantization.default_qconfig",
    Mode.QAT: "torch.ao.quantization.default_qat_qconfig",
    Mode.UNKNOWN: "torch.ao.quantization.default_qconfig",
}


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each assignment that gives transposed convolutions per-channel weights."""
    found: dict[SpanId, list[Submodule]] = {}
    for _, layer, _ in layers(ctx):
        if layer.assigned is not None and _refused(layer):
            found.setdefault(layer.assigned, []).append(layer)
    qat = ctx.facts.context.mode is Mode.QAT
    for assigned, reached in found.items():
        first = reached[0]
        assert first.spec is not None
        error = first.spec.trained_refused if qat else first.spec.refused
        message = Message.of(
            "per-channel-convtranspose",
            module=first.path or "the module",
            kind=first.cls.rpartition(".")[2],
            stage="convert" if qat else "prepare",
            error=error or "",
        )
        notes = tuple(Note(Message.of("module-made-here"), layer.span) for layer in reached if layer.span is not None)
        yield Finding(assigned, message, related=notes)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Give each of the layers a qconfig with one weight scale."""
    modes = {facts.context.mode for facts in ctx.everywhere if assigned_layers(facts, finding.span, _refused)}
    if len(modes) != 1:
        raise NoFix("several modes")
    mode = modes.pop()
    edit = ctx.edits()
    qconfig_lines(ctx, edit, finding.span, _refused, QCONFIGS[mode])
    reached = [layer for facts in ctx.everywhere for layer in assigned_layers(facts, finding.span, _refused)]
    title = Message.of("fix-per-tensor")
    if mode is Mode.UNKNOWN:
        yield edit.fix(title, Message.of("fix-mode-reason"), Applicability.DISPLAY)
    elif all(map(_engine_agrees, reached)):
        yield edit.fix(title, Message.of("fix-per-tensor-reason"), Applicability.SAFE)
    else:
        yield edit.fix(title, Message.of("fix-per-tensor-engine"), Applicability.UNSAFE)


def _refused(layer: Submodule) -> bool:
    spec = layer.spec
    return spec is not None and "conv_transpose" in spec.op and layer.weights is Weights.PER_CHANNEL


def _engine_agrees(layer: Submodule) -> bool:
    """Are the numbers of channels ones that every engine computes right?"""
    inputs, outputs = constant(argument(layer, "in_channels")), constant(argument(layer, "out_channels"))
    return inputs is not None and outputs is not None and (inputs == outputs or "1" in (inputs, outputs))
