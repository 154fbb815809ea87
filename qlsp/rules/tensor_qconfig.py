"""A qconfig is assigned to a tensor or a parameter, or inside forward.

## What it does
Flags `.qconfig = ...` on a tensor or a parameter anywhere, and on anything inside `forward`.

## Why it matters
Prepare looks for a qconfig on modules only, before the first forward. On a tensor, Python accepts the attribute,
`clone()` and every operator drop it, and nobody reads it: measured with torch 2.13.0, a model whose only qconfig
sits on a tensor gets no observer, with the warning `None of the submodule got qconfig applied`. Inside `forward`
even a module's qconfig comes after prepare has read it.

Two tensors with one qconfig do not share a scale either: see `cat-mixed-scales`.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub, default_qconfig


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            x.qconfig = default_qconfig  # QL312
            return self.dequant(self.fc(self.quant(x)))

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub, default_qconfig


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.fc = nn.Linear(4, 4)
            self.qconfig = default_qconfig

        def forward(self, x):
            return self.dequant(self.fc(self.quant(x)))

## Fix safety
The fix deletes the statement, which has no effect. It is unsafe because what it was meant to do is then done nowhere:
the qconfig belongs on a module, before prepare.

## When it is silent
Constructors, objects of unknown kind outside of forward, and a forward that prepares a model itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import QconfigAssignment, QconfigTarget, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(code="QL312", name="tensor-qconfig", severity=Severity.ERROR, since="0.1", fix="unsafe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per assignment that prepare cannot see."""
    script = ctx.script
    if script is None or script.vendor:
        return
    lazy = any(call.in_forward for _, call in calls(script))
    seen = set()
    for event in script.events:
        if isinstance(event, QconfigAssignment) and event.span not in seen:
            kind = _kind(event, lazy)
            if kind is not None and not _elsewhere(script, event, kind):
                seen.add(event.span)
                target = f"`{event.shown}`" if event.shown else "this"
                yield Finding(event.span, Message.of(kind, target=target))


def _kind(event: QconfigAssignment, lazy: bool) -> str | None:
    if event.target is QconfigTarget.TENSOR:
        return "tensor-qconfig"
    return "qconfig-in-forward" if event.in_forward and not event.cleared and not lazy else None


def _elsewhere(script: ScriptFacts, event: QconfigAssignment, kind: str) -> bool:
    """Does another run give this line something else than a tensor, or reach it outside of forward?"""
    modules = (QconfigTarget.MODULE, QconfigTarget.LEAF)
    others = [
        other
        for other in script.events
        if isinstance(other, QconfigAssignment) and other.span == event.span and other.target in modules
    ]
    return any(kind == "tensor-qconfig" or not other.in_forward for other in others)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Take the statement out."""
    edit = ctx.edits()
    if not _ASSIGNMENT.fullmatch(edit.text(finding.span)):
        raise NoFix("a statement that does more")
    edit.delete_statement(finding.span)
    yield edit.fix(Message.of("fix-delete"), Message.of("fix-delete-unseen-reason"), Applicability.UNSAFE)


_ASSIGNMENT = re.compile(r"(?:[\w.]+\.qconfig\s*=\s*)+[\w.]+(?:\(\s*[\w.\"'=, -]*\s*\))?")
