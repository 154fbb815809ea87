"""QL404 to QL411: FloatFunctional."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.grammar.core import Tensor
from tests.oracle.grammar.faults.plant import Spot, fault

FUNCTIONAL = "nnq.FloatFunctional()"


def _cat_shape(x: Tensor) -> tuple[int, ...]:
    return (x.shape[0], 2 * x.channels, *x.shape[2:])


def _names(spot: Spot) -> dict[str, str]:
    return {"x": spot.x.text, "y": spot.other().text}


# -- QL404 --------------------------------------------------------------------------------------------------


def _reused(name: str, first: str, second: str) -> None:
    @fault("QL404", name, raises=False)
    def plant(spot: Spot) -> Tensor:
        ff, names = spot.module(FUNCTIONAL, "ff_shared"), _names(spot)
        made = spot.let(first.format(ff=ff, **names), stem="first")
        shape = _cat_shape(spot.x) if ".cat(" in second else None
        return spot.bad(second.format(ff=ff, m=made.text, **names), shape)


_reused("add and add", "{ff}.add({x}, {y})", "{ff}.add({m}, {y})")
_reused("mul and add", "{ff}.mul({x}, {y})", "{ff}.add({m}, {x})")
_reused("add_relu and cat", "{ff}.add_relu({x}, {y})", "{ff}.cat([{m}, {y}], 1)")
_reused("cat of others", "{ff}.add({y}, {y})", "{ff}.cat([{x}, {y}], dim=1)")


@fault("QL404", "in a loop", raises=False)
def reused_in_loop(spot: Spot) -> Tensor:
    ff, names = spot.module(FUNCTIONAL, "ff_shared"), _names(spot)
    made = spot.let(names["x"], stem="total")
    with spot.scope.block("for _ in range(2):"):
        spot.scope.emit(f"{made.text} = {spot.mark()}{ff}.add({made.text}, {names['y']})")
    return made


# -- QL405 --------------------------------------------------------------------------------------------------


def _created(name: str, text: str, *, raises: bool) -> None:
    @fault("QL405", name, raises=raises)
    def plant(spot: Spot) -> Tensor:
        names = _names(spot)
        return spot.bad(text.format(**names), _cat_shape(spot.x) if ".cat(" in text else None)


_created("add", "nnq.FloatFunctional().add({x}, {y})", raises=True)
_created("mul", "nnq.FloatFunctional().mul({x}, {y})", raises=True)
_created("add_relu", "nnq.FloatFunctional().add_relu({x}, {y})", raises=True)
_created("cat", "nnq.FloatFunctional().cat([{x}, {y}], 1)", raises=False)


def _in_variable(call: str, *, raises: bool) -> Callable[[Spot], Tensor]:
    def plant(spot: Spot) -> Tensor:
        names, ff = _names(spot), spot.scope.fresh("ff")
        spot.scope.emit(f"{ff} = {spot.mark()}nnq.FloatFunctional()")
        return spot.let(f"{spot.mark()}{ff}.{call.format(**names)}", _cat_shape(spot.x) if "cat" in call else None)

    return plant


fault("QL405", "variable: add")(_in_variable("add({x}, {y})", raises=True))
fault("QL405", "variable: cat", raises=False)(_in_variable("cat([{x}, {y}], 1)", raises=False))

# -- QL406 --------------------------------------------------------------------------------------------------


def _unregistered(name: str, value: str, access: str, call: str, *, raises: bool) -> None:
    @fault("QL406", name, raises=raises, elsewhere=True)
    def plant(spot: Spot) -> Tensor:
        attribute, names = spot.scope.owner.fresh("ops"), _names(spot)
        spot.scope.owner.add(f"{spot.mark()}self.{attribute} = {value}")
        shape = _cat_shape(spot.x) if call.startswith("cat") else None
        return spot.let(f"self.{attribute}{access}.{call.format(**names)}", shape)


_unregistered("list: add", "[nnq.FloatFunctional()]", "[0]", "add({x}, {y})", raises=True)
_unregistered("comprehension: mul", "[nnq.FloatFunctional() for _ in range(2)]", "[1]", "mul({x}, {y})", raises=True)
_unregistered("dictionary: add", '{"sum": nnq.FloatFunctional()}', '["sum"]', "add({x}, {y})", raises=True)
_unregistered("list: cat", "[nnq.FloatFunctional()]", "[0]", "cat([{x}, {y}], 1)", raises=False)

# -- QL407, QL408 -------------------------------------------------------------------------------------------


def _bad_call(rule: str, *calls: str) -> None:
    def writer(call: str) -> Callable[[Spot], Tensor]:
        def plant(spot: Spot) -> Tensor:
            names = _names(spot)
            return spot.bad(call.format(ff=spot.module(FUNCTIONAL, "combine"), **names))

        return plant

    for call in calls:
        fault(rule, call)(writer(call))


_bad_call("QL407", "{ff}({x}, {y})", "{ff}({x})", "{ff}([{x}, {y}])")
_bad_call("QL408", "{ff}.sub({x}, {y})", "{ff}.div({x}, {y})", "{ff}.stack([{x}, {y}])", "{ff}.sum({x})")
_bad_call("QL408", "{ff}.cat([{x}, {y}], axis=1)", "{ff}.mean({x})")

# -- QL409, QL410 -------------------------------------------------------------------------------------------


def _on_floats(name: str, call: str) -> None:
    @fault("QL409", name)
    def plant(spot: Spot) -> Tensor:
        a, b = spot.plain().text, spot.plain().text
        ff = spot.module(FUNCTIONAL, "late")
        return spot.bad(call.format(ff=ff, a=a, b=b), _cat_shape(spot.x) if ".cat(" in call else None)


_on_floats("add", "{ff}.add({a}, {b})")
_on_floats("mul of activations", "{ff}.mul(torch.softmax({a}, 1), {b})")
_on_floats("cat", "{ff}.cat([{a}, {b}], 1)")
_on_floats("add_scalar", "{ff}.add_scalar({a}, 1.0)")


def _too_early(name: str, call: str) -> None:
    @fault("QL410", name, elsewhere=True)
    def plant(spot: Spot) -> Tensor:
        names = _names(spot)
        ff = spot.module(f"{spot.mark()}nnq.QFunctional()", "fused")
        return spot.let(call.format(ff=ff, **names), _cat_shape(spot.x) if ".cat(" in call else None)


_too_early("add", "{ff}.add({x}, {y})")
_too_early("cat", "{ff}.cat([{x}, {y}], 1)")
_too_early("mul", "{ff}.mul({x}, {y})")

# -- QL411 --------------------------------------------------------------------------------------------------


def _relu_after(name: str, text: str) -> None:
    @fault("QL411", name, raises=False)
    def plant(spot: Spot) -> Tensor:
        names = _names(spot)
        ff = spot.module(FUNCTIONAL, "skip_add")
        act = spot.module("nn.ReLU()", "act") if "{act}" in text else ""
        return spot.bad(text.format(ff=ff, act=act, **names))


_relu_after("F.relu", "F.relu({ff}.add({x}, {y}))")
_relu_after("torch.relu", "torch.relu({ff}.add({x}, {y}))")
_relu_after("method", "{ff}.add({x}, {y}).relu()")
_relu_after("module", "{act}({ff}.add({x}, {y}))")


@fault("QL411", "in two statements", raises=False)
def relu_after_steps(spot: Spot) -> Tensor:
    names, ff = _names(spot), spot.module(FUNCTIONAL, "skip_add")
    made = spot.let(f"{spot.mark()}{ff}.add({names['x']}, {names['y']})", stem="total")
    return spot.bad(f"F.relu({made.text})")
