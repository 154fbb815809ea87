"""What looks like a mistake and is right: nothing here raises, and no finding may say that it does."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.grammar import joins
from tests.oracle.grammar.core import ClassText, Tensor
from tests.oracle.grammar.faults.plant import HARMLESS, Plant, Spot, fault, wide


def harmless(name: str, **options: object) -> Callable[[Plant], Plant]:
    return fault(HARMLESS, name, raises=False, **options)


def _back(spot: Spot, value: str) -> Tensor:
    """A float value through a stub of its own."""
    return spot.let(f"{spot.module('tq.QuantStub()', 'quant_back')}({value})", stem="back")


# -- one module, several names ------------------------------------------------------------------------------


def _alias(name: str, constructor: str) -> None:
    @harmless(f"aliased {name}")
    def plant(spot: Spot) -> Tensor:
        first = spot.module(constructor, "act")
        second = f"self.{spot.scope.owner.fresh('act_again')}"
        spot.scope.owner.add(f"{second} = {first}")
        return spot.let(f"{second}({spot.conv()}({first}({spot.x.text})))")


for _name, _constructor in {
    "ReLU": "nn.ReLU()",
    "ReLU in place": "nn.ReLU(inplace=True)",
    "ReLU6": "nn.ReLU6()",
    "Hardtanh": "nn.Hardtanh()",
    "Sigmoid": "nn.Sigmoid()",
    "MaxPool2d": "nn.MaxPool2d(1)",
    "Dropout": "nn.Dropout(0.1)",
    "Identity": "nn.Identity()",
}.items():
    _alias(_name, _constructor)


@harmless("ReLU twice in a Sequential")
def relu_twice(spot: Spot) -> Tensor:
    c, act = spot.x.channels, spot.scope.owner.fresh("act")
    spot.scope.owner.add(f"{act} = nn.ReLU()")
    body = spot.module(f"nn.Sequential(nn.Conv2d({c}, {c}, 1), {act}, nn.Conv2d({c}, {c}, 1), {act})", "body")
    return spot.let(f"{body}({spot.x.text})")


@harmless("container under two names")
def container_alias(spot: Spot) -> Tensor:
    c = spot.x.channels
    first = spot.module(f"nn.Sequential(nn.Conv2d({c}, {c}, 1), nn.ReLU())", "body")
    second = f"self.{spot.scope.owner.fresh('body_again')}"
    spot.scope.owner.add(f"{second} = {first}")
    return spot.let(f"{second}({first}({spot.x.text}))")


@harmless("one layer under two parents")
def two_parents(spot: Spot) -> Tensor:
    c, conv = spot.x.channels, spot.scope.owner.fresh("conv")
    spot.scope.owner.add(f"{conv} = nn.Conv2d({c}, {c}, 1)")
    first = spot.module(f"nn.Sequential({conv}, nn.ReLU())", "left")
    second = spot.module(f"nn.Sequential({conv}, nn.Identity())", "right")
    ff = spot.module("nnq.FloatFunctional()", "sum")
    return spot.let(f"{ff}.add({first}({spot.x.text}), {second}({spot.x.text}))")


@harmless("one ReLU at several calls")
def relu_shared(spot: Spot) -> Tensor:
    act = spot.module("nn.ReLU()", "act")
    return spot.let(f"{act}({spot.conv('first')}({act}({spot.conv('second')}({spot.x.text}))))")


# -- qconfig = None where it does no harm -------------------------------------------------------------------


def _without_qconfig(name: str, constructor: str) -> None:
    @harmless(f"qconfig = None on {name}")
    def plant(spot: Spot) -> Tensor:
        module = spot.module(constructor, "act")
        spot.scope.owner.add(f"{module}.qconfig = None")
        return spot.let(f"{module}({spot.conv()}({spot.x.text}))")


_without_qconfig("ReLU", "nn.ReLU()")
_without_qconfig("MaxPool2d", "nn.MaxPool2d(1)")
_without_qconfig("Sigmoid", "nn.Sigmoid()")


def _float_layer(name: str, constructor: str) -> None:
    @harmless(f"float {name} between stubs")
    def plant(spot: Spot) -> Tensor:
        c, w = spot.x.channels, spot.x.shape[-1]
        module = spot.module(constructor.format(c=c, w=w), "precise")
        spot.scope.owner.add(f"{module}.qconfig = None")
        return _back(spot, f"{module}({spot.plain().text})")


_float_layer("Conv2d", "nn.Conv2d({c}, {c}, 1)")
_float_layer("Linear", "nn.Linear({w}, {w})")
_float_layer("Sequential", "nn.Sequential(nn.Conv2d({c}, {c}, 1), nn.BatchNorm2d({c}), nn.ReLU())")
_float_layer("LayerNorm", "nn.LayerNorm({w})")

# -- float operators on float tensors -----------------------------------------------------------------------


def _float(*texts: str) -> None:
    def writer(text: str) -> Plant:
        def plant(spot: Spot) -> Tensor:
            n, c, h, w = spot.x.shape
            names = {"f": spot.plain().text}
            if "{p}" in text:
                names["p"] = "self." + spot.scope.constant("table", f"nn.Parameter(torch.randn({c}, {c}, 1, 1))")
            if "{m}" in text:
                names["m"] = spot.module("nn.SiLU()", "act")
            return _back(spot, text.format(**names))

        return plant

    for text in texts:
        harmless(f"float: {text}")(writer(text))


_float("{f} + {f}", "{f} * 0.5 - 1", "-{f}", "torch.softmax({f}, dim=1)", "F.silu({f})", "{f} / {f}.abs().sum()")
_float("F.conv2d({f}, {p})", "{m}({f})", "F.layer_norm({f}, {f}.shape[-1:])", "{f}.float()", "torch.abs({f})")
_float("F.interpolate({f}, scale_factor=1.0, mode='bicubic')", "{f}.exp().log()", "{f} ** 2", "{f} @ {f}.mT @ {f}")
_float("sum([{f}, {f}])", "torch.zeros_like({f}) + {f}", "{f}.roll(1, 1)", "{f} + torch.ones(1)")


@harmless("float: in place")
def float_in_place(spot: Spot) -> Tensor:
    real = spot.plain().text
    spot.scope.emit(f"{real} *= 0.5", f"{real} += {real}")
    return _back(spot, real)


# -- stubs --------------------------------------------------------------------------------------------------


@harmless("one stub on one tensor, twice")
def stub_same(spot: Spot) -> Tensor:
    stub, real = spot.module("tq.QuantStub()", "quant_back"), spot.plain().text
    a, b = spot.let(f"{stub}({real})"), spot.let(f"{stub}({real})")
    ff = spot.module("nnq.FloatFunctional()", "sum")
    return spot.let(f"{ff}.add({a.text}, {b.text})")


@harmless("one stub on the parts of a tensor", fits=wide)
def stub_parts(spot: Spot) -> Tensor:
    stub, real = spot.module("tq.QuantStub()", "quant_part"), spot.plain().text
    parts = spot.let(f"[{stub}(part) for part in {real}.chunk(2, dim=1)]", stem="parts")
    ff = spot.module("nnq.FloatFunctional()", "join")
    return spot.let(f"{ff}.cat({parts.text}, dim=1)")


@harmless("stub in exclusive arms")
def stub_arms(spot: Spot) -> Tensor:
    stub, flag = spot.module("tq.QuantStub()", "quant_arm"), spot.scope.constant("use_raw", "False")
    real = spot.plain().text
    with spot.scope.block(f"if self.{flag}:"):
        spot.scope.emit(f"arm = {stub}({real} * 2.0)")
    with spot.scope.block("else:"):
        spot.scope.emit(f"arm = {stub}({real})")
    spot.scope.fresh("arm")
    return Tensor("arm", spot.x.shape, ("fault",))


@harmless("stub only where the tensor is float")
def stub_guarded(spot: Spot) -> Tensor:
    stub = spot.module("tq.QuantStub()", "quant_guarded")
    made = spot.let(spot.x.text, stem="guarded")
    with spot.scope.block(f"if not {made.text}.is_quantized and self.training:"):
        spot.scope.emit(f"{made.text} = {stub}({made.text})")
    return made


@harmless("DeQuantStub on a float tensor")
def dequant_twice(spot: Spot) -> Tensor:
    out = f"self.{joins.dequant(spot.scope)}"
    return _back(spot, f"{out}({out}({spot.x.text}))")


@harmless("QuantWrapper around a class without stubs")
def wrapped(spot: Spot) -> Tensor:
    text = ClassText(spot.scope.file.fresh("Plain"), spot.scope.file)
    c = spot.x.channels
    text.init += ["super().__init__()", f"self.conv = nn.Conv2d({c}, {c}, 1)", "self.act = nn.ReLU()"]
    text.methods.append(["def forward(self, x):", "    return self.act(self.conv(x))"])
    text.closed = True
    spot.scope.file.classes.append(text)
    module = spot.module(f"tq.QuantWrapper({text.name}())", "wrapped")
    return _back(spot, f"{module}({spot.plain().text})")


@harmless("QuantWrapper around a layer")
def wrapped_layer(spot: Spot) -> Tensor:
    module = spot.module(f"tq.QuantWrapper(nn.Conv2d({spot.x.channels}, {spot.x.channels}, 1))", "wrapped")
    return _back(spot, f"{module}({spot.plain().text})")


@harmless("layers and their stub used in two methods")
def stub_helper(spot: Spot) -> Tensor:
    stub, name = spot.module("tq.QuantStub()", "quant_in"), spot.scope.owner.fresh("_enter")
    spot.scope.owner.methods.append([f"def {name}(self, value):", f"    return {stub}(value)"])
    return spot.let(f"{spot.conv()}(self.{name}({spot.plain().text}))")


# -- FloatFunctional ----------------------------------------------------------------------------------------


@harmless("FloatFunctional for scalars only")
def scalars(spot: Spot) -> Tensor:
    ff = spot.module("nnq.FloatFunctional()", "scale")
    return spot.let(f"{ff}.add_scalar({ff}.mul_scalar({spot.x.text}, 0.5), 1.0)")


@harmless("FloatFunctional in exclusive arms")
def functional_arms(spot: Spot) -> Tensor:
    ff, flag = spot.module("nnq.FloatFunctional()", "either"), spot.scope.constant("deep", "True")
    x = spot.x.text
    return spot.let(f"{ff}.add({x}, {x}) if self.{flag} else {ff}.mul({x}, {x})")


@harmless("FloatFunctional per level")
def functional_levels(spot: Spot) -> Tensor:
    ffs = spot.module("nn.ModuleList([nnq.FloatFunctional() for _ in range(2)])", "adds")
    made = spot.let(spot.x.text, stem="total")
    with spot.scope.block(f"for add in {ffs}:"):
        spot.scope.emit(f"{made.text} = add.add({made.text}, {spot.x.text})")
    return made


@harmless("FloatFunctional in a Sequential-like dictionary")
def functional_dictionary(spot: Spot) -> Tensor:
    ffs = spot.module('nn.ModuleDict({"sum": nnq.FloatFunctional()})', "ops")
    return spot.let(f'{ffs}["sum"].add({spot.x.text}, {spot.other().text})')


# -- numbers, sizes, indices --------------------------------------------------------------------------------


@harmless("arithmetic on sizes")
def sizes(spot: Spot) -> Tensor:
    n, x = spot.scope.fresh("count"), spot.x.text
    spot.scope.emit(f"{n} = {x}.size(0) * 2 - {x}.shape[0] + len({x}.shape) * 0")
    return spot.let(f"{x}.reshape({n}, -1).reshape({x}.shape)")


@harmless("arithmetic on a number taken out")
def numbers(spot: Spot) -> Tensor:
    value = spot.scope.fresh("peak")
    spot.scope.emit(f"{value} = {spot.x.text}.max().item() * 2.0 + 1.0")
    return spot.let(f"{spot.x.text}.clamp(max={value})")


@harmless("arithmetic on a comparison")
def comparison(spot: Spot) -> Tensor:
    mask = spot.scope.fresh("mask")
    spot.scope.emit(f"{mask} = ({spot.x.text} > 0).float() + 1.0")
    return _back(spot, f"self.{joins.dequant(spot.scope)}({spot.x.text}) * {mask}")


@harmless("indices")
def indices(spot: Spot) -> Tensor:
    index = spot.scope.fresh("index")
    spot.scope.emit(f"{index} = torch.cat([torch.arange(1), torch.arange(1)]) + 0")
    return spot.let(f"{spot.x.text}.index_select(1, {index})", (spot.x.shape[0], 2, *spot.x.shape[2:]))


@harmless("float operators while training only")
def training_only(spot: Spot) -> Tensor:
    spot.scope.constant("noisy", "True")  # only where there is a `self`
    made = spot.let(f"F.relu({spot.x.text})", stem="noisy")
    with spot.scope.block("if self.training:"):
        spot.scope.emit(f"{made.text} = {made.text} + torch.randn(1)")
    return made


@harmless("dequantize method")
def dequantize_method(spot: Spot) -> Tensor:
    return _back(spot, f"{spot.x.text}.dequantize() if {spot.x.text}.is_quantized else {spot.x.text}")


@harmless("weights touched in the constructor")
def weights(spot: Spot) -> Tensor:
    conv = spot.conv("scaled")
    spot.scope.owner.add(f"nn.init.kaiming_normal_({conv}.weight)")
    spot.scope.owner.add(f"{conv}.weight.data.mul_(0.5)")
    return spot.let(f"{conv}({spot.x.text})")


@harmless("embedding in float")
def embedding(spot: Spot) -> Tensor:
    table = spot.module(f"nn.Embedding(10, {spot.x.shape[-1]})", "embedding")
    spot.scope.owner.add(f"{table}.qconfig = None")
    return _back(spot, f"{spot.plain().text} + {table}(torch.zeros(1, dtype=torch.long))")


@harmless("embedding with its own qconfig")
def embedding_qconfig(spot: Spot) -> Tensor:
    table = spot.module(f"nn.Embedding(10, {spot.x.shape[-1]})", "embedding")
    spot.scope.owner.add(f"{table}.qconfig = tq.float_qparams_weight_only_qconfig")
    return _back(spot, f"{spot.plain().text} + {table}(torch.zeros(1, dtype=torch.long))")


@harmless("padding that works")
def padding(spot: Spot) -> Tensor:
    c = spot.x.channels
    module = spot.module(f'nn.Conv2d({c}, {c}, 3, padding=(1, 1), padding_mode="zeros")', "padded")
    return spot.let(f"{module}({spot.x.text})")


@harmless("subclass without layers of its own")
def plain_subclass(spot: Spot) -> Tensor:
    text = ClassText(spot.scope.file.fresh("Act"), spot.scope.file, "nn.ReLU", attributes=["kind = 1"])
    spot.scope.file.classes.append(text)
    return spot.let(f"{spot.module(f'{text.name}()', 'act')}({spot.x.text})")


# -- lives --------------------------------------------------------------------------------------------------


@harmless("right fusion", here=True)
def fused(spot: Spot) -> Tensor:
    c = spot.x.channels
    body = spot.module(f"nn.Sequential(nn.Conv2d({c}, {c}, 1), nn.BatchNorm2d({c}), nn.ReLU())", "body")
    name = body.removeprefix("self.")
    spot.life().fuse.append(f'net = tq.fuse_modules(net, [["{name}.0", "{name}.1", "{name}.2"]])')
    return spot.let(f"{body}({spot.x.text})")


@harmless("fusion in place", here=True)
def fused_in_place(spot: Spot) -> Tensor:
    conv, act = spot.conv("body"), spot.module("nn.ReLU()", "body_act")
    names = ", ".join(f'"{each.removeprefix("self.")}"' for each in (conv, act))
    spot.life().fuse.append(f"tq.fuse_modules(net, [[{names}]], inplace=True)")
    return spot.let(f"{act}({conv}({spot.x.text}))")


@harmless("qconfig of one module in the script", here=True)
def script_qconfig(spot: Spot) -> Tensor:
    head = spot.module(f"nn.Linear({spot.x.shape[-1]}, 3)", "head")
    spot.life().before.append(f"net.{head.removeprefix('self.')}.qconfig = None")
    return _back(spot, f"{head}({spot.plain().text})")


@harmless("per-tensor qconfig and a transposed convolution", here=True)
def transposed(spot: Spot) -> Tensor:
    up = spot.module(f"nn.ConvTranspose2d({spot.x.channels}, {spot.x.channels}, 1)", "up")
    spot.life().qconfig = 'net.qconfig = tq.get_default_qconfig("qnnpack")'
    return spot.let(f"{up}({spot.x.text})")


@harmless("quantization-aware training", here=True)
def aware(spot: Spot) -> Tensor:
    spot.life().qat = True
    c = spot.x.channels
    return spot.let(f"{spot.module(f'nn.Sequential(nn.Conv2d({c}, {c}, 1), nn.ReLU())', 'body')}({spot.x.text})")
