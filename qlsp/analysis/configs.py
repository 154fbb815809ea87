"""Configurations: dicts with attributes, configurations that are Python files, command lines."""

from __future__ import annotations

import libcst as cst

from qlsp.analysis.machine import Arguments
from qlsp.analysis.makers import Makers
from qlsp.analysis.objects import DICT_METHODS
from qlsp.analysis.program import ModuleModel
from qlsp.backends.frameworks import ATTRIBUTE_DICTS, CONFIG_READERS, DATA_READERS, PARSERS, PARSING
from qlsp.values.state import DictObject, HeapObject, ListObject, State
from qlsp.values.value import Const, Ref, TupleValue, Unknown, Value

COMMAND_LINE = "a command-line argument"
DATA_FILE = "a configuration file that is no Python"
UNKNOWN_FILE = "a configuration file that is not known"
BASE = "_base_"
DELETE = "_delete_"
MAX_BASES = 8


class Configs(Makers):
    """What a program reads its settings from."""

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """A configuration is made or read."""
        if name in ATTRIBUTE_DICTS:
            return self._with_attributes(self.new_dict(arguments, state), state)
        if name in CONFIG_READERS:
            return self._config_file(arguments.get(0, "filename"), self.current.module, state)
        if name in DATA_READERS:
            return Unknown(DATA_FILE)
        if name in PARSERS:
            return Unknown(COMMAND_LINE, ("parser", self.span(node), self.path))
        return super().library_call(name, arguments, node, state)

    def _unknown_call(self, function: Unknown, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """The arguments of one command line are the same wherever they are read."""
        symbol = function.symbol
        if symbol is not None and symbol[0] == "parser" and symbol[-1] in PARSING:
            return Unknown(COMMAND_LINE, ("command line", symbol))
        return super()._unknown_call(function, arguments, node, state)

    def container_method(
        self, ref: Ref, thing: HeapObject, name: str, arguments: Arguments, node: cst.Call, state: State
    ) -> Value:
        """A method of a configuration that is no dict's may change it."""
        if isinstance(thing, DictObject) and thing.attributes:
            if name not in DICT_METHODS:
                state.heap[ref.oid] = DictObject((), Unknown(f"a configuration after {name}()"), None, True)
                return Unknown(f"{name}() of a configuration")
            if name == "copy":
                return self.allocate(state, thing)
        return super().container_method(ref, thing, name, arguments, node, state)

    def _with_attributes(self, value: Value, state: State) -> Value:
        """A description whose dicts, and those in it, can be read by attributes."""
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._with_attributes(item, state) for item in value.items))
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(thing, ListObject) and thing.items is not None:
            return self.allocate(state, ListObject(tuple(self._with_attributes(item, state) for item in thing.items)))
        if isinstance(thing, DictObject):
            entries = tuple((key, self._with_attributes(entry, state)) for key, entry in thing.entries)
            return self.allocate(state, DictObject(entries, thing.rest, thing.factory, True))
        return value

    # --- configurations that are Python files -------------------------------------------------------

    def _config_file(self, name: Value | None, importer: ModuleModel, state: State) -> Value:
        """What the names of a Python file of the project give."""
        if not (isinstance(name, Const) and isinstance(name.value, str)):
            return Unknown(UNKNOWN_FILE)
        if not name.value.endswith(".py"):
            return Unknown(DATA_FILE)
        module = self.finder.file(name.value, importer.path)
        entries = self._file_entries(module, state, 0) if module is not None else None
        if entries is None:
            return Unknown(f"no file {name.value} is in view")
        return self._with_attributes(self.allocate(state, DictObject(tuple(entries.items()))), state)

    def _file_entries(self, module: ModuleModel, state: State, depth: int) -> dict[object, Value] | None:
        """The names of a configuration file over those of its bases; None if a base is not in view."""
        entries: dict[object, Value] = {}
        bases: Value | None = self.global_value(module, BASE) if BASE in module.binders else None
        names = [bases] if isinstance(bases, Const) else self.items(bases, state) if bases is not None else []
        for name in names if names is not None else [Unknown(UNKNOWN_FILE)]:
            path = name.value if isinstance(name, Const) else None
            base = self.finder.file(path, module.path) if isinstance(path, str) else None
            inherited = self._file_entries(base, state, depth + 1) if base is not None and depth < MAX_BASES else None
            if inherited is None:
                return None
            entries.update(inherited)
        for name_ in module.binders:
            if not name_.startswith("_") and name_ not in module.imports:
                value = self.global_value(module, name_)
                entries[name_] = self._over(entries.get(name_), value, state)
        return entries

    def _over(self, old: Value | None, new: Value, state: State) -> Value:
        """An entry over that of a base: dicts are merged unless they say ``_delete_``."""
        mine = self.load(state, new) if isinstance(new, Ref) else None
        theirs = self.load(state, old) if isinstance(old, Ref) else None
        if not isinstance(mine, DictObject):
            return new
        entries = dict(mine.entries)
        if entries.pop(DELETE, None) == Const(True) or not isinstance(theirs, DictObject):
            return self.allocate(state, DictObject(tuple(entries.items()), mine.rest))
        merged = dict(theirs.entries)
        for key, value in entries.items():
            merged[key] = self._over(merged.get(key), value, state)
        return self.allocate(state, DictObject(tuple(merged.items()), mine.rest or theirs.rest))


