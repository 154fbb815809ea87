"""Edits of a fix, made from slices of the source and never from printed nodes.

A rule's ``fix(ctx, finding)`` asks ``ctx.edits()`` for an ``EditBuilder``, describes the rewrite and ends with
``edit.fix(title, reason, applicability)``. Places are given as span ids (``SpanId`` of a fact) or as ``Place``s.
Whatever cannot be done right raises ``NoFix``; ``rules.api.attempts`` turns that into "not offered".

    edit = ctx.edits()
    call = edit.call(finding.span)                    # function, arguments, all with their places
    name = edit.add_submodule(finding.span, "cat", FLOAT_FUNCTIONAL)   # a line in __init__, an import if needed
    edit.replace(call.function, f"{edit.method(finding.span).receiver}.{name}.cat")
    yield edit.fix(Message.of("..."), Message.of("..."), Applicability.SAFE)

What it offers:

- questions: ``text``, ``expression``, ``operation``, ``call``, ``method``, ``assigned`` (what one constructor line
  makes), ``repeats``, ``single_use``, ``family``;
- text: ``replace``, ``wrap``, ``insert``;
- calls: ``add_argument``, ``rename_keyword``, ``unwrap_call`` (a call becomes its argument);
- statements: ``insert_before``, ``insert_after``, ``delete_statement``, ``move_statement``, ``wrap_statement``;
- names: ``spell`` (an imported library name as this file spells it, importing it if it must), ``add_submodule``,
  ``remove_submodule``.

Line breaks, indentation and spelling follow the neighbours. Edits of one fix must not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import Unit, bound_names, children, count_names, walk
from qlsp.syntax.view import At, ClassAt, CodeView, Family, Key, MethodAt, NodeKey, parsed
from qlsp.text import Edit, Place, Span

Target = NodeKey | Place

_ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp,
    cst.SetComp, cst.SimpleString, cst.FormattedString,
)  # fmt: skip
_OPENERS = (cst.Assign, cst.AnnAssign, cst.Return, cst.Arg, cst.Element, cst.Expr, cst.NamedExpr)


@dataclass(frozen=True)
class Expression:
    """An expression: its place with its own parentheses, its text without them."""

    place: Place
    inner: Place
    text: str
    name: str | None
    atom: bool

    @property
    def operand(self) -> str:
        """The text as it can stand before a dot or an operator."""
        return self.text if self.atom else f"({self.text})"


@dataclass(frozen=True)
class ArgumentAt:
    """An argument of a call. ``elements`` are the members of a list or tuple that is written out, ``each`` is the
    member of a list comprehension."""

    value: Expression
    keyword: str | None
    keyword_place: Place | None
    star: str
    elements: tuple[Expression, ...] | None
    each: Expression | None = None


@dataclass(frozen=True)
class OperandAt:
    """An operand of an operator or an argument of a call. ``position`` counts the arguments without a keyword; the
    receiver of a method is the operand ``0`` of an operator and has no position in a call."""

    key: Key
    position: int | None = None
    keyword: str | None = None


@dataclass(frozen=True)
class OperationAt:
    """An operator, an augmented assignment or a call taken apart. ``sign`` is the operator as written, ``name`` the
    dotted name of the function, ``method`` the attribute that is called and ``receiver`` what it is an attribute of.
    """

    place: Place
    operands: tuple[OperandAt, ...]
    sign: str | None = None
    name: str | None = None
    method: str | None = None
    receiver: Key | None = None
    augmented: bool = False


@dataclass(frozen=True)
class SlicesAt:
    """``target[:, :n] = value`` as what is put together along an axis."""

    statement: Place
    target: str
    parts: tuple[str, str]
    axis: int


@dataclass(frozen=True)
class LoopAt:
    """The head of a ``for`` loop or of a comprehension."""

    at: At
    target: Expression
    iterable: Expression


@dataclass(frozen=True)
class CallAt:
    """A call: where its function stands, how it is spelled, which arguments it has."""

    place: Place
    function: Place
    spelling: str | None
    arguments: tuple[ArgumentAt, ...]

    def argument(self, position: int, *keywords: str) -> ArgumentAt | None:
        """The argument at this position or with one of these keywords."""
        if any(argument.star for argument in self.arguments):
            raise NoFix("a call with starred arguments")
        for argument in self.arguments:
            if argument.keyword in keywords:
                return argument
        if position < len(self.arguments) and self.arguments[position].keyword is None:
            return self.arguments[position]
        return None


@dataclass
class EditBuilder:
    """Collects the edits of one fix."""

    view: CodeView
    _edits: list[Edit] = field(default_factory=list)
    _constructors: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _deleted: list[At] = field(default_factory=list)
    _imported: dict[tuple[str, str], str] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)

    # --- questions ------------------------------------------------------------------------------------

    def text(self, target: Target) -> str:
        """The source of a place."""
        place = self._place(target)
        return self._source(place.path, place.span.segment)[place.span.start : place.span.end]

    def expression(self, key: NodeKey) -> Expression:
        """The expression with this span id."""
        return self._expression(self.view.at(key))

    def call(self, key: NodeKey) -> CallAt:
        """The call with this span id."""
        at = self.view.at(key)
        if not isinstance(at.node, cst.Call):
            raise NoFix("not a call")
        return self._call(at)

    def operation(self, key: NodeKey) -> OperationAt:
        """The operator, augmented assignment or call with this span id."""
        at = self.view.at(key)
        node = at.node
        if isinstance(node, cst.BinaryOperation):
            operands: tuple[cst.CSTNode, ...] = (node.left, node.right)
        elif isinstance(node, cst.AugAssign):
            operands = (node.target, node.value)
        elif isinstance(node, cst.UnaryOperation):
            operands = (node.expression,)
        elif isinstance(node, cst.Call):
            return self._called(at, node)
        else:
            raise NoFix("neither an operator nor a call")
        sign = At(at.unit, node.operator).text.strip()
        parts = tuple(OperandAt(At(at.unit, each).key, number) for number, each in enumerate(operands))
        return OperationAt(at.place, parts, sign, augmented=isinstance(node, cst.AugAssign))

    def _called(self, at: At, node: cst.Call) -> OperationAt:
        if any(argument.star for argument in node.args):
            raise NoFix("a call with starred arguments")
        operands = []
        for number, argument in enumerate(node.args):
            keyword = argument.keyword.value if argument.keyword is not None else None
            position = number if keyword is None else None
            operands.append(OperandAt(At(at.unit, argument.value).key, position, keyword))
        method = receiver = None
        if isinstance(node.func, cst.Attribute):
            method, receiver = node.func.attr.value, At(at.unit, node.func.value).key
        return OperationAt(at.place, tuple(operands), None, dotted(node.func), method, receiver)

    def below(self, key: NodeKey) -> list[Key]:
        """The expressions inside a node, the outer ones first; not those of a lambda or a comprehension."""
        at = self.view.at(key)
        found: list[Key] = []
        nodes = list(children(at.node))
        while nodes:
            node = nodes.pop()
            if isinstance(node, (cst.Lambda, cst.BaseComp)):
                continue
            if isinstance(node, cst.BaseExpression):
                found.append(At(at.unit, node).key)
            nodes.extend(children(node))
        return found

    def listed(self, key: NodeKey) -> list[Key] | None:
        """The members of a list or a tuple that is written out."""
        at = self.view.at(key)
        if not isinstance(at.node, (cst.List, cst.Tuple)):
            return None
        if any(isinstance(element, cst.StarredElement) for element in at.node.elements):
            return None
        return [At(at.unit, element.value).key for element in at.node.elements]

    def sliced(self, key: NodeKey) -> SlicesAt:
        """An assignment to one slice of a name, up to an index or from one on, along one axis."""
        at = self.view.at(key)
        target = self.view.parent(at)
        statement = self.view.parent(At(at.unit, target)) if target is not None else None
        if not isinstance(at.node, cst.Subscript) or not isinstance(statement, cst.Assign):
            raise NoFix("no assignment to a part")
        name = dotted(at.node.value)
        texts = [At(at.unit, element).text.rstrip(", ") for element in at.node.slice]
        cut = [number for number, text in enumerate(texts) if text not in (":", "...")]
        if name is None or "." in name or len(statement.targets) != 1 or len(cut) != 1:
            raise NoFix("other than one slice")
        index = at.node.slice[cut[0]].slice
        if not isinstance(index, cst.Slice) or index.step is not None or (index.lower is None) == (index.upper is None):
            raise NoFix("a slice with two ends")
        axis = cut[0] - len(texts) if "..." in texts[: cut[0]] else cut[0]
        if "..." in texts[cut[0] :]:
            raise NoFix("axes that are not counted")
        bound = index.upper if index.lower is None else index.lower
        assert bound is not None
        limit = self._expression(At(at.unit, bound)).text
        value = self._expression(At(at.unit, statement.value)).text
        texts[cut[0]] = f"{limit}:" if index.lower is None else f":{limit}"
        kept = f"{name}[{', '.join(texts)}]"
        parts = (value, kept) if index.lower is None else (kept, value)
        return SlicesAt(At(at.unit, statement).place, name, parts, axis)

    def only_argument_of(self, key: NodeKey) -> Key | None:
        """The call whose only argument is this expression."""
        at = self.view.at(key)
        argument = self.view.parent(at)
        if not isinstance(argument, cst.Arg) or argument.star or argument.keyword is not None:
            return None
        call = self.view.parent(At(at.unit, argument))
        return At(at.unit, call).key if isinstance(call, cst.Call) and len(call.args) == 1 else None

    def is_statement(self, key: NodeKey) -> bool:
        """True for an expression whose value nobody takes."""
        return isinstance(self.view.parent(self.view.at(key)), cst.Expr)

    def expression_or_statement(self, key: NodeKey) -> Place:
        """The place of a node, that of an expression with its own parentheses."""
        at = self.view.at(key)
        return self._expression(at).place if isinstance(at.node, cst.BaseExpression) else at.place

    def between(self, left: Place, right: Place) -> str:
        """The text between two places."""
        source = self._source(left.path, left.span.segment)
        return source[left.span.end : right.span.start]

    def same_line(self, one: NodeKey, other: NodeKey) -> bool:
        """True if two nodes of one chunk begin on one line."""
        first, last = sorted((self.view.at(one).span, self.view.at(other).span), key=lambda span: span.start)
        text = self._source(one.path, first.segment)[first.start : last.start]
        return "\n" not in text and "\r" not in text

    def spliced(self, place: Place, pieces: Iterable[tuple[Place, str]]) -> str:
        """The text of a place with other text in places inside it."""
        source = self._source(place.path, place.span.segment)
        text, end = "", place.span.start
        for piece, content in sorted(pieces, key=lambda each: each[0].span.start):
            if piece.span.start < end:
                raise NoFix("places that overlap")
            text += source[end : piece.span.start] + content
            end = piece.span.end
        return text + source[end : place.span.end]

    def method(self, key: NodeKey) -> MethodAt:
        """The method that holds a node directly."""
        return self.view.method(self.view.at(key))

    def family(self, cls: ClassAt) -> Family:
        """The classes in view that a class derives from or that derive from it."""
        return self.view.family(cls)

    def repeats(self, key: NodeKey) -> bool:
        """True if a node stands in a loop or a comprehension of its function."""
        return self.view.repeats(self.view.at(key))

    def loop(self, key: NodeKey, head: NodeKey) -> LoopAt:
        """The loop or comprehension with this head, if it is the only one of the function around a node."""
        at, wanted = self.view.at(key), self.view.at(head)
        found = None
        inner = at.node
        for node in self.view.ancestors(at):
            if isinstance(node, (cst.FunctionDef, cst.Lambda)):
                break
            if isinstance(node, cst.While) or isinstance(node, (cst.For, cst.CompFor)) and inner is node.iter:
                raise NoFix("a loop without a head, or the head itself")
            if isinstance(node, cst.For):
                loop: cst.For | cst.CompFor = node
            elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
                loop = node.for_in
                if loop.inner_for_in is not None:
                    raise NoFix("a comprehension with two loops")
            else:
                inner = node
                continue
            inner = node
            if found is not None or loop is not wanted.node or loop.asynchronous is not None:
                raise NoFix("a loop in a loop")
            found = loop
        if found is None:
            raise NoFix("not in this loop")
        target, iterable = (self._expression(At(at.unit, node)) for node in (found.target, found.iter))
        return LoopAt(At(at.unit, found), target, iterable)

    def in_constructor(self, key: NodeKey) -> bool:
        """True if a node stands in an ``__init__``."""
        function = self.view.function(self.view.at(key))
        node = function.node if function is not None else None
        return isinstance(node, cst.FunctionDef) and node.name.value == "__init__"

    def runs_once(self, key: NodeKey) -> bool:
        """False where a node is part of a comprehension, a lambda or a condition of its statement."""
        at = self.view.at(key)
        kinds = (cst.CompFor, cst.BaseComp, cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.Comparison)
        for node in self.view.ancestors(at):
            if isinstance(node, cst.BaseStatement):
                return not isinstance(node, (cst.If, cst.While))
            if isinstance(node, kinds):
                return False
        return True

    def found(self, pattern: re.Pattern[str]) -> list[str]:
        """What a pattern's group stands for in the files in view, each text once."""
        files = self.view.by_path.values()
        texts = [unit.text for file in files for unit in file.syntax.units]
        return list(dict.fromkeys(match[1] for text in texts for match in pattern.finditer(text)))

    def may_rebind(self, key: NodeKey, name: str) -> bool:
        """True if a statement may bind a name anew: a name of the function that it gives back if it is a
        parameter, or a name of the script."""
        at = self.view.at(key)
        function = self.view.function(at)
        if function is None:
            return self.view.enclosing_class(at) is None
        if not isinstance(function.node, cst.FunctionDef):
            return False
        nodes = list(walk(function.node))
        if any(isinstance(node, (cst.Global, cst.Nonlocal)) for node in nodes) or self._nested(function):
            return False
        parameters = {node.name.value for node in nodes if isinstance(node, cst.Param)}
        if name not in parameters:
            return any(isinstance(node, cst.Assign) and _sets(node, name) for node in nodes)
        returns = [node for node in nodes if isinstance(node, cst.Return) and node.value is not None]
        return bool(returns) and all(count_names(node, name) for node in returns)

    def assignment(self, key: NodeKey) -> tuple[tuple[str, ...], str]:
        """The targets and the value of a plain assignment, as text; a target may be written over lines."""
        at = self.view.at(key)
        if not isinstance(at.node, cst.Assign):
            raise NoFix("not a plain assignment")
        targets = tuple(self._expression(At(at.unit, each.target)).text for each in at.node.targets)
        return targets, self._expression(At(at.unit, at.node.value)).text

    def assigned_value(self, key: NodeKey) -> tuple[int, Expression] | None:
        """The number of targets and the value of a plain assignment; None for another node."""
        at = self.view.at(key)
        if not isinstance(at.node, cst.Assign):
            return None
        return len(at.node.targets), self._expression(At(at.unit, at.node.value))

    def result_name(self, key: NodeKey) -> str:
        """The name of the model that a call gives back or works on in place: ``p`` of ``p = prepare(m)``, ``m`` of
        ``prepare(m, inplace=True)``; the model may not be a parameter of the function around it."""
        at, call = self.view.at(key), self.call(key)
        model = call.argument(0, "model")
        options = [argument for argument in call.arguments if argument is not model]
        if model is None or any(argument.keyword != "inplace" for argument in options):
            raise NoFix("prepare with more than a model")
        function = self.view.function(at)
        first = (model.value.name or "").partition(".")[0]
        nodes = walk(function.node) if function is not None else ()
        if any(isinstance(node, cst.Param) and node.name.value == first for node in nodes):
            raise NoFix("the model comes from the caller")
        small = self.view.parent(at)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            name = dotted(small.targets[0].target)
        else:
            name = model.value.name if isinstance(small, cst.Expr) else None
            if [argument.value.text for argument in options] != ["True"]:
                raise NoFix("a result that is not kept")
        if name is None:
            raise NoFix("a result without a plain name")
        return name

    def unpacked(self, key: NodeKey) -> int | None:
        """The number of names that a statement binds to the members of an expression; None where it does not."""
        at = self.view.at(key)
        statement = self.view.parent(at)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0].target
        if not isinstance(target, (cst.Tuple, cst.List)):
            return None
        names = [element.value for element in target.elements if isinstance(element, cst.Element)]
        plain = len(names) == len(target.elements) and all(isinstance(name, cst.Name) for name in names)
        return len(names) if plain else None

    def bound_name(self, key: NodeKey) -> str | None:
        """The local name that a statement binds to an expression as a whole, None if the expression is part of more."""
        at = self.view.at(key)
        parent = self.view.parent(at)
        if not isinstance(parent, (cst.Assign, cst.AnnAssign)):
            return None
        targets = [each.target for each in parent.targets] if isinstance(parent, cst.Assign) else [parent.target]
        if len(targets) != 1 or not isinstance(targets[0], cst.Name):
            raise NoFix("kept in something else than a local name")
        return targets[0].value

    def started(self, key: NodeKey) -> bool:
        """True if a node stands in a method behind the call of the base class's ``__init__``."""
        at = self.view.at(key)
        function = self.method(key).function
        source = self._source(at.unit.path, at.span.segment)
        return _SUPER_INIT.search(source, function.span.start, at.span.start) is not None

    def members(self, key: NodeKey) -> tuple[Expression, ...] | None:
        """The members of a list or tuple, the values of a dict; None for other expressions and with ``*``."""
        at = self.view.at(key)
        if isinstance(at.node, (cst.List, cst.Tuple)):
            plain = [element.value for element in at.node.elements if isinstance(element, cst.Element)]
        elif isinstance(at.node, cst.Dict):
            plain = [element.value for element in at.node.elements if isinstance(element, cst.DictElement)]
        else:
            return None
        whole = len(plain) == len(at.node.elements)
        return tuple(self._expression(At(at.unit, node)) for node in plain) if whole else None

    def configure(self, cls: ClassAt, attribute: str, text: str) -> None:
        """Put ``self.attribute.text`` behind the only statement of ``__init__`` that sets the attribute."""
        lines = [at for at in self._init_body(cls) if attribute in dict(_assigned(at.node))]
        if len(lines) != 1:
            raise NoFix(f"{attribute} is not set by one line of __init__")
        _, receiver = self._anchor(cls, None)
        self._insert_after(lines[0], f"{receiver}.{attribute}.{text}")

    def bind_call(self, key: NodeKey, name: str) -> None:
        """Make a call that is a statement, or the value of an assignment, set this name."""
        at = self.view.at(key)
        statement = self.view.statement(at)
        small = statement.node.body[0] if isinstance(statement.node, cst.SimpleStatementLine) else None
        if not isinstance(small, (cst.Expr, cst.Assign, cst.AnnAssign)) or small.value is not at.node:
            raise NoFix("a call inside an expression")
        start, end = statement.span.start, self._expression(at).place.span.start
        self.replace(Place(at.unit.path, Span(start, end, at.span.segment)), f"{name} = ")

    def bound_between(self, first: NodeKey, last: NodeKey) -> tuple[frozenset[str], frozenset[str]]:
        """Names that a statement may bind, and that those behind it up to another one of its block may bind."""
        one, other = (self.view.statement(self.view.at(each)) for each in (first, last))
        block = self.view.parent(one)
        if block is not self.view.parent(other):
            raise NoFix("statements of different blocks")
        if isinstance(block, cst.IndentedBlock):
            body = list(block.body)
            start, end = body.index(one.node), body.index(other.node)  # type: ignore[arg-type]
            names = [bound_names("statement", None, At(one.unit, node).text) for node in body[start:end]]
        elif block is None and one.unit.path == other.unit.path and one.unit.segment == other.unit.segment:
            units = self.view.file(one.unit.path).syntax.units
            start, end = units.index(one.unit), units.index(other.unit)
            names = [unit.names for unit in units[start:end]]
        else:
            raise NoFix("statements of different blocks")
        if not names:
            raise NoFix("statements in another order")
        return names[0], frozenset().union(*names[1:])

    def local_name(self, key: NodeKey, hint: str) -> str:
        """A name that the function around a node does not use."""
        function = self.view.function(self.view.at(key))
        if function is None:
            raise NoFix("not in a function")
        names = {node.value for node in walk(function.node) if isinstance(node, cst.Name)}
        return _unused(hint, names | set(self.view.file(key.path).imports))

    def qualified(self, path: str, name: str | None) -> str | None:
        """What an imported dotted name of a file stands for."""
        return self.view.qualified(path, name)

    def receiver_attribute(self, key: NodeKey) -> str:
        """``name`` of a call ``self.name(...)``."""
        call = self.call(key)
        receiver, _, name = (call.spelling or "").partition(".")
        if receiver != self.method(key).receiver or not name or "." in name:
            raise NoFix("not a call of an attribute of the receiver")
        return name

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

    def attribute_of(self, cls: ClassAt, name: str) -> str | None:
        """An attribute that ``__init__`` sets to an object of a library class, or None."""
        for at in self._init_body(cls):
            for attribute, value in _assigned(at.node):
                if isinstance(value, cst.Call) and self.qualified(at.unit.path, dotted(value.func)) == name:
                    return attribute
        return None

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """True if a text stands somewhere in the files in view."""
        return self.view.matches(pattern)

    def file_matches(self, path: str, pattern: re.Pattern[str]) -> bool:
        """True if a text stands in one chunk of a file."""
        return any(pattern.search(unit.text) for unit in self.view.file(path).syntax.units)

    def chunk_matches(self, key: NodeKey, pattern: re.Pattern[str]) -> bool:
        """True if a text stands in the function, method or statement around a node."""
        return pattern.search(self.view.at(key).unit.text) is not None

    def loads_prepared(self) -> bool:
        """True if some function or script loads a checkpoint into a model that it prepared before."""
        return self.view.matches(_LOADS_PREPARED) or self.view.scripts_match(_LOADS_PREPARED, "load_state_dict")

    def feeds_only(self, producer: NodeKey, consumer: NodeKey, element: Expression) -> bool:
        """True if a call is the expression itself, or what a name holds that only this expression reads."""
        made, used = self.view.at(producer), self.view.at(consumer)
        if self._expression(made).place == element.place:
            return True
        statement, other = self.view.statement(made), self.view.statement(used)
        block = self.view.parent(statement)
        if element.name is None or "." in element.name or block is not self.view.parent(other):
            return False
        if not isinstance(block, cst.IndentedBlock):
            return False
        assignment = statement.node.body[0] if isinstance(statement.node, cst.SimpleStatementLine) else None
        if not isinstance(assignment, cst.Assign) or len(assignment.targets) != 1:
            return False
        target = assignment.targets[0].target
        if not isinstance(target, cst.Name) or target.value != element.name or assignment.value is not made.node:
            return False
        function = self.view.function(made)
        if function is None or self.view.repeats(made) or self._nested(function):
            return False
        return self._read_once(block, statement.node, other.node, element.name, function)

    def _nested(self, function: At) -> bool:
        return any(
            isinstance(node, (cst.FunctionDef, cst.Lambda)) for node in walk(function.node) if node is not function.node
        )

    def _read_once(
        self, block: cst.IndentedBlock, made: cst.CSTNode, used: cst.CSTNode, name: str, function: At
    ) -> bool:
        """One read of a name between the statement that sets it and the one that sets it anew."""
        body = list(block.body)
        start, end = body.index(made), body.index(used)  # type: ignore[arg-type]
        if start > end:
            return False
        reads = 0
        for number, statement in enumerate(body[start + 1 :], start + 1):
            count = count_names(statement, name)
            stored = _stores(statement, name)
            if number < end and count or number == end and count - stored != 1:
                return False
            if number == end:
                reads = 1
                if stored:
                    return True
            elif number > end and stored and count == stored:
                return True
            elif number > end and count:
                return False
        after = At(function.unit, block)
        outer = self.view.parent(after)
        return reads == 1 and (outer is function.node or count_names(function.node, name) == 2)

    # --- text -----------------------------------------------------------------------------------------

    def replace(self, target: Target, content: str) -> None:
        """Put other text in a place."""
        place = self._place(target)
        self._edits.append(Edit(place.path, place.span, content))

    def insert(self, path: str, offset: int, content: str, segment: int = 0) -> None:
        """Put text at an offset."""
        self._edits.append(Edit(path, Span(offset, offset, segment), content))

    def wrap(self, target: Target, before: str, after: str) -> None:
        """Put text around a place."""
        place = self._place(target)
        self.insert(place.path, place.span.start, before, place.span.segment)
        self.insert(place.path, place.span.end, after, place.span.segment)

    # --- calls ----------------------------------------------------------------------------------------

    def add_argument(self, key: NodeKey, text: str) -> None:
        """Add a last argument to a call, before a trailing comma or a comment."""
        at = self.view.at(key)
        if not isinstance(at.node, cst.Call):
            raise NoFix("not a call")
        if at.node.args:
            last = self._argument(At(at.unit, at.node.args[-1]))
            if isinstance(at.node.args[-1].value, cst.GeneratorExp) and not last.value.text.startswith("("):
                raise NoFix("a bare generator expression")
            place = last.value.place
            self.insert(place.path, place.span.end, f", {text}", place.span.segment)
            return
        function = self._expression(At(at.unit, at.node.func)).place.span.end
        open_at = self._source(at.unit.path, at.span.segment).index("(", function)
        self.insert(at.unit.path, open_at + 1, text, at.span.segment)

    def rename_keyword(self, call: CallAt, old: str, new: str) -> None:
        """Rename a keyword of a call, if it is there."""
        for argument in call.arguments:
            if argument.keyword == old and argument.keyword_place is not None:
                self.replace(argument.keyword_place, new)

    def set_argument(self, key: NodeKey, position: int, name: str, text: str) -> None:
        """Give an argument of a call another value; add it by its name if it is not there."""
        argument = self.call(key).argument(position, name)
        if argument is None:
            self.add_argument(key, f"{name}={text}")
        else:
            self.replace(argument.value.place, text)

    def uncall(self, key: NodeKey) -> None:
        """A call without arguments becomes its function."""
        at, call = self.view.at(key), self.call(key)
        parent = self.view.parent(at)
        if call.arguments or isinstance(parent, cst.Call) and parent.func is at.node:
            raise NoFix("a call with arguments, or whose result is called")
        span = Span(call.function.span.end, call.place.span.end, call.place.span.segment)
        rest = Place(call.place.path, span)
        if self.text(rest).strip("() \t\r\n\\"):
            raise NoFix("a comment in a call")
        self.replace(rest, "")

    def strip_call(self, key: NodeKey) -> None:
        """Take the function, the parentheses and a trailing comma of a call with one argument away, and keep the
        argument; edits may be made in it."""
        at, call = self.view.at(key), self.call(key)
        if len(call.arguments) != 1 or call.arguments[0].star:
            raise NoFix("a call with other than one argument")
        outer, value = self._expression(at).place.span, call.arguments[0].value.place.span
        for start, end in ((outer.start, value.start), (value.end, outer.end)):
            place = Place(at.unit.path, Span(start, end, at.span.segment))
            if "#" in self.text(place):
                raise NoFix("a comment in a call")
            self.replace(place, "")

    def line_of(self, key: NodeKey) -> str:
        """The text of the statement around a node."""
        return self.view.statement(self.view.at(key)).text

    def unwrap_call(self, key: NodeKey) -> None:
        """Put the only argument of a call in place of the call: ``x = f(x)`` goes away as a whole."""
        at = self.view.at(key)
        call = self.call(key)
        if len(call.arguments) != 1 or call.arguments[0].star:
            raise NoFix("a call with other than one argument")
        value = call.arguments[0].value
        outer = self._expression(at)
        parent = self.view.parent(at)
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and value.name is not None:
            target = parent.targets[0].target
            if isinstance(target, cst.Name) and target.value == value.name:
                self.delete_statement(key)
                return
        source = self._source(at.unit.path, at.span.segment)
        place = outer.place.span
        before, after = source[place.start : value.place.span.start], source[value.place.span.end : place.end]
        if "#" in before or "#" in after:
            self._keep_comments(at, value, before, after)
            return
        text = source[value.place.span.start : value.place.span.end]
        broken = "\n" in text or "\r" in text
        argument = at.node.args[0].value if isinstance(at.node, cst.Call) else None
        if isinstance(argument, cst.GeneratorExp) and not argument.lpar:
            text = f"({text})"
        if broken and text == value.text or not (value.atom or isinstance(parent, _OPENERS)):
            text = f"({value.text})"
        self.replace(outer.place, text)

    def take_operand(self, key: NodeKey, operand: NodeKey) -> None:
        """Put an operand of a call, its first argument or the receiver of its method, in place of the call."""
        call, value = self.call(key), self.expression(operand)
        at = self.view.at(key)
        parent = self.view.parent(at)
        if isinstance(parent, cst.Expr):
            raise NoFix("a call for its effect")
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and value.name is not None:
            target = parent.targets[0].target
            if isinstance(target, cst.Name) and target.value == value.name:
                self.delete_statement(key)
                return
        outer, inner = self._expression(at).place, value.place
        segment = outer.span.segment
        before = Place(outer.path, Span(outer.span.start, inner.span.start, segment))
        after = Place(outer.path, Span(inner.span.end, outer.span.end, segment))
        rest = self.text(before) + self.text(after)
        if "#" in rest or "\n" in rest or not value.atom or any(each.star for each in call.arguments):
            raise NoFix("a call over several lines")
        for place in (before, after):
            if place.span.start < place.span.end:
                self.replace(place, "")

    def _keep_comments(self, at: At, value: Expression, before: str, after: str) -> None:
        """The parentheses of a call stay, with the comments in them; function name and last comma go."""
        span = at.span
        source = self._source(at.unit.path, span.segment)
        assert isinstance(at.node, cst.Call)
        open_at = source.index("(", self._expression(At(at.unit, at.node.func)).place.span.end)
        self.replace(Place(at.unit.path, Span(span.start, open_at, span.segment)), "")
        comma = re.match(r"\s*,", after)
        if comma is not None:
            end = value.place.span.end
            self.replace(Place(at.unit.path, Span(end + comma.end() - 1, end + comma.end(), span.segment)), "")
        elif "," in re.sub(r"#[^\r\n]*", "", after):
            raise NoFix("a comment before a comma")

    # --- statements -----------------------------------------------------------------------------------

    def insert_before(self, key: NodeKey, text: str) -> None:
        """Put a statement on a line of its own before the statement of a node."""
        statement = self.view.statement(self.view.at(key))
        start, _ = self._lines(statement)
        span = statement.span
        indent = self._source(statement.unit.path, span.segment)[start : span.start]
        self.insert(statement.unit.path, start, f"{indent}{text}{self._newline(statement)}", span.segment)

    def insert_after(self, key: NodeKey, text: str) -> None:
        """Put a statement on a line of its own behind the statement of a node."""
        self._insert_after(self.view.statement(self.view.at(key)), text)

    def delete_statement(self, key: NodeKey) -> None:
        """Take the lines of a statement out; ``pass`` stays where the block would be empty."""
        self._delete(self.view.statement(self.view.at(key)))

    def move_statement(self, key: NodeKey, before: NodeKey) -> None:
        """Take a statement out and put its lines before another statement of the same block."""
        statement, other = (self.view.statement(self.view.at(each)) for each in (key, before))
        if self.view.parent(statement) is not self.view.parent(other):
            raise NoFix("statements of different blocks")
        start, end = self._lines(statement)
        target, _ = self._lines(other)
        source = self._source(statement.unit.path, statement.span.segment)
        lines = source[start:end]
        if not lines.endswith(("\n", "\r")):
            lines += self._newline(statement)
        self.insert(other.unit.path, target, lines, other.span.segment)
        self.replace(Place(statement.unit.path, Span(start, end, statement.span.segment)), "")

    def wrap_statement(self, key: NodeKey, before: str, after: str) -> None:
        """Put text before and behind a statement, on its own lines: ``m = `` before ``prepare(m)``."""
        statement = self.view.statement(self.view.at(key))
        self.wrap(statement.place, before, after)

    # --- names ----------------------------------------------------------------------------------------

    def spell(self, path: str, name: str, like: str | None = None) -> str:
        """A qualified library name as a file spells it; an import is added if nothing stands for it.

        ``like`` is the spelling of a kindred name in the file, whose style a long spelling follows.
        """
        if (path, name) in self._imported:
            return self._imported[(path, name)]
        module, _, last = name.rpartition(".")
        file = self.view.file(path)
        direct, through = [], []
        for local, target in file.imports.items():
            if not self._plain_import(path, local):
                continue
            if self.view.canonical(target) == name:
                direct.append(local)
            elif self.view.canonical(target) == module:
                through.append(f"{local}.{last}")
        if direct or through:
            return min(direct or through, key=len)
        prefix = self._long_prefix(path, like, name)
        if prefix is not None:
            return prefix
        if any(last in unit.names for unit in file.syntax.units):
            raise NoFix(f"{last} means something else here")
        self._add_import(path, self._spelled_module(path, module), last)
        self._imported[(path, name)] = last
        return last

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

    def value_of_line(self, statement: At) -> Expression:
        """The value that a line sets an attribute to."""
        ((_, value),) = _assigned(statement.node)
        return self._expression(At(statement.unit, value))

    def add_line(self, key: NodeKey, hint: str, value: str, near: str | None = None) -> str:
        """Assign a value to a new attribute in ``__init__`` of the class around a node; returns its name."""
        cls = self.method(key).cls
        if self.family(cls).runs_children:
            raise NoFix("the class runs its children: a new one would run too")
        if "__init__" not in cls.methods:
            return self._line_of_new_init(cls, hint, value)
        anchor, receiver = self._anchor(cls, near)
        place = (cls.unit.path, cls.unit.index, self._lines(anchor)[1])
        name = self._unused_name(cls, hint, place)
        self._insert_after(anchor, f"{receiver}.{name} = {value}")
        return name

    def _unused_name(self, cls: ClassAt, hint: str, place: tuple[str, int, int]) -> str:
        """A name for a new attribute that is set at this place."""
        taken = self.view.taken(cls)
        for other, handed in self.view.handed_out.items():
            taken = taken - handed if other == place else taken
        name = _unused(hint, taken | self._named)
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
        assert isinstance(inherited.node, cst.FunctionDef)
        signature, arguments = _passed_on(inherited.node.params, inherited.unit.path == cls.unit.path)
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

    def remove_submodule(self, cls: ClassAt, attribute: str, uses: int = 1) -> bool:
        """Take the line of ``__init__`` out that makes a submodule, if the fix removes its only ``uses``."""
        try:
            at = self.assigned(cls, attribute)
        except NoFix:
            return False
        if self.view.attribute_uses(cls, attribute) != uses + 1:
            return False
        self._delete(at)
        return True

    # --- the result -----------------------------------------------------------------------------------

    def fix(self, title: Message, reason: Message, applicability: Applicability) -> Fix:
        """The fix with all edits so far, in order."""
        ordered = merged(self._edits)
        if not ordered:
            raise NoFix("nothing to edit")
        return Fix(title, applicability, reason, ordered)

    # --- inside ---------------------------------------------------------------------------------------

    def _place(self, target: Target) -> Place:
        return target if isinstance(target, Place) else self.view.at(target).place

    def _source(self, path: str, segment: int) -> str:
        return self.view.file(path).syntax.source.segments[segment].text

    def _newline(self, at: At) -> str:
        """The line break of the lines around a statement."""
        source = self._source(at.unit.path, at.span.segment)
        breaks = re.compile(r"\r\n?|\n")
        below = breaks.search(source, at.span.start)
        above = breaks.findall(source, 0, at.span.start) if below is None else []
        return below[0] if below is not None else above[-1] if above else "\n"

    def _lines(self, statement: At) -> tuple[int, int]:
        """From the start of a statement's first line to behind the break of its last one."""
        source = self._source(statement.unit.path, statement.span.segment)
        span = statement.span
        start = span.start
        while start > 0 and source[start - 1] not in "\r\n":
            start -= 1
        end = span.end
        while end < len(source) and source[end] not in "\r\n":
            end += 1
        rest = source[span.end : end].strip(" \t\f")
        if source[start : span.start].strip(" \t\f\ufeff") or rest and not rest.startswith("#"):
            raise NoFix("a statement that shares its lines")
        if source.startswith("\\", max(0, start - 3)) and source[:start].rstrip("\r\n").endswith("\\"):
            raise NoFix("a line that continues another")
        if source.startswith("\r\n", end):
            end += 2
        elif end < len(source):
            end += 1
        return start, end

    def _insert_after(self, statement: At, text: str) -> None:
        start, end = self._lines(statement)
        span = statement.span
        source = self._source(statement.unit.path, span.segment)
        indent = source[start : span.start].lstrip("\f\ufeff")
        newline = self._newline(statement)
        if source[start:end].endswith(("\n", "\r")):
            self.insert(statement.unit.path, end, f"{indent}{text}{newline}", span.segment)
        else:
            self.insert(statement.unit.path, end, f"{newline}{indent}{text}", span.segment)

    def _delete(self, statement: At) -> None:
        start, end = self._lines(statement)
        self._deleted.append(statement)
        span = statement.span
        block = self.view.parent(statement)
        if isinstance(block, cst.IndentedBlock):
            gone = {id(other.node) for other in self._deleted}
            if all(id(each) in gone for each in block.body):
                self.replace(Place(statement.unit.path, span), "pass")
                return
        self.replace(Place(statement.unit.path, Span(start, end, span.segment)), "")

    def _expression(self, at: At) -> Expression:
        node = at.node
        inner = at.place
        assert isinstance(node, cst.BaseExpression)
        outer = inner
        source = self._source(inner.path, inner.span.segment)
        for _ in node.lpar:
            start, end = outer.span.start, outer.span.end
            while start > 0 and source[start - 1].isspace():
                start -= 1
            while end < len(source) and source[end].isspace():
                end += 1
            if source[start - 1 : start] != "(" or source[end : end + 1] != ")":
                raise NoFix("parentheses with comments in them")
            outer = Place(inner.path, Span(start - 1, end + 1, inner.span.segment))
        atom = isinstance(node, _ATOMS)
        if isinstance(node, (cst.Tuple, cst.GeneratorExp)) and node.lpar:
            return Expression(outer, outer, self.text(outer), None, True)
        return Expression(outer, inner, self.text(inner), dotted(node), atom)

    def _argument(self, at: At) -> ArgumentAt:
        node = at.node
        assert isinstance(node, cst.Arg)
        value = self._expression(At(at.unit, node.value))
        elements = None
        if isinstance(node.value, (cst.List, cst.Tuple)):
            members = node.value.elements
            if not any(isinstance(member, cst.StarredElement) for member in members):
                elements = tuple(self._expression(At(at.unit, member.value)) for member in members)
        keyword = node.keyword.value if node.keyword is not None else None
        place = At(at.unit, node.keyword).place if node.keyword is not None else None
        each = None
        if isinstance(node.value, (cst.ListComp, cst.GeneratorExp)):
            each = self._expression(At(at.unit, node.value.elt))
        return ArgumentAt(value, keyword, place, node.star, elements, each)

    def _call(self, at: At) -> CallAt:
        assert isinstance(at.node, cst.Call)
        function = self._expression(At(at.unit, at.node.func))
        arguments = tuple(self._argument(At(at.unit, argument)) for argument in at.node.args)
        return CallAt(at.place, function.place, dotted(at.node.func), arguments)

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

    def _plain_import(self, path: str, local: str) -> bool:
        """True if a name is bound by imports at the top level only, whatever branch runs."""
        units = [unit for unit in self.view.file(path).syntax.units if local in unit.names]
        return bool(units) and all(_is_import(unit) for unit in units)

    def _long_prefix(self, path: str, like: str | None, name: str) -> str | None:
        """``torch.ao.nn.quantized.X`` where the file says ``torch.ao.quantization.QuantStub``."""
        if like is None or like.count(".") < 2:
            return None
        first = like.partition(".")[0]
        target = self.view.file(path).imports.get(first)
        if target != "torch" or not self._plain_import(path, first):
            return None
        for spelled in (name, name.replace("torch.ao.", "torch.", 1)):
            if like.split(".")[1] == spelled.split(".")[1] and self.view.canonical(spelled) == name:
                return f"{first}.{spelled.partition('.')[2]}"
        return None

    def _spelled_module(self, path: str, module: str) -> str:
        """The old namespace where the file imports from no other."""
        targets = [t for t in self.view.file(path).imports.values() if t.startswith("torch.")]
        old = [t for t in targets if t.startswith(("torch.quantization", "torch.nn.quantized"))]
        shorter = module.replace("torch.ao.", "torch.", 1)
        if old and not any(t.startswith("torch.ao.") for t in targets) and self.view.canonical(shorter) == module:
            return shorter
        return module

    def _add_import(self, path: str, module: str, name: str) -> None:
        """``from module import name``, where isort would put it."""
        imports = [unit for unit in self.view.file(path).syntax.units if _is_import(unit)]
        for unit in imports:
            found = _import_from(unit)
            if found is not None and dotted(found.module) == module if found and found.module else False:
                assert found is not None
                if isinstance(found.names, cst.ImportStar):
                    continue
                behind = _name_behind(found.names, name)
                if behind is not None:
                    place = At(unit, behind).place
                    self.insert(path, place.span.start, f"{name}, ", place.span.segment)
                    return
                place = At(unit, found.names[-1]).place
                last = found.names[-1]
                end = place.span.end
                if last.comma is not cst.MaybeSentinel.DEFAULT:
                    inner = last.asname.name if last.asname is not None else last.name
                    end = At(unit, inner).span.end
                self.insert(path, end, f", {name}", place.span.segment)
                return
        line = f"from {module} import {name}"
        torch = [unit for unit in imports if _top_package(unit) == "torch"]
        later = [unit for unit in torch if (key := _from_module(unit)) is not None and key > module]
        if later:
            self._line_before(later[0], line)
        elif torch or imports:
            self._insert_after(_unit_statement((torch or imports)[-1]), line)
        else:
            self._first_line(path, line)

    def _line_before(self, unit: Unit, line: str) -> None:
        statement = _unit_statement(unit)
        start, _ = self._lines(statement)
        self.insert(unit.path, start, f"{line}{self._newline(statement)}", unit.segment)

    def _first_line(self, path: str, line: str) -> None:
        units = self.view.file(path).syntax.units
        if not units:
            raise NoFix("an empty file")
        first = units[0]
        node = parsed(first)
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        docstring = isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
        if docstring:
            self._insert_after(_unit_statement(first), line)
        else:
            self._line_before(first, line)


_STRING_OR_COMMENT = re.compile(r"""#[^\r\n]*|'[^'\r\n]*'|"[^"\r\n]*\"""")
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


_SUPER_INIT = re.compile(r"\.\s*__init__\s*\(")
_WHOLE_MODEL = (
    r"\b{self}\s*[,)\]]|\b{self}\s*\.\s*(?:modules|children|named_modules|named_children|apply|eval|train|qconfig"
    r"|to|cuda|half|state_dict|load_state_dict|add_module|requires_grad_|fuse_model|_\w+|init\w*|reset\w*)\b"
    r"(?!\s*=[^=])"
)
"""Text in a constructor that looks at the model as it is by then: submodules go before it."""


def merged(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits in order of place; insertions at one place become one; overlapping edits are no fix."""
    ordered = sorted(edits, key=lambda e: (e.path, e.span.segment, e.span.start, e.span.end))
    result: list[Edit] = []
    for edit in ordered:
        last = result[-1] if result else None
        if last is not None and (last.path, last.span.segment) == (edit.path, edit.span.segment):
            if edit == last and edit.span.start < edit.span.end:
                continue
            if edit.span == last.span and edit.span.start == edit.span.end:
                result[-1] = Edit(edit.path, edit.span, last.content + edit.content)
                continue
            if edit.span.start < last.span.end:
                raise NoFix("edits that overlap")
        result.append(edit)
    return tuple(result)


def _unused(hint: str, taken: set[str]) -> str:
    if hint not in taken:
        return hint
    number = 2
    while f"{hint}_{number}" in taken:
        number += 1
    return f"{hint}_{number}"


_LOADS_PREPARED = re.compile(r"\bprepare\w*\s*\(.*?\bload_state_dict\s*\(", re.S)


def _sets(node: cst.Assign, name: str) -> bool:
    return any(isinstance(each.target, cst.Name) and each.target.value == name for each in node.targets)


def _stores(node: cst.CSTNode, name: str) -> int:
    """1 if a plain assignment at the top of a statement sets a name."""
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        return int(isinstance(target, cst.Name) and target.value == name)
    return 0


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


def _assigned_attribute(node: cst.CSTNode) -> str | None:
    """``name`` of a line ``self.name = value``."""
    pairs = _assigned(node)
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    several = isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Tuple)
    return pairs[0][0] if len(pairs) == 1 and not several else None


def _is_import(unit: Unit) -> bool:
    node = parsed(unit) if unit.kind == "statement" and "import" in unit.text else None
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(small, (cst.Import, cst.ImportFrom)) for small in node.body
    )


def _name_behind(names: Sequence[cst.ImportAlias], name: str) -> cst.ImportAlias | None:
    """The imported name in front of which isort would put another; None for the end, and where they are not sorted."""
    keys = [_import_order(dotted(each.name) or "") for each in names]
    if keys != sorted(keys):
        return None
    return next((each for each, key in zip(names, keys, strict=True) if key > _import_order(name)), None)


def _import_order(name: str) -> tuple[int, str]:
    """Constants, classes and all else, as isort sorts the names of one import."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name.lower()


def _import_from(unit: Unit) -> cst.ImportFrom | None:
    node = parsed(unit)
    assert isinstance(node, cst.SimpleStatementLine)
    small = node.body[0]
    plain = isinstance(small, cst.ImportFrom) and len(node.body) == 1 and not small.relative
    return small if plain and isinstance(small, cst.ImportFrom) else None


def _from_module(unit: Unit) -> str | None:
    found = _import_from(unit)
    return dotted(found.module) if found is not None and found.module is not None else None


def _top_package(unit: Unit) -> str | None:
    module = _from_module(unit)
    if module is None:
        node = parsed(unit)
        assert isinstance(node, cst.SimpleStatementLine)
        small = node.body[0]
        if isinstance(small, cst.Import):
            module = dotted(small.names[0].name)
    return module.partition(".")[0] if module is not None else None


def _unit_statement(unit: Unit) -> At:
    node = parsed(unit)
    assert node is not None
    return At(unit, node)


__all__ = ["CallAt", "CodeView", "EditBuilder", "Expression", "Key", "MethodAt", "NoFix", "OperationAt", "Place"]
