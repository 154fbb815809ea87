"""Which mistake makes a call raise: a call that raises belongs to exactly one rule."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from qlsp.analysis.facts import Alternative, OpCall, Workflow
from qlsp.ops.spec import Role
from qlsp.rules.api import RuleContext
from qlsp.values.value import Domain, Tensor


class Cause(Enum):
    """The mistakes behind a call that the converted model cannot make."""

    STUB_ON_QUANTIZED = "a QuantStub on a quantized tensor"
    NO_STUB = "a quantized module on a tensor that no stub has quantized"
    BEHIND_DEQUANT = "a quantized module on a tensor that has left the quantized region"
    FUNCTIONAL_ON_FLOAT = "a FloatFunctional on float tensors, one of which has left the quantized region"
    LOSS = "a loss of a quantized tensor"
    MIX = "quantized and float operands in one call"
    ALIAS = "a second name of a module, which convert leaves float"
    NOT_SWAPPED = "a module or FloatFunctional that stays float although convert swaps its class"
    UNSUPPORTED_MODULE = "a module without a quantized kernel"
    WEIGHT_FUNCTION = "a function on a quantized input and float weights"
    FLOAT_OP = "an operator without a quantized kernel"


_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
WEIGHT_FUNCTIONS = frozenset(("linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_tbc", *_TRANSPOSED))


def cause_of(call: OpCall) -> Cause | None:
    """The mistake, None if some alternative of the call runs or the alternatives differ in their mistake."""
    causes = {_cause(call, alternative) for alternative in call.alternatives}
    return causes.pop() if len(causes) == 1 else None


def raising(ctx: RuleContext, cause: Cause) -> Iterator[OpCall]:
    """The calls of an eager mode model that certainly raise by this mistake."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for call in ctx.facts.op_calls.values():
        if call.alternatives and cause_of(call) is cause:
            yield call


def shown(call: OpCall) -> str:
    """How a message names the operator of a call."""
    written = {"[]=": "a[...] = b", "[tensor]=": "a[index] = b"}
    return written.get(call.spelling, call.spelling.removeprefix("torch.ao.nn.quantized."))


def _cause(call: OpCall, alternative: Alternative) -> Cause | None:
    if alternative.raises is None:
        return None
    spec = call.spec
    if call.alias:
        return Cause.ALIAS
    if spec.role is Role.QUANTIZE:
        return Cause.STUB_ON_QUANTIZED
    tensors = [operand.value for operand in alternative.operands if isinstance(operand.value, Tensor)]
    domains = {tensor.domain for tensor in tensors}
    if Domain.QUANTIZED not in domains:
        return _on_float(call, tensors)
    if spec.role is Role.LOSS and tensors[0].domain is Domain.QUANTIZED:
        return Cause.LOSS
    if spec.functionals and not call.converted:
        return Cause.NOT_SWAPPED
    if alternative.raises == spec.on_number:
        return Cause.MIX
    if Domain.FLOAT in domains and spec.op in WEIGHT_FUNCTIONS:
        return Cause.WEIGHT_FUNCTION
    if domains & {Domain.FLOAT, Domain.INTEGER}:
        return Cause.MIX
    if call.owner is not None and (spec.swapped or not spec.modules):
        return Cause.NOT_SWAPPED
    if spec.modules and call.owner is not None:
        return Cause.UNSUPPORTED_MODULE
    return Cause.WEIGHT_FUNCTION if spec.op in WEIGHT_FUNCTIONS else Cause.FLOAT_OP


def _on_float(call: OpCall, tensors: list[Tensor]) -> Cause:
    if not any(tensor.dequantized for tensor in tensors):
        return Cause.NO_STUB
    return Cause.FUNCTIONAL_ON_FLOAT if call.spec.functionals else Cause.BEHIND_DEQUANT
