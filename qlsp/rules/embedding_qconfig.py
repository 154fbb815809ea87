"""A qconfig for layers reaches an embedding, which takes another kind.

## What it does
Flags the assignment of a qconfig that reaches an Embedding or EmbeddingBag and does not observe weights in float
qparams.

## Why it matters
Prepare and calibration run, in quantization-aware training all of the training; convert raises one of

    AssertionError: Embedding quantization is only supported with float_qparams_weight_only_qconfig.
    AssertionError: EmbeddingBag quantization is only supported with float_qparams_weight_only_qconfig.

With its own qconfig the table is quantized row by row (40 dB), with `qconfig = None` it stays in float. Its result is
float in both cases and needs a QuantStub.

## Bad
    from torch import nn
    from torch.ao.quantization import (
        DeQuantStub, QuantStub, convert, get_default_qconfig, prepare
    )


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 8)
            self.quant = QuantStub()
            self.score = nn.Linear(8, 1)
            self.dequant = DeQuantStub()

        def forward(self, ids):
            return self.dequant(self.score(self.quant(self.table(ids))))


    def quantize(batches):
        net = Net().eval()
        net.qconfig = get_default_qconfig("x86")  # QL508
        net = prepare(net)
        for ids in batches:
            net(ids)
        return convert(net)

## Good
    from torch import nn
    from torch.ao.quantization import (
        DeQuantStub, QuantStub, convert, float_qparams_weight_only_qconfig, get_default_qconfig, prepare
    )


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 8)
            self.quant = QuantStub()
            self.score = nn.Linear(8, 1)
            self.dequant = DeQuantStub()

        def forward(self, ids):
            return self.dequant(self.score(self.quant(self.table(ids))))


    def quantize(batches):
        net = Net().eval()
        net.qconfig = get_default_qconfig("x86")
        net.table.qconfig = float_qparams_weight_only_qconfig
        net = prepare(net)
        for ids in batches:
            net(ids)
        return convert(net)

## Fix safety
Safe where the mode is known: the embedding alone gets `float_qparams_weight_only_qconfig`, in quantization-aware
training `default_embedding_qat_qconfig`. Where the mode is not known the line is only shown.

## When it is silent
If the embedding has a qconfig of its own (or None), in FX mode, and where it is not known which qconfig reaches it.
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.analysis.facts import Mode, Submodule
from qlsp.diagnostics import Applicability, Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._layers import assigned_layers, layers, qconfig_lines
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta
from qlsp.values.value import SpanId

META = RuleMeta(
    code="QL508",
    name="embedding-qconfig",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

QCONFIGS = {
    Mode.PTQ: "torch.ao.quantization.float_qparams_weight_only_qconfig",
    Mode.QAT: "torch.ao.quantization.default_embedding_qat_qconfig",
    Mode.UNKNOWN: "torch.ao.quantization.float_qparams_weight_only_qconfig",
}


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each assignment that gives embeddings a qconfig for layers."""
    found: dict[SpanId, list[Submodule]] = {}
    for _, layer, _ in layers(ctx):
        if layer.assigned is not None and _refused(layer):
            found.setdefault(layer.assigned, []).append(layer)
    for assigned, reached in found.items():
        first = reached[0]
        assert first.spec is not None
        message = Message.of("embedding-qconfig", module=first.path or "the module", error=first.spec.refused or "")
        notes = tuple(Note(Message.of("module-made-here"), layer.span) for layer in reached if layer.span is not None)
        yield Finding(assigned, message, related=notes)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Give each embedding a qconfig for embeddings."""
    modes = {facts.context.mode for facts in ctx.everywhere if assigned_layers(facts, finding.span, _refused)}
    if len(modes) != 1:
        raise NoFix("several modes")
    mode = modes.pop()
    edit = ctx.edits()
    qconfig_lines(ctx, edit, finding.span, _refused, QCONFIGS[mode])
    known = mode is not Mode.UNKNOWN
    reason = Message.of("fix-embedding-reason" if known else "fix-mode-reason")
    yield edit.fix(Message.of("fix-embedding"), reason, Applicability.SAFE if known else Applicability.DISPLAY)


def _refused(layer: Submodule) -> bool:
    spec = layer.spec
    return spec is not None and spec.op.startswith("embedding") and layer.weights in spec.refused_weights
