"""QL1: scale and zero point."""

from __future__ import annotations

from tests.oracle.grammar import joins
from tests.oracle.grammar.core import Tensor
from tests.oracle.grammar.faults.plant import Spot, fault

SILENT = {"raises": False}


def _doubled(x: Tensor, times: int) -> tuple[int, ...]:
    return (x.shape[0], x.channels * times, *x.shape[2:])


@fault("QL102", "nested in the call", **SILENT)
def nested_call(spot: Spot) -> Tensor:
    x = spot.x.text
    inner = f"torch.cat([{x}, F.relu({x})], dim=1)"
    return spot.bad(f"torch.cat([{inner}, {x}], dim=1)", _doubled(spot.x, 3))


@fault("QL102", "inner result in a variable", **SILENT)
def nested_variable(spot: Spot) -> Tensor:
    x = spot.x.text
    inner = spot.let(f"{spot.mark()}torch.cat([{x}, F.relu({x})], 1)", _doubled(spot.x, 2), "inner")
    return spot.bad(f"torch.cat([{inner.text}, {x}], 1)", _doubled(spot.x, 3))


@fault("QL102", "inner list second", **SILENT)
def nested_second(spot: Spot) -> Tensor:
    x = spot.x.text
    return spot.bad(f"torch.cat(({x}, torch.cat(({x}, F.relu6({x})), 1)), 1)", _doubled(spot.x, 3))


@fault("QL104", "one stub, two inputs, quantization-aware training", here=True, **SILENT)
def averaged(spot: Spot) -> Tensor:
    raw, stub = spot.raw(), spot.module("tq.QuantStub()", "quant_shared")
    spot.life().qat = True
    made = spot.let(f"{stub}({raw.text})", stem="first")
    other = spot.let(f"{stub}({raw.text} * 3.0 + 1.0)", stem="second")
    return spot.bad(f"torch.cat([{made.text}, {other.text}], dim=1)", _doubled(spot.x, 2))


@fault("QL105", "around a cat", **SILENT)
def island(spot: Spot) -> Tensor:
    other, stub = spot.other(), spot.module("tq.QuantStub()", "requant")
    out = f"self.{joins.dequant(spot.scope)}"
    joined = f"torch.cat([{out}({spot.x.text}), {out}({other.text})], dim=1)"
    return spot.bad(f"{stub}({joined})", _doubled(spot.x, 2))


@fault("QL105", "in steps", **SILENT)
def island_steps(spot: Spot) -> Tensor:
    other, stub = spot.other(), spot.module("tq.QuantStub()", "requant")
    out = f"self.{joins.dequant(spot.scope)}"
    parts = spot.let(f"[{out}(t) for t in ({spot.x.text}, {other.text})]", stem="parts")
    joined = spot.let(f"{spot.mark()}torch.cat({parts.text}, 1)", stem="joined")
    return spot.bad(f"{stub}({joined.text})", _doubled(spot.x, 2))


@fault("QL106", "attribute of a FloatFunctional", **SILENT)
def unknown_attribute(spot: Spot) -> Tensor:
    ff = spot.module("nnq.FloatFunctional()", "join")
    spot.scope.owner.add(f"{spot.mark()}{ff}.share_observation = True")
    return spot.let(f"{ff}.cat([{spot.x.text}, {spot.other().text}], 1)", _doubled(spot.x, 2))


def _assigned(spot: Spot, target: str) -> Tensor:
    copy = spot.let(f"{spot.conv('base')}({spot.x.text})", stem="canvas")
    other = spot.other()
    where = target.format(a=copy.text)
    spot.scope.emit(f"{spot.mark()}{where} = {target.format(a=other.text)}")
    return copy


for _target in ("{a}[:, :1]", "{a}[:1]", "{a}[:, 0]", "{a}[..., :1]", "{a}[0]"):
    fault("QL107", f"{_target} = ...", raises=False)(lambda spot, target=_target: _assigned(spot, target))
