"""One operator gets quantized and float tensors.

## What it does
Flags operators, functions and methods of FloatFunctional that get a quantized tensor together with a float one: a
parameter, a buffer, a constant tensor, an input that no stub has quantized, a tensor behind the DeQuantStub. Flags
also a Python number where a converted FloatFunctional takes a tensor.

## Why it matters
In the float model all tensors are float. After convert the two kinds meet, and torch has no kernel for the pair:

    RuntimeError: promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be
    NotImplementedError: Could not run 'aten::qscheme' with arguments from the 'CPU' backend
    RuntimeError: Mul operands should have same data type.
    RuntimeError: MatMul operands should have same data type.
    RuntimeError: MatMul operands should use QInt8 or QUInt8 data types.
    RuntimeError: All dtypes must be the same.
    RuntimeError: Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize
    RuntimeError: meshgrid expects all tensors to have the same dtype
    RuntimeError: Overloaded torch operator invoked from Python failed to match any schema

The last one is that of a number in `ff.add(x, 2.0)`, and goes on with
`quantized::add() Expected a value of type 'Tensor' for argument 'qb' but instead found type 'float'`;
`ff.add_scalar(x, 2.0)` takes numbers. With a stub for the parameter, 33.0 dB of signal to quantization noise were
measured.

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.proj = nn.Linear(4, 8)
            self.pos = nn.Parameter(torch.randn(8))
            self.add = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.proj(self.quant(x))
            x = self.add.add(x, self.pos)  # QL212
            return self.dequant(x)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.proj = nn.Linear(4, 8)
            self.pos = nn.Parameter(torch.randn(8))
            self.add = FloatFunctional()
            self.dequant = DeQuantStub()
            self.pos_quant = QuantStub()

        def forward(self, x):
            x = self.proj(self.quant(x))
            x = self.add.add(x, self.pos_quant(self.pos))
            return self.dequant(x)

## Fix safety
Safe: a stub of its own for each float tensor (in the float model a stub is the identity), together with a
FloatFunctional where the operator needs one, and `add_scalar` or `mul_scalar` for a number. Unsafe where the float
tensor comes from a DeQuantStub (the other operand is dequantized, too, or the first one rounded a second time), and
where the operator has no quantized kernel, so that the quantized operands are dequantized. There is none for integer
tensors, for an assignment into a part of a tensor, nor where contexts in view differ.

## When it is silent
Numbers with Python operators (`x * 2.0` is QL401), tensors of unknown domain, losses (QL204), and `F.linear` or
`F.conv2d` with float weights (QL403).
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._arithmetic import Rewriting
from qlsp.rules._causes import Cause, raising, shown
from qlsp.rules._nesting import outermost
from qlsp.rules._rewrites import call_of
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor

META = RuleMeta(
    code="QL212",
    name="float-quantized-mix",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
    one_per_line=True,
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call that certainly mixes quantized and float operands."""
    for call in outermost(ctx, list(raising(ctx, Cause.MIX))):
        yield _finding(ctx, call)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Quantize the float operands; where there is no kernel, dequantize the others."""
    call = call_of(ctx, finding.subject)
    if call.spec.functionals and call.owner is not None:
        yield from attempts(lambda: Rewriting(ctx, ctx.edits(), call).functional_operands())
    elif call.spec.role is Role.COPY:
        raise NoFix("an assignment into a tensor")
    elif _left(call) and (out := list(attempts(lambda: Rewriting(ctx, ctx.edits(), call).bring_out()))):
        yield from out
    else:
        yield from attempts(lambda: Rewriting(ctx, ctx.edits(), call).fix())


def _left(call: OpCall) -> bool:
    """Some operand has left the quantized region."""
    values = [operand.value for alternative in call.alternatives for operand in alternative.operands]
    return any(isinstance(value, Tensor) and value.dequantized for value in values)


def _finding(ctx: RuleContext, call: OpCall) -> Finding:
    alternative = call.alternatives[0]
    values = [operand.value for operand in alternative.operands]
    floats = [v for v in values if isinstance(v, Tensor) and v.domain in (Domain.FLOAT, Domain.INTEGER)]
    notes = [
        Note(Message.of("quantized-here"), value.origin.span)
        for value in values
        if isinstance(value, Tensor) and value.domain is Domain.QUANTIZED and value.origin is not None
    ]
    if not floats:
        identifier = "float-quantized-number"
    elif any(value.dequantized for value in floats):
        identifier = "float-quantized-behind"
    else:
        identifier = "float-quantized-mix"
    message = Message.of(identifier, spelling=shown(call), error=alternative.raises or "")
    subject = (call.span, call.path)
    return Finding(call.span, message, assumes=assumption(ctx), related=tuple(notes[:1]), subject=subject)
