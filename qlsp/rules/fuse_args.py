"""A fuse call names modules that the model does not have, or nests its list the wrong way.

## What it does
Flags `fuse_modules` and `fuse_modules_qat` where a name is certainly no attribute of the model, and lists that are not
names, or lists of names: a single name, modules instead of names, one level too many, names beside lists, several
sequences in one flat list.

## Why it matters
The call looks each name up with `getattr` and raises at once:

    AttributeError: 'Net' object has no attribute 'batchnorm'

A flat list is one sequence, so `["conv1", "bn1", "conv2", "bn2"]` asks for a fuser of four modules:
`AssertionError: did not find fuser method for: (...)`.

## Bad
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv, self.bn = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

        def forward(self, x):
            return self.dequant(self.bn(self.conv(self.quant(x))))


    def build():
        return tq.fuse_modules(Net().eval(), [["conv", "batchnorm"]])  # QL504

## Good
    import torch.ao.quantization as tq
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv, self.bn = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

        def forward(self, x):
            return self.dequant(self.bn(self.conv(self.quant(x))))


    def build():
        return tq.fuse_modules(Net().eval(), [["conv", "bn"]])

## Fix safety
Safe where one name of the model, and only one, is near the one that is missing (`bn_1` for `bn1`) or is the one
module that completes the sequence: the call raises as it is. No fix for the nesting.

## When it is silent
Models whose attributes are not all known: from another library, with `__getattr__`, handed to code that is not in
view. Lists that are computed, and calls with a fuser of their own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from qlsp.analysis.facts import FuseForm, FuseGroup
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._fuse import fuse_calls, shown
from qlsp.rules._life import call_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta, attempts

META = RuleMeta(
    code="QL504", name="fuse-args", severity=Severity.ERROR, since="0.1", predicts=Predicts.RAISES, fix="safe"
)

NEAR = 0.6
NICKNAMES = {"batchnorm": "bn", "norm": "bn", "conv": "convolution", "activation": "act", "relu": "act"}
"""Words for one kind of layer."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every fuse call that cannot find what it is asked for."""
    for index, call, fusion in fuse_calls(ctx):
        if fusion.form is not FuseForm.GOOD:
            message = Message.of(f"fuse-args-{fusion.form.value}", call=call.spelling)
            yield Finding(call.span, message, subject=index)
            continue
        for group in fusion.groups:
            if group.missing:
                name, names = group.missing[0]
                message = Message.of("fuse-args", name=name, names=shown(names[:8]), call=call.spelling)
                yield Finding(call.span, message, subject=index)
                break


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Correct the names, if one name of the model is near each of them."""
    yield from attempts(lambda: _renamed(ctx, finding))


def _renamed(ctx: RuleContext, finding: Finding) -> Fix:
    call = call_of(ctx, finding)
    assert ctx.script is not None and call.fusion is not None
    same = [c.fusion for _, c, _ in fuse_calls(ctx) if c.span == call.span]
    if any(other != call.fusion for other in same):
        raise NoFix("the call fuses several models")
    edit = ctx.edits()
    site = edit.call(call.span)
    argument = site.argument(1, "modules_to_fuse")
    if argument is None:
        raise NoFix("the list is not an argument")
    text = edit.text(argument.value.place)
    renames = {name: _near(group, name, names) for group in call.fusion.groups for name, names in group.missing}
    if not renames:
        raise NoFix("the form is wrong, not a name")
    for old, new in renames.items():
        pattern = re.compile(rf"(?<=[\"']){re.escape(old)}(?=[\"'])")
        if len(pattern.findall(text)) != 1:
            raise NoFix("the name is not written out once")
        text = pattern.sub(new, text)
    edit.replace(argument.value.place, text)
    title = Message.of("fix-fuse-name", names=shown(tuple(renames.values())))
    return edit.fix(title, Message.of("fix-fuse-name-reason"), Applicability.SAFE)


def _near(group: FuseGroup, name: str, names: tuple[str, ...]) -> str:
    """The one name of the model that is near a missing one."""
    prefix, _, last = name.rpartition(".")
    used = {each.rpartition(".")[2] for each in group.names}
    free = [each for each in names if each not in used]
    found = [each for each in free if _plain(each) == _plain(last)]
    if not found:
        found = difflib.get_close_matches(last, free, n=3, cutoff=NEAR)
    if len(found) != 1:
        raise NoFix("no name, or several, are near")
    return f"{prefix}.{found[0]}".lstrip(".")


def _plain(name: str) -> str:
    """A name without case and underscores, and with one word for each kind of layer."""
    words = re.match(r"([a-z]*)(.*)", name.lower().replace("_", ""))
    assert words is not None
    return NICKNAMES.get(words[1], words[1]) + words[2]
