"""A FloatFunctional is built while forward runs, so convert never finds it.

## What it does
Flags a FloatFunctional that forward, or what forward calls, builds and that joins quantized tensors.

## Why it matters
Prepare and convert walk the submodules of a model. An object that is built in every run is none of them: it gets no
observer and stays what it is in the float model, a torch function. Its `cat` silently is `torch.cat`, which takes the
scale of the first input and saturates the rest: 16.8 instead of 29.3 dB were measured at a range ratio of 3. Its other
methods raise in the converted model:

    NotImplementedError: Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend

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
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            x = FloatFunctional().add(x, self.conv(x))  # QL405
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
            self.dequant = DeQuantStub()
            self.ff_add = FloatFunctional()

        def forward(self, x):
            x = self.quant(x)
            x = self.ff_add.add(x, self.conv(x))
            return self.dequant(x)

## Fix safety
Safe: the FloatFunctional becomes an attribute that `__init__` makes; the float model stays the same to the bit. In a
loop of known length every pass gets one, which is unsafe: a longer loop would be cut off; in a block that is called
several times the calls share one, unsafe too. There is no fix where one object serves several operations, where it also
meets float tensors, nor outside a method.

## When it is silent
On float tensors, where the torch function is right, and for a concatenation of tensors that share one scale. Where an
`if` builds it once and keeps it in an attribute: the float model may have run before prepare.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Keeping, OpCall
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._cats import join_cats
from qlsp.rules._functionals import Loss, losses, sites
from qlsp.rules._rewrites import (
    FLOAT_FUNCTIONAL,
    Doubts,
    an_observer_for,
    call_of,
    doubt_the_class,
    quantized_everywhere,
    require_converted_receiver,
    require_eager,
)
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import SpanId

META = RuleMeta(
    code="QL405", name="functional-created-in-forward", severity=Severity.ERROR, since="0.1", fix="safe"
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every place that builds a FloatFunctional in forward."""
    for stray, lost in losses(ctx, Keeping.FORWARD):
        worst = next((loss for loss in lost if loss.raises is not None), lost[0])
        yield _finding(ctx, stray.span, worst)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Build it in ``__init__``."""
    yield from attempts(lambda: _attribute(ctx, finding.span, call_of(ctx, finding.subject)))


def _attribute(ctx: RuleContext, made: SpanId, call: OpCall) -> Fix:
    if sites(ctx, ctx.facts.strays[(made, Keeping.FORWARD)]) != {call.span}:
        raise NoFix("one object for several operations")
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(call.span)
    if edit.method(made).function.node is not method.function.node:
        raise NoFix("built in another method")
    if edit.call(made).arguments:
        raise NoFix("a FloatFunctional takes no arguments")
    require_eager(ctx, call.span, doubts)
    require_converted_receiver(ctx, edit, call.span)
    quantized_everywhere(ctx, call.span, doubts)
    doubt_the_class(edit, method, doubts)
    hint = edit.bound_name(made) or f"ff_{call.spelling.rpartition('.')[2]}"
    functional = an_observer_for(ctx, edit, call.span, hint, FLOAT_FUNCTIONAL, doubts)
    join_cats(ctx, edit, call, doubts)
    edit.replace(made, functional)
    title = Message.of("fix-register-functional", functional=functional)
    return doubts.fix(edit, title, Message.of("fix-register-functional-reason"))


def _finding(ctx: RuleContext, made: SpanId, loss: Loss) -> Finding:
    related = (Note(Message.of("functional-used-here"), loss.call.span),)
    if loss.raises is None:
        message = Message.of("functional-created-in-forward-cat")
        return Finding(made, message, assumes=assumption(ctx), related=related, subject=loss.key)
    message = Message.of("functional-created-in-forward", error=loss.raises)
    return Finding(made, message, None, Predicts.RAISES, assumption(ctx), related, loss.key)
