"""A mapping gives one half of a pair that FX fuses its own qconfig.

## What it does
Flags `set_object_type` for one class of a convolution (or linear layer), BatchNorm and ReLU that FX fuses in the model,
if the mapping has no entry, or None, for the other one.

## Why it matters
FX fuses before it looks for qconfigs, and asks the mapping whether the classes of the fused modules agree. The default
for all (`set_global`) does not count. Measured with torch 2.13.0, also for the very qconfig that is the default:

    LookupError: During fusion, we need to specify the same qconfigs for all module types

`set_module_name` works.

## Bad
    from torch import nn
    from torch.ao.quantization import QConfigMapping, get_default_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    def quantize(x):
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
        mapping = QConfigMapping().set_object_type(nn.Linear, get_default_qconfig("x86"))  # QL708
        net = prepare_fx(net, mapping, (x,))
        net(x)
        return convert_fx(net)

## Good
    from torch import nn
    from torch.ao.quantization import QConfigMapping, get_default_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    def quantize(x):
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
        qconfig = get_default_qconfig("x86")
        mapping = QConfigMapping().set_object_type(nn.Linear, qconfig).set_object_type(nn.ReLU, qconfig)
        net = prepare_fx(net, mapping, (x,))
        net(x)
        return convert_fx(net)

## When it is silent
The mapping is not known as a whole, a custom configuration is passed, or the modules are not fused: something else uses
the output of the first. A ReLU that is a function is not looked at, though it may be fused, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Facts, MappingEntry, MappingKey, OpCall, QconfigMapping, QconfigUse
from qlsp.diagnostics import Message, Predicts, Severity
from qlsp.rules._rewrites import consumers, identity, outputs
from qlsp.rules._traced import traced
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import Choice, Tensor, TupleValue, Value
from qlsp.values.workflow import Mode

META = RuleMeta(
    code="QL708",
    name="fx-fused-qconfig-mismatch",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
)

FIRST = frozenset(f"torch.nn.{name}" for name in ("Conv1d", "Conv2d", "Conv3d", "Linear"))
RELU = "torch.nn.ReLU"
NORMS = {f"torch.nn.Conv{size}d": f"torch.nn.BatchNorm{size}d" for size in (1, 2, 3)}


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per entry that only some modules of a fused sequence have."""
    context = ctx.facts.context
    mapping = context.tracing.mapping if context.tracing is not None else None
    if not traced(context) or mapping is None or not mapping.whole or ctx.facts.gave_up:
        return
    seen = set()
    for call in ctx.facts.op_calls.values():
        chain = _chain(ctx.facts, call)
        classes = [cls for cls in map(lambda each: _class(ctx.facts, each), chain) if cls is not None]
        if context.mode is not Mode.QAT:
            classes = [cls for cls in classes if cls not in NORMS.values()]
        entries = {cls: _entry(mapping, cls) for cls in classes}
        own = next((entry for entry in entries.values() if entry is not None and entry.use is QconfigUse.STATIC), None)
        other = next((cls for cls, entry in entries.items() if entry is None or entry.use is QconfigUse.FLOAT), None)
        if len(classes) < 2 or own is None or other is None or own.span in seen:
            continue
        seen.add(own.span)
        names = {"kind": (own.key or "").rpartition(".")[2], "other": other.rpartition(".")[2]}
        note = Note(Message.of("fx-fused-here"), call.span)
        yield Finding(own.span, Message.of("fx-fused-qconfig-mismatch", **names), related=(note,))


def _entry(mapping: QconfigMapping, cls: str) -> MappingEntry | None:
    """The entry that counts for a class."""
    return next((e for e in reversed(mapping.entries) if e.kind is MappingKey.TYPE and e.key == cls), None)


def _class(facts: Facts, call: OpCall) -> str | None:
    layer = facts.submodules.get(call.owner) if call.owner is not None else None
    return layer.cls if layer is not None else None


def _chain(facts: Facts, call: OpCall) -> list[OpCall]:
    """The calls that FX fuses with one, itself first."""
    chain, first = [call], _class(facts, call)
    if first not in FIRST or not _called_once(facts, call):
        return []
    for wanted in (NORMS.get(first or ""), RELU):
        follower = _follower(facts, chain[-1])
        if follower is not None and _class(facts, follower) == wanted and _called_once(facts, follower):
            chain.append(follower)
    return chain


def _follower(facts: Facts, call: OpCall) -> OpCall | None:
    """The only use of what a call gives back."""
    found = list(consumers(facts, call))
    own = set(outputs(call))
    returned = any(identity(each) in own for value in facts.returns for each in _tensors(value.value))
    return found[0] if len(found) == 1 and not returned and not call.guard and not found[0].guard else None


def _called_once(facts: Facts, call: OpCall) -> bool:
    return sum(other.owner == call.owner for other in facts.op_calls.values()) == 1 and not call.loop


def _tensors(value: Value) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case TupleValue():
            for item in value.items:
                yield from _tensors(item)
        case Choice():
            for _, option in value.options:
                yield from _tensors(option)
