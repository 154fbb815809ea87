"""QL2: the border between float and quantized."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.grammar import joins
from tests.oracle.grammar.core import Tensor
from tests.oracle.grammar.faults.plant import Spot, fault, layers

# -- QL201: one stub, several float tensors -----------------------------------------------------------------


def _two_floats(spot: Spot) -> tuple[str, str, str]:
    """A stub, and two float tensors that differ."""
    stub = spot.module("tq.QuantStub()", "quant_shared")
    return stub, spot.plain().text, spot.let(f"F.silu({spot.plain().text}) * 2.0 + 0.5", stem="act").text


@fault("QL201", "two calls", raises=False)
def stub_reused(spot: Spot) -> Tensor:
    stub, a, b = _two_floats(spot)
    first = spot.let(f"{spot.conv('left')}({stub}({a}))", stem="first")
    second = spot.bad(f"{spot.conv('right')}({stub}({b}))")
    ff = spot.module("nnq.FloatFunctional()", "sum")
    return spot.let(f"{ff}.add({first.text}, {second.text})")


@fault("QL201", "in a comprehension", raises=False)
def stub_comprehension(spot: Spot) -> Tensor:
    stub, a, b = _two_floats(spot)
    made = spot.bad(f"[{stub}(t) for t in ({a}, {b})]")
    ff = spot.module("nnq.FloatFunctional()", "sum")
    return spot.let(f"{ff}.add({spot.conv('left')}({made.text}[0]), {spot.conv('right')}({made.text}[1]))")


@fault("QL201", "input and float island", raises=False)
def stub_island(spot: Spot) -> Tensor:
    stub, raw = spot.module("tq.QuantStub()", "quant_raw"), spot.raw().text
    first = spot.let(f"{spot.conv('left')}({stub}({raw}))", stem="first")
    real = spot.let(f"torch.exp(-self.{joins.dequant(spot.scope)}({first.text}).abs())", stem="real")
    return spot.bad(f"{spot.conv('right')}({stub}({real.text}))")


# -- QL202: a stub on a quantized tensor --------------------------------------------------------------------

layers("QL202", "tq.QuantStub()", "tq.QuantWrapper(nn.Conv2d({c}, {c}, 1))")
layers("QL202", "nn.Sequential(tq.QuantStub(), nn.Conv2d({c}, {c}, 1))")


@fault("QL202", "stub of a ModuleList")
def listed_stub(spot: Spot) -> Tensor:
    stubs = spot.module("nn.ModuleList([tq.QuantStub() for _ in range(2)])", "stubs")
    return spot.bad(f"{stubs}[1]({spot.x.text})")


@fault("QL202", "after a cat")
def stub_after_cat(spot: Spot) -> Tensor:
    stub, x = spot.module("tq.QuantStub()", "requant"), spot.x.text
    shape = (spot.x.shape[0], 2 * spot.x.channels, *spot.x.shape[2:])
    return spot.bad(f"{stub}(torch.cat([{x}, F.relu({x})], dim=1))", shape)


# -- QL203: no stub at an input -----------------------------------------------------------------------------


def _on_raw(name: str, constructor: str, call: str = "{m}({raw})") -> None:
    @fault("QL203", name)
    def plant(spot: Spot) -> Tensor:
        n, c, h, w = spot.x.shape
        module = spot.module(constructor.format(c=c, w=w), "stray")
        return spot.bad(call.format(m=module, raw=spot.raw().text))


_on_raw("Conv2d", "nn.Conv2d({c}, {c}, 3, padding=1)")
_on_raw("Linear", "nn.Linear({w}, {w})")
_on_raw("Sequential", "nn.Sequential(nn.ReLU(), nn.Conv2d({c}, {c}, 1))")
_on_raw("BatchNorm2d", "nn.BatchNorm2d({c})")
_on_raw("after a float operator", "nn.Conv2d({c}, {c}, 1)", "{m}({raw} * 2.0 - 1.0)")
_on_raw("after relu", "nn.Conv2d({c}, {c}, 1)", "{m}(F.relu({raw}))")
_on_raw("in a method chain", "nn.Conv2d({c}, {c}, 1)", "{m}({raw}.clone()).relu()")
_on_raw("Hardswish", "nn.Hardswish()")


@fault("QL203", "ModuleList in a loop")
def list_on_raw(spot: Spot) -> Tensor:
    c = spot.x.channels
    convs = spot.module(f"nn.ModuleList([nn.Conv2d({c}, {c}, 1) for _ in range(2)])", "convs")
    made = spot.let(spot.raw().text, stem="feat")
    with spot.scope.block(f"for conv in {convs}:"):
        spot.scope.emit(f"{made.text} = {spot.mark()}conv({made.text})")
    return made


# -- QL204: no way out --------------------------------------------------------------------------------------


@fault("QL204", "quantized result of the model", raises=False, here=True)
def quantized_result(spot: Spot) -> None:
    spot.net.leak = (spot.mark(), spot.x)


def _outside(name: str, *lines: str) -> None:
    @fault("QL204", name, elsewhere=True, here=True)
    def plant(spot: Spot) -> None:
        spot.net.leak = (spot.mark(), spot.x)
        spot.life().after += lines


_outside("softmax outside", "for batch in batches:", "    torch.softmax(converted(*batch), dim=1)")
_outside("loss outside", "for batch in batches:", "    out = converted(*batch)", "    F.mse_loss(out, torch.zeros(1))")
_outside("numpy outside", "results = [converted(*batch).numpy() for batch in batches]")
_outside("argmax outside", "out = converted(*batches[0])", "labels = out.argmax(1)")

# -- QL205: a quantized module after the stub ---------------------------------------------------------------


def _after_dequant(name: str, constructor: str, call: str = "{m}({plain})") -> None:
    @fault("QL205", name)
    def plant(spot: Spot) -> Tensor:
        n, c, h, w = spot.x.shape
        module = spot.module(constructor.format(c=c, w=w), "late")
        return spot.bad(call.format(m=module, plain=spot.plain().text))


_after_dequant("Conv2d", "nn.Conv2d({c}, 2, 1)")
_after_dequant("Linear", "nn.Linear({w}, 3)")
_after_dequant("Sequential", "nn.Sequential(nn.ReLU(), nn.Dropout(0.1), nn.Linear({w}, 3))")
_after_dequant("after softmax", "nn.Linear({w}, 3)", "{m}(torch.softmax({plain}, dim=-1))")
_after_dequant("after arithmetic", "nn.Conv2d({c}, {c}, 3, padding=1)", "{m}({plain} * {plain} + 1.0)")
_after_dequant("BatchNorm2d", "nn.BatchNorm2d({c})")
_after_dequant("LayerNorm", "nn.LayerNorm({w})")


@fault("QL205", "stub and layer in one expression")
def late_nested(spot: Spot) -> Tensor:
    module = spot.module(f"nn.Linear({spot.x.shape[-1]}, 3)", "classifier")
    return spot.bad(f"{module}(self.{joins.dequant(spot.scope)}({spot.x.text})).sigmoid()")


# -- QL206: a stub whose result is lost ---------------------------------------------------------------------


@fault("QL206", "statement", elsewhere=True)
def unused(spot: Spot) -> Tensor:
    raw = spot.raw().text
    spot.scope.emit(f"{spot.mark()}{spot.module('tq.QuantStub()', 'quant_raw')}({raw})")
    return spot.let(f"{spot.conv()}({raw})")


@fault("QL206", "overwritten", elsewhere=True)
def overwritten(spot: Spot) -> Tensor:
    raw, stub = spot.raw().text, spot.module("tq.QuantStub()", "quant_raw")
    made = spot.let(f"{spot.mark()}{stub}({raw})", stem="feat")
    spot.scope.emit(f"{made.text} = {spot.conv()}({raw})")
    return made


# -- QL207: a stub nobody registers -------------------------------------------------------------------------


@fault("QL207", "built in forward", elsewhere=True)
def built(spot: Spot) -> Tensor:
    raw = spot.raw().text
    made = spot.let(f"{spot.mark()}tq.QuantStub()({raw})", stem="feat")
    return spot.let(f"{spot.conv()}({made.text})")


def _container(name: str, value: str, access: str) -> None:
    @fault("QL207", name, elsewhere=True)
    def plant(spot: Spot) -> Tensor:
        attribute = spot.scope.owner.fresh("stubs")
        spot.scope.owner.add(f"{spot.mark()}self.{attribute} = {value}")
        made = spot.let(f"self.{attribute}{access}({spot.raw().text})", stem="feat")
        return spot.let(f"{spot.conv()}({made.text})")


_container("list", "[tq.QuantStub()]", "[0]")
_container("list of a comprehension", "[tq.QuantStub() for _ in range(2)]", "[1]")
_container("dictionary", '{"image": tq.QuantStub(), "mask": tq.QuantStub()}', '["image"]')
_container("tuple", "(tq.QuantStub(), tq.QuantStub())", "[1]")


@fault("QL207", "the class itself", elsewhere=True)
def stub_class(spot: Spot) -> Tensor:
    attribute = spot.scope.owner.fresh("quant_class")
    spot.scope.owner.add(f"{spot.mark()}self.{attribute} = tq.QuantStub")
    return spot.let(f"self.{attribute}({spot.raw().text})")


# -- QL208: a stub on what is not a float tensor ------------------------------------------------------------


def _non_float(*values: str) -> None:
    def writer(value: str) -> Callable[[Spot], Tensor]:
        def plant(spot: Spot) -> Tensor:
            stub = spot.module("tq.QuantStub()", "quant_codes")
            return spot.bad(f"{stub}({value.format(x=spot.x.text, n=spot.x.shape[0])})")

        return plant

    for value in values:
        fault("QL208", value)(writer(value))


_non_float("torch.arange({n})", "torch.ones({n}, dtype=torch.long)", "({x} > 0)", "torch.tensor([1, 2, 3])")
_non_float("torch.zeros({n}, 4).argmax(1)", "torch.randint(0, 4, ({n}, 2))")


@fault("QL208", "tuple")
def stub_tuple(spot: Spot) -> None:
    raw, stub = spot.raw().text, spot.module("tq.QuantStub()", "quant_pair")
    spot.bad(f"{stub}(({raw}, {raw}))")


@fault("QL208", "list in a variable")
def stub_list(spot: Spot) -> None:
    raw, stub = spot.raw().text, spot.module("tq.QuantStub()", "quant_pair")
    pair = spot.let(f"[{raw}, {raw}]", stem="pair")
    spot.bad(f"{stub}({pair.text})")


# -- QL209: DeQuantStub on a collection ---------------------------------------------------------------------


def _collection(name: str, value: str, before: str = "") -> None:
    @fault("QL209", name)
    def plant(spot: Spot) -> None:
        stub = spot.module("tq.DeQuantStub()", "dequant_all")
        names = {"x": spot.x.text, "y": spot.other().text}
        if before:
            names["v"] = spot.let(before.format(**names), stem="outs").text
        spot.bad(f"{stub}({value.format(**names)})")


_collection("list", "[{x}, {y}]")
_collection("tuple", "({x}, {y})")
_collection("dictionary", '{{"a": {x}, "b": {y}}}')
_collection("list in a variable", "{v}", "[{x}, {y}]")
_collection("chunks", "{v}", "torch.cat([{x}, {x}], 1).chunk(2, 1)")

# -- QL212: float and quantized operands --------------------------------------------------------------------


def _mix(name: str, text: str, shape: str = "", constant: str = "") -> None:
    """`{p}` is a parameter, `{f}` a float copy, `{raw}` a float input."""

    @fault("QL212", name)
    def plant(spot: Spot) -> Tensor:
        n, c, h, w = spot.x.shape
        names = {"x": spot.x.text}
        if "{p}" in text:
            names["p"] = "self." + spot.scope.constant("weight", constant.format(c=c, h=h, w=w))
        if "{f}" in text:
            names["f"] = spot.plain().text
        if "{raw}" in text:
            names["raw"] = spot.raw().text
        if "{ff}" in text:
            names["ff"] = spot.module("nnq.FloatFunctional()", "mix")
        return spot.bad(text.format(**names), (n, 2 * c, h, w) if shape else None)


_PARAMETER = "nn.Parameter(torch.randn(1, {c}, 1, 1))"
_mix("parameter added", "{x} + {p}", constant=_PARAMETER)
_mix("parameter multiplied", "torch.mul({x}, {p})", constant=_PARAMETER)
_mix("parameter and FloatFunctional.add", "{ff}.add({x}, {p})", constant=_PARAMETER)
_mix("parameter and FloatFunctional.mul", "{ff}.mul({x}, {p})", constant=_PARAMETER)
_mix("float copy added", "{x} + {f}")
_mix("float copy in a cat", "torch.cat([{x}, {f}], dim=1)", "twice")
_mix("float copy first in a cat", "torch.cat(({f}, {x}), 1)", "twice")
_mix("float copy in FloatFunctional.cat", "{ff}.cat([{x}, {f}], 1)", "twice")
_mix("input without a stub", "{ff}.add({x}, {raw})")
_mix("input without a stub in a cat", "torch.cat([{x}, {raw}], 1)", "twice")
_mix("constant tensor", "{x} * torch.ones(1)")
_mix("constant tensor added", "torch.add({x}, torch.zeros(1, 1, 1, 1))")
_mix("FloatFunctional and a constant", "{ff}.mul({x}, torch.full((1, 1, 1, 1), 2.0))")
