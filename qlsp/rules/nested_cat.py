"""A concatenation is only a part of another one along the same dimension.

## What it does
Flags a concatenation of quantized tensors of which one is itself a concatenation along the same dimension that nothing
else uses.

## Why it matters
The inner result is copied, and with a FloatFunctional each of its tensors is rounded twice, to the inner scale and to
the outer one. Measured with torch 2.13.0 (x86 qconfig) and branches of like range: 29.8 dB nested, 30.2 dB in one
concatenation.

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(4, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.pair = FloatFunctional()
            self.all = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            pair = self.pair.cat([self.first(x), self.second(x)], 1)
            x = self.all.cat([pair, x], 1)  # QL102
            return self.dequant(x)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.first = nn.Conv2d(4, 4, 1)
            self.second = nn.Conv2d(4, 4, 1)
            self.all = FloatFunctional()
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            x = self.all.cat([self.first(x), self.second(x), x], 1)
            return self.dequant(x)

## Fix safety
Safe: the tensors of the inner concatenation take its place, and the float model stays the same to the bit. Unsafe where
code in view loads a checkpoint after prepare, whose keys change. There is no fix where a list is not written out, or
where a statement between the two binds a name that the inner one reads.

## When it is silent
Where something else uses the inner result, as in a DenseNet. In loops, where the dimensions are not provably the same,
on float tensors, and where one of the two is raw and the other one of a FloatFunctional.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.analysis.scales import is_cat
from qlsp.diagnostics import Fix, Message, NoFix, Severity
from qlsp.ops.spec import Role
from qlsp.rules._functionals import functional_at
from qlsp.rules._rewrites import Doubts, call_of, consumers, require_eager, uses
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import Domain, SpanId, Tensor, options_of

META = RuleMeta(code="QL102", name="nested-cat", severity=Severity.INFO, since="0.1", fix="safe")

FIRST = ("int", "0")
"""The dimension of a concatenation that names none."""


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every outer concatenation."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for outer in ctx.facts.op_calls.values():
        inner = _inner(ctx.facts, outer)
        if inner is not None:
            related = (Note(Message.of("inner-cat"), inner.span),)
            subject = (inner.span, inner.path)
            message = Message.of("nested-cat")
            yield Finding(outer.span, message, assumes=assumption(ctx), related=related, subject=subject)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """One concatenation."""
    yield from attempts(lambda: _flat(ctx, call_of(ctx, finding.subject), finding.span))


def _inner(facts: Facts, outer: OpCall) -> OpCall | None:
    """The concatenation that is a part of this one and of nothing else."""
    if not _joins(outer):
        return None
    for operand in outer.alternatives[0].operands:
        origin = operand.value.origin if isinstance(operand.value, Tensor) else None
        inner = _producer(facts, operand.value) if origin is not None else None
        if inner is None or not _joins(inner) or inner.span == outer.span:
            continue
        together = inner.path == outer.path and inner.guard == outer.guard
        known = _dim(inner) is not None and _dim(inner) == _dim(outer)
        if together and known and list(consumers(facts, inner)) == [outer] and not _returned(facts, inner):
            return inner
    return None


def _producer(facts: Facts, value: object) -> OpCall | None:
    """The concatenation whose very result a tensor is."""
    for call in facts.op_calls.values():
        if call.spec.role is Role.CAT and any(each.output == value for each in call.alternatives):
            return call
    return None


def _joins(call: OpCall) -> bool:
    """A concatenation of tensors that are all shown and quantized, outside loops."""
    if call.spec.role is not Role.CAT or call.spec.op != "cat" or call.open or call.loop or call.alias:
        return False
    if len(call.alternatives) != 1 or not (is_cat(call) or call.converted):
        return False
    values = [operand.value for operand in call.alternatives[0].operands]
    known = all(isinstance(v, Tensor) and v.domain is Domain.QUANTIZED and not v.many for v in values)
    return len(values) > 1 and known


def _dim(call: OpCall) -> object:
    found = [pair[1] for pair in call.arguments if isinstance(pair, tuple) and pair[:1] in (("dim",), ("axis",))]
    if not found:
        return FIRST
    key = found[0]
    return key if isinstance(key, tuple) and key[:1] == ("int",) else None


def _returned(facts: Facts, inner: OpCall) -> bool:
    output = inner.alternatives[0].output
    return any(option == output for each in facts.returns for _, option in options_of(each.value))


def _flat(ctx: RuleContext, inner: OpCall, span: SpanId) -> Fix:
    edit, doubts = ctx.edits(), Doubts()
    require_eager(ctx, inner.span, doubts)
    for facts, use in uses(ctx, inner.span):
        if facts.context.workflow is Workflow.EAGER and [each.span for each in consumers(facts, use)] != [span]:
            raise NoFix("something else uses the inner result")
    if edit.loads_prepared(span.path):
        doubts.add(Message.of("fix-doubt-checkpoint"))
    one, other = edit.call(inner.span), edit.call(span)
    if any(argument.star or argument.keyword == "out" for site in (one, other) for argument in site.arguments):
        raise NoFix("arguments that are not shown")
    dims = [site.argument(1, "dim", "axis") for site in (one, other)]
    if len({dim.value.text if dim is not None else "0" for dim in dims}) != 1:
        raise NoFix("dimensions that are written differently")
    lists = [site.argument(0, "tensors", "x") for site in (one, other)]
    parts, whole = (each.elements if each is not None else None for each in lists)
    if not parts or whole is None:
        raise NoFix("a list that is not written out")
    number = next((n for n, each in enumerate(whole) if edit.feeds_only(inner.span, span, each)), None)
    if number is None:
        raise NoFix("the inner result is read elsewhere")
    texts = [edit.text(part.place) for part in parts]
    if any("#" in edit.text(site.place) for site in (one, other)):
        raise NoFix("comments in the lists")
    element = whole[number]
    if element.name is not None:
        _movable(edit.bound_between(inner.span, span)[1], texts, [edit.text(each.place) for each in whole[:number]])
        edit.delete_statement(inner.span)
    edit.replace(element.place, ", ".join(texts))
    if not is_cat(inner):
        with contextlib.suppress(NoFix):  # what is no attribute of the receiver stays
            edit.remove_submodule(edit.method(inner.span).cls, functional_at(ctx, edit, inner.span)[0])
    return doubts.fix(edit, Message.of("fix-flatten-cat"), Message.of("fix-flatten-cat-reason"))


def _movable(bound: frozenset[str], texts: list[str], before: list[str]) -> None:
    """The tensors mean the same further down, and calls keep their order."""
    words = {word for text in texts for word in re.findall(r"[^\W\d]\w*", text)}
    if words & bound:
        raise NoFix("a name that changes between the two")
    if any("(" in text for text in texts) and (bound or any("(" in text for text in before)):
        raise NoFix("calls that would change their order")
