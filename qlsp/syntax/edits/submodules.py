"""Lines of ``__init__``: the submodules it makes, new ones, and a constructor for a class that inherits it."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, field, replace

import libcst as cst

from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.syntax.children import listed, runs_children
from qlsp.syntax.edits.blocks import unused
from qlsp.syntax.edits.imports import Imports
from qlsp.syntax.edits.parts import Expression
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import walk
from qlsp.syntax.view import At, ClassAt, NodeKey
from qlsp.text import Edit, Span


@dataclass
class Submodules(Imports):
    """What a constructor sets, and edits of it."""

    _constructors: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)
    _gone: dict[tuple[str, int, int], tuple[At, set[str]]] = field(default_factory=dict)

    def runs_children(self, cls: ClassAt) -> bool:
        """True if a class lists its children to run them: a new one would run too."""
        return runs_children(self.family(cls))

    def lists_children(self, cls: ClassAt) -> bool:
        """True if code in view may do something with one more child of a class."""
        key = (cls.unit.path, cls.unit.index, cls.unit.ordinal(cls.node))
        if key not in self.view.listed:
            self.view.listed[key] = listed(self.view, cls)
        return self.view.listed[key]

    def started(self, key: NodeKey) -> bool:
        """True if a node stands in a method behind the call of the base class's ``__init__``."""
        at = self.view.at(key)
        function = self.method(key).function
        source = self._source(at.unit.path, at.span.segment)
        return _SUPER_INIT.search(source, function.span.start, at.span.start) is not None

    def assigned(self, cls: ClassAt, attribute: str) -> At:
        """The only line of ``__init__`` that sets ``self.attribute``; at the top level of its body."""
        lines = [at for at in self._init_body(cls) if _assigned_attribute(at.node) == attribute]
        if len(lines) != 1:
            raise NoFix(f"{attribute} is not set by one line of __init__")
        return lines[0]

    def constructor(self, cls: ClassAt, attribute: str) -> str:
        """The source of what ``__init__`` assigns to ``self.attribute``."""
        found = [
            At(at.unit, value).text
            for at in self._init_body(cls)
            for name, value in _assigned(at.node)
            if name == attribute
        ]
        if len(found) != 1:
            raise NoFix(f"{attribute} is not set by one line of __init__")
        return found[0]

    def uses_of(self, cls: ClassAt, attribute: str) -> int:
        """How often the files in view name an attribute of a class, its making included."""
        return self.view.attribute_uses(cls, attribute)

    def names(self, cls: ClassAt, attribute: str) -> bool:
        """Does code in view do something with an attribute of a class other than to call it or to set it?"""
        return bool(self.view.attribute_uses(cls, attribute, _NOT_CALLED))

    def attribute_of(self, cls: ClassAt, name: str) -> str | None:
        """An attribute that ``__init__`` sets to an object of a library class, or None."""
        for at in self._init_body(cls):
            for attribute, value in _assigned(at.node):
                if isinstance(value, cst.Call) and self.qualified(at.unit.path, dotted(value.func)) == name:
                    return attribute
        return None

    def value_of_line(self, statement: At) -> Expression:
        """The value that a line sets an attribute to."""
        ((_, value),) = _assigned(statement.node)
        return self._expression(At(statement.unit, value))

    def add_submodule(
        self, key: NodeKey, hint: str, constructor: str, arguments: str = "", near: str | None = None
    ) -> str:
        """Give the class around a node one more submodule and return its attribute name.

        The line goes to ``__init__``, behind the line that sets ``near`` or behind the last one of its kind.
        ``constructor`` is a qualified class name (``torch.ao.nn.quantized.FloatFunctional``).
        """
        cls = self.method(key).cls
        like = None
        for at in self._init_body(cls) if "__init__" in cls.methods else ():
            for _, value in _assigned(at.node):
                if isinstance(value, cst.Call) and "Stub" in (spelled := dotted(value.func) or ""):
                    like = spelled
        spelling = self.spell(cls.unit.path, constructor, like)
        return self.add_line(key, hint, f"{spelling}({arguments})", near)

    def add_line(self, key: NodeKey, hint: str, value: str, near: str | None = None) -> str:
        """Assign a value to a new attribute in ``__init__`` of the class around a node; returns its name."""
        cls = self.method(key).cls
        if self.runs_children(cls):
            raise NoFix("the class runs its children: a new one would run too")
        if "__init__" not in cls.methods:
            return self._line_of_new_init(cls, hint, value)
        anchor, receiver = self._anchor(cls, near)
        place = (cls.unit.path, cls.unit.index, self._lines(anchor)[1])
        name = self._unused_name(cls, hint, place)
        self._insert_after(anchor, f"{receiver}.{name} = {value}")
        return name

    def move_to_init(self, key: NodeKey, attribute: str) -> None:
        """Take the statement of a method that sets an attribute to a value to ``__init__``; no other sets it."""
        statement = self.view.statement(self.view.at(key))
        if [name for name, _ in _assigned(statement.node)] != [attribute]:
            raise NoFix("not one attribute that is set")
        cls = self.method(key).cls
        if sum(attribute in dict(_assigned(at.node)) for at in self._init_body(cls)):
            raise NoFix(f"{attribute} is set in __init__ too")
        anchor, receiver = self._anchor(cls, None)
        self._insert_after(anchor, f"{receiver}.{attribute} = {self.value_of_line(statement).text}")
        self._delete(statement)

    def configure(self, cls: ClassAt, attribute: str, text: str) -> None:
        """Put ``self.attribute.text`` behind the only statement of ``__init__`` that sets the attribute."""
        lines = [at for at in self._init_body(cls) if attribute in dict(_assigned(at.node))]
        if len(lines) != 1:
            raise NoFix(f"{attribute} is not set by one line of __init__")
        _, receiver = self._anchor(cls, None)
        self._insert_after(lines[0], f"{receiver}.{attribute}.{text}")

    def remove_submodule(self, cls: ClassAt, attribute: str, uses: int = 1) -> bool:
        """Take the line of ``__init__`` out that makes a submodule, or its part of ``self.a, self.b = A(), B()``, if
        the fix removes its only ``uses``."""
        lines = [at for at in self._init_body(cls) if attribute in dict(_assigned(at.node))]
        if len(lines) != 1 or self.view.attribute_uses(cls, attribute) != uses + 1:
            return False
        (line,) = lines
        if _assigned_attribute(line.node) is not None:
            self._delete(line)
            return True
        if _written_pairs(line) is None:
            return False
        key = (line.unit.path, line.unit.index, line.unit.ordinal(line.node))
        self._gone.setdefault(key, (line, set()))[1].add(attribute)
        return True

    def fix(
        self, title: Message, reason: Message, applicability: Applicability, reveals: tuple[str, ...] = ()
    ) -> Fix:
        """The fix with all edits so far; what is left of assignments of several submodules stays one line."""
        for line, gone in self._gone.values():
            self._shrink(line, gone)
        self._gone.clear()
        return super().fix(title, reason, applicability, reveals)

    def _shrink(self, line: At, gone: set[str]) -> None:
        pairs = _written_pairs(line)
        assert pairs is not None
        sides, names = pairs
        if gone >= set(names):
            self._delete(line)
            return
        for side in sides:
            kept = [each.value for name, each in zip(names, side.elements, strict=True) if name not in gone]
            texts = [self.text(self._expression(At(line.unit, each)).place) for each in kept]
            self.replace(self._expression(At(line.unit, side)).place, ", ".join(texts))

    def _unused_name(self, cls: ClassAt, hint: str, place: tuple[str, int, int]) -> str:
        """A name for a new attribute that is set at this place."""
        taken = self.view.taken(cls)
        for other, handed in self.view.handed_out.items():
            taken = taken - handed if other == place else taken
        name = unused(hint, taken | self._named)
        self._named.add(name)
        self.view.handed_out.setdefault(place, set()).add(name)
        return name

    def _line_of_new_init(self, cls: ClassAt, hint: str, value: str) -> str:
        """Assign a value to a new attribute in an ``__init__`` that does what the inherited one does, and this."""
        key = (cls.unit.path, cls.unit.index, cls.unit.ordinal(cls.node))
        if key not in self._constructors:
            self._constructors[key] = len(self._edits)
            self._edits.append(self._new_init(cls))
        edit = self._edits[self._constructors[key]]
        name = self._unused_name(cls, hint, (cls.unit.path, cls.unit.index, edit.span.start))
        *lines, call, blank = edit.content.splitlines(keepends=True)
        inner = call[: len(call) - len(call.lstrip(" \t"))]
        line = f"{inner}self.{name} = {value}{blank}"
        self._edits[self._constructors[key]] = replace(edit, content="".join([*lines, call, line, blank]))
        return name

    def _new_init(self, cls: ClassAt) -> Edit:
        """An ``__init__`` with the parameters of the inherited one, in front of the first method."""
        inherited = self.view.inherited_initializer(cls)
        signature, arguments = "self", ""
        if inherited is not None and isinstance(inherited.node, cst.FunctionDef):
            signature, arguments = _passed_on(inherited.node.params, inherited.unit.path == cls.unit.path)
            self._require_same_names(cls, inherited.node.params)
        first = next((at for at in cls.statements if isinstance(at.node, cst.FunctionDef)), None)
        if first is None or not isinstance(first.node, cst.FunctionDef) or first.node.decorators:
            raise NoFix("no method to put an __init__ before")
        if not isinstance(first.node.body, cst.IndentedBlock):
            raise NoFix("a method of one line")
        source, newline = self._source(first.unit.path, first.span.segment), self._newline(first)
        start, _ = self._lines(first)
        indent = source[start : first.span.start]
        body = At(first.unit, first.node.body.body[0]).span.start
        inner = source[max(source.rfind("\n", 0, body), source.rfind("\r", 0, body)) + 1 : body]
        if inner.strip(" \t") or not inner.startswith(indent):
            raise NoFix("a body that is not indented as usual")
        start = _above_comments(source, start)
        text = f"{indent}def __init__({signature}):{newline}{inner}super().__init__({arguments}){newline}{newline}"
        return Edit(first.unit.path, Span(start, start, first.span.segment), text)

    def _require_same_names(self, cls: ClassAt, parameters: cst.Parameters) -> None:
        """The defaults and annotations of copied parameters mean the same at another class, and make no new object."""
        every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
        defaults = [each.default for each in every if each.default is not None]
        if any(isinstance(node, cst.Call) for default in defaults for node in walk(default)):
            raise NoFix("a default that is made by a call")
        parts = [*defaults, *(each.annotation for each in every if each.annotation is not None)]
        file = self.view.file(cls.unit.path)
        nodes = [node for part in parts for node in walk(part)]
        labels = {id(node.attr) for node in nodes if isinstance(node, cst.Attribute)}
        read = {node.value for node in nodes if isinstance(node, cst.Name) and id(node) not in labels}
        for name in read - _BUILTINS:
            bound = [unit for unit in file.syntax.units if name in unit.names]
            again = re.compile(rf"^[ \t]+(?:class\s+)?{re.escape(name)}\s*(?::[^=\n]*)?(?:=(?!=)|[(:])", re.M)
            if len(bound) != 1 or self.file_matches(cls.unit.path, again):
                raise NoFix("a parameter with a name that may mean something else here")

    def _init_body(self, cls: ClassAt) -> list[At]:
        init = self.view.initializer(cls)
        assert isinstance(init.node, cst.FunctionDef)
        return [At(init.unit, node) for node in init.node.body.body if isinstance(node, cst.BaseStatement)]

    def _anchor(self, cls: ClassAt, near: str | None) -> tuple[At, str]:
        """The statement of ``__init__`` behind which a submodule is made, and the receiver's name."""
        init = self.view.initializer(cls)
        assert isinstance(init.node, cst.FunctionDef)
        parameters = [*init.node.params.posonly_params, *init.node.params.params]
        if not parameters:
            raise NoFix("an __init__ without a receiver")
        receiver = parameters[0].name.value
        started = None
        anchor = None
        whole = re.compile(_WHOLE_MODEL.format(self=re.escape(receiver)))
        body = self._init_body(cls)
        last = max((n for n, at in enumerate(body) if _SUPER_INIT.search(_code(at.text))), default=-1)
        for number, at in enumerate(body):
            text = at.text
            if number == last:
                started = anchor = at
                continue
            if started is None:
                continue
            pairs = _assigned(at.node)
            if _returns(at.node):
                break
            if whole.search(text):
                break
            if any(isinstance(value, cst.Call) for _, value in pairs):
                anchor = at
                if any(attribute == near for attribute, _ in pairs):
                    break
        if anchor is None:
            raise NoFix("an __init__ that does not start the module")
        return anchor, receiver


_BUILTINS = frozenset(dir(builtins))

_NOT_CALLED = r"(?!\s*(?:\(|(?:,[^=\n]*|:[^=\n]*)?=(?!=)))"
"""What does not follow an attribute that is called or set."""

_STRING_OR_COMMENT = re.compile(r"""#[^\r\n]*|'[^'\r\n]*'|"[^"\r\n]*\"""")

_SUPER_INIT = re.compile(r"\.\s*__init__\s*\(")

_WHOLE_MODEL = (
    r"\b{self}\s*[,)\]]|\b{self}\s*\.\s*(?:modules|children|named_modules|named_children|apply|eval|train|qconfig"
    r"|to|cuda|half|state_dict|load_state_dict|add_module|requires_grad_|fuse_model|_\w+|init\w*|reset\w*)\b"
    r"(?!\s*=[^=])"
)
"""Text in a constructor that looks at the model as it is by then: submodules go before it."""


def _passed_on(parameters: cst.Parameters, here: bool) -> tuple[str, str]:
    """The parameters of a constructor as text, and the arguments that hand them on."""
    plain = [*parameters.posonly_params, *parameters.params]
    if not plain:
        raise NoFix("an __init__ without a receiver")
    arguments = [each.name.value for each in plain[1:]]
    if isinstance(parameters.star_arg, cst.Param):
        arguments.append(f"*{parameters.star_arg.name.value}")
    arguments += [f"{each.name.value}={each.name.value}" for each in parameters.kwonly_params]
    if parameters.star_kwarg is not None:
        arguments.append(f"**{parameters.star_kwarg.name.value}")
    if not arguments:
        return "self", ""
    text = cst.Module([]).code_for_node(parameters)
    if not here or "\n" in text or "\r" in text or plain[0].name.value != "self":
        raise NoFix("parameters that may mean something else here")
    return text, ", ".join(arguments)


def _above_comments(source: str, start: int) -> int:
    """The start of the comments that stand directly above a line."""
    while start > 0:
        above = max(source.rfind("\n", 0, start - 1), source.rfind("\r", 0, start - 1)) + 1
        if not source[above:start].lstrip(" \t").startswith("#"):
            break
        start = above
    return start


def _returns(node: cst.CSTNode) -> bool:
    """May a statement of a function end it?"""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
        return False
    return isinstance(node, cst.Return) or any(_returns(child) for child in node.children)


def _code(text: str) -> str:
    """A text without what stands in plain strings and comments of one line."""
    return _STRING_OR_COMMENT.sub("", text)


def _assigned(node: cst.CSTNode) -> list[tuple[str, cst.BaseExpression]]:
    """The attributes that a line sets, with their values; ``self.a, self.b = A(), B()`` sets two."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return []
    small = node.body[0]
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target, value = small.targets[0].target, small.value
        if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
            if len(target.elements) == len(value.elements):
                pairs = [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=True)]
        else:
            pairs = [(target, value)]
    elif isinstance(small, cst.AnnAssign) and small.value is not None:
        pairs = [(small.target, small.value)]
    return [
        (target.attr.value, value)
        for target, value in pairs
        if isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)
    ]


def _written_pairs(line: At) -> tuple[tuple[cst.Tuple, cst.Tuple], list[str]] | None:
    """The two sides of ``self.a, self.b = A(), B()`` on one line, and the attributes; None for anything else."""
    small = line.node.body[0] if isinstance(line.node, cst.SimpleStatementLine) else None
    names = [name for name, _ in _assigned(line.node)]
    if not isinstance(small, cst.Assign) or "\n" in line.text or "\r" in line.text:
        return None
    target, value = small.targets[0].target, small.value
    if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple) or len(names) != len(target.elements):
        return None
    plain = all(isinstance(each, cst.Element) for side in (target, value) for each in side.elements)
    return ((target, value), names) if plain else None


def _assigned_attribute(node: cst.CSTNode) -> str | None:
    """``name`` of a line ``self.name = value``."""
    pairs = _assigned(node)
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    several = isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Tuple)
    return pairs[0][0] if len(pairs) == 1 and not several else None
