"""A QFunctional is built in a model that is still float.

## What it does
Flags the construction of a QFunctional whose methods the forward of a float model calls.

## Why it matters
QFunctional is what convert makes of a FloatFunctional. It calls quantized operators, so the float model already raises,
before or in calibration:

    NotImplementedError: Could not run 'quantized::add' with arguments from the 'CPU' backend

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 1)
            self.skip = torch.ao.nn.quantized.QFunctional()  # QL410
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.skip.add(x, self.conv(x)))

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(4, 4, 1)
            self.skip = torch.ao.nn.quantized.FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.skip.add(x, self.conv(x)))

## Fix safety
Safe: a FloatFunctional has the same methods, and convert makes a QFunctional of it. There is no fix where one object
serves several operations, or is kept where convert does not find it.

## When it is silent
In a model that is written with quantized modules or quantizes tensors itself: there it is right. Where no method is
called.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Facts, FunctionalUse, Workflow
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._functionals import FUNCTIONALS, Q_FUNCTIONAL
from qlsp.rules._rewrites import FLOAT_FUNCTIONAL
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import SpanId

META = RuleMeta(
    code="QL410",
    name="qfunctional-before-convert",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

QUANTIZED_CLASSES = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every construction whose object the float model uses."""
    if ctx.facts.context.workflow is not Workflow.EAGER or _is_quantized(ctx.facts):
        return
    for made, use in _first_uses(ctx.facts).items():
        message = Message.of("qfunctional-before-convert", method=use.method)
        related = (Note(Message.of("functional-used-here"), use.span),)
        yield Finding(made, message, assumes=assumption(ctx), related=related)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A FloatFunctional."""
    yield from attempts(lambda: _float(ctx, finding.span))


def _first_uses(facts: Facts) -> dict[SpanId, FunctionalUse]:
    found: dict[SpanId, FunctionalUse] = {}
    for use in facts.functional_uses.values():
        if use.cls == Q_FUNCTIONAL and use.made is not None and use.fits:
            found.setdefault(use.made, use)
    return found


def _is_quantized(facts: Facts) -> bool:
    """Written with quantized modules, or with tensors that forward quantizes itself."""
    modules = (each.cls for each in facts.submodules.values() if each.cls not in FUNCTIONALS)
    if any(cls.startswith(QUANTIZED_CLASSES) and not cls.endswith("FloatFunctional") for cls in modules):
        return True
    return any(call.spec.role is Role.QUANTIZE and call.owner is None for call in facts.op_calls.values())


def _float(ctx: RuleContext, made: SpanId) -> Fix:
    for facts in ctx.everywhere:
        members = [use.owner for use in facts.functional_uses.values() if use.made == made]
        if members and facts.context.workflow not in (Workflow.EAGER, Workflow.NONE):
            raise NoFix(f"{facts.context.root} is for another front end")
        if any(not stray.members.isdisjoint(members) for stray in facts.strays.values()):
            raise NoFix("kept where convert does not find it")
        own = [use for use in facts.functional_uses.values() if use.owner in members]
        observed = [use.owner for use in own if not use.method.endswith("_scalar")]
        if len(observed) > len(set(observed)):
            raise NoFix("one object for several operations")
    edit = ctx.edits()
    site = edit.call(made)
    if site.arguments or site.spelling is None:
        raise NoFix("a QFunctional takes no arguments")
    package, dot, name = site.spelling.rpartition(".")
    if dot and name == "QFunctional":
        edit.replace(site.function, f"{package}.FloatFunctional")
    else:
        edit.replace(site.function, edit.spell(made.path, FLOAT_FUNCTIONAL))
    return edit.fix(Message.of("fix-float-functional"), Message.of("fix-float-functional-reason"), Applicability.SAFE)
