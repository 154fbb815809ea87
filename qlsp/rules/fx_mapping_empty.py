"""A QConfigMapping says nothing about the model, so nothing is quantized.

## What it does
Flags `prepare_fx` and `prepare_qat_fx` with a mapping without entries, and entries for a module name or a layer class
that the model certainly does not have, if the mapping gives the model no other qconfig. A name that the model does not
have in a mapping that quantizes something else is a warning.

## Why it matters
FX matches what it finds and says nothing about the rest. Measured with torch 2.13.0 for an empty `QConfigMapping()`, a
class that the model does not have, and a name with a typing error: 0 modules quantized, no warning. An attribute
`model.qconfig`, which eager mode reads, is not read by FX.

## Bad
    from torch import nn
    from torch.ao.quantization import QConfigMapping, get_default_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(6, 8)
            self.classifier = nn.Linear(8, 3)

        def forward(self, x):
            return self.classifier(self.embed(x))


    def quantize(x):
        mapping = QConfigMapping()
        mapping.set_module_name("classifer", get_default_qconfig("x86"))  # QL703
        net = prepare_fx(Tagger().eval(), mapping, (x,))
        net(x)
        return convert_fx(net)

## Good
    from torch import nn
    from torch.ao.quantization import QConfigMapping, get_default_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(6, 8)
            self.classifier = nn.Linear(8, 3)

        def forward(self, x):
            return self.classifier(self.embed(x))


    def quantize(x):
        mapping = QConfigMapping()
        mapping.set_module_name("classifier", get_default_qconfig("x86"))
        net = prepare_fx(Tagger().eval(), mapping, (x,))
        net(x)
        return convert_fx(net)

## What else helps
`get_default_qconfig_mapping("x86")` quantizes all that FX can.

## When it is silent
The mapping or a part of it is not known, code that is not in view gets it, the model or a part of it comes from
outside, an entry is for functions, methods or fused classes, or a name is set in a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, MappingEntry, MappingKey, ModelContents, QconfigMapping, QconfigUse
from qlsp.diagnostics import Message, Severity
from qlsp.rules._life import calls
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Stage

META = RuleMeta(code="QL703", name="fx-mapping-empty", severity=Severity.ERROR, since="0.1")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per mapping that gives a model no qconfig, and per name that a model does not have."""
    script = ctx.script
    if script is None or script.vendor:
        return
    found: dict[SpanId, Finding] = {}
    fine: set[SpanId] = set()
    for index, call in calls(script):
        mapping = call.tracing.mapping if call.tracing is not None else None
        if mapping is None or call.row.stage is not Stage.PREPARE or call.in_forward:
            continue
        wrong = list(_judged(index, call, mapping))
        for finding in wrong:
            found.setdefault(finding.span, finding)
        fine |= {call.span, *(entry.span for entry in mapping.entries)} - {finding.span for finding in wrong}
    yield from (finding for span, finding in found.items() if span not in fine)


def _judged(index: int, call: LifecycleCall, mapping: QconfigMapping) -> Iterator[Finding]:
    if not call.contents.whole or not mapping.whole:
        return
    absent = [entry for entry in mapping.entries if _absent(entry, call.contents)]
    useful = [entry for entry in mapping.entries if entry not in absent and entry.use is not QconfigUse.FLOAT]
    model = f"`{call.model}`" if call.model else "the model"
    if mapping.bare and not useful:
        wrong = next((entry for entry in absent if entry.use is not QconfigUse.FLOAT), None)
        if wrong is None:
            if not mapping.entries:
                yield Finding(call.span, Message.of("fx-mapping-empty", call=call.spelling, model=model), subject=index)
            return
        message = Message.of("fx-mapping-absent", key=_shown(wrong), call=call.spelling, model=model)
        yield Finding(wrong.span, message, related=_prepared(call), subject=index)
        return
    for entry in absent:
        if entry.kind is MappingKey.NAME and entry.sure and entry.span != call.span:
            message = Message.of("fx-mapping-no-name", key=_shown(entry), model=model)
            yield Finding(entry.span, message, Severity.WARNING, related=_prepared(call), subject=index)


def _prepared(call: LifecycleCall) -> tuple[Note, ...]:
    return (Note(Message.of("fx-mapping-used"), call.span),)


def _absent(entry: MappingEntry, contents: ModelContents) -> bool:
    """Does an entry certainly match no module and no function of the model?"""
    key = entry.key
    if key is None:
        return False
    match entry.kind:
        case MappingKey.TYPE:
            plain = key.startswith("torch.nn.") and not key.startswith(("torch.nn.functional.", "torch.nn.intrinsic."))
            layer = plain and key.rpartition(".")[2][:1].isupper() and "quant" not in key
            return layer and key not in {cls for _, cls in contents.modules}
        case MappingKey.NAME:
            return bool(key) and contents.paths is not None and key not in contents.paths
        case MappingKey.REGEX:
            return _matches_none(key, contents.paths)
        case _:
            return False


def _matches_none(pattern: str, paths: frozenset[str] | None) -> bool:
    if paths is None:
        return False
    try:
        expression = re.compile(pattern)
    except re.error:
        return False
    return not any(expression.match(path) for path in ("", *paths))


def _shown(entry: MappingEntry) -> str:
    key = entry.key or ""
    return f"`{key.rpartition('.')[2]}`" if entry.kind is MappingKey.TYPE else f"`{key}`"
