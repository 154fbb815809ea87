"""Classes: what a name stands for in a class, how methods are bound and decorated, what replaces them from outside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from qlsp.analysis.machine import Arguments, Frame
from qlsp.analysis.operators import Operators
from qlsp.analysis.program import ClassModel, FunctionModel, Patch
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, Unit, walk
from qlsp.values.state import Instance, State
from qlsp.values.value import (
    Bound,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    Ref,
    Super,
    Symbol,
    Unknown,
    Value,
    choice,
)

Order = Sequence[ClassModel | Symbol | Unknown]

ENUMS = frozenset({"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"})
METACLASSES = frozenset({"abc.ABCMeta", "enum.EnumMeta", "enum.EnumType", "builtins.type"})
KINDS = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "cached",
    "abstractproperty": "property",
    "abstractclassmethod": "class",
    "abstractstaticmethod": "static",
}

TRANSPARENT = frozenset(
    [
        *KINDS,
        "abstractmethod",
        "add_code_sample_docstrings",
        "add_end_docstrings",
        "add_start_docstrings",
        "add_start_docstrings_to_model_forward",
        "auto_fp16",
        "auto_fp32",
        "autocast",
        "beartype",
        "cache",
        "contextmanager",
        "custom_bwd",
        "custom_fwd",
        "dataclass",
        "deprecated",
        "deprecated_api_warning",
        "disable",
        "enable_grad",
        "export",
        "final",
        "fixture",
        "force_fp32",
        "ignore",
        "inference_mode",
        "jaxtyped",
        "jit",
        "lru_cache",
        "no_grad",
        "no_type_check",
        "overload",
        "override",
        "profile",
        "rank_zero_only",
        "record_function",
        "register_model",
        "register_module",
        "replace_return_docstrings",
        "script",
        "script_method",
        "typechecked",
        "unused",
        "wraps",
    ]
)
"""Last names of decorators after which a function still takes and gives what it did. Those of mmcv that cast to half
precision do nothing until a runner turns them on."""


class Classes(Operators):
    """Attributes of classes."""

    # --- look-up ------------------------------------------------------------------------------------

    def _class_attribute(self, cls: ClassValue, name: str, receiver: Value | None, state: State) -> Value:
        found = self.found_in(self.mro(cls), name, receiver, cls, state)
        return found if found is not None else Unknown(f"attribute '{name}' is not set in view")

    def found_in(
        self, order: Order, name: str, receiver: Value | None, cls: ClassValue | None, state: State
    ) -> Value | None:
        """What a name stands for in the first of some classes that has it; None if none in view has."""
        for entry in order:
            if not isinstance(entry, ClassModel):
                continue
            patched = self._patched(entry, name)
            if patched is not None:
                return self.as_method(patched, receiver)
            method = entry.methods.get(name)
            if method is not None:
                return self.method_of(method, receiver, cls, state)
            assigned = entry.attributes.get(name)
            if assigned is not None and any(isinstance(e, Symbol) and e.name in ENUMS for e in order):
                return Symbol(f"{entry.module.path}:{entry.name}.{name}")
            if assigned is not None:
                return self.as_method(self._class_level(entry, *assigned), receiver)
            nested = entry.nested.get(name)
            if nested is not None:
                return self.class_value(entry.module.class_model(*nested, entry.closure))
        return None

    def as_method(self, value: Value, receiver: Value | None) -> Value:
        """A function that a class holds is a method of its objects."""
        if isinstance(value, Choice):
            return choice([(guard, self.as_method(option, receiver)) for guard, option in value.options])
        if isinstance(value, FunctionValue) and receiver is not None:
            model = self.functions[value.span]
            return value if decorator_kind(model.node) == "static" else Bound(receiver, value.name, value)
        return value

    def _class_level(self, model: ClassModel, expression: cst.BaseExpression, unit: object) -> Value:
        assert isinstance(unit, Unit)
        saved, self.frame = self.frame, Frame(unit, model.module, model.name, model, closure=model.closure)
        scope = State(self._class_scope(model, expression))
        try:
            value = self.eval(expression, scope)
        finally:
            self.frame = saved
        self.static_heap.update(scope.heap)
        return value

    def _class_scope(self, model: ClassModel, expression: cst.BaseExpression) -> dict[str, Value]:
        """The names of the class body that an expression in it uses."""
        names = {node.value for node in walk(expression) if isinstance(node, cst.Name)}
        scope: dict[str, Value] = {}
        for name in names & (model.methods.keys() | model.attributes.keys() | model.nested.keys()):
            if name in model.methods:
                scope[name] = self.decorated(model.methods[name])
            elif name in model.nested:
                scope[name] = self.class_value(model.module.class_model(*model.nested[name], model.closure))
            elif model.attributes[name][0] is not expression and (model.span, name) not in self._resolving:
                self._resolving.add((model.span, name))
                scope[name] = self._class_level(model, *model.attributes[name])
                self._resolving.discard((model.span, name))
        return scope

    @cached_property
    def _resolving(self) -> set[tuple[object, str]]:
        return set()

    def method_of(self, method: FunctionModel, receiver: Value | None, cls: ClassValue | None, state: State) -> Value:
        """A method as it is read from an object or its class."""
        value = self.decorated(method)
        kind = decorator_kind(method.node)
        if kind == "static" or (receiver is None and kind != "class"):
            return value
        if kind == "class":
            assert cls is not None
            return Bound(cls, method.name, value) if isinstance(value, FunctionValue) else value
        assert receiver is not None
        if kind in ("property", "cached"):
            if not isinstance(value, FunctionValue):
                return Unknown(f"a property '{method.name}' that is not followed")
            found = self.call_function(value, receiver, Arguments(), None, state)
            if kind == "property" or self.facts is None or isinstance(found, Const):
                return found
            return Unknown(f"the cached property '{method.name}' keeps what it was before convert")
        return self.as_method(value, receiver)

    def _super_attribute(self, value: Super, name: str, state: State) -> Value:
        instance = self.instance(state, value.receiver)
        cls = instance.cls if instance is not None else value.receiver
        if not isinstance(cls, ClassValue):
            return Unknown("super() of an unknown class")
        order = self.mro(cls)
        start = next((i for i, e in enumerate(order) if isinstance(e, ClassModel) and e.span == value.owner), None)
        if start is None:
            return Unknown("super() outside the class")
        receiver = value.receiver if isinstance(value.receiver, Ref) else None
        found = self.found_in(order[start + 1 :], name, receiver, cls, state)
        return found if found is not None else Bound(value, name)

    def native_base(self, instance: Instance) -> str | None:
        """The library class an instance is of or derives from; None if it has none or it is unknown."""
        for entry in self.mro(instance.cls):
            if isinstance(entry, Symbol) and not entry.name.startswith(("builtins.", "abc.", "typing.")):
                return entry.name
        return None

    def own_metaclass(self, cls: ClassValue) -> bool:
        """Has a class a metaclass of the project, or one that is not known?"""
        for entry in self.mro(cls):
            if isinstance(entry, ClassModel):
                for keyword in entry.node.keywords:
                    if keyword.keyword is not None and keyword.keyword.value == "metaclass":
                        value = self._base(entry, keyword.value)
                        if not (isinstance(value, Symbol) and value.name in METACLASSES):
                            return True
        return False

    # --- decorators ---------------------------------------------------------------------------------

    def decorated(self, model: FunctionModel) -> Value:
        """A function as its name gives it: what the decorators of the project make of it."""
        raw = self.function_value(model)
        node = model.node
        if not isinstance(node, cst.FunctionDef) or not node.decorators:
            return raw
        key = (model.span, raw.closure)
        if key not in self._decorations:
            self._decorations[key] = raw
            self._decorations[key] = self._decorate(model, raw, node)
        return self._decorations[key]

    @cached_property
    def _decorations(self) -> dict[tuple[object, int], Value]:
        return {}

    def _decorate(self, model: FunctionModel, raw: FunctionValue, node: cst.FunctionDef) -> Value:
        saved, self.frame = self.frame, Frame(model.unit, model.module, model.name, closure=raw.closure)
        facts, self.facts = self.facts, None
        scope = State()
        try:
            value = self.with_decorators(raw, node, scope)
        finally:
            self.frame, self.facts = saved, facts
        self.static_heap.update(scope.heap)
        return value

    def with_decorators(self, value: Value, node: cst.FunctionDef, state: State) -> Value:
        """What the decorators of a definition make of a function. Those that are not in view leave it as it is;
        ``opaque`` tells that they are there."""
        for decorator in reversed(node.decorators):
            expression = decorator.decorator
            called = expression.func if isinstance(expression, cst.Call) else expression
            name = dotted(called)
            if name is None or name.rpartition(".")[2] in KINDS or name.endswith((".setter", ".getter", ".deleter")):
                continue
            function = self.eval(called, state)
            if isinstance(function, FunctionValue) and self._keeps_function(function):
                continue
            if isinstance(function, (FunctionValue, ClassValue)):
                value = self._applied(self.eval(expression, state), value, state)
        return value

    def is_replaced(self, cls: ClassValue) -> bool:
        """Does a decorator of the project derive another class from this one, which then goes by its name?"""
        model = self.class_model(cls)
        if not model.node.decorators:
            return False
        if cls.span not in self._replaced_classes:
            saved, self.frame = self.frame, Frame(model.unit, model.module, model.name, closure=model.closure)
            try:
                called = (
                    each.decorator.func if isinstance(each.decorator, cst.Call) else each.decorator
                    for each in model.node.decorators
                )
                functions = [self.eval(each, State()) for each in called if dotted(each) is not None]
            finally:
                self.frame = saved
            nodes = (self.functions[each.span].node for each in functions if isinstance(each, FunctionValue))
            self._replaced_classes[cls.span] = any(map(_derives_from_parameter, nodes))
        return self._replaced_classes[cls.span]

    @cached_property
    def _replaced_classes(self) -> dict[object, bool]:
        return {}

    def _keeps_function(self, function: FunctionValue) -> bool:
        """Is it a decorator that leaves a function as it is, as the tables know it?"""
        model = self.functions[function.span]
        return f"{model.module.name}.{model.name}" in self.backend.plain_decorators

    def _applied(self, decorator: Value, value: Value, state: State) -> Value:
        function: Value | None = decorator
        if isinstance(decorator, Ref):
            function = self.attribute(decorator, "__call__", state)
        if isinstance(function, Bound) and function.function is not None:
            return self.call_function(function.function, function.receiver, Arguments.of(value), None, state)
        if isinstance(function, FunctionValue):
            return self.call_function(function, None, Arguments.of(value), None, state)
        return Unknown("a decorator that is not followed")

    def opaque(self, model: FunctionModel) -> str | None:
        """The name of a decorator that may do anything to what a function takes and gives."""
        node = model.node
        if not isinstance(node, cst.FunctionDef) or not node.decorators:
            return None
        for decorator in node.decorators:
            expression = decorator.decorator
            called = expression.func if isinstance(expression, cst.Call) else expression
            name = dotted(called)
            if name is None:
                return "an expression"
            last = name.rpartition(".")[2]
            if last in TRANSPARENT or last.startswith("register") or last in ("setter", "getter", "deleter"):
                continue
            saved, self.frame = self.frame, Frame(model.unit, model.module, model.name)
            try:
                value = self.eval(called, State())
            finally:
                self.frame = saved
            project = isinstance(value, (FunctionValue, ClassValue))
            if not project and not (isinstance(value, Symbol) and value.name.startswith(("torch.", "functools."))):
                return last
        return None

    # --- replaced from outside ----------------------------------------------------------------------

    def _patched(self, entry: ClassModel, name: str) -> Value | None:
        """What an assignment ``Class.name = value`` outside the class puts there; None if there is none."""
        patches = self.patches.get((entry.name.rpartition(".")[2], name))
        if not patches:
            return None
        found = [patch for patch in patches if self._patches(patch, entry)]
        if not found:
            return None
        value = self._patch_value(found[0]) if len(found) == 1 else None
        return value if value is not None else Unknown(f"'{name}' of {entry.name} is set outside the class")

    def begin_budget(self) -> None:
        """A run begins: files may have been read since the last one."""
        super().begin_budget()
        modules = self.finder.modules()
        if len(modules) != self._patched_modules:
            self._patched_modules = len(modules)
            self.patches.clear()
            for module in modules:
                for patch in module.patches:
                    self.patches.setdefault((patch.cls, patch.name), []).append(patch)

    _patched_modules = 0

    @cached_property
    def patches(self) -> dict[tuple[str, str], list[Patch]]:
        """The assignments to attributes of classes in every file that was read."""
        return {}

    def _patches(self, patch: Patch, entry: ClassModel) -> bool:
        """Does a patch mean this class? One of a name that is no class in view may."""
        value = self.patched_class(patch)
        return not isinstance(value, (ClassValue, Symbol)) or (
            isinstance(value, ClassValue) and value.span == entry.span
        )

    def patched_class(self, patch: Patch) -> Value:
        """The class to whose attribute a patch assigns."""
        first, *rest = patch.target.split(".")
        value = self.global_value(patch.module, first)
        saved, self.frame = self.frame, Frame(patch.unit, patch.module, "<module>")
        try:
            for part in rest:
                value = self.attribute(value, part, State())
        finally:
            self.frame = saved
        return value

    def _patch_value(self, patch: Patch) -> Value | None:
        """The value of a patch that the file does as a statement of its own."""
        try:
            node = patch.unit.node
        except ChunkError:
            return None
        if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
            return None
        statement = node.body[0]
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        if dotted(statement.targets[0].target) != f"{patch.target}.{patch.name}":
            return None
        saved, self.frame = self.frame, Frame(patch.unit, patch.module, "<module>")
        facts, self.facts = self.facts, None
        scope = State()
        try:
            value = self.eval(statement.value, scope)
        finally:
            self.frame, self.facts = saved, facts
        self.static_heap.update(scope.heap)
        return value if isinstance(value, FunctionValue) else None

    # --- provided by other parts --------------------------------------------------------------------

    def call_function(
        self,
        function: FunctionValue,
        receiver: Value | None,
        arguments: Arguments,
        node: cst.CSTNode | None,
        state: State,
    ) -> Value:
        """Call a function of the project (see ``calls``)."""
        raise NotImplementedError


def _derives_from_parameter(node: cst.CSTNode) -> bool:
    """Is a class defined in a function that derives from a parameter of it, or of a function around it?"""
    inner = list(walk(node))
    parameters = {each.name.value for each in inner if isinstance(each, cst.Param)}
    bases = (base.value for each in inner if isinstance(each, cst.ClassDef) for base in each.bases)
    return any(isinstance(base, cst.Name) and base.value in parameters for base in bases)


def decorator_kind(node: cst.FunctionDef | cst.Lambda) -> str:
    """``static``, ``class``, ``property``, ``cached`` or ``plain``."""
    if isinstance(node, cst.Lambda):
        return "plain"
    for decorator in node.decorators:
        name = dotted(decorator.decorator)
        last = name.rpartition(".")[2] if name is not None else ""
        if last in KINDS:
            return KINDS[last]
    return "plain"
