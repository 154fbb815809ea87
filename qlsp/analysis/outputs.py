"""What scripts do with the results of models: whether another model gets them, and what a converted model's meets.

In a script the forward of a model is not run. Its result is a tensor that is taken as quantized where the model was
converted: whether it is, the analysis of the model tells later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from qlsp.analysis.facts import Alternative, OutputUse
from qlsp.analysis.machine import Arguments
from qlsp.analysis.registration import Registration
from qlsp.analysis.unread import dropped
from qlsp.backends.spec import LifecycleRow
from qlsp.ops.spec import OpSpec, Role
from qlsp.values.qparams import Dtype, ObservedScale, ObserverRef, QParams
from qlsp.values.state import DictObject, ListObject, State
from qlsp.values.value import (
    A_NUMBER,
    Bound,
    Const,
    Domain,
    RecordValue,
    Ref,
    SpanId,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    options_of,
)
from qlsp.values.workflow import Stage, Workflow

RESULT = "result"
"""The observer slot that stands for whatever decides the scale of a converted model's result."""

AWARE = frozenset({"dequantize", "int_repr", "q_scale", "q_zero_point", "qscheme", "is_quantized"})
"""Attributes that only who expects a quantized tensor uses."""

_RESHAPING = re.compile(r"(?i)quant|stub|wrap|convert|prepare|patch|replace")

_STUBS = re.compile(r"(?i)quant|stub|wrap")
"""Text of a function that may put stubs around a part of a model."""


class Outputs(Registration):
    """Results of models in scripts."""

    converted: set[int]
    results: dict[int, int]
    fed: set[int]
    feeding: set[int]
    reshaped: set[int]

    def record_lifecycle(
        self,
        row: LifecycleRow,
        model: Value,
        arguments: Arguments,
        node: cst.Call,
        state: State,
        copies: dict[int, int],
    ) -> Value:
        """Remember which objects are converted models."""
        result = super().record_lifecycle(row, model, arguments, node, state, copies)
        converts = row.stage is Stage.CONVERT or "run_fn" in row.params
        if self.facts is None and converts and row.workflow is Workflow.EAGER:
            self.converted.update(option.oid for _, option in options_of(result) if isinstance(option, Ref))
        return result

    def copied(self, original: int, copy: int) -> None:
        """A copy of a converted model is one."""
        super().copied(original, copy)
        if original in self.converted:
            self.converted.add(copy)
        if original in self.reshaped:
            self.reshaped.add(copy)

    def _hand_over(self, values: Iterable[Value], callee: str, state: State) -> None:
        """Code that is not in view may put stubs around a model, if its name says something like it."""
        given = list(values)
        super()._hand_over(given, callee, state)
        if _RESHAPING.search(callee):
            for value in given:
                self.reshaped |= self._reach(value, state)

    def _hand_down(self, values: Iterable[Value], function: SpanId, state: State) -> None:
        """The body of a recursion is in view, so it puts stubs around no model unless it says so."""
        if _STUBS.search(self.functions[function].unit.text):
            super()._hand_down(values, function, state)
        else:
            super()._hand_over(values, self.functions[function].name, state)

    def forward(self, method: Bound, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """In a script, a tensor that stands for the result."""
        if self.facts is not None or not isinstance(method.receiver, Ref) or node is None:
            return super().forward(method, arguments, node, state)
        model = self.origin_of(method.receiver.oid)
        for value in self.tensors_in(arguments, state):
            source = self._source(value)
            if source is not None:
                self.fed.add(model)
                self.feeding.add(source)
        number = self.number(("result", model, self.span(node), self.path))
        self.results[number] = model
        if method.receiver.oid not in self.converted:
            return Tensor(Domain.UNKNOWN, number, number, collection=True)
        scale = ObservedScale(ObserverRef(model, RESULT))
        return Tensor(Domain.QUANTIZED, number, number, QParams(Dtype.QUINT8, scale), collection=True)

    def apply(
        self,
        row: OpSpec,
        spelling: str,
        arguments: Arguments,
        node: cst.CSTNode,
        state: State,
        owner: Ref | None = None,
    ) -> Value:
        """Remember the call of a stub on no tensor, and that of a QuantStub whose result nobody reads."""
        stub = row.role in (Role.QUANTIZE, Role.DEQUANTIZE) and owner is not None
        if self.facts is None or not stub or not self._stack:
            return super().apply(row, spelling, arguments, node, state, owner)
        given = arguments.get(0, "x")
        if isinstance(given, Const):
            arguments = Arguments.of(Unknown("a constant where a tensor is expected"))
        result = super().apply(row, spelling, arguments, node, state, owner)
        key = (self.span(node), self.path)
        kinds = {self.kind_of(option, state) for _, option in options_of(given)} if given is not None else {None}
        self.facts.unfit.pop(key, None)
        self.facts.listed.pop(key, None)
        if None not in kinds:
            self.facts.unfit[key] = str(sorted(map(str, kinds))[0])
            members = self.items(given, state) if given is not None and kinds <= {"list", "tuple"} else None
            if members is not None:
                self.facts.listed[key] = tuple(members)
        if row.role is Role.DEQUANTIZE:
            return result
        inside = bool(self.path) and self.path[-1][0] == key[0]
        function = self.functions[self._stack[-1]].node
        if key in self.facts.op_calls and not inside and dropped(node, self.current.statement, function):
            self.facts.unread.add(key)
        return result

    def attribute(self, value: Value, name: str, state: State) -> Value:
        """Code that asks a result whether it is quantized, or for its integers, knows what it gets."""
        if self.facts is None and name in AWARE and (source := self._source(value)) is not None:
            self.feeding.add(source)
        return super().attribute(value, name, state)

    def kind_of(self, value: Value, state: State) -> str | None:
        """What an argument is that is certainly no tensor."""
        if isinstance(value, TupleValue):
            return "tuple" if not isinstance(value, RecordValue) else None
        if isinstance(value, Const):
            return "None" if value.value is None else "number"
        if isinstance(value, Unknown):
            return "number" if value.reason == A_NUMBER else None
        thing = self.load(state, value) if isinstance(value, Ref) else None
        if isinstance(thing, ListObject):
            return "list"
        return "dict" if isinstance(thing, DictObject) else None

    def _source(self, value: Value) -> int | None:
        """The model whose result a tensor is, or is a part of."""
        if not isinstance(value, Tensor):
            return None
        found = self.results.get(value.number, self.results.get(value.base))
        return found if found is not None else _model_of(value)

    def record(
        self,
        row: OpSpec,
        spelling: str,
        span: SpanId,
        alternatives: tuple[Alternative, ...],
        owner: Ref | None,
        converted: bool,
        is_open: bool,
        state: State,
        arguments: tuple[object, ...],
    ) -> None:
        """In a script, remember an operator that refuses the result of a converted model."""
        super().record(row, spelling, span, alternatives, owner, converted, is_open, state, arguments)
        if self.facts is not None or not self._recording():
            return
        for alternative in alternatives:
            for operand in alternative.operands:
                model = _model_of(operand.value)
                if model is not None and alternative.raises is not None:
                    self.script.uses.append(OutputUse(span, spelling, model, alternative.raises))


def _model_of(value: object) -> int | None:
    """The converted model whose result a tensor of a script is."""
    if not isinstance(value, Tensor) or value.qparams is None:
        return None
    scale = value.qparams.scale
    result = isinstance(scale, ObservedScale) and scale.observer.slot == RESULT
    return scale.observer.owner if result and isinstance(scale, ObservedScale) else None
