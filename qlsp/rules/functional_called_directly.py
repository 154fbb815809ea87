"""A FloatFunctional is called like a module.

## What it does
Flags the call of a FloatFunctional or QFunctional itself, or of its `forward`.

## Why it matters
The class only has methods, one for each operation. Already the float model raises:

    RuntimeError: FloatFunctional is not intended to use the 'forward'. Please use the underlying operation
    TypeError: FloatFunctional.forward() takes 2 positional arguments but 3 were given

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 1)
            self.skip = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            x = self.skip(x, self.conv(x))  # QL407
            return self.dequant(x)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 1)
            self.skip = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            x = self.skip.add(x, self.conv(x))
            return self.dequant(x)

## Fix safety
Shown only: which operation is meant is for the author to say. The fix shows `cat` for a list, `add` for two tensors.

## When it is silent
On subclasses, which may have a `forward` of their own, and on classes of other packages with this name.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._functionals import FUNCTIONALS
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts

META = RuleMeta(
    code="QL407",
    name="functional-called-directly",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="display",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call of the object itself."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for use in ctx.facts.functional_uses.values():
        if use.method == "forward" and use.cls in FUNCTIONALS:
            message = Message.of("functional-called-directly", kind=use.cls.rpartition(".")[2])
            yield Finding(use.span, message, assumes=assumption(ctx))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """The operation that is most likely meant."""
    yield from attempts(lambda: _operation(ctx, finding))


def _operation(ctx: RuleContext, finding: Finding) -> Fix:
    edit = ctx.edits()
    site = edit.call(finding.span)
    if not site.arguments or site.arguments[0].star:
        raise NoFix("arguments that are not shown")
    joins = site.arguments[0].elements is not None or site.arguments[0].each is not None
    if not joins and len(site.arguments) != 2:
        raise NoFix("neither a list nor two tensors")
    operation = "cat" if joins else "add"
    edit.replace(site.function, f"{edit.text(site.function).removesuffix('.forward')}.{operation}")
    title = Message.of("fix-name-operation", operation=operation)
    return edit.fix(title, Message.of("fix-name-operation-reason"), Applicability.DISPLAY)
