"""A QConfig object is called as if it were a function.

## What it does
Flags a call of `default_qconfig`, `default_qat_qconfig` and the other ready-made QConfigs, and of what `QConfig(...)`,
`get_default_qconfig(...)` or `get_default_qat_qconfig(...)` gave back.

## Why it matters
A QConfig is a pair of observer factories, not a factory itself. The call raises

    TypeError: 'QConfig' object is not callable

The advice "it needs ()" holds for `get_default_qconfig`, which is a function. The names without `get_` are objects:
assign them as they are.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, default_qconfig, prepare


    def prepared():
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = default_qconfig()  # QL310
        return prepare(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, default_qconfig, prepare


    def prepared():
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = default_qconfig
        return prepare(net)

## Fix safety
The fix takes the empty `()` away. A call with arguments is left to the reader.

## When it is silent
A value that is a QConfig on one path only, and names that are not torch's.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import QconfigCall
from qlsp.diagnostics import Applicability, Fix, Message, Predicts, Severity
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(
    code="QL310", name="qconfig-called", severity=Severity.ERROR, since="0.1", predicts=Predicts.RAISES, fix="safe"
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per call of a QConfig."""
    script = ctx.script
    if script is None:
        return
    for span, event in {e.span: e for e in script.events if isinstance(e, QconfigCall)}.items():
        yield Finding(span, Message.of("qconfig-called", spelling=event.spelling))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Use the object as it is."""
    edit = ctx.edits()
    edit.uncall(finding.span)
    yield edit.fix(Message.of("fix-no-call"), Message.of("fix-no-call-reason"), Applicability.SAFE)
