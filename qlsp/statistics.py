"""How much of a code base was decided: silence must never be mistaken for health."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.analysis.program import ModuleModel
from qlsp.analysis.scales import Scales, is_cat
from qlsp.analysis.sites import sites
from qlsp.backends.spec import Backend
from qlsp.diagnostics import Diagnostic
from qlsp.ops.spec import Role
from qlsp.text import LineIndex, Place, Span
from qlsp.values.value import Domain, SpanId, Tensor, Unknown

NOT_REACHED = "no root reaches this call"
UNUSED = "no root uses this class"
UNREPORTED = "wrong in a way that no rule reports"
VENDOR = "the front end of a vendor, whose rules are others"
KINDS = ("cat", "stub", "op")

OTHER_SOURCES = (r"\bQuantWrapper\b", r"\badd_quant_dequant\b", r"\bQuantize\(", r"\bmodels\.quantization\b")
"""What else makes quantized tensors in eager mode: wrappers, the module that a stub becomes, torchvision's models."""

NAMESPACES = (
    "torch.ao",
    "torch import ao",
    "torch.quantization",
    "torch import quantization",
    "torchao",
    "nn.quantized",
)


@dataclass(frozen=True, slots=True)
class Statistics:
    """``by_kind``: decided and found calls of a kind: concatenations (cat), stub calls (stub), calls in model classes
    of functions of the operator table and operations of a FloatFunctional (op). ``undecided``: (kind, reason, place)
    of those not decided, ``decided``: (kind, place) of the others. ``classes`` are the classes with a forward, True
    for those that a judged model runs. ``importers``: files outside of the run that were read because they use files
    of it; ``partial``: there are more. ``given_up``: (reason, place) of what was not run to its end."""

    files: int
    parsed: int
    by_kind: Mapping[str, tuple[int, int]]
    undecided: tuple[tuple[str, str, Place], ...]
    findings: Mapping[str, int]
    decided: tuple[tuple[str, Place], ...] = ()
    classes: tuple[tuple[Place, bool], ...] = ()
    importers: int = 0
    partial: bool = False
    given_up: tuple[tuple[str, Place], ...] = ()


def collect(
    modules: Mapping[str, ModuleModel],
    facts: Sequence[Facts],
    place: Callable[[SpanId], Place],
    diagnostics: Iterable[Diagnostic],
    files: int,
    findings: Mapping[str, int],
    backend: Backend,
    overridden: Collection[tuple[str, int]] = (),
) -> Statistics:
    """Compare the calls that the text shows with what the facts decide; ``overridden`` are methods that no judged
    object runs as they are.

    A call is decided if it is flagged, if it is right in every context in which a judged model reaches it, or if no
    judged model can reach it. Where no file names anything that quantizes a tensor, no model without a known use
    does so."""
    dead = _Dead(facts, overridden)
    calls: dict[SpanId, list[tuple[Facts, Scales, OpCall]]] = {}
    for each in facts:
        scales = Scales(each)
        for call in each.op_calls.values():
            calls.setdefault(call.span, []).append((each, scales, call))
    flagged = _Flagged(modules, diagnostics)
    decided: list[tuple[str, Place]] = []
    undecided: list[tuple[str, str, Place]] = []
    closed = not _quantizing_code(modules.values(), backend)
    quantizing = {span for span, reached in calls.items() if _quantizes(reached)}
    for module in modules.values():
        for kind, span in sites(module, backend, quantizing):
            where = place(span)
            reached = calls.get(span, [])
            stubs = [each for each in reached if each[2].spec.role is Role.QUANTIZE]
            reason = _reason(kind, stubs if kind == "stub" and stubs else reached, closed or _foreign(module))
            if reason == NOT_REACHED and (closed or dead(span)):
                reason = None
            if reason is None or flagged(where):
                decided.append((kind, where))
            else:
                undecided.append((kind, reason, where))
    done, open_ = Counter(kind for kind, _ in decided), Counter(kind for kind, _, _ in undecided)
    by_kind = {kind: (done[kind], done[kind] + open_[kind]) for kind in KINDS}
    classes = tuple(_classes(modules, facts))
    return Statistics(files, len(modules), by_kind, tuple(undecided), dict(findings), tuple(decided), classes)


def _classes(modules: Mapping[str, ModuleModel], facts: Sequence[Facts]) -> Iterator[tuple[Place, bool]]:
    """The classes with a forward, and whether a judged model runs it. One that calls nothing runs where it is built."""
    judged = [each for each in facts if each.context.workflow is not Workflow.NONE]
    run = {(span.path, span.unit) for each in judged for span in each.evaluated}
    built = {submodule.cls for each in judged for submodule in each.submodules.values()}
    for module in modules.values():
        for unit in module.syntax.units:
            forwards = [member for member in unit.members if member.name == "forward"]
            if forwards:
                reached = any((module.path, member.index) in run for member in forwards)
                if not any("(" in member.text.partition(":\n")[2] for member in forwards):
                    reached = unit.name in built
                yield Place(module.path, Span(unit.start, unit.end, unit.segment)), reached


class _Flagged:
    """Does a diagnostic stand in the lines of a call? Some rules report the first or the outermost call of a line."""

    def __init__(self, modules: Mapping[str, ModuleModel], diagnostics: Iterable[Diagnostic]) -> None:
        self._modules = modules
        self._indexes: dict[tuple[str, int], LineIndex] = {}
        found = (d.place for d in diagnostics if d.place.path in modules)
        self._rows = {(place.path, place.span.segment, self._row(place, place.span.start)) for place in found}

    def __call__(self, place: Place) -> bool:
        rows = range(self._row(place, place.span.start), self._row(place, place.span.end) + 1)
        return any((place.path, place.span.segment, row) in self._rows for row in rows)

    def _row(self, place: Place, offset: int) -> int:
        key = (place.path, place.span.segment)
        if key not in self._indexes:
            segments = self._modules[place.path].syntax.source.segments
            self._indexes[key] = LineIndex(segments[place.span.segment].text)
        return self._indexes[key].position(offset)[0]


class _Dead:
    """Calls that stand in code which judged models run, but that none of them comes to."""

    def __init__(self, facts: Sequence[Facts], overridden: Collection[tuple[str, int]]) -> None:
        judged = [each for each in facts if each.context.workflow is not Workflow.NONE]
        self.overridden = overridden
        self.evaluated = {span for each in facts for span in each.evaluated}
        self.run = {(span.path, span.unit) for each in judged if each.gave_up is None for span in each.evaluated}
        self.open = {(span.path, span.unit) for each in judged if each.gave_up is not None for span in each.evaluated}

    def __call__(self, span: SpanId) -> bool:
        chunk = (span.path, span.unit)
        if span in self.evaluated or chunk in self.open:
            return False
        return chunk in self.run or chunk in self.overridden


def _quantizing_code(modules: Iterable[ModuleModel], backend: Backend) -> bool:
    """Does any file name what makes quantized tensors: a stub, a wrapper with stubs, a quantizing function?"""
    rows = (row for row in backend.rows if row.role is Role.QUANTIZE)
    names = {name.rpartition(".")[2] for row in rows for name in (*row.functions, *row.modules)}
    renamed = {name.rpartition(".")[2] for name, _ in backend.renames}
    words = re.compile("|".join((*OTHER_SOURCES, *(rf"\b{re.escape(name)}\b" for name in sorted(names | renamed)))))
    return any(words.search(segment.text) for module in modules for segment in module.syntax.source.segments)


def _foreign(module: ModuleModel) -> bool:
    """A file that names no quantization package of torch: what no root reaches in it is another framework's."""
    return not any(name in segment.text for segment in module.syntax.source.segments for name in NAMESPACES)


def _quantizes(calls: list[tuple[Facts, Scales, OpCall]]) -> bool:
    return any(call.spec.role is Role.QUANTIZE for _, _, call in calls)


def _reason(kind: str, calls: list[tuple[Facts, Scales, OpCall]], foreign: bool) -> str | None:
    """Why a call is undecided, None if every context of a judged model decides it."""
    if not calls:
        return NOT_REACHED
    judged = [each for each in calls if each[0].context.workflow is not Workflow.NONE]
    if foreign and not judged:
        return None
    for facts, scales, call in judged or calls:
        if facts.context.workflow in (Workflow.FX, Workflow.PT2E):
            continue
        if facts.context.workflow is Workflow.HORIZON:
            return VENDOR
        reason = _cat_reason(scales, call) if kind == "cat" else _operand_reason(kind, facts, call)
        if reason is not None:
            return UNUSED if reason == UNREPORTED and not judged else reason
    return None


def _cat_reason(scales: Scales, call: OpCall) -> str | None:
    if not is_cat(call):
        return None
    verdict = scales.verdict(call)
    if verdict.outcome in ("mixed", "raises"):
        return UNREPORTED
    return None if verdict.decided else verdict.reason or "not known"


def _operand_reason(kind: str, facts: Facts, call: OpCall) -> str | None:
    """Why it is open what a stub gets, or whether an operator gets a quantized tensor."""
    for alternative in call.alternatives:
        if alternative.raises is not None:
            return UNREPORTED
        for operand in alternative.operands[: 1 if kind == "stub" else None]:
            value = operand.value
            if isinstance(value, Unknown):
                return value.reason
            if isinstance(value, Tensor) and value.domain is Domain.UNKNOWN:
                return facts.why_unknown(value)
    return None
