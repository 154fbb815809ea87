"""PT2E quantization is imported from torch, which no longer has it.

## What it does
Flags imports and attributes of `torch.ao.quantization.quantize_pt2e`, `torch.ao.quantization.pt2e`,
`torch.ao.quantization.quantizer` and of the functions for exported models that were in `torch.ao.quantization`.

## Why it matters
Torch 2.11 took them out; they are in torchao. With torch 2.13:

    ModuleNotFoundError: No module named 'torch.ao.quantization.quantize_pt2e'
    ModuleNotFoundError: No module named 'torch.ao.quantization.quantizer'
    ModuleNotFoundError: No module named 'torch.ao.quantization.pt2e'
    ImportError: cannot import name 'move_exported_model_to_eval' from 'torch.ao.quantization'

The XNNPACK quantizer went to ExecuTorch.

## Bad
    from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e  # QL707

## Good
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

## Fix safety
The fix imports the names from torchao, and is safe: the code raised before. It is unsafe where they come from
ExecuTorch, which is a package that the project may not have.

## When it is silent
Projects that say they use a torch before 2.11 (`torch` in the configuration, the environment, a lock file, a pinned
requirement), and code that asks for versions or catches `ImportError`.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import NameUse, UseForm
from qlsp.diagnostics import Applicability, Fix, Message, Predicts, Severity
from qlsp.rules._moved import anchor, elsewhere, gone, home, rename, statements, uses_of
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(
    code="QL707",
    name="pt2e-import-moved",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per statement that takes PT2E from torch."""
    if ctx.script is None or ctx.script.vendor:
        return
    for uses in statements(ctx.script):
        moved = next((use for use in uses if gone(use, ctx.torch) and elsewhere(use)), None)
        if moved is not None and not _imported_before(moved):
            message = Message.of("pt2e-import-moved", name=moved.name, home=home(moved))
            yield Finding(anchor(moved), message, subject=moved.statement)


def _imported_before(use: NameUse) -> bool:
    """An attribute of a module whose import is reported."""
    return use.form is UseForm.ATTRIBUTE and use.through.startswith("torch.ao.quantization.")


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Import from where it is now."""
    edit, uses = ctx.edits(), uses_of(ctx, finding)
    rename(edit, uses)
    added = any(home(use).startswith("executorch.") for use in uses)
    reason = "fix-moved-package-reason" if added else "fix-moved-name-reason"
    applicability = Applicability.UNSAFE if added else Applicability.SAFE
    yield edit.fix(Message.of("fix-moved-name"), Message.of(reason), applicability)
