"""The way through float: operators on dequantized operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qlsp.analysis.facts import OpCall
from qlsp.diagnostics import Message, NoFix
from qlsp.ops.spec import Observation, Role, Shape
from qlsp.rules._boundary import leaves_the_model
from qlsp.rules._operands import Emit, Kind, Operands, span_of
from qlsp.rules._rewrites import QUANT_STUB, dequant_stub, uses
from qlsp.values.value import Domain, SpanId, Unknown

if TYPE_CHECKING:
    from qlsp.syntax.edits import Place


class ThroughFloat(Operands):
    """Operators that run in float between two conversions."""

    def island(self, call: OpCall) -> Emit:
        """``self.quant(op(self.dequant(a)))``; without the stub where the result is no tensor to quantize, or only
        leaves the model."""
        if call.spec.shape not in (Shape.NEW, Shape.SAME, Shape.VIEW, Shape.INTEGER, Shape.SCALAR):
            raise NoFix("a result of several tensors")
        consumer = self.consumer(call)
        float_result = call.spec.observation is Observation.NONE or leaves_the_model(self.ctx, call)
        stubbed = consumer is not None and consumer.spec.role is Role.QUANTIZE
        self._operands(call)
        if not float_result and not stubbed:
            self.sole_call(call)
        self.doubts.add(Message.of("fix-through-float-reason"))
        self.ways.add("float")
        hint = f"quant_{call.spec.op.strip('_')}"

        def emit() -> str:
            dequant = f"{self.method.receiver}.{dequant_stub(self.ctx, self.edit, call)}"
            text = self.in_float(call, dequant)
            if float_result or stubbed:
                return text
            return f"{self.new(call, hint, QUANT_STUB)}({text})"

        return emit

    def _operands(self, call: OpCall) -> dict[SpanId, Kind]:
        """The tensor operands of a call as they are written, in every context the same; a list that is not written
        out as a whole."""
        found: dict[SpanId, Kind] = {}
        whole = self._whole_list(call)
        for facts, use in uses(self.ctx, call.span):
            for alternative in use.alternatives:
                for operand in alternative.operands:
                    value, span = operand.value, whole if whole is not None else operand.span
                    if span is None:
                        raise NoFix("an operand that is not written out")
                    if isinstance(value, Unknown):
                        continue
                    if value.domain is Domain.UNKNOWN:
                        self.doubts.add(Message.of("fix-doubt-unknown-input", root=facts.context.root))
                    kind = Kind.QUANTIZED if value.domain is Domain.QUANTIZED else Kind.FLOAT
                    if found.setdefault(span, kind) is not kind:
                        raise NoFix("an operand that differs between contexts")
        return found

    def _whole_list(self, call: OpCall) -> SpanId | None:
        """The list argument of a call where it is not written out."""
        if call.spec.sequence is None:
            return None
        bound = self.bound(call)
        if set(bound) != {call.spec.sequence}:
            raise NoFix("more than a list")
        key = bound[call.spec.sequence]
        return span_of(key) if self.edit.listed(key) is None else None

    def in_float(self, call: OpCall, dequant: str) -> str:
        """The operator on dequantized operands; operators inside it run in float, too."""
        operation = self.edit.operation(call.span)
        whole = self._whole_list(call)
        pieces: list[tuple[Place, str]] = []
        for span, kind in self._operands(call).items():
            if kind is not Kind.QUANTIZED:
                continue
            expression = self.edit.expression(span)
            if span in self.calls:
                self.check(self.calls[span])
                pieces.append((expression.inner, self.in_float(self.calls[span], dequant)))
            elif span == whole:
                operand = self._inside(span) if expression.atom else f"({self._inside(span)})"
                pieces.append((expression.place, f"[{dequant}(tensor) for tensor in {operand}]"))
            else:
                pieces.append((expression.place, f"{dequant}({self._inside(span)})"))
        if not operation.augmented:
            return self.edit.spliced(operation.place, pieces)
        texts = []
        for side in operation.operands:
            expression = self.edit.expression(side.key)
            written = self.edit.spliced(expression.place, pieces_in(pieces, expression.place))
            texts.append(written if expression.atom or written.startswith(dequant) else f"({written})")
        return f"{texts[0]} {(operation.sign or '').removesuffix('=')} {texts[1]}"

    def _inside(self, span: SpanId) -> str:
        """An operand that stays quantized, with what it contains rewritten."""
        expression = self.edit.expression(span)
        nested = self._nested_below(span)
        pieces = [(self.edit.expression(each).place, self.plan(call)()) for each, call in nested.items()]
        return self.edit.spliced(expression.inner, pieces)

    def _nested_below(self, span: SpanId) -> dict[SpanId, OpCall]:
        found: dict[SpanId, OpCall] = {}
        covered: set[SpanId] = set()
        for each in map(span_of, self.edit.below(span)):
            if each not in covered and each in self.calls:
                found[each] = self.calls[each]
                covered.update(map(span_of, self.edit.below(each)))
        return found


def pieces_in(pieces: list[tuple[Place, str]], place: Place) -> list[tuple[Place, str]]:
    """The pieces that lie in a place."""
    return [each for each in pieces if place.span.start <= each[0].span.start and each[0].span.end <= place.span.end]
