"""A name is used that torch does not have there.

## What it does
Flags names of `torch.quantization` and `torch.ao.quantization` that these packages never had or no longer have, and
star imports of the two.

## Why it matters
The old namespace stopped growing: what was added since is in `torch.ao.quantization` only. With torch 2.13:

    AttributeError: module 'torch.quantization' has no attribute 'fuse_modules_qat'
    ImportError: cannot import name 'QConfigMapping' from 'torch.quantization'

The functions of FX graph mode never were names of the package; they are in its module `quantize_fx`:

    ImportError: cannot import name 'prepare_fx' from 'torch.ao.quantization'

And a star import raises, because the list of public names has some that the package lacks:

    AttributeError: module 'torch.ao.quantization' has no attribute 'MatchAllNode'
    AttributeError: module 'torch.quantization' has no attribute '_prepare_ondevice_dynamic_jit'

## Bad
    import torch


    def fuse(net):
        return torch.quantization.fuse_modules_qat(net.train(), [["0", "1", "2"]])  # QL902

## Good
    import torch


    def fuse(net):
        return torch.ao.quantization.fuse_modules_qat(net.train(), [["0", "1", "2"]])

## Fix safety
The fix takes the name from where it is; a star import becomes an import of the names that the file uses. It is safe:
the code raised before.

## When it is silent
Code that asks for versions, catches the error or expects it, names that this torch still has by the version the
project says it uses, and files that use a vendor's plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import NameUse, UseForm
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._moved import anchor, elsewhere, error, gone, rename, statements, uses_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(
    code="QL902",
    name="removed-name",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per statement that uses a name which is not there."""
    if ctx.script is None or ctx.script.vendor:
        return
    for uses in statements(ctx.script):
        missing = next((use for use in uses if gone(use, ctx.torch) and not elsewhere(use)), None)
        if missing is not None and missing.missing is not None:
            yield Finding(anchor(missing), _message(missing), subject=missing.statement)


def _message(use: NameUse) -> Message:
    assert use.missing is not None
    if use.form is UseForm.STAR:
        return Message.of("removed-name-star", package=use.name, error=error(use))
    parent, _, last = use.name.rpartition(".")
    if use.missing.home is None:
        return Message.of("removed-name-lost", name=last, package=parent, error=error(use))
    return Message.of("removed-name", name=last, package=parent, home=use.missing.home, error=error(use))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Take the name from where it is."""
    edit, uses = ctx.edits(), uses_of(ctx, finding)
    first = uses[0]
    if first.form is UseForm.STAR:
        assert first.missing is not None
        names = edit.names_in(first.span.path, first.missing.gives)
        if not names:
            raise NoFix("no name of the package is used")
        edit.replace(first.statement, f"from {first.missing.home} import {', '.join(names)}")
    else:
        rename(edit, uses)
    yield edit.fix(Message.of("fix-moved-name"), Message.of("fix-moved-name-reason"), Applicability.SAFE)
