"""One module under two names of one parent: convert swaps the first name only.

## What it does
Flags the second name of a layer, stub or FloatFunctional where the converted model calls it on a quantized tensor:
`self.b = self.a`, `nn.Sequential(m, m)`, `nn.ModuleList([m] * 3)`, or a plain list, dict or object that keeps a layer
which the model has as a child.

## Why it matters
The float model, calibration and training run, and calling one name twice would be right. But convert walks through
`named_children()`, which lists an object once, and puts the quantized module under its first name. The second name
still holds the float module, which fails on a quantized tensor:

    RuntimeError: mat1 and mat2 must have the same dtype, but got QUInt8 and Float

(a Linear; a Conv says `Input type (c10::quint8) and bias type (float) should be the same`, a FloatFunctional
`Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend`). Behind the second name of a QuantStub
the tensor stays float, and the next layer raises `Could not run 'quantized::conv2d.new' with arguments from the 'CPU'
backend`. The second name of a DeQuantStub does not raise: it hands the quantized tensor on.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.encode = nn.Linear(8, 8)
            self.decode = self.encode  # QL502
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = torch.relu(self.encode(self.quant(x)))
            return self.dequant(self.decode(x))

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.encode = nn.Linear(8, 8)
            self.decode = nn.Linear(8, 8)
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = torch.relu(self.encode(self.quant(x)))
            return self.dequant(self.decode(x))

## Fix safety
Unsafe: the second name gets a copy. A float checkpoint still loads, since it has the values under both names, but
training no longer keeps their weights equal.

## When it is silent
Classes that convert leaves alone or whose float class takes quantized tensors (ReLU, ReLU6, LeakyReLU, Hardtanh,
Sigmoid, pooling, Dropout, Identity), containers (their children are swapped once, for both names), one module under
two parents (swapped under both), a name that nothing calls. In quantization-aware training prepare_qat parts two
names of a Conv2d, Conv3d or Linear, so only a third name is wrong there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Alias, OpCall, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import ArgumentAt, EditBuilder, Expression

META = RuleMeta(
    code="QL502",
    name="module-alias",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="unsafe",
)

ADDING = {"append": 0, "add_module": 1, "register_module": 1}
"""Methods that add one submodule, and the position of the module among their arguments."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every place that gives a module a second name that fails after convert."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    reported = set()
    for oid, alias in ctx.facts.aliases.items():
        call = next((c for c in ctx.facts.op_calls.values() if c.owner == oid and _fails(c)), None)
        if call is None:
            continue
        span = alias.span if alias.span is not None else call.span
        if span not in reported:
            reported.add(span)
            yield _finding(ctx, oid, alias, call)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A copy for the second name."""
    yield from attempts(lambda: _copied(ctx, finding))


def _fails(call: OpCall) -> bool:
    """Is a call of the float module certain to raise, or to leave a tensor in the wrong domain?"""
    wanted = Domain.FLOAT if call.spec.role is Role.QUANTIZE else Domain.QUANTIZED
    for alternative in call.alternatives:
        values = [operand.value for operand in alternative.operands]
        if not values or not all(isinstance(value, Tensor) and value.domain is wanted for value in values):
            return False
        if alternative.raises is None and not _special(call):
            return False
    return True


def _special(call: OpCall) -> bool:
    """A stub or a FloatFunctional, which is followed as if it were swapped."""
    return call.spec.role in (Role.QUANTIZE, Role.DEQUANTIZE) or bool(call.spec.functionals)


def _finding(ctx: RuleContext, oid: int, alias: Alias, call: OpCall) -> Finding:
    span = alias.span if alias.span is not None else call.span
    first = ctx.facts.submodules.get(alias.original)
    second = ctx.facts.submodules.get(oid)
    names = {
        "first": first.path if first is not None else alias.name,
        "second": second.path if second is not None else alias.name,
    }
    predicts = None
    if call.spec.role is Role.DEQUANTIZE:
        message, predicts = Message.of("module-alias-dequant", **names), Predicts.SILENT
    elif call.spec.role is Role.QUANTIZE:
        message = Message.of("module-alias-quant", **names)
    else:
        error = call.alternatives[0].raises
        id = "module-alias" if error is not None else "module-alias-functional"
        message = Message.of(id, error=error or "", **names)
    note = Note(Message.of("module-alias-called", second=names["second"]), call.span)
    return Finding(
        span,
        message,
        predicts=predicts,
        assumes=assumption(ctx),
        related=() if call.span == span else (note,),
        subject=oid,
    )


def _copied(ctx: RuleContext, finding: Finding) -> Fix:
    edit = ctx.edits()
    assert isinstance(finding.subject, int)
    alias = ctx.facts.aliases[finding.subject]
    if alias.span is None:
        raise NoFix("it is not known where the name is given")
    deepcopy = edit.spell(alias.span.path, "copy.deepcopy")
    targets = edit.assigned_value(alias.span)
    if targets is not None:
        count, value = targets
        if count != 1 or value.name is None:
            raise NoFix("an assignment of something else than a name")
        edit.wrap(value.place, f"{deepcopy}(", ")")
    else:
        _copy_members(edit, alias, deepcopy)
    title = Message.of("fix-alias-copy")
    return edit.fix(title, Message.of("fix-alias-copy-reason"), Applicability.UNSAFE)


def _copy_members(edit: EditBuilder, alias: Alias, deepcopy: str) -> None:
    """Copies for what a call that makes a container, or adds to one, gets more than once."""
    assert alias.span is not None
    site = edit.call(alias.span)
    method = (site.spelling or "").rpartition(".")[2]
    if method in ADDING:
        module = site.argument(ADDING[method], "module")
        if module is None or module.value.name is None:
            raise NoFix("a member that is no name")
        edit.wrap(module.value.place, f"{deepcopy}(", ")")
    elif len(site.arguments) == 1:
        _copy_list(edit, site.arguments[0], deepcopy)
    elif any(argument.star or argument.keyword for argument in site.arguments):
        raise NoFix("members that are not written out")
    else:
        _copy_repeated(edit, [argument.value for argument in site.arguments], deepcopy)


def _copy_list(edit: EditBuilder, argument: ArgumentAt, deepcopy: str) -> None:
    if argument.elements is not None:
        _copy_repeated(edit, list(argument.elements), deepcopy)
        return
    if argument.each is not None:
        if argument.each.name is None:
            raise NoFix("a member that is no name")
        edit.wrap(argument.each.place, f"{deepcopy}(", ")")
        return
    member, times = _repetition(argument.value.text)
    made = member if member.endswith(")") else f"{deepcopy}({member})"
    edit.replace(argument.value.place, f"[{made} for _ in range({times})]")


def _repetition(text: str) -> tuple[str, str]:
    """``m`` and ``3`` of ``[m] * 3``."""
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = node.left, node.right
        if isinstance(left, (ast.List, ast.Tuple)) and len(left.elts) == 1:
            each = left.elts[0]
            member, times = ast.get_source_segment(text, each), ast.get_source_segment(text, right)
            if member is not None and times is not None and isinstance(each, (ast.Name, ast.Attribute, ast.Call)):
                return member, times
    raise NoFix("members that are not written out")


def _copy_repeated(edit: EditBuilder, members: list[Expression], deepcopy: str) -> None:
    seen: set[str] = set()
    found = False
    for member in members:
        if member.name is not None and member.name in seen:
            edit.wrap(member.place, f"{deepcopy}(", ")")
            found = True
        seen.add(member.name or "")
    if not found:
        raise NoFix("members that are not names")
