"""Every kind of statement the grammar writes.

To add one, write a function and put `@statement("its name")` on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.oracle.grammar import joins
from tests.oracle.grammar import operators as ops
from tests.oracle.grammar.conditions import decide
from tests.oracle.grammar.containers import KEYS, module_dict, module_list, sequential
from tests.oracle.grammar.core import NotHere, Scope, Tensor, own
from tests.oracle.grammar.joins import any_cat, feature, group, listed, named_feature, raw, settle

Producer = Callable[[Scope], None]
STATEMENTS: dict[str, Producer] = {}


def statement(name: str) -> Callable[[Producer], Producer]:
    def register(producer: Producer) -> Producer:
        STATEMENTS[f"stmt: {name}"] = producer
        return producer

    return register


def same(scope: Scope, x: Tensor) -> Tensor:
    """An operator that keeps the shape, as an expression."""
    return ops.operate(scope, x, ops.same_shape)


def some(scope: Scope) -> Tensor:
    """An operator applied to anything in the pool, as an expression."""
    x = scope.pick(joins.small) if scope.tidy else scope.pick(rank=None)
    return ops.operate(scope, x)


def values(scope: Scope, count: int) -> list[Tensor]:
    """Expressions of one shape, made from one tensor or several."""
    return [same(scope, each) for each in group(scope, count)]


def _each(
    scope: Scope, x: Tensor, name: str, stack: Sequence[ops.Layer], keys: Sequence[str] = ("0", "1", "2")
) -> list[Tensor]:
    """What every member of the container `name` makes of one tensor; the texts are left to the caller."""
    scope.use(x)
    return [layer.call(x, "", name, key) for key, layer in zip(keys, stack, strict=False)]


# -- assignments --------------------------------------------------------------------------------------------


@statement("assignment")
def assignment(scope: Scope) -> None:
    scope.bind(some(scope))


@statement("assignment to the same name")
def rebinding(scope: Scope) -> None:
    x = named_feature(scope)
    scope.rebind(x, same(scope, x))


@statement("nested calls")
def nested_calls(scope: Scope) -> None:
    x = feature(scope)
    for _ in range(3):
        x = ops.operate(scope, x, lambda row: row.shape is ops.same and not row.method)
    scope.bind(x)


@statement("chained methods")
def chained_methods(scope: Scope) -> None:
    x = feature(scope)
    for _ in range(3):
        x = ops.operate(scope, x, lambda row: row.method and row.shape is ops.same)
    scope.bind(x)


@statement("tuple assignment")
def tuple_assignment(scope: Scope) -> None:
    made = values(scope, 2)
    names = [scope.fresh("a"), scope.fresh("b")]
    scope.emit(f"{', '.join(names)} = {', '.join(each.text for each in made)}")
    scope.keep(*(each.named(name) for each, name in zip(made, names, strict=True)))


@statement("starred assignment")
def starred_assignment(scope: Scope) -> None:
    made = values(scope, 3)
    first, rest = scope.fresh("first"), scope.fresh("others")
    scope.emit(f"{first}, *{rest} = {listed(made)}")
    scope.keep(made[0].named(first), made[1].named(f"{rest}[0]"), made[2].named(f"{rest}[-1]"))


@statement("nested tuple assignment")
def nested_assignment(scope: Scope) -> None:
    made = values(scope, 3)
    names = [scope.fresh(stem) for stem in ("p", "q", "r")]
    scope.emit("{}, ({}, {}) = {}, ({}, {})".format(*names, *(each.text for each in made)))
    scope.keep(*(each.named(name) for each, name in zip(made, names, strict=True)))


@statement("two targets")
def two_targets(scope: Scope) -> None:
    made = same(scope, feature(scope))
    names = scope.fresh("main"), scope.fresh("residual")
    scope.emit(f"{names[0]} = {names[1]} = {made.text}")
    scope.keep(made.named(names[0]))
    scope.bind(same(scope, made.named(names[1])))


@statement("annotated assignment")
def annotated(scope: Scope) -> None:
    made = some(scope)
    name = scope.fresh("typed")
    scope.emit(f"{name}: torch.Tensor = {made.text}")
    scope.keep(made.named(name))


@statement("statements on one line")
def one_line(scope: Scope) -> None:
    a, b = values(scope, 2)
    names = scope.fresh("one"), scope.fresh("two")
    scope.emit(f"{names[0]} = {a.text}; {names[1]} = {b.text}")
    scope.keep(a.named(names[0]), b.named(names[1]))


@statement("walrus in a condition")
def walrus(scope: Scope) -> None:
    made = same(scope, feature(scope))
    name, out = scope.fresh("tmp"), scope.fresh("kept")
    with scope.block(f"if ({name} := {made.text}) is not None:"):
        inner = same(scope, made.named(name))
        scope.emit(f"{out} = {inner.text}")
    scope.keep(inner.named(out), made.named(name))


@statement("walrus in a call")
def walrus_in_call(scope: Scope) -> None:
    made = ops.operate(scope, feature(scope), ops.observed)
    name = scope.fresh("pre")
    outer = same(scope, made.named(f"({name} := {made.text})"))
    bound = scope.bind(outer)
    scope.keep(made.named(name))
    settle(scope, any_cat(scope, [bound, made.named(name)]))


@statement("method in place")
def in_place(scope: Scope) -> None:
    made = scope.bind(ops.operate(scope, feature(scope), ops.observed))
    scope.emit(scope.rng.choice(("{}.relu_()", "F.relu_({})", "torch.relu_({})")).format(made.text))
    scope.replace(made, replace(made, nonneg=True))


@statement("swap")
def swap(scope: Scope) -> None:
    a, b = [scope.bind(each) for each in values(scope, 2)]
    scope.emit(f"{a.text}, {b.text} = {b.text}, {a.text}")
    scope.replace(a, b)
    scope.replace(b, a)
    settle(scope, any_cat(scope, [b.named(a.text), a.named(b.text)]))


@statement("del")
def delete(scope: Scope) -> None:
    made = scope.bind(same(scope, feature(scope)))
    scope.bind(same(scope, made))
    scope.emit(f"del {made.text}")
    scope.forget(made)


@statement("assert")
def assertion(scope: Scope) -> None:
    made = scope.bind(some(scope))
    scope.emit(f'assert {made.text} is not None, "no features"')


@statement("alias of a tensor")
def alias(scope: Scope) -> None:
    x = named_feature(scope)
    name = scope.fresh("identity")
    scope.emit(f"{name} = {x.text}")
    made = scope.bind(same(scope, x))
    settle(scope, any_cat(scope, [x.named(name), made]))


def _reshaped(scope: Scope, x: Tensor) -> Tensor:
    if scope.tidy:
        raise NotHere
    return ops.operate(scope, x, ops.reshaping)


@statement("reshaping operator")
def reshaping(scope: Scope) -> None:
    scope.bind(_reshaped(scope, scope.pick(rank=None)))


@statement("two reshaping operators")
def two_reshaping(scope: Scope) -> None:
    first = _reshaped(scope, scope.pick(rank=None))
    second = _reshaped(scope, scope.pick(rank=4))
    names = scope.fresh("flat"), scope.fresh("short")
    scope.emit(f"{names[0]}, {names[1]} = {first.text}, {second.text}")
    scope.keep(first.named(names[0]), second.named(names[1]))


@statement("cat of reshaped tensors")
def cat_reshaped(scope: Scope) -> None:
    a, b = group(scope)
    if scope.tidy:
        raise NotHere
    row = ops.choose_row(scope, a, lambda each: ops.reshaping(each) and each.shape(a.shape) != ())
    if not row.fits(b, scope.file.engine):
        raise NotHere
    settle(scope, any_cat(scope, [ops.apply(scope, row, each) for each in (a, b)]))


@statement("shape unpacking")
def shape_unpacking(scope: Scope) -> None:
    if scope.tidy:
        raise NotHere
    x = named_feature(scope)
    n, c, h, w = (scope.fresh(stem) for stem in ("n", "c", "h", "w"))
    scope.emit(f"{n}, {c}, {h}, {w} = {x.text}.shape")
    scope.use(x)
    scope.bind(replace(x, text=f"{x.text}.reshape({n}, {c}, {h} * {w})", shape=ops.flat(2)(x.shape)))


@statement("result of two values")
def two_values(scope: Scope) -> None:
    if scope.tidy:
        raise NotHere
    x = scope.pick_name(lambda each: joins.small(each) and each.channels >= 2)
    scope.use(x)
    value, index = scope.fresh("value"), scope.fresh("index")
    call = scope.rng.choice(("{0}.max(1)", "torch.max({0}, dim=1)", "{0}.min(dim=1)"))
    scope.emit(f"{value}, {index} = {call.format(x.text)}")
    scope.keep(replace(x, text=value, shape=ops.drop(1)(x.shape)))


# -- choices ------------------------------------------------------------------------------------------------


def _arms(scope: Scope, headers: Sequence[str], taken: int, x: Tensor, name: str) -> Tensor:
    """Write arms that assign `name`; the one of index `taken` runs."""
    result = None
    for index, header in enumerate(headers):
        with scope.block(header):
            if index == taken:
                result = same(scope, x)
                scope.emit(f"{name} = {result.text}")
            else:
                with scope.unreachable():
                    scope.emit(f"{name} = {same(scope, x).text}")
    assert result is not None
    return result.named(name)


@statement("if and else")
def if_else(scope: Scope) -> None:
    x, taken = named_feature(scope), scope.rng.randint(0, 1)
    test = decide(scope, taken == 0)
    made = _arms(scope, (f"if {test}:", "else:"), taken, x, scope.fresh("chosen"))
    scope.keep(made)
    settle(scope, any_cat(scope, [x, made]))


@statement("if without else")
def if_only(scope: Scope) -> None:
    x = named_feature(scope)
    value = scope.rng.random() < 0.5
    with scope.block(f"if {decide(scope, value)}:"):
        if value:
            scope.rebind(x, same(scope, x))
        else:
            with scope.unreachable():
                scope.emit(f"{x.text} = {same(scope, x).text}")


@statement("elif chain")
def elif_chain(scope: Scope) -> None:
    x, taken = named_feature(scope), scope.rng.randint(0, 2)
    tests = [decide(scope, taken == 0), decide(scope, taken == 1)]
    headers = (f"if {tests[0]}:", f"elif {tests[1]}:", "else:")
    scope.keep(_arms(scope, headers, taken, x, scope.fresh("picked")))


@statement("conditional expression")
def conditional(scope: Scope) -> None:
    x = named_feature(scope)
    value = scope.rng.random() < 0.5
    test = decide(scope, value)
    made = same(scope, x)
    with scope.unreachable():
        other = same(scope, x).text
    arms = (made.text, other) if value else (other, made.text)
    scope.bind(made.named(f"{arms[0]} if {test} else {arms[1]}"))


@statement("nested if")
def nested_if(scope: Scope) -> None:
    x, name = named_feature(scope), scope.fresh("inner")
    first, second = decide(scope, True), decide(scope, False)
    with scope.block(f"if {first}:"):
        made = _arms(scope, (f"if {second}:", "else:"), 1, x, name)
    with scope.block("else:"), scope.unreachable():
        scope.emit(f"{name} = {same(scope, x).text}")
    scope.keep(made)


@statement("match on a string")
def match_string(scope: Scope) -> None:
    x = named_feature(scope)
    mode = scope.constant("style", '"wide"')
    with scope.block(f"match self.{mode}:"):
        made = _arms(scope, ('case "narrow":', 'case "wide" | "full":', "case _:"), 1, x, scope.fresh("styled"))
    scope.keep(made)


@statement("match on a sequence")
def match_sequence(scope: Scope) -> None:
    a, b = [scope.bind(each) for each in values(scope, 2)]
    names = scope.fresh("u"), scope.fresh("v")
    with scope.block(f"match [{a.text}, {b.text}]:"):
        with scope.block(f"case [{names[0]}, {names[1]}]:"):
            scope.bind(any_cat(scope, [a.named(names[0]), b.named(names[1])]))
        with scope.block("case _:"):
            scope.emit('raise ValueError("two features expected")')


@statement("guard that raises")
def guard(scope: Scope) -> None:
    with scope.block(f"if {decide(scope, False)}:"):
        scope.emit('raise RuntimeError("not supported")')
    scope.bind(some(scope))


@statement("try with a handler that raises")
def try_except(scope: Scope) -> None:
    x, name = feature(scope), scope.fresh("safe")
    with scope.block("try:"):
        made = same(scope, x)
        scope.emit(f"{name} = {made.text}")
    with scope.block("except RuntimeError as error:"):
        scope.emit('raise ValueError("bad features") from error')
    scope.keep(made.named(name))


@statement("try and finally")
def try_finally(scope: Scope) -> None:
    x, name = named_feature(scope), scope.fresh("checked")
    with scope.block("try:"):
        made = same(scope, x)
        scope.emit(f"{name} = {made.text}")
    with scope.block("finally:"):
        scope.emit("pass")
    scope.keep(made.named(name))
    settle(scope, any_cat(scope, [made.named(name), x]))


@statement("with")
def with_block(scope: Scope) -> None:
    x, name = feature(scope), scope.fresh("frozen")
    with scope.block(f"with {scope.rng.choice(('torch.no_grad()', 'contextlib.nullcontext()'))}:"):
        if "contextlib" in scope.lines[-1]:
            scope.file.imports.standard("import contextlib")
        made = same(scope, x)
        scope.emit(f"{name} = {made.text}")
    scope.keep(made.named(name))


# -- loops --------------------------------------------------------------------------------------------------


def _through(scope: Scope, x: Tensor, name: str, stack: list[ops.Layer]) -> None:
    """After a loop that sent the variable `x` through every layer of `name`."""
    scope.replace(x, ops.chain(x, stack, name))


@statement("for over a ModuleList")
def for_list(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=True)
    with scope.block(f"for layer in self.{name}:"):
        scope.emit(f"{x.text} = layer({x.text})")
    _through(scope, x, name, stack)


@statement("for with enumerate")
def for_enumerate(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=False, stem="branches")
    outs = scope.fresh("outs")
    scope.emit(f"{outs} = [None, None]")
    with scope.block(f"for i, branch in enumerate(self.{name}):"):
        scope.emit(f"{outs}[i] = branch({x.text})")
    settle(scope, any_cat(scope, _each(scope, x, name, stack), outs))


@statement("for with range and an index")
def for_range(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 3, serial=True)
    count = scope.rng.choice(("3", f"len(self.{name})"))
    with scope.block(f"for i in range({count}):"):
        scope.emit(f"{x.text} = self.{name}[i]({x.text})")
    _through(scope, x, name, stack)


@statement("for with zip")
def for_zip(scope: Scope) -> None:
    inputs = group(scope)
    name, stack = module_list(scope, inputs[0], 2, serial=False, stem="laterals")
    outs = scope.fresh("maps")
    scope.emit(f"{outs} = []")
    with scope.block(f"for lateral, feat_in in zip(self.{name}, {listed(inputs)}):"):
        scope.emit(f"{outs}.append(lateral(feat_in))")
    scope.use(*inputs)
    made = [layer.call(x, f"{outs}[{i}]", name, str(i)) for i, (layer, x) in enumerate(zip(stack, inputs, strict=True))]
    settle(scope, any_cat(scope, made, outs))


@statement("for with reversed")
def for_reversed(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=False)
    outs = scope.fresh("back")
    scope.emit(f"{outs} = []")
    with scope.block(f"for layer in reversed(self.{name}):"):
        scope.emit(f"{outs} += [layer({x.text})]")
    settle(scope, any_cat(scope, _each(scope, x, name, stack)[::-1], outs))


@statement("for with break")
def for_break(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 3, serial=True)
    with scope.block(f"for i, layer in enumerate(self.{name}):"):
        with scope.block("if i == 2:"):
            scope.emit("break")
        scope.emit(f"{x.text} = layer({x.text})")
    _through(scope, x, name, stack[:2])


@statement("for with continue")
def for_continue(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 3, serial=False)
    outs = scope.fresh("used")
    scope.emit(f"{outs} = []")
    with scope.block(f"for i, layer in enumerate(self.{name}):"):
        with scope.block("if i == 1:"):
            scope.emit("continue")
        scope.emit(f"{outs}.append(layer({x.text}))")
    scope.use(x)
    made = [stack[index].call(x, f"{outs}[{at}]", name, str(index)) for at, index in enumerate((0, 2))]
    settle(scope, any_cat(scope, made, outs))


@statement("for and else")
def for_else(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=True)
    with scope.block(f"for layer in self.{name}:"):
        scope.emit(f"{x.text} = layer({x.text})")
    x = scope.replace(x, ops.chain(x, stack, name))
    with scope.block("else:"):
        scope.rebind(x, same(scope, x))


@statement("while with a counter")
def while_counter(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=True)
    counter = scope.fresh("i")
    scope.emit(f"{counter} = 0")
    with scope.block(f"while {counter} < {scope.rng.choice(('2', f'len(self.{name})'))}:"):
        scope.emit(f"{x.text} = self.{name}[{counter}]({x.text})", f"{counter} += 1")
    _through(scope, x, name, stack)


@statement("nested loops")
def nested_loops(scope: Scope) -> None:
    x = named_feature(scope)
    stages = [ops.series(scope, x, 2) for _ in range(2)]
    name = scope.owner.fresh("stages")
    texts = [f"nn.ModuleList([{ops.constructors(stack)}])" for stack in stages]
    scope.owner.add(f"self.{name} = nn.ModuleList([{', '.join(texts)}])")
    with scope.block(f"for stage in self.{name}:"), scope.block("for layer in stage:"):
        scope.emit(f"{x.text} = layer({x.text})")
    result = x
    for index, stack in enumerate(stages):
        result = ops.chain(result, stack, name, str(index))
    scope.replace(x, result)


@statement("loop collecting every step")
def collecting(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=True)
    outs, step = scope.fresh("steps"), scope.fresh("h")
    scope.emit(f"{outs} = [{x.text}]", f"{step} = {x.text}")
    with scope.block(f"for layer in self.{name}:"):
        scope.emit(f"{step} = layer({step})", f"{outs}.append({step})")
    made, current = [x], x
    for index, each in enumerate(stack):
        current = each.call(current, f"{outs}[{index + 1}]", name, str(index))
        made.append(current)
    settle(scope, any_cat(scope, made, outs))


@statement("loop over a ModuleDict")
def for_dict(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_dict(scope, x, 2, serial=False)
    outs = scope.fresh("scores")
    scope.emit(f"{outs} = {{}}")
    with scope.block(f"for key, head in self.{name}.items():"):
        scope.emit(f"{outs}[key] = head({x.text})")
    settle(scope, any_cat(scope, _each(scope, x, name, stack, KEYS), f"list({outs}.values())"))


@statement("loop over a literal tuple")
def for_literal(scope: Scope) -> None:
    made = values(scope, 2)
    outs, item = scope.fresh("acts"), scope.fresh("item")
    scope.emit(f"{outs} = []")
    row = ops.choose_row(scope, made[0], lambda each: each.shape is ops.same and not each.module and not each.named)
    scope.cover(row.key)
    with scope.block(f"for {item} in ({made[0].text}, {made[1].text}):"):
        scope.emit(f"{outs}.append({ops.fill(row, made[0].named(item))})")
    acts = [ops.effect(row, each, f"{outs}[{index}]", ()) for index, each in enumerate(made)]
    settle(scope, any_cat(scope, acts, outs))


@statement("one layer in a loop")
def repeated_layer(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x)
    name = scope.submodule(layer.constructor, "repeat")
    with scope.block("for _ in range(2):"):
        scope.emit(f"{x.text} = self.{name}({x.text})")
    scope.replace(x, layer.call(layer.call(x, x.text, name), x.text, name))


@statement("endless loop with a break")
def endless(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=True)
    counter = scope.fresh("index")
    scope.emit(f"{counter} = 0")
    with scope.block("while True:"):
        with scope.block(f"if {counter} >= 2:"):
            scope.emit("break")
        scope.emit(f"{x.text} = self.{name}[{counter}]({x.text})", f"{counter} = {counter} + 1")
    _through(scope, x, name, stack)


@statement("loop with alternating layers")
def alternating(scope: Scope) -> None:
    x = named_feature(scope)
    even, odd = ops.series(scope, x, 2)
    names = scope.submodule(even.constructor, "even"), scope.submodule(odd.constructor, "odd")
    outs = scope.fresh("waves")
    scope.emit(f"{outs} = []")
    with scope.block("for i in range(2):"):
        with scope.block("if i % 2 == 0:"):
            scope.emit(f"{x.text} = self.{names[0]}({x.text})")
        with scope.block("else:"):
            scope.emit(f"{x.text} = self.{names[1]}({x.text})")
        scope.emit(f"{outs}.append({x.text})")
    first = even.call(x, f"{outs}[0]", names[0])
    last = odd.call(first, x.text, names[1])
    scope.replace(x, last)
    settle(scope, any_cat(scope, [first, last], outs))


@statement("loop over two ModuleLists at once")
def loop_pairs(scope: Scope) -> None:
    x = named_feature(scope)
    first, a = module_list(scope, x, 2, serial=False, stem="convs")
    second, b = module_list(scope, x, 2, serial=False, stem="norms")
    outs = scope.fresh("paired")
    scope.emit(f"{outs} = []")
    with scope.block(f"for i, (conv, norm) in enumerate(zip(self.{first}, self.{second})):"):
        scope.emit(f"{outs}.append(norm(conv({x.text})))")
    scope.use(x)
    made = [
        outer.call(inner.call(x, "", first, str(i)), f"{outs}[{i}]", second, str(i))
        for i, (inner, outer) in enumerate(zip(a, b, strict=True))
    ]
    settle(scope, any_cat(scope, made, outs))


@statement("loop that names its results")
def loop_formatted(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=False, stem="levels")
    outs = scope.fresh("named_outs")
    scope.emit(f"{outs} = {{}}")
    with scope.block(f"for i, level in enumerate(self.{name}, start=3):"):
        scope.emit(f'{outs}[f"p{{i}}"] = level({x.text})')
    scope.use(x)
    made = [each.call(x, f'{outs}["p{i + 3}"]', name, str(i)) for i, each in enumerate(stack)]
    settle(scope, any_cat(scope, made))


@statement("loop that keeps chosen steps")
def loop_taps(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 3, serial=True)
    outs = scope.fresh("taps")
    scope.emit(f"{outs} = []")
    with scope.block(f"for i, layer in enumerate(self.{name}):"):
        scope.emit(f"{x.text} = layer({x.text})")
        with scope.block("if i in (0, 2):"):
            scope.emit(f"{outs}.append({x.text})")
    first = stack[0].call(x, f"{outs}[0]", name, "0")
    last = ops.chain(x, stack, name)
    scope.replace(x, last)
    settle(scope, any_cat(scope, [first, last.named(f"{outs}[1]")], outs))


@statement("loop over names of submodules")
def loop_names(scope: Scope) -> None:
    x = named_feature(scope)
    first, second = ops.series(scope, x, 2)
    names = scope.submodule(first.constructor, "step_a"), scope.submodule(second.constructor, "step_b")
    listing = scope.constant("order", f'("{names[0]}", "{names[1]}")')
    with scope.block(f"for name in self.{listing}:"):
        scope.emit(f"{x.text} = getattr(self, name)({x.text})")
    middle = first.call(x, x.text, names[0])
    scope.replace(x, second.call(middle, x.text, names[1]))


@statement("loop over keys")
def loop_keys(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_dict(scope, x, 2, serial=True)
    with scope.block(f'for key in ("{KEYS[0]}", "{KEYS[1]}"):'):
        scope.emit(f"{x.text} = self.{name}[key]({x.text})")
    made = stack[0].call(x, x.text, name, KEYS[0])
    scope.replace(x, stack[1].call(made, x.text, name, KEYS[1]))


# -- lists and dictionaries ---------------------------------------------------------------------------------


@statement("list append")
def list_append(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("feats")
    scope.emit(f"{name} = []", *(f"{name}.append({each.text})" for each in made))
    settle(scope, any_cat(scope, [each.named(f"{name}[{i}]") for i, each in enumerate(made)], name))


@statement("list extend")
def list_extend(scope: Scope) -> None:
    made = values(scope, 3)
    name = scope.fresh("feats")
    scope.emit(f"{name} = [{made[0].text}]", f"{name}.extend({listed(made[1:])})")
    settle(scope, any_cat(scope, [each.named(f"{name}[{i}]") for i, each in enumerate(made)], name))


@statement("list insert and pop")
def list_insert(scope: Scope) -> None:
    made = values(scope, 3)
    name, last = scope.fresh("queue"), scope.fresh("tail")
    scope.emit(f"{name} = {listed(made[:2])}", f"{name}.insert(0, {made[2].text})", f"{last} = {name}.pop()")
    scope.keep(made[1].named(last))
    settle(scope, any_cat(scope, [made[2].named(f"{name}[0]"), made[0].named(f"{name}[1]")], name))


@statement("list slices")
def list_slices(scope: Scope) -> None:
    made = values(scope, 3)
    name = scope.fresh("pyramid")
    scope.emit(f"{name} = {listed(made)}")
    parts = [each.named(f"{name}[{i}]") for i, each in enumerate(made)]
    seq, chosen = scope.rng.choice(
        [(f"{name}[1:]", parts[1:]), (f"{name}[::-1]", parts[::-1]), (f"{name}[:-1]", parts[:-1])]
    )
    scope.keep(parts[0])
    settle(scope, any_cat(scope, chosen, seq))


@statement("assignment to a list element")
def list_element(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("slots")
    scope.emit(f"{name} = {listed(made)}")
    first = same(scope, made[1].named(f"{name}[1]"))
    scope.emit(f"{name}[0] = {first.text}")
    settle(scope, any_cat(scope, [first.named(f"{name}[0]"), made[1].named(f"{name}[1]")], name))


@statement("alias of a list")
def list_alias(scope: Scope) -> None:
    made = values(scope, 2)
    name, other = scope.fresh("collected"), scope.fresh("same_list")
    scope.emit(f"{name} = [{made[0].text}]", f"{other} = {name}", f"{other}.append({made[1].text})")
    settle(scope, any_cat(scope, [each.named(f"{name}[{i}]") for i, each in enumerate(made)], name))


@statement("tuple and index")
def tuple_index(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("pair")
    scope.emit(f"{name} = ({made[0].text}, {made[1].text})")
    scope.bind(same(scope, made[1].named(f"{name}[-1]")))
    settle(scope, any_cat(scope, [each.named(f"{name}[{i}]") for i, each in enumerate(made)], name))


@statement("list comprehension over modules")
def comprehension(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=False, stem="branches")
    made = _each(scope, x, name, stack)
    settle(scope, any_cat(scope, made, f"[branch({x.text}) for branch in self.{name}]"))


@statement("list comprehension with a condition")
def filtered(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 3, serial=False, stem="branches")
    made = _each(scope, x, name, stack)
    text = f"[m({x.text}) for i, m in enumerate(self.{name}) if i != 1]"
    settle(scope, any_cat(scope, [made[0], made[2]], text))


@statement("comprehension over a zip")
def zipped(scope: Scope) -> None:
    inputs = group(scope)
    name, stack = module_list(scope, inputs[0], 2, serial=False, stem="adapters")
    scope.use(*inputs)
    made = [layer.call(x, "", name, str(i)) for i, (layer, x) in enumerate(zip(stack, inputs, strict=True))]
    settle(scope, any_cat(scope, made, f"[m(f) for m, f in zip(self.{name}, {listed(inputs)})]"))


@statement("generator turned into a tuple")
def generator(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=False, stem="towers")
    made = _each(scope, x, name, stack)
    settle(scope, any_cat(scope, made, f"tuple(tower({x.text}) for tower in self.{name})"))


@statement("unpacked comprehension")
def unpacked(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_list(scope, x, 2, serial=False, stem="heads")
    scope.use(x)
    names = scope.fresh("cls_map"), scope.fresh("box_map")
    scope.emit(f"{names[0]}, {names[1]} = [head({x.text}) for head in self.{name}]")
    scope.keep(*(each.call(x, n, name, str(i)) for i, (each, n) in enumerate(zip(stack, names, strict=True))))


@statement("dictionary of features")
def dictionary(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("features")
    scope.emit(f'{name} = {{"low": {made[0].text}, "high": {made[1].text}}}')
    parts = [each.named(f'{name}["{key}"]') for key, each in zip(("low", "high"), made, strict=True)]
    settle(scope, any_cat(scope, parts))


@statement("dictionary filled by item")
def dictionary_items(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("store")
    scope.emit(f"{name} = {{}}", f'{name}["a"] = {made[0].text}', f'{name}["b"] = {made[1].text}')
    parts = [each.named(f'{name}["{key}"]') for key, each in zip("ab", made, strict=True)]
    settle(scope, any_cat(scope, parts[::-1], f'[{name}[k] for k in ("b", "a")]'))


@statement("dictionary values")
def dictionary_values(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("levels")
    scope.emit(f"{name} = dict(p3={made[0].text}, p4={made[1].text})")
    parts = [each.named(f'{name}["{key}"]') for key, each in zip(("p3", "p4"), made, strict=True)]
    settle(scope, any_cat(scope, parts, f"tuple({name}.values())"))


@statement("dictionary of a zip")
def dictionary_zip(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("zipped")
    scope.emit(f'{name} = dict(zip(("top", "bottom"), {listed(made)}))')
    parts = [each.named(f'{name}["{key}"]') for key, each in zip(("top", "bottom"), made, strict=True)]
    settle(scope, any_cat(scope, parts[::-1], f"[{name}[key] for key in sorted({name})]"))


@statement("dictionary update and get")
def dictionary_update(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("state")
    scope.emit(f'{name} = {{"x": {made[0].text}}}', f'{name}.update({{"y": {made[1].text}}})')
    parts = [made[0].named(f'{name}.get("x")'), made[1].named(f'{name}.pop("y")')]
    settle(scope, any_cat(scope, parts))


@statement("dictionary comprehension")
def dictionary_comprehension(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_dict(scope, x, 2, serial=False)
    outs = scope.fresh("by_name")
    scope.emit(f"{outs} = {{key: m({x.text}) for key, m in self.{name}.items()}}")
    parts = _each(scope, x, name, stack, KEYS)
    settle(scope, any_cat(scope, [each.named(f'{outs}["{key}"]') for key, each in zip(KEYS, parts, strict=False)]))


# -- submodules ---------------------------------------------------------------------------------------------


@statement("call of a Sequential")
def call_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = sequential(scope, x, 3)
    scope.use(x)
    made = scope.bind(ops.chain(x, stack, name).named(f"self.{name}({x.text})"))
    if scope.rng.random() < 0.5:
        settle(scope, any_cat(scope, [x, made]))


@statement("Sequentials one after the other")
def stages(scope: Scope) -> None:
    x = named_feature(scope)
    outs = []
    for stem in ("stage_one", "stage_two"):
        name, stack = sequential(scope, x, 2, stem)
        scope.use(x)
        x = scope.bind(ops.chain(x, stack, name).named(f"self.{name}({x.text})"))
        outs.append(x)
    settle(scope, any_cat(scope, outs))


@statement("Sequentials side by side")
def two_sequentials(scope: Scope) -> None:
    x = named_feature(scope)
    built = [sequential(scope, x, 2, stem) for stem in ("branch_a", "branch_b", "branch_c")]
    scope.use(x)
    made = [ops.chain(x, stack, name).named(f"self.{name}({x.text})") for name, stack in built]
    settle(scope, any_cat(scope, made))


@statement("index into a Sequential")
def index_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = sequential(scope, x, 2)
    scope.use(x)
    first = scope.bind(stack[0].call(x, f"self.{name}[0]({x.text})", name, "0"))
    scope.use(first)
    second = scope.bind(stack[1].call(first, f"self.{name}[-1]({first.text})", name, "1"))
    settle(scope, any_cat(scope, [first, second]))


@statement("slice of a Sequential")
def slice_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = sequential(scope, x, 3)
    scope.use(x)
    head = scope.bind(ops.chain(x, stack[:2], name).named(f"self.{name}[:2]({x.text})"))
    scope.use(head)
    tail = scope.bind(stack[2].call(head, f"self.{name}[2:]({head.text})", name, "2"))
    settle(scope, any_cat(scope, [head, tail]))


@statement("loop over a Sequential")
def loop_sequential(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = sequential(scope, x, 2)
    with scope.block(f"for step in self.{name}{scope.rng.choice(('', '.children()'))}:"):
        scope.emit(f"{x.text} = step({x.text})")
    _through(scope, x, name, stack)


@statement("Sequential with a member a flag adds")
def conditional_member(scope: Scope) -> None:
    x = named_feature(scope)
    base, extra = ops.series(scope, x, 2)
    name, local = scope.owner.fresh("body"), scope.owner.fresh("members")
    flag, value = scope.owner.fresh("use_norm"), scope.rng.random() < 0.5
    scope.owner.params.append(f"{flag}={value}")
    scope.owner.add(f"{local} = [{base.constructor}]")
    scope.owner.add(f"if {flag}:")
    scope.owner.add(f"    {local}.append({extra.constructor})")
    scope.owner.add(f"self.{name} = nn.Sequential(*{local})")
    scope.use(x)
    made = ops.chain(x, [base, extra] if value else [base], name)
    bound = scope.bind(made.named(f"self.{name}({x.text})"))
    settle(scope, any_cat(scope, [x, bound]))


@statement("layers built from a tuple of widths")
def widths(scope: Scope) -> None:
    x = named_feature(scope)
    c = x.channels
    constant = scope.file.fresh("WIDTHS")
    scope.file.constants.append(f"{constant} = ({c}, {c})")
    name = scope.owner.fresh("convs")
    scope.owner.add(f"self.{name} = nn.ModuleList([nn.Conv2d({c}, width, 1) for width in {constant}])")
    scope.use(x)
    made = [Tensor("", x.shape, own(name, str(index))) for index in range(2)]
    settle(scope, any_cat(scope, made, f"[conv({x.text}) for conv in self.{name}]"))


@statement("layer with unpacked keyword arguments")
def unpacked_keywords(scope: Scope) -> None:
    x = named_feature(scope)
    local = scope.owner.fresh("options")
    scope.owner.add(f"{local} = dict(kernel_size=3, padding=1)")
    name = scope.submodule(f"nn.Conv2d({x.channels}, {x.channels}, **{local})", "conv")
    scope.use(x)
    made = scope.bind(Tensor(f"self.{name}({x.text})", x.shape, own(name)))
    settle(scope, any_cat(scope, [made, x]))


@statement("layer from a registry of classes")
def registry(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x, lambda row: row.shape is ops.same and row.template.endswith("()"))
    table = scope.file.fresh("ACTIVATIONS")
    kind = layer.constructor.removesuffix("()")
    scope.file.constants.append(f'{table} = {{"plain": nn.Sigmoid, "chosen": {kind}}}')
    name = scope.submodule(f'{table}["chosen"]()', "act")
    scope.use(x)
    made = scope.bind(layer.call(x, f"self.{name}({x.text})", name))
    settle(scope, any_cat(scope, [made, x]))


@statement("property that lists submodules")
def listed_property(scope: Scope) -> None:
    x = named_feature(scope)
    stack = ops.series(scope, x, 2)
    names = [scope.submodule(each.constructor, "unit") for each in stack]
    listing = scope.owner.fresh("units")
    scope.owner.methods.append(["@property", f"def {listing}(self):", f"    return [self.{names[0]}, self.{names[1]}]"])
    with scope.block(f"for unit in self.{listing}:"):
        scope.emit(f"{x.text} = unit({x.text})")
    scope.replace(x, stack[1].call(stack[0].call(x, x.text, names[0]), x.text, names[1]))


@statement("getattr with a joined string")
def getattr_joined(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x)
    prefix = scope.owner.fresh("layer")
    scope.owner.add(f"self.{prefix}_1 = {layer.constructor}")
    scope.use(x)
    scope.bind(layer.call(x, f'getattr(self, "{prefix}_" + str(1))({x.text})', f"{prefix}_1"))


@statement("ModuleDict by key")
def dict_key(scope: Scope) -> None:
    x = named_feature(scope)
    name, stack = module_dict(scope, x, 2, serial=False)
    made = _each(scope, x, name, stack, KEYS)
    calls = [f'self.{name}["{key}"]({x.text})' for key in KEYS]
    settle(scope, any_cat(scope, [each.named(call) for call, each in zip(calls, made, strict=False)]))


@statement("getattr with an f-string")
def getattr_format(scope: Scope) -> None:
    x = named_feature(scope)
    stack = [ops.layer(scope, x, ops.weighted)] * 2
    prefix = scope.owner.fresh("stage")
    scope.owner.add("for i in range(2):")
    scope.owner.add(f'    setattr(self, f"{prefix}_{{i}}", {stack[0].constructor})')
    outs = scope.fresh("per_stage")
    scope.emit(f"{outs} = []")
    with scope.block("for i in range(2):"):
        scope.emit(f'{outs}.append(getattr(self, f"{prefix}_{{i}}")({x.text}))')
    scope.use(x)
    made = [each.call(x, f"{outs}[{i}]", f"{prefix}_{i}") for i, each in enumerate(stack)]
    settle(scope, any_cat(scope, made, outs))


@statement("getattr with a constant")
def getattr_constant(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x)
    name = scope.owner.fresh("proj")
    scope.owner.add(f'self.add_module("{name}", {layer.constructor})')
    scope.use(x)
    scope.bind(layer.call(x, f'getattr(self, "{name}")({x.text})', name))


@statement("alias of a submodule")
def alias_submodule(scope: Scope) -> None:
    a, b = group(scope)
    layer = ops.layer(scope, a)
    name = scope.submodule(layer.constructor, "mix")
    local = scope.fresh("mix")
    scope.emit(f"{local} = self.{name}")
    scope.use(a, b)
    made = [scope.bind(layer.call(each, f"{local}({each.text})", name)) for each in (a, b)]
    settle(scope, any_cat(scope, made))


@statement("deepcopy of a submodule")
def deepcopy(scope: Scope) -> None:
    scope.file.imports.standard("import copy")
    a, b = group(scope)
    layer = ops.layer(scope, a, ops.weighted)
    first = scope.submodule(layer.constructor, "source")
    second = scope.submodule(f"copy.deepcopy(self.{first})", "twin")
    scope.use(a, b)
    made = [layer.call(each, f"self.{name}({each.text})", name) for each, name in ((a, first), (b, second))]
    settle(scope, any_cat(scope, made))


@statement("layer made by a class in a variable")
def class_variable(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x, lambda row: row.shape is ops.same and row.template.endswith("()"))
    local = scope.owner.fresh("act_layer")
    scope.owner.add(f"{local} = {layer.constructor.removesuffix('()')}")
    name = scope.submodule(f"{local}()", "act")
    scope.use(x)
    made = scope.bind(layer.call(x, f"self.{name}({x.text})", name))
    settle(scope, any_cat(scope, [made, x]))


# -- functions ----------------------------------------------------------------------------------------------


def _inside(scope: Scope, tensors: Sequence[Tensor], names: Sequence[str], cls: bool) -> Scope:
    """The body of a function called with `tensors` under `names`."""
    if scope.level > 2:
        raise NotHere
    pool = [each.named(name) for each, name in zip(tensors, names, strict=True)]
    return scope.inner(pool, scope.cls if cls else None)


def _method(scope: Scope, stem: str, signature: str, body: Scope, result: str = "", *decorators: str) -> str:
    """Write a method of the class that returns `result`; gives its name."""
    name = scope.owner.fresh(stem)
    scope.owner.methods.append([*decorators, *_definition(name, signature, body, result)])
    return name


def _function(scope: Scope, stem: str, signature: str, body: Scope, result: str = "") -> str:
    """Write a function of the file that returns `result`; gives its name."""
    name = scope.file.fresh(stem)
    scope.file.functions.append(_definition(name, signature, body, result))
    return name


def _definition(name: str, signature: str, body: Scope, result: str) -> list[str]:
    lines = [*body.lines, *([f"return {result}"] if result else [])]
    return [f"def {name}({signature}):", *(f"    {line}" for line in lines)]


@statement("helper method")
def helper(scope: Scope) -> None:
    a, b = group(scope)
    body = _inside(scope, (a, b), ("a", "b"), True)
    joined = any_cat(body, [body.bind(same(body, body.pool[0])), body.pool[1]])
    name = _method(scope, "_merge", "self, a, b", body, joined.text)
    scope.use(a, b)
    settle(scope, joined.named(f"self.{name}({a.text}, {b.text})"))


@statement("helper method with star arguments")
def helper_star(scope: Scope) -> None:
    tensors = group(scope, scope.rng.choice((2, 3)))
    names = [f"feats[{i}]" for i in range(len(tensors))]
    body = _inside(scope, tensors, names, True)
    joined = any_cat(body, body.pool, "feats")
    name = _method(scope, "_join", "self, *feats", body, joined.text)
    scope.use(*tensors)
    call = scope.rng.choice((", ".join(each.text for each in tensors), f"*{listed(tensors)}"))
    settle(scope, joined.named(f"self.{name}({call})"))


@statement("helper method with keyword arguments")
def helper_keywords(scope: Scope) -> None:
    a, b = group(scope)
    body = _inside(scope, (a, b), ("low", "high"), True)
    joined = raw(body, body.pool)
    name = _method(scope, "_combine", "self, low, *, high, scale=1", body, joined.text)
    scope.use(a, b)
    settle(scope, joined.named(f"self.{name}(high={b.text}, low={a.text})"))


@statement("helper method with an early return")
def early_return(scope: Scope) -> None:
    x, early = named_feature(scope), scope.rng.random() < 0.5
    body = _inside(scope, (x,), ("x",), True)
    inner = body.pool[0]
    results = []
    for runs, header in ((early, f"if {decide(body, early)}:"), (not early, "")):
        if header:
            body.emit(header)
        if runs:
            results.append(same(body, inner))
            body.emit("    " * bool(header) + f"return {results[0].text}")
        else:
            with body.unreachable():
                body.emit("    " * bool(header) + f"return {same(body, inner).text}")
    (result,) = results
    name = _method(scope, "_refine", "self, x", body)
    scope.use(x)
    made = scope.bind(result.named(f"self.{name}({x.text})"))
    settle(scope, any_cat(scope, [x, made]))


@statement("helper method returning two tensors")
def helper_two(scope: Scope) -> None:
    x = named_feature(scope)
    body = _inside(scope, (x,), ("x",), True)
    made = [same(body, body.pool[0]), same(body, body.pool[0])]
    body.emit(f"return {made[0].text}, {made[1].text}")
    name = _method(scope, "_split", "self, x", body)
    scope.use(x)
    names = scope.fresh("near"), scope.fresh("far")
    scope.emit(f"{names[0]}, {names[1]} = self.{name}({x.text})")
    parts = [each.named(n) for each, n in zip(made, names, strict=True)]
    scope.keep(*parts)
    settle(scope, any_cat(scope, parts))


@statement("helper method with an optional argument")
def helper_optional(scope: Scope) -> None:
    a, b = group(scope)
    given = scope.rng.random() < 0.5
    body = _inside(scope, (a, b) if given else (a,), ("x", "skip") if given else ("x",), True)
    x = body.pool[0]
    joined = raw(body, body.pool, only=joins.along(1)) if given else same(body, x)
    with body.unreachable():
        other = same(body, x).text if given else "torch.cat([x, skip], 1)"
    body.emit("if skip is not None:", f"    return {joined.text if given else other}")
    body.emit(f"return {other if given else joined.text}")
    name = _method(scope, "_fuse", "self, x, skip=None", body)
    scope.use(a)
    settle(scope, joined.named(f"self.{name}({a.text}, {b.text})" if given else f"self.{name}({a.text})"))


@statement("helper method that calls itself")
def recursion(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x, ops.observed)
    attribute, name = scope.submodule(layer.constructor, "again"), scope.owner.fresh("_repeat")
    scope.owner.methods.append(
        [
            f"def {name}(self, x, depth):",
            "    if depth == 0:",
            "        return x",
            f"    return self.{name}(self.{attribute}(x), depth - 1)",
        ]
    )
    scope.use(x)
    made = scope.bind(layer.call(x, f"self.{name}({x.text}, 2)", attribute))
    settle(scope, any_cat(scope, [x, made]))


@statement("helper method with keyword dictionary")
def helper_double_star(scope: Scope) -> None:
    a, b = group(scope)
    body = _inside(scope, (a, b), ('feats["low"]', 'feats["high"]'), True)
    joined = any_cat(body, body.pool)
    name = _method(scope, "_gather", "self, **feats", body, joined.text)
    scope.use(a, b)
    settle(scope, joined.named(f"self.{name}(low={a.text}, high={b.text})"))


@statement("closure over a tensor")
def closure(scope: Scope) -> None:
    a, b = group(scope)
    name = scope.fresh("with_skip")
    body = _inside(scope, (a, b), ("p", b.text), False)
    joined = raw(body, body.pool)
    with scope.block(f"def {name}(p):"):
        scope.emit(f"return {joined.text}")
    scope.emit("")
    scope.use(a, b)
    settle(scope, joined.named(f"{name}({a.text})"))


@statement("static method")
def static_method(scope: Scope) -> None:
    a, b = group(scope)
    body = _inside(scope, (a, b), ("a", "b"), False)
    joined = raw(body, body.pool)
    name = _method(scope, "_concat", "a, b", body, joined.text, "@staticmethod")
    scope.use(a, b)
    settle(scope, joined.named(f"{scope.rng.choice(('self', scope.owner.name))}.{name}({a.text}, {b.text})"))


@statement("function in the file")
def file_function(scope: Scope) -> None:
    a, b = group(scope)
    body = _inside(scope, (a, b), ("a", "b"), False)
    joined = raw(body, [body.bind(same(body, body.pool[0])), body.pool[1]])
    name = _function(scope, "merge_features", "a: torch.Tensor, b: torch.Tensor", body, joined.text)
    scope.use(a, b)
    settle(scope, joined.named(f"{name}({a.text}, {b.text})"))


@statement("function in the file taking a list")
def file_function_list(scope: Scope) -> None:
    tensors = group(scope, 2)
    body = _inside(scope, tensors, ("feats[0]", "feats[1]"), False)
    joined = raw(body, body.pool, "feats", joins.plain_cat)
    body.emit(f"return {joined.text.replace(', 1)', ', dim)').replace('=1)', '=dim)')}")
    name = _function(scope, "concat_all", "feats, dim=1", body)
    scope.use(*tensors)
    settle(scope, joined.named(f"{name}({listed(tensors)})"))


@statement("function in the file given a module")
def file_function_module(scope: Scope) -> None:
    x = named_feature(scope)
    layer = ops.layer(scope, x)
    attribute = scope.submodule(layer.constructor, "tail")
    body = _inside(scope, (x,), ("x",), False)
    made = layer.call(x, "module(x)", attribute)
    joined = raw(body, [x.named("x"), made])
    name = _function(scope, "dense_step", "module, x", body, joined.text)
    scope.use(x)
    settle(scope, joined.named(f"{name}(self.{attribute}, {x.text})"))


@statement("nested function")
def nested_function(scope: Scope) -> None:
    a, b = group(scope)
    name = scope.fresh("fuse_pair")
    body = _inside(scope, (a, b), ("p", "q"), False)
    joined = raw(body, body.pool)
    body.emit(f"return {joined.text}")
    with scope.block(f"def {name}(p, q):"):
        scope.emit(*body.lines)
    scope.emit("")
    scope.use(a, b)
    settle(scope, joined.named(f"{name}({a.text}, {b.text})"))


@statement("lambda")
def lambda_function(scope: Scope) -> None:
    a, b = group(scope)
    name = scope.fresh("join_pair")
    joined = raw(scope, [a.named("p"), b.named("q")])
    scope.emit(f"{name} = lambda p, q: {joined.text}")
    scope.use(a, b)
    settle(scope, joined.named(f"{name}({a.text}, {b.text})"))


@statement("local alias of a function")
def local_alias(scope: Scope) -> None:
    joined = raw(scope, group(scope), only=joins.plain_cat)
    name = scope.fresh("glue")
    scope.emit(f"{name} = torch.cat")
    settle(scope, joined.named(joined.text.replace("torch.cat(", f"{name}(")))


@statement("module alias of a function")
def module_alias(scope: Scope) -> None:
    joined = raw(scope, group(scope), only=joins.plain_cat)
    name = scope.file.fresh("concat_features")
    scope.file.constants.append(f"{name} = torch.cat")
    settle(scope, joined.named(joined.text.replace("torch.cat(", f"{name}(")))


@statement("partial of a function")
def partial(scope: Scope) -> None:
    scope.file.imports.standard("from functools import partial")
    joined = raw(scope, group(scope), only=lambda family: family.template == "torch.cat({seq}, dim=1)")
    name = scope.fresh("cat_channels")
    scope.emit(f"{name} = partial(torch.cat, dim=1)")
    settle(scope, joined.named(joined.text.replace("torch.cat(", f"{name}(").replace(", dim=1)", ")")))


@statement("map over tensors")
def map_call(scope: Scope) -> None:
    tensors = group(scope)
    layer = ops.layer(scope, tensors[0])
    name = scope.submodule(layer.constructor, "shared")
    scope.use(*tensors)
    made = [layer.call(each, "", name) for each in tensors]
    settle(scope, any_cat(scope, made, f"list(map(self.{name}, {listed(tensors)}))"))


@statement("dispatch through a dictionary")
def dispatch(scope: Scope) -> None:
    x = named_feature(scope)
    a, b = ops.parallel(scope, x, 2)
    names = scope.submodule(a.constructor, "fast"), scope.submodule(b.constructor, "slow")
    mode = scope.constant("path", '"slow"')
    scope.use(x)
    call = f'{{"fast": self.{names[0]}, "slow": self.{names[1]}}}[self.{mode}]({x.text})'
    scope.bind(b.call(x, call, names[1]))


@statement("named tuple")
def named_tuple(scope: Scope) -> None:
    made = values(scope, 2)
    kind = scope.file.fresh("Features")
    scope.file.imports.standard("from typing import NamedTuple")
    scope.file.functions.append([f"class {kind}(NamedTuple):", "    low: torch.Tensor", "    high: torch.Tensor"])
    name = scope.fresh("bundle")
    scope.emit(f"{name} = {kind}({made[0].text}, high={made[1].text})")
    settle(scope, any_cat(scope, [made[0].named(f"{name}.low"), made[1].named(f"{name}.high")]))


@statement("dataclass")
def data_class(scope: Scope) -> None:
    made = values(scope, 2)
    kind = scope.file.fresh("Outputs")
    scope.file.imports.standard("from dataclasses import dataclass")
    scope.file.functions.append(["@dataclass", f"class {kind}:", "    main: torch.Tensor", "    aux: torch.Tensor"])
    name = scope.fresh("record")
    scope.emit(f"{name} = {kind}(main={made[0].text}, aux={made[1].text})")
    settle(scope, any_cat(scope, [made[0].named(f"{name}.main"), made[1].named(f"{name}.aux")]))


@statement("attribute of a constant from the constructor")
def constant_dimension(scope: Scope) -> None:
    joined = raw(scope, group(scope), only=lambda family: family.template == "torch.cat({seq}, dim=1)")
    name = scope.constant("axis", "1")
    settle(scope, joined.named(joined.text.replace("dim=1)", f"dim=self.{name})")))


@statement("text before a call on its line")
def unicode_text(scope: Scope) -> None:
    made = values(scope, 2)
    name = scope.fresh("named")
    scope.emit(f'{name} = {{"größe": {made[0].text}, "höhe": {made[1].text}}}')
    parts = [made[0].named(f'{name}["größe"]'), made[1].named(f'{name}["höhe"]')]
    first = same(scope, parts[0])
    joined = raw(scope, parts)
    names = scope.fresh("lower"), scope.fresh("upper")
    scope.emit(f"{names[0]}, {names[1]} = {first.text}, {joined.text}")
    scope.keep(first.named(names[0]), joined.named(names[1]))


def anything(scope: Scope, keys: Sequence[str]) -> None:
    """One piece of the given keys, the emptiest that applies."""
    table = {**STATEMENTS, **joins.JOINS}
    left = list(keys)
    while left:
        key = scope.file.choose(left)
        if scope.attempt(table[key]):
            scope.cover(key)
            return
        left.remove(key)
    raise NotHere
