"""Calls that get other arguments, or give way to one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from qlsp.diagnostics import NoFix
from qlsp.syntax.edits.parts import CallAt, Expression
from qlsp.syntax.edits.statements import Statements
from qlsp.syntax.view import At, NodeKey
from qlsp.text import Place, Span

_OPENERS = (cst.Assign, cst.AnnAssign, cst.Return, cst.Arg, cst.Element, cst.Expr, cst.NamedExpr)


@dataclass
class Calls(Statements):
    """Edits of calls."""

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
