"""A ReLU follows the sum of a FloatFunctional, which can do both in one operation.

## What it does
Flags a ReLU, as a function, a method or a module, on the result of `FloatFunctional.add` that nothing else uses.

## Why it matters
The observer of the sum also has to cover the negative half, which the ReLU throws away, so the result is left with half
of the 256 codes. `add_relu` observes what is left, and saves a pass over the data. Measured with torch 2.13.0 (x86
qconfig): 31.5 dB with a ReLU behind the sum, 33.3 dB with `add_relu`.

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.skip = FloatFunctional()
            self.relu = nn.ReLU()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            y = self.relu(self.skip.add(self.conv(x), x))  # QL411
            return self.dequant(y)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.skip = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            y = self.skip.add_relu(self.conv(x), x)
            return self.dequant(y)

## Fix safety
Safe: `add_relu` of the float model is the sum and the ReLU. A module goes with its only use; where it has others, only
this call goes, which is unsafe, since a list of modules to fuse that is not in view may name it.

## When it is silent
Where something else uses the sum, where the ReLU runs on one path only, where code in view names the ReLU in a
string of the same file, as a list of modules to fuse does, and where it does something else with it than to call it,
as who hangs a hook on it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Severity
from qlsp.rules._rewrites import Doubts, call_of, require_eager, uses
from qlsp.rules._sums import FREED, kept, lone_relu, named_in_a_string, summed
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import SpanId

META = RuleMeta(code="QL411", name="relu-after-add", severity=Severity.INFO, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every ReLU that is all that becomes of a sum."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for add in ctx.facts.op_calls.values():
        relu = _only_relu(ctx.facts, add)
        edit = ctx.edits()
        if relu is None or named_in_a_string(ctx, edit, relu) or kept(edit, relu):
            continue
        owner = ctx.facts.submodules.get(add.owner or 0)
        message = Message.of("relu-after-add", functional=owner.path if owner is not None else "FloatFunctional")
        related = (Note(Message.of("sum-made-here"), add.span),)
        subject = (add.span, add.path)
        yield Finding(relu.span, message, assumes=assumption(ctx), related=related, subject=subject)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """``add_relu``."""
    yield from attempts(lambda: _joined(ctx, call_of(ctx, finding.subject), finding.span))


def _only_relu(facts: Facts, add: OpCall) -> OpCall | None:
    """The ReLU that follows the sum of a FloatFunctional."""
    if add.spec.op != "add" or not add.spec.functionals or not add.converted or add.alias:
        return None
    return lone_relu(facts, add)


def _joined(ctx: RuleContext, add: OpCall, span: SpanId) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, add.span, doubts)
    operand = summed(ctx, edit, add, span)
    made = edit.call(add.span)
    functional, dot, method = (made.spelling or "").rpartition(".")
    if not dot or method != "add":
        raise NoFix("a sum that is spelled otherwise")
    edit.replace(made.function, f"{functional}.add_relu")
    relu = next(iter(uses(ctx, span)))[1]
    if relu.owner is not None:
        attribute = edit.receiver_attribute(span)
        cls = edit.method(span).cls
        if not edit.remove_submodule(cls, attribute) and edit.uses_of(cls, attribute) > 2:
            doubts.add(Message.of("fix-doubt-relu-elsewhere", relu=attribute))
    edit.take_operand(span, operand)
    whole = doubts.fix(edit, Message.of("fix-add-relu"), Message.of("fix-add-relu-reason"))
    return replace(whole, reveals=(*whole.reveals, *FREED))
