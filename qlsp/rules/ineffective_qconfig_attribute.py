"""An attribute that is meant to make modules share a scale is set where nothing reads it.

## What it does
Flags assignments to `share_observation`, `share_observer` and `share_qconfig` of a QConfig or a module.

## Why it matters
Neither QConfig nor any module of torch has such an attribute. On a module Python accepts it and nothing happens;
a QConfig is a named tuple, and current versions refuse it with `AttributeError: 'QConfig' object has no attribute
'share_observation'`. Every branch still gets an observer and a scale of its own. What makes branches share
one scale is one module that sees all of them: `FloatFunctional.cat` for a concatenation.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare


    def prepared():
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.share_observer = True  # QL106
        net.qconfig = get_default_qconfig("x86")
        return prepare(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare


    def prepared():
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        return prepare(net)

## Fix safety
The fix deletes the statement; `pass` stays where the block would be empty. It is unsafe where the value is a name:
a module or parameter assigned to an attribute of a module is registered, under a name of its own in the checkpoint.

## When it is silent
Objects of unknown class, and files or classes that read an attribute of that name themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import StrayAttribute
from qlsp.diagnostics import Fix, Message, NoFix, Severity
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(code="QL106", name="ineffective-qconfig-attribute", severity=Severity.WARNING, since="0.1", fix="safe")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per such assignment."""
    script = ctx.script
    if script is None or script.vendor:
        return
    for span, event in {e.span: e for e in script.events if isinstance(e, StrayAttribute)}.items():
        yield Finding(span, Message.of("ineffective-qconfig-attribute", name=event.name, on=event.on))


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Take the statement out."""
    edit = ctx.edits()
    text = edit.text(finding.span)
    if not (_ASSIGNMENT.fullmatch(text) or _SETATTR.fullmatch(text)):
        raise NoFix("a statement that does more")
    from qlsp.rules._rewrites import Doubts

    doubts = Doubts()
    if not _CONSTANT.search(text):
        doubts.add(Message.of("fix-doubt-registers"))
    edit.delete_statement(finding.span)
    yield doubts.fix(edit, Message.of("fix-delete"), Message.of("fix-delete-stray-reason"))


_PLAIN = r"(?:[\w.]+|[\"'][^\"']*[\"'])"
_TARGET = r"[\w.\[\]\"']+\.share_(?:observation|observer|qconfig)\s*"
_ASSIGNMENT = re.compile(rf"(?:{_TARGET}=\s*)+{_PLAIN}")
_CONSTANT = re.compile(r"[=,]\s*(?:True|False|None|\d[\w.]*|[\"'][^\"']*[\"'])\s*,?\s*\)?\Z")
"""Text that ends in a constant, as the value."""
_SETATTR = re.compile(rf"setattr\(\s*[\w.]+\s*,\s*[\"']share_\w+[\"']\s*,\s*{_PLAIN}\s*,?\s*\)")
