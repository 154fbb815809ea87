"""Transfer functions: domain and scale of an operator's result. They compute, they never judge."""

from __future__ import annotations

from qlsp.ops.spec import Application, Observation, Outcome, Role, Shape
from qlsp.values.qparams import DerivedScale, Dtype, ObservedScale, ObserverRef, QParams, Scale
from qlsp.values.value import Domain, Tensor, TupleValue, Unknown, Value

QUANTIZED_ON_FLOAT = "Could not run 'quantized::{op}' with arguments from the 'CPU' backend"
MIXED = (
    "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, "
    "offending types: QUInt8 Float"
)
CAT_MIXED = "Could not run 'aten::qscheme' with arguments from the 'CPU' backend"
QUANTIZE_TWICE = "Could not run 'aten::quantize_per_tensor' with arguments from the 'QuantizedCPU' backend"


def transfer(call: Application) -> Outcome:
    """Apply a row to tensors of known or unknown domain."""
    if call.spec.role is Role.QUANTIZE:
        return _quantize(call)
    if call.spec.role is Role.DEQUANTIZE:
        return _dequantize(call)
    if call.converted and (call.spec.observed or call.spec.functionals):
        return _own_module(call)
    domains = {tensor.domain for tensor in call.inputs}
    if Domain.QUANTIZED not in domains:
        return Outcome(_on_float(call, Domain.UNKNOWN in domains))
    if call.spec.raises is not None:
        return Outcome(_corrected(call), call.spec.raises)
    if domains & {Domain.FLOAT} and _mixes(call):
        text = CAT_MIXED if call.spec.role is Role.CAT else MIXED
        return Outcome(_corrected(call), text)
    return Outcome(_on_quantized(call))


def _mixes(call: Application) -> bool:
    """A float operand beside a quantized one is an error; a mask or an index is not."""
    return call.spec.role is Role.CAT or call.spec.observation in (Observation.OWN, Observation.FIRST_INPUT)


def _quantize(call: Application) -> Outcome:
    tensor = call.inputs[0]
    if tensor.domain is Domain.QUANTIZED:
        return Outcome(tensor, QUANTIZE_TWICE if call.converted else None)
    if not call.converted:
        return Outcome(tensor)
    return Outcome(
        Tensor(Domain.QUANTIZED, tensor.number, tensor.base, _observed(call), call.origin, tensor.many)
    )


def _dequantize(call: Application) -> Outcome:
    tensor = call.inputs[0]
    if not call.converted and call.owner is not None:
        return Outcome(tensor)
    return Outcome(Tensor(Domain.FLOAT, tensor.number, tensor.base, many=tensor.many, dequantized=True))


def _own_module(call: Application) -> Outcome:
    """A module or FloatFunctional that convert swaps: own scale, and an error on float input."""
    floats = [t for t in call.inputs if t.domain is Domain.FLOAT]
    if call.spec.observation is not Observation.OWN:
        return _unobserved_functional(call, floats)
    if not floats:
        return Outcome(_tensor(call, Domain.QUANTIZED, _observed(call)))
    if len(floats) < len(call.inputs):
        return Outcome(_tensor(call, Domain.QUANTIZED, _observed(call)), CAT_MIXED)
    error = QUANTIZED_ON_FLOAT.format(op=call.spec.op)
    if all(t.dequantized for t in floats):
        return Outcome(_tensor(call, Domain.FLOAT, None), error)
    return Outcome(_tensor(call, Domain.QUANTIZED, _observed(call)), error)


def _unobserved_functional(call: Application, floats: list[Tensor]) -> Outcome:
    if floats:
        error = QUANTIZED_ON_FLOAT.format(op=call.spec.op)
        return Outcome(_tensor(call, Domain.FLOAT, None), error)
    if any(t.domain is Domain.UNKNOWN for t in call.inputs):
        return Outcome(_tensor(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, None)))
    return Outcome(_on_quantized(call))


def _on_float(call: Application, unknown: bool) -> Value:
    return _shaped(call, Domain.UNKNOWN if unknown else Domain.FLOAT, None)


def _on_quantized(call: Application) -> Value:
    first = next((t for t in call.inputs if t.domain is Domain.QUANTIZED), call.inputs[0])
    match call.spec.observation:
        case Observation.SHARE | Observation.FIRST_INPUT:
            source = call.inputs[0] if call.spec.observation is Observation.FIRST_INPUT else first
            if source.domain is not Domain.QUANTIZED:
                return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, None))
            return _shaped(call, Domain.QUANTIZED, source.qparams, source)
        case Observation.FIXED:
            return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, call.spec.fixed))
        case Observation.DERIVED:
            return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, _derived(call, first)))
        case Observation.NONE:
            return _shaped(call, Domain.FLOAT, None)
        case _:
            return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, None))


def _derived(call: Application, source: Tensor) -> Scale | None:
    if source.qparams is None or source.qparams.scale is None:
        return None
    return DerivedScale(call.spec.op, source.qparams.scale, call.arguments)


def _corrected(call: Application) -> Value:
    """The result of the corrected program: quantized with a scale of its own, or the operator's fixed one."""
    if call.spec.fixed is not None:
        return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, call.spec.fixed))
    key = ("corrected", call.origin.span, call.origin.path)
    scale = ObservedScale(ObserverRef(-call.number(key) - 1, "corrected"))
    return _shaped(call, Domain.QUANTIZED, QParams(Dtype.QUINT8, scale))


def _observed(call: Application) -> QParams:
    assert call.owner is not None
    return QParams(Dtype.QUINT8, ObservedScale(ObserverRef(call.owner)))


def _key(call: Application) -> tuple[object, ...]:
    owner = call.owner if call.spec.weights else None
    return (call.spec.op, owner, call.arguments, tuple(t.number for t in call.inputs))


def _tensor(
    call: Application,
    domain: Domain,
    qparams: QParams | None,
    source: Tensor | None = None,
    part: int | None = None,
) -> Tensor:
    """One output tensor; ``source`` is the input whose scale it keeps."""
    first = call.inputs[0]
    key = _key(call) if part is None else (*_key(call), part)
    view = call.spec.shape in (Shape.VIEW, Shape.PART, Shape.PARTS)
    number = call.number(key)
    return Tensor(
        domain,
        number,
        first.base if view else number,
        qparams,
        source.origin if source is not None else (call.origin if qparams is not None else None),
        many=any(t.many for t in call.inputs),
        dequantized=domain is Domain.FLOAT and any(t.dequantized for t in call.inputs),
    )


def _shaped(
    call: Application, domain: Domain, qparams: QParams | None, source: Tensor | None = None
) -> Value:
    match call.spec.shape:
        case Shape.INTEGER:
            return _tensor(call, Domain.INTEGER, None)
        case Shape.SCALAR:
            return Unknown("a number read from a tensor")
        case Shape.PAIR:
            indices = Tensor(Domain.INTEGER, call.number((*_key(call), "indices")), 0)
            return TupleValue((_tensor(call, domain, qparams, source), indices))
        case Shape.PARTS:
            if call.outputs is None:
                return _tensor(call, domain, qparams, source)
            parts = range(call.outputs)
            return TupleValue(tuple(_tensor(call, domain, qparams, source, part) for part in parts))
        case _:
            return _tensor(call, domain, qparams, source)
