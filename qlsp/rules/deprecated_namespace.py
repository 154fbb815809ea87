"""A name is taken from a namespace that torch keeps for old code only.

## What it does
Flags `torch.quantization` and `torch.nn.quantized`, `torch.nn.qat`, `torch.nn.intrinsic`, `torch.nn.quantizable`:
each import, and the first attribute in a statement.

## Why it matters
Since torch 1.13 these packages hold nothing of their own: they give on the names of `torch.ao.quantization` and
`torch.ao.nn`, and not all of them (`torch.quantization` has no `fuse_modules_qat` and no `QConfigMapping`). The
classes are the same objects, so nothing changes today.

What comes next, by version of torch:

- 1.13 and later: `torch.ao.quantization` and `torch.ao.nn.quantized`, for eager mode and FX graph mode.
- 2.8 and later: calls of prepare, convert and kin announce that `torch.ao.quantization` itself goes away. The text
  says 2.10; torch 2.13 still has it. Eager mode's successor is `torchao.quantization.quantize_`, that of FX graph mode
  is PT2E in torchao.
- 2.11 and later: PT2E is in `torchao.quantization.pt2e` only.

## Bad
    from torch.quantization import DeQuantStub, QuantStub  # QL901

## Good
    from torch.ao.quantization import DeQuantStub, QuantStub

## Fix safety
The fix writes the new namespace. It is safe: both names stand for the same object.

## When it is silent
Projects that use a torch before 1.13 or whose requirements allow one (`torch>=1.7`), code that asks for versions or
catches `ImportError`, files that use a vendor's plugin, and statements with a name that does not exist at all (QL902).
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import NameUse, UseForm
from qlsp.diagnostics import Applicability, Fix, Message, Severity
from qlsp.rules._moved import anchor, gone, rename, statements, uses_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(code="QL901", name="deprecated-namespace", severity=Severity.INFO, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per statement that uses an old namespace."""
    if ctx.script is None or ctx.script.vendor:
        return
    for uses in statements(ctx.script):
        if any(gone(use, ctx.torch) for use in uses):
            continue
        old = next((use for use in uses if _old(use, ctx.oldest or ctx.torch)), None)
        if old is not None and old.namespace is not None:
            message = Message.of("deprecated-namespace", old=old.name, new=old.namespace.new)
            yield Finding(anchor(old), message, subject=old.statement)


def _old(use: NameUse, version: tuple[int, ...] | None) -> bool:
    """Is the old namespace written here, where there is a new one?"""
    if use.namespace is None or use.guarded or use.form is UseForm.STAR:
        return False
    if use.form is UseForm.ATTRIBUTE and not _spells_it(use):
        return False
    return version is None or version >= use.namespace.since


def _spells_it(use: NameUse) -> bool:
    """False for an attribute of a module that was imported from the old namespace: the import is reported."""
    return use.through.count(".") < (1 if use.name.startswith("torch.quantization") else 2)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Write the new namespace."""
    edit = ctx.edits()
    rename(edit, [use for use in uses_of(ctx, finding) if use.form is not UseForm.ATTRIBUTE or _spells_it(use)])
    yield edit.fix(Message.of("fix-namespace"), Message.of("fix-namespace-reason"), Applicability.SAFE)
