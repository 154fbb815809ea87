"""Dynamic quantization is asked for a type that it leaves in float.

## What it does
Flags `quantize_dynamic` whose set or dict of types names convolutions, normalizations, `nn.RNN` or `nn.Bilinear`.

## Why it matters
`quantize_dynamic` replaces Linear, LSTM, GRU, their cells, and embeddings with a qconfig of their own. Other types are
skipped, and nothing says so: measured with torch 2.13.0, 1 of 2 layers of the example is quantized. A convolution can
only be quantized statically, with observers and data.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import quantize_dynamic


    def build():
        net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(24, 2)).eval()
        return quantize_dynamic(net, {nn.Conv1d, nn.Linear}, dtype=torch.qint8)  # QL325

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import quantize_dynamic


    def build():
        net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(24, 2)).eval()
        return quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)

## When it is silent
The types are not known, a mapping of its own is passed, or the model certainly has no such layer.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall
from qlsp.diagnostics import Message, Severity
from qlsp.rules._life import calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(code="QL325", name="dynamic-unsupported", severity=Severity.WARNING, since="0.1")

IGNORED = frozenset(
    f"torch.nn.{name}"
    for name in (
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "RNN",
        "Bilinear",
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "LayerNorm",
        "GroupNorm",
        "InstanceNorm1d",
        "InstanceNorm2d",
        "InstanceNorm3d",
    )
)
"""Layers with weights that the default mapping of ``quantize_dynamic`` does not have."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per call that is asked for a type it leaves alone."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for _, call in calls(script):
        wrong = _ignored(call)
        if wrong and call.span not in seen:
            seen.add(call.span)
            classes = ", ".join(f"`{name.removeprefix('torch.')}`" for name in wrong)
            yield Finding(call.span, Message.of("dynamic-unsupported", call=call.spelling, classes=classes))


def _ignored(call: LifecycleCall) -> list[str]:
    """The types without a twin, but for those that the model does not have."""
    held = {cls for _, cls in call.contents.modules}
    return sorted(name for name in call.asked & IGNORED if name in held or not call.contents.whole)
