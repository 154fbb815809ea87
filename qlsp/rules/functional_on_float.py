"""A FloatFunctional joins float tensors behind a DeQuantStub.

## What it does
Flags a method of a FloatFunctional on float tensors of which one has left the quantized region.

## Why it matters
The float model and the calibration run. Convert swaps the FloatFunctional for the quantized one, wherever it is used,
and the converted model raises at this line:

    NotImplementedError: Could not run 'quantized::add' with arguments from the 'CPU' backend

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.body = nn.Conv2d(4, 4, 3, padding=1)
            self.skip = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, image):
            noise = self.dequant(self.body(self.quant(image)))
            return self.skip.add(noise, image)  # QL409

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.body = nn.Conv2d(4, 4, 3, padding=1)
            self.dequant = DeQuantStub()

        def forward(self, image):
            noise = self.dequant(self.body(self.quant(image)))
            return torch.add(noise, image)

## Fix safety
Safe where every context in view passes float tensors: the torch function that the FloatFunctional calls, and the
attribute goes if nothing else uses it. There is no fix where another context passes quantized tensors.

## When it is silent
Where an operand may be quantized. Where no tensor has been quantized before, it is a stub that is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from qlsp.analysis.facts import OpCall, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._causes import Cause, raising
from qlsp.rules._functionals import functional_at
from qlsp.rules._rewrites import Doubts, call_of, require_eager, uses
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, Tensor

META = RuleMeta(
    code="QL409",
    name="functional-on-float",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

SCALAR_KEYWORDS = {"x": "input", "y": "other"}


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every call that meets float tensors behind the quantized region."""
    for call in raising(ctx, Cause.FUNCTIONAL_ON_FLOAT):
        owner = ctx.facts.submodules.get(call.owner or 0)
        functional = owner.path if owner is not None else "FloatFunctional"
        error = call.alternatives[0].raises or ""
        message = Message.of("functional-on-float", functional=functional, error=error)
        related = (Note(Message.of("functional-made-here"), owner.span),) if owner is not None and owner.span else ()
        subject = (call.span, call.path)
        yield Finding(call.span, message, assumes=assumption(ctx), related=related, subject=subject)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """The torch function."""
    yield from attempts(lambda: _torch_function(ctx, call_of(ctx, finding.subject)))


def _torch_function(ctx: RuleContext, call: OpCall) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, call.span, doubts)
    for facts, use in uses(ctx, call.span):
        values = [operand.value for alternative in use.alternatives for operand in alternative.operands]
        if facts.context.workflow is Workflow.EAGER and not all(
            isinstance(value, Tensor) and value.domain is Domain.FLOAT for value in values
        ):
            raise NoFix(f"an operand may be quantized in {facts.context.root}")
    site = edit.call(call.span)
    operation = (site.spelling or edit.text(site.function)).rpartition(".")[2]
    function = call.spec.float_function
    if function is None or operation not in call.spec.functionals or any(each.star for each in site.arguments):
        raise NoFix("a call that is spelled otherwise")
    keywords = {"x": "tensors"} if operation == "cat" else SCALAR_KEYWORDS
    for old, new in keywords.items():
        edit.rename_keyword(site, old, new)
    spelled = edit.spell(site.place.path, function)
    if operation == "add_relu":
        edit.wrap(site.place, f"{edit.spell(site.place.path, 'torch.relu')}(", ")")
    with contextlib.suppress(NoFix):  # what is no attribute of the receiver stays
        edit.remove_submodule(edit.method(call.span).cls, functional_at(ctx, edit, call.span)[0])
    edit.replace(site.function, spelled)
    title = Message.of("fix-torch-function", function=function)
    return doubts.fix(edit, title, Message.of("fix-torch-function-reason"))
