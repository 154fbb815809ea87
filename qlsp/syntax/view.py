"""The code in view, as fixes need it: where a node stands, classes and their kin, how a library name is spelled.

Everything here is a question; ``qlsp.syntax.edits`` turns the answers into edits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import libcst as cst

from qlsp.diagnostics import NoFix
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


class ViewedFile(Protocol):
    """One file of the run: its chunks and what its imported names stand for."""

    @property
    def syntax(self) -> FileSyntax: ...

    @property
    def imports(self) -> Mapping[str, str]: ...


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
    _parents: dict[tuple[str, int], dict[int, cst.CSTNode]] = field(default_factory=dict)

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
    def classes(self) -> dict[str, list[ClassAt]]:
        """The classes of all files, nested ones too, by their own name."""
        found: dict[str, list[ClassAt]] = {}
        for file in self.by_path.values():
            for unit in file.syntax.units:
                if "class" not in unit.text:
                    continue
                for cls in _classes(unit):
                    found.setdefault(cls.name, []).append(cls)
        return found

    def family(self, cls: ClassAt) -> Family:
        """The kin of a class, told by names: one class too many is better than one too few."""
        ancestors: list[ClassAt] = []
        library: set[str] = set()
        unseen = False
        queue = [cls]
        while queue:
            current = queue.pop()
            for base in current.bases:
                name = self.qualified(current.unit.path, base)
                if name is not None and (name.startswith("torch.") or name in ("object", "abc.ABC")):
                    library.add(name)
                    continue
                known = self.classes.get((base or "").rpartition(".")[2], [])
                unseen = unseen or not known
                for other in known:
                    if not _among(other, [cls, *ancestors]):
                        ancestors.append(other)
                        queue.append(other)
        descendants: list[ClassAt] = []
        queue = [cls]
        while queue:
            current = queue.pop()
            for others in self.classes.values():
                for other in others:
                    names = {(base or "").rpartition(".")[2] for base in other.bases}
                    if current.name in names and not _among(other, [cls, *descendants]):
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
        for other in self.family(cls).descendants:
            own = other.methods.get("__init__")
            text = own.text if own is not None else ""
            runs = re.search(rf"(?:\bsuper\([^)]*\)|\b{cls.name})\s*\.\s*__init__\b", text)
            if own is not None and runs is None:
                raise NoFix(f"{other.name} does not run the __init__ of {cls.name}")
        return found

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

    def attribute_uses(self, cls: ClassAt, name: str) -> int:
        """How often an attribute of a class is named in the files in view, as ``.name`` or in a string.

        ``self.name`` in a class that is no kin means that class's own attribute.
        """
        escaped = re.escape(name)
        pattern = re.compile(rf"\.\s*{escaped}\b|[\"']{escaped}[\"'.]")
        foreign = re.compile(rf"(?<!\bself)\s*\.\s*{escaped}\b|[\"']{escaped}[\"'.]")
        kin = {(member.unit.path, member.unit.index) for member in self.family(cls).everyone}
        count = 0
        for file in self.by_path.values():
            for unit in file.syntax.units:
                own = (unit.path, unit.index) in kin or unit.kind != "class"
                count += len((pattern if own else foreign).findall(unit.text))
        return count

    def taken(self, cls: ClassAt) -> set[str]:
        """Names that may be attributes of instances of a class, of its bases and subclasses."""
        family = self.family(cls).everyone
        found = set(MODULE_NAMES)
        for member in family:
            text = member.text
            found.update(match[1] or match[2] for match in _OWN_NAME.finditer(text))
            found.update(_STRING_NAME.findall(text))
        names = re.compile(r"\b(?:" + "|".join({re.escape(member.name) for member in family}) + r")\b")
        for file in self.by_path.values():
            text = "\n".join(unit.text for unit in file.syntax.units)
            if names.search(text):
                imports = file.imports
                found.update(match[2] for match in _ANY_ATTRIBUTE.finditer(text) if match[1] not in imports)
        kin = {(member.unit.path, member.unit.index) for member in family}
        for (path, unit, *_), handed in self.handed_out.items():
            if (path, unit) in kin:
                found |= handed
        return found


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
