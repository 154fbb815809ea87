"""Operators without a quantized kernel, rewritten: a FloatFunctional, a module twin, the way through float.

``Rewriting`` writes an expression anew from the inside out. What it can do with an operator is decided before
anything is edited: ``NoFix`` at any operator means that the rewrite is not offered.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Fix, Message, NoFix
from qlsp.ops.spec import Role
from qlsp.rules._causes import cause_of
from qlsp.rules._kernels import native
from qlsp.rules._operands import Emit, Kind, span_of
from qlsp.rules._rewrites import consumers, dequant_stub, doubt_the_class, uses
from qlsp.rules._sums import FREED, kept, lone_relu, named_in_a_string, summed
from qlsp.rules._through_float import ThroughFloat

if TYPE_CHECKING:
    from qlsp.syntax.edits import Key


@dataclass
class Rewriting(ThroughFloat):
    """One expression on its way to quantized kernels; ``with_relu`` takes the ReLU behind an addition into it,
    ``freed`` says that a ReLU module with other uses lost this one."""

    with_relu: bool = True
    freed: bool = False

    def fix(self) -> Fix:
        """The fix of the whole expression, and of others that begin on its line."""
        roots = [self.root, *self._companions()]
        for root, emit in [(root, self.plan(root)) for root in roots]:
            self._write(root, emit())
        doubt_the_class(self.edit, self.method, self.doubts)
        title = next(title for ways, title in _TITLES if self.ways <= ways)
        fix = self.doubts.fix(self.edit, Message.of(title), Message.of("fix-op-reason"))
        return replace(fix, reveals=(*fix.reveals, *FREED)) if self.freed else fix

    def before_dequant(self) -> Fix:
        """``dequant(op(a))`` becomes ``op(dequant(a))``: no new module, the operator runs in float."""
        outer = self.consumer(self.root)
        if outer is None or outer.spec.role is not Role.DEQUANTIZE or outer.owner is None:
            raise NoFix("the result is not dequantized at once")
        if any(other.spec.role is not Role.DEQUANTIZE for _, other in uses(self.ctx, outer.span)):
            raise NoFix("another call in another context")
        function = self.edit.text(self.edit.call(outer.span).function)
        self.check(self.root)
        text = self.in_float(self.root, function)
        self.edit.replace(self.edit.expression(outer.span).place, text)
        return self.doubts.fix(self.edit, Message.of("fix-op-behind"), Message.of("fix-op-behind-reason"))

    def bring_out(self) -> Fix:
        """The quantized operands are dequantized, as the others are: the result stays in float."""
        call = self.root
        for facts, use in uses(self.ctx, call.span):
            if any(consumer.converted and consumer.spec.on_float for consumer in consumers(facts, use)):
                raise NoFix("the result goes into a quantized module")
        self.check(call)
        self._operands(call)
        dequant = f"{self.method.receiver}.{dequant_stub(self.ctx, self.edit, call)}"
        self._replace(call, self.in_float(call, dequant))
        self.doubts.add(Message.of("fix-mix-out-reason"))
        return self.doubts.fix(self.edit, Message.of("fix-mix-out"), Message.of("fix-mix-out-reason"))

    def functional_operands(self) -> Fix:
        """A call of a FloatFunctional with a stub for every float operand, or by its method for numbers."""
        call = self.root
        self.check(call)
        site = self.edit.call(call.span)
        if site.spelling is None or not site.spelling.startswith(f"{self.method.receiver}."):
            raise NoFix("the FloatFunctional of another object")
        if any(argument.star for argument in site.arguments):
            raise NoFix("arguments that are not shown")
        keys = self.edit.operation(call.span).operands
        members = [key.key for key in keys if key.keyword in (None, "x", "y")]
        if call.spec.sequence is not None and members:
            listed = self.edit.listed(members[0])
            if listed is None:
                raise NoFix("a list that is not written out")
            members = listed
        kinds = {key: self.kind(call, key) for key in members}
        if Kind.NUMBER in kinds.values():
            return self._by_number(call, members, kinds)
        emits = [(key, self.stubbed(call, key, self.text(key))) for key in members if kinds[key] is Kind.FLOAT]
        for key, emit in emits:
            self.edit.replace(self.edit.expression(key).place, emit())
        doubt_the_class(self.edit, self.method, self.doubts)
        return self.doubts.fix(self.edit, Message.of("fix-mix-stub"), Message.of("fix-mix-reason"))

    def _by_number(self, call: OpCall, members: list[Key], kinds: Mapping[Key, Kind]) -> Fix:
        """``ff.add(x, 2.0)`` becomes ``ff.add_scalar(x, 2.0)``."""
        order = [kinds[key] for key in members]
        if call.spec.op not in ("add", "mul") or sorted(kind.value for kind in order) != ["number", "quantized"]:
            raise NoFix("no method for numbers")
        if len(self.edit.call(call.span).arguments) != 2 or self.edit.call(call.span).argument(0) is None:
            raise NoFix("arguments by keyword")
        function = self.edit.call(call.span).function
        self.edit.replace(function, f"{self.edit.text(function)}_scalar")
        if order[0] is Kind.NUMBER:
            one, other = (self.edit.expression(key) for key in members)
            self.edit.replace(one.place, other.text)
            self.edit.replace(other.place, one.text)
        return self.doubts.fix(self.edit, Message.of("fix-mix-number"), Message.of("fix-mix-number-reason"))

    def _write(self, root: OpCall, text: str) -> None:
        """Replace an expression; a ReLU that takes all of an addition becomes part of it."""
        added = _ADDITION.sub(r"\1.add_relu(", text)
        relu = self._relu_behind(root) if self.with_relu and added != text else None
        if relu is None:
            self._replace(root, text)
            return
        attribute = self.edit.receiver_attribute(relu.span) if relu.owner is not None else None
        if relu.alternatives[0].operands[0].span == root.span:
            place = self.edit.expression(relu.span).place
            if comments(self.edit.text(place)) - comments(added):
                raise NoFix("a comment would go")
            self.edit.replace(place, added)
        else:
            operand = summed(self.ctx, self.edit, root, relu.span)
            self._replace(root, added)
            self.edit.take_operand(relu.span, operand)
        if attribute is not None and not self.edit.remove_submodule(self.method.cls, attribute):
            self.freed = True

    def _relu_behind(self, root: OpCall) -> OpCall | None:
        """The ReLU behind a sum; a module only if no string names it, as a list of modules to fuse does."""
        outer = self.consumer(root)
        if outer is not None and outer.spec.op == "relu" and outer.owner is None:
            return outer if root.held is None else None
        relu = lone_relu(self.ctx.facts, root)
        if relu is None or named_in_a_string(self.ctx, self.edit, relu) or kept(self.edit, relu):
            return None
        if root.held is not None and relu.alternatives[0].operands[0].span == root.span:
            return None
        same = all(use.spec.op == "relu" for _, use in uses(self.ctx, relu.span))
        return relu if same and relu.span.path == root.span.path else None

    def _companions(self) -> list[OpCall]:
        """Other expressions with the same mistake on the line, which share the finding."""
        cause = cause_of(self.root)
        covered = {self.root.span, *map(span_of, self.edit.below(self.root.span))}
        found = []
        for span in sorted(self.calls, key=lambda span: span.ordinal):
            if span in covered or span.unit != self.root.span.unit or cause_of(self.calls[span]) is not cause:
                continue
            if self.edit.same_line(span, self.root.span) and self.root.span not in map(span_of, self.edit.below(span)):
                found.append(self.calls[span])
                covered.update((span, *map(span_of, self.edit.below(span))))
        return found

    def _replace(self, root: OpCall, text: str) -> None:
        span = root.span
        if comments(self.edit.text(self.edit.expression_or_statement(span))) - comments(text):
            raise NoFix("a comment would go")
        operation = self.edit.operation(span)
        if operation.augmented:
            target = self.edit.text(self.inner_place(operation.operands[0].key))
            self.edit.replace(operation.place, f"{target} = {text}")
        elif root.held is not None and self.edit.is_statement(span) and operation.receiver is not None:
            target = self.edit.text(self.inner_place(operation.receiver))
            self.edit.replace(operation.place, f"{target} = {text}")
        else:
            expression = self.edit.expression(span)
            whole = self.edit.text(expression.place)
            self.edit.replace(expression.inner if "\n" in whole or "\r" in whole else expression.place, text)

    def plan(self, call: OpCall) -> Emit:
        """How to write an operator: natively if it can be done, else through float."""
        self.check(call)
        doubts, loops, ways = list(self.doubts.reasons), self.loops, set(self.ways)
        try:
            return native(self, call)
        except NoFix:
            self.doubts.reasons, self.loops, self.ways = doubts, loops, ways
            return self.island(call)


_ADDITION = re.compile(r"^([\w.]+)\.add\(")
"""The beginning of an addition by a FloatFunctional."""

_TITLES: tuple[tuple[set[str], str], ...] = (
    ({"functional"}, "fix-op-functional"),
    ({"module"}, "fix-op-module"),
    ({"functional", "module"}, "fix-op-quantized"),
    ({"float"}, "fix-op-through-float"),
    ({"functional", "module", "float"}, "fix-op-partly-float"),
)


def comments(text: str) -> Counter[str]:
    """The comments in the text of an expression."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({text})").readline))
    except (tokenize.TokenError, SyntaxError):
        return Counter()
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)
