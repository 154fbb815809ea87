"""The quantization map: facts as the domain and scale of every operator call of every root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.analysis.scales import Scales
from qlsp.text import Place
from qlsp.values.qparams import DerivedScale, ObservedScale, Scale
from qlsp.values.value import Choice, Domain, SpanId, Tensor, TupleValue, Unknown, Value

BACKENDS = {Workflow.EAGER: "torch-eager", Workflow.FX: "torch-fx", Workflow.PT2E: "torch-pt2e"}


@dataclass(frozen=True, slots=True)
class MapInput:
    """Domain and scale of one tensor; equal scale strings of one root mean the same scale and zero point."""

    domain: str
    scale: str | None


@dataclass(frozen=True, slots=True)
class MapSite:
    """One operator call on one call path."""

    op: str
    spelling: str
    filename: str
    row: int
    column: int
    end_row: int
    end_column: int
    call_path: tuple[str, ...]
    inputs: tuple[MapInput, ...]
    output: MapInput


@dataclass(frozen=True, slots=True)
class MapRoot:
    """One root in one context. ``rescales`` counts predicted requantizations; eager torch has none."""

    name: str
    instance: str | None
    filename: str
    row: int
    backend: str
    mode: str
    rescales: int | None
    sites: tuple[MapSite, ...]


Locate = Callable[[SpanId], tuple[Place, tuple[int, int], tuple[int, int], str]]
"""Span id to place, start and end (row, column), and the name of the enclosing function."""


def map_root(facts: Facts, locate: Locate) -> MapRoot:
    """The map of one context."""
    scales = Scales(facts)
    context = facts.context
    place, start, _, _ = locate(context.span)
    sites: dict[tuple[object, ...], MapSite] = {}
    for call in facts.op_calls.values():
        site = _site(scales, call, locate, context.root)
        key = (
            site.row,
            site.column,
            site.filename,
            site.call_path,
            _pattern(site.inputs),
            site.output.domain,
        )
        sites.setdefault(key, site)
    return MapRoot(
        context.root,
        context.instance,
        place.path,
        start[0],
        BACKENDS.get(context.workflow, "torch-eager"),
        context.mode.value,
        0,
        tuple(sites.values()),
    )


def _site(scales: Scales, call: OpCall, locate: Locate, root: str) -> MapSite:
    place, start, end, _ = locate(call.span)
    path = []
    for span, passed in call.path:
        if passed == -1:
            _, position, _, enclosing = locate(span)
            path.append(f"{enclosing or root}:{position[0]}")
    inputs = _inputs(scales, call)
    output = _input(scales, [alternative.output for alternative in call.alternatives])
    return MapSite(call.spec.op, call.spelling, place.path, *start, *end, tuple(path), inputs, output)


def _inputs(scales: Scales, call: OpCall) -> tuple[MapInput, ...]:
    """The operands of a call; where branches give other tensors but one partition, their names are joined."""
    rows = [
        tuple(_input(scales, [operand.value]) for operand in alternative.operands)
        for alternative in call.alternatives
    ]
    columns = max(len(row) for row in rows)
    if any(len(row) != columns for row in rows):
        return tuple(MapInput("unknown", None) for _ in range(columns))
    merged = tuple(_merged([row[i] for row in rows]) for i in range(columns))
    if len({_pattern(row) for row in [*rows, merged]}) == 1:
        return merged
    return tuple(
        each if len({row[i] for row in rows}) == 1 else MapInput(each.domain, None)
        for i, each in enumerate(merged)
    )


def _merged(options: list[MapInput]) -> MapInput:
    domains = {option.domain for option in options}
    labels = [option.scale for option in options if option.scale is not None]
    if len(domains) > 1:
        return MapInput("unknown" if "unknown" in domains else "either", None)
    scale = " | ".join(sorted(set(labels))) if len(labels) == len(options) else None
    return MapInput(options[0].domain, scale)


def _input(scales: Scales, values: list[Value]) -> MapInput:
    tensors: list[Value] = []
    for value in values:
        options = [option for _, option in value.options] if isinstance(value, Choice) else [value]
        for option in options:
            items = getattr(option, "items", None)
            tensors.extend(items[:1] if isinstance(items, tuple) else [option])
    domains = {_domain(value) for value in tensors}
    labels = {_label(scales, value) for value in tensors}
    domain = domains.pop() if len(domains) == 1 else ("unknown" if "unknown" in domains else "either")
    scale = labels.pop() if len(labels) == 1 and domain == "quantized" else None
    return MapInput(domain, scale)


def _domain(value: Value) -> str:
    if not isinstance(value, Tensor) or isinstance(value, Unknown):
        return "unknown"
    return {Domain.QUANTIZED: "quantized", Domain.UNKNOWN: "unknown"}.get(value.domain, "float")


def _label(scales: Scales, value: Value) -> str | None:
    if isinstance(value, Tensor) and value.qparams is not None:
        return scales.label(value.qparams.scale)
    return None


def _pattern(inputs: tuple[MapInput, ...]) -> tuple[object, ...]:
    """Which inputs share a scale, by position."""
    order: dict[str | None, int] = {}
    return tuple((each.domain, order.setdefault(each.scale, len(order))) for each in inputs)


@dataclass(frozen=True, slots=True)
class TensorAt:
    """What the expression at a place gives after convert, seen from one root. ``owner`` decides the scale;
    ``built`` is where it is built."""

    place: Place
    root: str
    domain: str
    dtype: str | None = None
    owner: str | None = None
    built: Place | None = None


def tensors(facts: Facts, locate: Callable[[SpanId], Place]) -> Iterator[TensorAt]:
    """The tensors of one context: operands and results of its operator calls."""
    scales = Scales(facts)
    for call in facts.op_calls.values():
        for alternative in call.alternatives:
            yield from _tensors_at(scales, call.span, alternative.output, locate)
            for operand in alternative.operands:
                if operand.span is not None and operand.span != call.span:
                    yield from _tensors_at(scales, operand.span, operand.value, locate)


def _tensors_at(
    scales: Scales, span: SpanId, value: Value, locate: Callable[[SpanId], Place]
) -> Iterator[TensorAt]:
    options = [option for _, option in value.options] if isinstance(value, Choice) else [value]
    for option in options:
        items = option.items if isinstance(option, TupleValue) else (option,)
        for item in items:
            if isinstance(item, Tensor) and item.domain is not Domain.UNKNOWN:
                yield _tensor_at(scales, locate(span), item, locate)


def _tensor_at(scales: Scales, place: Place, tensor: Tensor, locate: Callable[[SpanId], Place]) -> TensorAt:
    root, domain = scales.facts.context.root, tensor.domain.value
    if tensor.qparams is None or tensor.domain is not Domain.QUANTIZED:
        return TensorAt(place, root, domain)
    scale, dtype = tensor.qparams.scale, tensor.qparams.dtype.value
    if scale is None:
        return TensorAt(place, root, domain, dtype)
    built = _built(scales, scale)
    place_built = locate(built) if built is not None else None
    return TensorAt(place, root, domain, dtype, scales.owner(scale), place_built)


def _built(scales: Scales, scale: Scale) -> SpanId | None:
    while isinstance(scale, DerivedScale):
        scale = scale.base
    if not isinstance(scale, ObservedScale):
        return None
    submodule = scales.facts.submodules.get(scale.observer.owner)
    return submodule.span if submodule is not None else None
