"""A fuse call lists modules for which torch has no fuser.

## What it does
Flags `fuse_modules` and `fuse_modules_qat` where the classes of a list are known and no fuser exists for that sequence:
another order, an activation that cannot be fused, a subclass, a single module.

## Why it matters
The call raises at once:

    AssertionError: did not find fuser method for: (<class 'torch.nn.modules.conv.Conv2d'>,

and so on with the other classes. Fusers exist for conv-bn, conv-bn-relu, conv-relu (1d, 2d, 3d), linear-relu,
linear-bn (1d), bn-relu (2d, 3d), and a transposed conv with a bn (not for training).

## Bad
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv, self.relu, self.bn = nn.Conv2d(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4)

        def forward(self, x):
            return self.dequant(self.bn(self.relu(self.conv(self.quant(x)))))


    def build():
        return tq.fuse_modules(Net().eval(), [["conv", "relu", "bn"]])  # QL505

## Good
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv, self.relu, self.bn = nn.Conv2d(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4)

        def forward(self, x):
            return self.dequant(self.bn(self.relu(self.conv(self.quant(x)))))


    def build():
        return tq.fuse_modules(Net().eval(), [["conv", "relu"]])

## Fix safety
Shown only: the longest beginning that can be fused. Changing the order of the list alone would change what the float
model computes.

## When it is silent
Names whose class is not known, calls with a fuser of their own, lists that `fuse-args` reports, and a module that an
earlier list of the same call has fused away (`fuse-changes-float` reports that one).
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import FuseForm
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._fuse import changed, classes, fuse_calls, shown
from qlsp.rules._life import call_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta, attempts

META = RuleMeta(
    code="QL505",
    name="fuse-unsupported-order",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="display",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every fuse call with a sequence that has no fuser."""
    for index, call, fusion in fuse_calls(ctx):
        if fusion.form is not FuseForm.GOOD or changed(fusion):
            continue
        group = next((each for each in fusion.groups if each.missing or each.fusable is False), None)
        if group is not None and group.fusable is False:
            names = shown(group.names)
            message = Message.of("fuse-unsupported-order", call=call.spelling, names=names, classes=classes(group))
            yield Finding(call.span, message, subject=index)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Show the beginning of the sequence that can be fused."""
    yield from attempts(lambda: _shortened(ctx, finding))


def _shortened(ctx: RuleContext, finding: Finding) -> Fix:
    call = call_of(ctx, finding)
    assert call.fusion is not None
    group = next(each for each in call.fusion.groups if each.fusable is False)
    if group.beginning < 2:
        raise NoFix("no beginning of the sequence can be fused")
    edit = ctx.edits()
    argument = edit.call(call.span).argument(1, "modules_to_fuse")
    lists = argument.elements if argument is not None else None
    if argument is None or lists is None or len(call.fusion.groups) != 1:
        raise NoFix("a list that is not written out once")
    flat = len(lists) == len(group.names)
    target = argument.value if flat else lists[0]
    kept = ", ".join(f'"{name}"' for name in group.names[: group.beginning])
    edit.replace(target.place, f"[{kept}]")
    title = Message.of("fix-fuse-beginning", names=shown(group.names[: group.beginning]))
    return edit.fix(title, Message.of("fix-fuse-beginning-reason"), Applicability.DISPLAY)
