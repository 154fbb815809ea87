"""Statements that are put in, taken out and moved."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from qlsp.diagnostics import NoFix
from qlsp.syntax.edits.slices import Slices
from qlsp.syntax.view import At, NodeKey
from qlsp.text import Place, Span


@dataclass
class Statements(Slices):
    """Edits of whole lines."""

    _deleted: list[At] = field(default_factory=list)

    def line_of(self, key: NodeKey) -> str:
        """The text of the statement around a node."""
        return self.view.statement(self.view.at(key)).text

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
        self._move(key, before, behind=False)

    def move_behind(self, key: NodeKey, other: NodeKey) -> None:
        """Take a statement out and put its lines behind another statement of the same block."""
        self._move(key, other, behind=True)

    def _move(self, key: NodeKey, to: NodeKey, behind: bool) -> None:
        statement, other = (self.view.statement(self.view.at(each)) for each in (key, to))
        if self.view.parent(statement) is not self.view.parent(other):
            raise NoFix("statements of different blocks")
        start, end = self._lines(statement)
        target = self._lines(other)[behind]
        source = self._source(statement.unit.path, statement.span.segment)
        lines = source[start:end]
        if not lines.endswith(("\n", "\r")):
            lines += self._newline(statement)
        if behind and not source[:target].endswith(("\n", "\r")):
            raise NoFix("a last line without an end")
        self.insert(other.unit.path, target, lines, other.span.segment)
        self.replace(Place(statement.unit.path, Span(start, end, statement.span.segment)), "")

    def wrap_statement(self, key: NodeKey, before: str, after: str) -> None:
        """Put text before and behind a statement, on its own lines: ``m = `` before ``prepare(m)``."""
        statement = self.view.statement(self.view.at(key))
        self.wrap(statement.place, before, after)

    def bind_call(self, key: NodeKey, name: str) -> None:
        """Make a call that is a statement, or the value of an assignment, set this name."""
        at = self.view.at(key)
        statement = self.view.statement(at)
        small = statement.node.body[0] if isinstance(statement.node, cst.SimpleStatementLine) else None
        if not isinstance(small, (cst.Expr, cst.Assign, cst.AnnAssign)) or small.value is not at.node:
            raise NoFix("a call inside an expression")
        start, end = statement.span.start, self._expression(at).place.span.start
        self.replace(Place(at.unit.path, Span(start, end, at.span.segment)), f"{name} = ")

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
