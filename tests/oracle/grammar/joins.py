"""Every way the grammar lets several tensors meet.

To add one, write a function and put `@join("its name")` on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.oracle.grammar import operators as ops
from tests.oracle.grammar.core import FLOAT, NotHere, Origin, Scope, Shape, Tensor, certain, own

Producer = Callable[[Scope], None]
JOINS: dict[str, Producer] = {}


def join(name: str) -> Callable[[Producer], Producer]:
    def register(producer: Producer) -> Producer:
        JOINS[f"join: {name}"] = producer
        return producer

    return register


# -- spellings of the cat family ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """One spelling of a raw join; `axis` is the dimension it joins, None a new one."""

    template: str
    axis: int | None
    new_axis: int = 1
    rank: tuple[int, ...] = (2, 3, 4)

    @property
    def key(self) -> str:
        return f"cat: {self.template}"

    def fits(self, tensors: Sequence[Tensor]) -> bool:
        shapes = [each.shape for each in tensors]
        if any(len(shape) not in self.rank or len(shape) != len(shapes[0]) for shape in shapes):
            return False
        if self.axis is None:
            return len(set(shapes)) == 1
        return len({ops.put(self.axis, 0)(shape) for shape in shapes}) == 1

    def shape(self, tensors: Sequence[Tensor]) -> Shape:
        first = tensors[0].shape
        if self.axis is None:
            return (*first[: self.new_axis], len(tensors), *first[self.new_axis :])
        return ops.put(self.axis, sum(each.shape[self.axis] for each in tensors))(first)


FAMILY: dict[str, Family] = {
    each.key: each
    for each in [
        Family("torch.cat({seq}, 1)", 1),
        Family("torch.cat({seq}, dim=1)", 1),
        Family("torch.cat(tensors={seq}, dim=1)", 1),
        Family("torch.cat({seq}, axis=1)", 1),
        Family("torch.cat({seq})", 0),
        Family("torch.concat({seq}, dim=1)", 1),
        Family("torch.concatenate({seq}, axis=1)", 1),
        Family("torch.stack({seq}, dim=1)", None),
        Family("torch.stack({seq})", None, new_axis=0),
        Family("torch.hstack({seq})", 1),
        Family("torch.vstack({seq})", 0),
        Family("torch.dstack({seq})", 2, rank=(4,)),
        Family("torch.column_stack({seq})", 1),
    ]
}
FUNCTIONAL = ("cat: FloatFunctional.cat({seq}, 1)", "cat: FloatFunctional.cat({seq}, dim=1)")
KEYS = (*FAMILY, *FUNCTIONAL)


def listed(tensors: Sequence[Tensor]) -> str:
    return f"[{', '.join(each.text for each in tensors)}]"


def mixed(tensors: Sequence[Tensor]) -> bool:
    """Whether the inputs certainly have different scales."""
    known = {each.origin for each in tensors if certain(each.origin)}
    return len(known) > 1


def confusable(tensors: Sequence[Tensor]) -> bool:
    return any(a.like(b) for a in tensors for b in tensors)


def along(axis: int | None) -> Callable[[Family], bool]:
    return lambda family: family.axis == axis


def anyhow(_: Family) -> bool:
    return True


def plain_cat(family: Family) -> bool:
    return family.axis == 1 and family.template.startswith("torch.cat(")


def raw(
    scope: Scope,
    tensors: Sequence[Tensor],
    seq: str | None = None,
    only: Callable[[Family], bool] = anyhow,
) -> Tensor:
    """A raw join of `tensors`, as an expression; `seq` is their sequence as written."""
    if confusable(tensors):
        raise NotHere
    fitting = [each for each in FAMILY.values() if each.fits(tensors) and only(each)]
    keys = [each.key for each in fitting if each.axis == 1 or not scope.tidy]
    if not keys:
        raise NotHere
    family = FAMILY[scope.file.choose(keys)]
    scope.cover(family.key)
    scope.use(*tensors)
    mark = scope.file.mark("cat-mixed", "QL101") if mixed(tensors) and not scope.dead else ""
    text = mark + family.template.format(seq=listed(tensors) if seq is None else seq)
    first = tensors[0]
    nonneg = all(each.nonneg for each in tensors)
    return Tensor(text, family.shape(tensors), first.origin, nonneg, first.shadows, ranges(tensors))


def ranges(tensors: Sequence[Tensor]) -> frozenset[Origin]:
    """The owners whose range an observer of a join may find."""
    return frozenset().union(*(each.ranges for each in tensors))


def functional(scope: Scope, stem: str = "cat") -> str:
    """Register a `FloatFunctional`; returns its attribute name."""
    return scope.submodule("nnq.FloatFunctional()", scope.rng.choice((stem, "ff", f"{stem}_op")))


def observed_cat(scope: Scope, tensors: Sequence[Tensor], seq: str | None = None, name: str | None = None) -> Tensor:
    """`FloatFunctional.cat` over `tensors`, as an expression."""
    if confusable(tensors) or not FAMILY["cat: torch.cat({seq}, 1)"].fits(tensors):
        raise NotHere
    name = name or functional(scope)
    key = scope.file.choose(FUNCTIONAL)
    scope.cover(key)
    scope.use(*tensors)
    template = key.removeprefix("cat: FloatFunctional")
    text = f"self.{name}{template}".format(seq=listed(tensors) if seq is None else seq)
    shape = ops.put(1, sum(each.shape[1] for each in tensors))(tensors[0].shape)
    return Tensor(text, shape, own(name), all(each.nonneg for each in tensors), ranges(tensors))


def any_cat(scope: Scope, tensors: Sequence[Tensor], seq: str | None = None) -> Tensor:
    """A raw or an observed join."""
    able = scope.cls is not None and not scope.cls.closed
    if able and scope.rng.random() < 0.25:
        return observed_cat(scope, tensors, seq)
    return raw(scope, tensors, seq)


# -- choosing what to join ----------------------------------------------------------------------------------


def small(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.shape[1] <= 12


def feature(scope: Scope) -> Tensor:
    """A feature map small enough to go on with."""
    return scope.pick(small)


def named_feature(scope: Scope) -> Tensor:
    return scope.pick_name(small)


def partner(scope: Scope, x: Tensor) -> Tensor:
    """Another named tensor of the same shape as `x`, made on the spot where there is none."""
    found = [
        each
        for each in scope.pool
        if each.quantized and each.shape == x.shape and each.text != x.text and not each.like(x)
    ]
    if found and scope.rng.random() < 0.6:
        return scope.rng.choice(found)
    return scope.bind(ops.operate(scope, x, ops.same_shape))


def group(scope: Scope, count: int = 2) -> list[Tensor]:
    """Named tensors of one shape."""
    found = [feature(scope)]
    while len(found) < count:
        found.append(partner(scope, found[0]))
        if confusable(found):
            found.pop()
            found.append(scope.bind(ops.operate(scope, found[0], ops.observed)))
    if confusable(found):
        raise NotHere
    return found


def settle(scope: Scope, value: Tensor) -> Tensor:
    """Bind a join; a wide feature map goes through a convolution that narrows it."""
    bound = scope.bind(value)
    able = scope.cls is not None and not scope.cls.closed
    if able and len(bound.shape) == 4 and bound.channels > 8:
        width = scope.rng.choice((4, 8))
        name = scope.submodule(f"nn.Conv2d({bound.channels}, {width}, 1)", "reduce")
        scope.use(bound)
        narrow = Tensor(f"self.{name}({bound.text})", ops.put(1, width)(bound.shape), own(name))
        return scope.rebind(bound, narrow)
    return bound


# -- raw joins ----------------------------------------------------------------------------------------------


@join("cat of two")
def cat_two(scope: Scope) -> None:
    settle(scope, raw(scope, group(scope)))


@join("cat of three as a tuple")
def cat_three(scope: Scope) -> None:
    tensors = group(scope, 3)
    settle(scope, raw(scope, tensors, f"({', '.join(each.text for each in tensors)})"))


@join("cat of an input and what an operator makes of it")
def cat_probe(scope: Scope) -> None:
    x = named_feature(scope)
    value = ops.operate(scope, x, ops.same_shape)
    settle(scope, raw(scope, [x, value]))


@join("cat of an operator's result and its input")
def cat_probe_reversed(scope: Scope) -> None:
    x = named_feature(scope)
    value = scope.bind(ops.operate(scope, x, ops.same_shape))
    settle(scope, raw(scope, [value, x]))


@join("cat of the same tensor")
def cat_same(scope: Scope) -> None:
    x = named_feature(scope)
    settle(scope, raw(scope, [x] * scope.rng.choice((2, 3))))


@join("cat of chunks")
def cat_chunks(scope: Scope) -> None:
    x = named_feature(scope)
    if x.channels % 2:
        raise NotHere
    scope.use(x)
    a, b = scope.fresh("first"), scope.fresh("second")
    scope.emit(f"{a}, {b} = {scope.rng.choice(('{0}.chunk(2, dim=1)', 'torch.chunk({0}, 2, 1)')).format(x.text)}")
    parts = [replace(x, text=name, shape=ops.put(1, ops.half)(x.shape)) for name in (a, b)]
    scope.keep(*parts)
    settle(scope, raw(scope, parts[::-1]))


@join("cat of split parts after other operators")
def cat_split(scope: Scope) -> None:
    x = named_feature(scope)
    if x.channels % 2:
        raise NotHere
    scope.use(x)
    a, b = scope.fresh("front"), scope.fresh("rest")
    scope.emit(f"{a}, {b} = torch.split({x.text}, {x.channels // 2}, dim=1)")
    parts = [replace(x, text=name, shape=ops.put(1, ops.half)(x.shape)) for name in (a, b)]
    scope.keep(*parts)
    settle(scope, raw(scope, [parts[0], ops.operate(scope, parts[1], ops.same_shape)]))


@join("cat of relu and max pool of one tensor")
def cat_relu_pool(scope: Scope) -> None:
    x = scope.pick_name(lambda each: small(each) and ops.square(each.shape))
    act = scope.bind(ops.operate(scope, x, lambda row: row.operator == "relu" and row.shape is ops.same))
    pool = ops.operate(scope, x, lambda row: row.operator == "max_pool" and row.shape is ops.same)
    settle(scope, raw(scope, [x, act, pool]))


@join("cat of two sigmoids")
def cat_sigmoids(scope: Scope) -> None:
    a, b = group(scope)
    gates = [ops.operate(scope, each, lambda row: row.scale == "sigmoid") for each in (a, b)]
    settle(scope, raw(scope, gates))


@join("cat of a gate and its input")
def cat_gate(scope: Scope) -> None:
    x = named_feature(scope)
    if x.origin[0] == "fixed":
        raise NotHere
    gate = ops.operate(scope, x, lambda row: row.scale in ("sigmoid", "tanh"))
    settle(scope, raw(scope, [gate, x]))


@join("nested cat")
def nested(scope: Scope) -> None:
    a, b = group(scope)
    third = ops.operate(scope, b, ops.same_shape)
    inner = raw(scope, [a, b], only=along(1))
    settle(scope, raw(scope, [inner, third], only=along(1)))


@join("cat of cats")
def cat_of_cats(scope: Scope) -> None:
    a, b = group(scope)
    first = scope.bind(raw(scope, [a, b]))
    second = raw(scope, [b, a], only=lambda family: family.shape([a, b]) == first.shape)
    settle(scope, raw(scope, [first, second]))


@join("one convolution on two inputs")
def same_observer(scope: Scope) -> None:
    a, b = group(scope)
    row = ops.choose_row(scope, a, ops.observed)
    scope.cover(row.key)
    name = scope.submodule(ops.fill(row, a, scope.owner.width_text), "shared")
    outs = [scope.bind(ops.effect(row, each, f"self.{name}({each.text})", own(name))) for each in (a, b)]
    scope.use(a, b)
    settle(scope, raw(scope, outs))


@join("cats of both arms of an if")
def exclusive_arms(scope: Scope) -> None:
    a, b = group(scope)
    flag = scope.constant("merge", scope.rng.choice(("True", "False")))
    taken = scope.owner.init[-1].endswith("True")
    name = scope.fresh("merged")
    arms = [True, False] if taken else [False, True]
    result = None
    for runs, header in zip(arms, (f"if self.{flag}:", "else:"), strict=True):
        with scope.block(header):
            if runs:
                result = raw(scope, [a, b], only=plain_cat)
                scope.emit(f"{name} = {result.text}")
            else:
                with scope.unreachable():
                    scope.emit(f"{name} = {raw(scope, [b, a], only=along(1)).text}")
    assert result is not None
    scope.use(a, b)
    scope.keep(result.named(name))


@join("two cats on one line")
def two_on_a_line(scope: Scope) -> None:
    a, b = group(scope)
    first, second = raw(scope, [a, b]), raw(scope, [a, ops.operate(scope, a, ops.same_shape)])
    names = scope.fresh("joined"), scope.fresh("other")
    scope.emit(f"{names[0]}, {names[1]} = {first.text}, {second.text}")
    scope.keep(first.named(names[0]), second.named(names[1]))


@join("cats separated by a semicolon")
def semicolon(scope: Scope) -> None:
    a, b = group(scope)
    first, second = raw(scope, [a, b]), raw(scope, [b, a])
    names = scope.fresh("one"), scope.fresh("two")
    scope.emit(f"{names[0]} = {first.text}; {names[1]} = {second.text}")
    scope.keep(first.named(names[0]), second.named(names[1]))


@join("cat inside a call of a module")
def cat_in_call(scope: Scope) -> None:
    a, b = group(scope)
    joined = raw(scope, [a, b], only=along(1))
    name = scope.submodule(f"nn.Conv2d({joined.channels}, {a.channels}, 3, padding=1)", "fuse")
    scope.bind(Tensor(f"self.{name}({joined.text})", ops.put(1, a.channels)(joined.shape), own(name)))


@join("method on a cat")
def method_on_cat(scope: Scope) -> None:
    joined = raw(scope, group(scope))
    settle(scope, replace(joined, text=f"{joined.text}.relu()", nonneg=True))


@join("cat over several lines")
def cat_multiline(scope: Scope) -> None:
    a, b = group(scope)
    value = ops.operate(scope, a, ops.same_shape)
    tensors = [a, value, b]
    items = "".join(f"    {each.text},\n" for each in tensors)
    settle(scope, raw(scope, tensors, f"[\n{items}]"))


@join("cat of list concatenation")
def cat_list_sum(scope: Scope) -> None:
    tensors = group(scope, 3)
    first, rest = tensors[:1], tensors[1:]
    settle(scope, raw(scope, tensors, f"{listed(first)} + {listed(rest)}"))


@join("cat with a starred list")
def cat_starred(scope: Scope) -> None:
    tensors = group(scope, 3)
    name = scope.fresh("parts")
    scope.emit(f"{name} = {listed(tensors[:2])}")
    settle(scope, raw(scope, tensors, f"[*{name}, {tensors[2].text}]"))


@join("cat of a conditional list")
def cat_conditional(scope: Scope) -> None:
    a, b = group(scope)
    flag = scope.constant("both", "True")
    settle(scope, raw(scope, [a, b], f"[{a.text}, {b.text}] if self.{flag} else [{a.text}]"))


@join("cat in a loop")
def cat_in_loop(scope: Scope) -> None:
    x = scope.pick_name(lambda each: small(each) and each.channels <= 4)
    c, layers = x.channels, 2
    name = scope.owner.fresh("dense")
    scope.owner.add(
        f"self.{name} = nn.ModuleList(nn.Conv2d({c} * (i + 1), {c}, 3, padding=1) for i in range({layers}))"
    )
    mark = scope.file.mark("cat-mixed", "QL101") if certain(x.origin) and not scope.dead else ""
    with scope.block(f"for conv in self.{name}:"):
        scope.emit(f"{x.text} = {mark}torch.cat([{x.text}, conv({x.text})], 1)")
    scope.replace(x, replace(x, shape=ops.put(1, c * (layers + 1))(x.shape), nonneg=False))


@join("dense connections over a list")
def dense_list(scope: Scope) -> None:
    x = scope.pick_name(lambda each: small(each) and each.channels <= 4)
    c, count = x.channels, 2
    name, feats = scope.owner.fresh("dense"), scope.fresh("feats")
    scope.owner.add(f"self.{name} = nn.ModuleList([nn.Conv2d({c} * (i + 1), {c}, 1) for i in range({count})])")
    made = [x, *(Tensor("", x.shape, own(name, str(index))) for index in range(count))]
    scope.emit(f"{feats} = [{x.text}]")
    mark = "" if scope.dead else scope.file.mark("cat-mixed", "QL101") if certain(x.origin) else ""
    with scope.block(f"for layer in self.{name}:"):
        scope.emit(f"{feats}.append(layer({mark}torch.cat({feats}, dim=1)))")
    scope.use(x)
    settle(scope, raw(scope, made, feats, along(1)))


@join("encoder and decoder with a stack of skips")
def encoder_decoder(scope: Scope) -> None:
    x = scope.pick_name(lambda each: small(each) and each.channels <= 8)
    c, count = x.channels, 2
    down, up = scope.owner.fresh("encoders"), scope.owner.fresh("decoders")
    scope.owner.add(f"self.{down} = nn.ModuleList([nn.Conv2d({c}, {c}, 3, padding=1) for _ in range({count})])")
    scope.owner.add(f"self.{up} = nn.ModuleList([nn.Conv2d({2 * c}, {c}, 1) for _ in range({count})])")
    skips = scope.fresh("skips")
    scope.emit(f"{skips} = []")
    with scope.block(f"for encoder in self.{down}:"):
        scope.emit(f"{x.text} = encoder({x.text})", f"{skips}.append({x.text})")
    with scope.block(f"for decoder in self.{up}:"):
        scope.emit(f"{x.text} = decoder(torch.cat([{x.text}, {skips}.pop()], dim=1))")
    scope.replace(x, Tensor(x.text, x.shape, own(up, str(count - 1))))


@join("cat of a tuple sum")
def tuple_sum(scope: Scope) -> None:
    tensors = group(scope, 3)
    name = scope.fresh("extra")
    scope.emit(f"{name} = {listed(tensors[1:])}")
    settle(scope, raw(scope, tensors, f"({tensors[0].text},) + tuple({name})"))


@join("parts of a chunk through their own layers")
def chunk_layers(scope: Scope) -> None:
    x = named_feature(scope)
    if x.channels % 2:
        raise NotHere
    scope.use(x)
    half, name = x.channels // 2, scope.owner.fresh("part_convs")
    scope.owner.add(f"self.{name} = nn.ModuleList([nn.Conv2d({half}, {half}, 1) for _ in range(2)])")
    shape = ops.put(1, half)(x.shape)
    made = [Tensor("", shape, own(name, str(index))) for index in range(2)]
    settle(scope, raw(scope, made, f"[conv(part) for conv, part in zip(self.{name}, {x.text}.chunk(2, dim=1))]"))


@join("resize where shapes differ, then cat")
def resize_cat(scope: Scope) -> None:
    a, b = group(scope)
    if not b.text.isidentifier():
        raise NotHere
    with scope.block(f"if {a.text}.shape[-2:] != {b.text}.shape[-2:]:"):
        scope.emit(f'{b.text} = F.interpolate({b.text}, size={a.text}.shape[-2:], mode="nearest")')
    settle(scope, raw(scope, [a, b], only=along(1)))


@join("cats in a reduce")
def reduce_cat(scope: Scope) -> None:
    scope.file.imports.standard("from functools import reduce")
    tensors = group(scope, 3)
    pair = raw(scope, [tensors[0].named("a"), tensors[1].named("b")], only=along(1))
    scope.use(*tensors)
    shape = ops.put(1, sum(each.channels for each in tensors))(tensors[0].shape)
    text = f"reduce(lambda a, b: {pair.text}, {listed(tensors)})"
    settle(scope, replace(pair, text=text, shape=shape, nonneg=all(each.nonneg for each in tensors)))


@join("channel shuffle written out after a cat")
def shuffle_cat(scope: Scope) -> None:
    if scope.tidy:
        raise NotHere
    a, b = group(scope)
    joined = scope.bind(raw(scope, [a, b], only=along(1)))
    n, c, h, w = (scope.fresh(stem) for stem in ("batch", "width", "rows", "cols"))
    scope.emit(f"{n}, {c}, {h}, {w} = {joined.text}.size()")
    scope.emit(f"{joined.text} = {joined.text}.reshape({n}, 2, {c} // 2, {h}, {w}).transpose(1, 2).contiguous()")
    scope.rebind(joined, replace(joined, text=f"{joined.text}.reshape({n}, {c}, {h}, {w})"))


# -- observed joins -----------------------------------------------------------------------------------------


@join("FloatFunctional.cat")
def functional_cat(scope: Scope) -> None:
    settle(scope, observed_cat(scope, group(scope)))


@join("FloatFunctional in two exclusive arms")
def functional_arms(scope: Scope) -> None:
    a, b = group(scope)
    flag = scope.constant("project", "True")
    ff, name = functional(scope), scope.fresh("mixed")
    value = ops.operate(scope, b, ops.observed)
    with scope.block(f"if self.{flag}:"):
        joined = observed_cat(scope, [a, value], name=ff)
        scope.emit(f"{name} = {joined.text}")
    with scope.block("else:"), scope.unreachable():
        scope.emit(f"{name} = {observed_cat(scope, [a, b], name=ff).text}")
    scope.keep(joined.named(name))


def _binary(scope: Scope, method: str, stem: str, *, nonneg: bool = False) -> None:
    a, b = group(scope)
    scope.use(a, b)
    name = functional(scope, stem)
    twins = frozenset({("of", method, *a.origin, *b.origin)})
    nonneg = nonneg or (a.nonneg and b.nonneg)
    scope.bind(Tensor(f"self.{name}.{method}({a.text}, {b.text})", a.shape, own(name), nonneg, twins))


@join("FloatFunctional.add")
def functional_add(scope: Scope) -> None:
    _binary(scope, "add", "add")


@join("FloatFunctional.mul")
def functional_mul(scope: Scope) -> None:
    _binary(scope, "mul", "mul", nonneg=True)  # a product of related tensors may have no negatives


@join("FloatFunctional.add_relu")
def functional_add_relu(scope: Scope) -> None:
    _binary(scope, "add_relu", "add", nonneg=True)


@join("FloatFunctional.matmul")
def functional_matmul(scope: Scope) -> None:
    x = scope.pick_name(lambda each: small(each) and ops.square(each.shape) and each.shape[2] == each.shape[3])
    scope.use(x)
    y = partner(scope, x)
    name = functional(scope, "matmul")
    twins = frozenset({("of", "matmul", *x.origin, *y.origin)})
    nonneg = x.nonneg and y.nonneg
    scope.bind(Tensor(f"self.{name}.matmul({x.text}, {y.text})", x.shape, own(name), nonneg, twins))
    scope.use(y)


def _scalar(scope: Scope, method: str, number: str) -> None:
    x = named_feature(scope)
    scope.use(x)
    name = functional(scope, "scale")
    origin = ("scaled", f"{method} {number}", *x.origin)
    nonneg = x.nonneg or method == "add_scalar"
    scope.bind(Tensor(f"self.{name}.{method}({x.text}, {number})", x.shape, origin, nonneg))


@join("FloatFunctional.add_scalar")
def functional_add_scalar(scope: Scope) -> None:
    _scalar(scope, "add_scalar", f"{scope.rng.randint(101, 199) / 100}")


@join("FloatFunctional.mul_scalar")
def functional_mul_scalar(scope: Scope) -> None:
    _scalar(scope, "mul_scalar", f"{scope.rng.randint(21, 79) / 100}")


@join("squeeze and excitation")
def excitation(scope: Scope) -> None:
    x = named_feature(scope)
    scope.use(x)
    c, gate = x.channels, scope.fresh("gate")
    down = scope.submodule(f"nn.Conv2d({c}, 2, 1)", "squeeze")
    up = scope.submodule(f"nn.Conv2d(2, {c}, 1)", "excite")
    ff = functional(scope, "scale_mul")
    scope.emit(f"{gate} = F.adaptive_avg_pool2d({x.text}, 1)")
    scope.emit(f"{gate} = F.hardsigmoid(self.{up}(F.relu(self.{down}({gate}))))")
    scaled = scope.bind(Tensor(f"self.{ff}.mul({x.text}, {gate})", x.shape, own(ff), x.nonneg))
    settle(scope, raw(scope, [x, scaled]))


@join("top-down additions over a list")
def top_down(scope: Scope) -> None:
    tensors = group(scope, 3)
    name, feats = scope.owner.fresh("adds"), scope.fresh("laterals")
    scope.owner.add(f"self.{name} = nn.ModuleList([nnq.FloatFunctional() for _ in range(2)])")
    scope.emit(f"{feats} = {listed(tensors)}")
    with scope.block(f"for i in range(len({feats}) - 1, 0, -1):"):
        scope.emit(f"{feats}[i - 1] = self.{name}[i - 1].add({feats}[i - 1], {feats}[i])")
    scope.use(*tensors)
    made = [Tensor("", tensors[0].shape, own(name, str(index))) for index in range(2)]
    settle(scope, raw(scope, [*made, tensors[2].named(f"{feats}[2]")], feats))


@join("FloatFunctional from a ModuleDict")
def functional_dict(scope: Scope) -> None:
    a, b = group(scope)
    name = scope.owner.fresh("ops")
    scope.owner.add(f'self.{name} = nn.ModuleDict({{"cat": nnq.FloatFunctional(), "add": nnq.FloatFunctional()}})')
    scope.use(a, b)
    nonneg = a.nonneg and b.nonneg
    added = scope.bind(Tensor(f'self.{name}["add"].add({a.text}, {b.text})', a.shape, own(name, "add"), nonneg))
    joined = replace(added, text=f'self.{name}["cat"].cat([{added.text}, {a.text}], dim=1)')
    shape = ops.put(1, a.channels * 2)(a.shape)
    settle(scope, replace(joined, shape=shape, origin=own(name, "cat"), shadows=ranges([added, a])))


@join("cat of scalar operators on one tensor")
def scalar_pair(scope: Scope) -> None:
    x = named_feature(scope)
    scope.use(x)
    method = scope.rng.choice(("add_scalar", "mul_scalar"))
    first = scope.rng.choice((0.5, 1.5, 2.0))
    made = []
    for number in (first, scope.rng.choice((first, 3.0))):
        origin = ("scaled", f"{method} {number}", *x.origin)
        text = f"self.{functional(scope, 'scale')}.{method}({x.text}, {number})"
        made.append(Tensor(text, x.shape, origin, x.nonneg or method == "add_scalar"))
    settle(scope, raw(scope, made))


# -- float islands ------------------------------------------------------------------------------------------


def dequant(scope: Scope) -> str:
    """The DeQuantStub of this class, made where it has none."""
    for line in scope.owner.init:
        if line.endswith("DeQuantStub()"):
            return line.split(" = ")[0].removeprefix("self.")
    return scope.submodule("tq.DeQuantStub()", "dequant")


def quant(scope: Scope) -> str:
    """A QuantStub of its own."""
    return scope.submodule("tq.QuantStub()", scope.rng.choice(("requant", "quant_in", "q")))


@join("cat of dequantized tensors, then a stub")
def float_cat(scope: Scope) -> None:
    a, b = group(scope)
    out, back = dequant(scope), quant(scope)
    scope.use(a, b)
    name = scope.fresh("floats")
    scope.emit(f"{name} = [self.{out}({a.text}), self.{out}({b.text})]")
    joined = scope.fresh("wide")
    scope.emit(f"{joined} = torch.cat({name}, dim=1)")
    shape = ops.put(1, a.channels + b.channels)(a.shape)
    nonneg = a.nonneg and b.nonneg
    settle(scope, Tensor(f"self.{back}({joined})", shape, own(back), nonneg, ranges([a, b])))


@join("cat of dequantized tensors that stays float")
def float_cat_only(scope: Scope) -> None:
    a, b = group(scope)
    out = dequant(scope)
    scope.use(a, b)
    name = scope.fresh("side")
    scope.emit(f"{name} = torch.cat([self.{out}({a.text}), self.{out}({b.text})], dim=1).softmax(1)")
    back = quant(scope)
    twins = frozenset({("of", "island", *a.origin)})
    shape = ops.put(1, a.channels + b.channels)(a.shape)
    scope.bind(Tensor(f"self.{back}({name})", shape, own(back), True, twins))


FLOAT_OPS = (
    "torch.softmax({0}, dim=1)",
    "F.silu({0})",
    "{0} * 0.7 + 0.1",
    "torch.exp(-{0}.abs())",
    "{0} / (1 + {0}.abs())",
)


@join("float island")
def island(scope: Scope) -> None:
    x = named_feature(scope)
    out, back = dequant(scope), quant(scope)
    scope.use(x)
    name = scope.fresh("real")
    scope.emit(f"{name} = self.{out}({x.text})")
    scope.emit(f"{name} = {scope.rng.choice(FLOAT_OPS).format(name)}")
    twins = frozenset({("of", "island", *x.origin)})
    y = scope.bind(Tensor(f"self.{back}({name})", x.shape, own(back), True, twins))
    settle(scope, raw(scope, [x, y]))


@join("two stubs on one float tensor")
def twin_stubs(scope: Scope) -> None:
    x = named_feature(scope)
    out, first, second = dequant(scope), quant(scope), quant(scope)
    scope.use(x)
    name = scope.fresh("real")
    scope.emit(f"{name} = F.silu(self.{out}({x.text}))")
    twins = frozenset({("of", "island", *x.origin)})
    a = scope.bind(Tensor(f"self.{first}({name})", x.shape, own(first), x.nonneg, twins))
    b = scope.bind(Tensor(f"self.{second}({name})", x.shape, own(first), x.nonneg, twins))
    settle(scope, raw(scope, [a, b]))


@join("float copy returned beside the quantized tensor")
def float_copy(scope: Scope) -> None:
    if scope.tidy:
        raise NotHere
    x = named_feature(scope)
    name = scope.fresh("aux")
    scope.emit(f"{name} = self.{dequant(scope)}({x.text})")
    scope.keep(Tensor(name, x.shape, FLOAT))
