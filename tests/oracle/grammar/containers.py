"""Ways a constructor fills a ModuleList, a Sequential or a ModuleDict. To add one, decorate a function.

A builder gets the attribute and the constructors of its members, and writes into `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.oracle.grammar import operators as ops
from tests.oracle.grammar.core import NotHere, Scope, Tensor
from tests.oracle.grammar.operators import Layer

Builder = Callable[[Scope, str, Sequence[str]], None]
LISTS: dict[str, Builder] = {}
SEQUENTIALS: dict[str, Builder] = {}
DICTS: dict[str, Builder] = {}
KEYS = ("low", "mid", "high", "top")


def builder(table: dict[str, Builder], name: str) -> Callable[[Builder], Builder]:
    def register(function: Builder) -> Builder:
        table[f"build: {name}"] = function
        return function

    return register


def _uniform(texts: Sequence[str]) -> str:
    if len(set(texts)) != 1:
        raise NotHere
    return texts[0]


# -- ModuleList ---------------------------------------------------------------------------------------------


@builder(LISTS, "ModuleList of a literal")
def list_literal(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.ModuleList([{', '.join(texts)}])")


@builder(LISTS, "ModuleList of a comprehension")
def list_comprehension(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.ModuleList([{_uniform(texts)} for _ in range({len(texts)})])")


@builder(LISTS, "ModuleList of a generator")
def list_generator(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.ModuleList({_uniform(texts)} for _ in range({len(texts)}))")


@builder(LISTS, "ModuleList filled by append")
def list_append(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.ModuleList()")
    for text in texts:
        scope.owner.add(f"self.{name}.append({text})")


@builder(LISTS, "ModuleList filled in a loop")
def list_loop(scope: Scope, name: str, texts: Sequence[str]) -> None:
    text = _uniform(texts)
    scope.owner.add(f"self.{name} = nn.ModuleList()")
    scope.owner.add(f"for _ in range({len(texts)}):")
    scope.owner.add(f"    self.{name}.append({text})")


@builder(LISTS, "ModuleList filled by extend")
def list_extend(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.ModuleList([{texts[0]}])")
    scope.owner.add(f"self.{name}.extend([{', '.join(texts[1:])}])")


@builder(LISTS, "ModuleList of a list variable")
def list_variable(scope: Scope, name: str, texts: Sequence[str]) -> None:
    local = scope.owner.fresh("blocks")
    scope.owner.add(f"{local} = []")
    for text in texts:
        scope.owner.add(f"{local}.append({text})")
    scope.owner.add(f"self.{name} = nn.ModuleList({local})")


@builder(LISTS, "ModuleList repeated by a method of the class")
def list_method(scope: Scope, name: str, texts: Sequence[str]) -> None:
    method = scope.owner.fresh("_make_layers")
    body = [f"        {text}," for text in texts]
    if "channels" in "".join(texts) and scope.owner.width is not None:
        raise NotHere
    scope.owner.methods.append([f"def {method}(self):", "    return nn.ModuleList([", *body, "    ])"])
    scope.owner.add(f"self.{name} = self.{method}()")


# -- Sequential ---------------------------------------------------------------------------------------------


@builder(SEQUENTIALS, "Sequential of arguments")
def sequential_arguments(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.Sequential({', '.join(texts)})")


@builder(SEQUENTIALS, "Sequential over several lines")
def sequential_lines(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.Sequential(")
    for text in texts:
        scope.owner.add(f"    {text},")
    scope.owner.add(")")


@builder(SEQUENTIALS, "Sequential of a starred list")
def sequential_starred(scope: Scope, name: str, texts: Sequence[str]) -> None:
    local = scope.owner.fresh("stack")
    scope.owner.add(f"{local} = [{', '.join(texts)}]")
    scope.owner.add(f"self.{name} = nn.Sequential(*{local})")


@builder(SEQUENTIALS, "Sequential of a starred list filled in a loop")
def sequential_loop(scope: Scope, name: str, texts: Sequence[str]) -> None:
    text = _uniform(texts)
    local = scope.owner.fresh("stack")
    scope.owner.add(f"{local} = []")
    scope.owner.add(f"for _ in range({len(texts)}):")
    scope.owner.add(f"    {local} += [{text}]")
    scope.owner.add(f"self.{name} = nn.Sequential(*{local})")


@builder(SEQUENTIALS, "Sequential of a starred comprehension")
def sequential_comprehension(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.Sequential(*[{_uniform(texts)} for _ in range({len(texts)})])")


@builder(SEQUENTIALS, "Sequential of an OrderedDict")
def sequential_ordered(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.file.imports.standard("from collections import OrderedDict")
    items = ", ".join(f'("{index}", {text})' for index, text in enumerate(texts))
    scope.owner.add(f"self.{name} = nn.Sequential(OrderedDict([{items}]))")


@builder(SEQUENTIALS, "Sequential filled by add_module")
def sequential_add(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.Sequential()")
    for index, text in enumerate(texts):
        scope.owner.add(f'self.{name}.add_module("{index}", {text})')


@builder(SEQUENTIALS, "Sequential made by a function of the file")
def sequential_function(scope: Scope, name: str, texts: Sequence[str]) -> None:
    if any("channels" in text for text in texts):
        raise NotHere
    function = scope.file.fresh("make_block")
    scope.file.factories.append([f"def {function}():", f"    return nn.Sequential({', '.join(texts)})"])
    scope.owner.add(f"self.{name} = {function}()")


@builder(SEQUENTIALS, "Sequential made by a method of the class")
def sequential_method(scope: Scope, name: str, texts: Sequence[str]) -> None:
    text = _uniform(texts)
    if "channels" in text:
        raise NotHere
    method = scope.owner.fresh("_make_layer")
    scope.owner.methods.append(
        [
            f"def {method}(self, count):",
            "    layers = []",
            "    for _ in range(count):",
            f"        layers.append({text})",
            "    return nn.Sequential(*layers)",
        ]
    )
    scope.owner.add(f"self.{name} = self.{method}({len(texts)})")


# -- ModuleDict ---------------------------------------------------------------------------------------------


@builder(DICTS, "ModuleDict of a literal")
def dict_literal(scope: Scope, name: str, texts: Sequence[str]) -> None:
    items = ", ".join(f'"{key}": {text}' for key, text in zip(KEYS, texts, strict=False))
    scope.owner.add(f"self.{name} = nn.ModuleDict({{{items}}})")


@builder(DICTS, "ModuleDict filled by item")
def dict_items(scope: Scope, name: str, texts: Sequence[str]) -> None:
    scope.owner.add(f"self.{name} = nn.ModuleDict()")
    for key, text in zip(KEYS, texts, strict=False):
        scope.owner.add(f'self.{name}["{key}"] = {text}')


@builder(DICTS, "ModuleDict of a comprehension")
def dict_comprehension(scope: Scope, name: str, texts: Sequence[str]) -> None:
    keys = ", ".join(f'"{key}"' for key in KEYS[: len(texts)])
    scope.owner.add(f"self.{name} = nn.ModuleDict({{key: {_uniform(texts)} for key in ({keys})}})")


# -- using them ---------------------------------------------------------------------------------------------


def build(scope: Scope, table: dict[str, Builder], name: str, texts: Sequence[str]) -> None:
    """Fill the container `name` in some way that fits the constructors."""
    keys = list(table)
    while keys:
        key = scope.file.choose(keys)
        try:
            table[key](scope, name, texts)
        except NotHere:
            keys.remove(key)
            continue
        scope.cover(key)
        return
    raise NotHere


def stack(scope: Scope, x: Tensor, count: int, *, serial: bool) -> list[Layer]:
    """`count` layers for `x`; more often than not all of one constructor."""
    if scope.rng.random() < 0.7:
        one = ops.layer(scope, x, ops.weighted)
        return [one] * count
    return ops.series(scope, x, count) if serial else ops.parallel(scope, x, count)


def _container(
    scope: Scope, table: dict[str, Builder], stem: str, x: Tensor, count: int, *, serial: bool
) -> tuple[str, list[Layer]]:
    """A container whose members fit `x`: one after the other, or side by side."""
    layers = stack(scope, x, count, serial=serial)
    name = scope.owner.fresh(stem)
    build(scope, table, name, [each.constructor for each in layers])
    return name, layers


def module_list(scope: Scope, x: Tensor, count: int, *, serial: bool, stem: str = "layers") -> tuple[str, list[Layer]]:
    """A ModuleList whose members fit `x`."""
    return _container(scope, LISTS, stem, x, count, serial=serial)


def sequential(scope: Scope, x: Tensor, count: int, stem: str = "body") -> tuple[str, list[Layer]]:
    """A Sequential that fits `x`."""
    return _container(scope, SEQUENTIALS, stem, x, count, serial=True)


def module_dict(scope: Scope, x: Tensor, count: int, *, serial: bool) -> tuple[str, list[Layer]]:
    """A ModuleDict whose members fit `x`."""
    return _container(scope, DICTS, "heads", x, count, serial=serial)
