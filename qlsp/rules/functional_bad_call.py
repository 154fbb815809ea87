"""A method or an argument that FloatFunctional lacks.

## What it does
Flags a method that FloatFunctional does not have (`sub`, `div`, `stack`, `mean`), an argument that its method does not
take (`axis=`, `out=`, `alpha=`), and a `cat` of tensors that are not in a list.

## Why it matters
FloatFunctional has `add`, `mul`, `matmul`, `add_relu`, `cat`, `add_scalar` and `mul_scalar`, with the parameters `x`
and `y`, for `cat` `x` and `dim`. Already the float model raises:

    TypeError: FloatFunctional.cat() got an unexpected keyword argument 'axis'
    AttributeError: 'FloatFunctional' object has no attribute 'sub'

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(4, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.join = FloatFunctional()
            self.difference = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            y = self.difference.sub(self.first(x), self.second(x))  # QL408
            return self.dequant(self.join.cat([x, y], axis=1))  # QL408

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(4, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.join = FloatFunctional()
            self.difference = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            y = self.difference.add(self.first(x), self.difference.mul_scalar(self.second(x), -1.0))
            return self.dequant(self.join.cat([x, y], dim=1))

## Fix safety
Safe where the new call gives what the old one means, to the bit: `axis=` becomes `dim=`, `sub(a, b)` becomes
`add(a, mul_scalar(b, -1.0))`, a division by a power of two becomes `mul_scalar`, `stack` becomes `cat` of unsqueezed
tensors, `concat` is `cat`, `relu` is `torch.relu`. Division by another number is unsafe: the reciprocal is rounded.

## When it is silent
On methods of every module (`to`, `eval`), on subclasses and patched classes, and on classes of other packages with
this name, which may have more methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from qlsp.analysis.facts import FunctionalUse, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._functionals import FUNCTIONALS
from qlsp.rules._rewrites import FLOAT_FUNCTIONAL, Doubts, each_tensor
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import CallAt, EditBuilder

META = RuleMeta(
    code="QL408",
    name="functional-bad-call",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

UNOBSERVED = ("add_scalar", "mul_scalar")
OTHER_NAMES = {"concat": "cat", "concatenate": "cat", "bmm": "matmul", "mm": "matmul"}
TORCH_FUNCTIONS = ("relu", "sigmoid", "tanh")
KEYWORDS = {"axis": "dim", "tensors": "x", "input": "x", "other": "y"}
_NUMBER = re.compile(r"(-?)(\d+\.?\d*(?:[eE][-+]?\d+)?)")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call that the class cannot make."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for use in ctx.facts.functional_uses.values():
        if use.cls not in FUNCTIONALS or use.method == "forward":
            continue
        error = _error(use)
        if error is None or not use.known and _patched(ctx, use.method):
            continue
        id = "functional-bad-call" if use.known else "functional-bad-call-method"
        message = Message.of(id, error=error, kind=use.cls.rpartition(".")[2], method=use.method)
        yield Finding(use.span, message, assumes=assumption(ctx), subject=(use.span, use.path))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """The call that FloatFunctional has for it."""
    assert isinstance(finding.subject, tuple)
    use = ctx.facts.functional_uses[finding.subject]
    yield from attempts(partial(_arguments if use.known else _method, ctx, use))


def _error(use: FunctionalUse) -> str | None:
    name = f"{use.cls.rpartition('.')[2]}.{use.method}()"
    if not use.known:
        return f"'{use.cls.rpartition('.')[2]}' object has no attribute '{use.method}'"
    if use.unexpected:
        return f"{name} got an unexpected keyword argument '{use.unexpected[0]}'"
    if use.missing:
        return f"{name} missing 1 required positional argument: '{use.missing[0]}'"
    if use.surplus:
        return f"{name} takes fewer positional arguments"
    first = use.operands[0] if use.operands else None
    if use.method == "cat" and isinstance(first, Tensor) and not (first.collection or first.many):
        return "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
    return None


def _patched(ctx: RuleContext, method: str) -> bool:
    """Does code in view give the class a method of this name?"""
    name = re.escape(method)
    return ctx.edits().matches(re.compile(rf"Functional\s*\.\s*{name}\s*=[^=]|setattr\(\s*[\w.]*Functional\b"))


def _arguments(ctx: RuleContext, use: FunctionalUse) -> Fix:
    edit, doubts = _begin(ctx, use)
    site = edit.call(use.span)
    if use.unexpected:
        renamed = [KEYWORDS.get(keyword) for keyword in use.unexpected]
        wanted = ("x", "dim") if use.method == "cat" else ("x", "y")
        if any(keyword not in wanted for keyword in renamed) or not set(use.missing) <= set(renamed) or use.surplus:
            raise NoFix("an argument that has no place")
        for keyword in use.unexpected:
            edit.rename_keyword(site, keyword, KEYWORDS[keyword])
        shown = ", ".join(f"{keyword}=" for keyword in use.unexpected)
        title = Message.of("fix-rename-keyword", old=shown, new=", ".join(f"{name}=" for name in renamed))
        return doubts.fix(edit, title, Message.of("fix-bad-call-reason"))
    if use.method != "cat" or use.missing:
        raise NoFix("no argument for a parameter")
    _in_a_list(edit, site)
    return doubts.fix(edit, Message.of("fix-list-of-tensors"), Message.of("fix-bad-call-reason"))


def _in_a_list(edit: EditBuilder, site: CallAt) -> None:
    """``cat(a, b, 1)`` becomes ``cat([a, b], 1)``."""
    tensors = [argument for argument in site.arguments if argument.keyword is None and not argument.star]
    if tensors and re.fullmatch(r"-?\d+", tensors[-1].value.text):
        tensors = tensors[:-1]
    if len(tensors) < 2 or any(argument.star for argument in site.arguments):
        raise NoFix("not several tensors")
    first, last = tensors[0].value.place, tensors[-1].value.place
    edit.insert(first.path, first.span.start, "[", first.span.segment)
    edit.insert(last.path, last.span.end, "]", last.span.segment)


def _method(ctx: RuleContext, use: FunctionalUse) -> Fix:
    edit, doubts = _begin(ctx, use)
    site = edit.call(use.span)
    functional, dot, written = (site.spelling or "").rpartition(".")
    if not dot or written != use.method or any(argument.star for argument in site.arguments):
        raise NoFix("a call that is spelled otherwise")
    method = use.method
    if method in TORCH_FUNCTIONS and len(site.arguments) == 1:
        edit.replace(site.function, edit.spell(site.place.path, f"torch.{method}"))
    elif method in OTHER_NAMES:
        edit.replace(site.function, f"{_observed(ctx, edit, use, functional)}.{OTHER_NAMES[method]}")
        for old, new in KEYWORDS.items():
            edit.rename_keyword(site, old, new)
    elif method == "stack":
        _stack(edit, site)
        edit.replace(site.function, f"{_observed(ctx, edit, use, functional)}.cat")
    elif method in ("neg", "negative") and len(site.arguments) == 1:
        edit.replace(site.function, f"{functional}.mul_scalar")
        edit.add_argument(use.span, "-1.0")
    else:
        _arithmetic(ctx, edit, use, site, functional, doubts)
    return doubts.fix(edit, Message.of("fix-other-method", method=method), Message.of("fix-bad-call-reason"))


def _arithmetic(
    ctx: RuleContext, edit: EditBuilder, use: FunctionalUse, site: CallAt, functional: str, doubts: Doubts
) -> None:
    """Differences and quotients by the methods that there are."""
    operation = {"sub": "sub", "subtract": "sub", "sub_scalar": "sub", "div": "div", "divide": "div"}.get(use.method)
    operation = "div" if use.method in ("div_scalar", "true_divide") else operation
    if operation is None or len(site.arguments) != 2 or any(argument.keyword for argument in site.arguments):
        raise NoFix("no method that gives the same")
    second = site.arguments[1].value
    number = _NUMBER.fullmatch(second.text)
    if number is not None and operation == "sub":
        edit.replace(site.function, f"{functional}.add_scalar")
        edit.replace(second.place, number[2] if number[1] else f"-{number[2]}")
    elif number is not None and float(number[2]) != 0:
        value = float(second.text)
        reciprocal = 1.0 / value
        if abs(value).hex().partition("p")[0] != "0x1.0000000000000":
            doubts.add(Message.of("fix-doubt-reciprocal"))
        edit.replace(site.function, f"{functional}.mul_scalar")
        edit.replace(second.place, repr(reciprocal))
    elif operation == "sub" and len(use.operands) == 2 and isinstance(use.operands[1], Tensor):
        edit.replace(site.function, f"{_observed(ctx, edit, use, functional)}.add")
        edit.wrap(second.place, f"{functional}.mul_scalar(", ", -1.0)")
    else:
        raise NoFix("no method that gives the same")


def _stack(edit: EditBuilder, site: CallAt) -> None:
    tensors, dim = site.argument(0, "tensors", "x"), site.argument(1, "dim", "axis")
    text = dim.value.text if dim is not None else "0"
    if tensors is None or not re.fullmatch(r"-?\d+|[A-Za-z_]\w*", text):
        raise NoFix("a dim that is computed")
    each_tensor(edit, tensors.elements, lambda operand: f"{operand}.unsqueeze({text})")
    edit.rename_keyword(site, "axis", "dim")
    edit.rename_keyword(site, "tensors", "x")


def _begin(ctx: RuleContext, use: FunctionalUse) -> tuple[EditBuilder, Doubts]:
    """The place calls a FloatFunctional in every context."""
    doubts = Doubts()
    for facts in ctx.everywhere:
        for each in facts.functional_uses.values():
            if each.span != use.span:
                continue
            if each.cls != FLOAT_FUNCTIONAL or facts.context.workflow not in (Workflow.EAGER, Workflow.NONE):
                raise NoFix("not a FloatFunctional in every context")
    return ctx.edits(), doubts


def _observed(ctx: RuleContext, edit: EditBuilder, use: FunctionalUse, functional: str) -> str:
    """The FloatFunctional for an operation with an observer: a new one where the old one has another."""
    several = False
    for facts in ctx.everywhere:
        owners = [each.owner for each in facts.functional_uses.values() if each.span == use.span]
        if len(owners) > len(set(owners)):
            raise NoFix("one object makes this call several times")
        several = several or any(
            each.owner in owners and each.span != use.span and each.method not in UNOBSERVED
            for each in facts.functional_uses.values()
        )
    if not several:
        return functional
    receiver, _, attribute = functional.partition(".")
    if receiver != edit.method(use.span).receiver or "." in attribute:
        raise NoFix("a FloatFunctional with another operation")
    return f"{receiver}.{edit.add_submodule(use.span, attribute, FLOAT_FUNCTIONAL, near=attribute)}"
