"""A model is prepared for quantization although nothing in it has a qconfig.

## What it does
Flags `prepare`, `prepare_qat`, `quantize` and `quantize_qat` of eager mode when the model is built in view and
certainly has no qconfig: neither itself nor any module in it got one, in its class, its constructor, a helper, a
loop or by `setattr`.

## Why it matters
A qconfig says which observers and fake-quantize modules to insert. Without one, prepare inserts none, convert
swaps nothing, and the model stays a float model. The only sign is a warning in the log:

    None of the submodule got qconfig applied

Measured with torch 2.13.0: 0 modules are quantized and the state of the example keeps its size in float; with
`net.qconfig = get_default_qconfig("x86")` in the line before prepare, every layer is quantized.

Setting the qconfig later and preparing again in place does not help: the first prepare stores `qconfig = None`
on every child, and a child's own attribute beats the parent's.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))).eval()
        net = prepare(net)  # QL301
        for batch in batches:
            net(batch)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## Fix safety
The fix assigns the default qconfig of the backend that the configuration (`qconfig-backend`) or the project names (as
a text, a constant or a default argument), else the one qconfig of torch that the project assigns elsewhere
(`tq.default_qconfig`), in the line before prepare; before `prepare_qat` that is one with fake-quantizers. It is
unsafe: which backend, and which observers, is a choice, and the model becomes a quantized one. Where no backend is
named the fix is shown only.

## When it is silent
A model that comes from outside (a parameter, `torch.load`, a package that is not in view), one that was handed to
code that is not in view, and a call that gets a mapping. A qconfig assigned after prepare is reported where it is
assigned (`qconfig-after-prepare`).

## Limits
A model of which only one part has a qconfig is not reported here: that is how a part is quantized on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import LifecycleCall, QconfigState
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import NEED_A_QCONFIG, assigned_after, call_of, calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.workflow import Mode, Stage, Workflow

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder

META = RuleMeta(code="QL301", name="missing-qconfig", severity=Severity.ERROR, since="0.1", fix="unsafe")

PLAIN = frozenset({"model", "inplace", "run_fn", "run_args", "allow_list"})
"""Arguments that bring no qconfig."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per prepare call that gets a model without a qconfig."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if call.span not in seen and _bare(call) and not assigned_after(script, index):
            seen.add(call.span)
            model = f"`{call.model}`" if call.model else "the model"
            yield Finding(call.span, Message.of("missing-qconfig", call=call.spelling, model=model), subject=index)


def _bare(call: LifecycleCall) -> bool:
    return (
        call.row.stage is Stage.PREPARE
        and call.row.workflow is Workflow.EAGER
        and call.qconfig is QconfigState.ABSENT
        and call.passed <= PLAIN
        and not call.in_forward
    )


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Give the model a default qconfig in the line before prepare."""
    call = call_of(ctx, finding)
    assert ctx.script is not None
    others = (other for _, other in calls(ctx.script) if other.span == call.span)
    if not call.model or any(other.qconfig is QconfigState.SET for other in others):
        raise NoFix("a model without a name, or one that has a qconfig elsewhere")
    edit = ctx.edits()
    if not edit.runs_once(call.span):
        raise NoFix("a call in a comprehension or a condition")
    qat = call.row.mode is Mode.QAT
    maker = "get_default_qat_qconfig" if qat else "get_default_qconfig"
    backend, applicability = ctx.backend or _backend(edit), Applicability.UNSAFE
    title = Message.of("fix-add-qconfig", model=call.model, backend=backend or "x86")
    if backend is None:
        whole = _whole_qconfig(edit, qat)
        if whole is not None:
            maker, title = whole, Message.of("fix-add-named-qconfig", model=call.model, name=whole)
        else:
            applicability = Applicability.DISPLAY
    name = edit.spell(call.span.path, f"{AO}{maker}", call.spelling)
    value = name if title.id == "fix-add-named-qconfig" else f'{name}("{backend or "x86"}")'
    edit.insert_before(call.span, f"{call.model}.qconfig = {value}")
    yield edit.fix(title, Message.of("fix-add-qconfig-reason"), applicability, NEED_A_QCONFIG)


def _backend(edit: EditBuilder) -> str | None:
    """The one backend that the files in view name, in place or by a constant or default of a name."""
    found = set(edit.found(_BACKEND))
    for name in edit.found(_BACKEND_NAME):
        last = re.escape(name.rpartition(".")[2])
        found.update(edit.found(re.compile(rf"\b{last}[\"']?\s*(?::[^=\n]*)?=\s*[\"'](\w+)[\"']")))
    return found.pop() if len(found) == 1 and found <= BACKENDS else None


def _whole_qconfig(edit: EditBuilder, qat: bool) -> str | None:
    """The one qconfig of torch that the files in view assign, if it is for the same kind of prepare."""
    found = {name for name in edit.found(_QCONFIG) if (name in QAT_QCONFIGS) == qat}
    return found.pop() if len(found) == 1 and found <= QAT_QCONFIGS | PTQ_QCONFIGS else None


AO = "torch.ao.quantization."
BACKENDS = frozenset({"x86", "fbgemm", "onednn", "qnnpack"})
PTQ_QCONFIGS = frozenset(
    {
        "default_qconfig",
        "default_symmetric_qnnpack_qconfig",
        "default_per_channel_qconfig",
        "default_per_channel_symmetric_qnnpack_qconfig",
    }
)
QAT_QCONFIGS = frozenset(
    {
        "default_qat_qconfig",
        "default_qat_qconfig_v2",
        "default_symmetric_qnnpack_qat_qconfig",
        "default_per_channel_symmetric_qnnpack_qat_qconfig",
    }
)
"""The qconfigs that torch.ao.quantization.qconfig of torch 2.13 has ready."""

_NAMED = r"(?:get_default_(?:qat_)?qconfig(?:_mapping)?\(\s*(?:backend\s*=\s*)?|quantized\.engine\s*=\s*)"
_BACKEND = re.compile(_NAMED + r"[\"'](\w+)[\"']")
_BACKEND_NAME = re.compile(_NAMED + r"([^\W\d][\w.]*)")
_QCONFIG = re.compile(r"\.qconfig\s*=\s*(?:\w+\.)*(default_\w*qconfig\w*)\s*$", re.M)
"""How a project names its backend, and its qconfig."""
