"""Registration: what decorators and top-level statements put into the tables of a project.

``REGISTRY = {}`` is empty where it stands, and full once the files that use ``@register`` are imported. A table is
filled when it is first read: the decorators and statements that lead to it are run, nothing else of their files is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from qlsp.analysis.facts import ScriptFacts
from qlsp.analysis.machine import LIMITS, Arguments, Frame
from qlsp.analysis.namespaces import Namespaces
from qlsp.analysis.program import ClassModel, ModuleModel
from qlsp.syntax.parse import ChunkError, Unit
from qlsp.values.state import DictObject, Instance, ListObject, State
from qlsp.values.value import (
    Bound,
    FunctionValue,
    Ref,
    SpanId,
    Unknown,
    Value,
)

MAX_ENROLMENT_STEPS = 60_000
"""What filling one table may take."""

TWO_CLAIMS = "two registrations under one name"

_WORD = re.compile(r"[^\W\d]\w*")
_DEFINED = re.compile(r"\s*([^\W\d]\w*)\s*(?::[^=]+)?=\s*([^\W\d][\w.]*)")
_PART_OF = ("functools.partial", "partial")


class Enrolment(Namespaces):
    """Fills the tables of a project."""

    script: ScriptFacts
    filled: set[tuple[str, str]]
    unfilled: list[tuple[Ref, ModuleModel, str]]
    resolving: int
    filling: int
    far: bool
    _names_in_acts: frozenset[str] | None
    class_tables: dict[SpanId, Value]

    def global_value(self, module: ModuleModel, name: str) -> Value:
        """A table that other statements fill is filled before it is read, once the names that lead to it are known."""
        self.resolving += 1
        try:
            value = super().global_value(module, name)
        finally:
            self.resolving -= 1
        running = name in self.running.get(module.path, ())  # the run itself fills it
        first = not running and (module.path, name) not in self.filled and name not in module.imports
        if isinstance(value, Ref) and first:
            self.filled.add((module.path, name))
            thing = self.static_heap.get(value.oid)
            if isinstance(thing, DictObject | ListObject) or self._is_plain(thing):
                self.unfilled.append((value, module, name))
        while self.unfilled and not self.resolving:
            table, owner, own = self.unfilled.pop()
            self.fill(table, self._acts(owner, own))
        return value

    def _class_level(self, model: ClassModel, expression: cst.BaseExpression, unit: object) -> Value:
        """A table that a class holds is one object for all who read it."""
        if not isinstance(expression, (cst.Dict, cst.List, cst.Call)):
            return super()._class_level(model, expression, unit)
        assert isinstance(unit, Unit)
        place = SpanId(unit.path, unit.index, unit.ordinal(expression))
        if place not in self.class_tables:
            value = super()._class_level(model, expression, unit)
            thing = self.static_heap.get(value.oid) if isinstance(value, Ref) else None
            if not isinstance(value, Ref) or not isinstance(thing, DictObject | ListObject):
                return value
            self.class_tables[place] = value
            self.fill(value, self._acts(model.module, model.name))
        return self.class_tables[place]

    def _is_plain(self, thing: object) -> bool:
        """An object that is no module of a model."""
        return isinstance(thing, Instance) and not (self.native_base(thing) or "").startswith(("torch.", "functools."))

    def fill(self, table: Ref, acts: Iterator[tuple[ModuleModel, Unit]]) -> None:
        """Run the registrations that lead to a table, apart from the run that reads it."""
        saved = (self.frame, self.path, self.facts, self.steps, self.limit, self.created, self.loop_depth, self.far)
        self.facts, self.path, self.created, self.loop_depth, self.far = None, (), [], 0, False
        self.steps, self.limit = 0, MAX_ENROLMENT_STEPS
        near = {each.path for each in self.finder.reachable(self.script.path)}
        self.muted += 1
        self.filling += 1
        state = State()
        try:
            for module, unit in acts:
                state.names = {}
                self.frame = Frame(unit, module, "<module>")
                self.far = module.path not in near
                self._enrol(module, unit, state)
            self.static_heap.update(state.heap)
        except LIMITS:
            self.static_heap[table.oid] = DictObject((), Unknown("a table with too many registrations"))
        finally:
            self.filling -= 1
            self.muted -= 1
            self.frame, self.path, self.facts, self.steps, self.limit, self.created, self.loop_depth, self.far = saved

    def _enrol(self, module: ModuleModel, unit: Unit, state: State) -> None:
        """Run the decorators of a definition, or a statement."""
        try:
            node = unit.node
        except ChunkError:
            return
        if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
            value = self.definition_value(module, unit, node, node.name.value)
            if value is not None:
                self.decorate(node, value, state)
        else:
            self.execute(node, state)

    def decorate(self, node: cst.ClassDef | cst.FunctionDef, value: Value, state: State) -> None:
        """Call the decorators of a definition for what they do; the definition stays what it is."""
        for decorator in reversed(node.decorators):
            function = self.eval(decorator.decorator, state)
            self.apply_decorator(function, value, state)

    def apply_decorator(self, function: Value, value: Value, state: State) -> Value:
        """Call a decorator of the project."""
        match function:
            case FunctionValue():
                return self.call_function(function, None, Arguments.of(value), None, state)
            case Bound() if function.function is not None:
                return self.call_function(function.function, function.receiver, Arguments.of(value), None, state)
            case Ref() if self.instance(state, function) is not None:
                return self.call_object(function, Arguments.of(value), None, state)
            case _:
                return Unknown("a decorator that is not followed")

    # --- which statements lead to a table -----------------------------------------------------------

    def _acts(self, module: ModuleModel, name: str) -> Iterator[tuple[ModuleModel, Unit]]:
        """The statements that may fill a table: its own file first, then the files that are imported with the one
        that is analysed, then all others."""
        leads = _leads(module, name)
        if leads.isdisjoint(self._words_of_acts()) and module.name.rpartition(".")[2] not in self._words_of_acts():
            return
        for each in self._modules_in_view(module):
            if not each.enrolments:
                continue
            local = leads if each is module else self._local_names(each, module, leads)
            if not local:
                continue
            for enrolment in each.enrolments:
                if not local.isdisjoint(enrolment.words):
                    yield each, enrolment.unit

    def _words_of_acts(self) -> frozenset[str]:
        """The names that some registration in view uses, and what they are called where they come from."""
        if self._names_in_acts is None:
            found: set[str] = set()
            for module in self._modules_in_view():
                for enrolment in module.enrolments:
                    found |= enrolment.words
                    imported = (module.imports[word] for word in enrolment.words & module.imports.keys())
                    found |= {target.rpartition(".")[2] for target in imported}
            self._names_in_acts = frozenset(found)
        return self._names_in_acts

    def _modules_in_view(self, *first: ModuleModel) -> list[ModuleModel]:
        near = self.finder.reachable(self.script.path)
        found = {each.path: each for each in (*first, *near, *self.finder.modules())}
        return list(found.values())

    def _local_names(self, user: ModuleModel, owner: ModuleModel, leads: frozenset[str]) -> frozenset[str]:
        """The names by which a file reaches what another one defines."""
        last = owner.name.rpartition(".")[2]
        found = set()
        for name, target in user.imports.items():
            end = target.rpartition(".")[2]
            if (end in leads and self.origin_of_name(target, user) in {(owner.path, lead) for lead in leads}) or (
                end == last and self.finder.find(target, user.path) is owner
            ):
                found.add(name)
        for star in user.stars:
            for lead in leads:
                if self.origin_of_name(f"{star}.{lead}", user) == (owner.path, lead):
                    found.add(lead)
        return frozenset(found)

    def origin_of_name(self, target: str, importer: ModuleModel, depth: int = 0) -> tuple[str, str] | None:
        """The file and the name that a qualified name leads to, through files that hand it on."""
        parent, _, name = target.rpartition(".")
        module = self.finder.find(parent, importer.path) if parent else None
        if module is None or depth > 6:
            return None
        if name in module.imports:
            return self.origin_of_name(module.imports[name], module, depth + 1)
        if name in module.binders:
            return module.path, name
        found = (self.origin_of_name(f"{star}.{name}", module, depth + 1) for star in module.stars)
        return next((each for each in found if each is not None), None)

    # --- what registrations write -------------------------------------------------------------------

    def claimed(self, old: Value | None, new: Value) -> Value:
        """What a name stands for after a registration: of two claims none is right, but what is imported goes before
        what is not."""
        if old is None or old == new or not self.filling:
            return new
        return old if self.far else Unknown(TWO_CLAIMS)


def _leads(module: ModuleModel, name: str) -> frozenset[str]:
    """A name and those of the definitions of its file that change what it stands for, or hand it on."""
    found = {name}
    units = [unit for unit in module.syntax.units if unit.names and not _is_import(unit)]
    while True:
        alternatives = "|".join(map(re.escape, sorted(found)))
        writes = re.compile(
            rf"(?<![\w.])(?:{alternatives})\s*(?:\[[^\]\n]*\]\s*=(?!=)|\(|\.\s*"
            r"(?:\w*regist\w*|update|setdefault|append|add|insert|extend|__setitem__)\b)"
        )
        size = len(found)
        for unit in units:
            if unit.names <= found:
                continue
            if unit.kind == "statement":
                defined = _DEFINED.match(unit.text)
                words = _WORD.findall(unit.text) if defined is not None else []
                if defined is not None and (
                    defined[2].partition(".")[0] in found
                    and not unit.text.rstrip().endswith(")")
                    or (defined[2] in _PART_OF and not found.isdisjoint(words))
                ):
                    found.add(defined[1])
            elif writes.search(unit.text):
                found |= unit.names
        if len(found) == size:
            return frozenset(found)


def _is_import(unit: Unit) -> bool:
    return unit.kind == "statement" and unit.text.lstrip().startswith(("import ", "from "))
