"""A function takes a quantized tensor together with float weights.

## What it does
Flags `F.linear`, `F.conv1d/2d/3d`, `F.conv_transpose1d/2d/3d`, `F.bilinear` (and their spellings in `torch`) on a
quantized input.

## Why it matters
Convert swaps modules. The weight of a function stays a float parameter, and the function has no quantized kernel: the
float model and calibration run, the converted model raises

    NotImplementedError: Could not run 'aten::_slow_conv2d_forward' with arguments from the 'QuantizedCPU' backend

and with a bias, or for linear:

    RuntimeError: Input type (c10::quint8) and bias type (float) should be the same
    RuntimeError: mat1 and mat2 must have the same dtype, but got QUInt8 and Float

## Bad
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 3)
            self.kernel = nn.Parameter(torch.randn(4, 8, 1, 1))
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = F.conv2d(self.conv(self.quant(x)), self.kernel)  # QL403
            return self.dequant(x)

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 3)
            self.kernel = nn.Conv2d(8, 4, 1, bias=False)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.kernel(self.conv(self.quant(x)))
            return self.dequant(x)

## Fix safety
Unsafe: the function runs in float between two conversions, or behind the DeQuantStub if its result goes there anyway.
The float model stays the same. A layer in place of the function would be quantized, but changes the names of the
parameters, so it is not offered.

## When it is silent
On inputs that are not known to be quantized, in FX mode (which quantizes functions), on the weight of a layer that
convert swaps (weight-attribute-in-forward), and inside a subclass of a layer (subclass-not-swapped).
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import PARAMETER, OpCall
from qlsp.diagnostics import Fix, Message, Predicts, Severity
from qlsp.rules._causes import Cause, raising
from qlsp.rules._islands import island
from qlsp.rules._layers import is_library
from qlsp.rules._rewrites import call_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts

META = RuleMeta(
    code="QL403",
    name="functional-weight-op",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each function that gets a quantized tensor and float weights."""
    for call in raising(ctx, Cause.WEIGHT_FUNCTION):
        if call.owner is None and not _in_subclass(ctx, call) and not _takes_method(call):
            error = call.alternatives[0].raises or ""
            message = Message.of("functional-weight-op", spelling=call.spelling, error=error)
            yield Finding(call.span, message, assumes=assumption(ctx), subject=(call.span, call.path))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Run the function in float."""
    call = call_of(ctx, finding.subject)
    yield from attempts(lambda: island(ctx, call))


def _in_subclass(ctx: RuleContext, call: OpCall) -> bool:
    """Does a subclass of a layer make this call, which would not run if convert swapped it?"""
    layer = ctx.facts.submodules.get(call.receiver) if call.receiver is not None else None
    return layer is not None and layer.spec is not None and layer.spec.swapped and not is_library(layer)


def _takes_method(call: OpCall) -> bool:
    """Is an argument the weight of a layer that convert swaps?"""
    keys = [pair[1] for pair in call.arguments if isinstance(pair, tuple) and len(pair) == 2]
    return any(isinstance(key, tuple) and key[:1] == (PARAMETER,) for key in keys)
