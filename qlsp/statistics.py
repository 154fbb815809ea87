"""How much of a code base was decided: silence must never be mistaken for health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from qlsp.analysis.facts import Facts, OpCall, Workflow
from qlsp.analysis.program import ModuleModel
from qlsp.analysis.scales import Scales, is_cat
from qlsp.analysis.sites import sites
from qlsp.backends.spec import Backend
from qlsp.diagnostics import Diagnostic
from qlsp.ops.spec import Role
from qlsp.text import Place
from qlsp.values.value import Domain, SpanId, Tensor, Unknown

NOT_REACHED = "no root reaches this call"
KINDS = ("cat", "stub", "op")

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
    """``by_kind``: decided and found calls of a kind: concatenations (cat), stub calls (stub), operators that a
    quantized tensor meets without a kernel (op). ``undecided``: (kind, reason, place) of those not decided,
    ``decided``: (kind, place) of the others."""

    files: int
    parsed: int
    by_kind: Mapping[str, tuple[int, int]]
    undecided: tuple[tuple[str, str, Place], ...]
    findings: Mapping[str, int]
    decided: tuple[tuple[str, Place], ...] = ()


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
    object runs as they are. A call that no judged model can reach is decided as well."""
    dead = _Dead(facts, overridden)
    calls: dict[SpanId, list[tuple[Facts, Scales, OpCall]]] = {}
    for each in facts:
        scales = Scales(each)
        for call in each.op_calls.values():
            calls.setdefault(call.span, []).append((each, scales, call))
    flagged = {(d.place.path, d.place.span) for d in diagnostics}
    decided: list[tuple[str, Place]] = []
    undecided: list[tuple[str, str, Place]] = []
    quantizing = {span for span, reached in calls.items() if _quantizes(reached)}
    for module in modules.values():
        for kind, span in sites(module, backend, quantizing):
            where = place(span)
            reason = _reason(kind, calls.get(span, []), _foreign(module))
            if reason == NOT_REACHED and dead(span):
                reason = None
            if reason is None or (where.path, where.span) in flagged:
                decided.append((kind, where))
            else:
                undecided.append((kind, reason, where))
    done, open_ = Counter(kind for kind, _ in decided), Counter(kind for kind, _, _ in undecided)
    by_kind = {kind: (done[kind], done[kind] + open_[kind]) for kind in KINDS}
    return Statistics(files, len(modules), by_kind, tuple(undecided), dict(findings), tuple(decided))


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


def _foreign(module: ModuleModel) -> bool:
    """A file that names no quantization package of torch: what no root reaches in it is another framework's."""
    return not any(name in segment.text for segment in module.syntax.source.segments for name in NAMESPACES)


def _quantizes(calls: list[tuple[Facts, Scales, OpCall]]) -> bool:
    return any(call.spec.role is Role.QUANTIZE for _, _, call in calls)


def _reason(kind: str, calls: list[tuple[Facts, Scales, OpCall]], foreign: bool) -> str | None:
    """Why a call is undecided, None if some context decides it."""
    if not calls:
        return NOT_REACHED
    reasons = []
    if foreign and all(facts.context.workflow is Workflow.NONE for facts, _, _ in calls):
        return None
    for facts, scales, call in calls:
        if facts.context.workflow in (Workflow.FX, Workflow.PT2E):
            return None
        reason = _cat_reason(scales, call) if kind == "cat" else _operand_reason(kind, call)
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


def _operand_reason(kind: str, call: OpCall) -> str | None:
    """Why it is open what a stub gets, or whether an operator gets a quantized tensor."""
    for alternative in call.alternatives:
        for operand in alternative.operands[: 1 if kind == "stub" else None]:
            value = operand.value
            if isinstance(value, Unknown):
                return value.reason
            if isinstance(value, Tensor) and value.domain is Domain.UNKNOWN:
                return "a tensor of unknown domain"
    return None
