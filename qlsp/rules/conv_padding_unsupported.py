"""A convolution that convert swaps pads in a way that quantized convolutions do not know.

## What it does
Flags the construction of a Conv1d, Conv2d or Conv3d with `padding="same"` or `"valid"`, or with `padding_mode`
`"circular"` or `"replicate"` (for Conv3d also `"reflect"`), if a qconfig reaches it.

## Why it matters
Float model and calibration run; convert raises one of

    ValueError: 'padding_mode' circular is not supported by quantized convolution
    RuntimeError: quantized::conv2d_prepack() Expected a value of type 'List[int]' for argument 'padding'

With numbers and `padding_mode="reflect"` Conv1d and Conv2d work (33 dB).

## Bad
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 5, padding="same")  # QL511
            self.dequant = DeQuantStub()

        def forward(self, x):
            return self.dequant(self.conv(self.quant(x)))

## Good
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.conv = nn.Conv2d(3, 8, 5, padding=2)
            self.dequant = DeQuantStub()

        def forward(self, x):
            return self.dequant(self.conv(self.quant(x)))

## Fix safety
Safe: `"valid"` becomes 0, and `"same"` the number of rows that it stands for, where kernel size and dilation are
written as numbers and the padding is the same on both sides. The float model computes the same, bit for bit. A kernel
size that is a name is halved, which is right for the odd sizes in view: unsafe.

## When it is silent
For layers that no qconfig reaches, for subclasses (which convert leaves alone), for transposed convolutions, and where
the padding is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import Submodule
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import OpSpec
from qlsp.rules._layers import Reach, argument, constant, layers, meets_quantized, reach
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption

META = RuleMeta(
    code="QL511",
    name="conv-padding-unsupported",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

_CONVOLUTION = re.compile(r"(?:lazy_)?conv([123])d")
WORDS = ("'same'", "'valid'")
MODES = ("'circular'", "'replicate'")
REFLECT = "'reflect'"


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each construction of a convolution that convert refuses."""
    for number, layer, spec in layers(ctx):
        found = _CONVOLUTION.fullmatch(spec.op)
        if found is None or layer.span is None or not _reached(ctx, number, layer):
            continue
        dimensions = int(found[1])
        mode = constant(argument(layer, "padding_mode"))
        padding = constant(argument(layer, "padding"))
        subject = (number,)
        if mode in MODES or mode == REFLECT and dimensions == 3:
            text = _mode_error(mode or "")
            message = Message.of("conv-padding-mode", module=layer.path, mode=(mode or "").strip("'"), error=text)
        elif padding in WORDS:
            message = Message.of(
                "conv-padding-unsupported",
                module=layer.path,
                word=(padding or "").strip("'"),
                dimensions=str(dimensions),
            )
        else:
            continue
        yield Finding(layer.span, message, assumes=assumption(ctx), subject=subject)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Write the padding as a number."""
    edit = ctx.edits()
    site = edit.call(finding.span)
    made = [
        (layer, spec)
        for facts in ctx.everywhere
        for layer in facts.submodules.values()
        if layer.span == finding.span and (spec := layer.spec) is not None
    ]
    written = {_padding(layer, spec) for layer, spec in made}
    mode = {constant(argument(layer, "padding_mode")) for layer, _ in made}
    if not made or None in written or not mode <= {None, "'zeros'", REFLECT}:
        raise NoFix("no number stands for this padding")
    spec = made[0][1]
    given = {name: site.argument(spec.constructor.index(name), name) for name in ("kernel_size", "dilation", "padding")}
    padding, kernel = given["padding"], given.pop("kernel_size")
    if padding is None or any(each is not None and not _LITERAL.fullmatch(each.value.text) for each in given.values()):
        raise NoFix("an argument that is not written as a literal")
    literal = kernel is None or _LITERAL.fullmatch(kernel.value.text) is not None
    valid = padding.value.text.strip("\"'") == "valid"
    if literal or valid:
        text, reason, how = written.pop() or "", "fix-padding-reason", Applicability.SAFE
        if written:
            raise NoFix("layers of different sizes")
    elif kernel is not None and kernel.value.name is not None and _plain(made):
        text, reason, how = f"{kernel.value.text} // 2", "fix-padding-odd", Applicability.UNSAFE
    else:
        raise NoFix("a kernel size that is computed")
    edit.replace(padding.value.place, text)
    yield edit.fix(Message.of("fix-padding", padding=text), Message.of(reason), how)


def _plain(made: list[tuple[Submodule, OpSpec]]) -> bool:
    """Is the kernel size of every layer one number, and its dilation 1?"""
    return all(
        (constant(argument(layer, "kernel_size")) or "").isdecimal()
        and constant(argument(layer, "dilation")) in (None, "1")
        for layer, _ in made
    )


_LITERAL = re.compile(r"""[\s\d,()\[\]]+|[\w]?(?:"\w+"|'\w+')""")


def _reached(ctx: RuleContext, number: int, layer: Submodule) -> bool:
    reached = reach(layer)
    return reached is Reach.YES or reached is Reach.ASSUMED and meets_quantized(ctx.facts, number)


def _mode_error(mode: str) -> str:
    if mode == REFLECT:
        return "Conv3d does not support reflection padding"
    return f"'padding_mode' {mode[1:-1]} is not supported by quantized convolution"


def _padding(layer: Submodule, spec: OpSpec) -> str | None:
    """The padding that a word stands for, as source text."""
    word = constant(argument(layer, "padding"))
    if word == "'valid'":
        return "0"
    kernel, dilation = _numbers(argument(layer, "kernel_size")), _numbers(argument(layer, "dilation"))
    stride = _numbers(argument(layer, "stride"))
    dilation = (1,) if argument(layer, "dilation") is None else dilation
    stride = (1,) if argument(layer, "stride") is None else stride
    if word != "'same'" or not kernel or not dilation or set(stride or ()) != {1}:
        return None
    length = max(len(kernel), len(dilation))
    sizes = [
        (kernel[i % len(kernel)] - 1) * dilation[i % len(dilation)]
        for i in range(length)
        if len(kernel) in (1, length) and len(dilation) in (1, length)
    ]
    if len(sizes) != length or any(size % 2 for size in sizes):
        return None
    halves = [str(size // 2) for size in sizes]
    return halves[0] if length == 1 else f"({', '.join(halves)})"


def _numbers(key: object) -> tuple[int, ...] | None:
    """The whole numbers of a key: one, or a tuple of them."""
    text = constant(key)
    if text is not None:
        return (int(text),) if text.isdecimal() else None
    parts = [constant(each) for each in key] if isinstance(key, tuple) else []
    if not parts or not all(part is not None and part.isdecimal() for part in parts):
        return None
    return tuple(int(part) for part in parts if part is not None)
