"""A quantized tensor is written into a part of another one.

## What it does
Flags `a[...] = b` on a part of a quantized tensor, `a[:2].copy_(b)`, `slice_scatter` and `select_scatter`, where `b` is
quantized with another scale or zero point than `a`.

## Why it matters
The integer codes are copied as they are, and read with the scale and zero point of `a` from then on. Nothing is raised
and nothing is warned of: with `b` = 5.0 (scale 0.05, zero point 0) and `a` of scale 0.01 and zero point 128, `a`
reads **-0.28**. Measured in a model: 8.3 dB of signal to quantization noise, against 33.4 dB with
`FloatFunctional.cat` of the parts. The float model, calibration and quantization-aware training do not show it.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.near = nn.Conv2d(3, 4, 1)
            self.far = nn.Conv2d(3, 4, 1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            near, far = self.near(x), self.far(x)
            near[:, :2] = far[:, :2]  # QL107
            return self.dequant(near)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.near = nn.Conv2d(3, 4, 1)
            self.far = nn.Conv2d(3, 4, 1)
            self.cat = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            near, far = self.near(x), self.far(x)
            near = self.cat.cat([far[:, :2], near[:, 2:]], 1)
            return self.dequant(near)

## Fix safety
Shown, not applied: for one slice from the beginning or up to the end along one axis, the concatenation that computes
the same. Who else holds the tensor that was changed in place would keep the old one.

## When it is silent
Tensors of one scale (parts of one tensor, two sigmoids), scales that are not known, numbers (`a[:2] = 0`), float
tensors, and `a[:] = b` or `a.copy_(b)` on a whole tensor, which take over scale and zero point. An index that is a
tensor, a mask or a list raises, and so does `a[:2] += b` (QL401); a quantized tensor written into a float one raises,
too (QL212). Numbers and float tensors in a part that is not contiguous raise
`Quantized copy only works with contiguous and NHWC Tensors`: it depends on the layout of the tensor, which is not
followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.analysis.scales import Scales
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.ops.spec import Role
from qlsp.rules._causes import shown
from qlsp.rules._rewrites import FLOAT_FUNCTIONAL, call_of
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption
from qlsp.values.value import Domain, Tensor

META = RuleMeta(
    code="QL107",
    name="quantized-slice-assignment",
    severity=Severity.ERROR,
    since="0.1",
    fix="display",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every copy of raw codes between tensors that certainly differ in scale."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    scales = Scales(ctx.facts)
    for call in ctx.facts.op_calls.values():
        if call.spec.role is Role.COPY and _partial(call) and scales.verdict(call).outcome == "mixed":
            yield _finding(ctx, scales, call)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """The concatenation that computes the same, to look at."""
    call, edit = call_of(ctx, finding.subject), ctx.edits()
    if call.spec.op != "setitem":
        raise NoFix("no assignment")
    slices = edit.sliced(call.span)
    name = edit.add_submodule(call.span, "cat", FLOAT_FUNCTIONAL)
    receiver = edit.method(call.span).receiver
    parts = ", ".join(slices.parts)
    edit.replace(slices.statement, f"{slices.target} = {receiver}.{name}.cat([{parts}], {slices.axis})")
    yield edit.fix(Message.of("fix-slices-cat"), Message.of("fix-slices-cat-reason"), Applicability.DISPLAY)


def _partial(call: OpCall) -> bool:
    """The codes go into a part of a tensor: ``copy_`` on a whole one takes over its scale."""
    if call.spec.op != "copy_":
        return True
    targets = [alternative.operands[0].value for alternative in call.alternatives]
    return all(isinstance(target, Tensor) and target.base != target.number for target in targets)


def _finding(ctx: RuleContext, scales: Scales, call: OpCall) -> Finding:
    tensors = [
        operand.value
        for operand in call.alternatives[0].operands
        if isinstance(operand.value, Tensor) and operand.value.domain is Domain.QUANTIZED
    ]
    owners = [scales.owner(tensor.qparams.scale if tensor.qparams is not None else None) for tensor in tensors]
    notes = [
        Note(Message.of("cat-scale-from", owner=owner), tensor.origin.span)
        for owner, tensor in zip(owners, tensors, strict=True)
        if tensor.origin is not None
    ]
    message = Message.of("quantized-slice-assignment", spelling=shown(call), target=owners[0], source=owners[-1])
    return Finding(call.span, message, assumes=assumption(ctx), related=tuple(notes), subject=(call.span, call.path))
