"""Are two scales one scale? Questions to the facts of one context that rules and the map both ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qlsp.analysis.facts import Facts, OpCall
from qlsp.ops.spec import Observation, Role
from qlsp.values.qparams import DerivedScale, FixedScale, ObservedScale, ObserverRef, Scale
from qlsp.values.value import A_NUMBER, Choice, Domain, Tensor, TupleValue, Unknown, Value

ScaleKey = tuple[object, ...]
"""Equal keys mean the same scale and zero point, for certain."""


@dataclass(frozen=True)
class Scales:
    """The scales of one context."""

    facts: Facts

    @cached_property
    def _observed(self) -> dict[int, tuple[object, ...] | None]:
        """The values that each observer sees, sorted; None where they are not all known."""
        seen: dict[int, list[object] | None] = {}
        for call in self.facts.op_calls.values():
            if call.owner is None or not call.converted or not call.spec.observed:
                continue
            number = _seen(call)
            known = seen.get(call.owner, [])
            seen[call.owner] = None if known is None or number is None else [*known, number]
        return {
            owner: tuple(sorted(numbers, key=repr)) if numbers is not None else None for owner, numbers in seen.items()
        }

    def key(self, scale: Scale | None) -> ScaleKey | None:
        """The identity of a scale, None if it is not known.

        Two observers of one qconfig that see the very same values have equal qparams (measured).
        """
        match scale:
            case FixedScale():
                return ("fixed", scale.scale, scale.zero_point)
            case DerivedScale():
                base = self.key(scale.base)
                return None if base is None else ("derived", scale.operator, base, scale.arguments)
            case ObservedScale():
                return self._observer_key(scale.observer)
            case _:
                return None

    def _observer_key(self, observer: ObserverRef) -> ScaleKey | None:
        if observer.owner in self.facts.ties:
            key = self.facts.ties[observer.owner]
            return ("tied", key) if key is not None else None
        values = self._observed.get(observer.owner)
        submodule = self.facts.submodules.get(observer.owner)
        if values is None or submodule is None:
            return ("observer", observer)
        return ("values", submodule.qconfig, values)

    def label(self, scale: Scale | None) -> str | None:
        """A readable name: the path of the module whose observer decides; equal names, equal scales."""
        match scale:
            case FixedScale():
                return f"{_fraction(scale.scale)}, {scale.zero_point}"
            case DerivedScale():
                base = self.label(scale.base)
                if base is None:
                    return None
                shown = ", ".join(_argument(argument) for argument in scale.arguments)
                return f"{scale.operator}({shown}) of ({_described(scale.base, base)})"
            case ObservedScale():
                return self._owner_label(scale.observer)
            case _:
                return None

    def _owner_label(self, observer: ObserverRef) -> str:
        key = self._observer_key(observer)
        return (self._labels.get(key) if key is not None else None) or self.owner_path(observer)

    @cached_property
    def _labels(self) -> dict[ScaleKey, str]:
        """The first path of every group of observers with one scale."""
        found: dict[ScaleKey, str] = {}
        for owner, submodule in self.facts.submodules.items():
            key = self._observer_key(ObserverRef(owner))
            if key is not None and (key not in found or submodule.path < found[key]):
                found[key] = submodule.path
        return found

    def owner(self, scale: Scale | None) -> str:
        """Who decides a scale, for a message: this very module, even where others share the scale."""
        if isinstance(scale, ObservedScale):
            return self.owner_path(scale.observer)
        return self.label(scale) or "another observer"

    def owner_path(self, observer: ObserverRef) -> str:
        """The path of the module that owns an observer, as seen from the root."""
        submodule = self.facts.submodules.get(observer.owner)
        if submodule is not None:
            return submodule.path or self.facts.context.root
        return f"{observer.slot}#{abs(observer.owner)}"

    def verdict(self, call: OpCall) -> Verdict:
        """Do the operands of a concatenation share scale and zero point?"""
        keys: set[ScaleKey] = set()
        outcomes: set[str] = set()
        reason: str | None = None
        for alternative in call.alternatives:
            known: list[ScaleKey] = []
            numbers = {_number(operand.value) for operand in alternative.operands}
            same_value = len(numbers) == 1 and None not in numbers and not call.open
            domains: set[Domain] = set()
            for operand in alternative.operands:
                value = operand.value
                if isinstance(value, Unknown):
                    reason = reason or value.reason
                    domains.add(Domain.UNKNOWN)
                    continue
                domains.add(value.domain)
                if value.domain is Domain.QUANTIZED:
                    key = self.key(value.qparams.scale) if value.qparams is not None else None
                    if key is not None:
                        known.append(key)
                    else:
                        reason = reason or "a scale that is not known"
                        domains.add(Domain.UNKNOWN)
                elif value.domain is Domain.UNKNOWN:
                    reason = reason or self.facts.why_unknown(value)
            keys.update(known)
            if len(set(known)) > 1 and self.facts.tied:
                outcomes.add("unknown")
                reason = reason or "observers that are set by hand"
            elif len(set(known)) > 1:
                outcomes.add("mixed")
            elif Domain.UNKNOWN in domains:
                outcomes.add("same" if same_value else "unknown")
            elif Domain.QUANTIZED in domains and len(domains) > 1:
                outcomes.add("raises")
            elif Domain.QUANTIZED in domains:
                outcomes.add("same")
            else:
                outcomes.add("float")
        if call.open and (len(keys) > 1 or len(outcomes) > 1):
            return Verdict("unknown", reason or "a list whose members are not all known")
        if len(outcomes) == 1:
            return Verdict(outcomes.pop(), reason)
        if outcomes <= {"same", "float"}:
            return Verdict("same", None)
        if "unknown" in outcomes:
            return Verdict("unknown", reason)
        return Verdict("depends", "the answer depends on a branch")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``same``, ``mixed``, ``float``, ``raises``, ``depends`` (on a branch) or ``unknown`` with its reason."""

    outcome: str
    reason: str | None = None

    @property
    def decided(self) -> bool:
        """True if a rule flags it or it is proved right."""
        return self.outcome in ("same", "mixed", "float", "raises")


def _seen(call: OpCall) -> object | None:
    """The value an observer sees at a call, by branch where it depends on one; None if it is no tensor."""
    seen = []
    for alternative in call.alternatives:
        output = alternative.output
        if not isinstance(output, Tensor):
            return None
        seen.append((tuple(sorted(alternative.guard)), output.number))
    return seen[0][1] if len(seen) == 1 else tuple(sorted(seen))


def _number(value: Tensor | Unknown) -> int | None:
    return value.number if isinstance(value, Tensor) and not value.many else None


def _argument(argument: object) -> str:
    """A constant argument as written; another one by what tells it from others."""
    if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[0], str):
        value = argument[1]
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
            text: str = value[1]
            return text
    return repr(argument)


def _fraction(scale: float) -> str:
    inverse = round(1 / scale)
    return f"1/{inverse}" if abs(1 / inverse - scale) < 1e-12 else f"{scale:g}"


def _described(scale: Scale, label: str) -> str:
    return label if isinstance(scale, (FixedScale, DerivedScale)) else f"scale of {label}"


def describe(scales: Scales, value: Value) -> str:
    """A value as ``reveal_quant`` shows it."""
    if isinstance(value, Choice):
        return " | ".join(sorted({describe(scales, option) for _, option in value.options}))
    if isinstance(value, Unknown):
        return "-" if value.reason == A_NUMBER else "unknown"
    if isinstance(value, Tensor):
        if value.domain is not Domain.QUANTIZED:
            return str(value.domain.value)
        scale = value.qparams.scale if value.qparams is not None else None
        label = scales.label(scale)
        if label is None or scale is None:
            return "quantized(unknown scale)"
        return f"quantized({_described(scale, label)})"
    if isinstance(value, TupleValue):
        return "[" + ", ".join(describe(scales, item) for item in value.items) + "]"
    return "-"


def terminal_consumers(facts: Facts, producer: OpCall) -> list[OpCall]:
    """The calls that use a producer's output, seen through operators that keep its scale."""
    wanted = {id(producer): producer}
    frontier = [producer]
    found = []
    while frontier:
        outputs = {_identity(option) for option in _outputs(frontier.pop())}
        for call in facts.op_calls.values():
            if id(call) in wanted or not _uses(call, outputs):
                continue
            wanted[id(call)] = call
            if call.spec.observation is Observation.SHARE and call.spec.role is None:
                frontier.append(call)
            else:
                found.append(call)
    return found


def _outputs(call: OpCall) -> list[Tensor]:
    values: list[Value] = [alternative.output for alternative in call.alternatives]
    found = []
    while values:
        value = values.pop()
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, Choice):
            values.extend(option for _, option in value.options)
        elif isinstance(value, TupleValue):
            values.extend(value.items)
    return found


def _identity(tensor: Tensor) -> tuple[object, ...]:
    return (tensor.number, tensor.origin, tensor.domain)


def _uses(call: OpCall, outputs: set[tuple[object, ...]]) -> bool:
    return any(
        isinstance(operand.value, Tensor) and _identity(operand.value) in outputs
        for alternative in call.alternatives
        for operand in alternative.operands
    )


def is_cat(call: OpCall) -> bool:
    """A concatenation that takes its first input's scale."""
    return call.spec.role is Role.CAT and call.spec.observation is Observation.FIRST_INPUT
