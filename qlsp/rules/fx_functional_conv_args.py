"""A functional convolution does not spell its arguments, and convert_fx fails.

## What it does
Flags `F.conv1d`, `F.conv2d` and `F.conv3d` in a model that `prepare_fx` or `prepare_qat_fx` quantizes, unless bias,
stride, padding, dilation and groups are all there, with tuples for stride, padding and dilation.

## Why it matters
`convert_fx` hands the arguments as they stand to the operator that packs the weight, which knows no defaults and takes
lists only. Measured with torch 2.13.0:

    RuntimeError: quantized::conv2d_prepack() is missing value for argument 'bias'
    RuntimeError: quantized::conv2d_prepack() is missing value for argument 'stride'
    RuntimeError: quantized::conv2d_prepack() is missing value for argument 'groups'
    RuntimeError: quantized::conv2d_prepack() Expected a value of type 'List[int]' for argument 'stride'

The last one ends in `but instead found type 'int'`; for `padding="same"` the type is `str`.

Prepare and calibration run. `nn.Conv2d` has no such trouble, nor has `F.linear`.

## Bad
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Blur(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = nn.Parameter(torch.rand(4, 3, 3, 3))

        def forward(self, x):
            return F.conv2d(x, self.kernel, padding=1)  # QL705


    def quantize(x):
        net = prepare_fx(Blur().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## Good
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Blur(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = nn.Parameter(torch.rand(4, 3, 3, 3))

        def forward(self, x):
            return F.conv2d(x, self.kernel, padding=(1, 1), bias=None, stride=(1, 1), dilation=(1, 1), groups=1)


    def quantize(x):
        net = prepare_fx(Blur().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## Fix safety
The fix writes the defaults out and makes tuples of numbers; the float model stays what it is. It is not offered for
`padding="same"` and where an argument is not a number in the source.

## When it is silent
The mapping is not known, has entries that may leave the convolution in float, or a custom configuration is passed; an
argument list is not known; `torch.fx.wrap` keeps the tracer out of functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from qlsp.analysis.facts import REST, OpCall
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._rewrites import call_of
from qlsp.rules._traced import quantizes_functions, traced
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(
    code="QL705",
    name="fx-functional-conv-args",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

DIMENSIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
DEFAULTS = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
LISTS = ("stride", "padding", "dilation")
_NUMBER = re.compile(r"\d+")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per functional convolution that cannot be packed."""
    context = ctx.facts.context
    if not traced(context) or not quantizes_functions(context):
        return
    for call in ctx.facts.op_calls.values():
        if call.owner is None and call.spec.op in DIMENSIONS and (problem := _problem(_given(call))) is not None:
            message = Message.of("fx-functional-conv-args", op=call.spec.op, problem=problem)
            yield Finding(call.span, message, subject=(call.span, call.path))


def _given(call: OpCall) -> dict[str, object]:
    pairs = (each for each in call.arguments if isinstance(each, tuple) and len(each) == 2)
    return {str(name): key for name, key in pairs}


def _problem(given: Mapping[str, object]) -> str | None:
    """What the packing operator says of the first argument that it cannot take."""
    if REST in given:
        return None
    for name in DEFAULTS:
        if name not in given:
            return f"is missing value for argument '{name}'"
        kind = _plain(given[name])
        if name in LISTS and kind in ("int", "str"):
            return f"Expected a value of type 'List[int]' for argument '{name}' but instead found type '{kind}'"
    return None


def _plain(key: object) -> str | None:
    """The type of a constant, by its key."""
    plain = isinstance(key, tuple) and len(key) == 2 and all(isinstance(part, str) for part in key)
    return str(key[0]) if plain and isinstance(key, tuple) else None


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Spell every argument."""
    call, edit = call_of(ctx, finding.subject), ctx.edits()
    written, size = edit.call(call.span), DIMENSIONS[call.spec.op]
    for name, default in DEFAULTS.items():
        argument = written.argument(call.spec.params.index(name), name)
        if argument is None:
            text = _many(str(default), size) if name in LISTS else str(default)
            edit.add_argument(call.span, f"{name}={text}")
        elif name in LISTS and _plain(_given(call)[name]) is not None:
            if not _NUMBER.fullmatch(argument.value.text):
                raise NoFix("not a number in the source")
            edit.replace(argument.value.place, _many(argument.value.text, size))
        elif name in LISTS and not argument.value.text.startswith(("(", "[")):
            raise NoFix("an argument that is not written out")
    yield edit.fix(Message.of("fix-conv-args"), Message.of("fix-conv-args-reason"), Applicability.SAFE)


def _many(number: str, size: int) -> str:
    return f"({', '.join([number] * size)}{',' if size == 1 else ''})"
