"""Registries: tables of classes by name, and what is built from descriptions such as ``dict(type="Neck", width=8)``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from qlsp.analysis.enrolment import TWO_CLAIMS, Enrolment
from qlsp.analysis.machine import Argument, Arguments
from qlsp.analysis.program import ModuleModel
from qlsp.backends.frameworks import BUILDERS, REGISTRY_CLASSES
from qlsp.syntax.parse import Unit
from qlsp.values.state import DictObject, Instance, State
from qlsp.values.value import (
    NONE,
    Bound,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    Ref,
    Symbol,
    Unknown,
    Value,
    choice,
)

TABLE = "module_dict"
"""The attribute of a registry that holds its classes by name."""

REGISTRAR = Symbol("the decorator of a registry")
REGISTERING = frozenset({"register_module", "register"})
READING = frozenset({"build", "get"})


class Registries(Enrolment):
    """The registries of frameworks around torch."""

    foreign_tables: dict[str, Ref]

    # --- objects ------------------------------------------------------------------------------------

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A registry is made, or something is built from a description."""
        if name in REGISTRY_CLASSES:
            return self.library_instance(name, arguments, node, state)
        if name in BUILDERS:
            cfg, registry = arguments.get(0, "cfg"), arguments.get(1, "registry")
            if cfg is None or registry is None:
                return Unknown("a description without a registry")
            return self._build(registry, cfg, arguments, node, state)
        owner, _, method = name.rpartition(".")
        if method in REGISTERING | READING and _is_table_name(owner):
            return self._registry_method(Symbol(owner), method, arguments, node, state)
        if method.startswith("build_") and not name.startswith(("torch.", "builtins.")):
            cfg = arguments.get(0, "cfg")
            if cfg is not None and self._kind_of_description(cfg, state) is not None:
                return self._build(Symbol(owner), cfg, arguments, node, state)
        return super().library_call(name, arguments, node, state)

    def native_init(self, ref: Ref, base: str, arguments: Arguments, state: State) -> None:
        """A new registry is empty."""
        if base in REGISTRY_CLASSES:
            self.set_attribute(ref, TABLE, self.allocate(state, DictObject()), state)
            for name in ("parent", "build_func"):
                value = arguments.keywords.get(name)
                if value is not None and value.value != NONE:
                    self.set_attribute(ref, name, value.value, state)
        super().native_init(ref, base, arguments, state)

    def native_method(self, function: Bound, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A method of a registry."""
        instance = self.instance(state, function.receiver)
        if instance is not None and function.name in REGISTERING | READING and self._is_registry(instance):
            return self._registry_method(function.receiver, function.name, arguments, node, state)
        return super().native_method(function, arguments, node, state)

    def _is_registry(self, instance: Instance) -> bool:
        return self.native_base(instance) in REGISTRY_CLASSES

    def _registry_method(
        self, registry: Value, method: str, arguments: Arguments, node: cst.Call | None, state: State
    ) -> Value:
        if method in REGISTERING:
            return self._register(registry, method, arguments, state)
        first = arguments.get(0, "cfg" if method == "build" else "key")
        if first is None or node is None:
            return Unknown("a registry that is asked for nothing")
        if method == "get":
            return self._named(registry, first, state)
        return self._build(registry, first, arguments, node, state)

    # --- registration -------------------------------------------------------------------------------

    def apply_decorator(self, function: Value, value: Value, state: State) -> Value:
        """Decorators of a registry come first."""
        given = Arguments.of(value)
        instance = self.instance(state, function)
        if instance is not None and instance.cls == REGISTRAR:
            self._put(instance.attributes["registry"], instance.attributes.get("name"), value, state)
            return value
        if isinstance(function, Bound) and function.function is None and function.name in REGISTERING:
            return self._registry_method(function.receiver, function.name, given, None, state)
        if isinstance(function, Symbol):
            owner, _, method = function.name.rpartition(".")
            if method in REGISTERING and _is_table_name(owner):
                return self._registry_method(Symbol(owner), method, given, None, state)
        return super().apply_decorator(function, value, state)

    def call_object(self, ref: Ref, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """``MODELS.register_module()(Neck)`` as a call."""
        instance = self.instance(state, ref)
        if instance is not None and instance.cls == REGISTRAR:
            value = arguments.get(0, "module")
            return self.apply_decorator(ref, value, state) if value is not None else NONE
        return super().call_object(ref, arguments, node, state)

    def _register(self, registry: Value, method: str, arguments: Arguments, state: State) -> Value:
        """Put a class under its name, or give the decorator that does."""
        name = arguments.get(0, "name")
        value = arguments.get(2, "module") if method == "register_module" else None
        for keyword in ("obj", "module_class"):
            if value is None and keyword in arguments.keywords:
                value = arguments.keywords[keyword].value
        if isinstance(name, ClassValue | FunctionValue):
            value, name = name, arguments.keywords["name"].value if "name" in arguments.keywords else None
        if value is not None and value != NONE:
            self._put(registry, name, value, state)
            return value
        attributes = {"registry": registry, **({"name": name} if name is not None else {})}
        return self.allocate(state, Instance(REGISTRAR, attributes))

    def _put(self, registry: Value, name: Value | None, value: Value, state: State) -> None:
        table = self._table(registry, state)
        if table is None or not isinstance(value, ClassValue | FunctionValue):
            return
        thing = self.load(state, table)
        if not isinstance(thing, DictObject):
            return
        names: list[Value] | None = [Const(value.name.rpartition(".")[2])]
        if name is not None and name != NONE:
            names = self.items(name, state) if not isinstance(name, Const) else [name]
        entries = dict(thing.entries)
        for each in names if names is not None else []:
            if isinstance(each, Const):
                entries[each.value] = self.claimed(entries.get(each.value), value)
        state.heap[table.oid] = DictObject(tuple(entries.items()), thing.rest)

    def _table(self, registry: Value, state: State) -> Ref | None:
        """The dict of a registry, one for all registries of a package that is not in view."""
        if isinstance(registry, Symbol):
            return self._foreign_table(registry.name.partition(".")[0])
        instance = self.instance(state, registry)
        table = instance.attributes.get(TABLE) if instance is not None else None
        if table is None and instance is not None and self._is_registry(instance):
            table = self.allocate(state, DictObject())
            self.set_attribute(registry, TABLE, table, state)
        return table if isinstance(table, Ref) else None

    def _foreign_table(self, package: str) -> Ref:
        if package not in self.foreign_tables:
            apart = State()
            table = self.foreign_tables[package] = self.allocate(apart, DictObject())
            self.static_heap.update(apart.heap)
            self.fill(table, self._foreign_acts(package))
        return self.foreign_tables[package]

    def _foreign_acts(self, package: str) -> Iterator[tuple[ModuleModel, Unit]]:
        """The statements that may put something into a registry of a package that is not in view."""
        for module in self._modules_in_view():
            for enrolment in module.enrolments:
                names = enrolment.words & module.imports.keys()
                if any(self._is_table_of(package, self.global_value(module, name)) for name in sorted(names)):
                    yield module, enrolment.unit

    def _is_table_of(self, package: str, value: Value) -> bool:
        return isinstance(value, Symbol) and value.name.partition(".")[0] == package and _is_table_name(value.name)

    # --- use ----------------------------------------------------------------------------------------

    def _named(self, registry: Value, name: Value, state: State) -> Value:
        """The class that a registry holds under a name."""
        if isinstance(name, Choice):
            return choice([(guard, self._named(registry, option, state)) for guard, option in name.options])
        if not isinstance(name, Const):
            return Unknown("a name that is not known is looked up in a registry")
        seen = 0
        current: Value | None = registry
        while current is not None and seen < 5:
            table = self._table(current, state)
            thing = self.load(state, table) if table is not None else None
            if isinstance(thing, DictObject) and name.value in dict(thing.entries):
                found = dict(thing.entries)[name.value]
                return Unknown(f"two classes are registered as {name.value!r}") if found == CLAIMED_TWICE else found
            instance = self.instance(state, current)
            current = instance.attributes.get("parent") if instance is not None else None
            seen += 1
        return Unknown(f"no class in view is registered as {name.value!r}")

    def _kind_of_description(self, cfg: Value, state: State) -> Value | None:
        """The entry ``type`` of a description."""
        thing = self.load(state, cfg) if isinstance(cfg, Ref) else None
        return dict(thing.entries).get("type") if isinstance(thing, DictObject) else None

    def _build(self, registry: Value, cfg: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """Call the class that a description names with the rest of the description."""
        if isinstance(cfg, Choice):
            options = ((guard, self._build(registry, option, arguments, node, state)) for guard, option in cfg.options)
            return choice(list(options))
        instance = self.instance(state, registry)
        own = instance.attributes.get("build_func") if instance is not None else None
        if isinstance(own, FunctionValue):
            given = Arguments([Argument(cfg)], {"registry": Argument(registry)})
            return self.call_function(own, None, given, node, state)
        thing = self.load(state, cfg) if isinstance(cfg, Ref) else None
        if not isinstance(thing, DictObject):
            return Unknown("a description that is not known is built")
        entries = self._with_defaults(thing, arguments, state)
        kind = entries.pop("type", None)
        entries.pop("_scope_", None)
        if kind is None:
            return Unknown("a description without a type is built")
        cls = self._named(registry, kind, state) if isinstance(kind, Const) else kind
        if isinstance(cls, Unknown):
            return cls
        keywords = {str(key): Argument(value) for key, value in entries.items()}
        return self.call(cls, Arguments([], keywords, open=thing.rest is not None), node, state)

    def _with_defaults(self, thing: DictObject, arguments: Arguments, state: State) -> dict[object, Value]:
        defaults = arguments.keywords.get("default_args")
        more = self.load(state, defaults.value) if defaults is not None and isinstance(defaults.value, Ref) else None
        entries = dict(more.entries) if isinstance(more, DictObject) else {}
        return {**entries, **dict(thing.entries)}


CLAIMED_TWICE = Unknown(TWO_CLAIMS)


def _is_table_name(name: str) -> bool:
    """Is a dotted name that of a registry, such as ``mmdet.models.builder.NECKS``?"""
    last = name.rpartition(".")[2]
    return "." in name and last.isupper() and not name.startswith(("torch.", "builtins."))
