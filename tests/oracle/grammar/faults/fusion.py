"""QL503 to QL508: fusion and qconfigs of single modules, in files that quantize the model themselves."""

from __future__ import annotations

from tests.oracle.grammar.core import Tensor
from tests.oracle.grammar.faults.plant import Spot, fault

CONV = "nn.Conv2d({c}, {c}, 1)"
NORM = "nn.BatchNorm2d({c})"


def _chain(spot: Spot, *constructors: str) -> tuple[list[str], str]:
    """Modules of `Net` called one after the other: their names, and the call."""
    c, text = spot.x.channels, spot.x.text
    names = []
    for constructor in constructors:
        module = spot.module(constructor.format(c=c), "unit")
        names.append(module.removeprefix("self."))
        text = f"{module}({text})"
    return names, text


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# -- QL503 --------------------------------------------------------------------------------------------------


def _unfused(name: str, *constructors: str) -> None:
    @fault("QL503", name, raises=False, here=True)
    def plant(spot: Spot) -> Tensor:
        _, text = _chain(spot, *constructors)
        life = spot.life()
        life.prepare = f"{spot.mark()}tq.prepare(net)"
        return spot.let(text)


_unfused("conv and batch norm", CONV, NORM)
_unfused("conv, batch norm and relu", CONV, NORM, "nn.ReLU()")
_unfused("conv and relu", CONV, "nn.ReLU()")


@fault("QL503", "lone BatchNorm1d", here=True)
def lone_norm(spot: Spot) -> Tensor:
    n, c, h, w = spot.x.shape
    module = spot.module(f"nn.BatchNorm1d({c})", "norm")
    spot.life().prepare = f"{spot.mark()}tq.prepare(net)"
    return spot.bad(f"{module}({spot.x.text}.flatten(2))", (n, c, h * w))


# -- QL504, QL505, QL506 ------------------------------------------------------------------------------------


def _fuse_names(name: str, template: str) -> None:
    @fault("QL504", name, here=True)
    def plant(spot: Spot) -> Tensor:
        names, text = _chain(spot, CONV, "nn.ReLU()")
        life = spot.life()
        life.fuse.append(f"net = {spot.mark()}" + template.format(a=names[0], b=names[1]))
        return spot.let(text)


_fuse_names("misspelled name", 'tq.fuse_modules(net, [["{a}s", "{b}"]])')
_fuse_names("name of nothing", 'tq.fuse_modules(net, [["{a}", "missing_activation"]])')
_fuse_names("path of nothing", 'tq.fuse_modules(net, [["backbone.{a}", "backbone.{b}"]])')
_fuse_names("one string", 'tq.fuse_modules(net, "{a}")')


def _order(name: str, constructors: tuple[str, ...], order: tuple[int, ...]) -> None:
    @fault("QL505", name, here=True)
    def plant(spot: Spot) -> Tensor:
        names, text = _chain(spot, *constructors)
        chosen = _quoted([names[index] for index in order])
        spot.life().fuse.append(f"net = {spot.mark()}tq.fuse_modules(net, [[{chosen}]])")
        return spot.let(text)


_order("batch norm first", (NORM, CONV), (0, 1))
_order("relu first", ("nn.ReLU()", CONV), (0, 1))
_order("sigmoid", (CONV, "nn.Sigmoid()"), (0, 1))
_order("relu6", (CONV, "nn.ReLU6()"), (0, 1))
_order("conv, relu, batch norm", (CONV, "nn.ReLU()", NORM), (0, 1, 2))


@fault("QL506", "not adjacent", raises=False, here=True)
def apart(spot: Spot) -> Tensor:
    names, text = _chain(spot, CONV, NORM, "nn.ReLU()")
    chosen = _quoted([names[0], names[2]])
    spot.life().fuse.append(f"net = {spot.mark()}tq.fuse_modules(net, [[{chosen}]])")
    return spot.let(text)


@fault("QL506", "shared relu", raises=False, here=True)
def shared_relu(spot: Spot) -> Tensor:
    names, text = _chain(spot, CONV, "nn.ReLU()")
    chosen = _quoted(names)
    spot.life().fuse.append(f"net = {spot.mark()}tq.fuse_modules(net, [[{chosen}]])")
    made = spot.let(text)
    return spot.let(f"self.{names[1]}({spot.conv('later')}({made.text}))")


@fault("QL506", "second consumer", raises=False, here=True)
def second_consumer(spot: Spot) -> Tensor:
    names, _ = _chain(spot, CONV, NORM)
    chosen = _quoted(names)
    spot.life().fuse.append(f"net = {spot.mark()}tq.fuse_modules(net, [[{chosen}]])")
    made = spot.let(f"self.{names[0]}({spot.x.text})")
    norm = spot.let(f"self.{names[1]}({made.text})")
    ff = spot.module("nnq.FloatFunctional()", "sum")
    return spot.let(f"{ff}.add({made.text}, {norm.text})")


# -- QL507, QL508 -------------------------------------------------------------------------------------------


def _transposed(name: str, constructor: str, qconfig: str, call: str = "{m}({x})") -> None:
    @fault("QL507", name, here=True, elsewhere=True)
    def plant(spot: Spot) -> Tensor:
        module = spot.module(constructor.format(c=spot.x.channels), "up")
        spot.life().qconfig = f"{spot.mark()}{qconfig}"
        return spot.let(call.format(m=module, x=spot.x.text))


_transposed("x86", "nn.ConvTranspose2d({c}, {c}, 1)", 'net.qconfig = tq.get_default_qconfig("x86")')
_transposed("fbgemm", "nn.ConvTranspose2d({c}, {c}, 3, padding=1)", 'net.qconfig = tq.get_default_qconfig("fbgemm")')
_transposed(
    "one dimension",
    "nn.ConvTranspose1d({c}, {c}, 1)",
    "net.qconfig = tq.get_default_qconfig()",
    "{m}({x}.flatten(2)).reshape({x}.shape)",
)


def _table(name: str, constructor: str, indices: str) -> None:
    @fault("QL508", name, elsewhere=True, here=True)
    def plant(spot: Spot) -> None:
        table = spot.module(constructor, "embedding")
        spot.life().qconfig = spot.mark() + f'net.qconfig = tq.get_default_qconfig("{spot.scope.file.engine}")'
        spot.let(f"{table}({indices})")


_table("Embedding", "nn.Embedding(10, 4)", "torch.arange(4)")
_table("EmbeddingBag", "nn.EmbeddingBag(10, 4, mode='sum')", "torch.arange(4).reshape(2, 2)")
_table("Embedding with a padding index", "nn.Embedding(10, 4, padding_idx=0)", "torch.zeros(2, dtype=torch.long)")
