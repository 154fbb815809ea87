"""Records: named tuples, dataclasses, and functions of the standard library on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from qlsp.analysis.calls import Calls
from qlsp.analysis.expressions import number_of
from qlsp.analysis.machine import Arguments, Frame
from qlsp.analysis.objects import NAMED_TUPLES
from qlsp.analysis.program import ClassModel
from qlsp.syntax.parse import Unit
from qlsp.values.state import DictObject, Instance, State
from qlsp.values.value import (
    Bound,
    ClassValue,
    Const,
    RecordType,
    RecordValue,
    Ref,
    Symbol,
    TupleValue,
    Unknown,
    Value,
)

FIELD_MAKERS = frozenset({"dataclasses.field", "attr.ib", "attr.field", "attrs.field"})
FACTORIES = ("default_factory", "factory")
RECORD_MAKERS = frozenset({"collections.namedtuple", "typing.NamedTuple", "typing_extensions.NamedTuple"})
PLAIN_DICTS = frozenset({"builtins.dict", "collections.OrderedDict", "collections.UserDict"})


@dataclass(frozen=True, slots=True)
class Field:
    """An annotated name of a class body, with the expression of its default."""

    name: str
    hint: cst.BaseExpression
    model: ClassModel
    default: cst.BaseExpression | None
    unit: Unit


class Records(Calls):
    """Objects that mainly hold values."""

    def instantiate(self, cls: ClassValue, arguments: Arguments, node: cst.CSTNode | None, state: State) -> Value:
        """Named tuples are values, classes that only derive from dict or list are dicts and lists."""
        order = self.mro(cls)
        record = next((entry for entry in order if isinstance(entry, RecordType)), None)
        if record is not None or self.is_named_tuple(cls):
            own = any(isinstance(entry, ClassModel) and "__new__" in entry.methods for entry in order)
            return Unknown("a named tuple with a constructor") if own else self._record(cls, record, arguments, state)
        models = [entry for entry in order if isinstance(entry, ClassModel)]
        base = order[-1] if len(order) == len(models) + 1 else None
        if isinstance(base, Symbol) and not any(model.methods for model in models):
            if base.name in PLAIN_DICTS:
                made = self.new_dict(arguments, state)
                thing = self.load(state, made)
                if isinstance(thing, DictObject) and any("__getattr__" in model.attributes for model in models):
                    state.heap[made.oid] = replace(thing, attributes=True)
                return made
            if base.name == "builtins.list":
                return self.new_sequence(arguments, state)
        return super().instantiate(cls, arguments, node, state)

    def is_named_tuple(self, cls: ClassValue) -> bool:
        """Does a class derive from ``NamedTuple``?"""
        return any(isinstance(entry, Symbol) and entry in NAMED_TUPLES for entry in self.mro(cls))

    def record_fields(self, cls: ClassValue) -> list[Field]:
        """The fields of a named tuple or a dataclass; empty for other classes."""
        return list(self._annotated(cls)) if self.is_named_tuple(cls) or self._is_dataclass(cls) else []

    # --- named tuples -------------------------------------------------------------------------------

    def record_type(self, arguments: Arguments, state: State) -> Value:
        """``namedtuple(name, fields)``: a class."""
        name, given = arguments.get(0, "typename"), arguments.get(1, "field_names") or arguments.get(1, "fields")
        if not isinstance(name, Const) or given is None:
            return Unknown("a named tuple of unknown fields")
        if isinstance(given, Const):
            fields = str(given.value).replace(",", " ").split()
        else:
            items = self.items(given, state)
            pairs = ([item] if isinstance(item, Const) else self.items(item, state) for item in items or ())
            fields = [str(pair[0].value) for pair in pairs if pair and isinstance(pair[0], Const)]
            if items is None or len(fields) < len(items):
                return Unknown("a named tuple of unknown fields")
        defaults = arguments.keywords.get("defaults")
        known = self.items(defaults.value, state) if defaults is not None else []
        return RecordType(f"collections.namedtuple.{name.value}", tuple(fields), tuple(known or ()))

    def new_record(self, cls: RecordType, arguments: Arguments, state: State) -> Value:
        """A call of what ``namedtuple`` made."""
        return self._record(cls, cls, arguments, state)

    def _record(
        self, cls: ClassValue | RecordType, made: RecordType | None, arguments: Arguments, state: State
    ) -> Value:
        if made is not None:
            names = list(made.fields)
            defaults = dict(zip(reversed(names), reversed(made.defaults), strict=False))
        else:
            assert isinstance(cls, ClassValue)
            found = list(self._annotated(cls))
            names = [each.name for each in found]
            defaults = {each.name: self._default_of(each, state) for each in found if each.default is not None}
        values: list[Value] = []
        for position, name in enumerate(names):
            value = arguments.get(position, name)
            if value is None:
                value = Unknown("arguments of an open call") if arguments.open else defaults.get(name)
            values.append(value if value is not None else Unknown(f"field '{name}' is not given"))
        return RecordValue(tuple(values), tuple(names), cls)

    def record_attribute(self, value: RecordValue, name: str, state: State) -> Value:
        """A field of a named tuple, or what its class has."""
        if name in value.fields:
            return value.items[value.fields.index(name)]
        if name == "_fields":
            return TupleValue(tuple(Const(field) for field in value.fields))
        if isinstance(value.cls, ClassValue):
            for entry in self.mro(value.cls):
                method = entry.methods.get(name) if isinstance(entry, ClassModel) else None
                if method is not None:
                    return self.method_of(method, value, value.cls, state)
        return Bound(value, name)

    def record_method(self, receiver: RecordValue | RecordType, name: str, arguments: Arguments, state: State) -> Value:
        """``_replace``, ``_asdict``, ``_make`` and the methods of tuples."""
        if isinstance(receiver, RecordType):
            items = self.items(arguments.positional[0].value, state) if arguments.positional else None
            made = name == "_make" and items is not None
            return self.new_record(receiver, Arguments.of(*(items or ())), state) if made else Unknown(f"method {name}")
        match name:
            case "_replace" if not arguments.open:
                changed = {key: argument.value for key, argument in arguments.keywords.items()}
                pairs = zip(receiver.fields, receiver.items, strict=True)
                return replace(receiver, items=tuple(changed.get(field, item) for field, item in pairs))
            case "_asdict":
                return self.allocate(state, DictObject(tuple(zip(receiver.fields, receiver.items, strict=True))))
            case "index" | "count":
                return number_of(f"tuple.{name}")
        return Unknown(f"method {name} of a named tuple")

    # --- dataclasses --------------------------------------------------------------------------------

    def _annotated(self, cls: ClassValue) -> Iterator[Field]:
        """The annotated names of a class and its bases, in the order of a constructor's parameters."""
        found: dict[str, Field] = {}
        for entry in reversed(self.mro(cls)):
            if not isinstance(entry, ClassModel):
                continue
            for statement, unit in entry.body:
                if not isinstance(statement, cst.SimpleStatementLine):
                    continue
                for small in statement.body:
                    if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                        name = small.target.value
                        if "ClassVar" not in cst.Module([]).code_for_node(small.annotation.annotation):
                            found[name] = Field(name, small.annotation.annotation, entry, small.value, unit)
        yield from found.values()

    def fields(self, ref: Ref, cls: ClassValue, arguments: Arguments, state: State) -> None:
        """What the constructor of a dataclass does."""
        for position, each in enumerate(self._annotated(cls)):
            value = arguments.get(position, each.name)
            if value is None and arguments.open:
                value = Unknown("arguments of an open call")
            if value is None and each.default is not None:
                value = self._default_of(each, state)
            if value is not None:
                self.set_attribute(ref, each.name, value, state)
        after = self._class_attribute(cls, "__post_init__", ref, state)
        if isinstance(after, Bound) and after.function is not None:
            self.call_function(after.function, ref, Arguments(), None, state)

    def _default_of(self, each: Field, state: State) -> Value:
        """A default, evaluated for a new object."""
        assert each.default is not None
        model = each.model
        saved, self.frame = self.frame, Frame(each.unit, model.module, model.name, model, closure=model.closure)
        scope = State({}, state.heap, state.guard)
        try:
            value = self._made_default(each.default, scope)
        finally:
            self.frame = saved
        state.heap = scope.heap
        return value

    def _made_default(self, node: cst.BaseExpression, state: State) -> Value:
        function = self.eval(node.func, state) if isinstance(node, cst.Call) else None
        if not isinstance(node, cst.Call) or not isinstance(function, Symbol) or function.name not in FIELD_MAKERS:
            return self.eval(node, state)
        given = {a.keyword.value: a.value for a in node.args if a.keyword is not None}
        for name in FACTORIES:
            if name in given:
                return self.call(self.eval(given[name], state), Arguments(), node, state)
        return self.eval(given["default"], state) if "default" in given else Unknown("a field without a default")

    def dataclass_function(self, name: str, arguments: Arguments, state: State) -> Value | None:
        """``dataclasses.replace`` and kin."""
        target = arguments.positional[0].value if arguments.positional else None
        instance = self.instance(state, target) if target is not None else None
        if instance is None:
            return None
        match name:
            case "replace" if not arguments.open:
                changed = {key: argument.value for key, argument in arguments.keywords.items()}
                return self.allocate(state, replace(instance, attributes={**instance.attributes, **changed}))
            case "asdict":
                return self.allocate(state, DictObject(tuple(instance.attributes.items())))
            case "astuple":
                return TupleValue(tuple(instance.attributes.values()))
            case "fields":
                names = [Instance(Symbol("types.SimpleNamespace"), {"name": Const(n)}) for n in instance.attributes]
                return TupleValue(tuple(self.allocate(state, each) for each in names))
        return None

    # --- provided by other parts --------------------------------------------------------------------

    def new_dict(self, arguments: Arguments, state: State) -> Ref:
        """What ``dict(...)`` of these arguments gives (see ``containers``)."""
        raise NotImplementedError

    def new_sequence(self, arguments: Arguments, state: State) -> Value:
        """What ``list(...)`` of these arguments gives (see ``containers``)."""
        raise NotImplementedError
