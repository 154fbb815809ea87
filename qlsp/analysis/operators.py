"""Operator calls: bind arguments, apply the row to every alternative, record the fact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import libcst as cst

from qlsp.analysis.comprehensions import Comprehensions
from qlsp.analysis.facts import REST, Alternative, OpCall, Operand
from qlsp.analysis.machine import Argument, Arguments
from qlsp.ops.spec import Application, Observation, OpSpec, Outcome, Shape
from qlsp.ops.transfer import transfer
from qlsp.values.state import DictObject, HeapObject, Instance, ListObject, State
from qlsp.values.value import (
    NO_GUARD,
    NONE,
    OPEN_QCONFIG,
    TOO_MANY,
    Choice,
    Const,
    Domain,
    Guard,
    Origin,
    Ref,
    SpanId,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    exclusive,
    is_number,
    options_of,
)

MAX_ALTERNATIVES = 24

Vector = tuple[Guard, tuple[Operand, ...]]

GETITEM = OpSpec(
    "getitem",
    Observation.SHARE,
    "measured, torch 2.13.0: slicing and indexing keep scale and zero point",
    shape=Shape.PART,
)


class Operators(Comprehensions):
    """Application of operator rows."""

    def has_tensor(self, value: Value, state: State) -> bool:
        """True if the value is or may be a tensor."""
        if isinstance(value, Choice):
            return any(isinstance(option, Tensor) for _, option in value.options)
        return isinstance(value, Tensor)

    def apply(
        self,
        row: OpSpec,
        spelling: str,
        arguments: Arguments,
        node: cst.CSTNode,
        state: State,
        owner: Ref | None = None,
    ) -> Value:
        """Apply an operator row and record the call."""
        bound, extra = self._bind(row, arguments)
        span = self.span(node)
        vectors, is_open = self._vectors(row, bound, span, state)
        key = self._argument_key(row, bound, extra, owner, state)
        if arguments.open:
            key = (*key, (REST, ("fresh", self.fresh())))
        conversion = self.conversion(owner) if owner is not None else False
        converted = conversion is True
        origin = Origin(span, self.path)
        self.steps += len(vectors)
        alternatives: list[Alternative] = []
        results: list[tuple[Guard, Value]] = []
        outputs = self._output_count(row, bound, state)
        for guard, operands in vectors:
            if exclusive(guard, state.guard):
                continue
            tensors = tuple(self.as_tensor(operand.value, origin, i) for i, operand in enumerate(operands))
            if not tensors:
                results.append((guard, Unknown(f"{spelling} without a tensor")))
                continue
            application = Application(
                row,
                tensors,
                key,
                origin,
                self.number,
                owner.oid if owner is not None else None,
                converted,
                outputs,
            )
            outcome = transfer(application)
            if conversion is None:
                outcome = Outcome(self._either_way(application, outcome))
            value = self._listed(row, outcome.value, outputs, state)
            self._keep_storage(row, key, tensors, value)
            self._explain(value, tensors, spelling, conversion)
            results.append((guard, value))
            alternatives.append(Alternative(guard, operands, value, outcome.raises))
        self.record(row, spelling, span, tuple(alternatives), owner, converted, is_open, state, key)
        return choice(results) if results else Unknown(f"{spelling} on no known tensor")

    def _explain(self, value: Value, inputs: tuple[Tensor, ...], spelling: str, conversion: bool | None) -> None:
        """Note why it is not known whether a result is quantized."""
        if self.facts is None:
            return
        for tensor in value.items if isinstance(value, TupleValue) else (value,):
            if not isinstance(tensor, Tensor) or tensor.domain is not Domain.UNKNOWN:
                continue
            unknown = [each for each in inputs if each.domain is Domain.UNKNOWN]
            reason = f"the result of {spelling}"
            if unknown:
                reason = self.facts.why_unknown(unknown[0])
            elif conversion is None:
                reason = "a qconfig that the caller may set"
            self.facts.reasons.setdefault(tensor.number, reason)

    def _either_way(self, application: Application, unswapped: Outcome) -> Value:
        """The result of a module that convert may or may not swap. Where only the caller's qconfig is open and one of
        the two raises on such an input, it is that of the other: no correct program has the first."""
        owner = application.owner
        if owner is not None and self._only_configured_outside(owner):
            swapped = transfer(replace(application, converted=True))
            if unswapped == swapped or (unswapped.raises is None) != (swapped.raises is None):
                return unswapped.value if unswapped.raises is None else swapped.value
        return self._either(unswapped.value)

    def _only_configured_outside(self, owner: int) -> bool:
        """Is a qconfig of the caller all that decides whether convert swaps an instance?"""
        return self.effective is not None and self.effective.get(owner) == OPEN_QCONFIG and not self.is_derived(owner)

    def is_derived(self, owner: int) -> bool:
        """Is an instance of a subclass of the project of a class that convert swaps (see ``layers``)?"""
        return False

    def _either(self, value: Value) -> Value:
        """The result of a module that convert may or may not swap."""
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._either(item) for item in value.items))
        return replace(value, domain=Domain.UNKNOWN, qparams=None) if isinstance(value, Tensor) else value

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
        """Keep the fact; a later pass over the same span replaces it."""
        if self.facts is None or self.muted or not alternatives:
            return
        receiver = self.frame.receiver if self.frame is not None else None
        self.facts.op_calls[(span, self.path)] = OpCall(
            span,
            self.path,
            row,
            spelling,
            alternatives,
            state.guard,
            owner.oid if owner is not None else None,
            converted,
            is_open,
            self.loop_depth > 0 and state.guard <= self.loop_guard,
            receiver.oid if isinstance(receiver, Ref) else None,
            owner is not None and owner.oid in self.facts.aliases,
            arguments,
            self._held(spelling, alternatives, state),
        )

    def _held(self, spelling: str, alternatives: tuple[Alternative, ...], state: State) -> bool | None:
        """May something besides the statement look at the tensor that an in-place call changes?"""
        if not _in_place(spelling):
            return None
        statement = self.current.statement
        target = _changed(statement)
        bases = {
            self._storage(alternative.operands[0].value)
            for alternative in alternatives
            if alternative.operands and isinstance(alternative.operands[0].value, Tensor)
        }
        if target is None:
            return True
        others = [value for name, value in state.names.items() if name != target]
        things = [value for thing in state.heap.values() for value in _contents(thing)]
        return any(not bases.isdisjoint(self._storages(v)) for v in (*others, *things, *self.current.arguments))

    def _storage(self, value: Value) -> int:
        """A number that tensors have in common which may share their memory."""
        assert isinstance(value, Tensor)
        base = value.base
        while base in self.same_storage:
            base = self.same_storage[base]
        return base

    def _storages(self, value: Value) -> set[int]:
        found: set[int] = set()
        values = [value]
        while values:
            each = values.pop()
            if isinstance(each, Tensor):
                found.add(self._storage(each))
            elif isinstance(each, Choice):
                values.extend(option for _, option in each.options)
            elif isinstance(each, TupleValue):
                values.extend(each.items)
        return found

    def _keep_storage(self, row: OpSpec, key: tuple[object, ...], tensors: tuple[Tensor, ...], value: Value) -> None:
        """Note that a result may be the memory of the first operand: an in-place call, a dropout in eval mode."""
        changed = ("inplace", ("bool", "True")) in key or "dropout" in row.op
        if changed and isinstance(value, Tensor) and value.number != tensors[0].base:
            self.same_storage[value.number] = tensors[0].base

    def _listed(self, row: OpSpec, value: Value, outputs: int | None, state: State) -> Value:
        """A list result of unknown length."""
        if row.shape is Shape.PARTS and outputs is None and isinstance(value, Tensor):
            return self.allocate(state, ListObject(None, value))
        return value

    def _bind(self, row: OpSpec, arguments: Arguments) -> tuple[dict[str, Argument], list[Argument]]:
        bound: dict[str, Argument] = {}
        extra: list[Argument] = []
        for position, argument in enumerate(arguments.positional):
            if position < len(row.params):
                bound[row.params[position]] = argument
            else:
                extra.append(argument)
        for name, argument in arguments.keywords.items():
            bound.setdefault(name, argument)
        return bound, extra

    def _vectors(
        self, row: OpSpec, bound: dict[str, Argument], span: SpanId, state: State
    ) -> tuple[list[Vector], bool]:
        """All combinations of operands that can occur together."""
        vectors: list[Vector] = [(NO_GUARD, ())]
        is_open = False
        for name in (
            *row.tensors,
            *((row.sequence,) if row.sequence and row.sequence not in row.tensors else ()),
        ):
            argument = bound.get(name)
            if argument is None:
                continue
            columns: list[tuple[Guard, tuple[Operand, ...]]] = []
            for guard, value in options_of(argument.value):
                if name == row.sequence:
                    rows, open_list = self._sequence(argument, value, state)
                    is_open = is_open or open_list
                    columns.extend((guard | inner, operands) for inner, operands in rows)
                else:
                    columns.extend(self._single(argument, guard, value))
            vectors = [
                (g1 | g2, (*operands, *more))
                for g1, operands in vectors
                for g2, more in columns
                if not exclusive(g1, g2)
            ]
            if len(vectors) > MAX_ALTERNATIVES:
                operand = Operand(None, TOO_MANY)
                return [(NO_GUARD, (operand,))], is_open
        return vectors, is_open

    def _single(self, argument: Argument, guard: Guard, value: Value) -> list[Vector]:
        if is_number(value) or isinstance(value, Symbol):
            return [(guard, ())]
        span = self.span(argument.node) if argument.node is not None else None
        if isinstance(value, (Tensor, Unknown)):
            return [(guard, (Operand(span, value),))]
        return [(guard, (Operand(span, Unknown("a collection where a tensor is expected")),))]

    def _sequence(self, argument: Argument, value: Value, state: State) -> tuple[list[Vector], bool]:
        nodes = self._element_nodes(argument.node)
        items = self.items(value, state)
        if items is None:
            if isinstance(value, Unknown):
                return [(NO_GUARD, (Operand(None, value),))], True
            items = [self.element(value, -1, state)]
            is_open = True
        else:
            is_open = False
        vectors: list[Vector] = [(NO_GUARD, ())]
        for position, item in enumerate(items):
            node = nodes[position] if nodes is not None and len(nodes) == len(items) else None
            columns: list[Vector] = []
            for guard, option in options_of(item):
                columns.extend(self._single(Argument(option, node), guard, option))
            vectors = [
                (g1 | g2, (*operands, *more))
                for g1, operands in vectors
                for g2, more in columns
                if not exclusive(g1, g2)
            ]
            if len(vectors) > MAX_ALTERNATIVES:
                operand = Operand(None, TOO_MANY)
                return [(NO_GUARD, (operand,))], is_open
        return vectors, is_open

    def _element_nodes(self, node: cst.BaseExpression | None) -> list[cst.BaseExpression] | None:
        if isinstance(node, (cst.List, cst.Tuple)):
            if any(isinstance(element, cst.StarredElement) for element in node.elements):
                return None
            return [element.value for element in node.elements]
        return None

    def as_tensor(self, value: Tensor | Unknown, origin: Origin, position: int) -> Tensor:
        """An operand as a tensor; what is not known is a tensor of unknown domain."""
        if isinstance(value, Tensor):
            return value
        if value.symbol is not None:
            number = self.number(("unknown", value.symbol))
        else:
            number = self.number(("unknown", origin.span, origin.path, position, "operand"))
        if self.facts is not None:
            self.facts.reasons[number] = value.reason
        return Tensor(Domain.UNKNOWN, number, number)

    def _argument_key(
        self,
        row: OpSpec,
        bound: dict[str, Argument],
        extra: list[Argument],
        owner: Ref | None,
        state: State,
    ) -> tuple[object, ...]:
        parts: list[object] = []
        for name, argument in sorted(bound.items()):
            if name in row.tensors or name == row.sequence:
                if isinstance(argument.value, Symbol) or (is_number(argument.value) and argument.value != NONE):
                    parts.append((name, self.key_of(argument.value, state)))
                continue
            parts.append((name, self.key_of(argument.value, state)))
        parts.extend(self.key_of(argument.value, state) for argument in extra)
        if owner is not None:
            instance = self.load(state, owner)
            if isinstance(instance, Instance):
                parts.extend((name, self.key_of(value, state)) for name, value in instance.arguments)
        return tuple(parts)

    def key_of(self, value: Value, state: State) -> object:
        """A hashable stand-in of a non-tensor argument: equal keys, equal values."""
        match value:
            case Const():
                return (type(value.value).__name__, repr(value.value))
            case Symbol():
                return value.name
            case Tensor():
                return ("tensor", value.number)
            case Unknown():
                return value.symbol if value.symbol is not None else ("fresh", self.fresh())
            case TupleValue():
                return tuple(self.key_of(item, state) for item in value.items)
            case Ref():
                items = self.items(value, state)
                if items is not None:
                    return tuple(self.key_of(item, state) for item in items)
                return ("object", value.oid)
            case _:
                return ("fresh", self.fresh())

    def _output_count(self, row: OpSpec, bound: dict[str, Argument], state: State) -> int | None:
        """Number of parts of ``chunk``, ``split`` with a list, ``tensor_split``, ``unflatten`` where known."""
        if row.shape is not Shape.PARTS or len(row.params) < 2:
            return None
        argument = bound.get(row.params[1])
        if argument is None:
            return None
        items = self.items(argument.value, state)
        if items is not None:
            return len(items) + (row.op == "tensor_split")
        value = argument.value
        counted = row.op in ("chunk", "tensor_split")
        if counted and isinstance(value, Const) and isinstance(value.value, int):
            return value.value
        return None

    def slice_of(self, tensor: Tensor, key: object, node: cst.CSTNode) -> Tensor:
        """A part of a tensor: same domain and scale."""
        origin = Origin(self.span(node), self.path)
        application = Application(GETITEM, (tensor,), (key,), origin, self.number)
        result = transfer(application).value
        assert isinstance(result, Tensor)
        return result

    def tensors_in(self, arguments: Arguments, state: State) -> Iterator[Tensor | Unknown]:
        """Every tensor among call arguments, through lists and tuples."""
        values = [a.value for a in arguments.positional] + [a.value for a in arguments.keywords.values()]
        while values:
            value = values.pop()
            if isinstance(value, (Tensor, Unknown)):
                yield value
            elif isinstance(value, Choice):
                values.extend(option for _, option in value.options)
            elif isinstance(value, (TupleValue, Ref)) and self.instance(state, value) is None:
                items = self.items(value, state)
                if items is not None:
                    values.extend(items)

    @cached_property
    def same_storage(self) -> dict[int, int]:
        """Numbers of results to the numbers of operands whose memory they may be."""
        return {}

    def conversion(self, owner: Ref) -> bool | None:
        """True if convert swaps this instance: registered under the root, with a qconfig. None if the source
        leaves open whether a qconfig reaches it."""
        if self.effective is None:
            return False
        qconfig = self.effective.get(owner.oid)
        if qconfig == OPEN_QCONFIG:
            return None
        return qconfig is not None and qconfig != Const(None)


def _in_place(spelling: str) -> bool:
    """True for ``add_`` and ``+=``."""
    name = spelling.rpartition(".")[2]
    return name.endswith("_") and not name.endswith("__") or spelling.endswith("=") and spelling[0] not in "=!<>["


def _changed(statement: cst.BaseSmallStatement | None) -> str | None:
    """The name whose tensor a statement changes in place and that it may be bound to: ``a += b``, ``a.add_(b)``
    as a statement of its own or in an assignment to the same name."""
    match statement:
        case cst.AugAssign(target=cst.Name(value=name)):
            return name
        case cst.Expr(value=value):
            bound = None
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value):
            pass
        case cst.Return(value=value):
            bound = None
        case _:
            return None
    match value:
        case cst.Call(func=cst.Attribute(value=cst.Name(value=name))) if bound in (None, name):
            return str(name)
        case _:
            return None


def _contents(thing: HeapObject) -> Iterator[Value]:
    """The values in a heap object."""
    if isinstance(thing, ListObject):
        yield from (*(thing.items or ()), *([thing.element] if thing.element is not None else ()))
    elif isinstance(thing, DictObject):
        yield from (*(value for _, value in thing.entries), *([thing.rest] if thing.rest is not None else ()))
    else:
        yield from thing.attributes.values()
