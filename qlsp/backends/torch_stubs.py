"""The borders of the quantized region of torch eager, and FloatFunctional."""

from __future__ import annotations

from qlsp.backends.torch_rows import EMPTY_STRIDED, PROMOTE, aten, no_kernel, numbers, on_float, row
from qlsp.ops.spec import Observation, OpSpec, Role

TWICE = no_kernel("aten::quantize_per_tensor")
MAPPINGS = "torch/ao/quantization/quantization_mappings.py"
FUNCTIONAL = "torch/ao/nn/quantized/modules/functional_modules.py"

STUBS = (
    row(
        "quantize",
        "tq.QuantStub",
        Observation.OWN,
        constructor="qconfig",
        raises=TWICE,
        swapped=True,
        observed=True,
        role=Role.QUANTIZE,
        source=MAPPINGS,
    ),
    row(
        "dequantize",
        "tq.DeQuantStub",
        Observation.NONE,
        constructor="qconfig",
        swapped=True,
        role=Role.DEQUANTIZE,
        source=MAPPINGS,
    ),
    row("dequantize", "dequantize", Observation.NONE, role=Role.DEQUANTIZE),
    row(
        "quantize_per_tensor",
        "torch.quantize_per_tensor",
        Observation.FIXED,
        "input scale zero_point dtype",
        raises=TWICE,
        role=Role.QUANTIZE,
    ),
    row(
        "quantize_per_tensor_dynamic",
        "torch.quantize_per_tensor_dynamic",
        Observation.OWN,
        "input dtype reduce_range",
        raises=no_kernel("aten::quantize_per_tensor_dynamic"),
        role=Role.QUANTIZE,
    ),
    row(
        "quantize_per_channel",
        "torch.quantize_per_channel",
        Observation.OWN,
        "input scales zero_points axis dtype",
        raises=no_kernel("aten::quantize_per_channel"),
        role=Role.QUANTIZE,
    ),
)

QSCHEME = no_kernel("aten::qscheme", "CPU")
NO_SCHEMA = "Overloaded torch operator invoked from Python failed to match any schema"


def functional(op: str, called: str, raises: str, behind: str = QSCHEME, before: str = QSCHEME) -> OpSpec:
    """A binary method of FloatFunctional."""
    return row(
        op,
        f"ff.{op}",
        Observation.OWN,
        "x y",
        tensors="x y",
        raises=raises,
        mixed=(behind, before),
        on_float=on_float(op),
        on_number=NO_SCHEMA,
        float_function=called,
        observed=True,
        swapped=True,
        source=FUNCTIONAL,
    )


def scalar(op: str, called: str) -> OpSpec:
    """A method of FloatFunctional with a number: the scale follows from the input's and the number."""
    return row(
        op,
        f"ff.{op}",
        Observation.DERIVED,
        "x y",
        tensors="x",
        raises=PROMOTE,
        on_float=on_float(op),
        float_function=called,
        cases=numbers("y", EMPTY_STRIDED, None),
        swapped=True,
        source=FUNCTIONAL,
    )


FUNCTIONALS = (
    functional("add", "torch.add", aten("add.out")),
    functional("mul", "torch.mul", aten("mul.out"), "Mul operands should have same data type."),
    functional(
        "matmul",
        "torch.matmul",
        aten("bmm.out"),
        "MatMul operands should have same data type.",
        "MatMul operands should use QInt8 or QUInt8 data types.",
    ),
    functional("add_relu", "torch.add", aten("add.out")),
    row(
        "cat",
        "ff.cat",
        Observation.OWN,
        "x dim",
        tensors="x",
        sequence="x",
        optional="dim",
        mixed=("All dtypes must be the same.", QSCHEME),
        on_float=on_float("cat"),
        float_function="torch.cat",
        observed=True,
        swapped=True,
        role=Role.CAT,
        source=FUNCTIONAL,
    ),
    scalar("add_scalar", "torch.add"),
    scalar("mul_scalar", "torch.mul"),
)

FUNCTIONAL_CLASSES = (
    "torch.ao.nn.quantized.FloatFunctional",
    "torch.ao.nn.quantized.FXFloatFunctional",
    "torch.ao.nn.quantized.QFunctional",
)
