"""QL501, QL502 and QL509 to QL511: modules and their places."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.grammar.core import ClassText, Tensor
from tests.oracle.grammar.faults.plant import Spot, fault, wide

# -- QL501 --------------------------------------------------------------------------------------------------


@fault("QL501", "convolution called twice", raises=False)
def conv_twice(spot: Spot) -> Tensor:
    conv = spot.conv("shared")
    made = spot.let(f"{conv}({spot.x.text})")
    return spot.bad(f"{conv}(torch.tanh({made.text}))")


@fault("QL501", "activation with an observer called twice", raises=False)
def act_twice(spot: Spot) -> Tensor:
    act = spot.module("nn.Hardswish()", "act")
    made = spot.let(f"{act}({spot.x.text})")
    return spot.bad(f"{act}({spot.conv('between')}({made.text}))")


@fault("QL501", "in a loop", raises=False)
def conv_loop(spot: Spot) -> Tensor:
    conv, made = spot.conv("shared"), spot.let(spot.x.text, stem="feat")
    with spot.scope.block("for _ in range(3):"):
        spot.scope.emit(f"{made.text} = {spot.mark()}{conv}({made.text})")
    return made


# -- QL502 --------------------------------------------------------------------------------------------------


def _alias(name: str, constructor: str, call: str = "{b}({a}({x}))") -> None:
    @fault("QL502", name, elsewhere=True)
    def plant(spot: Spot) -> Tensor:
        c, w = spot.x.channels, spot.x.shape[-1]
        first = spot.module(constructor.format(c=c, w=w), "first")
        second = f"self.{spot.scope.owner.fresh('second')}"
        spot.scope.owner.add(f"{spot.mark()}{second} = {first}")
        return spot.let(call.format(a=first, b=second, x=spot.x.text))


_alias("Conv2d", "nn.Conv2d({c}, {c}, 1)")
_alias("Linear", "nn.Linear({w}, {w})")
_alias("Hardswish", "nn.Hardswish()")
_alias("FloatFunctional", "nnq.FloatFunctional()", "{b}.add({a}.add({x}, {x}), {x})")
_alias("LayerNorm", "nn.LayerNorm({w})")


def _repeated(name: str, constructor: str, text: str) -> None:
    @fault("QL502", name, elsewhere=True)
    def plant(spot: Spot) -> Tensor:
        local = spot.scope.owner.fresh("layer")
        spot.scope.owner.add(f"{local} = {constructor.format(c=spot.x.channels)}")
        module = f"self.{spot.scope.owner.fresh('repeated')}"
        spot.scope.owner.add(f"{module} = {spot.mark()}{text.format(m=local)}")
        if text.startswith("nn.ModuleList"):
            made = spot.let(spot.x.text, stem="feat")
            with spot.scope.block(f"for layer in {module}:"):
                spot.scope.emit(f"{made.text} = layer({made.text})")
            return made
        return spot.let(f"{module}({spot.x.text})")


_repeated("twice in a Sequential", "nn.Conv2d({c}, {c}, 1)", "nn.Sequential({m}, {m})")
_repeated("twice in a Sequential, apart", "nn.Conv2d({c}, {c}, 1)", "nn.Sequential({m}, nn.ReLU(), {m})")
_repeated("repeated list", "nn.Conv2d({c}, {c}, 1)", "nn.ModuleList([{m}] * 2)")
_repeated("starred repeated list", "nn.Hardswish()", "nn.Sequential(*[{m}] * 2)")

# -- QL509 --------------------------------------------------------------------------------------------------


def _subclass(name: str, base: str, constructor: str, *lines: str) -> None:
    @fault("QL509", name, elsewhere=bool(lines))
    def plant(spot: Spot) -> Tensor:
        text = ClassText(spot.scope.file.fresh("Custom"), spot.scope.file, base, attributes=["custom = True"])
        text.methods += [list(lines)] if lines else []
        spot.scope.file.classes.append(text)
        module = spot.module(constructor.format(k=text.name, c=spot.x.channels, w=spot.x.shape[-1]), "custom")
        return spot.bad(f"{module}({spot.x.text})")


_FORWARD = ("def forward(self, x):", "    return super().forward(x)")
_subclass("Conv2d", "nn.Conv2d", "{k}({c}, {c}, 1)")
_subclass("Linear", "nn.Linear", "{k}({w}, {w})")
_subclass("Conv2d with a forward", "nn.Conv2d", "{k}({c}, {c}, 1)", *_FORWARD)
_subclass("Linear in a Sequential", "nn.Linear", "nn.Sequential(nn.ReLU(), {k}({w}, {w}))")

# -- QL510 --------------------------------------------------------------------------------------------------


def _attribute(name: str, constructor: str, text: str) -> None:
    @fault("QL510", name)
    def plant(spot: Spot) -> Tensor:
        module = spot.module(constructor.format(c=spot.x.channels, w=spot.x.shape[-1]), "fc")
        return spot.bad(text.format(m=module, x=spot.x.text))


_attribute("shape of a weight", "nn.Linear({w}, {w})", "{m}({x}.reshape(-1, {m}.weight.shape[1]))")
_attribute("sum of a weight", "nn.Conv2d({c}, {c}, 1)", "{m}({x}) if {m}.weight.sum() != 0 else {x}")
_attribute("dtype of a bias", "nn.Conv2d({c}, {c}, 1)", "{m}({x}) if {m}.bias.dtype is not None else {x}")
_attribute("functional call", "nn.Linear({w}, {w})", "F.linear({m}({x}).dequantize(), {m}.weight, {m}.bias)")

# -- QL511 --------------------------------------------------------------------------------------------------


def _padding(*arguments: str, **options: object) -> None:
    def writer(argument: str) -> Callable[[Spot], Tensor]:
        def plant(spot: Spot) -> Tensor:
            c = spot.x.channels
            module = f"self.{spot.scope.owner.fresh('padded')}"
            spot.scope.owner.add(f"{module} = {spot.mark()}nn.Conv2d({c}, {c}, 3, {argument})")
            return spot.bad(f"{module}({spot.x.text})")

        return plant

    for argument in arguments:
        fault("QL511", argument, elsewhere=True, fits=wide, **options)(writer(argument))


_padding('padding="same"', 'padding="valid"', 'padding=1, padding_mode="circular"')
_padding('padding=1, padding_mode="replicate"')
