"""Models of installed packages that are asked for by name: ``get_model("googlenet")``, ``create_model("vgg16")``."""

from __future__ import annotations

import libcst as cst

from qlsp.analysis.machine import Arguments
from qlsp.analysis.registries import Registries
from qlsp.backends.spec import ModelBuilder, ModelMaker
from qlsp.values.state import State
from qlsp.values.value import NONE, ClassValue, Const, FunctionValue, Unknown, Value

FALSE = Const(False)


class Makers(Registries):
    """Calls of the functions that make models, see ``backends.model_makers``."""

    def call_function(
        self,
        function: FunctionValue,
        receiver: Value | None,
        arguments: Arguments,
        node: cst.CSTNode | None,
        state: State,
    ) -> Value:
        """A function that makes a model calls what is registered, instead of running its body."""
        model = self.functions[function.span]
        name = f"{model.module.name}.{model.name}"
        maker, builder = self.backend.model_makers.get(name), self.backend.model_builders.get(name)
        if maker is not None:
            return self._made(maker, arguments, node, state)
        if builder is not None:
            return self._built(builder, arguments, node, state)
        return super().call_function(function, receiver, arguments, node, state)

    def _made(self, maker: ModelMaker, arguments: Arguments, node: cst.CSTNode | None, state: State) -> Value:
        name = arguments.get(0, maker.parameter)
        if not (isinstance(name, Const) and isinstance(name.value, str)):
            return Unknown("a model whose name is computed")
        text = name.value.partition(maker.tag)[0] if maker.tag else name.value.lower()
        found = self.finder.registered(maker.package, text, self.current.module.path)
        function = self.global_value(*found) if found is not None else None
        if not isinstance(function, FunctionValue) or arguments.open:
            return Unknown(f"a model of {maker.package} of an unknown name")
        rest = {key: each for key, each in arguments.keywords.items() if key not in (maker.parameter, *maker.left_out)}
        if maker.tag:
            rest = {key: each for key, each in rest.items() if each.value != NONE}
        given = Arguments([], rest, arguments.open, arguments.more)
        return super().call_function(function, None, given, node, state)

    def _built(self, builder: ModelBuilder, arguments: Arguments, node: cst.CSTNode | None, state: State) -> Value:
        cls = arguments.get(0, builder.positional[0])
        if not isinstance(cls, ClassValue) or arguments.open or len(arguments.positional) > len(builder.positional):
            return Unknown("a model of an unknown class")
        changing = [arguments.keywords[key].value for key in builder.changing if key in arguments.keywords]
        if any(value not in (FALSE, NONE) for value in changing):
            return Unknown("a model that is rebuilt for its features")
        dropped = {*builder.positional, *builder.left_out, *builder.changing, builder.config[0]}
        rest = {key: each for key, each in arguments.keywords.items() if key not in dropped}
        config = arguments.keywords.get(builder.config[0])
        if config is not None and config.value != NONE:
            rest[builder.config[1]] = config
        return self.instantiate(cls, Arguments([], rest, False, arguments.more), node, state)
