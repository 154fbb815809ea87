"""How much of a code base was decided: silence must never be mistaken for health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.analysis.program import ModuleModel
from qlsp.analysis.scales import Scales, is_cat
from qlsp.backends.torch_eager import EAGER
from qlsp.diagnostics import Diagnostic
from qlsp.ops.spec import Role
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, Unit, walk
from qlsp.text import Place
from qlsp.values.value import Domain, SpanId, Tensor, Unknown


@dataclass(frozen=True, slots=True)
class Statistics:
    """``by_kind``: decided and found calls. ``undecided``: (kind, reason, place) of the others."""

    files: int
    parsed: int
    by_kind: Mapping[str, tuple[int, int]]
    undecided: tuple[tuple[str, str, Place], ...]
    findings: Mapping[str, int]


def collect(
    modules: Mapping[str, ModuleModel],
    facts: Sequence[Facts],
    place: Callable[[SpanId], Place],
    diagnostics: Iterable[Diagnostic],
    files: int,
    findings: Mapping[str, int],
) -> Statistics:
    """Compare the calls that the text shows with what the facts decide."""
    calls: dict[SpanId, list[tuple[Facts, Scales, OpCall]]] = {}
    for each in facts:
        scales = Scales(each)
        for call in each.op_calls.values():
            calls.setdefault(call.span, []).append((each, scales, call))
    flagged = {(d.place.path, d.place.span) for d in diagnostics}
    decided: dict[str, int] = {"cat": 0, "stub": 0}
    found: dict[str, int] = {"cat": 0, "stub": 0}
    undecided = []
    for module in modules.values():
        for kind, span in sites(module, calls):
            found[kind] += 1
            where = place(span)
            reason = _reason(kind, calls.get(span, []))
            if reason is None or (where.path, where.span) in flagged:
                decided[kind] += 1
            else:
                undecided.append((kind, reason, where))
    by_kind = {kind: (decided[kind], found[kind]) for kind in found}
    return Statistics(files, len(modules), by_kind, tuple(undecided), dict(findings))


def sites(
    module: ModuleModel, calls: Mapping[SpanId, list[tuple[Facts, Scales, OpCall]]]
) -> Iterator[tuple[str, SpanId]]:
    """Concatenations and stub calls in the text of a file, whether or not a root reaches them."""
    for unit in module.syntax.all_units.values():
        if unit.members:
            continue
        try:
            node = unit.node
        except ChunkError:
            continue
        stubs = _stub_names(module)
        for inner in walk(node):
            if isinstance(inner, cst.Call):
                kind = _kind(module, inner, stubs)
                span = SpanId(unit.path, unit.index, unit.ordinal(inner))
                if kind is None and any(c.spec.role is Role.QUANTIZE for _, _, c in calls.get(span, [])):
                    kind = "stub"
                if kind is not None:
                    yield kind, span


def _kind(module: ModuleModel, node: cst.Call, stubs: frozenset[str]) -> str | None:
    name = dotted(node.func)
    if name is None:
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "cat":
            return "cat"
        return None
    first, _, rest = name.partition(".")
    if first in module.imports:
        row = EAGER.functions.get(_qualified(module, name))
        return "cat" if row is not None and row.role is Role.CAT else None
    last = name.rpartition(".")[2]
    row = EAGER.functionals.get(last)
    if row is not None and row.role is Role.CAT and "." in name:
        return "cat"
    return "stub" if first == "self" and rest in stubs else None


def _qualified(module: ModuleModel, name: str) -> str:
    """The canonical name of a dotted name by the file's import table."""
    first, _, rest = name.partition(".")
    target = module.imports.get(first, first)
    return EAGER.canonical(f"{target}.{rest}" if rest else target)


def _stub_names(module: ModuleModel) -> frozenset[str]:
    """Attributes that some constructor of the file sets to a QuantStub, as far as the text shows."""
    names: set[str] = set()
    for unit in module.syntax.all_units.values():
        if unit.members or "Stub" not in unit.text or "__init__" not in unit.text:
            continue
        names.update(_assigned_stubs(module, unit))
    return frozenset(names)


def _assigned_stubs(module: ModuleModel, unit: Unit) -> Iterator[str]:
    try:
        node = unit.node
    except ChunkError:
        return
    for inner in walk(node):
        if isinstance(inner, cst.Assign) and isinstance(inner.value, cst.Call):
            row = EAGER.modules.get(_qualified(module, dotted(inner.value.func) or ""))
            if row is not None and row.role is Role.QUANTIZE:
                for target in inner.targets:
                    if isinstance(target.target, cst.Attribute):
                        yield target.target.attr.value


def _reason(kind: str, calls: list[tuple[Facts, Scales, OpCall]]) -> str | None:
    """Why a call is undecided, None if some context decides it."""
    if not calls:
        return "no root reaches this call"
    reasons = []
    for facts, scales, call in calls:
        if facts.context.workflow in (Workflow.FX, Workflow.PT2E):
            return None
        reason = _cat_reason(scales, call) if kind == "cat" else _stub_reason(call)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0]


def _cat_reason(scales: Scales, call: OpCall) -> str | None:
    if not is_cat(call):
        return None
    verdict = scales.verdict(call)
    if verdict.outcome == "mixed" and scales.facts.context.workflow is Workflow.NONE:
        return "no root uses this class"
    return None if verdict.decided else verdict.reason or "not known"


def _stub_reason(call: OpCall) -> str | None:
    for alternative in call.alternatives:
        value = alternative.operands[0].value
        if isinstance(value, Unknown):
            return value.reason
        if isinstance(value, Tensor) and value.domain is Domain.UNKNOWN:
            return "a tensor of unknown domain"
    return None
