"""The core of an edit builder: slices of the source, the edits so far, and the fix they make."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import libcst as cst

from qlsp.diagnostics import Applicability, Fix, Message, NoFix
from qlsp.syntax.edits.parts import ArgumentAt, CallAt, Expression, Target
from qlsp.syntax.names import dotted
from qlsp.syntax.view import At, ClassAt, CodeView, Family, MethodAt, NodeKey
from qlsp.text import Edit, Place, Span

_ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp,
    cst.SetComp, cst.SimpleString, cst.FormattedString,
)  # fmt: skip


@dataclass
class Slices:
    """Text by place, and replacements of it."""

    view: CodeView
    _edits: list[Edit] = field(default_factory=list)

    # --- questions ------------------------------------------------------------------------------------

    def place(self, target: Target) -> Place:
        """Where a node stands."""
        return self._place(target)

    def part(self, place: Place, start: int, end: int) -> Place:
        """A part of a place, by offsets in its text."""
        begin = place.span.start
        return Place(place.path, Span(begin + start, begin + end, place.span.segment))

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

    def qualified(self, path: str, name: str | None) -> str | None:
        """What an imported dotted name of a file stands for."""
        return self.view.qualified(path, name)

    def found(self, pattern: re.Pattern[str]) -> list[str]:
        """What a pattern's group stands for in the files in view, each text once."""
        files = self.view.by_path.values()
        texts = [unit.text for file in files for unit in file.syntax.units]
        return list(dict.fromkeys(match[1] for text in texts for match in pattern.finditer(text)))

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """True if a text stands somewhere in the files in view."""
        return self.view.matches(pattern)

    def file_matches(self, path: str, pattern: re.Pattern[str]) -> bool:
        """True if a text stands in one chunk of a file."""
        return any(pattern.search(unit.text) for unit in self.view.file(path).syntax.units)

    def chunk_matches(self, key: NodeKey, pattern: re.Pattern[str]) -> bool:
        """True if a text stands in the function, method or statement around a node."""
        return pattern.search(self.view.at(key).unit.text) is not None

    def shown_before(self, key: NodeKey, pattern: re.Pattern[str]) -> bool:
        """True if a text stands above a node in the function, method or script around it."""
        at = self.view.at(key)
        function = self.view.function(at)
        start = function.span.start if function is not None else 0
        return pattern.search(self._source(key.path, at.span.segment)[start : at.span.start]) is not None

    def shown_after(self, key: NodeKey, pattern: re.Pattern[str]) -> bool:
        """True if a text stands below the statement around a node, in its function or script."""
        at = self.view.at(key)
        function = self.view.function(at)
        end = function.span.end if function is not None else None
        source = self._source(key.path, at.span.segment)
        return pattern.search(source[self.view.statement(at).span.end : end]) is not None

    def statement_matches(self, key: NodeKey, pattern: re.Pattern[str]) -> bool:
        """True if the statement around a node has a text."""
        return pattern.search(self.view.statement(self.view.at(key)).text) is not None

    def loads_prepared(self, path: str) -> bool:
        """True if some function or script, in a file or one that imports connect with it, loads a checkpoint into a
        model that it prepared before."""
        view = self.view
        return view.matches(_LOADS_PREPARED, path) or view.scripts_match(_LOADS_PREPARED, "load_state_dict", path)

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

    # --- the result -----------------------------------------------------------------------------------

    def fix(
        self, title: Message, reason: Message, applicability: Applicability, reveals: tuple[str, ...] = ()
    ) -> Fix:
        """The fix with all edits so far, in order."""
        ordered = merged(self._edits)
        if not ordered:
            raise NoFix("nothing to edit")
        return Fix(title, applicability, reason, ordered, reveals=reveals)

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


_LOADS_PREPARED = re.compile(r"\bprepare\w*\s*\(.*?\bload_state_dict\s*\(", re.S)


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
