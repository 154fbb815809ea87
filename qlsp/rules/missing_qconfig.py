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
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))).eval()
        net = prepare(net)  # QL301
        for batch in batches:
            net(batch)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        net = QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))).eval()
        net.qconfig = get_default_qconfig("x86")
        net = prepare(net)
        for batch in batches:
            net(batch)
        return convert(net)

## When it is silent
A model that comes from outside (a parameter, `torch.load`, a package that is not in view), one that was handed to
code that is not in view, and a call that gets a mapping. A qconfig assigned after prepare is reported where it is
assigned (`qconfig-after-prepare`).

## Limits
A model of which only one part has a qconfig is not reported here: that is how a part is quantized on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, QconfigState
from qlsp.diagnostics import Message, Severity
from qlsp.rules._life import assigned_after, calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL301", name="missing-qconfig", severity=Severity.ERROR, since="0.1")

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
            yield Finding(call.span, Message.of("missing-qconfig", call=call.spelling, model=model))


def _bare(call: LifecycleCall) -> bool:
    return (
        call.row.stage is Stage.PREPARE
        and call.row.workflow is Workflow.EAGER
        and call.qconfig is QconfigState.ABSENT
        and call.passed <= PLAIN
        and not call.in_forward
    )
