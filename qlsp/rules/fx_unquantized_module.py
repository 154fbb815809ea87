"""FX leaves a module in float and does not say so.

## What it does
Points at calls of recurrent, attention and transformer layers (and `nn.Bilinear`) in a model that `prepare_fx`
quantizes, if the mapping gives every layer a qconfig for static quantization.

## Why it matters
The tables of FX have no row for them: `convert_fx` leaves them as they are, without a warning. Measured with torch
2.13.0 on `nn.LSTM`, `nn.GRU`, `nn.RNN`, their cells, `nn.MultiheadAttention`, the transformer layers and `nn.Bilinear`:
0 modules quantized, the same output as the float layer. Whoever expects a model of a quarter of the size does not get
one.

## Bad
    from torch import nn
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 16, batch_first=True)
            self.out = nn.Linear(16, 4)

        def forward(self, x):
            h, _ = self.rnn(x)  # QL704
            return self.out(h)


    def quantize(x):
        net = prepare_fx(Speech().eval(), get_default_qconfig_mapping("x86"), (x,))
        net(x)
        return convert_fx(net)

## Good
    from torch import nn
    from torch.ao.quantization import default_dynamic_qconfig, get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx


    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, 16, batch_first=True)
            self.out = nn.Linear(16, 4)

        def forward(self, x):
            h, _ = self.rnn(x)
            return self.out(h)


    def quantize(x):
        mapping = get_default_qconfig_mapping("x86").set_object_type(nn.GRU, default_dynamic_qconfig)
        net = prepare_fx(Speech().eval(), mapping, (x,))
        net(x)
        return convert_fx(net)

## What else helps
A dynamic qconfig quantizes the weights of LSTM, GRU and the cells. There is none for attention: build it of `nn.Linear`
and `torch.matmul`, or leave it in float on purpose, with `None` in the mapping.

## When it is silent
The mapping is not known, or has an entry for the class or for modules by their names; a custom configuration is passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import MappingKey, Tracing
from qlsp.diagnostics import Message, Severity
from qlsp.rules._traced import quantizes_all, traced
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta

META = RuleMeta(code="QL704", name="fx-unquantized-module", severity=Severity.INFO, since="0.1")

CLASSES = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "MultiheadAttention", "Bilinear", "Transformer"),
        *("TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"),
    )
)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield one finding per call of a module that FX has no quantized class for."""
    context = ctx.facts.context
    if not traced(context):
        return
    for call in ctx.facts.op_calls.values():
        layer = ctx.facts.submodules.get(call.owner) if call.owner is not None else None
        if layer is None or layer.cls not in CLASSES or not _expected(context.tracing, layer.cls):
            continue
        notes = (Note(Message.of("module-made-here"), layer.span),) if layer.span is not None else ()
        names = {"module": layer.path or "the module", "kind": layer.cls.rpartition(".")[2]}
        yield Finding(call.span, Message.of("fx-unquantized-module", **names), related=notes)


def _expected(tracing: Tracing | None, cls: str) -> bool:
    """Is static quantization what the mapping asks for?"""
    mapping = tracing.mapping if tracing is not None else None
    if mapping is None or not mapping.whole or not quantizes_all(mapping):
        return False
    return all(
        entry.kind is MappingKey.GLOBAL or entry.kind is MappingKey.TYPE and entry.key not in (None, cls)
        for entry in mapping.entries
    )
