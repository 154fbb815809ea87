"""The program model: files, their global names, classes and functions. Nothing is executed here."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import libcst as cst

from qlsp.syntax.names import Binding, bindings
from qlsp.syntax.parse import ChunkError, FileSyntax, Unit
from qlsp.values.value import SpanId

BUILTINS = frozenset(dir(builtins))

_PATCH = re.compile(
    r"(?<![\w.])((?:\w+\.)*[A-Z]\w*)\.(\w+)[ \t]*=(?!=)"
    r"|\bsetattr\([ \t]*((?:\w+\.)*[A-Z]\w*)[ \t]*,[ \t]*['\"](\w+)['\"]"
)
"""Text that gives a class an attribute from outside."""

LIBRARIES = frozenset({"torch", "torchao", "numpy", "horizon_plugin_pytorch"})
"""Top-level packages that the tables describe: their files are never read in place of a row."""


class Finder(Protocol):
    """Finds the file of a dotted module name, or nothing; every question is a dependency of the result."""

    def find(self, module: str, importer: str) -> ModuleModel | None:
        """The module as seen from the importing file, or None if it is not part of the project."""

    def registered(self, package: str, name: str, importer: str) -> tuple[ModuleModel, str] | None:
        """The module and the function that a package registers under a name."""

    def module_at(self, path: str) -> ModuleModel | None:
        """The module of a file that was read before."""

    def modules(self) -> list[ModuleModel]:
        """Every file that was read."""

    def file(self, name: str, importer: str) -> ModuleModel | None:
        """The file that a relative path names, as seen from a file or one of the folders above it."""

    def reachable(self, path: str) -> list[ModuleModel]:
        """The files of the project that importing a file runs, itself first; those of installed packages are
        left out."""


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A function or method: its syntax and where it stands."""

    span: SpanId
    name: str
    node: cst.FunctionDef | cst.Lambda
    unit: Unit
    module: ModuleModel
    owner: ClassModel | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """``Class.name = value`` outside the class: the target as written, the last name of the class, the attribute, and
    where it stands."""

    target: str
    cls: str
    name: str
    unit: Unit
    module: ModuleModel


@dataclass(eq=False)
class ClassModel:
    """A class: bases as expressions, methods and class attributes, all on demand."""

    span: SpanId
    name: str
    node: cst.ClassDef
    unit: Unit
    module: ModuleModel
    members: tuple[Unit, ...] = ()
    closure: int = 0

    @cached_property
    def body(self) -> list[tuple[cst.BaseStatement, Unit]]:
        """The statements of the class body with their units; members that do not parse are left out."""
        if not self.members:
            if isinstance(self.node.body, cst.IndentedBlock):
                return [(statement, self.unit) for statement in self.node.body.body]
            return []
        found = []
        for member in self.members:
            try:
                found.append((member.node, member))
            except ChunkError:
                continue
        return found

    @cached_property
    def methods(self) -> dict[str, FunctionModel]:
        """Methods by name, those under an ``if`` in the class body too; the last definition wins."""
        found: dict[str, FunctionModel] = {}
        for statement, unit in self.body:
            for node in definitions(statement):
                if isinstance(node, cst.FunctionDef) and not _is_accessor(node):
                    span = SpanId(unit.path, unit.index, unit.ordinal(node))
                    found[node.name.value] = FunctionModel(
                        span, node.name.value, node, unit, self.module, self
                    )
        return found

    @cached_property
    def nested(self) -> dict[str, tuple[cst.ClassDef, Unit]]:
        """Classes defined in the body."""
        found: dict[str, tuple[cst.ClassDef, Unit]] = {}
        for statement, unit in self.body:
            for node in definitions(statement):
                if isinstance(node, cst.ClassDef):
                    found[node.name.value] = (node, unit)
        return found

    @cached_property
    def attributes(self) -> dict[str, tuple[cst.BaseExpression, Unit]]:
        """Class-level assignments by name."""
        found: dict[str, tuple[cst.BaseExpression, Unit]] = {}
        for statement, unit in self.body:
            if not isinstance(statement, cst.SimpleStatementLine):
                continue
            for small in statement.body:
                if isinstance(small, cst.Assign):
                    for target in small.targets:
                        for name, value in _pairs(target.target, small.value):
                            found[name] = (value, unit)
                elif isinstance(small, cst.AnnAssign) and small.value and isinstance(small.target, cst.Name):
                    found[small.target.value] = (small.value, unit)
        return found

    @property
    def base_expressions(self) -> list[cst.BaseExpression]:
        """The base classes as written."""
        return [argument.value for argument in self.node.bases]


def _is_accessor(node: cst.FunctionDef) -> bool:
    """Is a function the setter or deleter of a property, ``@name.setter``?"""
    return any(
        isinstance(decorator.decorator, cst.Attribute) and decorator.decorator.attr.value in ("setter", "deleter")
        for decorator in node.decorators
    )


def _pairs(target: cst.BaseExpression, value: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The names a class-level assignment binds, with their expressions."""
    if isinstance(target, cst.Name):
        yield target.value, value
    elif isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        for left, right in zip(target.elements, value.elements, strict=False):
            yield from _pairs(left.value, right.value)


def definitions(statement: cst.BaseStatement) -> Iterator[cst.BaseStatement]:
    """Function and class definitions of a statement, through ``if``, ``try`` and ``with``."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        yield statement
    elif isinstance(statement, (cst.If, cst.Try, cst.With)):
        blocks: list[cst.BaseSuite] = [statement.body]
        if isinstance(statement, cst.If):
            rest = statement.orelse
            while isinstance(rest, cst.If):
                blocks.append(rest.body)
                rest = rest.orelse
            if rest is not None:
                blocks.append(rest.body)
        if isinstance(statement, cst.Try):
            blocks.extend(handler.body for handler in statement.handlers)
        for block in reversed(blocks):
            for inner in block.body:
                if isinstance(inner, cst.BaseStatement):
                    yield from definitions(inner)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a top-level statement may do to an object of another statement when the file is imported: a decorated
    definition, a call, an item or attribute that is set. ``words`` are the names that may stand for the object."""

    unit: Unit
    words: frozenset[str]


_WORD = re.compile(r"[^\W\d]\w*")
_DECORATORS = re.compile(r"\s*(@[\s\S]*?)^[ \t]*(?:async[ \t]+def|def|class)\b", re.MULTILINE)
_ACT = re.compile(r"\s*([^\W\d]\w*)\s*[.(\[]")
_BLOCK = re.compile(r"\s*(?:for|if|with|try)\b(?!\s*__name__)")


def _enrolment_words(unit: Unit) -> frozenset[str]:
    """The names by which a top-level unit may reach an object that it changes."""
    if unit.kind != "statement":
        decorators = _DECORATORS.match(unit.text)
        return frozenset(_WORD.findall(decorators[1])) if decorators is not None else frozenset()
    if _BLOCK.match(unit.text):
        return frozenset(_WORD.findall(unit.text))
    act = _ACT.match(unit.text)
    return frozenset([act[1]]) if act is not None else frozenset()


@dataclass(eq=False)
class ModuleModel:
    """One file: its dotted name and what its global names stand for."""

    syntax: FileSyntax
    name: str
    is_package: bool = False
    classes: dict[SpanId, ClassModel] = field(default_factory=dict)
    _shown: dict[re.Pattern[str], bool] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The file's path."""
        return self.syntax.path

    @cached_property
    def binders(self) -> dict[str, list[Unit]]:
        """Global name to the top-level units that may bind it, in order."""
        found: dict[str, list[Unit]] = {}
        for unit in self.syntax.units:
            for name in unit.names:
                found.setdefault(name, []).append(unit)
        return found

    @cached_property
    def imports(self) -> dict[str, str]:
        """Imported name to qualified name; of several imports of one name the last wins that is not for types only."""
        found: dict[str, str] = {}
        for binding in sorted(self._bindings, key=lambda each: not each.typing):
            if binding.name != "*":
                found[binding.name] = binding.target
        return found

    @cached_property
    def stars(self) -> list[str]:
        """Modules imported with a star."""
        return [binding.target for binding in self._bindings if binding.name == "*"]

    @cached_property
    def star_units(self) -> list[tuple[Unit, str]]:
        """The top-level units with a star, and the modules."""
        return [(unit, each.target) for unit, found in self._imports for each in found if each.name == "*"]

    @cached_property
    def exports(self) -> frozenset[str] | None:
        """What ``__all__`` names, if it is one list of strings; else None."""
        units = self.binders.get("__all__", [])
        if len(units) != 1 or any("__all__." in unit.text for unit in self.syntax.units):
            return None
        try:
            names = ast.literal_eval(units[0].text.partition("=")[2].strip())
        except (SyntaxError, ValueError):
            return None
        return frozenset(map(str, names)) if isinstance(names, (list, tuple, set)) else None

    @property
    def imported(self) -> list[str]:
        """Everything that some import names, in a ``try`` and its ``except`` too."""
        return [binding.target for binding in self._bindings]

    def bound_in(self, unit: Unit, name: str) -> Binding | None:
        """How a top-level unit imports a name."""
        found = next((found for each, found in self._imports if each is unit), [])
        return next((each for each in found if each.name == name), None)

    @property
    def _bindings(self) -> list[Binding]:
        return [each for _, found in self._imports for each in found]

    @cached_property
    def packages(self) -> frozenset[str]:
        """The top-level packages that some import names."""
        return frozenset(target.partition(".")[0] for target in self.imported)

    @cached_property
    def _imports(self) -> list[tuple[Unit, list[Binding]]]:
        found = []
        for unit in self.syntax.units:
            if "import" in unit.text and unit.kind == "statement":
                try:
                    found.append((unit, bindings(unit.node, self.name, self.is_package)))
                except ChunkError:
                    continue
        return found

    @cached_property
    def enrolments(self) -> list[Enrolment]:
        """The top-level statements that may change objects of others, in order."""
        found = ((unit, _enrolment_words(unit)) for unit in self.syntax.units)
        return [Enrolment(unit, words) for unit, words in found if words]

    def shows(self, pattern: re.Pattern[str]) -> bool:
        """Does the text of some chunk match? The answer is kept."""
        if pattern not in self._shown:
            self._shown[pattern] = any(pattern.search(unit.text) for unit in self.syntax.units)
        return self._shown[pattern]

    @cached_property
    def patches(self) -> list[Patch]:
        """The assignments to an attribute of something that is named like a class."""
        found = []
        for unit in self.syntax.units:
            for match in _PATCH.finditer(unit.text):
                target, name = match[1] or match[3], match[2] or match[4]
                first, dot, rest = target.partition(".")
                shown = target if dot else self.imports.get(first, first)
                found.append(Patch(target, (rest or shown).rpartition(".")[2], name, unit, self))
        return found

    def class_of(self, unit: Unit) -> ClassModel | None:
        """The class a top-level unit defines."""
        try:
            node = unit.node
        except ChunkError:
            return None
        if not isinstance(node, cst.ClassDef):
            return None
        return self.class_model(node, unit)

    def class_model(self, node: cst.ClassDef, unit: Unit, closure: int = 0) -> ClassModel:
        """The model of a class definition: one per syntax node, or one per run of the function it stands in."""
        span = SpanId(unit.path, unit.index, unit.ordinal(node))
        if closure:
            return ClassModel(span, node.name.value, node, unit, self, (), closure)
        if span not in self.classes:
            members = unit.members if unit.kind == "class" and unit.node is node else ()
            self.classes[span] = ClassModel(span, node.name.value, node, unit, self, members)
        return self.classes[span]

    def definition(self, name: str) -> cst.BaseStatement | None:
        """The function or class that a global name is bound to last, or None."""
        for unit in reversed(self.binders.get(name, [])):
            try:
                for node in definitions(unit.node):
                    if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.name.value == name:
                        return node
            except ChunkError:
                continue
        return None

    def unit_of(self, name: str) -> Unit | None:
        """The last unit that may bind a global name."""
        units = self.binders.get(name)
        return units[-1] if units else None
