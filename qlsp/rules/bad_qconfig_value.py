"""What is given as a qconfig is none.

## What it does
Flags a `.qconfig` that is a text, a function or class that was not called, an observer, a dict, a `QConfigMapping` or a
module of torch, if an eager prepare call gets the model; a QConfig, a text or a function in place of the
`QConfigMapping` of `prepare_fx` and `prepare_qat_fx`; and keywords that prepare calls do not have (`qconfig_dict=`).

## Why it matters
Every one of them raises, but only in prepare, away from the mistake (torch 2.13):

    AttributeError: 'str' object has no attribute '_fields'
    AttributeError: 'function' object has no attribute '_fields'
    AttributeError: 'QConfigMapping' object has no attribute '_fields'
    AttributeError: 'dict' object has no attribute '_fields'
    AttributeError: '_PartialWrapper' object has no attribute '_fields'
    TypeError: '_collections._tuplegetter' object is not callable
    TypeError: cannot pickle 'module' object
    AssertionError: qconfig_mapping must be a QConfigMapping
    TypeError: prepare_fx() got an unexpected keyword argument 'qconfig_dict'

A QConfig belongs on the modules of an eager model, a QConfigMapping into `prepare_fx`.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare


    def prepared():
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig  # QL309
        return prepare(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare


    def prepared():
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig()
        return prepare(net)

## Fix safety
The fix is offered where the value has one reading: the name of a backend, a function without its call, the mapping of a
backend in place of its qconfig and the other way round, one QConfig for a whole traced model, the former name of a
keyword. The code raised before.

## When it is silent
No prepare call gets the model, another qconfig is assigned before it does, or the value is one of several. A dict in
`prepare_fx` works, with a warning. Keywords are not judged under a handler of errors or a condition about versions, nor
for `prepare_fx` in projects that use a torch below 1.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Handover, LifecycleCall, QconfigAssignment, QconfigKind, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._life import assignments, calls
from qlsp.rules._order import after
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Mode, Stage, Workflow

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(
    code="QL309", name="bad-qconfig-value", severity=Severity.ERROR, since="0.1", predicts=Predicts.RAISES, fix="safe"
)

AO = "torch.ao.quantization."
MAPPED = (1, 13)
"""The first torch whose ``prepare_fx`` takes a QConfigMapping."""
NO_FIELDS = "AttributeError: {} has no attribute '_fields'"
ERRORS = {
    QconfigKind.TEXT: NO_FIELDS.format("'str' object"),
    QconfigKind.FUNCTION: NO_FIELDS.format("'function' object"),
    QconfigKind.MAPPING: NO_FIELDS.format("'QConfigMapping' object"),
    QconfigKind.DICT: NO_FIELDS.format("'dict' object"),
    QconfigKind.OBSERVER: "AttributeError: ... has no attribute '_fields'",
    QconfigKind.CLASS: "TypeError: '_collections._tuplegetter' object is not callable",
    QconfigKind.PACKAGE: "TypeError: cannot pickle 'module' object",
}
NO_MAPPING = frozenset(
    {QconfigKind.TEXT, QconfigKind.FUNCTION, QconfigKind.QCONFIG, QconfigKind.CLASS, QconfigKind.OBSERVER}
)
FORMER = {
    "qconfig_dict": "qconfig_mapping",
    "prepare_custom_config_dict": "prepare_custom_config",
    "backend_config_dict": "backend_config",
    "equalization_qconfig_dict": "_equalization_config",
}
"""Keywords of ``prepare_fx`` before torch 1.13, which take a dict as their successors do."""
_BACKEND = re.compile(r"""["'](?:x86|fbgemm|onednn|qnnpack)["']""")
_PLAIN = r"""[\w.]+(?:\([\w."', =-]*\))?"""
_DEFAULT = re.compile(r"""(?:\w+\.)*get_default_(qat_)?qconfig(_mapping)?(?:\(([\w."', =-]*)\))?""")
_WHOLE = re.compile(
    rf"""\{{\s*(?:""|'')\s*:\s*({_PLAIN})\s*,?\s*\}}|(?:\w+\.)*QConfigMapping\(\)\.set_global\(({_PLAIN})\)"""
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per value that prepare refuses."""
    script = ctx.script
    if script is None or script.vendor:
        return
    modern = ctx.torch is None or ctx.torch >= MAPPED
    found: dict[SpanId, Finding] = {}
    for index, event in assignments(script):
        finding = _assigned(script, index, event)
        if finding is not None:
            found.setdefault(event.span, finding)
    for index, call in calls(script):
        if call.row.workflow is Workflow.EAGER or (call.row.workflow is Workflow.FX and modern):
            for finding in _passed(index, call):
                found.setdefault(finding.span, finding)
    yield from found.values()


def _assigned(script: ScriptFacts, index: int, event: QconfigAssignment) -> Finding | None:
    error = ERRORS.get(event.kind)
    prepare = _prepared(script, index, event) if error is not None else None
    if error is None or prepare is None:
        return None
    model = f"`{event.shown}`" if event.shown else "the model"
    kind = "value" if event.kind is QconfigKind.TEXT else event.kind.value
    message = Message.of(f"bad-qconfig-{kind}", model=model, call=prepare.spelling, error=error)
    note = Note(Message.of("qconfig-read-here"), prepare.span)
    return Finding(event.span, message, related=(note,), subject=index)


def _prepared(script: ScriptFacts, index: int, event: QconfigAssignment) -> LifecycleCall | None:
    """The eager prepare call that reads what is assigned, if nothing is assigned in its place before."""
    for _, later in after(script, index):
        if isinstance(later, QconfigAssignment) and event.members <= later.members:
            return None
        if isinstance(later, Handover) and later.callee == "qconfig" and event.members <= later.members:
            return None
        if isinstance(later, LifecycleCall) and later.row.stage is Stage.PREPARE:
            read = later.row.workflow is Workflow.EAGER and event.members <= later.members
            return later if read else None
    return None


def _passed(index: int, call: LifecycleCall) -> Iterator[Finding]:
    """What a prepare call gets and refuses."""
    if call.row.stage is not Stage.PREPARE or call.in_forward:
        return
    for name, span in call.unexpected:
        successor = FORMER.get(name, "") if call.row.workflow is Workflow.FX else ""
        kind = "bad-qconfig-keyword-former" if successor else "bad-qconfig-keyword"
        last = call.row.names[0].rpartition(".")[2]
        message = Message.of(kind, call=call.spelling, function=last, name=name, successor=successor)
        yield Finding(span, message, subject=(index, name))
    if call.given is not None and call.given[0] in NO_MAPPING:
        message = Message.of("bad-qconfig-fx", call=call.spelling)
        yield Finding(call.given[1], message, subject=index)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Spell what is meant, where it can be told."""
    assert ctx.script is not None
    edit = ctx.edits()
    title, reason = Message.of("fix-qconfig-value"), Message.of("fix-qconfig-value-reason")
    if isinstance(finding.subject, tuple):
        index, name = finding.subject
        call = ctx.script.events[index]
        assert isinstance(call, LifecycleCall)
        successor = FORMER.get(name) if call.row.workflow is Workflow.FX else None
        if successor is None or successor in call.passed or "example_inputs" not in call.passed:
            raise NoFix("a keyword that has no successor, or more is missing")
        edit.rename_keyword(edit.call(call.span), name, successor)
        yield edit.fix(title, reason, Applicability.SAFE)
        return
    assert isinstance(finding.subject, int)
    event = ctx.script.events[finding.subject]
    if isinstance(event, LifecycleCall):
        assert event.given is not None
        place, path, qat = edit.expression(finding.span), finding.span.path, event.row.mode is Mode.QAT
        edit.replace(place.place, _mapping(edit, path, place.text, event.given[0], qat))
    else:
        assert isinstance(event, QconfigAssignment)
        prepare, found = _prepared(ctx.script, finding.subject, event), edit.assigned_value(finding.span)
        if prepare is None or found is None:
            raise NoFix("no plain assignment")
        path, qat = finding.span.path, prepare.row.mode is Mode.QAT
        edit.replace(found[1].place, _qconfig(edit, path, found[1].text, event.kind, qat))
    yield edit.fix(title, reason, Applicability.SAFE)


def _qconfig(edit: EditBuilder, path: str, text: str, kind: QconfigKind, qat: bool) -> str:
    """The QConfig that a value stands for."""
    maker = "get_default_qat_qconfig" if qat else "get_default_qconfig"
    default, whole = _DEFAULT.fullmatch(text), _WHOLE.fullmatch(text)
    if kind is QconfigKind.TEXT and _BACKEND.fullmatch(text):
        return f"{edit.spell(path, AO + maker)}({text})"
    if default is not None and bool(default[1]) == qat:
        if kind is QconfigKind.FUNCTION and not default[2]:
            return f"{text}()"
        if kind is QconfigKind.MAPPING and default[2]:
            return f"{edit.spell(path, AO + maker)}({default[3] or ''})"
    if kind in (QconfigKind.MAPPING, QconfigKind.DICT) and whole is not None:
        return whole[1] or whole[2]
    raise NoFix("a value with several readings")


def _mapping(edit: EditBuilder, path: str, text: str, kind: QconfigKind, qat: bool) -> str:
    """The QConfigMapping that a value stands for; the old namespace has none."""
    maker = "get_default_qat_qconfig_mapping" if qat else "get_default_qconfig_mapping"
    default = _DEFAULT.fullmatch(text)
    if kind is QconfigKind.TEXT and _BACKEND.fullmatch(text):
        return f"{edit.import_name(path, AO + maker)}({text})"
    if default is not None and bool(default[1]) == qat:
        return f"{edit.import_name(path, AO + maker)}({default[3] or ''})"
    if kind is QconfigKind.QCONFIG and default is None and re.fullmatch(_PLAIN, text):
        return f"{edit.import_name(path, AO + 'QConfigMapping')}().set_global({text})"
    raise NoFix("a value with several readings")
