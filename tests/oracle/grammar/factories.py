"""Modules that functions make: arguments and flags, `partial`, tables, helpers of a class, classes as arguments."""

from __future__ import annotations

from tests.oracle.grammar import operators as ops
from tests.oracle.grammar.blocks import Block, block_statement, feature_block, start_class
from tests.oracle.grammar.core import ClassText, NotHere, Scope, Tensor, Verbatim, own
from tests.oracle.grammar.joins import any_cat, named_feature, settle
from tests.oracle.grammar.operators import Layer


def activation(scope: Scope, x: Tensor) -> Layer:
    """A layer without arguments that fits `x`."""
    return ops.layer(scope, x, lambda row: ops.movable(row) and row.template.endswith("()"))


def kind(layer: Layer) -> str:
    """The class of a layer without arguments."""
    return layer.constructor.removesuffix("()")


def conv(x: Tensor, *path: str) -> Tensor:
    """What a convolution at `path` makes of `x`; the text is left to the caller."""
    return Tensor("", x.shape, own(*path))


def meet(scope: Scope, x: Tensor, made: Tensor, name: str) -> None:
    """Join `x` with what the submodule `name` makes of it."""
    scope.use(x)
    bound = scope.bind(made.named(f"self.{name}({x.text})"))
    settle(scope, any_cat(scope, [x, bound]))


def plain_block(scope: Scope, x: Tensor, budget: int = 1) -> Block:
    """A class of the file that takes nothing but, perhaps, the number of channels."""
    block = feature_block(scope, x.shape, budget)
    if block.text.arguments:
        raise NotHere
    return block


def width(block: Block, text: object) -> str:
    """The arguments of the constructor, where `text` is the number of channels."""
    return "" if block.text.width is None else str(text)


def define(scope: Scope, stem: str, *lines: str) -> str:
    """Write a function into the file; `{name}` in its lines is what it is called."""
    name = scope.file.fresh(stem)
    scope.file.factories.append([line.replace("{name}", name) for line in lines])
    return name


# -- functions ----------------------------------------------------------------------------------------------


@block_statement("function that makes layers by its arguments")
def by_arguments(scope: Scope) -> None:
    x = named_feature(scope)
    c, act = x.channels, activation(scope, x)
    make = define(
        scope,
        "conv_unit",
        "def {name}(cin, cout, kernel=3, act=None, repeat=1):",
        "    layers = []",
        "    for _ in range(repeat):",
        "        layers.append(nn.Conv2d(cin, cout, kernel, padding=kernel // 2))",
        "        cin = cout",
        "    if act is not None:",
        "        layers.append(act())",
        "    return nn.Sequential(*layers)",
    )
    first = scope.submodule(f"{make}({c}, {c}, act={kind(act)})", "unit")
    second = scope.submodule(f"{make}({c}, {c}, 1, repeat=2)", "unit")
    scope.use(x)
    a = scope.bind(act.call(conv(x, first, "0"), f"self.{first}({x.text})", first, "1"))
    b = scope.bind(conv(x, second, "1").named(f"self.{second}({x.text})"))
    settle(scope, any_cat(scope, [a, b]))


@block_statement("function that makes a class of the file")
def makes_instance(scope: Scope) -> None:
    x = named_feature(scope)
    block = plain_block(scope, x)
    lines = scope.rng.choice(
        (
            ["def {name}(*args, **kwargs):", f"    return {block.text.name}(*args, **kwargs)"],
            ["def {name}(*args):", f"    made = {block.text.name}(*args)", "    made.eval()", "    return made"],
        )
    )
    make = define(scope, "build_block", *lines)
    name = scope.submodule(f"{make}({width(block, x.channels)})", "built")
    meet(scope, x, block.call([x], name)[0], name)


@block_statement("function with a flag that returns one of two modules")
def one_of_two(scope: Scope) -> None:
    x = named_feature(scope)
    c, act = x.channels, activation(scope, x)
    make = define(
        scope,
        "make_unit",
        "def {name}(channels, light=False):",
        "    if light:",
        f"        return {act.constructor}",
        "    return nn.Conv2d(channels, channels, 1)",
    )
    light = scope.submodule(f"{make}({c}, light=True)", "light")
    heavy = scope.submodule(f"{make}({c})", "heavy")
    scope.use(x)
    a = scope.bind(act.call(x, f"self.{light}({x.text})", light))
    b = scope.bind(conv(x, heavy).named(f"self.{heavy}({x.text})"))
    settle(scope, any_cat(scope, [a, b]))


@block_statement("function that makes an activation by its name")
def by_name(scope: Scope) -> None:
    x = named_feature(scope)
    act = activation(scope, x)
    make = define(
        scope,
        "make_act",
        "def {name}(kind):",
        '    if kind == "gate":',
        "        return nn.Sigmoid()",
        '    elif kind in ("chosen", "other"):',
        f"        return {act.constructor}",
        "    raise ValueError(kind)",
    )
    name = scope.submodule(f'{make}("chosen")', "act")
    meet(scope, x, act.call(x, "", name), name)


@block_statement("function that reads a list of widths and letters")
def by_list(scope: Scope) -> None:
    x = named_feature(scope)
    c = x.channels
    if x.shape[2] != x.shape[3] or x.shape[2] < 4:
        raise NotHere
    make = define(
        scope,
        "make_features",
        "def {name}(cfg, channels):",
        "    layers = []",
        "    for v in cfg:",
        '        if v == "M":',
        "            layers += [nn.MaxPool2d(kernel_size=3, stride=1, padding=1)]",
        "        else:",
        "            layers += [nn.Conv2d(channels, v, kernel_size=3, padding=1), nn.ReLU(inplace=True)]",
        "            channels = v",
        "    return nn.Sequential(*layers)",
    )
    name = scope.submodule(f'{make}([{c}, "M", {c}], {c})', "features")
    made = Tensor("", x.shape, own(name, "3"), nonneg=True)
    meet(scope, x, made, name)


@block_statement("function that wraps a module")
def wraps(scope: Scope) -> None:
    x = named_feature(scope)
    block, act = plain_block(scope, x), activation(scope, x)
    make = define(scope, "with_act", "def {name}(body, act):", "    return nn.Sequential(body, act)")
    name = scope.submodule(f"{make}({block.text.construct()}, {act.constructor})", "wrapped")
    inner = block.call([x], name, "0")[0]
    meet(scope, x, act.call(inner, "", name, "1"), name)


@block_statement("class of layer as a default argument of a function")
def default_class(scope: Scope) -> None:
    x = named_feature(scope)
    c, act = x.channels, activation(scope, x)
    make = define(
        scope,
        "conv_act",
        f"def {{name}}(channels, act={kind(act)}, **kwargs):",
        "    return nn.Sequential(nn.Conv2d(channels, channels, **kwargs), act())",
    )
    name = scope.submodule(f"{make}({c}, kernel_size=3, padding=1)", "conv_act")
    meet(scope, x, act.call(conv(x, name, "0"), "", name, "1"), name)


@block_statement("function inside the constructor")
def nested_function(scope: Scope) -> None:
    x = named_feature(scope)
    act = activation(scope, x)
    make = scope.owner.fresh("unit")
    scope.owner.add(f"def {make}(n):")
    scope.owner.add(f"    return nn.Sequential(nn.Conv2d(n, n, 1), {act.constructor})")
    name = scope.submodule(f"{make}({x.channels})", "nested")
    meet(scope, x, act.call(conv(x, name, "0"), "", name, "1"), name)


# -- partial, tables, getattr -------------------------------------------------------------------------------


@block_statement("partial of a layer class")
def partial_layer(scope: Scope) -> None:
    scope.file.imports.standard("from functools import partial")
    x = named_feature(scope)
    c = x.channels
    if scope.rng.random() < 0.5:
        make = scope.owner.fresh("make_conv")
        scope.owner.add(f"{make} = partial(nn.Conv2d, kernel_size=3, padding=1)")
    else:
        make = scope.file.fresh("CONV3")
        scope.file.constants.append(f"{make} = partial(nn.Conv2d, kernel_size=3, padding=1)")
    first, second = (scope.submodule(f"{make}({c}, {c}{more})", "conv") for more in ("", ", bias=False"))
    scope.use(x)
    made = [scope.bind(conv(x, each).named(f"self.{each}({x.text})")) for each in (first, second)]
    settle(scope, any_cat(scope, made))


@block_statement("partial of a class of the file")
def partial_class(scope: Scope) -> None:
    scope.file.imports.standard("from functools import partial")
    x = named_feature(scope)
    block = plain_block(scope, x)
    make, name = scope.owner.fresh("make_block"), scope.owner.fresh("parts")
    keyword = "" if block.text.width is None else scope.rng.choice((f", {x.channels}", f", channels={x.channels}"))
    scope.owner.add(f"{make} = partial({block.text.name}{keyword})")
    scope.owner.add(f"self.{name} = nn.ModuleList([{make}() for _ in range(2)])")
    scope.use(x)
    made = [block.call([x], name, str(index))[0] for index in range(2)]
    settle(scope, any_cat(scope, made, f"[part({x.text}) for part in self.{name}]"))


def table_of(scope: Scope, stem: str, rows: dict[str, str], *, after_classes: bool = True) -> str:
    """A dictionary at module level."""
    name = scope.file.fresh(stem)
    text = ", ".join(f'"{key}": {value}' for key, value in rows.items())
    if after_classes:
        scope.file.classes.append(Verbatim([f"{name} = {{{text}}}"]))
    else:
        scope.file.constants.append(f"{name} = {{{text}}}")
    return name


@block_statement("dictionary of classes of the file")
def class_table(scope: Scope) -> None:
    x = named_feature(scope)
    block, other = plain_block(scope, x), plain_block(scope, x)
    if width(block, 1) != width(other, 1):
        raise NotHere
    table = table_of(scope, "BLOCKS", {"plain": other.text.name, "wide": block.text.name})
    access = scope.rng.choice(('{}["wide"]', '{}.get("wide")', '{}.get("wide", nn.Identity)'))
    if scope.rng.random() < 0.5:
        lines = ["def {name}(kind, *args):", f"    block = {table}[kind]", "    return block(*args)"]
        made = ", ".join(filter(None, ['"wide"', width(block, x.channels)]))
        constructor = f"{define(scope, 'make_part', *lines)}({made})"
    else:
        constructor = f"{access.format(table)}({width(block, x.channels)})"
    name = scope.submodule(constructor, "part")
    meet(scope, x, block.call([x], name)[0], name)


@block_statement("dictionary of lambdas that make layers")
def lambda_table(scope: Scope) -> None:
    x = named_feature(scope)
    act = activation(scope, x)
    made = {"conv": "lambda n: nn.Conv2d(n, n, 1)", "act": f"lambda n: {act.constructor}"}
    table = table_of(scope, "LAYERS", {"none": "lambda n: nn.Identity()", **made}, after_classes=False)
    name = scope.owner.fresh("steps")
    scope.owner.add(f'self.{name} = nn.Sequential(*[{table}[kind]({x.channels}) for kind in ("conv", "act")])')
    meet(scope, x, act.call(conv(x, name, "0"), "", name, "1"), name)


@block_statement("layer class by getattr of torch.nn")
def by_getattr(scope: Scope) -> None:
    x = named_feature(scope)
    act = activation(scope, x)
    word = kind(act).removeprefix("nn.")
    scope.file.imports.standard("from torch import nn")
    if scope.rng.random() < 0.5:
        make = define(scope, "named_layer", "def {name}(kind, **kwargs):", "    return getattr(nn, kind)(**kwargs)")
        constructor = f'{make}("{word}")'
    else:
        constructor = f'getattr(nn, "{word}")()'
    name = scope.submodule(constructor, "act")
    meet(scope, x, act.call(x, "", name), name)


@block_statement("list of classes and their arguments")
def specifications(scope: Scope) -> None:
    x = named_feature(scope)
    c, act = x.channels, activation(scope, x)
    specs = scope.owner.fresh("specs")
    arguments = f"dict(in_channels={c}, out_channels={c}, kernel_size=1)"
    scope.owner.add(f"{specs} = [(nn.Conv2d, {arguments}), ({kind(act)}, {{}})]")
    name = scope.owner.fresh("trunk")
    scope.owner.add(f"self.{name} = nn.Sequential(*[layer(**options) for layer, options in {specs}])")
    meet(scope, x, act.call(conv(x, name, "0"), "", name, "1"), name)


# -- helpers of a class, classes as arguments ---------------------------------------------------------------


@block_statement("make_layer helper that counts its channels")
def make_layer(scope: Scope) -> None:
    x = named_feature(scope)
    c, block = x.channels, plain_block(scope, x)
    text = ClassText(scope.file.fresh("Backbone"), scope.file, params=["block", "depths"])
    inner = width(block, "self.inplanes")
    text.init += [
        "super().__init__()",
        f"self.inplanes = {c}",
        f"self.layer1 = self._make_layer(block, {c}, depths[0])",
        f"self.layer2 = self._make_layer(block, {c}, depths[1])",
    ]
    text.methods += [
        [
            "def _make_layer(self, block, planes, blocks, stride=1):",
            "    pointwise = None",
            "    if stride != 1 or self.inplanes != planes:",
            "        pointwise = nn.Conv2d(self.inplanes, planes, 1, stride)",
            "    layers = []" if scope.rng.random() < 0.5 else "    layers = [] if pointwise is None else [pointwise]",
            f"    layers.append(block({inner}))",
            "    self.inplanes = planes",
            "    for _ in range(1, blocks):",
            f"        layers.append(block({inner}))",
            "    return nn.Sequential(*layers)",
        ],
        ["def forward(self, x):", "    low = self.layer1(x)", "    return low, self.layer2(low)"],
    ]
    text.closed = True
    scope.file.classes.append(text)
    name, levels = scope.submodule(f"{text.name}({block.text.name}, [1, 2])", "backbone"), scope.fresh("levels")
    scope.use(x)
    scope.emit(f"{levels} = self.{name}({x.text})")
    low = block.call([x], name, "layer1", "0")[0]
    high = block.call([block.call([low], name, "layer2", "0")[0]], name, "layer2", "1")[0]
    made = [low.named(f"{levels}[0]"), high.named(f"{levels}[1]")]
    scope.keep(*made)
    settle(scope, any_cat(scope, made))


@block_statement("class given a class of the file")
def given_block(scope: Scope) -> None:
    x = named_feature(scope)
    block = plain_block(scope, x)
    text = start_class(scope, x.shape)
    text.params += ["block", "depth=2"]
    inner = width(block, "channels" if text.width is not None else x.channels)
    text.init.append(f"self.blocks = nn.Sequential(*[block({inner}) for _ in range(depth)])")
    text.methods.append(["def forward(self, x):", "    return self.blocks(x)"])
    text.closed = True
    scope.file.classes.append(text)
    depth = scope.rng.choice((1, 2))
    more = "" if depth == 2 else ", depth=1"
    name = scope.submodule(text.construct(f"{block.text.name}{more}"), "stage")
    made = x
    for index in range(depth):
        made = block.call([made], name, "blocks", str(index))[0]
    meet(scope, x, made, name)


@block_statement("class method that reads a configuration")
def from_config(scope: Scope) -> None:
    x = named_feature(scope)
    block = plain_block(scope, x)
    if block.text.width is None:
        raise NotHere
    returned = scope.rng.choice(("cls(**cfg)", 'cls(cfg["channels"])', 'cls(channels=cfg.get("channels", 8))'))
    block.text.methods.append(["@classmethod", "def from_config(cls, cfg):", f"    return {returned}"])
    configuration = scope.rng.choice((f"dict(channels={x.channels})", f'{{"channels": {x.channels}}}'))
    name = scope.submodule(f"{block.text.name}.from_config({configuration})", "configured")
    meet(scope, x, block.call([x], name)[0], name)


@block_statement("static method that makes layers")
def static_helper(scope: Scope) -> None:
    x = named_feature(scope)
    c, act = x.channels, activation(scope, x)
    make = scope.owner.fresh("_unit")
    scope.owner.methods.append(
        ["@staticmethod", f"def {make}(cin, cout, act):", "    return nn.Sequential(nn.Conv2d(cin, cout, 1), act())"]
    )
    name = scope.submodule(f"self.{make}({c}, {c}, {kind(act)})", "unit")
    meet(scope, x, act.call(conv(x, name, "0"), "", name, "1"), name)


@block_statement("object that makes layers when it is called")
def maker(scope: Scope) -> None:
    x = named_feature(scope)
    c, act = x.channels, activation(scope, x)
    name = scope.file.fresh("Maker")
    scope.file.factories.append(
        [
            f"class {name}:",
            "    def __init__(self, act, kernel=1):",
            "        self.act, self.kernel = act, kernel",
            "",
            "    def __call__(self, channels):",
            "        conv = nn.Conv2d(channels, channels, self.kernel, padding=self.kernel // 2)",
            "        return nn.Sequential(conv, self.act())",
        ]
    )
    make = scope.owner.fresh("maker")
    scope.owner.add(f"{make} = {name}({kind(act)}, kernel=3)")
    made = scope.submodule(f"{make}({c})", "made")
    meet(scope, x, act.call(conv(x, made, "0"), "", made, "1"), made)
