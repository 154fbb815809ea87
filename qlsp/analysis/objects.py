"""Objects: their attributes."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from qlsp.analysis.machine import Arguments, Frame
from qlsp.analysis.operators import Operators
from qlsp.analysis.program import ClassModel, FunctionModel
from qlsp.values.state import Instance, State
from qlsp.values.value import (
    A_NUMBER,
    Bound,
    Choice,
    ClassValue,
    Const,
    Domain,
    FunctionValue,
    RecordType,
    RecordValue,
    Ref,
    Super,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
)

TENSOR_VIEWS = frozenset({"T", "mT", "H", "mH", "data", "real"})
TENSOR_NUMBERS = frozenset(
    [
        "shape",
        "device",
        "dtype",
        "layout",
        "ndim",
        "requires_grad",
        "is_quantized",
        "is_cuda",
        "names",
        "itemsize",
        "nbytes",
        "grad_fn",
        "is_leaf",
        "is_sparse",
        "is_meta",
    ]
)
MODULE_ATTRIBUTES = frozenset(
    [
        "T_destination",
        "add_module",
        "apply",
        "bfloat16",
        "buffers",
        "call_super_init",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "dump_patches",
        "eval",
        "extra_repr",
        "float",
        "forward",
        "get_buffer",
        "get_extra_state",
        "get_parameter",
        "get_submodule",
        "half",
        "ipu",
        "load_state_dict",
        "modules",
        "mtia",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "parameters",
        "register_backward_hook",
        "register_buffer",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
        "register_module",
        "register_parameter",
        "register_state_dict_post_hook",
        "register_state_dict_pre_hook",
        "requires_grad_",
        "set_extra_state",
        "set_submodule",
        "share_memory",
        "state_dict",
        "to",
        "to_empty",
        "train",
        "training",
        "type",
        "xpu",
        "zero_grad",
    ]
)
"""What every ``torch.nn.Module`` has, by ``dir`` of torch 2.13."""

MODULE = "torch.nn.Module"
NAMESPACE = Symbol("types.SimpleNamespace")
NAMED_TUPLES = frozenset({Symbol("typing.NamedTuple"), Symbol("typing_extensions.NamedTuple")})
NAMED_RESULTS = ("values", "indices")
"""Field names of what ``sort``, ``topk``, ``max`` and kin return."""

ENUMS = frozenset({"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"})


class Objects(Operators):
    """Reading and writing of attributes."""

    # --- attributes ---------------------------------------------------------------------------------

    def attribute(self, value: Value, name: str, state: State) -> Value:
        """Read ``value.name``."""
        match value:
            case Choice():
                return choice([(guard, self.attribute(v, name, state)) for guard, v in value.options])
            case RecordValue():
                return self.record_attribute(value, name, state)
            case RecordType():
                fields = TupleValue(tuple(Const(field) for field in value.fields))
                return fields if name == "_fields" else Bound(value, name)
            case Symbol():
                return self.qualified(f"{value.name}.{name}", self.current.module)
            case Ref():
                return self._object_attribute(value, name, state)
            case ClassValue() | FunctionValue() if name in ("__name__", "__qualname__"):
                return Const(value.name.rpartition(".")[2])
            case ClassValue():
                return self._class_attribute(value, name, None, state)
            case Super():
                return self._super_attribute(value, name, state)
            case Tensor():
                return self._tensor_attribute(value, name)
            case Unknown():
                symbol = (*value.symbol, ".", name) if value.symbol is not None else None
                return Unknown(value.reason, symbol)
            case TupleValue() if name in NAMED_RESULTS and len(value.items) == 2:
                return value.items[NAMED_RESULTS.index(name)]
            case _:
                return Bound(value, name)

    def record_attribute(self, value: RecordValue, name: str, state: State) -> Value:
        """A field of a named tuple (see ``records``)."""
        raise NotImplementedError

    def _tensor_attribute(self, value: Tensor, name: str) -> Value:
        if name in TENSOR_VIEWS:
            return replace(value, number=self.number((name, value.number)))
        if name == "is_quantized" and value.domain is not Domain.UNKNOWN:
            return Const(value.domain is Domain.QUANTIZED)
        if name == "grad":
            return Unknown("a gradient")
        if name in TENSOR_NUMBERS:
            return Unknown(A_NUMBER, ("tensor", value.number, name))
        return Bound(value, name)

    def _object_attribute(self, ref: Ref, name: str, state: State) -> Value:
        thing = self.load(state, ref)
        if not isinstance(thing, Instance):
            return Bound(ref, name)
        if name in thing.attributes:
            if thing.cls == NAMESPACE and ref.oid not in state.heap and self._set_elsewhere(name):
                return Unknown(f"attribute '{name}' is set somewhere in this file")
            return thing.attributes[name]
        if isinstance(thing.cls, ClassValue):
            found = self._class_attribute(thing.cls, name, ref, state)
            if not isinstance(found, Unknown):
                return found
        if name == "training":
            return Unknown("train or eval mode", ("training",)) if self.facts is None else Const(False)
        if name == "__class__":
            return thing.cls
        if name in ("_modules", "__getattr__", "__getattribute__", "__setattr__"):
            return Bound(ref, name)
        base = self.native_base(thing)
        if isinstance(thing.cls, Symbol) or (base is not None and (base != MODULE or name in MODULE_ATTRIBUTES)):
            return Bound(ref, name)
        return Unknown(f"attribute '{name}' is not set in view", ("attribute", ref.oid, name))

    def _set_elsewhere(self, name: str) -> bool:
        """Does the file assign an attribute of this name to an object with a global name, or may it?"""
        sets = re.compile(rf"(?<![\w.])(\w+)\s*\.\s*{re.escape(name)}\s*=[^=]|\bsetattr\b|\b__dict__\b|\bvars\(")
        units = self.current.module.syntax.units
        bound = frozenset[str]().union(*(unit.names for unit in units))
        return any(m[1] is None or m[1] in bound for unit in units for m in sets.finditer(unit.text))

    def _class_attribute(self, cls: ClassValue, name: str, receiver: Ref | None, state: State) -> Value:
        return self._lookup(self.mro(cls), name, receiver, cls, state)

    def _lookup(
        self,
        order: list[ClassModel | Symbol | Unknown],
        name: str,
        receiver: Ref | None,
        cls: ClassValue | None,
        state: State,
    ) -> Value:
        for entry in order:
            if not isinstance(entry, ClassModel):
                continue
            method = entry.methods.get(name)
            if method is not None:
                return self.method_of(method, receiver, cls, state)
            assigned = entry.attributes.get(name)
            if assigned is not None and any(isinstance(e, Symbol) and e.name in ENUMS for e in order):
                return Symbol(f"{entry.module.path}:{entry.name}.{name}")
            if assigned is not None:
                return self._class_level(entry, *assigned)
        return Unknown(f"attribute '{name}' is not set in view")

    def _class_level(self, model: ClassModel, expression: cst.BaseExpression, unit: object) -> Value:
        from qlsp.syntax.parse import Unit

        assert isinstance(unit, Unit)
        saved, self.frame = self.frame, Frame(unit, model.module, model.name, model, closure=model.closure)
        scope = State()
        try:
            value = self.eval(expression, scope)
        finally:
            self.frame = saved
        self.static_heap.update(scope.heap)
        if isinstance(value, FunctionValue) and value.name == "<lambda>":
            return value
        return value

    def method_of(
        self, method: FunctionModel, receiver: Value | None, cls: ClassValue | None, state: State
    ) -> Value:
        """A method as it is read from an object or its class."""
        value = self.function_value(method)
        kind = decorator_kind(method.node)
        if kind == "static" or (receiver is None and kind != "class"):
            return value
        if kind == "class":
            assert cls is not None
            return Bound(cls, method.name, value)
        assert receiver is not None
        if kind == "property":
            return self.call_function(value, receiver, Arguments(), None, state)
        return Bound(receiver, method.name, value)

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
        found = self._lookup(order[start + 1 :], name, receiver, cls, state)
        return found if not isinstance(found, Unknown) else Bound(value, name)

    def native_base(self, instance: Instance) -> str | None:
        """The library class an instance is of or derives from; None if it has none or it is unknown."""
        for entry in self.mro(instance.cls):
            if isinstance(entry, Symbol) and not entry.name.startswith(("builtins.", "abc.", "typing.")):
                return entry.name
        return None

    def is_closed(self, instance: Instance) -> bool:
        """True if every class of the instance is in view or a library module: a missing attribute is missing."""
        return not any(isinstance(entry, Unknown) for entry in self.mro(instance.cls))

    def set_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Assign an attribute of an instance; of other values nothing is known."""
        if isinstance(target, Choice):
            for _, option in target.options:
                self.set_attribute(option, name, value, state)
            return
        instance = self.instance(state, target)
        if instance is not None and isinstance(target, Ref):
            state.heap[target.oid] = instance.with_attribute(name, value)


def decorator_kind(node: cst.FunctionDef | cst.Lambda) -> str:
    """``static``, ``class``, ``property`` or ``plain``."""
    if isinstance(node, cst.Lambda):
        return "plain"
    kinds = {
        "staticmethod": "static",
        "classmethod": "class",
        "property": "property",
        "cached_property": "property",
    }
    for decorator in node.decorators:
        expression = decorator.decorator
        name = expression.attr.value if isinstance(expression, cst.Attribute) else ""
        if isinstance(expression, cst.Name):
            name = expression.value
        if name in kinds:
            return kinds[name]
    return "plain"
