"""A model is traced without example inputs.

## What it does
Flags `prepare_fx` and `prepare_qat_fx` without `example_inputs`, and `torch.export.export` without `args`.

## Why it matters
Since torch 1.13 the argument has no default:

    TypeError: prepare_fx() missing 1 required positional argument: 'example_inputs'
    TypeError: prepare_qat_fx() missing 1 required positional argument: 'example_inputs'
    TypeError: export() missing 1 required positional argument: 'args'

Code that passes `qconfig_dict=` fails at that argument before.

## Bad
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    def quantize(batches):
        net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).eval()
        net = prepare_fx(net, get_default_qconfig_mapping("x86"))  # QL702
        for batch in batches:
            net(batch)
        return convert_fx(net)

## Good
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    def quantize(batches):
        net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).eval()
        net = prepare_fx(net, get_default_qconfig_mapping("x86"), (batches[0],))
        for batch in batches:
            net(batch)
        return convert_fx(net)

## Fix safety
The fix is shown only: nobody but you knows the shapes. Prepare does not run the model on them; a tuple with one
tensor for each argument of `forward` will do.

## When it is silent
A list of arguments that is not known (`*args`), a project that says it uses a torch before 1.13, and code that makes
the other call as well, for several versions.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import LifecycleCall, ScriptFacts
from qlsp.diagnostics import Applicability, Fix, Message, Predicts, Severity
from qlsp.rules._life import call_of, calls
from qlsp.rules.api import Finding, RuleContext, RuleMeta
from qlsp.values.value import SpanId
from qlsp.values.workflow import Stage, Workflow

META = RuleMeta(
    code="QL702",
    name="missing-example-inputs",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="display",
)

SINCE = (1, 13)
ARGUMENT = {(Stage.PREPARE, Workflow.FX): "example_inputs", (Stage.EXPORT, Workflow.PT2E): "args"}
"""The parameter without which a call raises, by what the call does; it is the one behind those of the row."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per call that lacks its example inputs."""
    script = ctx.script
    if script is None or script.vendor or ctx.torch is not None and ctx.torch < SINCE:
        return
    seen: set[SpanId] = set()
    for index, call in calls(script):
        if call.span in seen or not _lacks(call) or _also_made_right(script, call):
            continue
        seen.add(call.span)
        function = call.row.names[0].rpartition(".")[2]
        message = Message.of("missing-example-inputs", call=call.spelling, function=function, argument=_argument(call))
        yield Finding(call.span, message, subject=index)


def _argument(call: LifecycleCall) -> str:
    return ARGUMENT[call.row.stage, call.row.workflow]


def _lacks(call: LifecycleCall) -> bool:
    known = (call.row.stage, call.row.workflow) in ARGUMENT
    return known and call.passed.isdisjoint({"*", "?", "qconfig_dict", _argument(call)})


def _also_made_right(script: ScriptFacts, call: LifecycleCall) -> bool:
    """Does the same code prepare the same model with example inputs, for another version of torch?"""
    return any(
        other.entry == call.entry and other.row is call.row and other.members & call.members and not _lacks(other)
        for _, other in calls(script)
    )


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Show where the example inputs go."""
    call, edit = call_of(ctx, finding), ctx.edits()
    edit.add_argument(call.span, f"{_argument(call)}=(example_input,)")
    title = Message.of("fix-example-inputs", argument=_argument(call))
    yield edit.fix(title, Message.of("fix-example-inputs-reason"), Applicability.DISPLAY)
