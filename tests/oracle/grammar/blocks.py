"""Classes of the file other than `Net`, and the ways they are used.

To add one, write a function and put `@block_statement("its name")` on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.oracle.grammar import joins
from tests.oracle.grammar import operators as ops
from tests.oracle.grammar.conditions import decide
from tests.oracle.grammar.containers import LISTS, SEQUENTIALS, build
from tests.oracle.grammar.core import ClassText, NotHere, Scope, Shape, Tensor, own, parameters, rebased
from tests.oracle.grammar.joins import any_cat, feature, group, named_feature, raw, settle
from tests.oracle.grammar.statements import STATEMENTS, anything, statement

DEEPEST = 2
CHOICES = [f"stmt: {name}" for name in ("if and else", "if without else", "conditional expression", "elif chain")]
NAMES = ("Block", "ConvBlock", "Bottleneck", "Fusion", "Branch", "Stage", "Neck", "Unit")
BASES: dict[str, Callable[[Scope, ClassText], None]] = {}


@dataclass(frozen=True)
class Block:
    """A class of the file: the results its `forward` returns, relative to an instance."""

    text: ClassText
    results: tuple[Tensor, ...]

    def call(self, arguments: Sequence[Tensor], *path: str) -> list[Tensor]:
        """What an instance at `path` makes of `arguments`; texts are left to the caller."""
        return [rebased(each, path, arguments) for each in self.results]


def is_block_statement(key: str) -> bool:
    return key in BLOCK_STATEMENTS


def body_keys(level: int) -> list[str]:
    """The pieces a body at this depth may use."""
    keys = [*STATEMENTS, *joins.JOINS]
    return [key for key in keys if level < DEEPEST or not is_block_statement(key)]


def write_body(scope: Scope, budget: int) -> None:
    """Write `budget` pieces."""
    for _ in range(budget):
        anything(scope, body_keys(scope.level))


def start_class(scope: Scope, shape: Shape, base: str = "nn.Module") -> ClassText:
    """An empty class whose constructor may take the number of channels."""
    name = scope.file.fresh(scope.rng.choice(NAMES))
    width = shape[1] if scope.rng.random() < 0.6 else None
    text = ClassText(name, scope.file, base, width=width)
    text.init.append(scope.rng.choice(("super().__init__()", f"super({name}, self).__init__()")))
    return text


def _open(scope: Scope, arguments: Sequence[Tensor], names: Sequence[str], text: ClassText, *, tidy: bool) -> Scope:
    if scope.level >= DEEPEST or scope.dead:
        raise NotHere
    return scope.inner(parameters(names, arguments), text, tidy=tidy)


def finish_feature(scope: Scope, shape: Shape) -> Tensor:
    """Join what is left of a body into one tensor of `shape`, as an expression."""
    left = [each for each in scope.leaves.values() if each.quantized and len(each.shape) == 4]
    left = [each for each in left if each.shape[2:] == shape[2:] and each.shape[0] == shape[0]]
    if not left:
        return ops.operate(scope, scope.pick(lambda each: each.shape == shape), ops.same_shape)
    if len(left) == 1 and left[0].shape == shape:
        scope.use(left[0])
        return left[0]
    joined = left[0] if len(left) == 1 else scope.bind(any_cat(scope, left))
    name = scope.submodule(f"nn.Conv2d({joined.channels}, {scope.owner.width_text(shape[1])}, 1)", "project")
    scope.use(*left, joined)
    return Tensor(f"self.{name}({joined.text})", shape, own(name))


def add_forward(text: ClassText, names: Sequence[str], lines: Sequence[str], name: str = "forward") -> None:
    text.methods.append([f"def {name}({', '.join(['self', *names])}):", *(f"    {line}" for line in lines)])


def feature_block(scope: Scope, shape: Shape, budget: int = 2) -> Block:
    """A class that maps a feature map to one of the same shape."""
    text = start_class(scope, shape)
    body = _open(scope, [Tensor("x", shape, ("arg", "0"))], ["x"], text, tidy=True)
    if scope.rng.random() < 0.3:
        anything(body, CHOICES)
    write_body(body, budget)
    result = finish_feature(body, shape)
    return _returning(scope, text, body, ["x"], result)


def _close(scope: Scope, text: ClassText, results: Sequence[Tensor]) -> Block:
    text.closed = True
    scope.file.classes.append(text)
    return Block(text, tuple(results))


def _returning(
    scope: Scope, text: ClassText, body: Scope, names: Sequence[str], result: Tensor, name: str = "forward"
) -> Block:
    """The finished class whose method `name` is `body` and returns `result`."""
    body.emit(f"return {result.text}")
    add_forward(text, names, body.lines, name)
    return _close(scope, text, [result])


BLOCK_STATEMENTS: set[str] = set()


def block_statement(name: str) -> Callable[[Callable[[Scope], None]], Callable[[Scope], None]]:
    BLOCK_STATEMENTS.add(f"stmt: {name}")
    return statement(name)


def _call(scope: Scope, block: Block, name: str, *arguments: Tensor) -> Tensor:
    """One call of the single-result `block` at attribute `name`, bound to a variable."""
    scope.use(*arguments)
    text = f"self.{name}({', '.join(each.text for each in arguments)})"
    return scope.bind(block.call(arguments, name)[0].named(text))


def _distinct(scope: Scope) -> tuple[Tensor, Tensor]:
    """Two tensors of one shape with different owners."""
    a, b = group(scope)
    if a.origin == b.origin:
        b = scope.bind(ops.operate(scope, b, ops.observed))
    return a, b


# -- one tensor to one tensor -------------------------------------------------------------------------------


@block_statement("class used once")
def used_once(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape, scope.rng.randint(1, 3))
    _call(scope, block, scope.submodule(block.text.construct(), "block"), x)


@block_statement("class used twice by one instance")
def used_twice_shared(scope: Scope) -> None:
    a, b = _distinct(scope)
    block = feature_block(scope, a.shape)
    name = scope.submodule(block.text.construct(), "shared_block")
    settle(scope, any_cat(scope, [_call(scope, block, name, each) for each in (a, b)]))


@block_statement("class used twice by two instances")
def used_twice_separate(scope: Scope) -> None:
    a, b = _distinct(scope)
    block = feature_block(scope, a.shape)
    names = [scope.submodule(block.text.construct(), stem) for stem in ("block_a", "block_b")]
    settle(
        scope,
        any_cat(scope, [_call(scope, block, name, each) for name, each in zip(names, (a, b), strict=True)]),
    )


@block_statement("two instances on one tensor")
def two_instances(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape, 1)
    names = [scope.submodule(block.text.construct(), stem) for stem in ("block_a", "block_b")]
    settle(scope, any_cat(scope, [_call(scope, block, name, x) for name in names]))


@block_statement("deepcopy of a class instance")
def copied(scope: Scope) -> None:
    scope.file.imports.standard("import copy")
    a, b = _distinct(scope)
    block = feature_block(scope, a.shape)
    first = scope.submodule(block.text.construct(), "block_a")
    second = scope.submodule(f"copy.deepcopy(self.{first})", "block_b")
    settle(scope, any_cat(scope, [_call(scope, block, first, a), _call(scope, block, second, b)]))


def _chain(scope: Scope, block: Block, x: Tensor, name: str, count: int) -> Tensor:
    for index in range(count):
        x = block.call([x], name, str(index))[0].named(x.text)
    return x


@block_statement("instances in a ModuleList")
def in_list(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape)
    name = scope.owner.fresh("blocks")
    build(scope, LISTS, name, [block.text.construct()] * 2)
    with scope.block(f"for block in self.{name}:"):
        scope.emit(f"{x.text} = block({x.text})")
    scope.replace(x, _chain(scope, block, x, name, 2))


@block_statement("instances in a Sequential")
def in_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape)
    name = scope.owner.fresh("stage")
    build(scope, SEQUENTIALS, name, [block.text.construct()] * 2)
    scope.use(x)
    scope.bind(_chain(scope, block, x, name, 2).named(f"self.{name}({x.text})"))


@block_statement("instances side by side")
def side_by_side(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape, 1)
    name = scope.owner.fresh("branches")
    build(scope, LISTS, name, [block.text.construct()] * 2)
    scope.use(x)
    made = [block.call([x], name, str(index))[0] for index in range(2)]
    settle(scope, any_cat(scope, made, f"[branch({x.text}) for branch in self.{name}]"))


@block_statement("instance inside a Sequential with layers")
def mixed_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape)
    before = ops.layer(scope, x)
    name = scope.owner.fresh("trunk")
    build(scope, SEQUENTIALS, name, [before.constructor, block.text.construct()])
    scope.use(x)
    inner = before.call(x, x.text, name, "0")
    scope.bind(block.call([inner], name, "1")[0].named(f"self.{name}({x.text})"))


# -- other signatures ---------------------------------------------------------------------------------------


@block_statement("class with two inputs")
def two_inputs(scope: Scope) -> None:
    a, b = group(scope)
    text = start_class(scope, a.shape)
    body = _open(scope, [a, b], ["low", "high"], text, tidy=True)
    joined = settle(body, any_cat(body, body.pool))
    write_body(body, 1)
    body.use(joined)
    result = finish_feature(body, a.shape)
    block = _returning(scope, text, body, ["low", "high"], result)
    _call(scope, block, scope.submodule(text.construct(), "fusion"), a, b)


@block_statement("class with two inputs used twice")
def two_inputs_twice(scope: Scope) -> None:
    a, b = _distinct(scope)
    text = start_class(scope, a.shape)
    body = _open(scope, [a, b], ["x", "skip"], text, tidy=True)
    joined = raw(body, body.pool, only=joins.plain_cat)
    block = _returning(scope, text, body, ["x", "skip"], joined)
    name = scope.submodule(text.construct(), "join")
    first = _call(scope, block, name, a, a)
    second = _call(scope, block, name, a, b)
    settle(scope, any_cat(scope, [first, second]))


def _several(scope: Scope, form: str, access: Sequence[str]) -> None:
    """A class that returns two tensors as `form`, reached as `access`."""
    x = named_feature(scope)
    text = start_class(scope, x.shape)
    body = _open(scope, [x], ["x"], text, tidy=True)
    write_body(body, 1)
    first = body.bind(finish_feature(body, x.shape), "fine")
    second = body.bind(ops.operate(body, first, ops.same_shape), "coarse")
    body.emit("return " + form.format(first.text, second.text))
    add_forward(text, ["x"], body.lines)
    block = _close(scope, text, [first, second])
    name, out = scope.submodule(text.construct(), "pyramid"), scope.fresh("levels")
    scope.use(x)
    scope.emit(f"{out} = self.{name}({x.text})")
    made = [each.named(where.format(out)) for each, where in zip(block.call([x], name), access, strict=True)]
    scope.keep(*made)
    settle(scope, any_cat(scope, made))


@block_statement("class returning a tuple")
def returns_tuple(scope: Scope) -> None:
    _several(scope, "{}, {}", ("{}[0]", "{}[1]"))


@block_statement("class returning a list")
def returns_list(scope: Scope) -> None:
    _several(scope, "[{}, {}]", ("{}[0]", "{}[-1]"))


@block_statement("class returning a dictionary")
def returns_dict(scope: Scope) -> None:
    _several(scope, '{{"p3": {}, "p4": {}}}', ('{}["p3"]', '{}["p4"]'))


@block_statement("class taking a list")
def takes_list(scope: Scope) -> None:
    a, b = group(scope)
    text = start_class(scope, a.shape)
    body = _open(scope, [a, b], ["first", "last"], text, tidy=True)
    body.emit("first, last = feats")
    joined = any_cat(body, body.pool, "feats") if scope.rng.random() < 0.5 else any_cat(body, body.pool)
    block = _returning(scope, text, body, ["feats"], joined)
    name = scope.submodule(text.construct(), "neck")
    scope.use(a, b)
    settle(scope, block.call([a, b], name)[0].named(f"self.{name}([{a.text}, {b.text}])"))


@block_statement("class taking keyword and default arguments")
def takes_keywords(scope: Scope) -> None:
    a, b = group(scope)
    text = start_class(scope, a.shape)
    body = _open(scope, [a, b], ["x", "skip"], text, tidy=True)
    with body.block("if skip is None:"):
        body.emit("return x")
    joined = any_cat(body, body.pool)
    block = _returning(scope, text, body, ["x", "skip=None"], joined)
    name = scope.submodule(text.construct(), "merge")
    scope.use(a, b)
    settle(scope, block.call([a, b], name)[0].named(f"self.{name}({a.text}, skip={b.text})"))


# -- constructors and inheritance ---------------------------------------------------------------------------


@block_statement("class with a flag used both ways")
def flag_both_ways(scope: Scope) -> None:
    x = named_feature(scope)
    text = start_class(scope, x.shape)
    body = _open(scope, [x], ["x"], text, tidy=True)
    text.params.append("with_conv=True")
    text.add("self.with_conv = with_conv")
    layer = ops.layer(body, body.pool[0], ops.observed)
    name = body.submodule(layer.constructor, "conv")
    with body.block("if self.with_conv:"):
        body.emit(f"x = self.{name}(x)")
    inner = body.pool[0]
    with_conv = layer.call(inner, "x", name)
    body.emit("return x")
    add_forward(text, ["x"], body.lines)
    yes, no = Block(text, (with_conv,)), Block(text, (inner,))
    _close(scope, text, [])
    on = scope.submodule(text.construct(), "with_conv")
    off = scope.submodule(text.construct("with_conv=False"), "without_conv")
    if text.width is None and scope.rng.random() < 0.5:
        scope.owner.init[-1] = scope.owner.init[-1].replace("with_conv=False", "False")
    settle(scope, any_cat(scope, [_call(scope, yes, on, x), _call(scope, no, off, x)]))


@block_statement("class given a module")
def given_module(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x)
    text = ClassText(scope.file.fresh("Residual"), scope.file, params=["body"])
    text.init += ["super().__init__()", "self.body = body"]
    body = _open(scope, [x], ["x"], text, tidy=True)
    inner = layer.call(body.pool[0], "self.body(x)", "body")
    joined = any_cat(body, [body.pool[0], inner])
    block = _returning(scope, text, body, ["x"], joined)
    name = scope.submodule(f"{text.name}({layer.constructor})", "residual")
    scope.use(x)
    settle(scope, block.call([x], name)[0].named(f"self.{name}({x.text})"))


@block_statement("class given a layer class")
def given_class(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x, lambda row: row.shape is ops.same and row.template.endswith("()"))
    text = start_class(scope, x.shape)
    text.params.append("act_layer=nn.ReLU")
    body = _open(scope, [x], ["x"], text, tidy=True)
    name = body.submodule("act_layer()", "act")
    inner = layer.call(body.pool[0], f"self.{name}(x)", name)
    joined = any_cat(body, [inner, body.pool[0]])
    block = _returning(scope, text, body, ["x"], joined)
    given = scope.submodule(text.construct(f"act_layer={layer.constructor.removesuffix('()')}"), "activated")
    scope.use(x)
    settle(scope, block.call([x], given)[0].named(f"self.{given}({x.text})"))


@block_statement("class made by a class method")
def class_method(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape, 1)
    if block.text.width is None or block.text.arguments:
        raise NotHere
    block.text.methods.append(["@classmethod", "def build(cls, width):", "    return cls(width)"])
    _call(scope, block, scope.submodule(f"{block.text.name}.build({x.channels})", "built"), x)


@block_statement("class called with a keyword")
def called_by_keyword(scope: Scope) -> None:
    x = named_feature(scope)
    block = feature_block(scope, x.shape, 1)
    name = scope.submodule(block.text.construct(), "keyed")
    scope.use(x)
    made = scope.bind(block.call([x], name)[0].named(f"self.{name}(x={x.text})"))
    settle(scope, any_cat(scope, [made, x]))


@block_statement("class derived from Sequential with a loop over itself")
def iterated_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    stack = ops.series(scope, x, 2)
    text = ClassText(scope.file.fresh("Stack"), scope.file, "nn.Sequential")
    text.methods.append(
        [
            "def forward(self, x):",
            "    outs = [x]",
            "    for module in self:",
            "        outs.append(module(outs[-1]))",
            "",
        ]
    )
    _close(scope, text, [])
    name = scope.submodule(f"{text.name}({ops.constructors(stack)})", "stacked")
    scope.use(x)
    made = [x, stack[0].call(x, "", name, "0")]
    made.append(stack[1].call(made[1], "", name, "1"))
    joined = raw(scope.inner(made, None), made, "outs", joins.plain_cat)
    text.methods[0][-1] = f"    return {joined.text}"
    settle(scope, joined.named(f"self.{name}({x.text})"))


@block_statement("class forwarding its arguments to the base")
def forwarded_arguments(scope: Scope) -> None:
    x = named_feature(scope)
    base, _, result = _base(scope, x)
    base.closed = True
    text = _derived(scope, base)
    text.width = None
    text.init.append("super().__init__(*args, **kwargs)")
    text.params = ["*args", "**kwargs"]
    text.arguments = [*([] if base.width is None else [str(base.width)]), *base.arguments]
    body = _open(scope, [x], ["x"], text, tidy=True)
    inner = body.bind(result.named("super().forward(x)"), "base_out")
    joined = any_cat(body, [inner, body.pool[0]])
    block = _returning(scope, text, body, ["x"], joined)
    settle(scope, _plain_call(scope, block, x, "forwarded"))


@block_statement("class derived from Sequential")
def derived_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    stack = ops.series(scope, x, 2)
    text = ClassText(scope.file.fresh("ConvAct"), scope.file, "nn.Sequential", width=x.channels)
    lines = [f"    {each.constructor.replace('Conv2d(' + str(x.channels), 'Conv2d(channels')}," for each in stack]
    text.init += ["super().__init__(", *lines, ")"]
    _close(scope, text, [])
    name = scope.submodule(text.construct(), "conv_act")
    scope.use(x)
    made = scope.bind(ops.chain(x, stack, name).named(f"self.{name}({x.text})"))
    settle(scope, any_cat(scope, [x, made]))


def _base(scope: Scope, x: Tensor, *, runs: bool = True) -> tuple[ClassText, Scope, Tensor]:
    """A base class and its `forward`, written and registered; where that is overridden it never runs."""
    text = start_class(scope, x.shape)
    body = _open(scope, [x], ["x"], text, tidy=True)
    body.dead += not runs
    write_body(body, 1)
    result = finish_feature(body, x.shape)
    body.emit(f"return {result.text}")
    add_forward(text, ["x"], body.lines)
    scope.file.classes.append(text)
    return text, body, result


def _derived(scope: Scope, base: ClassText) -> ClassText:
    """A class derived from `base` that has no constructor of its own."""
    text = ClassText(scope.file.fresh(f"Wide{base.name}"), scope.file, base.name, width=base.width)
    text.arguments = list(base.arguments)
    text._names = base._names.copy()
    return text


@block_statement("class with an inherited constructor")
def inherited_init(scope: Scope) -> None:
    x = named_feature(scope)
    base, body, _ = _base(scope, x, runs=False)
    body.dead = 0
    layer = ops.layer(body, body.pool[0], ops.observed)
    name = body.submodule(layer.constructor, "inherited")
    base.closed = True
    text = _derived(scope, base)
    inner = parameters(["x"], [x])[0]
    made = layer.call(inner, f"self.{name}(x)", name)
    joined = raw(scope.inner([inner], None), [inner, made], only=joins.along(1))
    add_forward(text, ["x"], [f"return {joined.text}"])
    block = _close(scope, text, [joined])
    settle(scope, _plain_call(scope, block, x, "derived"))


def _plain_call(scope: Scope, block: Block, x: Tensor, stem: str) -> Tensor:
    """The call of a new instance, as an expression."""
    name = scope.submodule(block.text.construct(), stem)
    scope.use(x)
    return block.call([x], name)[0].named(f"self.{name}({x.text})")


@block_statement("class calling super().forward")
def super_forward(scope: Scope) -> None:
    x = named_feature(scope)
    base, _, result = _base(scope, x)
    base.closed = True
    text = _derived(scope, base)
    body = _open(scope, [x], ["x"], text, tidy=True)
    inner = body.bind(result.named("super().forward(x)"), "base_out")
    joined = raw(body, [inner, body.pool[0]])
    block = _returning(scope, text, body, ["x"], joined)
    settle(scope, _plain_call(scope, block, x, "extended"))


@block_statement("class extending an inherited constructor")
def extended_init(scope: Scope) -> None:
    x = named_feature(scope)
    base, _, result = _base(scope, x)
    base.closed = True
    text = _derived(scope, base)
    text.init.append(f"super().__init__({'' if base.width is None else 'channels'})")
    text.arguments = []
    if base.arguments:
        raise NotHere
    body = _open(scope, [x], ["x"], text, tidy=True)
    inner = body.bind(result.named("super().forward(x)"), "base_out")
    after = body.bind(ops.operate(body, inner, ops.observed))
    joined = raw(body, [inner, after])
    block = _returning(scope, text, body, ["x"], joined)
    settle(scope, _plain_call(scope, block, x, "extended"))


@block_statement("template method of a base class")
def template_method(scope: Scope) -> None:
    x = named_feature(scope)
    base = ClassText(scope.file.fresh("Skeleton"), scope.file)
    base.methods.append(["def forward(self, x):", "    return self.transform(self.prepare(x))"])
    base.methods.append(["def prepare(self, x):", "    return x"])
    base.methods.append(["def transform(self, x):", "    raise NotImplementedError"])
    scope.file.classes.append(base)
    text = start_class(scope, x.shape, base.name)
    body = _open(scope, [x], ["x"], text, tidy=True)
    after = body.bind(ops.operate(body, body.pool[0], ops.observed))
    joined = any_cat(body, [body.pool[0], after])
    block = _returning(scope, text, body, ["x"], joined, "transform")
    settle(scope, _plain_call(scope, block, x, "concrete"))


@block_statement("method of a mixin")
def mixin(scope: Scope) -> None:
    x = named_feature(scope)
    kind = scope.file.fresh("ConcatMixin")
    mark_free = "torch.cat([a, b], dim=1)"
    scope.file.functions.append([f"class {kind}:", "    def join(self, a, b):", f"        return {mark_free}"])
    text = start_class(scope, x.shape, f"{kind}, nn.Module")
    body = _open(scope, [x], ["x"], text, tidy=True)
    after = body.bind(ops.operate(body, body.pool[0], ops.observed))
    body.emit(f"return self.join(x, {after.text})")
    joined = replace(body.pool[0], text="", shape=ops.put(1, x.channels * 2)(x.shape))
    add_forward(text, ["x"], body.lines)
    block = _close(scope, text, [joined])
    settle(scope, _plain_call(scope, block, x, "mixed_in"))


@block_statement("method of a submodule called directly")
def direct_method(scope: Scope) -> None:
    x = named_feature(scope)
    text = start_class(scope, x.shape)
    body = _open(scope, [x], ["x"], text, tidy=True)
    after = body.bind(ops.operate(body, body.pool[0], ops.same_shape))
    joined = raw(body, [body.pool[0], after])
    body.emit(f"return {joined.text}")
    add_forward(text, ["x"], body.lines, "encode")
    add_forward(text, ["x"], ["return self.encode(x)"])
    block = _close(scope, text, [joined])
    name = scope.submodule(text.construct(), "encoder")
    scope.use(x)
    settle(scope, block.call([x], name)[0].named(f"self.{name}.encode({x.text})"))


@block_statement("submodule of a submodule called directly")
def direct_submodule(scope: Scope) -> None:
    x = feature(scope)
    text = start_class(scope, x.shape)
    body = _open(scope, [x], ["x"], text, tidy=True)
    layer = ops.layer(body, body.pool[0], ops.observed)
    inner = body.submodule(layer.constructor, "conv")
    add_forward(text, ["x"], [f"return self.{inner}(x)"])
    _close(scope, text, [])
    name = scope.submodule(text.construct(), "holder")
    scope.use(x)
    scope.bind(layer.call(x, f"self.{name}.{inner}({x.text})", name, inner))


@block_statement("condition in the constructor")
def constructor_condition(scope: Scope) -> None:
    x = named_feature(scope)
    value = scope.rng.random() < 0.5
    text = start_class(scope, x.shape)
    body = _open(scope, [x], ["x"], text, tidy=True)
    chosen, other = ops.layer(body, body.pool[0], ops.observed), ops.layer(body, body.pool[0])
    test = decide(body, value)
    if body.lines or "training" in test or "(x," in test:  # decided by what only the method knows
        raise NotHere
    name = text.fresh("unit")
    arms = (chosen, other) if value else (other, chosen)
    text.add(f"if {test}:")
    text.add(f"    self.{name} = {arms[0].constructor}")
    text.add("else:")
    text.add(f"    self.{name} = {arms[1].constructor}")
    after = body.bind(chosen.call(body.pool[0], f"self.{name}(x)", name))
    joined = raw(body, [body.pool[0], after])
    block = _returning(scope, text, body, ["x"], joined)
    settle(scope, _plain_call(scope, block, x, "configured"))
