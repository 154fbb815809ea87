"""Conditions whose value the text decides.

A producer gets the value the condition must have and returns its text. To add one, write a function and put
`@condition("its name")` on it.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.grammar.core import NotHere, Scope

Producer = Callable[[Scope, bool], str]
CONDITIONS: dict[str, Producer] = {}
FLAGS = ("use_skip", "with_act", "refine", "deep", "fused", "attend", "residual", "enabled")
MODES = ("sum", "concat", "gate", "none")


def condition(name: str) -> Callable[[Producer], Producer]:
    def register(producer: Producer) -> Producer:
        CONDITIONS[f"if: {name}"] = producer
        return producer

    return register


def decide(scope: Scope, value: bool) -> str:
    """The text of some condition that is `value` whenever the model runs."""
    keys = list(CONDITIONS)
    while keys:
        key = scope.file.choose(keys)
        try:
            text = CONDITIONS[key](scope, value)
        except NotHere:
            keys.remove(key)
            continue
        scope.cover(key)
        return text
    raise NotHere


def _flag(scope: Scope) -> str:
    return scope.rng.choice(FLAGS)


@condition("constant attribute")
def constant_attribute(scope: Scope, value: bool) -> str:
    return f"self.{scope.constant(_flag(scope), str(value))}"


@condition("class attribute")
def class_attribute(scope: Scope, value: bool) -> str:
    name = scope.owner.fresh(_flag(scope))
    scope.owner.attributes.append(f"{name} = {value}")
    return f"self.{name}"


@condition("module constant")
def module_constant(scope: Scope, value: bool) -> str:
    name = scope.file.fresh(_flag(scope).upper())
    scope.file.constants.append(f"{name} = {value}")
    return name


@condition("constructor flag with its default")
def flag_default(scope: Scope, value: bool) -> str:
    name = scope.owner.fresh(_flag(scope))
    scope.owner.params.append(f"{name}={value}")
    scope.owner.add(f"self.{name} = {name}")
    return f"self.{name}"


@condition("constructor flag the caller passes")
def flag_passed(scope: Scope, value: bool) -> str:
    if scope.owner.root:
        raise NotHere
    name = scope.owner.fresh(_flag(scope))
    scope.owner.params.append(f"{name}: bool = {not value}")
    scope.owner.arguments.append(f"{name}={value}")
    scope.owner.add(f"self.{name} = {name}")
    return f"self.{name}"


@condition("comparison of a mode string")
def mode_string(scope: Scope, value: bool) -> str:
    mode, other = scope.rng.sample(MODES, 2)
    name = scope.constant("mode", f'"{mode}"')
    return f'self.{name} == "{mode if value else other}"'


@condition("membership in a tuple")
def membership(scope: Scope, value: bool) -> str:
    mode, other, third = scope.rng.sample(MODES, 3)
    name = scope.constant("kind", f'"{mode}"')
    return f'self.{name} in ("{mode if value else third}", "{other}")'


@condition("comparison of numbers")
def numbers(scope: Scope, value: bool) -> str:
    depth = scope.rng.randint(2, 4)
    name = scope.constant("depth", str(depth))
    return f"self.{name} > {depth - 1 if value else depth}"


@condition("length of a list")
def length(scope: Scope, value: bool) -> str:
    count = scope.rng.randint(2, 3)
    name = scope.constant("levels", str([f"p{index}" for index in range(count)]).replace("'", '"'))
    return f"len(self.{name}) == {count if value else count + 1}"


@condition("not")
def negation(scope: Scope, value: bool) -> str:
    return f"not self.{scope.constant(_flag(scope), str(not value))}"


@condition("and")
def conjunction(scope: Scope, value: bool) -> str:
    first = scope.constant(_flag(scope), "True")
    second = scope.constant(_flag(scope), str(value))
    return f"self.{first} and self.{second}"


@condition("or")
def disjunction(scope: Scope, value: bool) -> str:
    first = scope.constant(_flag(scope), "False")
    second = scope.constant(_flag(scope), str(value))
    return f"self.{first} or self.{second}"


@condition("is None")
def is_none(scope: Scope, value: bool) -> str:
    name = scope.constant("extra", "None" if value else "nn.Identity()")
    return f"self.{name} is None"


@condition("truth of an optional module")
def optional_module(scope: Scope, value: bool) -> str:
    name = scope.constant("downsample", "nn.Identity()" if value else "None")
    return f"self.{name} is not None"


@condition("isinstance")
def instance(scope: Scope, value: bool) -> str:
    name = scope.constant("gate", "nn.Identity()")
    return f"isinstance(self.{name}, {'nn.Identity' if value else 'nn.Sequential'})"


@condition("hasattr")
def attribute(scope: Scope, value: bool) -> str:
    name = scope.constant("anchor", "1")
    return f'hasattr(self, "{name if value else name + "_missing"}")'


@condition("training")
def training(scope: Scope, value: bool) -> str:
    return "not self.training" if value else "self.training"


@condition("property")
def flag_property(scope: Scope, value: bool) -> str:
    name = scope.owner.fresh("active")
    scope.owner.methods.append(["@property", f"def {name}(self):", f"    return {value}"])
    return f"self.{name}"


@condition("local variable")
def local(scope: Scope, value: bool) -> str:
    name = scope.fresh("active")
    scope.emit(f"{name} = {value}")
    return name


@condition("dictionary of settings")
def settings(scope: Scope, value: bool) -> str:
    name = scope.constant("settings", '{"fuse": ' + str(value) + ', "depth": 2}')
    return f'self.{name}["fuse"]'


@condition("dataclass of settings")
def config_object(scope: Scope, value: bool) -> str:
    scope.file.imports.standard("from dataclasses import dataclass")
    kind, flag = scope.file.fresh("Config"), _flag(scope)
    scope.file.functions.append(["@dataclass", f"class {kind}:", f"    {flag}: bool = {value}", "    depth: int = 2"])
    name = scope.constant("config", f"{kind}()")
    return f"self.{name}.{flag}"


@condition("member of an Enum")
def enumeration(scope: Scope, value: bool) -> str:
    scope.file.imports.standard("from enum import Enum")
    kind = scope.file.fresh("Mode")
    scope.file.functions.append([f"class {kind}(Enum):", '    FAST = "fast"', '    EXACT = "exact"'])
    name = scope.constant("mode", f"{kind}.{'FAST' if value else 'EXACT'}")
    return f"self.{name} is {kind}.FAST"


@condition("getattr with a default")
def optional_attribute(scope: Scope, value: bool) -> str:
    name = scope.constant("extra_head", "1")
    return f'getattr(self, "{name if value else name + "_missing"}", None) is not None'


@condition("remainder of a number")
def remainder(scope: Scope, value: bool) -> str:
    name = scope.constant("level", str(4 if value else 5))
    return f"self.{name} % 2 == 0"


@condition("type of an argument")
def tensor_type(scope: Scope, value: bool) -> str:
    x = scope.pick_name(rank=None)
    return f"isinstance({x.text}, {'torch.Tensor' if value else '(list, tuple)'})"
