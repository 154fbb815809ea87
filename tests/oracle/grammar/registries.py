"""Modules that a registry builds: decorators that fill a table, registry classes, configurations with a `type`."""

from __future__ import annotations

from tests.oracle.grammar.blocks import Block, block_statement
from tests.oracle.grammar.core import ClassText, NotHere, Scope, Verbatim
from tests.oracle.grammar.factories import activation, conv, kind, meet, plain_block, width
from tests.oracle.grammar.joins import any_cat, named_feature, settle


def configuration(block: Block, channels: int, *more: str, literal: bool = False) -> str:
    """The configuration that asks for a class by its name."""
    rows = {"type": f'"{block.text.name}"'}
    if block.text.width is not None:
        rows["channels"] = str(channels)
    if literal:
        return "{" + ", ".join([*(f'"{key}": {value}' for key, value in rows.items()), *more]) + "}"
    return "dict(" + ", ".join([*(f"{key}={value}" for key, value in rows.items()), *more]) + ")"


def registry_class(scope: Scope) -> str:
    """A registry class and one object of it; returns the name of that."""
    of, name = scope.file.fresh("Registry"), scope.file.fresh("MODULES")
    scope.file.functions.append(
        [
            f"class {of}:",
            "    def __init__(self, name):",
            "        self.name = name",
            "        self._modules = {}",
            "",
            "    def get(self, key):",
            "        return self._modules[key]",
            "",
            "    def register(self, cls):",
            "        self._modules[cls.__name__] = cls",
            "        return cls",
            "",
            "    def register_module(self, name=None):",
            "        def wrap(cls):",
            "            self._modules[name or cls.__name__] = cls",
            "            return cls",
            "",
            "        return wrap",
            "",
            "    def build(self, cfg, **kwargs):",
            *scope.rng.choice(
                (
                    ["        args = dict(cfg)", '        kind = args.pop("type")'],
                    ["        args = cfg.copy()", '        kind = args.pop("type")'],
                    [
                        '        kind = cfg["type"]',
                        '        args = {key: value for key, value in cfg.items() if key != "type"}',
                    ],
                )
            ),
            "        return self.get(kind)(**args, **kwargs)",
            "",
            "",
            f'{name} = {of}("modules")',
        ]
    )
    return name


def enter(scope: Scope, registry: str, block: Block) -> None:
    """Put a class into a registry object, by a decorator or after its definition."""
    way = scope.rng.choice(("register", "register_module()", "call"))
    if way == "call":
        scope.file.classes.append(Verbatim([f"{registry}.register({block.text.name})"]))
    else:
        block.text.decorators.append(f"@{registry}.{way}")


@block_statement("class from a table that a decorator fills")
def decorated(scope: Scope) -> None:
    x = named_feature(scope)
    block, other = plain_block(scope, x), plain_block(scope, x)
    table, register = scope.file.fresh("REGISTRY"), scope.file.fresh("enrol")
    scope.file.functions.append(
        [
            f"{table} = {{}}",
            "",
            "",
            f"def {register}(cls):",
            f"    {table}[cls.__name__] = cls",
            "    return cls",
        ]
    )
    block.text.decorators.append(f"@{register}")
    other.text.decorators.append(f"@{register}")
    name = scope.submodule(f'{table}["{block.text.name}"]({width(block, x.channels)})', "registered")
    meet(scope, x, block.call([x], name)[0], name)


@block_statement("class from a table that a decorator with a name fills")
def decorated_by_name(scope: Scope) -> None:
    x = named_feature(scope)
    block = plain_block(scope, x)
    table, register, create = (scope.file.fresh(stem) for stem in ("MODEL_TABLE", "register_as", "create"))
    scope.file.functions.append(
        [
            f"{table} = {{}}",
            "",
            "",
            f"def {register}(name):",
            "    def wrap(cls):",
            f"        {table}[name] = cls",
            "        return cls",
            "",
            "    return wrap",
            "",
            "",
            f"def {create}(name, *args, **kwargs):",
            f"    if name not in {table}:",
            '        raise KeyError(f"no {name}")',
            f"    return {table}[name](*args, **kwargs)",
        ]
    )
    key = f"{block.text.name.lower()}_v1"
    block.text.decorators.append(f'@{register}("{key}")')
    arguments = ", ".join(filter(None, [f'"{key}"', width(block, x.channels)]))
    name = scope.submodule(f"{create}({arguments})", "created")
    meet(scope, x, block.call([x], name)[0], name)


@block_statement("class from a registry object")
def from_registry(scope: Scope) -> None:
    x = named_feature(scope)
    block = plain_block(scope, x)
    registry = registry_class(scope)
    enter(scope, registry, block)
    asked = configuration(block, x.channels, literal=scope.rng.random() < 0.5)
    if scope.rng.random() < 0.3:
        constructor = f'{registry}.get("{block.text.name}")({width(block, x.channels)})'
    elif scope.rng.random() < 0.5:
        constant = scope.file.fresh("CONFIG")
        scope.file.constants.append(f"{constant} = {asked}")
        constructor = f"{registry}.build({constant})"
    else:
        constructor = f"{registry}.build({asked})"
    name = scope.submodule(constructor, "built")
    meet(scope, x, block.call([x], name)[0], name)


@block_statement("configuration inside a configuration")
def nested_configuration(scope: Scope) -> None:
    x = named_feature(scope)
    inner = plain_block(scope, x)
    registry = registry_class(scope)
    enter(scope, registry, inner)
    text = ClassText(scope.file.fresh("Wrapped"), scope.file, params=["body", "act=None"])
    act = activation(scope, x)
    if "channels" in act.constructor:
        raise NotHere
    text.init += [
        "super().__init__()",
        f"self.body = {registry}.build(body)",
        f"self.act = nn.Identity() if act is None else {act.constructor}",
    ]
    text.methods.append(["def forward(self, x):", "    return self.act(self.body(x))"])
    text.closed = True
    scope.file.classes.append(text)
    outer = Block(text, ())
    enter(scope, registry, outer)
    asked = configuration(inner, x.channels)
    more = scope.rng.choice(("", ', act="on"'))
    name = scope.submodule(f'{registry}.build(dict(type="{text.name}", body={asked}{more}))', "outer")
    made = inner.call([x], name, "body")[0]
    if more:
        made = act.call(made, "", name, "act")
    meet(scope, x, made, name)


@block_statement("list of configurations")
def configurations(scope: Scope) -> None:
    x = named_feature(scope)
    block = plain_block(scope, x)
    registry = registry_class(scope)
    enter(scope, registry, block)
    asked = configuration(block, x.channels)
    listing = scope.owner.fresh("configs")
    scope.owner.add(f"{listing} = [{asked}, {asked}]")
    if scope.rng.random() < 0.5:
        name = scope.owner.fresh("heads")
        scope.owner.add(f"self.{name} = nn.ModuleList([{registry}.build(cfg) for cfg in {listing}])")
        scope.use(x)
        made = [block.call([x], name, str(index))[0] for index in range(2)]
        settle(scope, any_cat(scope, made, f"[head({x.text}) for head in self.{name}]"))
        return
    name = scope.owner.fresh("chain")
    scope.owner.add(f"self.{name} = nn.Sequential(*[{registry}.build(cfg) for cfg in {listing}])")
    first = block.call([x], name, "0")[0]
    meet(scope, x, block.call([first], name, "1")[0], name)


@block_statement("function that builds from a configuration and a table")
def build_from(scope: Scope) -> None:
    x = named_feature(scope)
    block, act = plain_block(scope, x), activation(scope, x)
    table, build = scope.file.fresh("KINDS"), scope.file.fresh("build_from_cfg")
    own = f'"{block.text.name}": {block.text.name}'
    scope.file.classes.append(Verbatim([f'{table} = {{{own}, "Act": {kind(act)}, "Conv": nn.Conv2d}}']))
    scope.file.factories.append(
        [
            f"def {build}(cfg, default_args=None):",
            "    if isinstance(cfg, (list, tuple)):",
            f"        return nn.Sequential(*[{build}(each, default_args) for each in cfg])",
            "    args = cfg.copy()",
            "    if default_args is not None:",
            "        for key, value in default_args.items():",
            "            args.setdefault(key, value)",
            '    kind = args.pop("type")',
            "    if isinstance(kind, str):",
            f"        kind = {table}[kind]",
            "    return kind(**args)",
        ]
    )
    c = x.channels
    plain = f'dict(type="Conv", in_channels={c}, out_channels={c}, kernel_size=1)'
    asked = f'[{configuration(block, c)}, {plain}, dict(type="Act")]'
    name = scope.submodule(f"{build}({asked})", "sequence")
    made = conv(block.call([x], name, "0")[0], name, "1")
    meet(scope, x, act.call(made, "", name, "2"), name)
