"""One row per spelling of an operator that runs on quantized tensors, and what becomes of the scale.

`keep` passes the input's scale on, `own` has an observer of its own, `sigmoid` and `tanh` have torch's
constant scales; a test measures every row. To add an operator, add a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.oracle.grammar.core import NotHere, Origin, Scope, Shape, Tensor, own

Reshape = Callable[[Shape], Shape]
Test = Callable[[Shape], bool]


def same(shape: Shape) -> Shape:
    return shape


def flat(start: int) -> Reshape:
    def reshape(shape: Shape) -> Shape:
        total = 1
        for extent in shape[start:]:
            total *= extent
        return (*shape[:start], total)

    return reshape


def put(index: int, extent: int | Callable[[int], int]) -> Reshape:
    """The shape with one extent replaced."""

    def reshape(shape: Shape) -> Shape:
        value = extent(shape[index]) if callable(extent) else extent
        return (*shape[:index], value, *shape[index + 1 :])

    return reshape


def drop(index: int) -> Reshape:
    return lambda shape: shape[:index] + shape[index + 1 :]


def insert(index: int) -> Reshape:
    return lambda shape: (*shape[:index], 1, *shape[index:])


def order(*axes: int) -> Reshape:
    return lambda shape: tuple(shape[axis] for axis in axes)


def plane(change: Callable[[int], int]) -> Reshape:
    return lambda shape: (*shape[:-2], change(shape[-2]), change(shape[-1]))


def scalar(_: Shape) -> Shape:
    return ()


def image(shape: Shape) -> bool:
    return len(shape) == 4


def volume(shape: Shape) -> bool:
    return len(shape) == 5


def sequence(shape: Shape) -> bool:
    return len(shape) == 3 and shape[2] % 2 == 0 and shape[2] <= 64


def square(shape: Shape) -> bool:
    return image(shape) and shape[2] >= 2 and shape[3] >= 2


def channels(multiple: int) -> Test:
    return lambda shape: image(shape) and shape[1] % multiple == 0


def big(shape: Shape) -> bool:
    return image(shape) and shape[2] >= 4 and shape[3] >= 4


def small(shape: Shape) -> bool:
    return square(shape) and shape[2] <= 8 and shape[3] <= 8


def any_rank(shape: Shape) -> bool:
    return len(shape) >= 1


def both(*tests: Test) -> Test:
    return lambda shape: all(test(shape) for test in tests)


def double(extent: int) -> int:
    return extent * 2


def half(extent: int) -> int:
    return extent // 2


@dataclass(frozen=True)
class Row:
    """One spelling of one operator.

    `template` is an expression over `{x}` or, for a module, its constructor. `{c}`, `{h}`, `{w}`, `{n}` are
    extents of the input; in a constructor `{c}` may become the constructor's parameter.
    """

    operator: str
    template: str
    scale: str = "keep"
    shape: Reshape = same
    when: Test = image
    sign: str = "keep"
    engine: str = ""
    named: bool = False
    call: str = "{m}({x})"

    @property
    def key(self) -> str:
        return f"op: {self.operator}: {self.template}"

    @property
    def module(self) -> bool:
        return "{x}" not in self.template

    @property
    def method(self) -> bool:
        return self.template.startswith("{x}")

    def fits(self, x: Tensor, engine: str) -> bool:
        if self.engine and self.engine != engine:
            return False
        if self.named and not x.text.isidentifier():
            return False
        if self.sign == "signed" and x.nonneg:
            return False
        return x.quantized and self.when(x.shape)


def rows(operator: str, *templates: str, **common: object) -> list[Row]:
    return [Row(operator, template, **common) for template in templates]  # type: ignore[arg-type]


POINTWISE = [
    *rows("relu", "F.relu({x})", "torch.relu({x})", "{x}.relu()", "nn.ReLU()", when=any_rank, sign="nonneg"),
    *rows("relu", "F.relu({x}, inplace=True)", "nn.ReLU(inplace=True)", sign="nonneg"),
    *rows("relu6", "F.relu6({x})", "nn.ReLU6()", when=any_rank, sign="nonneg"),
    *rows("hardtanh", "F.hardtanh({x}, -2.0, 2.0)", "nn.Hardtanh()", when=any_rank),
    *rows("clamp", "torch.clamp({x}, -1.5, 1.5)", "{x}.clamp(-1.0, 1.0)", when=any_rank),
    *rows("clamp", "{x}.clamp(min=0)", when=any_rank, sign="nonneg"),
    *rows("threshold", "F.threshold({x}, 0.1, 0.0)", when=any_rank, sign="nonneg"),
    *rows("leaky_relu", "F.leaky_relu({x}, 0.1)", when=any_rank),
    *rows("gelu", "F.gelu({x})", "nn.GELU()", when=any_rank),
    *rows(
        "dropout",
        "F.dropout({x}, 0.2, self.training)",
        "F.dropout({x}, p=0.1, training=False)",
        "nn.Dropout(0.2)",
    ),
    *rows("identity", "nn.Identity()", when=any_rank),
    *rows("masked_fill", "{x}.masked_fill({x} < 0, 0.0)", named=True, sign="nonneg"),
    *rows("clone", "{x}.clone()", "torch.clone({x})", "{x}.detach()", "{x}.contiguous()", when=any_rank),
]

POOLS = [
    *rows("max_pool", "F.max_pool2d({x}, 3, stride=1, padding=1)", "torch.max_pool2d({x}, 3, 1, 1)", when=square),
    *rows("max_pool", "nn.MaxPool2d(3, stride=1, padding=1)", when=square),
    *rows("max_pool", "F.max_pool2d({x}, 2)", "nn.MaxPool2d(2)", when=square, shape=plane(half)),
    *rows("max_pool", "F.max_pool1d({x}.flatten(2), 3, stride=1, padding=1)", when=square, shape=flat(2)),
    *rows("avg_pool", "F.avg_pool2d({x}, 3, stride=1, padding=1)", "nn.AvgPool2d(3, 1, 1)", when=square),
    *rows("avg_pool", "F.avg_pool2d({x}, 2)", when=square, shape=plane(half)),
    *rows(
        "adaptive_avg_pool",
        "F.adaptive_avg_pool2d({x}, (1, 1))",
        "nn.AdaptiveAvgPool2d(1)",
        shape=plane(lambda _: 1),
    ),
    *rows("adaptive_avg_pool", "nn.AdaptiveAvgPool2d((2, 2))", when=square, shape=plane(lambda _: 2)),
]

REDUCTIONS = [
    *rows("mean", "{x}.mean([2, 3], keepdim=True)", "torch.mean({x}, (2, 3), keepdim=True)", shape=plane(lambda _: 1)),
    *rows("mean", "{x}.flatten(2).mean(2)", shape=lambda shape: shape[:2], when=square),
    *rows("mean", "{x}.mean(1, keepdim=True)", "torch.mean({x}, 1, keepdim=True)", shape=put(1, 1)),
    *rows("mean", "{x}.flatten(1).mean()", shape=scalar, when=square),
    *rows("std", "{x}.std()", "torch.std({x})", shape=scalar, when=square, sign="nonneg"),
    *rows("max", "{x}.max(1)[0]", "torch.max({x}, 1).values", shape=drop(1)),
    *rows("max", "{x}.max()", "torch.max({x})", shape=scalar),
    *rows("min", "{x}.min(1, keepdim=True)[0]", "torch.min({x}, dim=1, keepdim=True)[0]", shape=put(1, 1)),
    *rows("topk", "{x}.topk(2, 1)[0]", "torch.topk({x}, 2, dim=1)[0]", shape=put(1, 2), when=channels(2)),
    *rows("sort", "{x}.sort(1)[0]", "torch.sort({x}, dim=1).values"),
]

SPATIAL = [
    *rows("interpolate", "F.interpolate({x}, scale_factor=2)", when=small, shape=plane(double)),
    *rows(
        "interpolate",
        'F.interpolate({x}, scale_factor=2, mode="bilinear", align_corners=False)',
        'nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)',
        "nn.Upsample(scale_factor=2)",
        when=small,
        shape=plane(double),
    ),
    *rows("interpolate", 'F.interpolate({x}, scale_factor=0.5, mode="area")', when=big, shape=plane(half)),
    *rows("interpolate", 'F.interpolate({x}, size={x}.shape[2:], mode="nearest")', when=small, named=True),
    *rows("grid_sample", "F.grid_sample({x}, torch.zeros({n}, {h}, {w}, 2), align_corners=False)", when=square),
    *rows(
        "pad",
        "F.pad({x}, (1, 1, 1, 1))",
        'F.pad({x}, [1, 1, 1, 1], mode="reflect")',
        when=small,
        shape=plane(lambda n: n + 2),
    ),
    *rows(
        "pixel_shuffle",
        "F.pixel_shuffle({x}, 2)",
        "nn.PixelShuffle(2)",
        when=both(channels(4), small),
        shape=lambda s: (s[0], s[1] // 4, s[2] * 2, s[3] * 2),
    ),
    *rows("channel_shuffle", "torch.channel_shuffle({x}, 2)", "nn.ChannelShuffle(2)", when=channels(2)),
]

LAYOUT = [
    *rows("view", "{x}.contiguous().view({n}, -1)", shape=flat(1)),
    *rows("reshape", "{x}.reshape({n}, -1)", "torch.reshape({x}, ({n}, -1))", shape=flat(1)),
    *rows("flatten", "{x}.flatten(1)", "torch.flatten({x}, 1)", "nn.Flatten()", shape=flat(1)),
    *rows("permute", "{x}.permute(0, 2, 3, 1)", "torch.permute({x}, (0, 2, 3, 1))", shape=order(0, 2, 3, 1)),
    *rows("transpose", "{x}.transpose(2, 3)", "torch.transpose({x}, 2, 3)", shape=order(0, 1, 3, 2)),
    *rows("unsqueeze", "{x}.unsqueeze(1)", "torch.unsqueeze({x}, 1)", shape=insert(1)),
    *rows("squeeze", "{x}.unsqueeze(1).squeeze(1)", "torch.squeeze({x}.unsqueeze(1), 1)"),
    *rows("slice", "{x}[:, :2]", when=channels(2), shape=put(1, 2)),
    *rows(
        "slice",
        "{x}[:, 1:, ::2]",
        when=both(channels(2), square),
        shape=lambda s: (s[0], s[1] - 1, (s[2] + 1) // 2, s[3]),
    ),
    *rows("slice", "{x}[..., 0]", shape=drop(3)),
    *rows("index", "{x}[:, -1]", shape=drop(1)),
    *rows("index", "{x}[:, [0, 1]]", when=channels(2), shape=put(1, 2)),
    *rows("chunk", "{x}.chunk(2, 1)[0]", "torch.chunk({x}, 2, dim=1)[-1]", when=channels(2), shape=put(1, half)),
    *rows("split", "{x}.split(2, dim=1)[0]", "torch.split({x}, 2, dim=1)[0]", when=channels(2), shape=put(1, 2)),
    *rows("expand", "{x}[:1].expand({n}, -1, -1, -1).contiguous()"),
    *rows("repeat", "{x}.repeat(1, 2, 1, 1)", when=lambda s: image(s) and s[1] <= 8, shape=put(1, double)),
    *rows("flip", "{x}.flip(3)", "torch.flip({x}, [2])"),
    *rows(
        "index_select",
        "{x}.index_select(1, torch.tensor([0, 1]))",
        "torch.index_select({x}, 1, torch.tensor([1, 0]))",
        when=channels(2),
        shape=put(1, 2),
    ),
    *rows("unbind", "{x}.unbind(1)[0]", "torch.unbind({x}, dim=1)[1]", when=channels(2), shape=drop(1)),
]

FIXED = [
    *rows(
        "sigmoid",
        "torch.sigmoid({x})",
        "{x}.sigmoid()",
        "F.sigmoid({x})",
        "nn.Sigmoid()",
        scale="sigmoid",
        when=any_rank,
        sign="nonneg",
    ),
    *rows("hardsigmoid", "F.hardsigmoid({x})", "nn.Hardsigmoid()", scale="sigmoid", when=any_rank, sign="nonneg"),
    *rows("tanh", "torch.tanh({x})", "{x}.tanh()", "F.tanh({x})", "nn.Tanh()", scale="tanh", when=any_rank),
]

OWN = [
    *rows("conv2d", "nn.Conv2d({c}, {c}, 1)", "nn.Conv2d({c}, {c}, 3, padding=1)", scale="own", sign="free"),
    *rows("conv2d", "nn.Conv2d({c}, {c}, kernel_size=3, padding=1, bias=False)", scale="own", sign="free"),
    *rows("conv2d", "nn.Conv2d({c}, {c}, 3, padding=1, groups={c})", scale="own", sign="free"),
    *rows(
        "conv2d",
        'nn.Conv2d({c}, {c}, 3, padding=1, padding_mode="reflect")',
        scale="own",
        sign="free",
        when=square,
    ),
    *rows("conv1d", "nn.Conv1d({c}, {c}, 3, padding=1)", scale="own", sign="free", when=lambda s: len(s) == 3),
    *rows(
        "conv_transpose2d",
        "nn.ConvTranspose2d({c}, {c}, 3, padding=1)",
        scale="own",
        sign="free",
        engine="qnnpack",
    ),
    *rows(
        "linear",
        "nn.Linear({w}, {w})",
        scale="own",
        sign="free",
        when=lambda s: len(s) in (2, 3, 4) and s[-1] <= 64,
    ),
    *rows("batch_norm", "nn.BatchNorm2d({c})", scale="own"),
    *rows("leaky_relu", "nn.LeakyReLU(0.1)", scale="own", sign="signed"),
    *rows("hardswish", "nn.Hardswish()", scale="own", sign="signed"),
    *rows("elu", "nn.ELU()", scale="own", sign="signed"),
    *rows("layer_norm", "nn.LayerNorm({w})", scale="own", sign="free", when=lambda s: image(s) and s[-1] > 2),
    *rows("group_norm", "nn.GroupNorm(2, {c})", scale="own", sign="free", when=channels(2)),
    *rows("instance_norm", "nn.InstanceNorm2d({c}, affine=True)", scale="own", sign="free", when=big),
]

ROWS: dict[str, Row] = {row.key: row for row in [*POINTWISE, *POOLS, *REDUCTIONS, *SPATIAL, *LAYOUT, *FIXED, *OWN]}
OTHER_RANKS = ("conv1d", "conv3d", "attention")
STEMS = {
    "relu": "act",
    "relu6": "act",
    "elu": "act",
    "leaky_relu": "act",
    "hardswish": "act",
    "conv2d": "conv",
    "batch_norm": "bn",
    "max_pool": "pool",
    "avg_pool": "pool",
    "adaptive_avg_pool": "gap",
    "interpolate": "up",
    "linear": "fc",
    "group_norm": "norm",
    "layer_norm": "norm",
    "instance_norm": "norm",
}


def fill(row: Row, x: Tensor, width: Callable[[int], str] = str) -> str:
    """The template of `row` written for `x`."""
    extents = {name: "" for name in "nchw"}
    for name, extent in zip("nchw", x.shape, strict=False):
        extents[name] = str(extent)
    if row.module and len(x.shape) > 1:
        extents["c"] = width(x.shape[1])
        extents["w"] = str(x.shape[-1])
    return row.template.format(x=x.text, **extents)


def effect(row: Row, x: Tensor, text: str, owner: Origin) -> Tensor:
    """The tensor the row makes of `x`; `owner` owns its scale where the row observes."""
    origin = {"keep": x.origin, "own": owner}.get(row.scale, ("fixed", row.scale))
    sign = {"nonneg": True, "keep": x.nonneg}.get(row.sign, False)
    kept = row.scale == "keep"
    shadows = x.shadows if kept else frozenset()
    if row.scale == "own" and "{" not in row.template:  # no parameters: two of them may make one range
        shadows = frozenset({("of", "activation")})
    made = replace(x, text=text, shape=row.shape(x.shape), origin=origin, nonneg=sign, shadows=shadows)
    return made if kept else replace(made, content=frozenset())


def choose_row(scope: Scope, x: Tensor, test: Callable[[Row], bool]) -> Row:
    """The emptiest row that fits `x`."""
    own_modules = scope.cls is not None and not scope.cls.closed
    fitting = [
        row.key
        for row in ROWS.values()
        if row.fits(x, scope.file.engine)
        and test(row)
        and (row.shape is same or not scope.tidy)
        and (own_modules or not row.module)
        and (scope.cls is not None or "self." not in row.template)
    ]
    if not fitting:
        raise NotHere
    return ROWS[scope.file.choose(fitting)]


def apply(scope: Scope, row: Row, x: Tensor) -> Tensor:
    """`row` applied to `x`, as an expression; a module row gets a submodule of its own."""
    scope.use(x)
    scope.cover(row.key)
    if not row.module:
        return effect(row, x, fill(row, x), ())
    name = scope.submodule(fill(row, x, scope.owner.width_text), STEMS.get(row.operator, row.operator))
    return effect(row, x, row.call.format(m=f"self.{name}", x=x.text), own(name))


def anything(_: Row) -> bool:
    return True


def operate(scope: Scope, x: Tensor, test: Callable[[Row], bool] = anything) -> Tensor:
    """Some operator applied to `x`, as an expression."""
    return apply(scope, choose_row(scope, x, test), x)


def same_shape(row: Row) -> bool:
    return row.shape is same


def reshaping(row: Row) -> bool:
    return row.shape is not same or row.operator in OTHER_RANKS


def movable(row: Row) -> bool:
    """A module row that maps a feature map to one of the same shape: fit for containers."""
    return row.module and row.shape is same and row.operator not in OTHER_RANKS


def observed(row: Row) -> bool:
    return row.scale == "own" and row.shape is same and row.operator not in (*OTHER_RANKS, "linear")


def weighted(row: Row) -> bool:
    """An observed layer with parameters: two of them never make the same value."""
    return observed(row) and "{" in row.template


@dataclass(frozen=True)
class Layer:
    """A module row with its constructor, not yet registered anywhere."""

    row: Row
    constructor: str

    def call(self, x: Tensor, text: str, *path: str) -> Tensor:
        """The layer called on `x` where it stands at `path`."""
        return effect(self.row, x, text, own(*path))


def layer(scope: Scope, x: Tensor, test: Callable[[Row], bool] = movable) -> Layer:
    """A layer that fits `x`, for a container."""
    row = choose_row(scope, x, lambda each: each.module and test(each))
    scope.cover(row.key)
    return Layer(row, fill(row, x, scope.owner.width_text))


def series(scope: Scope, x: Tensor, count: int, test: Callable[[Row], bool] = movable) -> list[Layer]:
    """Layers that fit one after the other, starting from `x`."""
    found = []
    for _ in range(count):
        found.append(layer(scope, x, test))
        x = found[-1].call(x, x.text, "")
    return found


def parallel(scope: Scope, x: Tensor, count: int, test: Callable[[Row], bool] = movable) -> list[Layer]:
    """Layers that each fit `x`; none observes without parameters, as two such make one value."""
    return [layer(scope, x, lambda row: test(row) and (weighted(row) or row.scale != "own")) for _ in range(count)]


def constructors(stack: list[Layer]) -> str:
    return ", ".join(each.constructor for each in stack)


def chain(x: Tensor, stack: list[Layer], *path: str) -> Tensor:
    """`x` through the layers of the container at `path`, in order; the text is left to the caller."""
    for index, each in enumerate(stack):
        x = each.call(x, x.text, *path, str(index))
    return x
