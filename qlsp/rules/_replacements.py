"""What stands in place of an operator without a quantized kernel: a method, or a module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qlsp.analysis.facts import OpCall
from qlsp.ops.spec import Observation


@dataclass(frozen=True)
class Twin:
    """A module without parameters that computes what a function does and has a quantized class.

    ``constructor`` are the parameters of the function that it takes when it is built, ``always`` what it needs
    besides.
    """

    module: str
    constructor: tuple[str, ...] = ()
    always: str = ""


TWINS: Mapping[str, Twin] = {
    "hardswish": Twin("torch.nn.Hardswish"),
    "elu": Twin("torch.nn.ELU", ("alpha",)),
    "layer_norm": Twin("torch.nn.LayerNorm", ("normalized_shape", "eps"), "elementwise_affine=False"),
}
"""By operator; measured with torch 2.13: the float output is the same to the bit."""

DIRECT = {"add": "add", "mul": "mul", "matmul": "matmul", "bmm": "matmul", "mm": "matmul"}
"""Operators that are one method of a FloatFunctional."""

_INSTEAD = {
    "sub": "ff.add(a, ff.mul_scalar(b, -1.0))",
    "rsub": "ff.add(b, ff.mul_scalar(a, -1.0))",
    "neg": "ff.mul_scalar(a, -1.0)",
    "square": "ff.mul(a, a)",
    "sum_of_list": "ff.add(a, b)",
    "silu": "ff.mul(a, torch.sigmoid(a))",
    "abs": "ff.add(torch.relu(a), torch.relu(ff.mul_scalar(a, -1.0)))",
}
_WITH_NUMBER = {
    "add": "ff.add_scalar(a, number)",
    "sub": "ff.add_scalar(a, -number)",
    "mul": "ff.mul_scalar(a, number)",
    "div": "ff.mul_scalar(a, 1 / number)",
    "pow": "ff.mul(a, a)",
}


def advice(call: OpCall) -> tuple[str, dict[str, str]]:
    """The id of the message that says what to write instead, and its parameters."""
    op = call.spec.op
    if op in TWINS:
        return "float-op-twin", {"module": TWINS[op].module.replace("torch.nn", "nn")}
    if call.spec.observation is Observation.NONE:
        return "float-op-result", {}
    single = len(call.alternatives[0].operands) == 1
    if single and op in _WITH_NUMBER:
        return "float-op-on-quantized", {"instead": _WITH_NUMBER[op]}
    if op in DIRECT:
        return "float-op-on-quantized", {"instead": f"ff.{DIRECT[op]}(a, b)"}
    if op in _INSTEAD:
        return "float-op-on-quantized", {"instead": _INSTEAD[op]}
    return "float-op-island", {}
