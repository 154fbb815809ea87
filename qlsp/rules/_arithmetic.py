"""Operators without a quantized kernel, rewritten: a FloatFunctional, a module twin, the way through float.

``Rewriting`` writes an expression anew from the inside out. What it can do with an operator is decided before
anything is edited: ``NoFix`` at any operator means that the rewrite is not offered.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Fix, Message, NoFix
from qlsp.ops.spec import Observation, Role, Shape
from qlsp.rules._boundary import leaves_the_model
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._rewrites import (
    FLOAT_FUNCTIONAL,
    QUANT_STUB,
    Doubts,
    consumers,
    dequant_stub,
    doubt_the_class,
    one_for_each_pass,
    require_converted_receiver,
    require_eager,
    require_one_call,
    uses,
)
from qlsp.rules.api import RuleContext
from qlsp.values.value import A_NUMBER, Domain, SpanId, Unknown

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder, Key, Place

Emit = Callable[[], str]


@dataclass(frozen=True)
class Twin:
    """A module without parameters that computes what a function does and has a quantized class.

    ``constructor`` are the parameters of the function that it takes when it is built, ``always`` what it needs
    besides.
    """

    module: str
    constructor: tuple[str, ...] = ()
    always: str = ""


TWINS: Mapping[str, Twin] = {
    "hardswish": Twin("torch.nn.Hardswish"),
    "elu": Twin("torch.nn.ELU", ("alpha",)),
    "layer_norm": Twin("torch.nn.LayerNorm", ("normalized_shape", "eps"), "elementwise_affine=False"),
}
"""By operator; measured with torch 2.13: the float output is the same to the bit."""

DIRECT = {"add": "add", "mul": "mul", "matmul": "matmul", "bmm": "matmul", "mm": "matmul"}
"""Operators that are one method of a FloatFunctional."""

_INSTEAD = {
    "sub": "ff.add(a, ff.mul_scalar(b, -1.0))",
    "rsub": "ff.add(b, ff.mul_scalar(a, -1.0))",
    "neg": "ff.mul_scalar(a, -1.0)",
    "square": "ff.mul(a, a)",
    "sum_of_list": "ff.add(a, b)",
    "silu": "ff.mul(a, torch.sigmoid(a))",
    "abs": "ff.add(torch.relu(a), torch.relu(ff.mul_scalar(a, -1.0)))",
}
_WITH_NUMBER = {
    "add": "ff.add_scalar(a, number)",
    "sub": "ff.add_scalar(a, -number)",
    "mul": "ff.mul_scalar(a, number)",
    "div": "ff.mul_scalar(a, 1 / number)",
    "pow": "ff.mul(a, a)",
}


def advice(call: OpCall) -> tuple[str, dict[str, str]]:
    """The id of the message that says what to write instead, and its parameters."""
    op = call.spec.op
    if op in TWINS:
        return "float-op-twin", {"module": TWINS[op].module.replace("torch.nn", "nn")}
    if call.spec.observation is Observation.NONE:
        return "float-op-result", {}
    single = len(call.alternatives[0].operands) == 1
    if single and op in _WITH_NUMBER:
        return "float-op-on-quantized", {"instead": _WITH_NUMBER[op]}
    if op in DIRECT:
        return "float-op-on-quantized", {"instead": f"ff.{DIRECT[op]}(a, b)"}
    if op in _INSTEAD:
        return "float-op-on-quantized", {"instead": _INSTEAD[op]}
    return "float-op-island", {}


class Kind(Enum):
    """What an operand is in every context of the run."""

    QUANTIZED = "quantized"
    FLOAT = "float"
    NUMBER = "number"


@dataclass
class Rewriting:
    """One expression on its way to quantized kernels."""

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

    # --- entry ----------------------------------------------------------------------------------------

    def fix(self) -> Fix:
        """The fix of the whole expression, and of others that begin on its line."""
        roots = [self.root, *self._companions()]
        for root, emit in [(root, self.plan(root)) for root in roots]:
            self._replace_with_relu(root, emit())
        doubt_the_class(self.edit, self.method, self.doubts)
        title = next(title for ways, title in _TITLES if self.ways <= ways)
        return self.doubts.fix(self.edit, Message.of(title), Message.of("fix-op-reason"))

    def before_dequant(self) -> Fix:
        """``dequant(op(a))`` becomes ``op(dequant(a))``: no new module, the operator runs in float."""
        outer = self._consumer(self.root)
        if outer is None or outer.spec.role is not Role.DEQUANTIZE or outer.owner is None:
            raise NoFix("the result is not dequantized at once")
        if any(other.spec.role is not Role.DEQUANTIZE for _, other in uses(self.ctx, outer.span)):
            raise NoFix("another call in another context")
        function = self.edit.text(self.edit.call(outer.span).function)
        self._check(self.root)
        text = self.in_float(self.root, function)
        self.edit.replace(self.edit.expression(outer.span).place, text)
        return self.doubts.fix(self.edit, Message.of("fix-op-behind"), Message.of("fix-op-behind-reason"))

    def bring_out(self) -> Fix:
        """The quantized operands are dequantized, as the others are: the result stays in float."""
        call = self.root
        for facts, use in uses(self.ctx, call.span):
            if any(consumer.converted and consumer.spec.on_float for consumer in consumers(facts, use)):
                raise NoFix("the result goes into a quantized module")
        self._check(call)
        self._operands(call)
        dequant = f"{self.method.receiver}.{dequant_stub(self.ctx, self.edit, call)}"
        self._replace(call, self.in_float(call, dequant))
        self.doubts.add(Message.of("fix-mix-out-reason"))
        return self.doubts.fix(self.edit, Message.of("fix-mix-out"), Message.of("fix-mix-out-reason"))

    def functional_operands(self) -> Fix:
        """A call of a FloatFunctional with a stub for every float operand, or by its method for numbers."""
        call = self.root
        self._check(call)
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
        emits = [(key, self._stubbed(call, key, self.text(key))) for key in members if kinds[key] is Kind.FLOAT]
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

    def _replace_with_relu(self, root: OpCall, text: str) -> None:
        """Replace an expression; a ReLU function around an addition is part of it."""
        outer = self._consumer(root)
        added = re.sub(rf"^({self.method.receiver}\.\w+)\.add\(", r"\1.add_relu(", text)
        function = outer is not None and outer.spec.op == "relu" and outer.owner is None
        if outer is None or not function or added == text or root.held is not None:
            self._replace(root, text)
            return
        place = self.edit.expression(outer.span).place
        if comments(self.edit.text(place)) - comments(added):
            raise NoFix("a comment would go")
        self.edit.replace(place, added)

    def _companions(self) -> list[OpCall]:
        """Other expressions with the same mistake on the line, which share the finding."""
        cause = cause_of(self.root)
        covered = {self.root.span, *map(_span, self.edit.below(self.root.span))}
        found = []
        for span in sorted(self.calls, key=lambda span: span.ordinal):
            if span in covered or span.unit != self.root.span.unit or cause_of(self.calls[span]) is not cause:
                continue
            if self.edit.same_line(span, self.root.span) and self.root.span not in map(_span, self.edit.below(span)):
                found.append(self.calls[span])
                covered.update((span, *map(_span, self.edit.below(span))))
        return found

    def _replace(self, root: OpCall, text: str) -> None:
        span = root.span
        if comments(self.edit.text(self.edit.expression_or_statement(span))) - comments(text):
            raise NoFix("a comment would go")
        operation = self.edit.operation(span)
        if operation.augmented:
            target = self.edit.text(self._place(operation.operands[0].key))
            self.edit.replace(operation.place, f"{target} = {text}")
        elif root.held is not None and self.edit.is_statement(span) and operation.receiver is not None:
            target = self.edit.text(self._place(operation.receiver))
            self.edit.replace(operation.place, f"{target} = {text}")
        else:
            expression = self.edit.expression(span)
            whole = self.edit.text(expression.place)
            self.edit.replace(expression.inner if "\n" in whole or "\r" in whole else expression.place, text)

    def _consumer(self, call: OpCall) -> OpCall | None:
        """The operator whose only argument a call is."""
        outer = self.edit.only_argument_of(call.span)
        return self.ctx.facts.op_calls.get((_span(outer), call.path)) if outer is not None else None

    # --- one operator ---------------------------------------------------------------------------------

    def plan(self, call: OpCall) -> Emit:
        """How to write an operator: natively if it can be done, else through float."""
        self._check(call)
        doubts, loops, ways = list(self.doubts.reasons), self.loops, set(self.ways)
        try:
            return self._native(call)
        except NoFix:
            self.doubts.reasons, self.loops, self.ways = doubts, loops, ways
            return self._island(call)

    def _check(self, call: OpCall) -> None:
        """What every rewrite of a call needs: eager contexts, one receiver that is converted, no alias."""
        require_eager(self.ctx, call.span, self.doubts)
        require_converted_receiver(self.ctx, call.span)
        if call.held:
            raise NoFix("something else may look at the tensor that is changed in place")
        if call.held is not None and self._is_inner(call):
            raise NoFix("an in-place call inside an expression")
        if any(other.held for _, other in uses(self.ctx, call.span)):
            raise NoFix("something else may look at the tensor that is changed in place")

    def _is_inner(self, call: OpCall) -> bool:
        """A call inside the expression of another one that is rewritten."""
        return any(call.span in map(_span, self.edit.below(span)) for span in self.calls if span != call.span)

    def _native(self, call: OpCall) -> Emit:
        op = call.spec.op
        bound = self.bound(call)
        if op in TWINS:
            return self._twin(call, bound)
        handler = _HANDLERS.get(op)
        if handler is None:
            raise NoFix("no quantized kernels for this operator")
        return handler(self, call, bound)

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
                found = [operand.value for operand in alternative.operands if operand.span == _span(key)]
                if not found:
                    kinds.add(Kind.NUMBER)
                for value in found:
                    if isinstance(value, Unknown):
                        if value.reason != A_NUMBER:
                            self.doubts.add(Message.of("fix-doubt-number", text=self.edit.text(self._place(key))))
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

    def _sole_call(self, call: OpCall) -> None:
        """An observer of its own is for one tensor."""
        if self.edit.repeats(call.span):
            self.loops += 1
            if self.loops > 1:
                raise NoFix("several new modules in one loop")
        else:
            require_one_call(self.ctx, call.span)

    # --- texts ----------------------------------------------------------------------------------------

    def _place(self, key: Key) -> Place:
        return self.edit.expression(key).inner

    def text(self, key: Key) -> Emit:
        """An operand with what it contains rewritten; planned now, written when it is called."""
        nested = self._nested(key)
        plans = {span: self.plan(call) for span, call in nested.items()}
        whole = plans.get(_span(key))
        if whole is not None:
            return whole
        expression = self.edit.expression(key)

        def emit() -> str:
            pieces = [(self.edit.expression(span).place, plan()) for span, plan in plans.items()]
            return self.edit.spliced(expression.inner, pieces)

        return emit

    def _nested(self, key: Key) -> dict[SpanId, OpCall]:
        """The outermost calls to rewrite in an expression, by their places."""
        if _span(key) in self.calls:
            return {_span(key): self.calls[_span(key)]}
        found: dict[SpanId, OpCall] = {}
        covered: set[SpanId] = set()
        for each in map(_span, self.edit.below(key)):
            if each in covered or each not in self.calls:
                continue
            found[each] = self.calls[each]
            covered.update(map(_span, self.edit.below(each)))
        return found

    def operand(self, call: OpCall, key: Key) -> Emit:
        """A tensor operand for a quantized kernel: a float one gets a stub of its own."""
        kind = self.kind(call, key)
        inner = self.text(key)
        if kind is Kind.NUMBER:
            raise NoFix("a number where a tensor belongs")
        return inner if kind is Kind.QUANTIZED else self._stubbed(call, key, inner)

    def _stubbed(self, call: OpCall, key: Key, inner: Emit) -> Emit:
        self._sole_call(call)
        name = (self.edit.expression(key).name or "").rpartition(".")[2]
        hint = f"{name}_quant" if name else "quant"
        return lambda: f"{self._new(call, hint, QUANT_STUB)}({inner()})"

    def _new(self, call: OpCall, hint: str, constructor: str, arguments: str = "") -> str:
        """A new submodule for a call, as the method names it."""
        if self.edit.repeats(call.span) and not arguments:
            self.doubts.add(Message.of("fix-doubt-passes"))
            return one_for_each_pass(self.ctx, self.edit, call.span, hint, constructor)
        name = self.edit.add_submodule(call.span, hint, constructor, arguments)
        return f"{self.method.receiver}.{name}"

    def functional(self, call: OpCall, method: str, hint: str, *operands: Emit) -> Emit:
        """A method of a FloatFunctional of its own."""
        self._sole_call(call)
        self.ways.add("functional")
        joint = self._joint(call)

        def emit() -> str:
            texts = [operand() for operand in operands]
            return f"{self._new(call, hint, FLOAT_FUNCTIONAL)}.{method}({joint.join(texts)})"

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

    # --- the way through float ------------------------------------------------------------------------

    def _island(self, call: OpCall) -> Emit:
        """``self.quant(op(self.dequant(a)))``; without the stub where the result is no tensor to quantize, or only
        leaves the model."""
        if call.spec.shape not in (Shape.NEW, Shape.SAME, Shape.VIEW, Shape.INTEGER, Shape.SCALAR):
            raise NoFix("a result of several tensors")
        consumer = self._consumer(call)
        float_result = call.spec.observation is Observation.NONE or leaves_the_model(self.ctx, call)
        stubbed = consumer is not None and consumer.spec.role is Role.QUANTIZE
        self._operands(call)
        if not float_result and not stubbed:
            self._sole_call(call)
        self.doubts.add(Message.of("fix-through-float-reason"))
        self.ways.add("float")
        hint = f"quant_{call.spec.op.strip('_')}"

        def emit() -> str:
            dequant = f"{self.method.receiver}.{dequant_stub(self.ctx, self.edit, call)}"
            text = self.in_float(call, dequant)
            if float_result or stubbed:
                return text
            return f"{self._new(call, hint, QUANT_STUB)}({text})"

        return emit

    def _operands(self, call: OpCall) -> dict[SpanId, Kind]:
        """The tensor operands of a call as they are written, in every context the same; a list that is not written
        out as a whole."""
        found: dict[SpanId, Kind] = {}
        whole = self._whole_list(call)
        for facts, use in uses(self.ctx, call.span):
            for alternative in use.alternatives:
                for operand in alternative.operands:
                    value, span = operand.value, whole if whole is not None else operand.span
                    if span is None:
                        raise NoFix("an operand that is not written out")
                    if isinstance(value, Unknown):
                        continue
                    if value.domain is Domain.UNKNOWN:
                        self.doubts.add(Message.of("fix-doubt-unknown-input", root=facts.context.root))
                    kind = Kind.QUANTIZED if value.domain is Domain.QUANTIZED else Kind.FLOAT
                    if found.setdefault(span, kind) is not kind:
                        raise NoFix("an operand that differs between contexts")
        return found

    def _whole_list(self, call: OpCall) -> SpanId | None:
        """The list argument of a call where it is not written out."""
        if call.spec.sequence is None:
            return None
        bound = self.bound(call)
        if set(bound) != {call.spec.sequence}:
            raise NoFix("more than a list")
        key = bound[call.spec.sequence]
        return _span(key) if self.edit.listed(key) is None else None

    def in_float(self, call: OpCall, dequant: str) -> str:
        """The operator on dequantized operands; operators inside it run in float, too."""
        operation = self.edit.operation(call.span)
        whole = self._whole_list(call)
        pieces: list[tuple[Place, str]] = []
        for span, kind in self._operands(call).items():
            if kind is not Kind.QUANTIZED:
                continue
            expression = self.edit.expression(span)
            if span in self.calls:
                self._check(self.calls[span])
                pieces.append((expression.inner, self.in_float(self.calls[span], dequant)))
            elif span == whole:
                operand = self._inside(span) if expression.atom else f"({self._inside(span)})"
                pieces.append((expression.place, f"[{dequant}(tensor) for tensor in {operand}]"))
            else:
                pieces.append((expression.place, f"{dequant}({self._inside(span)})"))
        if not operation.augmented:
            return self.edit.spliced(operation.place, pieces)
        texts = []
        for side in operation.operands:
            expression = self.edit.expression(side.key)
            written = self.edit.spliced(expression.place, pieces_in(pieces, expression.place))
            texts.append(written if expression.atom or written.startswith(dequant) else f"({written})")
        return f"{texts[0]} {(operation.sign or '').removesuffix('=')} {texts[1]}"

    def _inside(self, span: SpanId) -> str:
        """An operand that stays quantized, with what it contains rewritten."""
        expression = self.edit.expression(span)
        nested = self._nested_below(span)
        pieces = [(self.edit.expression(each).place, self.plan(call)()) for each, call in nested.items()]
        return self.edit.spliced(expression.inner, pieces)

    def _nested_below(self, span: SpanId) -> dict[SpanId, OpCall]:
        found: dict[SpanId, OpCall] = {}
        covered: set[SpanId] = set()
        for each in map(_span, self.edit.below(span)):
            if each not in covered and each in self.calls:
                found[each] = self.calls[each]
                covered.update(map(_span, self.edit.below(each)))
        return found

    # --- operators with quantized kernels ---------------------------------------------------------------

    def number(self, key: Key) -> tuple[str, int | float | None]:
        """A number operand: its text, and its value if it is written out."""
        expression = self.edit.expression(key)
        return expression.text, _literal(expression.text)

    def _twin(self, call: OpCall, bound: Mapping[str, Key]) -> Emit:
        twin = TWINS[call.spec.op]
        if set(bound) - {"input", *twin.constructor}:
            raise NoFix("arguments that the module has not")
        if self.kind(call, bound["input"]) is not Kind.QUANTIZED:
            raise NoFix("a float input")
        texts = []
        for parameter in twin.constructor:
            if parameter in bound:
                text = self.edit.text(self.edit.expression(bound[parameter]).place)
                _require_literal(text)
                texts.append(f"{parameter}={text}")
        if "normalized_shape" in twin.constructor and "normalized_shape" not in bound:
            raise NoFix("no shape")
        arguments = ", ".join([*texts, *([twin.always] if twin.always else [])])
        require_one_call(self.ctx, call.span)
        if self.edit.repeats(call.span):
            raise NoFix("a module for each pass")
        self.ways.add("module")
        inner = self.text(bound["input"])

        def emit() -> str:
            text = inner()
            return f"{self._new(call, call.spec.op, twin.module, arguments)}({text})"

        return emit


def _binary(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    """Addition, subtraction, multiplication, matrix products."""
    op = call.spec.op
    left, right = (bound.get(parameter) for parameter in call.spec.params[:2])
    if left is None or right is None or set(bound) - {*call.spec.params[:2], "alpha"}:
        raise NoFix("arguments that a FloatFunctional has not")
    alpha = _alpha(rewriting, bound)
    if alpha != 1 and op not in ("add", "sub"):
        raise NoFix("an alpha")
    if op == "rsub":
        left, right, op = right, left, "sub"
    kinds = rewriting.kind(call, left), rewriting.kind(call, right)
    if Kind.NUMBER in kinds:
        return _with_number(rewriting, call, op, left, right, alpha, kinds)
    one, other = rewriting.operand(call, left), rewriting.operand(call, right)
    factor = -alpha if op == "sub" else alpha
    if factor != 1:
        other = rewriting.scalar(call, "mul_scalar", "neg" if factor == -1 else "mul", other, _shown(factor))
    return rewriting.functional(call, DIRECT.get(op, "add"), DIRECT.get(op, "sub"), one, other)


def _alpha(rewriting: Rewriting, bound: Mapping[str, Key]) -> int | float:
    """The factor of the second operand: only one that does not round."""
    if "alpha" not in bound:
        return 1
    _, value = rewriting.number(bound["alpha"])
    if value is None or not _power_of_two(value):
        raise NoFix("an alpha for which nothing is the same to the bit")
    return value


def _with_number(
    rewriting: Rewriting,
    call: OpCall,
    op: str,
    left: Key,
    right: Key,
    alpha: int | float,
    kinds: tuple[Kind, Kind],
) -> Emit:
    """A tensor and a number."""
    if kinds == (Kind.NUMBER, Kind.NUMBER) or alpha != 1 or op not in ("add", "sub", "mul"):
        raise NoFix("a number where a tensor belongs")
    first = kinds[0] is not Kind.NUMBER
    tensor = rewriting.operand(call, left if first else right)
    text, value = rewriting.number(right if first else left)
    if op == "mul":
        return rewriting.scalar(call, "mul_scalar", "mul", tensor, text)
    if op == "add":
        return rewriting.scalar(call, "add_scalar", "add", tensor, text)
    if first:
        return rewriting.scalar(call, "add_scalar", "sub", tensor, _negated(text, value))
    negative = rewriting.scalar(call, "mul_scalar", "neg", tensor, "-1.0")
    return rewriting.scalar(call, "add_scalar", "add", negative, text)


def _division(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    left, right = bound.get("input"), bound.get("other")
    if left is None or right is None or len(bound) > 2 or rewriting.kind(call, right) is not Kind.NUMBER:
        raise NoFix("no division by a number")
    text, value = rewriting.number(right)
    tensor = rewriting.operand(call, left)
    if value is not None and _power_of_two(value):
        return rewriting.scalar(call, "mul_scalar", "div", tensor, repr(float(1 / Fraction(value))))
    if value == 0:
        raise NoFix("a division by zero")
    rewriting.doubts.add(Message.of("fix-doubt-rounding"))
    expression = rewriting.edit.expression(right)
    return rewriting.scalar(call, "mul_scalar", "div", tensor, f"1 / {expression.operand if value is None else text}")


def _negative(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    return rewriting.scalar(call, "mul_scalar", "neg", _only(rewriting, call, bound), "-1.0")


def _only(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    """The only operand, quantized everywhere."""
    if set(bound) != {"input"} or rewriting.kind(call, bound["input"]) is not Kind.QUANTIZED:
        raise NoFix("other than one quantized operand")
    return rewriting.text(bound["input"])


def _repeated(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> str:
    """The only operand, if it can be written twice: a name."""
    if set(bound) != {"input"} or rewriting.kind(call, bound["input"]) is not Kind.QUANTIZED:
        raise NoFix("other than one quantized operand")
    name = rewriting.edit.expression(bound["input"]).name
    if name is None:
        raise NoFix("an operand that would be computed twice")
    return name


def _power(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    exponent = bound.get("exponent")
    if exponent is None or set(bound) != {"input", "exponent"} or rewriting.number(exponent)[1] != 2:
        raise NoFix("no square")
    return _square(rewriting, call, {"input": bound["input"]})


def _square(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    name = _repeated(rewriting, call, bound)
    return rewriting.functional(call, "mul", "mul", lambda: name, lambda: name)


def _sigmoid_times(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    name = _repeated(rewriting, call, bound)
    rewriting.doubts.add(Message.of("fix-doubt-rounding"))
    return rewriting.functional(call, "mul", "mul", lambda: name, lambda: f"{name}.sigmoid()")


def _absolute(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    name = _repeated(rewriting, call, bound)
    rewriting.doubts.add(Message.of("fix-doubt-two-ways"))
    negative = rewriting.scalar(call, "mul_scalar", "neg", lambda: name, "-1.0")
    return rewriting.functional(call, "add", "add", lambda: f"{name}.relu()", lambda: f"{negative()}.relu()")


def _sum(rewriting: Rewriting, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    members = rewriting.edit.listed(bound["iterable"]) if set(bound) == {"iterable"} else None
    if members is None or len(members) < 2:
        raise NoFix("a sum that is not written out")
    if rewriting.edit.repeats(call.span) and len(members) > 2:
        raise NoFix("several new modules in one loop")
    total, *rest = [rewriting.operand(call, member) for member in members]
    for each in rest:
        total = rewriting.functional(call, "add", "add", total, each)
    return total


_HANDLERS: Mapping[str, Callable[[Rewriting, OpCall, Mapping[str, Key]], Emit]] = {
    **dict.fromkeys((*DIRECT, "sub", "rsub"), _binary),
    "div": _division,
    "neg": _negative,
    "pow": _power,
    "square": _square,
    "silu": _sigmoid_times,
    "abs": _absolute,
    "sum_of_list": _sum,
}


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


def pieces_in(pieces: list[tuple[Place, str]], place: Place) -> list[tuple[Place, str]]:
    """The pieces that lie in a place."""
    return [each for each in pieces if place.span.start <= each[0].span.start and each[0].span.end <= place.span.end]


def _span(key: Key) -> SpanId:
    return SpanId(key.path, key.unit, key.ordinal)


def _literal(text: str) -> int | float | None:
    """The value of a number that is written out, with its sign."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _require_literal(text: str) -> None:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise NoFix("an argument that is computed") from None


def _power_of_two(value: int | float) -> bool:
    """A factor that no multiplication rounds, except at the limits of the format."""
    if value == 0 or abs(value) > 2**60 or abs(value) < 2**-60:
        return False
    fraction = abs(Fraction(value))
    top, bottom = fraction.numerator, fraction.denominator
    return top & (top - 1) == 0 and bottom & (bottom - 1) == 0


def _shown(value: int | float) -> str:
    return repr(float(value))


def _negated(text: str, value: int | float | None) -> str:
    if value is not None:
        return text[1:].strip() if text.startswith("-") else f"-{text}"
    return f"-{text}" if re.fullmatch(r"[\w.]+", text) else f"-({text})"


__all__ = ["DIRECT", "TWINS", "Rewriting", "advice"]
