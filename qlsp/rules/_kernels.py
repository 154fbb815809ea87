"""Operators written with quantized kernels: the methods of a FloatFunctional, and modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Message, NoFix
from qlsp.rules._numbers import negated, power_of_two, require_literal, shown
from qlsp.rules._operands import Emit, Kind, Operands
from qlsp.rules._replacements import DIRECT, TWINS
from qlsp.rules._rewrites import require_one_call

if TYPE_CHECKING:
    from qlsp.syntax.edits import Key


def native(rewriting: Operands, call: OpCall) -> Emit:
    """How to write an operator with quantized kernels."""
    bound = rewriting.bound(call)
    if call.spec.op in TWINS:
        return _twin(rewriting, call, bound)
    handler = _HANDLERS.get(call.spec.op)
    if handler is None:
        raise NoFix("no quantized kernels for this operator")
    return handler(rewriting, call, bound)


def _twin(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    twin = TWINS[call.spec.op]
    if set(bound) - {"input", *twin.constructor}:
        raise NoFix("arguments that the module has not")
    if rewriting.kind(call, bound["input"]) is not Kind.QUANTIZED:
        raise NoFix("a float input")
    texts = []
    for parameter in twin.constructor:
        if parameter in bound:
            text = rewriting.edit.text(rewriting.edit.expression(bound[parameter]).place)
            require_literal(text)
            texts.append(f"{parameter}={text}")
    if "normalized_shape" in twin.constructor and "normalized_shape" not in bound:
        raise NoFix("no shape")
    arguments = ", ".join([*texts, *([twin.always] if twin.always else [])])
    require_one_call(rewriting.ctx, call.span)
    if rewriting.edit.repeats(call.span):
        raise NoFix("a module for each pass")
    rewriting.ways.add("module")
    inner = rewriting.text(bound["input"])

    def emit() -> str:
        text = inner()
        return f"{rewriting.new(call, call.spec.op, twin.module, arguments)}({text})"

    return emit


def _binary(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
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
        other = rewriting.scalar(call, "mul_scalar", "neg" if factor == -1 else "mul", other, shown(factor))
    return rewriting.functional(call, DIRECT.get(op, "add"), DIRECT.get(op, "sub"), one, other)


def _alpha(rewriting: Operands, bound: Mapping[str, Key]) -> int | float:
    """The factor of the second operand: only one that does not round."""
    if "alpha" not in bound:
        return 1
    _, value = rewriting.number(bound["alpha"])
    if value is None or not power_of_two(value):
        raise NoFix("an alpha for which nothing is the same to the bit")
    return value


def _with_number(
    rewriting: Operands,
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
        return rewriting.scalar(call, "add_scalar", "sub", tensor, negated(text, value))
    negative = rewriting.scalar(call, "mul_scalar", "neg", tensor, "-1.0")
    return rewriting.scalar(call, "add_scalar", "add", negative, text)


def _division(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    left, right = bound.get("input"), bound.get("other")
    if left is None or right is None or len(bound) > 2 or rewriting.kind(call, right) is not Kind.NUMBER:
        raise NoFix("no division by a number")
    text, value = rewriting.number(right)
    tensor = rewriting.operand(call, left)
    if value is not None and power_of_two(value):
        return rewriting.scalar(call, "mul_scalar", "div", tensor, repr(float(1 / Fraction(value))))
    if value == 0:
        raise NoFix("a division by zero")
    rewriting.doubts.add(Message.of("fix-doubt-rounding"))
    expression = rewriting.edit.expression(right)
    return rewriting.scalar(call, "mul_scalar", "div", tensor, f"1 / {expression.operand if value is None else text}")


def _negative(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    return rewriting.scalar(call, "mul_scalar", "neg", _only(rewriting, call, bound), "-1.0")


def _only(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    """The only operand, quantized everywhere."""
    if set(bound) != {"input"} or rewriting.kind(call, bound["input"]) is not Kind.QUANTIZED:
        raise NoFix("other than one quantized operand")
    return rewriting.text(bound["input"])


def _repeated(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> str:
    """The only operand, if it can be written twice: a name."""
    if set(bound) != {"input"} or rewriting.kind(call, bound["input"]) is not Kind.QUANTIZED:
        raise NoFix("other than one quantized operand")
    name = rewriting.edit.expression(bound["input"]).name
    if name is None:
        raise NoFix("an operand that would be computed twice")
    return name


def _power(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    exponent = bound.get("exponent")
    if exponent is None or set(bound) != {"input", "exponent"} or rewriting.number(exponent)[1] != 2:
        raise NoFix("no square")
    return _square(rewriting, call, {"input": bound["input"]})


def _square(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    name = _repeated(rewriting, call, bound)
    return rewriting.functional(call, "mul", "mul", lambda: name, lambda: name)


def _sigmoid_times(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    name = _repeated(rewriting, call, bound)
    rewriting.doubts.add(Message.of("fix-doubt-rounding"))
    return rewriting.functional(call, "mul", "mul", lambda: name, lambda: f"{name}.sigmoid()")


def _absolute(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    name = _repeated(rewriting, call, bound)
    rewriting.doubts.add(Message.of("fix-doubt-two-ways"))
    negative = rewriting.scalar(call, "mul_scalar", "neg", lambda: name, "-1.0")
    return rewriting.functional(call, "add", "add", lambda: f"{name}.relu()", lambda: f"{negative()}.relu()")


def _sum(rewriting: Operands, call: OpCall, bound: Mapping[str, Key]) -> Emit:
    members = rewriting.edit.listed(bound["iterable"]) if set(bound) == {"iterable"} else None
    if members is None or len(members) < 2:
        raise NoFix("a sum that is not written out")
    if rewriting.edit.repeats(call.span) and len(members) > 2:
        raise NoFix("several new modules in one loop")
    total, *rest = [rewriting.operand(call, member) for member in members]
    for each in rest:
        total = rewriting.functional(call, "add", "add", total, each)
    return total


_HANDLERS: Mapping[str, Callable[[Operands, OpCall, Mapping[str, Key]], Emit]] = {
    **dict.fromkeys((*DIRECT, "sub", "rsub"), _binary),
    "div": _division,
    "neg": _negative,
    "pow": _power,
    "square": _square,
    "silu": _sigmoid_times,
    "abs": _absolute,
    "sum_of_list": _sum,
}
