"""What kind of thing a value is: ``isinstance``, ``type``, ``hasattr``."""

from __future__ import annotations

import libcst as cst

from qlsp.analysis.conditions import collection_symbol
from qlsp.analysis.containers import Containers
from qlsp.analysis.machine import Arguments
from qlsp.analysis.objects import MODULE_ATTRIBUTES, TENSOR_NUMBERS, TENSOR_VIEWS
from qlsp.analysis.program import ClassModel
from qlsp.values.state import DictObject, HeapObject, Instance, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    Choice,
    ClassValue,
    Const,
    FunctionValue,
    RecordValue,
    Ref,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    options_of,
)

TENSOR_CLASSES = frozenset({"torch.Tensor", "builtins.object"})
_ABSTRACT = ("Sequence", "Iterable", "Collection")
TUPLE_CLASSES = frozenset(
    {"builtins.tuple", "builtins.object"}
    | {f"{module}.{name}" for module in ("collections.abc", "typing") for name in _ABSTRACT}
)
LIST_CLASSES = TUPLE_CLASSES - {"builtins.tuple"} | {"builtins.list", "typing.List"}
DICT_CLASSES = frozenset(
    {"builtins.dict", "builtins.object", "typing.Dict", "collections.OrderedDict", "collections.defaultdict"}
    | {f"{module}.{name}" for module in ("collections.abc", "typing") for name in ("Mapping", "MutableMapping")}
)
DOUBTFUL_CLASSES = frozenset({"builtins.set", "types.GeneratorType", "collections.deque"})
"""What a list of ours may stand for."""

CALLABLES = frozenset({"typing.Callable", "collections.abc.Callable", "builtins.object"})
FUNCTION_TYPES = frozenset({"types.FunctionType", "types.LambdaType"})
CLASSES = frozenset({"int", "float", "str", "bool", "list", "tuple", "dict", "set", "object", "type"})
PARTIAL = Symbol("functools.partial")


class Kinds(Containers):
    """Questions about the class of a value."""

    def _builtin_isinstance(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "obj")
        if value is None or len(node.args) < 2:
            return Unknown("isinstance() of nothing")
        classes = self.class_names(node.args[1].value, state)
        return choice(
            [
                (guard, self._is_instance(option, classes, state))
                for guard, option in (value.options if isinstance(value, Choice) else ((NO_GUARD, value),))
            ]
        )

    def _is_instance(self, value: Value, classes: set[str], state: State) -> Value:
        if not classes:
            return Unknown("isinstance() of an unknown class")
        if isinstance(value, Tensor):
            if value.collection:
                return Unknown("is an input a tensor or a list", collection_symbol(value, classes))
            return Const(bool(classes & TENSOR_CLASSES))
        if isinstance(value, Const):
            names = {f"builtins.{kind.__name__}" for kind in type(value.value).__mro__}
            return Const(bool(names & classes))
        if isinstance(value, TupleValue):
            own = value.cls if isinstance(value, RecordValue) else None
            names = self._class_order(own) if own is not None else set()
            return Const(bool((TUPLE_CLASSES | names) & classes))
        instance = self.instance(state, value)
        if instance is not None:
            order = self.mro(instance.cls)
            if self._class_order(instance.cls) & classes:
                return Const(True)
            if "torch.nn.Module" in classes and self.is_module_class(instance.cls):
                return Const(True)
            return Unknown("isinstance()") if any(isinstance(e, Unknown) for e in order) else Const(False)
        if isinstance(value, Ref):
            return self._container_is(self.load(state, value), classes)
        if isinstance(value, (ClassValue, FunctionValue, Symbol)):
            return self._is_callable_of(value, classes)
        return Unknown(value.reason if isinstance(value, Unknown) else "isinstance() of an unknown value")

    def kind_fits(self, value: Value, classes: set[str], state: State) -> bool | None:
        """Is a value of one of the classes? None if that is not known."""
        verdict = self._is_instance(value, classes, state)
        return bool(verdict.value) if isinstance(verdict, Const) else None

    def _class_order(self, cls: ClassValue | Symbol) -> set[str]:
        """The names of a class and its bases."""
        order = self.mro(cls)
        names = {entry.name for entry in order if isinstance(entry, Symbol)}
        return names | {f"{entry.module.path}:{entry.name}" for entry in order if isinstance(entry, ClassModel)}

    def _container_is(self, thing: HeapObject | None, classes: set[str]) -> Value:
        if isinstance(thing, DictObject):
            return Const(bool(classes & DICT_CLASSES))
        if not isinstance(thing, ListObject):
            return Unknown("isinstance()")
        if thing.items is not None and "builtins.tuple" not in classes:
            return Const(bool(classes & LIST_CLASSES)) if not classes & DOUBTFUL_CLASSES else Unknown("isinstance()")
        if classes & (LIST_CLASSES - {"builtins.list"}) or {"builtins.list", "builtins.tuple"} <= classes:
            return Const(True)
        if thing.items is not None and not classes & DOUBTFUL_CLASSES:
            return Const("builtins.list" in classes)
        known = {"builtins.list", "builtins.tuple"} | DOUBTFUL_CLASSES
        return Unknown("isinstance()") if classes & known else Const(False)

    def class_names(self, node: cst.BaseExpression, state: State) -> set[str]:
        """Canonical names of the classes in the second argument of isinstance; empty if one is unknown."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            left, right = self.class_names(node.left, state), self.class_names(node.right, state)
            return left | right if left and right else set()
        if isinstance(node, cst.Subscript):
            return self.class_names(node.value, state)
        nodes = [e.value for e in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]
        names = set()
        for each in nodes:
            value = self.eval(each, State({}, state.heap, state.guard))
            if isinstance(value, Symbol):
                names.add(value.name)
            elif isinstance(value, ClassValue):
                model = self.class_model(value)
                names.add(f"{model.module.path}:{model.name}")
            else:
                return set()
        return names

    def _builtin_type(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "object")
        if isinstance(value, Choice):
            return choice([(guard, self._type_of(option, state)) for guard, option in value.options])
        return self._type_of(value, state) if value is not None else Unknown("type() of nothing")

    def _type_of(self, value: Value, state: State) -> Value:
        thing = self.load(state, value) if isinstance(value, Ref) else None
        match value:
            case Tensor() if not value.collection:
                return Symbol("torch.Tensor")
            case Const():
                return Symbol(f"builtins.{type(value.value).__name__}")
            case RecordValue() if value.cls is not None:
                return value.cls
            case TupleValue():
                return Symbol("builtins.tuple")
        match thing:
            case Instance():
                return thing.cls
            case DictObject():
                return Symbol("builtins.dict")
            case ListObject() if thing.items is not None:
                return Symbol("builtins.list")
        return Unknown("type() of an unknown value")

    def _builtin_hasattr(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        target, name = arguments.get(0, "obj"), arguments.get(1, "name")
        if isinstance(target, Tensor) and not target.collection and isinstance(name, Const):
            known = str(name.value) in TENSOR_VIEWS | TENSOR_NUMBERS or str(name.value) in self.backend.methods
            return Const(True) if known else Unknown("hasattr() of a tensor", ("has", target.number, name))
        instance = self.instance(state, target) if target is not None else None
        if instance is None or not isinstance(name, Const) or not isinstance(instance.cls, ClassValue):
            return Unknown("hasattr() of an unknown object")
        if str(name.value) in instance.attributes:
            return Const(True)
        assert isinstance(target, Ref)
        found = self._class_attribute(instance.cls, str(name.value), None, state)
        if not isinstance(found, Unknown):
            return Const(True)
        if self.native_base(instance) in (None, "torch.nn.Module") and self.is_closed(instance):
            return Const(str(name.value) in MODULE_ATTRIBUTES)
        return Unknown("hasattr() of a library object")

    # --- classes and functions ----------------------------------------------------------------------

    def is_module_class(self, cls: ClassValue | Symbol) -> bool:
        """Does a class derive from a torch module?"""
        return any(isinstance(e, Symbol) and e.name.startswith(("torch.nn.", "torch.ao.")) for e in self.mro(cls))

    def _is_callable_of(self, value: ClassValue | FunctionValue | Symbol, classes: set[str]) -> Value:
        """Is a class or a function an instance of a class?"""
        if isinstance(value, Symbol) and not value.name.startswith(("torch.", "builtins.")):
            return Unknown("isinstance() of a name that is not in view")
        if classes & CALLABLES:
            return Const(True) if not isinstance(value, Symbol) else Unknown("isinstance() of a library name")
        if "builtins.type" in classes:
            return Const(isinstance(value, ClassValue) or (isinstance(value, Symbol) and _is_class_name(value.name)))
        if isinstance(value, FunctionValue) and classes & FUNCTION_TYPES:
            return Const(True)
        plain = all(name.startswith(("builtins.", "torch.nn.")) or name == "torch.Tensor" for name in classes)
        return Const(False) if plain else Unknown("isinstance() of a class or a function")

    def _builtin_issubclass(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "cls")
        classes = self.class_names(node.args[1].value, state) if len(node.args) == 2 else set()
        if not isinstance(value, (ClassValue, Symbol)) or not classes:
            return Unknown("issubclass() of an unknown class")
        if self._class_order(value) & classes or ("torch.nn.Module" in classes and self.is_module_class(value)):
            return Const(True)
        closed = isinstance(value, ClassValue) and not any(isinstance(e, Unknown) for e in self.mro(value))
        return Const(False) if closed else Unknown("issubclass() of an unknown class")

    def _builtin_callable(self, arguments: Arguments, node: cst.Call, state: State) -> Value:
        value = arguments.get(0, "obj")
        if value is None:
            return Unknown("callable() of nothing")
        return choice([(guard, self._is_callable(option, state)) for guard, option in options_of(value)])

    def _is_callable(self, value: Value, state: State) -> Value:
        if isinstance(value, (ClassValue, FunctionValue)):
            return Const(True)
        if isinstance(value, Symbol) and value.name.startswith("torch.nn."):
            return Const(True)
        if isinstance(value, (Const, Tensor, TupleValue)):
            return Const(False)
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(thing, (ListObject, DictObject)):
            return Const(False)
        if isinstance(thing, Instance) and (self.is_module_class(thing.cls) or thing.cls == PARTIAL):
            return Const(True)
        return Unknown("callable() of an unknown value")


def _is_class_name(name: str) -> bool:
    """Is a library name that of a class?"""
    return name.rpartition(".")[2][:1].isupper() or name.removeprefix("builtins.") in CLASSES
