"""A module that eager mode cannot quantize gets a quantized tensor.

## What it does
Flags the call of a module without a quantized kernel on a quantized tensor (SiLU, Mish, Softplus, Softmax, GLU,
RNN, TransformerEncoderLayer, ...), and of a module that prepare, calibration or convert refuse: GRU and LSTMCell
under any qconfig, MultiheadAttention in quantization-aware training, PReLU.

## Why it matters
The float model runs, and most of these modules pass prepare and calibration too. The converted model raises:

    NotImplementedError: Could not run 'aten::silu.out' with arguments from the 'QuantizedCPU' backend

GRU and LSTMCell return a tuple, which no observer takes: calibration ends with `'tuple' object has no attribute
'numel'`. MultiheadAttention is quantized after calibration (31 dB), but prepare_qat ends with `qat.Linear.from_float
only works for Linear, got NonDynamicallyQuantizableLinear`. PReLU ends in convert with `Dimension out of range
(expected to be in range of [-1, 0], but got 1)` if weights are observed per channel, as with the default of x86. With
one scale it runs and is wrong (a warning): the kernel of torch 2.13 shrinks positive values too, to twice the slope
where that is below 0.5; at the default of 0.25 6.3 dB are left.

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 3)
            self.act = nn.SiLU()
            self.head = nn.Conv2d(8, 4, 1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.act(self.conv(self.quant(x)))  # QL402
            return self.dequant(self.head(x))

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 3)
            self.act = nn.Hardswish()
            self.head = nn.Conv2d(8, 4, 1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.act(self.conv(self.quant(x)))
            return self.dequant(self.head(x))

## Fix safety
Unsafe: the module runs in float between two conversions (`self.quant(self.act(self.dequant(x)))`, about 33 dB), or
behind the DeQuantStub if its result goes there anyway. The float model stays the same; speed and int8 result change.
A module that an observer or convert would touch gets `qconfig = None`.

## When it is silent
On unknown inputs, on modules that have a quantized class or kernel (Hardswish, ELU, LayerNorm, GELU, Sigmoid, LSTM),
on MultiheadAttention where the mode is not known to be training, and on a BatchNorm1d, which runs if it is fused
(`missing-fuse`).
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Submodule, Workflow
from qlsp.diagnostics import Fix, Message, Predicts, Severity
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._islands import island, island_in_container
from qlsp.rules._layers import Reach, gets_quantized, is_library, reach, refusal
from qlsp.rules._rewrites import call_of
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.workflow import Weights

META = RuleMeta(
    code="QL402",
    name="unsupported-module",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)

FUSED = "batch_norm1d"
"""Raises unless it is fused: `missing-fuse`."""

WRONG = "prelu"
"""The operator whose quantized kernel is wrong."""

BY_QCONFIG = ("conv_transpose", "lazy_conv_transpose", "embedding")
"""Classes that another qconfig makes quantizable; rules of their own report the qconfig."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each call of a module that cannot be quantized."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for call in ctx.facts.op_calls.values():
        layer = ctx.facts.submodules.get(call.owner) if call.owner is not None else None
        if layer is None or call.alias or call.spec.op == FUSED or call.spec.op.startswith(BY_QCONFIG):
            continue
        if call.spec.op == WRONG:
            yield from _prelu(ctx, call, layer)
            continue
        error = _refused(ctx, call, layer)
        if error is not None:
            yield _finding(ctx, call, layer, Message.of("refused-module", error=error, **_names(layer)))
        elif cause_of(call) is Cause.UNSUPPORTED_MODULE:
            text = call.alternatives[0].raises or ""
            yield _finding(ctx, call, layer, Message.of("unsupported-module", error=text, **_names(layer)))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Run the module in float."""
    call = call_of(ctx, finding.subject)
    yield from attempts(lambda: island(ctx, call), lambda: island_in_container(ctx, call))


def _refused(ctx: RuleContext, call: OpCall, layer: Submodule) -> str | None:
    """The error of a class that no qconfig makes quantizable, if one reaches it."""
    reached = reach(layer)
    if not is_library(layer) or call.spec.refused_weights or reached in (Reach.NO, Reach.OPEN):
        return None
    if reached is Reach.ASSUMED and not gets_quantized(call):
        return None
    return refusal(call.spec, ctx.facts.context.mode)


def _prelu(ctx: RuleContext, call: OpCall, layer: Submodule) -> Iterator[Finding]:
    if not is_library(layer) or not gets_quantized(call):
        return
    reached = reach(layer)
    per_channel = layer.weights is Weights.PER_CHANNEL or reached is Reach.ASSUMED
    if reached is Reach.OPEN:
        return
    if reached is Reach.NO:
        if cause_of(call) is Cause.NOT_SWAPPED:
            yield _finding(
                ctx,
                call,
                layer,
                Message.of("unsupported-module", error=call.alternatives[0].raises or "", **_names(layer)),
            )
        return
    message = Message.of("prelu-raises" if per_channel else "prelu-wrong", **_names(layer))
    yield _finding(ctx, call, layer, message, raises=per_channel)


def _names(layer: Submodule) -> dict[str, str]:
    return {"module": layer.path or "the module", "kind": layer.cls.rpartition(".")[2]}


def _finding(ctx: RuleContext, call: OpCall, layer: Submodule, message: Message, raises: bool = True) -> Finding:
    notes = (Note(Message.of("module-made-here"), layer.span),) if layer.span is not None else ()
    return Finding(
        call.span,
        message,
        severity=Severity.ERROR if raises else Severity.WARNING,
        predicts=Predicts.RAISES if raises else Predicts.SILENT,
        assumes=assumption(ctx),
        related=notes,
        subject=(call.span, call.path),
    )
