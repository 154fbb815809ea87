"""A QConfig gets an observer that is built already.

## What it does
Flags `QConfig(...)` with an observer, a fake-quantize module or any other module as `activation` or `weight`.

## Why it matters
Prepare builds an observer for each layer, so a QConfig has to hold what builds one: a class, or what `with_args` gives
back. With an instance the constructor raises (torch 2.13):

    ValueError: QConfig received observer instance, please pass observer class instead

## Bad
    import torch
    from torch.ao.quantization import MinMaxObserver, QConfig, default_weight_observer


    def build():
        return QConfig(activation=MinMaxObserver(dtype=torch.quint8), weight=default_weight_observer)  # QL311

## Good
    import torch
    from torch.ao.quantization import MinMaxObserver, QConfig, default_weight_observer


    def build():
        return QConfig(activation=MinMaxObserver.with_args(dtype=torch.quint8), weight=default_weight_observer)

## Fix safety
The fix takes an empty `()` away and turns keywords into those of `with_args`. It is not offered for positional
arguments, which `with_args` does not take, and for an observer that is built elsewhere. The code raised before.

## When it is silent
It is not known what the argument is, or it is an observer on some paths only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import ObserverInstance
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(
    code="QL311",
    name="qconfig-observer-instance",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

PARAMETERS = ("activation", "weight")
_BUILT = re.compile(r"([\w.]+)\((.*)\)", re.DOTALL)
_KEYWORD = re.compile(r"\s*\w+\s*=[^=].*", re.DOTALL)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per QConfig that holds a module."""
    script = ctx.script
    if script is None or script.vendor:
        return
    for span, event in {e.span: e for e in script.events if isinstance(e, ObserverInstance)}.items():
        names = ", ".join(event.parameters)
        message = Message.of("qconfig-observer-instance", call=event.spelling, parameters=names)
        yield Finding(span, message, subject=event.parameters)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Pass the class, or the class with its arguments."""
    edit = ctx.edits()
    assert isinstance(finding.subject, tuple)
    call = edit.call(finding.span)
    for parameter in finding.subject:
        argument = call.argument(PARAMETERS.index(parameter), parameter)
        built = _BUILT.fullmatch(argument.value.text) if argument is not None else None
        if argument is None or built is None:
            raise NoFix("an observer that is built elsewhere")
        parts = _parts(built[2])
        if any(not _KEYWORD.fullmatch(part) for part in parts):
            raise NoFix("positional arguments")
        name = edit.qualified(finding.span.path, built[1]) or ""
        if parts and not name.startswith(("torch.ao.quantization.", "torch.quantization.")):
            raise NoFix("a class that may have no with_args")
        edit.replace(argument.value.place, f"{built[1]}.with_args({built[2]})" if parts else built[1])
    yield edit.fix(Message.of("fix-observer-class"), Message.of("fix-observer-class-reason"), Applicability.SAFE)


def _parts(text: str) -> list[str]:
    """The arguments in a text, which has to be balanced."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0 or letter == "#":
            raise NoFix("more than one call, or a comment")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [part for part in (*parts, text[start:]) if part.strip()]
