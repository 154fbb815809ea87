"""Objects: their attributes."""

from __future__ import annotations

import re
from dataclasses import replace

from qlsp.analysis.classes import Classes
from qlsp.values.state import DictObject, Instance, State
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
    something,
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

DICT_METHODS = frozenset(
    ["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"]
)
MODULE = "torch.nn.Module"
NAMESPACE = Symbol("types.SimpleNamespace")
NAMED_TUPLES = frozenset({Symbol("typing.NamedTuple"), Symbol("typing_extensions.NamedTuple")})
NAMED_RESULTS = ("values", "indices")
"""Field names of what ``sort``, ``topk``, ``max`` and kin return."""


class Objects(Classes):
    """Reading and writing of attributes and items."""

    # --- attributes ---------------------------------------------------------------------------------

    def attribute(self, value: Value, name: str, state: State) -> Value:
        """Read ``value.name``."""
        match value:
            case Choice():
                return choice([(guard, self.attribute(v, name, state)) for guard, v in something(value)])
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
        if isinstance(thing, DictObject) and thing.attributes:
            return self._entry_attribute(ref, thing, name)
        if not isinstance(thing, Instance):
            return Bound(ref, name)
        if name in thing.attributes:
            if thing.cls == NAMESPACE and ref.oid not in state.heap and self._set_elsewhere(name):
                return Unknown(f"attribute '{name}' is set somewhere in this file")
            return thing.attributes[name]
        if isinstance(thing.cls, ClassValue):
            found = self.found_in(self.mro(thing.cls), name, ref, thing.cls, state)
            if found is not None:
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

    def _entry_attribute(self, ref: Ref, thing: DictObject, name: str) -> Value:
        """``cfg.name`` of a dict whose entries are attributes, too."""
        entries = dict(thing.entries)
        if name in entries:
            return entries[name]
        if name in DICT_METHODS or thing.rest is None:
            return Bound(ref, name)
        return Unknown(thing.rest.reason if isinstance(thing.rest, Unknown) else "an entry of an unknown dict")

    def _set_elsewhere(self, name: str) -> bool:
        """Does the file assign an attribute of this name to an object with a global name, or may it?"""
        sets = re.compile(rf"(?<![\w.])(\w+)\s*\.\s*{re.escape(name)}\s*=[^=]|\bsetattr\b|\b__dict__\b|\bvars\(")
        units = self.current.module.syntax.units
        bound = frozenset[str]().union(*(unit.names for unit in units))
        return any(m[1] is None or m[1] in bound for unit in units for m in sets.finditer(unit.text))

    def is_closed(self, instance: Instance) -> bool:
        """True if every class of the instance is in view or a library module: a missing attribute is missing."""
        return not any(isinstance(entry, Unknown) for entry in self.mro(instance.cls))

    def set_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Assign an attribute of an instance; of other values nothing is known."""
        if isinstance(target, Choice):
            for _, option in target.options:
                self.set_attribute(option, name, value, state)
            return
        thing = self.load(state, target) if isinstance(target, Ref) else None
        if isinstance(target, Ref) and isinstance(thing, Instance):
            state.heap[target.oid] = thing.with_attribute(name, value)
        elif isinstance(target, Ref) and isinstance(thing, DictObject) and thing.attributes:
            entries = {**dict(thing.entries), name: value}
            state.heap[target.oid] = replace(thing, entries=tuple(entries.items()))
