"""Short notation for the rows of the torch tables, and torch's error texts.

Spellings are words: ``relu`` is ``torch.relu`` and the method ``relu``, ``torch.relu`` the function alone,
``.relu`` the method alone, ``F.relu`` the one of ``torch.nn.functional``, ``nn.ReLU`` a module class,
``ff.add`` a method of FloatFunctional, ``op:+`` a Python operator. Each method is also spelled as function:
``torch.Tensor.relu``.
"""

from __future__ import annotations

from qlsp.ops.spec import Case, Observation, OpSpec, Role, Shape
from qlsp.values.qparams import FixedScale
from qlsp.values.value import Symbol, Tensor
from qlsp.values.workflow import Weights

MEASURED = "measured, torch 2.13.0: tests/oracle_ops"

_PROMOTE = (
    "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, "
    "offending types: "
)
PROMOTE = f"{_PROMOTE}QUInt8 Float"
PROMOTE_MIXED = (PROMOTE, f"{_PROMOTE}Float QUInt8")
EMPTY_STRIDED = (
    "empty_strided not supported on quantized tensors yet see https://github.com/pytorch/pytorch/issues/74540"
)
NOT_QUANTIZED_DTYPE = "Creation of quantized tensor requires quantized dtype like torch.quint8"
INTERNAL_ASSERT = "false INTERNAL ASSERT FAILED"

PREFIXES = {
    "F.": "torch.nn.functional.",
    "special.": "torch.special.",
    "linalg.": "torch.linalg.",
    "fft.": "torch.fft.",
    "operator.": "operator.",
    "builtins.": "builtins.",
    "torch.": "torch.",
}
MODULES = {
    "nn.": "torch.nn.",
    "tq.": "torch.ao.quantization.",
    "nni.": "torch.ao.nn.intrinsic.",
    "nniqat.": "torch.ao.nn.intrinsic.qat.",
    "nnqat.": "torch.ao.nn.qat.",
    "nnqa.": "torch.ao.nn.quantizable.",
}


Mixed = tuple[str | None, str | None] | None
"""The errors of a float operand behind and before a quantized one."""


def no_kernel(operator: str, backend: str = "QuantizedCPU") -> str:
    """The text of a dispatcher error, without its tail."""
    return f"Could not run '{operator}' with arguments from the '{backend}' backend"


def aten(operator: str) -> str:
    """The error of an aten operator without a quantized kernel."""
    return no_kernel(f"aten::{operator}")


def on_float(operator: str) -> str:
    """The error of a quantized operator on a float tensor."""
    return no_kernel(f"quantized::{operator}", "CPU")


def linalg(operator: str) -> str:
    """The error of a linear algebra operator that checks its dtype."""
    return f"{operator}: Expected a floating point or complex tensor as input. Got QUInt8"


def not_implemented(name: str) -> str:
    """The error of a kernel without a quantized dtype."""
    return f"\"{name}\" not implemented for 'QUInt8'"


def row(
    op: str,
    spellings: str,
    observation: Observation,
    params: str = "input",
    *,
    tensors: str = "input",
    sequence: str | None = None,
    optional: str = "",
    constructor: str = "",
    shape: Shape = Shape.NEW,
    fixed: FixedScale | None = None,
    raises: str | None = None,
    mixed: Mixed = None,
    on_float: str | None = None,
    on_number: str | None = None,
    formerly: tuple[str, ...] = (),
    float_function: str | None = None,
    refused: str | None = None,
    trained_refused: str | None = None,
    refused_weights: tuple[Weights, ...] = (),
    packed: str = "",
    cases: tuple[Case, ...] = (),
    weights: bool = False,
    swapped: bool = False,
    observed: bool = False,
    role: Role | None = None,
    source: str = MEASURED,
) -> OpSpec:
    """One row in short notation."""
    functions, methods, modules, functionals, operators = _spell(spellings)
    return OpSpec(
        op,
        observation,
        source,
        functions=functions,
        methods=methods,
        modules=modules,
        functionals=functionals,
        operators=operators,
        params=tuple(params.split()),
        tensors=tuple(tensors.split()),
        sequence=sequence,
        optional=tuple(optional.split()),
        constructor=tuple(constructor.split()),
        shape=shape,
        fixed=fixed,
        raises=raises,
        mixed=mixed,
        on_float=on_float,
        on_number=on_number,
        formerly=formerly,
        float_function=float_function,
        refused=refused,
        trained_refused=trained_refused,
        refused_weights=refused_weights,
        packed=tuple(packed.split()),
        cases=cases,
        weights=weights,
        swapped=swapped,
        observed=observed,
        role=role,
    )


Spellings = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _spell(spellings: str) -> Spellings:
    functions: list[str] = []
    methods: list[str] = []
    modules: list[str] = []
    functionals: list[str] = []
    operators: list[str] = []
    for word in spellings.split():
        if word.startswith("op:"):
            operators.append(word[3:])
        elif word.startswith("ff."):
            functionals.append(word[3:])
        elif word.startswith("."):
            methods.append(word[1:])
        elif "." not in word:
            functions.append(f"torch.{word}")
            methods.append(word)
        else:
            prefix, _, name = word.partition(".")
            if f"{prefix}." in MODULES:
                modules.append(MODULES[f"{prefix}."] + name)
            else:
                functions.append(PREFIXES[f"{prefix}."] + name)
    functions.extend(f"torch.Tensor.{method}" for method in methods)
    return tuple(functions), tuple(methods), tuple(modules), tuple(functionals), tuple(operators)


FLOAT_DTYPES = tuple(
    Symbol(f"torch.{name}")
    for name in ("float", "float32", "float16", "float64", "half", "double", "bfloat16")
)
INTEGER_DTYPES = tuple(
    Symbol(f"torch.{name}")
    for name in ("bool", "int", "int8", "int16", "int32", "int64", "long", "short", "uint8")
)
TENSOR: tuple[object, ...] = (Tensor,)


def numbers(parameter: str, integer: str | None, floating: str | None) -> tuple[Case, ...]:
    """Other errors where an operand is a Python number."""
    kinds: tuple[tuple[tuple[object, ...], str | None], ...] = (((int, bool), integer), ((float,), floating))
    return tuple(Case(parameter, values, raises=text) for values, text in kinds if text is not None)
