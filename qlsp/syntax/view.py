"""The code in view, as fixes need it: where a node stands, classes and their kin, how a library name is spelled.

Everything here is a question; ``qlsp.syntax.edits`` turns the answers into edits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import libcst as cst

from qlsp.diagnostics import NoFix
from qlsp.syntax.links import connected
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, FileSyntax, Unit, children, walk
from qlsp.text import Place, Span


class NodeKey(Protocol):
    """A syntax node by file, chunk and ordinal (a ``SpanId``)."""

    @property
    def path(self) -> str: ...

    @property
    def unit(self) -> int: ...

    @property
    def ordinal(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Key:
    """The plainest ``NodeKey``: what questions about the syntax answer."""

    path: str
    unit: int
    ordinal: int


class ViewedFile(Protocol):
    """One file of the run: its dotted name, its chunks, what its imported names stand for, its star imports."""

    @property
    def name(self) -> str: ...

    @property
    def syntax(self) -> FileSyntax: ...

    @property
    def imports(self) -> Mapping[str, str]: ...

    @property
    def stars(self) -> Sequence[str]: ...


@dataclass(frozen=True, eq=False)
class At:
    """A node and the chunk it stands in."""

    unit: Unit
    node: cst.CSTNode

    @property
    def span(self) -> Span:
        """Its place in the file, without its own parentheses."""
        return self.unit.span(self.unit.ordinal(self.node))

    @property
    def place(self) -> Place:
        """Its place with the name of the file."""
        return Place(self.unit.path, self.span)

    @property
    def text(self) -> str:
        """Its source, without its own parentheses."""
        return self.unit.source(self.span)

    @property
    def key(self) -> Key:
        """What names it."""
        return Key(self.unit.path, self.unit.index, self.unit.ordinal(self.node))


@dataclass(frozen=True, eq=False)
class ClassAt:
    """A class definition: its header and the chunks or the block that hold its body."""

    unit: Unit
    node: cst.ClassDef

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.node.name.value

    @property
    def text(self) -> str:
        """Its source, body included."""
        if self.unit.members:
            return self.unit.text
        return self.unit.source(self.unit.span(self.unit.ordinal(self.node)))

    @cached_property
    def statements(self) -> list[At]:
        """The statements of its body; members that do not parse are left out."""
        if self.unit.members:
            return [At(member, node) for member in self.unit.members if (node := parsed(member)) is not None]
        body = self.node.body
        return [At(self.unit, node) for node in body.body] if isinstance(body, cst.IndentedBlock) else []

    @cached_property
    def methods(self) -> dict[str, At]:
        """Its methods by name; the last definition wins."""
        found: dict[str, At] = {}
        for statement in self.statements:
            if isinstance(statement.node, cst.FunctionDef):
                found[statement.node.name.value] = statement
        return found

    @property
    def bases(self) -> list[str | None]:
        """The base classes as dotted names, None for other expressions."""
        return [dotted(argument.value) for argument in self.node.bases]


@dataclass(frozen=True)
class Family:
    """A class with the classes of the files in view that it derives from and that derive from it.

    ``library`` are the library classes among the bases; ``unseen`` says that some base is in no file in view.
    """

    cls: ClassAt
    ancestors: list[ClassAt]
    descendants: list[ClassAt]
    library: frozenset[str]
    unseen: bool

    @property
    def everyone(self) -> list[ClassAt]:
        """All of them."""
        return [self.cls, *self.ancestors, *self.descendants]


@dataclass(frozen=True)
class MethodAt:
    """A method: its class, its definition, the name of its receiver."""

    cls: ClassAt
    function: At
    receiver: str

    @property
    def name(self) -> str:
        """The method's own name."""
        assert isinstance(self.function.node, cst.FunctionDef)
        return self.function.node.name.value


@dataclass
class CodeView:
    """The files of a run. ``canonical`` gives the one spelling of a qualified library name."""

    files: Callable[[], Iterable[ViewedFile]]
    canonical: Callable[[str], str]
    handed_out: dict[tuple[str, int, int], set[str]] = field(default_factory=dict)
    listed: dict[tuple[str, int, int], bool] = field(default_factory=dict)
    listings: dict[str, tuple[At | None, ...]] = field(default_factory=dict)
    _parents: dict[tuple[str, int], dict[int, cst.CSTNode]] = field(default_factory=dict)
    _unit_classes: dict[tuple[str, int], list[ClassAt]] = field(default_factory=dict)
    _families: dict[tuple[str, int, int], Family] = field(default_factory=dict)
    _taken: dict[tuple[str, int, int], frozenset[str]] = field(default_factory=dict)
    _file_words: dict[str, frozenset[str]] = field(default_factory=dict)
    _matches: dict[tuple[re.Pattern[str], str | None], bool] = field(default_factory=dict)

    @cached_property
    def by_path(self) -> dict[str, ViewedFile]:
        """The files by path."""
        return {file.syntax.path: file for file in self.files()}

    def file(self, path: str) -> ViewedFile:
        """A file of the run."""
        found = self.by_path.get(path)
        if found is None:
            raise NoFix(f"{path} is not in view")
        return found

    def at(self, key: NodeKey) -> At:
        """The node that a span id stands for."""
        unit = self.file(key.path).syntax.all_units[key.unit]
        return At(unit, unit.node_at(key.ordinal))

    # --- up and down ----------------------------------------------------------------------------------

    def parent(self, at: At) -> cst.CSTNode | None:
        """The node around a node, None at the top of the chunk."""
        key = (at.unit.path, at.unit.index)
        if key not in self._parents:
            self._parents[key] = {id(child): node for node in walk(at.unit.node) for child in children(node)}
        return self._parents[key].get(id(at.node))

    def ancestors(self, at: At) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        node = self.parent(at)
        while node is not None:
            yield node
            node = self.parent(At(at.unit, node))

    def statement(self, at: At) -> At:
        """The statement a node stands in; it must be alone on its lines."""
        for node in (at.node, *self.ancestors(at)):
            if isinstance(node, cst.SimpleStatementSuite):
                break
            if isinstance(node, cst.BaseStatement):
                if isinstance(node, cst.SimpleStatementLine) and len(node.body) > 1:
                    break
                return At(at.unit, node)
        raise NoFix("a statement that shares its line with others")

    def function(self, at: At) -> At | None:
        """The innermost function (or lambda) around a node."""
        for node in self.ancestors(at):
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                return At(at.unit, node)
        return None

    def enclosing_class(self, at: At) -> ClassAt | None:
        """The innermost class around a node."""
        for node in self.ancestors(at):
            if isinstance(node, cst.ClassDef):
                return ClassAt(at.unit, node)
        for top in self.file(at.unit.path).syntax.units:
            header = parsed(top) if at.unit in top.members else None
            if isinstance(header, cst.ClassDef):
                return ClassAt(top, header)
        return None

    def method(self, at: At) -> MethodAt:
        """The method that holds a node directly: not through a nested function or a lambda."""
        function = self.function(at)
        if function is None or not isinstance(function.node, cst.FunctionDef):
            raise NoFix("not in a method")
        inside = self.function(function)
        cls = self.enclosing_class(function)
        if cls is None or inside is not None and self._below(inside, cls):
            raise NoFix("not in a method of a class")
        for decorator in function.node.decorators:
            name = dotted(decorator.decorator)
            if name in ("staticmethod", "classmethod") or (name or "").endswith("jit.ignore"):
                raise NoFix(f"in a {name}")
        parameters = [*function.node.params.posonly_params, *function.node.params.params]
        if not parameters:
            raise NoFix("a method without a receiver")
        receiver = parameters[0].name.value
        return MethodAt(cls, function, receiver)

    def _below(self, function: At, cls: ClassAt) -> bool:
        """True if a function stands inside a class, so that a nested function is what was found."""
        if cls.unit.members:
            return True
        return cls.node in list(self.ancestors(function))

    def repeats(self, at: At) -> bool:
        """True in a loop or a comprehension of the function around a node."""
        kinds = (cst.For, cst.While, cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)
        for node in self.ancestors(at):
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                return False
            if isinstance(node, kinds):
                return True
        return False

    # --- classes --------------------------------------------------------------------------------------

    @cached_property
    def _headers(self) -> tuple[dict[str, list[Unit]], dict[str, list[Unit]]]:
        """The chunks that define a class of a name, and those with a class that has this name among its bases."""
        defined: dict[str, list[Unit]] = {}
        derived: dict[str, list[Unit]] = {}
        for file in self.by_path.values():
            for unit in file.syntax.units:
                for match in _HEADER.finditer(unit.text) if "class" in unit.text else ():
                    defined.setdefault(match[1], []).append(unit)
                    for base in set(_WORD.findall(match[2] or "")):
                        derived.setdefault(base, []).append(unit)
        return defined, derived

    def named(self, name: str) -> list[ClassAt]:
        """The classes of this name, nested ones too."""
        units = dict.fromkeys(self._headers[0].get(name, ()))
        return [cls for unit in units for cls in self._classes_of(unit) if cls.name == name]

    def deriving(self, name: str) -> list[tuple[str, ClassAt]]:
        """The classes with a base of this name, and the base as written."""
        units = dict.fromkeys(self._headers[1].get(name, ()))
        return [
            (base, cls)
            for unit in units
            for cls in self._classes_of(unit)
            for base in cls.bases
            if base is not None and base.rpartition(".")[2] == name
        ]

    def _classes_of(self, unit: Unit) -> list[ClassAt]:
        key = (unit.path, unit.index)
        if key not in self._unit_classes:
            self._unit_classes[key] = list(_classes(unit))
        return self._unit_classes[key]

    def _may_mean(self, path: str, name: str, cls: ClassAt) -> bool:
        """True if a name in a file may stand for a class: told by imports, else by the name alone."""
        file = self.file(path)
        first, _, rest = name.partition(".")
        target = file.imports.get(first)
        if target is None:
            return cls.unit.path == path or bool(file.stars)
        module, _, last = (f"{target}.{rest}" if rest else target).rpartition(".")
        if last != cls.name:
            return last in self._aliases.get(cls.name, ())
        source = self._by_name.get(module)
        if source is None or self.file(cls.unit.path) is source:
            return True
        return last in source.imports or bool(source.stars)

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        """Other names under which files import a name, through several files too."""
        found: dict[str, set[str]] = {}
        for _ in range(2):
            for file in self.by_path.values():
                for local, target in file.imports.items():
                    last = target.rpartition(".")[2]
                    if last != local:
                        found.setdefault(last, set()).update({local, *found.get(local, ())})
        return found

    @cached_property
    def _by_name(self) -> dict[str, ViewedFile]:
        return {file.name: file for file in self.by_path.values()}

    def meant(self, path: str, name: str) -> list[ClassAt]:
        """The classes in view that a dotted name of a file may stand for."""
        last = (self.qualified(path, name) or name).rpartition(".")[2]
        return [each for each in self.named(last) if self._may_mean(path, name, each)]

    def connected(self, path: str) -> frozenset[str]:
        """The files that imports connect with a file, itself included."""
        return self._connected[path]

    @cached_property
    def _connected(self) -> dict[str, frozenset[str]]:
        return connected(self.by_path)

    def family(self, cls: ClassAt) -> Family:
        """The kin of a class, told by names and imports: one class too many is better than one too few."""
        key = (cls.unit.path, cls.unit.index, cls.unit.ordinal(cls.node))
        if key not in self._families:
            self._families[key] = self._family(cls)
        return self._families[key]

    def _family(self, cls: ClassAt) -> Family:
        ancestors: list[ClassAt] = []
        library: set[str] = set()
        unseen = False
        queue = [cls]
        while queue:
            current = queue.pop()
            path = current.unit.path
            for base in current.bases:
                name = self.qualified(path, base)
                if name is not None and (name.startswith("torch.") or name in ("object", "abc.ABC")):
                    library.add(name)
                    continue
                last = (base or "").rpartition(".")[2]
                if name is not None:
                    last = name.rpartition(".")[2]
                known = [each for each in self.named(last) if base is not None and self._may_mean(path, base, each)]
                unseen = unseen or not known
                for other in known:
                    if not _among(other, [cls, *ancestors]):
                        ancestors.append(other)
                        queue.append(other)
        descendants: list[ClassAt] = []
        queue = [cls]
        while queue:
            current = queue.pop()
            for alias in {current.name, *self._aliases.get(current.name, ())}:
                for base, other in self.deriving(alias):
                    if self._may_mean(other.unit.path, base, current) and not _among(other, [cls, *descendants]):
                        descendants.append(other)
                        queue.append(other)
        return Family(cls, ancestors, descendants, frozenset(library), unseen)

    def initializer(self, cls: ClassAt) -> At:
        """``__init__`` of a class; one that every instance of the class runs."""
        found = cls.methods.get("__init__")
        if found is None:
            raise NoFix(f"{cls.name} has no __init__ of its own")
        assert isinstance(found.node, cst.FunctionDef)
        if not isinstance(found.node.body, cst.IndentedBlock):
            raise NoFix("an __init__ of one line")
        self._require_run(cls)
        return found

    def inherited_initializer(self, cls: ClassAt) -> At | None:
        """The ``__init__`` that a class without one of its own inherits, along single bases in view; None for that
        of ``nn.Module``."""
        family, current, found = self.family(cls), cls, None
        if family.unseen or len(cls.bases) != 1 or cls.node.decorators:
            raise NoFix("bases that are not all in view, or several; or a decorator, which may add an __init__")
        for ancestor in family.ancestors:
            if len(ancestor.bases) != 1 or (current.bases[0] or "").rpartition(".")[2] != ancestor.name:
                raise NoFix("bases that are not one line of classes")
            current, found = ancestor, found or ancestor.methods.get("__init__")
        bare = not any("__init__" in each.text for each in (cls, *family.ancestors))
        if found is None and not (bare and family.library == {"torch.nn.Module"}):
            raise NoFix(f"no base of {cls.name} has an __init__ in view")
        self._require_run(cls)
        return found

    def _require_run(self, cls: ClassAt) -> None:
        """Every subclass in view runs the ``__init__`` of a class."""
        for other in self.family(cls).descendants:
            own = other.methods.get("__init__")
            text = own.text if own is not None else ""
            runs = re.search(rf"(?:\bsuper\((?:\s*{other.name}\b[^)]*)?\)|\b{cls.name})\s*\.\s*__init__\b", text)
            if own is not None and runs is None:
                raise NoFix(f"{other.name} does not run the __init__ of {cls.name}")

    # --- names ----------------------------------------------------------------------------------------

    def qualified(self, path: str, name: str | None) -> str | None:
        """The canonical qualified name of a dotted name of a file, None if it is no imported one."""
        if name is None:
            return None
        first, _, rest = name.partition(".")
        target = self.file(path).imports.get(first)
        if target is None:
            return name if name == "object" else None
        return self.canonical(f"{target}.{rest}" if rest else target)

    def attribute_uses(self, cls: ClassAt, name: str, behind: str = "") -> int:
        """How often an attribute of a class is named in the files in view, as ``.name`` or in a string; or, with what
        is ``behind`` it, in those that imports connect with that of the class.

        ``self.name`` in a class that is no kin means that class's own attribute, ``torch.name`` a function.
        """
        escaped = rf"(?<!\bF\.)(?<!\btorch\.)(?<!\bfunctional\.){re.escape(name)}" if behind else re.escape(name)
        pattern = re.compile(rf"\.\s*{escaped}\b{behind}|[\"']{escaped}[\"'.]")
        foreign = re.compile(rf"(?<!\bself)\s*\.\s*{escaped}\b{behind}|[\"']{escaped}[\"'.]")
        kin = {(member.unit.path, member.unit.index) for member in self.family(cls).everyone}
        count = 0
        for path in self.connected(cls.unit.path) if behind else self.by_path:
            for unit in self.file(path).syntax.units if name in self._words(path) else ():
                own = (unit.path, unit.index) in kin or unit.kind != "class"
                count += len((pattern if own else foreign).findall(unit.text))
        return count

    def taken(self, cls: ClassAt) -> set[str]:
        """Names that may be attributes of instances of a class, of its bases and subclasses."""
        family = self.family(cls).everyone
        kin = {(member.unit.path, member.unit.index) for member in family}
        key = (cls.unit.path, cls.unit.index, cls.unit.ordinal(cls.node))
        if key not in self._taken:
            self._taken[key] = self._named_by(family)
        found = set(self._taken[key])
        for (path, unit, *_), handed in self.handed_out.items():
            if (path, unit) in kin:
                found |= handed
        return found

    def _named_by(self, family: list[ClassAt]) -> frozenset[str]:
        found = set(MODULE_NAMES)
        for member in family:
            found.update(match[1] or match[2] for match in _OWN_NAME.finditer(member.text))
            found.update(_STRING_NAME.findall(member.text))
        names = {member.name for member in family}
        for path, file in self.by_path.items():
            if not names.isdisjoint(self._words(path)):
                for unit in file.syntax.units:
                    found.update(
                        match[2]
                        for match in _ANY_ATTRIBUTE.finditer(unit.text)
                        if match[1] not in file.imports and not (match[1] == "self" and unit.kind == "class")
                    )
        return frozenset(found)

    def _words(self, path: str) -> frozenset[str]:
        """Every identifier in a file's text."""
        if path not in self._file_words:
            units = self.by_path[path].syntax.units
            self._file_words[path] = frozenset(word for unit in units for word in _WORD.findall(unit.text))
        return self._file_words[path]

    def matches(self, pattern: re.Pattern[str], near: str | None = None) -> bool:
        """True if a text stands in one chunk of the files in view; of those that imports connect with one."""
        paths = self.by_path.keys() if near is None else self.connected(near)
        key = (pattern, None if near is None else min(paths))
        if key not in self._matches:
            units = (unit for path in paths for unit in self.by_path[path].syntax.units)
            self._matches[key] = any(pattern.search(unit.text) for unit in units)
        return self._matches[key]

    def scripts_match(self, pattern: re.Pattern[str], word: str, near: str) -> bool:
        """True if a text stands in the statements of one file that imports connect with another, which may use
        this word."""
        for path in self.connected(near):
            if word in self._words(path):
                units = (unit.text for unit in self.by_path[path].syntax.units if unit.kind == "statement")
                if pattern.search("\n".join(units)):
                    return True
        return False


_HEADER = re.compile(r"\bclass\s+(\w+)[^\S\r\n]*(?:\(([^)]*)\))?")
_WORD = re.compile(r"[^\W\d]\w*")
_OWN_NAME = re.compile(r"(?:\bself\s*\.|\bdef)\s*(\w+)|^[ \t]+(\w+)\s*(?::[^=\n]*)?=", re.M)
_STRING_NAME = re.compile(r"[\"'](\w+)[\"']")
_ANY_ATTRIBUTE = re.compile(r"(\w*)\s*\.\s*(\w+)")

MODULE_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
        T_destination activation_post_process add_module apply bfloat16 buffers call_super_init children compile cpu
        cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule
        half ipu load_state_dict modules mtia name named_buffers named_children named_modules named_parameters
        parameters qconfig register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
        register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
        register_module register_parameter register_state_dict_pre_hook requires_grad_ set_extra_state
        set_submodule share_memory state_dict to to_empty train training type xpu zero_grad
        """,
    )
)
"""Attributes of every ``nn.Module``: no submodule may take their names."""


def parsed(unit: Unit) -> cst.BaseStatement | None:
    """The tree of a chunk, None if it does not parse."""
    try:
        return unit.node
    except ChunkError:
        return None


def _classes(unit: Unit) -> Iterator[ClassAt]:
    node = parsed(unit)
    if node is None:
        return
    if isinstance(node, cst.ClassDef) and unit.members:
        yield ClassAt(unit, node)
        for member in unit.members:
            if "class" in member.text:
                yield from _classes(member)
        return
    for inner in walk(node):
        if isinstance(inner, cst.ClassDef):
            yield ClassAt(unit, inner)


def _among(cls: ClassAt, others: list[ClassAt]) -> bool:
    return any(cls.unit is other.unit and cls.node is other.node for other in others)
