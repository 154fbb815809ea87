"""Transfer functions: domain and scale of an operator's result. They compute, they never judge.

Every error text comes from the row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from qlsp.ops.spec import Application, Case, Observation, OpSpec, Outcome, Role, Shape
from qlsp.values.qparams import DerivedScale, Dtype, FixedScale, ObservedScale, ObserverRef, QParams, Scale
from qlsp.values.value import A_NUMBER, Domain, Symbol, Tensor, TupleValue, Unknown, Value

UNKNOWN_SCALE = QParams(Dtype.QUINT8, None)
SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}
"""NumPy's names for parameters, which torch accepts too."""

CONSTANT_TYPES = frozenset(("int", "float", "bool", "str", "NoneType", "complex", "bytes", "ellipsis"))


def constant_key(value: object) -> tuple[str, str]:
    """The key of a Python constant among the arguments of an application."""
    return (type(value).__name__, repr(value))


def transfer(call: Application) -> Outcome:
    """Apply a row to tensors of known or unknown domain."""
    if not call.inputs:
        return Outcome(Unknown("an operator without a tensor operand"))
    if call.spec.role is Role.QUANTIZE:
        return _quantize(call)
    if call.spec.role is Role.DEQUANTIZE:
        return _dequantize(call)
    decided = _decide(call)
    if decided is None:
        return Outcome(Unknown("the form of the result depends on an unknown argument"))
    call = decided
    if call.converted and call.spec.on_float is not None:
        return _quantized_class(call)
    domains = {tensor.domain for tensor in call.inputs}
    if Domain.QUANTIZED not in domains:
        return Outcome(_on_float(call, domains))
    if domains & {Domain.FLOAT, Domain.INTEGER} and not (call.spec.on_float and call.spec.raises):
        text = _mixed(call)
        if text is not None:
            return Outcome(_corrected(call), text) if text else Outcome(_on_quantized(call))
    if call.spec.raises is not None:
        return Outcome(_corrected(call), call.spec.raises)
    return Outcome(_on_quantized(call))


# Arguments


def _decide(call: Application) -> Application | None:
    """The call with the row of the first case that holds; None if a case that changes the form of the
    result cannot be decided."""
    for case in call.spec.cases:
        holds = _holds(case, call)
        if holds is None and case.shape is not None:
            return None
        if holds:
            spec = replace(
                call.spec,
                cases=(),
                raises=call.spec.raises if case.raises is None else case.raises,
                shape=call.spec.shape if case.shape is None else case.shape,
                observation=call.spec.observation if case.observation is None else case.observation,
            )
            return replace(call, spec=spec)
    return call


def _holds(case: Case, call: Application) -> bool | None:
    value = _argument(call, case.parameter)
    if value is None:
        return case.absent
    if not case.values:
        return True
    if isinstance(value, Tensor) and value.domain is Domain.UNKNOWN:
        return None
    if any(_matches(expected, value) for expected in case.values):
        return True
    return False if isinstance(value, Tensor | str) or _is_constant(value) else None


def _matches(expected: object, value: object) -> bool:
    if expected is Tensor:
        return isinstance(value, Tensor)
    if isinstance(expected, type):
        return _is_constant(value) and value[0] == expected.__name__
    if isinstance(expected, Symbol):
        return value == expected.name
    return value == constant_key(expected)


def _is_constant(key: object) -> TypeGuard[tuple[str, str]]:
    return isinstance(key, tuple) and len(key) == 2 and key[0] in CONSTANT_TYPES


def _argument(call: Application, parameter: str) -> object:
    """A tensor operand, or the key of another argument; None if it is not given."""
    for pair in call.arguments:
        if isinstance(pair, tuple) and len(pair) == 2 and _parameter(call.spec, pair[0]) == parameter:
            key: object = pair[1]
            return None if key == constant_key(None) else key
    if parameter in call.spec.tensors and call.spec.sequence is None:
        position = call.spec.tensors.index(parameter)
        if position < len(call.inputs):
            return call.inputs[position]
    return None


def _parameter(spec: OpSpec, name: object) -> object:
    """The parameter that an argument's name stands for; constructor arguments may be named by position."""
    if isinstance(name, str) and name.isdecimal() and int(name) < len(spec.constructor):
        return spec.constructor[int(name)]
    return SYNONYMS.get(name, name) if isinstance(name, str) else name


# Stubs


def _quantize(call: Application) -> Outcome:
    """A QuantStub, or (without an owner) a quantizing function, which needs no convert to quantize."""
    tensor = call.inputs[0]
    if call.owner is not None and not call.converted:
        return Outcome(tensor)
    if tensor.domain is Domain.QUANTIZED:
        return Outcome(tensor, call.spec.raises)
    if tensor.domain is Domain.INTEGER:
        return Outcome(replace(tensor, domain=Domain.UNKNOWN))
    qparams = _constant_qparams(call) if call.owner is None else _observed(call)
    return Outcome(Tensor(Domain.QUANTIZED, tensor.number, tensor.base, qparams, call.origin, tensor.many))


def _constant_qparams(call: Application) -> QParams:
    scale, zero_point = _number(call, "scale"), _number(call, "zero_point")
    symbol = str(_argument(call, "dtype")).rpartition(".")[2]
    dtype = Dtype(symbol) if symbol in {each.value for each in Dtype} else Dtype.QUINT8
    if scale is None or zero_point is None:
        return QParams(dtype, None)
    return QParams(dtype, FixedScale(scale, int(zero_point)))


def _number(call: Application, parameter: str) -> float | None:
    key = _argument(call, parameter)
    return float(key[1]) if _is_constant(key) and key[0] in ("int", "float") else None


def _dequantize(call: Application) -> Outcome:
    tensor = call.inputs[0]
    if not call.converted and call.owner is not None:
        return Outcome(tensor)
    return Outcome(Tensor(Domain.FLOAT, tensor.number, tensor.base, many=tensor.many, dequantized=True))


# Classes that convert swaps


def _quantized_class(call: Application) -> Outcome:
    """A module or FloatFunctional that convert swaps for a class that needs quantized input."""
    floats = [t for t in call.inputs if t.domain is Domain.FLOAT]
    if floats and len(floats) < len(call.inputs) and call.spec.mixed is not None:
        return Outcome(_swapped(call), _mixed(call) or None)
    if call.inputs[0].domain is not Domain.FLOAT:
        number = call.inputs[0].domain is Domain.QUANTIZED and _number_for_tensor(call)
        return Outcome(_swapped(call), call.spec.on_number if number else None)
    behind = [t.dequantized for t in floats]
    if all(behind) or call.spec.functionals and any(behind):
        return Outcome(_shaped(call, Domain.FLOAT, None), call.spec.on_float)
    return Outcome(_swapped(call), call.spec.on_float)


def _number_for_tensor(call: Application) -> bool:
    """A Python number stands where the operator takes a tensor."""
    pairs = [each for each in call.arguments if isinstance(each, tuple) and len(each) == 2]
    keys = [key for name, key in pairs if name in call.spec.tensors]
    return any(_is_constant(key) and key[0] in ("int", "float") for key in keys)


def _swapped(call: Application) -> Value:
    if call.spec.observation is Observation.OWN:
        return _shaped(call, Domain.QUANTIZED, _observed(call))
    if any(t.domain is not Domain.QUANTIZED for t in call.inputs):
        return _shaped(call, Domain.QUANTIZED, UNKNOWN_SCALE)
    return _on_quantized(call)


# Everything else


def _on_float(call: Application, domains: set[Domain]) -> Value:
    if Domain.UNKNOWN in domains:
        return _shaped(call, Domain.UNKNOWN, None)
    if Domain.FLOAT in domains or call.spec.modules:
        return _shaped(call, Domain.FLOAT, None)
    match call.spec.observation:
        case Observation.SHARE | Observation.FIRST_INPUT:
            return _shaped(call, Domain.INTEGER, None)
        case Observation.OWN | Observation.DERIVED:
            return _shaped(call, Domain.UNKNOWN, None)
        case _:
            return _shaped(call, Domain.FLOAT, None)


def _on_quantized(call: Application) -> Value:
    first = next(t for t in call.inputs if t.domain is Domain.QUANTIZED)
    match _kept(call):
        case Observation.SHARE:
            return _shaped(call, Domain.QUANTIZED, first.qparams or UNKNOWN_SCALE, first)
        case Observation.FIRST_INPUT:
            source = call.inputs[0]
            if source.domain is not Domain.QUANTIZED:
                return _shaped(call, Domain.QUANTIZED, UNKNOWN_SCALE)
            return _shaped(call, Domain.QUANTIZED, source.qparams or UNKNOWN_SCALE, source)
        case Observation.FIXED:
            return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, call.spec.fixed))
        case Observation.DERIVED:
            return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, _derived(call, first)))
        case Observation.NONE:
            return _shaped(call, Domain.FLOAT, None)
        case _:
            return _shaped(call, Domain.QUANTIZED, UNKNOWN_SCALE)


def _kept(call: Application) -> Observation:
    """The observation of this call: an observed class that is not swapped has no observer, and its float
    kernel keeps the scale."""
    if call.spec.on_float is None or call.converted or call.spec.observation is not Observation.OWN:
        return call.spec.observation
    return Observation.FIRST_INPUT if call.spec.role is Role.CAT else Observation.SHARE


def _derived(call: Application, source: Tensor) -> Scale | None:
    if source.qparams is None or source.qparams.scale is None:
        return None
    return DerivedScale(call.spec.op, source.qparams.scale, call.arguments)


def _mixed(call: Application) -> str | None:
    """The error of float and quantized operands in one call."""
    if call.spec.mixed is None:
        return None
    behind, before = call.spec.mixed
    return behind if call.inputs[0].domain is Domain.QUANTIZED else before


def _corrected(call: Application) -> Value:
    """The result of the corrected program: quantized with a scale of its own or the operator's fixed one, or
    float behind a dequantize."""
    if call.spec.observation is Observation.NONE:
        return _shaped(call, Domain.FLOAT, None)
    if call.spec.fixed is not None:
        return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, call.spec.fixed))
    key = ("corrected", call.origin.span, call.origin.path)
    scale = ObservedScale(ObserverRef(-call.number(key) - 1, "corrected"))
    return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, scale))


def _observed(call: Application) -> QParams:
    assert call.owner is not None
    return QParams(Dtype.QUINT8, ObservedScale(ObserverRef(call.owner)))


# The result


def _key(call: Application) -> tuple[object, ...]:
    """Equal keys, equal values: operator, arguments and operands, and what else decides the values."""
    own: object = None
    if call.spec.weights:
        own = call.owner if call.owner is not None else call.origin
    return (call.spec.op, own, call.arguments, tuple(t.number for t in call.inputs))


def _tensor(
    call: Application,
    domain: Domain,
    qparams: QParams | None,
    source: Tensor | None = None,
    part: object = None,
) -> Tensor:
    """One output tensor; ``source`` is the input whose scale it keeps."""
    first = source if source is not None and call.spec.shape is Shape.EACH else call.inputs[0]
    number = first.number
    if call.spec.shape is not Shape.SAME:
        number = call.number(_key(call) if part is None else (*_key(call), part))
    view = call.spec.shape in (Shape.SAME, Shape.VIEW, Shape.PART, Shape.PARTS, Shape.EACH)
    return Tensor(
        domain,
        number,
        first.base if view else number,
        qparams,
        source.origin if source is not None else (call.origin if qparams is not None else None),
        many=any(t.many for t in call.inputs),
        dequantized=domain is Domain.FLOAT and any(_leaves(t) for t in call.inputs),
    )


def _leaves(tensor: Tensor) -> bool:
    """A float result of this tensor lies behind the quantized region."""
    return tensor.dequantized or tensor.domain is Domain.QUANTIZED


def _shaped(
    call: Application, domain: Domain, qparams: QParams | None, source: Tensor | None = None
) -> Value:
    match call.spec.shape:
        case Shape.INTEGER:
            return _tensor(call, Domain.INTEGER, None)
        case Shape.SCALAR:
            return Unknown(A_NUMBER)
        case Shape.PAIR:
            indices = _tensor(call, Domain.INTEGER, None, part="indices")
            return TupleValue((_tensor(call, domain, qparams, source), indices))
        case Shape.TWO:
            return TupleValue((_tensor(call, domain, qparams, source), _second(call, domain, "second")))
        case Shape.STATE:
            state = TupleValue((_second(call, domain, "hidden"), _second(call, domain, "cell")))
            return TupleValue((_tensor(call, domain, qparams, source), state))
        case Shape.EACH:
            return TupleValue(tuple(_each(call, each, index) for index, each in enumerate(call.inputs)))
        case Shape.PARTS:
            if call.outputs is None:
                return _tensor(call, domain, qparams, source)
            parts = range(call.outputs)
            return TupleValue(tuple(_tensor(call, domain, qparams, source, part) for part in parts))
        case _:
            return _tensor(call, domain, qparams, source)


def _second(call: Application, domain: Domain, part: str) -> Tensor:
    """A further output, whose scale is not followed."""
    return _tensor(call, domain, UNKNOWN_SCALE if domain is Domain.QUANTIZED else None, part=part)


def _each(call: Application, tensor: Tensor, index: int) -> Tensor:
    return _tensor(call, tensor.domain, tensor.qparams, tensor, index)
