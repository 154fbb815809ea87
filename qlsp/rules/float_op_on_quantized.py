"""An operator without a quantized kernel gets a quantized tensor.

## What it does
Flags Python operators (`a + b`, `a += b`, `-a`, `a @ b`, `1 - a`, `a / 2`, `a ** 2`), tensor methods (`a.add_(b)`,
`a.sum(1)`, `a.softmax(-1)`) and functions (`torch.add`, `F.softmax`, `torch.where`, `sum([a, b])`) on tensors that
are quantized after convert, where torch has no kernel for them. Operators inside one expression are one finding.

## Why it matters
The float model, prepare and the calibration run. The converted model raises at this line:

    NotImplementedError: Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend

The name between the quotes is that of the operator: `Could not run 'aten::X' with arguments from the 'QuantizedCPU'
backend`; torch up to 1.10 says `aten::add.Tensor`, `aten::add_.Tensor`, `aten::empty_strided` or
`aten::empty.memory_format` for arithmetic, and torch 1.4 calls the backend so:
`Could not run 'aten::X' with arguments from the 'QuantizedCPUTensorId' backend`. Other operators and arguments raise

    RuntimeError: empty_strided not supported on quantized tensors yet see https://github.com/pytorch/pytorch/issues/74540
    RuntimeError: promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be
    RuntimeError: Creation of quantized tensor requires quantized dtype like torch.quint8
    RuntimeError: X: Expected a floating point or complex tensor as input. Got QUInt8
    RuntimeError: false INTERNAL ASSERT FAILED at ... cannot call qscheme on UnknownQuantizer
    RuntimeError: expected common dtype to be floating point, yet common dtype is QUInt8
    RuntimeError: prelu: Type promoting not supported. Got QUInt8 and Float
    RuntimeError: Value argument for quantized input_put should not be quantized
    RuntimeError: only Tensors of floating point dtype can require gradients
    TypeError: Got unsupported ScalarType QUInt8

`a + b` is the most frequent one: the residual connection. It has an integer kernel, but that kernel needs the scale of
its result, which only an observer can find, so it is called through `FloatFunctional.add`.

| instead of | write | SQNR |
|---|---|---|
| `a + b` | `ff.add(a, b)` | 33.1 dB |
| `a - b` | `ff.add(a, ff.mul_scalar(b, -1.0))` | 33.1 dB |
| `a * b` | `ff.mul(a, b)` | 28.8 dB |
| `a @ b` | `ff.matmul(a, b)` | 29.4 dB |
| `a * 2`, `a / 4`, `-a` | `ff.mul_scalar(a, 2)` and so on | 34.6 dB |
| `1 - a` | `ff.add_scalar(ff.mul_scalar(a, -1.0), 1)` | 31.7 dB |
| `a ** 2` | `ff.mul(a, a)` | 30.6 dB |
| `F.hardswish(a)`, `F.elu(a)` | `nn.Hardswish`, `nn.ELU` | 32.0, 32.5 dB |
| `F.silu(a)` | `ff.mul(a, torch.sigmoid(a))` | 32.4 dB |
| `F.softmax(a, -1)` | `quant(F.softmax(dequant(a), -1))` | 33.0 dB |

Each line needs a FloatFunctional (or a stub) of its own: it holds the observer of its result.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            out = self.conv(x)
            out = out + x  # QL401
            return self.dequant(out)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.dequant = DeQuantStub()
            self.add = FloatFunctional()

        def forward(self, x):
            x = self.quant(x)
            out = self.conv(x)
            out = self.add.add(out, x)
            return self.dequant(out)

## Fix safety
Safe, as the float output stays the same to the bit: `+`, `-`, `*`, `@`, the minus sign, division by a power of two,
squares, sums that are written out, and functions with a module twin. A ReLU that gets all of a sum becomes part of it
(`add_relu`), as a function or as a module that no string of the file names, as a list of modules to fuse does. An
in-place operator becomes an assignment, if nothing else may look at the tensor that it changed. Where the result goes
straight into a DeQuantStub, the stub moves before the operator.

Unsafe: division by other numbers, `silu` and `abs` (rounded differently), and for everything else the way through
float, `self.quant(op(self.dequant(x)))`, which costs two conversions at every run. A fix is unsafe as well where a base
class is not in view, where no root in view uses the class, where code in view lists the children of models, where a
checkpoint is loaded after prepare (its keys change), and where it is not certain that an operand is a number.

Where one object makes the call several times, in a block that is called again or in a loop of unknown length, its calls
share the new observer: unsafe, and `functional-reused` says so. There is no fix in functions outside a module, and in a
block that also sees float tensors, where a quantized kernel would raise.

## When it is silent
Tensors whose domain is not known or that are float: before the QuantStub, behind the DeQuantStub. Operators that run on
quantized tensors: `relu`, `clamp`, `mean`, `max_pool2d`, `view`, comparisons, and the concatenations, whose mistake is
another one (QL101). Quantized and float operands in one call are QL212, modules without a quantized kernel QL402,
`F.conv2d` and `F.linear` QL403, a loss on the result QL204. Models for FX graph mode or PT2E: there the front end
replaces the operators itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall
from qlsp.analysis.scales import Scales
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._arithmetic import Rewriting
from qlsp.rules._causes import Cause, raising, shown
from qlsp.rules._nesting import outermost
from qlsp.rules._replacements import advice
from qlsp.rules._rewrites import call_of
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor

META = RuleMeta(
    code="QL401",
    name="float-op-on-quantized",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
    one_per_line=True,
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for the outermost operator of every expression that certainly raises."""
    scales = Scales(ctx.facts)
    for call in outermost(ctx, list(raising(ctx, Cause.FLOAT_OP))):
        yield _finding(ctx, scales, call)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Write the expression with quantized kernels as far as there are any; the rest runs in float."""
    call = call_of(ctx, finding.subject)
    yield from attempts(
        lambda: _rewritten(ctx, call),
        lambda: Rewriting(ctx, ctx.edits(), call).before_dequant(),
    )


def _rewritten(ctx: RuleContext, call: OpCall) -> Fix:
    """With the ReLU behind the operator where that can be done."""
    try:
        return Rewriting(ctx, ctx.edits(), call).fix()
    except NoFix:
        return Rewriting(ctx, ctx.edits(), call, with_relu=False).fix()


def _finding(ctx: RuleContext, scales: Scales, call: OpCall) -> Finding:
    notes: list[Note] = []
    for operand in call.alternatives[0].operands:
        value = operand.value
        if not isinstance(value, Tensor) or value.domain is not Domain.QUANTIZED or value.origin is None:
            continue
        if not any(note.span == value.origin.span for note in notes):
            owner = scales.owner(value.qparams.scale if value.qparams is not None else None)
            notes.append(Note(Message.of("cat-scale-from", owner=owner), value.origin.span))
    identifier, parameters = advice(call)
    error = call.alternatives[0].raises or ""
    message = Message.of(identifier, spelling=shown(call), error=error, **parameters)
    return Finding(
        call.span, message, assumes=assumption(ctx), related=tuple(notes[:2]), subject=(call.span, call.path)
    )
