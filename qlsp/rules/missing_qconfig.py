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
The fix assigns the default qconfig of the backend that the configuration (`qconfig-backend`) or the project names,
in the line before prepare. It is unsafe: which backend, and which observers, is a choice, and the model becomes a
quantized one. Where no backend is named the fix is shown only.

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

from qlsp.analysis.facts import LifecycleCall, QconfigState
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import NEED_A_QCONFIG, assigned_after, call_of, calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.workflow import Mode, Stage, Workflow

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
    maker = "get_default_qat_qconfig" if call.row.mode is Mode.QAT else "get_default_qconfig"
    backend, applicability = ctx.backend, Applicability.UNSAFE
    if backend is None:
        found = edit.found(_BACKEND)
        backend = found[0] if len(found) == 1 else None
    if backend is None:
        backend, applicability = "x86", Applicability.DISPLAY
    name = edit.spell(call.span.path, f"torch.ao.quantization.{maker}", call.spelling)
    edit.insert_before(call.span, f'{call.model}.qconfig = {name}("{backend}")')
    title = Message.of("fix-add-qconfig", model=call.model, backend=backend)
    yield edit.fix(title, Message.of("fix-add-qconfig-reason"), applicability, NEED_A_QCONFIG)


_BACKEND = re.compile(
    r"(?:get_default_(?:qat_)?qconfig(?:_mapping)?\(\s*(?:backend\s*=\s*)?|quantized\.engine\s*=\s*)[\"'](\w+)[\"']"
)
"""How a project names its backend."""
