"""Python decides something by what FX traces with.

## What it does
Flags conditions, assertions and loops on inputs and on what is computed from them, and `len`, `int`, `float`, `bool`
and `range` of them, in the forward of a model that `prepare_fx` or `prepare_qat_fx` gets, and of the modules in it.

## Why it matters
FX runs forward on stand-ins without values. Measured with torch 2.13.0:

    torch.fx.proxy.TraceError: symbolically traced variables cannot be used as inputs to control flow
    torch.fx.proxy.TraceError: Proxy object cannot be iterated.
    RuntimeError: 'len' is not supported in symbolic tracing by default.
    TypeError: 'Proxy' object cannot be interpreted as an integer
    TypeError: int() argument must be a string, a bytes-like object or a real number, not 'Proxy'

Sizes (`x.shape[0] > 1`, `x.dim() == 4`) and attributes (`x.is_cuda`, `x.dtype == torch.float32`) are stand-ins, too. So
are all parameters of the forward of the model itself, with a default or not, whatever `example_inputs` holds:
`if return_loss:` raises. `x is not None` and `isinstance` do not, and take one arm for good.

## Bad
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Linear(8, 8)
            self.refine = nn.Linear(8, 8)

        def forward(self, x):
            y = self.stem(x)
            if y.mean() > 0:  # QL701
                y = self.refine(y)
            return y


    def quantize(x):
        net = prepare_fx(Detector().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## Good
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Detector(nn.Module):
        def __init__(self, refines=True):
            super().__init__()
            self.refines = refines
            self.stem = nn.Linear(8, 8)
            self.refine = nn.Linear(8, 8)

        def forward(self, x):
            y = self.stem(x)
            if self.refines:
                y = self.refine(y)
            return y


    def quantize(x):
        net = prepare_fx(Detector().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## What else helps
What has to decide by values goes into a module of its own that FX does not trace:
`PrepareCustomConfig().set_non_traceable_module_names(["name"])`. A check can be `torch._assert(condition, message)`.

## When it is silent
Constructor flags, modules of the library, a custom configuration, functions that `torch.fx.wrap` or `torch.jit.script`
keep whole, code under a condition that is not known, and values of which it is not known where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.diagnostics import Message, Predicts, Severity
from qlsp.rules._traced import traced
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta

META = RuleMeta(
    code="QL701",
    name="fx-control-flow",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    one_per_line=True,
)

ERRORS = {
    "condition": "TraceError: symbolically traced variables cannot be used as inputs to control flow",
    "loop": "TraceError: Proxy object cannot be iterated",
    "len": "RuntimeError: 'len' is not supported in symbolic tracing by default",
    "range": "TypeError: 'Proxy' object cannot be interpreted as an integer",
    "int": "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'Proxy'",
    "float": "TypeError: float() argument must be a string or a real number, not 'Proxy'",
    "bool": "TraceError: symbolically traced variables cannot be used as inputs to control flow",
}


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per place that stops FX."""
    context = ctx.facts.context
    if not traced(context):
        return
    for use in ctx.facts.traced.values():
        notes = (Note(Message.of("fx-traced-here"), context.prepared),) if context.prepared is not None else ()
        yield Finding(use.span, Message.of("fx-control-flow", error=ERRORS[use.kind]), related=notes)
