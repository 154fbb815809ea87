"""How a mistake is planted: what it is (`Fault`), and where it stands (`PLACES`).

A fault is an entry of `FAULTS`: a template, or a function that gets a `Spot`. It writes its statements into
`spot.scope`, puts `spot.mark()` right before the call the finding is expected at, and returns the tensor it
makes, if there is one. A place moves the spot into a method, a class, a loop, and knows nothing of the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.oracle.grammar import joins
from tests.oracle.grammar.core import FLOAT, ClassText, Life, Net, NotHere, Origin, Scope, Shape, Tensor

BROKEN: Origin = ("fault",)
HARMLESS = "none"
"""The rule of what only looks like a mistake."""


@dataclass(frozen=True)
class Fault:
    """A mistake in one spelling.

    `raises`: torch raises because of it. `elsewhere`: not on the marked line, or not on a line of the file.
    `fits`: which tensors it can be planted on. `here`: it can only stand in `Net.forward` itself.
    """

    rule: str
    name: str
    plant: Callable[[Spot], Tensor | None]
    raises: bool = True
    elsewhere: bool = False
    here: bool = False
    fits: Callable[[Tensor], bool] = joins.small

    @property
    def key(self) -> str:
        return f"fault: {self.rule}: {self.name}"


@dataclass
class Spot:
    """A point in a body where a fault is written; `x` is a quantized feature map in a variable."""

    fault: Fault
    net: Net
    scope: Scope
    x: Tensor
    direct: bool = True
    extra: list[str] = field(default_factory=list)

    def mark(self) -> str:
        """The mark to put before the call that is reported."""
        return self.scope.file.mark(self.fault.key, self.fault.rule, self.fault.raises, self.fault.elsewhere)

    def bad(self, text: str, shape: Shape | None = None) -> Tensor:
        """Write the statement that is reported: a variable bound to `text`."""
        return self.let(f"{self.mark()}{text}", shape, "broken")

    def let(self, text: str, shape: Shape | None = None, stem: str = "made") -> Tensor:
        """Bind `text` to a new variable; the result is taken as quantized."""
        name = self.scope.fresh(stem)
        self.scope.emit(f"{name} = {text}")
        return Tensor(name, self.x.shape if shape is None else shape, BROKEN)

    def module(self, constructor: str, stem: str) -> str:
        """Register a submodule; returns how it is reached."""
        return f"self.{self.scope.submodule(constructor, stem)}"

    def conv(self, stem: str = "stray") -> str:
        """Register a convolution that fits `x`; returns how it is reached."""
        return self.module(f"nn.Conv2d({self.x.channels}, {self.x.channels}, 1)", stem)

    def other(self) -> Tensor:
        """Another quantized tensor of the shape of `x`, with a scale of its own."""
        return self.let(f"{self.conv('twin')}({self.x.text})", stem="other")

    def again(self) -> Tensor:
        """Another quantized tensor of the shape of `x`; a function without modules has only what `x` gives."""
        if self.scope.cls is None:
            return self.let(f"F.relu({self.x.text})", stem="act")
        return self.other()

    def plain(self) -> Tensor:
        """A float copy of `x`."""
        return self.let(f"self.{joins.dequant(self.scope)}({self.x.text})", stem="plain")

    def raw(self) -> Tensor:
        """A float input of the model, of the shape of `x`, that no stub has seen."""
        if not self.direct:
            self.extra.append("raw")
        elif "raw" not in self.net.signature.split(", "):
            if self.net.call != "args" or "*" in self.net.signature:
                raise NotHere
            self.net.signature += ", raw"
            self.net.shapes.append(self.x.shape)
        return Tensor("raw", self.x.shape, FLOAT)

    def life(self) -> Life:
        """The script of the file that quantizes `Net`, to be completed; only where the fault may stand there."""
        if not self.direct:
            raise NotHere
        self.net.life = self.net.life or Life(self.scope.file.engine)
        return self.net.life


Plant = Callable[[Spot], Tensor | None]
FAULTS: dict[str, Fault] = {}


def fault(rule: str, name: str, **options: object) -> Callable[[Plant], Plant]:
    """Put a function into the table."""

    def register(plant: Plant) -> Plant:
        made = Fault(rule, name, plant, **options)  # type: ignore[arg-type]
        assert made.key not in FAULTS, made.key
        FAULTS[made.key] = made
        return plant

    return register


def expressions(rule: str, *templates: str, **options: object) -> None:
    """One fault per template: an expression over `{x}`, another tensor `{y}`, and extents `{n} {c} {h} {w}`."""
    for template in templates:
        fault(rule, template, **options)(_expression(template))


def _expression(template: str) -> Callable[[Spot], Tensor]:
    def plant(spot: Spot) -> Tensor:
        names = {"x": spot.x.text}
        if "{y}" in template:
            names["y"] = spot.again().text
        return spot.bad(template.format(**names, **extents(spot.x)))

    return plant


def layers(rule: str, *constructors: str, call: str = "{m}({x})", **options: object) -> None:
    """One fault per module that cannot stand in the quantized region."""
    for constructor in constructors:
        fault(rule, constructor, **options)(_layer(constructor, call))


def _layer(constructor: str, call: str) -> Callable[[Spot], Tensor]:
    def plant(spot: Spot) -> Tensor:
        module = spot.module(constructor.format(**extents(spot.x)), "layer")
        return spot.bad(call.format(m=module, x=spot.x.text))

    return plant


def extents(x: Tensor) -> dict[str, int]:
    return dict(zip("nchw", x.shape, strict=True))


def wide(x: Tensor) -> bool:
    """A map with an even number of channels and some extent."""
    return joins.small(x) and x.channels % 2 == 0 and x.shape[2] >= 4 and x.shape[3] >= 4


# -- places -------------------------------------------------------------------------------------------------

Place = Callable[[Spot, Plant], Tensor | None]
PLACES: dict[str, Place] = {}


def place(name: str) -> Callable[[Place], Place]:
    def register(function: Place) -> Place:
        PLACES[f"place: {name}"] = function
        return function

    return register


@place("forward of the model")
def in_forward(spot: Spot, plant: Plant) -> Tensor | None:
    return plant(spot)


def _body(spot: Spot, plant: Plant, cls: ClassText | None) -> tuple[list[str], list[str], Tensor | None]:
    """The parameters, the statements and the result of a function that holds the fault."""
    body = Scope(spot.scope.file, cls, [spot.x.named("x")], tidy=True, level=spot.scope.level + 1)
    inner = replace(spot, scope=body, x=spot.x.named("x"), direct=False, extra=[])
    made = plant(inner)
    names = ["x", *dict.fromkeys(inner.extra)]
    return names, [*body.lines, f"return {'x' if made is None else made.text}"], made


def _arguments(spot: Spot, names: list[str]) -> str:
    return ", ".join([spot.x.text, *(spot.raw().text for _ in names[1:])])


def _bound(spot: Spot, call: str, made: Tensor | None) -> Tensor:
    return spot.let(call, spot.x.shape if made is None else made.shape, "result")


@place("helper method")
def in_helper(spot: Spot, plant: Plant) -> Tensor | None:
    names, lines, made = _body(spot, plant, spot.scope.owner)
    name = spot.scope.owner.fresh("_step")
    spot.scope.owner.methods.append([f"def {name}({', '.join(['self', *names])}):", *(f"    {e}" for e in lines)])
    return _bound(spot, f"self.{name}({_arguments(spot, names)})", made)


@place("function of the file")
def in_function(spot: Spot, plant: Plant) -> Tensor | None:
    names, lines, made = _body(spot, plant, None)
    name = spot.scope.file.fresh("process")
    spot.scope.file.functions.append([f"def {name}({', '.join(names)}):", *(f"    {each}" for each in lines)])
    return _bound(spot, f"{name}({_arguments(spot, names)})", made)


def _class(spot: Spot, plant: Plant, name: str) -> tuple[ClassText, list[str], Tensor | None]:
    text = ClassText(spot.scope.file.fresh(name), spot.scope.file)
    text.init.append("super().__init__()")
    names, lines, made = _body(spot, plant, text)
    text.methods.append([f"def forward({', '.join(['self', *names])}):", *(f"    {each}" for each in lines)])
    text.closed = True
    spot.scope.file.classes.append(text)
    return text, names, made


@place("class of the file")
def in_class(spot: Spot, plant: Plant) -> Tensor | None:
    text, names, made = _class(spot, plant, "Head")
    module = spot.module(f"{text.name}()", "head")
    return _bound(spot, f"{module}({_arguments(spot, names)})", made)


@place("inherited forward and constructor")
def inherited(spot: Spot, plant: Plant) -> Tensor | None:
    base, names, made = _class(spot, plant, "BaseHead")
    text = ClassText(spot.scope.file.fresh("DerivedHead"), spot.scope.file, base.name, attributes=["kind = 'derived'"])
    spot.scope.file.classes.append(text)
    module = spot.module(f"{text.name}()", "head")
    return _bound(spot, f"{module}({_arguments(spot, names)})", made)


@place("class in a Sequential")
def in_sequential(spot: Spot, plant: Plant) -> Tensor | None:
    text, names, made = _class(spot, plant, "Tail")
    if len(names) > 1:
        raise NotHere
    module = spot.module(f"nn.Sequential(nn.Identity(), {text.name}())", "tail")
    return _bound(spot, f"{module}({spot.x.text})", made)


@place("class in a ModuleList")
def in_list(spot: Spot, plant: Plant) -> Tensor | None:
    text, names, made = _class(spot, plant, "Stage")
    module = spot.module(f"nn.ModuleList([{text.name}() for _ in range(2)])", "stages")
    results = spot.scope.fresh("results")
    spot.scope.emit(f"{results} = []")
    with spot.scope.block(f"for stage in {module}:"):
        spot.scope.emit(f"{results}.append(stage({_arguments(spot, names)}))")
    return _bound(spot, f"{results}[0]", made)


def _indented(spot: Spot, plant: Plant, header: str) -> Tensor | None:
    with spot.scope.block(header):
        return plant(spot)


@place("loop")
def in_loop(spot: Spot, plant: Plant) -> Tensor | None:
    return _indented(spot, plant, "for _ in range(1):")


@place("condition")
def in_condition(spot: Spot, plant: Plant) -> Tensor | None:
    flag = spot.scope.constant("enabled", "True")
    return _indented(spot, plant, f"if self.{flag}:")


def plant(net: Net, chosen: Fault) -> Tensor | None:
    """Write a fault somewhere; what it makes is a tensor that nothing has used yet."""
    places = list(PLACES) if not chosen.here else ["place: forward of the model"]
    while places:
        key = net.file.choose(places)
        made: list[Tensor | None] = []

        def write(scope: Scope, key: str = key, made: list[Tensor | None] = made) -> None:
            x = scope.pick_name(chosen.fits)
            made.append(PLACES[key](Spot(chosen, net, scope, x), chosen.plant))

        saved = net.signature, list(net.shapes), net.life
        if net.scope.attempt(write):
            net.file.cover(key)
            net.file.cover(chosen.key)
            net.file.cover(f"rule: {chosen.rule}")
            return made[-1]
        net.signature, net.shapes, net.life = saved
        places.remove(key)
    raise NotHere
