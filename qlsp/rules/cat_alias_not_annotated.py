"""A concatenation is spelled in a way that a traced front end does not share observers for.

## What it does
Flags `torch.concat`, `concatenate`, `hstack`, `vstack`, `dstack` and `column_stack` of results of layers in a model
that `prepare_fx` quantizes (warning), and in one that is exported and prepared with `X86InductorQuantizer` (info).

## Why it matters
FX knows `torch.cat` and `torch.stack`: their inputs get one observer, and one integer operator runs. Measured with
torch 2.13.0: two branches of `torch.cat` share the scale .1008; with `torch.concat` they have .0155 and .1401, and the
operator runs in float between a dequantize and a quantize. That is right and slow. `X86InductorQuantizer` of torchao
0.18 shares for `aten.cat` only.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Fusion(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            return torch.concat([self.left(x), self.right(x)], 1)  # QL103


    def quantize(x):
        net = prepare_fx(Fusion().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Fusion(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            return torch.cat([self.left(x), self.right(x)], 1)


    def quantize(x):
        net = prepare_fx(Fusion().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## When it is silent
Inputs of which fewer than two come from layers, a mapping that is not known, custom configurations, other quantizers.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Message, Severity
from qlsp.rules._traced import quantizes_functions, traced
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.value import Domain, Tensor
from qlsp.values.workflow import Workflow

META = RuleMeta(code="QL103", name="cat-alias-not-annotated", severity=Severity.WARNING, since="0.1")

ALIASES = frozenset(
    f"torch.{name}" for name in ("concat", "concatenate", "hstack", "vstack", "dstack", "column_stack", "row_stack")
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per concatenation that is not torch.cat."""
    context = ctx.facts.context
    exported = context.workflow is Workflow.PT2E and context.tracing is not None
    if not exported and not (traced(context) and quantizes_functions(context)):
        return
    for call in ctx.facts.op_calls.values():
        if call.spelling in ALIASES and _of_layers(call):
            message = Message.of("cat-alias-not-annotated", spelling=call.spelling)
            yield Finding(call.span, message, Severity.INFO if exported else Severity.WARNING)


def _of_layers(call: OpCall) -> bool:
    """Are at least two of the inputs results of operators that are quantized?"""
    return all(
        sum(isinstance(each.value, Tensor) and each.value.domain is Domain.QUANTIZED for each in way.operands) > 1
        for way in call.alternatives
    )
