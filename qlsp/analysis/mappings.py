"""QConfigMapping: which qconfig tracing front ends give to what, as far as the code says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import libcst as cst

from qlsp.analysis.facts import LifecycleCall, MappingEntry, MappingKey, QconfigMapping, QconfigUse, Tracing
from qlsp.analysis.machine import Arguments
from qlsp.analysis.steps import Steps
from qlsp.backends.spec import LifecycleRow
from qlsp.values.state import DictObject, State
from qlsp.values.value import NONE, Const, Ref, Symbol, TupleValue, Unknown, Value
from qlsp.values.workflow import Mode, Workflow

AO = "torch.ao.quantization."
CLASS = f"{AO}QConfigMapping"
MAKERS = (CLASS, f"{AO}get_default_qconfig_mapping", f"{AO}get_default_qat_qconfig_mapping")
SETTERS = {
    "set_global": (MappingKey.GLOBAL, ("global_qconfig",)),
    "set_object_type": (MappingKey.TYPE, ("object_type", "qconfig")),
    "set_module_name": (MappingKey.NAME, ("module_name", "qconfig")),
    "set_module_name_regex": (MappingKey.REGEX, ("module_name_regex", "qconfig")),
    "set_module_name_object_type_order": (MappingKey.OTHER, ("module_name", "object_type", "index", "qconfig")),
}
DICT_KEYS = {
    "object_type": MappingKey.TYPE,
    "module_name": MappingKey.NAME,
    "module_name_regex": MappingKey.REGEX,
}
READERS = frozenset({"to_dict"})
PLAIN = frozenset({"model", "qconfig_mapping", "example_inputs"})

WRAPS = re.compile(r"\.\s*(?:wrap|script)\b|\bimport\b[^\n]*\b(?:wrap|script)\b")
"""Text that keeps the tracer out of a function."""


@dataclass(slots=True)
class Table:
    """A mapping while it is built. ``open``: code that is not followed may have changed it."""

    maker: str
    entry: int
    open: bool
    entries: list[MappingEntry] = field(default_factory=list)


class Mappings(Steps):
    """Builds mappings, and says what a tracing call is asked for.

    A mapping is an unknown value with the number of its table: whoever holds it changes one table.
    """

    @cached_property
    def tables(self) -> dict[int, Table]:
        """The mappings of a file by number."""
        return {}

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A mapping is made."""
        if name not in MAKERS:
            return super().library_call(name, arguments, node, state)
        number = self.number(("mapping", self.span(node), self.path, self.entry))
        given = bool(arguments.positional or arguments.keywords) and name == CLASS
        unread = bool(self.on_demand) or arguments.open or given
        if number not in self.tables:
            self.tables[number] = Table(name, self.entry, unread)
        return Unknown(f"{name} is not part of the project", ("mapping", number))

    def attribute(self, value: Value, name: str, state: State) -> Value:
        """What is read of a mapping besides its methods may be changed."""
        table = self._mapping_of(value)
        if table is not None and name not in SETTERS and name not in READERS:
            table.open = True
        return super().attribute(value, name, state)

    def assign_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """An attribute of a mapping is set past its methods."""
        table = self._mapping_of(target)
        if table is not None:
            table.open = True
        super().assign_attribute(target, name, value, state)

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A method of a mapping adds an entry, and gives the mapping back."""
        if isinstance(function, Unknown) and function.symbol is not None and len(function.symbol) == 4:
            name, mapping = function.symbol[3], Unknown(function.reason, function.symbol[:2])
            table = self._mapping_of(mapping)
            if table is not None and name in SETTERS:
                if not self.muted:
                    entry = self._entry(str(name), arguments, node, state)
                    if entry not in table.entries:
                        table.entries.append(entry)
                    table.open = table.open or self.entry != table.entry
                return mapping
        return super().call(function, arguments, node, state)

    def _mapping_of(self, value: Value) -> Table | None:
        symbol = value.symbol if isinstance(value, Unknown) else None
        number = symbol[1] if symbol is not None and len(symbol) == 2 and symbol[0] == "mapping" else None
        return self.tables.get(number) if isinstance(number, int) else None

    def _entry(self, method: str, arguments: Arguments, node: cst.Call, state: State) -> MappingEntry:
        kind, params = SETTERS[method]
        key = arguments.get(0, params[0]) if kind is not MappingKey.GLOBAL else None
        qconfig = arguments.get(len(params) - 1, params[-1])
        sure = not (arguments.open or self.loop_depth or state.guard)
        return self._mapped(kind, key, qconfig, state, sure, node)

    def _mapped(
        self, kind: MappingKey, key: Value | None, qconfig: Value | None, state: State, sure: bool, node: cst.Call
    ) -> MappingEntry:
        known: str | None = None
        if isinstance(key, Symbol):
            known = key.name
        elif isinstance(key, Const) and isinstance(key.value, str) and kind is not MappingKey.TYPE:
            known = key.value
        number = self.number(("mapped", self.key_of(qconfig, state))) if qconfig is not None else None
        return MappingEntry(self.span(node), kind, known, self.qconfig_use(qconfig), number, sure)

    def qconfig_use(self, value: Value | None) -> QconfigUse:
        """What a layer becomes to which a mapping gives a qconfig."""
        if value == NONE:
            return QconfigUse.FLOAT
        if value is not None and self.qconfig_mode(value) is not Mode.UNKNOWN:
            return QconfigUse.STATIC
        return QconfigUse.UNKNOWN

    def tracing(self, row: LifecycleRow, arguments: Arguments, node: cst.Call, state: State) -> Tracing | None:
        """What a prepare call of FX is asked for."""
        if row.workflow is not Workflow.FX or "qconfig_mapping" not in row.params:
            return None
        passed = set(arguments.keywords) | set(row.params[: len(arguments.positional)])
        plain = not arguments.open and passed <= PLAIN and not self._wraps()
        return Tracing(self._mapping(arguments.get(1, "qconfig_mapping"), node, state), plain)

    def _wraps(self) -> bool:
        """Does a file in view keep the tracer out of functions?"""
        return any(module.shows(WRAPS) for module in self.finder.modules())

    def _mapping(self, value: Value | None, node: cst.Call, state: State) -> QconfigMapping | None:
        table = self._mapping_of(value) if value is not None else None
        if table is None:
            thing = self.load(state, value) if isinstance(value, Ref) else None
            return self._from_dict(thing, node, state) if isinstance(thing, DictObject) else None
        assert isinstance(value, Unknown) and value.symbol is not None
        handed = self._unknown_key(value.symbol) in self.handed
        whole = not (table.open or handed) and table.entry == self.entry
        return QconfigMapping(table.maker == CLASS, tuple(table.entries), whole)

    def _from_dict(self, thing: DictObject, node: cst.Call, state: State) -> QconfigMapping:
        entries: list[MappingEntry] = []
        whole = thing.rest is None
        for key, value in thing.entries:
            kind = DICT_KEYS.get(key) if isinstance(key, str) else None
            if key == "":
                entries.append(self._mapped(MappingKey.GLOBAL, None, value, state, True, node))
                continue
            items = self.items(value, state) if kind is not None else None
            pairs = [each for each in items or () if isinstance(each, TupleValue) and len(each.items) == 2]
            whole = whole and kind is not None and items is not None and len(pairs) == len(items)
            if kind is not None:
                entries += [self._mapped(kind, each.items[0], each.items[1], state, True, node) for each in pairs]
        return QconfigMapping(True, tuple(entries), whole)

    def record_lifecycle(
        self,
        row: LifecycleRow,
        model: Value,
        arguments: Arguments,
        node: cst.Call,
        state: State,
        copies: dict[int, int],
    ) -> Value:
        """Add to the event what the call is asked for."""
        start = len(self.script.events)
        result = super().record_lifecycle(row, model, arguments, node, state, copies)
        recorded = self.script.events[start] if len(self.script.events) > start else None
        if isinstance(recorded, LifecycleCall):
            self.script.events[start] = replace(recorded, tracing=self.tracing(row, arguments, node, state))
        return result
