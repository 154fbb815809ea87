"""A single layer is quantized on its own.

## What it does
Flags eager `prepare`, `quantize` and `quantize_dynamic` of a bare layer (`nn.Linear(8, 8)`), if convert gets just that.

## Why it matters
Convert replaces the children of what it gets, never the model itself. A layer without a model around it stays a float
layer, and nothing says so: measured with torch 2.13.0, 0 modules are quantized, against 2 (the layer and its stub) with
a `QuantWrapper` around the layer.

## Bad
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        layer = nn.Linear(8, 4).eval()
        layer.qconfig = get_default_qconfig("x86")
        ready = prepare(layer)  # QL323
        for batch in batches:
            ready(batch)
        return convert(ready)

## Good
    from torch import nn
    from torch.ao.quantization import QuantWrapper, convert, get_default_qconfig, prepare


    def quantize(batches):
        layer = nn.Linear(8, 4).eval()
        layer.qconfig = get_default_qconfig("x86")
        layer = QuantWrapper(layer)
        ready = prepare(layer)
        for batch in batches:
            ready(batch)
        return convert(ready)

## Fix safety
Unsafe: the fix puts a `QuantWrapper` around the layer, whose checkpoint has other names. `quantize_dynamic` needs a
container without stubs, which is left to the reader.

## When it is silent
The layer comes from outside, has no qconfig, or convert gets a model around it: layers can be prepared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, QconfigState, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules._order import calls_after
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(code="QL323", name="root-leaf-quantized", severity=Severity.ERROR, since="0.1", fix="unsafe")

LEAVES = frozenset(
    f"torch.nn.{name}"
    for name in (
        "Linear",
        "Bilinear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "LSTM",
        "GRU",
        "RNN",
        "LSTMCell",
        "GRUCell",
        "RNNCell",
        "Embedding",
        "EmbeddingBag",
    )
)
"""Layers with weights and without children that convert could replace."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per call that quantizes nothing but a bare layer."""
    script = ctx.script
    if script is None or script.vendor:
        return
    seen = set()
    for index, call in calls(script):
        if call.span in seen or call.in_forward or not _bare(call) or not _stays(script, index, call):
            continue
        seen.add(call.span)
        model = f"`{call.model}`" if call.model else "The model"
        kind = (call.contents.leaf or "").removeprefix("torch.")
        message = Message.of("root-leaf-quantized", call=call.spelling, model=model, kind=kind)
        yield Finding(call.span, message, subject=index)


def _bare(call: LifecycleCall) -> bool:
    eager = call.row.workflow is Workflow.EAGER and call.row.stage in (Stage.PREPARE, Stage.DYNAMIC)
    return eager and call.contents.leaf in LEAVES and call.contents.whole


def _stays(script: ScriptFacts, index: int, call: LifecycleCall) -> bool:
    """Does convert certainly get the layer itself?"""
    if call.row.stage is Stage.DYNAMIC:
        return True
    if call.qconfig is QconfigState.ABSENT:
        return False
    later = [other for _, other in calls_after(script, index, Stage.CONVERT)]
    alone = all(other.contents.root == call.contents.root for other in later)
    return alone and (bool(later) or "run_fn" in call.row.params)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Put a model around the layer before it is prepared."""
    call, edit = call_of(ctx, finding), ctx.edits()
    if call.row.stage is Stage.DYNAMIC or not call.model or not edit.runs_once(call.span):
        raise NoFix("a container without stubs, a layer without a name, or a call that does not stand alone")
    name = edit.spell(call.span.path, "torch.ao.quantization.QuantWrapper", call.spelling)
    edit.insert_before(call.span, f"{call.model} = {name}({call.model})")
    title = Message.of("fix-wrap-leaf", model=call.model)
    yield edit.fix(title, Message.of("fix-wrap-leaf-reason"), Applicability.UNSAFE, ("QL307",))
