"""Tensors of different scale and zero point are concatenated by an operator that has no observer.

## What it does
Flags `torch.cat`, `concat`, `concatenate`, `stack`, `hstack`, `vstack`, `dstack` and `column_stack` in an eager
mode model when the quantized inputs do not share one scale and zero point.

## Why it matters
The quantized kernel gives the output the scale and zero point of its **first** input and requantizes the
others into it, where they saturate or lose their resolution. Giving all branches the same qconfig does not
help: a qconfig is a recipe, each module makes an observer of its own from it. Nothing warns during prepare,
calibration or quantization-aware training; torch 2.13 warns once, when the converted model runs, with
`All inputs of this cat operator must share the same quantization parameters`.

Measured with torch 2.13.0 (x86 qconfig, two branches, the narrow one first), in dB of signal to quantization
noise, raw `torch.cat` against `FloatFunctional.cat`:

| ratio of the ranges | torch.cat | FloatFunctional.cat |
|---|---|---|
| 1 | 34.3 | 34.3 |
| 1.5 | 30.0 | 31.9 |
| 2 | 22.4 | 31.3 |
| 4 | 11.3 | 32.2 |
| 8 | 6.0 | 29.5 |
| 100 | 0.5 | 31.4 |

With the wide branch first the total looks well, but the narrow branch keeps only a few of its codes.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.near = nn.Conv2d(3, 4, 3, padding=1)
            self.far = nn.Conv2d(4, 4, 3, padding=1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            near = self.near(self.quant(x))
            far = self.far(near)
            return self.dequant(torch.cat([near, far], dim=1))  # QL101

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.near = nn.Conv2d(3, 4, 3, padding=1)
            self.far = nn.Conv2d(4, 4, 3, padding=1)
            self.dequant = DeQuantStub()
            self.cat = FloatFunctional()

        def forward(self, x):
            near = self.near(self.quant(x))
            far = self.far(near)
            return self.dequant(self.cat.cat([near, far], dim=1))

## When it is silent
Inputs that keep one scale (`cat([x, relu(x), maxpool(x)])`, chunks of one tensor, the same tensor twice, two
sigmoids, outputs of one shared module), modules whose observers code in view ties after prepare, float tensors, and
models for FX graph mode or PT2E, where the
front end shares the observers of a concatenation itself.

## Fix safety
Offered in this order, as far as it is right in every context in view that uses the class:

- where every input is the bare output of a stub: concatenate the float tensors and quantize once. Safe; one scale
  by construction, right for post-training quantization and for training;
- a FloatFunctional of its own in place of the operator. Safe; the float output is the same to the bit. The result
  gets one scale, the inputs keep theirs and are rounded a second time: at equal ranges, or where the first input
  happened to be the widest, at most 1.8 dB were lost (the table of measured values shows both orders). In a loop of
  known length one for each pass, which is unsafe: a longer loop would be cut off. In a block that is called several
  times the calls share one, which is unsafe as well;
- one stub for all branches: unsafe, and only where the mode is known to be post-training quantization;
- one observer for all branches, tied after prepare (`p.b.activation_post_process = p.a.activation_post_process`):
  unsafe, and only where every model that runs the concatenation is prepared for post-training quantization in view,
  by a statement `p = prepare(m)` or `prepare(m, inplace=True)`, and the branches end in modules with an observer of
  their own. Inputs and result get one scale and nothing is rounded twice, but the tie is lost at every fresh prepare,
  and in training the moving average of a shared observer clips the wide branch;
- through float and back: unsafe. It is legal everywhere and costs two conversions at every run.

A fix is unsafe where a base class is not in view, where no root in view uses the class, where code in view lists
the children of models or the class has a `__setattr__` or `__new__` of its own, and where a checkpoint is loaded
after prepare (its keys change). There is none in helper
functions outside a module, nor where a block also sees float tensors.

## Limits
At a range ratio of 100 no shared 8-bit scale serves both branches; there it is better to keep the branches
apart, for example two convolutions whose results are added instead of one convolution over the
concatenation: 30.3 against 19.6 dB were measured at a ratio of 10.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.analysis.scales import Scales, is_cat
from qlsp.diagnostics import Fix, Message, Severity
from qlsp.rules._cats import through_float, with_functional
from qlsp.rules._functionals import strays_cat
from qlsp.rules._one_scale import with_one_stub, with_shared_stub, with_tied_observers
from qlsp.rules._rewrites import call_of
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.qparams import ObservedScale
from qlsp.values.value import Domain, Origin, Tensor

META = RuleMeta(code="QL101", name="cat-mixed-scales", severity=Severity.ERROR, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per concatenation whose inputs certainly differ in scale."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    scales = Scales(ctx.facts)
    for call in ctx.facts.op_calls.values():
        if is_cat(call) and scales.verdict(call).outcome == "mixed" and not strays_cat(ctx, call):
            yield _finding(ctx, scales, call)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """One stub behind a float concatenation, else an observer for the concatenation, else the way through float."""
    call = call_of(ctx, finding.subject)
    yield from attempts(
        lambda: with_one_stub(ctx, call),
        lambda: with_functional(ctx, call),
        lambda: with_shared_stub(ctx, call),
        lambda: with_tied_observers(ctx, call),
        lambda: through_float(ctx, call),
    )


def _finding(ctx: RuleContext, scales: Scales, call: OpCall) -> Finding:
    tensors = _quantized(call)
    labels = [scales.owner(tensor.qparams.scale if tensor.qparams else None) for tensor in tensors]
    owners = list(dict.fromkeys(labels))
    message = Message.of("cat-mixed-scales", spelling=call.spelling, first=owners[0], others=", ".join(owners[1:]))
    notes: list[Note] = []
    for owner, tensor in zip(labels, tensors, strict=True):
        if tensor.origin is not None and not any(note.span == tensor.origin.span for note in notes):
            notes.append(Note(Message.of("cat-scale-from", owner=owner), tensor.origin.span))
    severity = Severity.WARNING if _siblings(ctx, tensors) else Severity.ERROR
    subject = (call.span, call.path)
    return Finding(call.span, message, severity, assumes=assumption(ctx), related=tuple(notes), subject=subject)


def _quantized(call: OpCall) -> list[Tensor]:
    return [
        operand.value
        for operand in call.alternatives[0].operands
        if isinstance(operand.value, Tensor) and operand.value.domain is Domain.QUANTIZED
    ]


def _siblings(ctx: RuleContext, tensors: list[Tensor]) -> bool:
    """Layers of one class on one input often have ranges alike: the loss is likely small, not certain."""
    kinds: set[tuple[object, ...]] = set()
    for tensor in tensors:
        scale = tensor.qparams.scale if tensor.qparams is not None else None
        if not isinstance(scale, ObservedScale) or tensor.origin is None:
            return False
        producer = _producer(ctx, tensor.origin)
        submodule = ctx.facts.submodules.get(scale.observer.owner)
        if producer is None or submodule is None:
            return False
        inputs = tuple(
            operand.value.number for operand in producer.alternatives[0].operands if isinstance(operand.value, Tensor)
        )
        kinds.add((submodule.cls, inputs))
    return len(kinds) == 1


def _producer(ctx: RuleContext, origin: Origin) -> OpCall | None:
    return ctx.facts.op_calls.get((origin.span, origin.path))
