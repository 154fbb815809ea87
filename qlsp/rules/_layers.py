"""Questions about the layers of a model that several rules ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, Mode, OpCall, Submodule, Workflow
from qlsp.diagnostics import NoFix
from qlsp.ops.spec import OpSpec
from qlsp.rules.api import RuleContext
from qlsp.values.value import ASSUMED_QCONFIG, OPEN_QCONFIG, Const, Domain, SpanId, Tensor

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder


class Reach(Enum):
    """Does a qconfig reach a layer? ``ASSUMED``: nobody in view gives the model one."""

    YES = "yes"
    ASSUMED = "assumed"
    OPEN = "open"
    NO = "no"


def reach(layer: Submodule) -> Reach:
    """Whether prepare finds a qconfig for a layer."""
    if layer.qconfig is None or layer.qconfig == Const(None):
        return Reach.NO
    if layer.qconfig == OPEN_QCONFIG:
        return Reach.OPEN
    return Reach.ASSUMED if layer.qconfig == ASSUMED_QCONFIG else Reach.YES


def is_library(layer: Submodule) -> bool:
    """True for a class of the library itself: convert goes by the exact class."""
    return layer.spec is not None and layer.cls in layer.spec.modules


def layers(ctx: RuleContext) -> Iterator[tuple[int, Submodule, OpSpec]]:
    """The library layers of an eager mode model, with their rows."""
    if ctx.facts.context.workflow is not Workflow.EAGER:
        return
    for number, layer in ctx.facts.submodules.items():
        if layer.spec is not None and is_library(layer):
            yield number, layer, layer.spec


def argument(layer: Submodule, parameter: str) -> object:
    """The key of a constructor argument, None if it is not given."""
    return next((key for name, key in layer.arguments if name == parameter), None)


def constant(key: object) -> str | None:
    """The source text of a constant's key."""
    plain = isinstance(key, tuple) and len(key) == 2 and all(isinstance(part, str) for part in key)
    return key[1] if plain and isinstance(key, tuple) else None


def refusal(spec: OpSpec, mode: Mode) -> str | None:
    """The error with which prepare, calibration or convert refuse a class, if they do so in this mode for certain."""
    if mode is Mode.QAT:
        return spec.trained_refused
    if mode is Mode.PTQ or spec.trained_refused is not None:
        return spec.refused
    return None


def meets_quantized(facts: Facts, number: int) -> bool:
    """Does some call of a layer certainly get a quantized tensor?"""
    return any(call.owner == number and gets_quantized(call) for call in facts.op_calls.values())


def gets_quantized(call: OpCall) -> bool:
    """Is the first operand of a call quantized in every alternative?"""
    firsts = [alternative.operands[0].value for alternative in call.alternatives if alternative.operands]
    return bool(firsts) and all(isinstance(v, Tensor) and v.domain is Domain.QUANTIZED for v in firsts)


def site(call: OpCall, layer: Submodule) -> SpanId:
    """Where a call is made on a layer from outside: a subclass may make it in a method of its own."""
    steps = [call.span, *(span for span, _ in reversed(call.path))]
    return next((span for span in steps if (span.path, span.unit) not in layer.code), call.span)


# --- the qconfig of some layers ---------------------------------------------------------------------------------


def assigned_layers(facts: Facts, assigned: SpanId, wanted: Callable[[Submodule], bool]) -> list[Submodule]:
    """The layers that get the qconfig of an assignment."""
    return [
        layer
        for layer in facts.submodules.values()
        if layer.assigned == assigned and is_library(layer) and wanted(layer)
    ]


def qconfig_lines(
    ctx: RuleContext, edit: EditBuilder, assigned: SpanId, wanted: Callable[[Submodule], bool], qconfig: str
) -> None:
    """Behind the assignment of a qconfig, give these layers another one; the same layers in every context."""
    targets, value = edit.assignment(assigned)
    owner = targets[0].removesuffix(".qconfig")
    if len(targets) != 1 or not _OWNER.fullmatch(owner) or owner == targets[0]:
        raise NoFix("a target that is not a plain name")
    if edit.repeats(assigned) or edit.in_constructor(assigned):
        raise NoFix("an assignment in a loop or a constructor")
    found: set[tuple[str, ...]] = set()
    for facts in ctx.everywhere:
        if any(layer.assigned == assigned for layer in facts.submodules.values()):
            found.add(tuple(_below(layer) for layer in assigned_layers(facts, assigned, wanted)))
    if len(found) != 1:
        raise NoFix("other layers in other contexts")
    name = edit.spell(assigned.path, qconfig, _like(value))
    for path in found.pop():
        edit.insert_after(assigned, f"{owner}{path}.qconfig = {name}")


_OWNER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_PATH = re.compile(r"(?:\.[^\W\d]\w*|\.\d+)+")


def _below(layer: Submodule) -> str:
    """The way from the module that has the qconfig to a layer: ``.body[2].up``."""
    holder = layer.holder or ""
    path = layer.path[len(holder) :] if holder else f".{layer.path}"
    if not _PATH.fullmatch(path):
        raise NoFix("the layer itself, or one without a name")
    return re.sub(r"\.(\d+)", r"[\1]", path)


def _like(value: str) -> str | None:
    """The dotted name with which the value of an assignment begins."""
    found = _OWNER.match(value)
    return found[0] if found is not None else None
