"""The operands of an expression that is written anew, in every context of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Message, NoFix
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._numbers import literal
from qlsp.rules._rewrites import (
    FLOAT_FUNCTIONAL,
    QUANT_STUB,
    Doubts,
    doubt_one_call,
    one_for_each_pass,
    require_converted_receiver,
    require_eager,
    runs_known_passes,
    uses,
)
from qlsp.rules.api import RuleContext
from qlsp.values.value import A_NUMBER, Domain, SpanId, Unknown

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder, Key, Place

Emit = Callable[[], str]


class Kind(Enum):
    """What an operand is in every context of the run."""

    QUANTIZED = "quantized"
    FLOAT = "float"
    NUMBER = "number"


@dataclass
class Operands:
    """One expression that is written anew: what its operators get, and the text of their operands.

    ``calls`` are the operators of the method that raise, by their places; ``ways`` says what was used for them.
    """

    ctx: RuleContext
    edit: EditBuilder
    root: OpCall
    doubts: Doubts = field(default_factory=Doubts)
    loops: int = 0
    ways: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.method = self.edit.method(self.root.span)
        wanted = (Cause.FLOAT_OP, Cause.MIX)
        self.calls = {
            span: call
            for (span, path), call in self.ctx.facts.op_calls.items()
            if path == self.root.path and call.alternatives and call.owner is None and cause_of(call) in wanted
        }

    def plan(self, call: OpCall) -> Emit:
        """How to write an operator."""
        raise NotImplementedError

    def consumer(self, call: OpCall) -> OpCall | None:
        """The operator whose only argument a call is."""
        outer = self.edit.only_argument_of(call.span)
        return self.ctx.facts.op_calls.get((span_of(outer), call.path)) if outer is not None else None

    def check(self, call: OpCall) -> None:
        """What every rewrite of a call needs: eager contexts, one receiver that is converted, no alias."""
        require_eager(self.ctx, call.span, self.doubts)
        require_converted_receiver(self.ctx, self.edit, call.span)
        if call.held:
            raise NoFix("something else may look at the tensor that is changed in place")
        if call.held is not None and self._is_inner(call):
            raise NoFix("an in-place call inside an expression")
        if any(other.held for _, other in uses(self.ctx, call.span)):
            raise NoFix("something else may look at the tensor that is changed in place")

    def _is_inner(self, call: OpCall) -> bool:
        """A call inside the expression of another one that is rewritten."""
        return any(call.span in map(span_of, self.edit.below(span)) for span in self.calls if span != call.span)

    def bound(self, call: OpCall) -> dict[str, Key]:
        """The operands of a call by the parameters of its row."""
        operation = self.edit.operation(call.span)
        params = call.spec.params
        found: dict[str, Key] = {}
        keys: list[Key] = []
        if operation.sign is None:
            qualified = self.edit.qualified(call.span.path, operation.name)
            builtin = f"builtins.{operation.name}" in call.spec.functions and qualified is None
            if qualified not in call.spec.functions and not builtin:
                if operation.method not in call.spec.methods or operation.receiver is None:
                    raise NoFix("the operator goes by another name")
                keys.append(operation.receiver)
        keys.extend(operand.key for operand in operation.operands if operand.position is not None)
        if len(keys) > len(params):
            raise NoFix("more arguments than the row knows")
        found.update(zip(params, keys, strict=False))
        found.update((operand.keyword, operand.key) for operand in operation.operands if operand.keyword is not None)
        return found

    def kind(self, call: OpCall, key: Key) -> Kind:
        """What an operand is; ``NoFix`` where the contexts differ, a doubt where one does not know."""
        kinds: set[Kind] = set()
        for facts, use in uses(self.ctx, call.span):
            for alternative in use.alternatives:
                found = [operand.value for operand in alternative.operands if operand.span == span_of(key)]
                if not found:
                    kinds.add(Kind.NUMBER)
                for value in found:
                    if isinstance(value, Unknown):
                        if value.reason != A_NUMBER:
                            self.doubts.add(Message.of("fix-doubt-number", text=self.edit.text(self.inner_place(key))))
                        kinds.add(Kind.NUMBER)
                    elif value.domain is Domain.QUANTIZED:
                        kinds.add(Kind.QUANTIZED)
                    elif value.domain is Domain.FLOAT:
                        if value.dequantized:
                            self.doubts.add(Message.of("fix-doubt-again"))
                        kinds.add(Kind.FLOAT)
                    elif value.domain is Domain.UNKNOWN:
                        self.doubts.add(Message.of("fix-doubt-unknown-input", root=facts.context.root))
                    else:
                        raise NoFix("an integer tensor")
        if len(kinds) != 1:
            raise NoFix("an operand that differs between contexts")
        return kinds.pop()

    def sole_call(self, call: OpCall) -> None:
        """An observer of its own is for one tensor; where one object makes the call several times it is shared."""
        if runs_known_passes(self.ctx, self.edit, call.span):
            self.loops += 1
            if self.loops > 1:
                raise NoFix("several new modules in one loop")
        else:
            doubt_one_call(self.ctx, call.span, self.doubts)

    def inner_place(self, key: Key) -> Place:
        """The place of an expression without its own parentheses."""
        return self.edit.expression(key).inner

    def text(self, key: Key) -> Emit:
        """An operand with what it contains rewritten; planned now, written when it is called."""
        nested = self.nested(key)
        plans = {span: self.plan(call) for span, call in nested.items()}
        whole = plans.get(span_of(key))
        if whole is not None:
            return whole
        expression = self.edit.expression(key)

        def emit() -> str:
            pieces = [(self.edit.expression(span).place, plan()) for span, plan in plans.items()]
            return self.edit.spliced(expression.inner, pieces)

        return emit

    def nested(self, key: Key) -> dict[SpanId, OpCall]:
        """The outermost calls to rewrite in an expression, by their places."""
        if span_of(key) in self.calls:
            return {span_of(key): self.calls[span_of(key)]}
        found: dict[SpanId, OpCall] = {}
        covered: set[SpanId] = set()
        for each in map(span_of, self.edit.below(key)):
            if each in covered or each not in self.calls:
                continue
            found[each] = self.calls[each]
            covered.update(map(span_of, self.edit.below(each)))
        return found

    def operand(self, call: OpCall, key: Key) -> Emit:
        """A tensor operand for a quantized kernel: a float one gets a stub of its own."""
        kind = self.kind(call, key)
        inner = self.text(key)
        if kind is Kind.NUMBER:
            raise NoFix("a number where a tensor belongs")
        return inner if kind is Kind.QUANTIZED else self.stubbed(call, key, inner)

    def stubbed(self, call: OpCall, key: Key, inner: Emit) -> Emit:
        """A float operand behind a new stub."""
        self.sole_call(call)
        name = (self.edit.expression(key).name or "").rpartition(".")[2]
        hint = f"{name}_quant" if name else "quant"
        return lambda: f"{self.new(call, hint, QUANT_STUB)}({inner()})"

    def new(self, call: OpCall, hint: str, constructor: str, arguments: str = "") -> str:
        """A new submodule for a call, as the method names it."""
        if not arguments and runs_known_passes(self.ctx, self.edit, call.span):
            self.doubts.add(Message.of("fix-doubt-passes"))
            return one_for_each_pass(self.ctx, self.edit, call.span, hint, constructor)
        name = self.edit.add_submodule(call.span, hint, constructor, arguments)
        return f"{self.method.receiver}.{name}"

    def functional(self, call: OpCall, method: str, hint: str, *operands: Emit) -> Emit:
        """A method of a FloatFunctional of its own."""
        self.sole_call(call)
        self.ways.add("functional")
        joint = self._joint(call)

        def emit() -> str:
            texts = [operand() for operand in operands]
            return f"{self.new(call, hint, FLOAT_FUNCTIONAL)}.{method}({joint.join(texts)})"

        return emit

    def _joint(self, call: OpCall) -> str:
        """What stands between two operands: a comma, and the line breaks and comments that stood there."""
        operation = self.edit.operation(call.span)
        if operation.sign is None or len(operation.operands) != 2:
            return ", "
        left, right = (self.edit.expression(operand.key).place for operand in operation.operands)
        between = self.edit.between(left, right)
        if "\n" not in between and "\r" not in between:
            return ", "
        before, _, after = between.rpartition(operation.sign) if "#" in between else (between, "", "")
        return f"{before},{after}" if after else ", "

    def scalar(self, call: OpCall, method: str, hint: str, tensor: Emit, number: str) -> Emit:
        """``add_scalar`` or ``mul_scalar``: no observer, so one object may do for many calls."""
        self.ways.add("functional")

        def emit() -> str:
            text = tensor()
            name = self.edit.add_submodule(call.span, hint, FLOAT_FUNCTIONAL)
            return f"{self.method.receiver}.{name}.{method}({text}, {number})"

        return emit

    def number(self, key: Key) -> tuple[str, int | float | None]:
        """A number operand: its text, and its value if it is written out."""
        expression = self.edit.expression(key)
        return expression.text, literal(expression.text)


def span_of(key: Key) -> SpanId:
    """The span id of a node."""
    return SpanId(key.path, key.unit, key.ordinal)
