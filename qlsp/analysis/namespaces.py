"""Namespaces: ``globals()``, ``vars(module)``, ``importlib.import_module``, ``eval`` of a name."""

from __future__ import annotations

import ast

import libcst as cst

from qlsp.analysis.library import Library
from qlsp.analysis.machine import Arguments
from qlsp.analysis.program import ModuleModel
from qlsp.values.state import State
from qlsp.values.value import Bound, Choice, Const, Symbol, Unknown, Value, choice

NAMES = "__dict__"
"""What the names of a module are called."""

LOCATORS = frozenset({"pydoc.locate", "hydra.utils.get_class", "hydra.utils.get_method", "hydra.utils.get_object"})
"""Functions that give what a dotted name stands for."""


class Namespaces(Library):
    """Names that are looked up as strings."""

    def special_call(self, node: cst.Call, state: State) -> Value | None:
        """``globals()``, and ``locals()`` at the top of a file, are the names of the running file."""
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        top = name == "locals" and not self._stack
        if (name == "globals" or top) and name not in state.names and not node.args:
            return Bound(Const(self.current.module.path), NAMES)
        return super().special_call(node, state)

    def attribute(self, value: Value, name: str, state: State) -> Value:
        """``module.__dict__`` is the names of a module."""
        if isinstance(value, Symbol) and name == NAMES:
            return Bound(value, NAMES)
        return super().attribute(value, name, state)

    def subscript(self, value: Value, node: cst.Subscript, state: State) -> Value:
        """``sys.modules[__name__]`` is the running file."""
        if value == Symbol("sys.modules"):
            index = node.slice[0].slice if len(node.slice) == 1 else None
            if isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == "__name__":
                return Bound(Const(self.current.module.path), "module")
            name = self.eval(index.value, state) if isinstance(index, cst.Index) else None
            return self._module_named(name)
        return super().subscript(value, node, state)

    def item(self, value: Value, index: Value, state: State) -> Value:
        """``globals()[name]``."""
        if isinstance(value, Bound) and value.name == NAMES:
            return self._name_in(value.receiver, index, state)
        return super().item(value, index, state)

    def native_method(self, function: Bound, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """``globals().get(name)``."""
        receiver = function.receiver
        if isinstance(receiver, Bound) and receiver.name == NAMES and function.name == "get":
            name = arguments.get(0, "key")
            return self._name_in(receiver.receiver, name, state) if name is not None else Unknown("get() of nothing")
        return super().native_method(function, arguments, node, state)

    def _name_in(self, namespace: Value, name: Value, state: State) -> Value:
        """What a module binds to a name."""
        if isinstance(name, Choice):
            return choice([(guard, self._name_in(namespace, option, state)) for guard, option in name.options])
        if not (isinstance(name, Const) and isinstance(name.value, str)):
            return Unknown("a name that is computed")
        if isinstance(namespace, Symbol):
            return self.attribute(namespace, name.value, state)
        module = self._file_of(namespace)
        return self.global_value(module, name.value) if module is not None else Unknown("names of an unknown module")

    def _file_of(self, namespace: Value) -> ModuleModel | None:
        path = namespace.value if isinstance(namespace, Const) else None
        return self.finder.module_at(path) if isinstance(path, str) else None

    # --- functions ----------------------------------------------------------------------------------

    def _builtin_getattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        target, name = arguments.get(0, "object"), arguments.get(1, "name")
        if isinstance(target, Bound) and target.name == "module" and name is not None:
            return self._name_in(target.receiver, name, state)
        return super()._builtin_getattr(arguments, node, state)

    def _builtin_vars(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "object")
        if isinstance(value, Symbol):
            return Bound(value, NAMES)
        return Unknown("vars() of an object")

    def _builtin_eval(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A text that is a name or a literal."""
        text = arguments.get(0, "source")
        if isinstance(text, Choice):
            rest = arguments.positional[1:]
            options = [
                (guard, self._builtin_eval(Arguments([*Arguments.of(option).positional, *rest]), node, state))
                for guard, option in text.options
            ]
            return choice(options)
        if not (isinstance(text, Const) and isinstance(text.value, str)) or len(arguments.positional) != 1:
            return Unknown("eval()")
        first, *rest_of_name = text.value.split(".")
        if first.isidentifier() and all(part.isidentifier() for part in rest_of_name):
            value = self.eval(cst.Name(first), state)
            for part in rest_of_name:
                value = self.attribute(value, part, state)
            return value
        try:
            literal = ast.literal_eval(text.value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return Unknown("eval()")
        return Const(literal) if isinstance(literal, (int, float, str)) else Unknown("eval()")

    def standard_library(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """``import_module("package.module")``, ``locate("package.module.Class")``."""
        if name == "importlib.import_module":
            package = arguments.get(1, "package")
            return self._module_named(arguments.get(0, "name"), package)
        if name in LOCATORS:
            return self._module_named(arguments.get(0, "path"))
        return super().standard_library(name, arguments, node, state)

    def _module_named(self, name: Value | None, package: Value | None = None) -> Value:
        """What an absolute dotted name stands for, or one relative to the package of the running file."""
        if not (isinstance(name, Const) and isinstance(name.value, str) and name.value):
            return Unknown("a module whose name is computed")
        text = name.value
        if text.startswith("."):
            module = self.current.module
            own = module.name if module.is_package else module.name.rpartition(".")[0]
            if isinstance(package, Const) and isinstance(package.value, str):
                own = package.value
            for _ in range(len(text) - len(text.lstrip(".")) - 1):
                own = own.rpartition(".")[0]
            text = f"{own}.{text.lstrip('.')}" if own else text.lstrip(".")
        return self.qualified(text, self.current.module)
