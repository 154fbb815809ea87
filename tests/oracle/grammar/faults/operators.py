"""QL401 to QL403 and QL412: operators and modules without a quantized kernel."""

from __future__ import annotations

from tests.oracle.grammar.core import Tensor
from tests.oracle.grammar.faults.plant import Spot, expressions, extents, fault, layers, wide

# -- QL401 --------------------------------------------------------------------------------------------------

expressions("QL401", "{x} + {y}", "torch.add({x}, {y})", "{x}.add({y})", "{x} - {y}", "torch.sub({x}, {y})")
expressions("QL401", "{x} * {y}", "torch.mul({x}, {y})", "{x}.mul({y})", "{x} / {y}", "torch.div({x}, {y})")
expressions("QL401", "-{x}", "torch.neg({x})", "{x} ** 2", "torch.pow({x}, 2)", "{x}.pow(2)", "{x}.square()")
expressions("QL401", "{x} @ {y}.transpose(2, 3)", "torch.matmul({x}, {y}.transpose(2, 3))")
expressions("QL401", "torch.bmm({x}.flatten(2), {y}.flatten(2).transpose(1, 2))")
expressions("QL401", 'torch.einsum("bchw,bchw->bc", {x}, {y})')
expressions("QL401", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.where({x} > 0, {x}, {y})")
expressions("QL401", "{x} + 1", "1 - {x}", "{x} / 2", "{x} * 2.0", "0.5 * {x}", "sum([{x}, {y}])")
expressions("QL401", "F.elu({x})", "F.celu({x})", "F.selu({x})", "F.silu({x})", "F.mish({x})", "F.softplus({x})")
expressions("QL401", "F.hardswish({x})", "F.softsign({x})", "F.logsigmoid({x})")
expressions("QL401", "F.glu({x}, dim=1)", fits=wide)
expressions("QL401", "torch.softmax({x}, dim=1)", "F.softmax({x}, dim=1)", "{x}.softmax(1)", "F.log_softmax({x}, 1)")
expressions("QL401", "F.layer_norm({x}, {x}.shape[-1:])", "F.group_norm({x}, 1)")
expressions("QL401", "F.instance_norm({x})", fits=wide)
expressions("QL401", 'F.interpolate({x}, scale_factor=2, mode="bicubic", align_corners=False)')
expressions("QL401", "F.unfold({x}, 1)", "F.adaptive_max_pool2d({x}, 1)", "F.normalize({x}, dim=1)", "{x}.norm()")
expressions("QL401", "{x}.sum(1)", "torch.sum({x}, 1)", "{x}.sum()", "{x}.amax(1)", "torch.amax({x}, 1)")
expressions("QL401", "{x}.argmax(1)", "torch.argmax({x}, dim=1)", "{x}.cumsum(1)", "{x}.exp()", "torch.exp({x})")
expressions("QL401", "{x}.abs()", "torch.abs({x})", "{x}.sqrt()", "torch.rsqrt({x})", "{x}.sin()", "{x}.round()")
expressions("QL401", "torch.roll({x}, 1, 1)", "{x}.roll(1, 1)", "torch.tril({x})", "torch.zeros_like({x})")
expressions("QL401", 'F.pad({x}, (1, 1, 1, 1), mode="replicate")', "torch.randn_like({x})", "torch.isnan({x})")
expressions("QL401", "{x}.float()", "{x}.to(torch.float32)", "F.dropout({x}, 0.5, True)", "{x}.log()")
expressions("QL401", "F.scaled_dot_product_attention({x}, {x}, {x})", "F.cosine_similarity({x}, {y}, dim=1)")


@fault("QL401", "in place: +=")
def add_in_place(spot: Spot) -> Tensor:
    made = spot.let(f"F.relu({spot.x.text})", stem="total")
    spot.scope.emit(f"{made.text} {spot.mark()}+= {spot.x.text}")
    return made


@fault("QL401", "in place: *=")
def multiply_in_place(spot: Spot) -> Tensor:
    made = spot.let(f"{spot.x.text}.clone()", stem="scaled")
    spot.scope.emit(f"{made.text} {spot.mark()}*= {spot.again().text}")
    return made


@fault("QL401", "in place: add_")
def method_in_place(spot: Spot) -> Tensor:
    made = spot.let(f"{spot.x.text}.clone()", stem="total")
    spot.scope.emit(f"{spot.mark()}{made.text}.add_({spot.again().text})")
    return made


@fault("QL401", "residual of a layer")
def residual(spot: Spot) -> Tensor:
    return spot.bad(f"{spot.x.text} + {spot.conv('body')}({spot.x.text})")


@fault("QL401", "gate")
def gate(spot: Spot) -> Tensor:
    return spot.bad(f"{spot.x.text} * torch.sigmoid({spot.conv('gate')}({spot.x.text}))")


@fault("QL401", "accumulation over a ModuleList")
def accumulation(spot: Spot) -> Tensor:
    c = spot.x.channels
    convs = spot.module(f"nn.ModuleList([nn.Conv2d({c}, {c}, 1) for _ in range(2)])", "convs")
    made = spot.let(spot.x.text, stem="total")
    with spot.scope.block(f"for conv in {convs}:"):
        spot.scope.emit(f"{made.text} = {spot.mark()}{made.text} + conv({spot.x.text})")
    return made


@fault("QL401", "return of a lambda")
def of_lambda(spot: Spot) -> Tensor:
    name = spot.scope.fresh("combine")
    other = spot.again().text
    spot.scope.emit(f"{name} = lambda p, q: {spot.mark()}p + q")
    return spot.let(f"{name}({spot.x.text}, {other})")


# -- QL402 --------------------------------------------------------------------------------------------------

layers("QL402", "nn.SiLU()", "nn.Mish()", "nn.Softplus()", "nn.Softmax(dim=1)", "nn.LogSoftmax(dim=1)")
layers("QL402", "nn.SELU()", "nn.CELU()", "nn.Softsign()", "nn.LogSigmoid()", "nn.Softmax2d()", "nn.Tanhshrink()")
layers("QL402", "nn.AdaptiveMaxPool2d(1)", "nn.LocalResponseNorm(2)", "nn.LPPool2d(2, 1)", "nn.Softmin(dim=1)")
layers("QL402", "nn.ReplicationPad2d(1)", "nn.GLU(dim=1)", fits=wide)
layers("QL402", "nn.TransformerEncoderLayer({w}, 1)", call="{m}({x}.flatten(0, 1))", fits=wide)
layers("QL402", "nn.PReLU()", elsewhere=True)
layers("QL402", "nn.GRU({w}, {w})", call="{m}({x}.flatten(0, 1))[0]", fits=wide)


@fault("QL402", "activation in a Sequential")
def activation_in_sequential(spot: Spot) -> Tensor:
    c = spot.x.channels
    body = spot.module(f"nn.Sequential(nn.Conv2d({c}, {c}, 1), nn.BatchNorm2d({c}), nn.SiLU())", "body")
    return spot.bad(f"{body}({spot.x.text})")


@fault("QL402", "activation given by class")
def activation_by_class(spot: Spot) -> Tensor:
    local = spot.scope.owner.fresh("activation")
    spot.scope.owner.add(f"{local} = nn.Mish")
    return spot.bad(f"{spot.module(f'{local}()', 'act')}({spot.x.text})")


# -- QL403 --------------------------------------------------------------------------------------------------


def _functional(name: str, parameter: str, text: str) -> None:
    @fault("QL403", name)
    def plant(spot: Spot) -> Tensor:
        weight = "self." + spot.scope.constant("weight", f"nn.Parameter({parameter.format(**extents(spot.x))})")
        return spot.bad(text.format(x=spot.x.text, p=weight))


_functional("F.conv2d", "torch.randn({c}, {c}, 1, 1)", "F.conv2d({x}, {p})")
_functional("F.conv2d with arguments", "torch.randn({c}, {c}, 3, 3)", "F.conv2d({x}, {p}, None, stride=1, padding=1)")
_functional("torch.conv2d", "torch.randn({c}, {c}, 1, 1)", "torch.conv2d({x}, {p})")
_functional("F.linear", "torch.randn({w}, {w})", "F.linear({x}, {p})")
_functional("F.linear with a keyword", "torch.randn(3, {w})", "F.linear({x}, weight={p})")
_functional("F.conv_transpose2d", "torch.randn({c}, {c}, 1, 1)", "F.conv_transpose2d({x}, {p})")


# -- QL412 --------------------------------------------------------------------------------------------------

expressions("QL412", "F.adaptive_avg_pool2d({x}, 1)", "{x}.mean([2, 3])", "{x}.mean((-2, -1))", raises=False)
expressions("QL412", "torch.mean({x}, dim=(2, 3), keepdim=True)", raises=False)
layers("QL412", "nn.AdaptiveAvgPool2d(1)", "nn.AdaptiveAvgPool2d((1, 1))", raises=False)
