"""A stub that the model does not know: convert cannot find it, so it never quantizes.

## What it does
Flags QuantStubs and DeQuantStubs that are built in forward, kept in a plain list, tuple or dict, or not built at all
(`self.quant = QuantStub`, without parentheses), or that are attributes of the class instead of its objects.

## Why it matters
Prepare and convert walk the registered children of a model. A stub that is none of them stays what it is, the
identity. Nothing warns; the converted model raises at the layer behind it:

    NotImplementedError: Could not run 'quantized::linear' with arguments from the 'CPU' backend

A DeQuantStub that is not registered gives the quantized tensor back. A class that is called takes the tensor for a
qconfig, and raises in the float model.

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stubs = [QuantStub()]  # QL207
            self.fc = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            for stub in self.stubs:
                x = stub(x)
            return self.dequant(self.fc(x))

## Good
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stubs = nn.ModuleList([QuantStub()])
            self.fc = nn.Linear(8, 4)
            self.dequant = DeQuantStub()

        def forward(self, x):
            for stub in self.stubs:
                x = stub(x)
            return self.dequant(self.fc(x))

## Fix safety
Safe: a list or tuple becomes a `nn.ModuleList`, a dict a `nn.ModuleDict`, a stub of forward is built in `__init__`,
and a class gets its parentheses. Stubs have no parameters, so nothing else changes. Not offered for keys that a
ModuleDict refuses (`type`, `items`, keys with dots), for methods that a ModuleList lacks, and for members with
parameters; nor for a local list that more than `append` of new stubs fills.

## When it is silent
Where the same stub is registered too (`self.quant = QuantStub(); self.stubs = [self.quant]`), where it is never
called, and in models that no qconfig certainly reaches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, Keeping, OpCall, Stray, Workflow
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.ops.spec import Role
from qlsp.rules._boundary import inputs_of, is_configured, require_qconfig
from qlsp.rules._causes import Cause, cause_of
from qlsp.rules._rewrites import DEQUANT_STUB, QUANT_STUB, Doubts, doubt_the_class
from qlsp.rules.api import Finding, RuleContext, RuleMeta, assumption, attempts

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder, Expression

META = RuleMeta(
    code="QL207",
    name="quantstub-not-registered",
    severity=Severity.ERROR,
    since="0.1",
    predicts=Predicts.RAISES,
    fix="safe",
)

STUBS = frozenset({QUANT_STUB, DEQUANT_STUB})
MESSAGES = {
    Keeping.CONTAINER: "quantstub-not-registered",
    Keeping.FORWARD: "quantstub-not-registered-forward",
    Keeping.CLASS: "quantstub-not-registered-class",
    Keeping.SHARED: "quantstub-not-registered-shared",
}
_LIST_METHODS = {"append", "extend", "insert"}
_DICT_METHODS = {"keys", "values", "items", "update"}
_JOINED = r"\.\s*{0}\s*[+*](?!=)|[+*]\s*[\w.]+\.{0}\b"
_LITERAL = re.compile(r"[\[({].*[\])}]|(?:list|tuple|dict)\s*\(.*\)", re.S)


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each place that keeps stubs out of sight."""
    if ctx.facts.context.workflow is not Workflow.EAGER or not is_configured(ctx.facts):
        return
    for key, stray in ctx.facts.strays.items():
        calls = _calls(ctx.facts, stray)
        if not calls:
            continue
        raises = stray.kind is Keeping.CLASS or _raises(ctx.facts, calls)
        kind = stray.container or stray.kind.value
        yield Finding(
            stray.span,
            Message.of(MESSAGES[stray.kind], container=kind, name=stray.attribute or ""),
            predicts=Predicts.RAISES if raises else Predicts.SILENT,
            assumes=assumption(ctx),
            subject=key,
        )


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """Register the stubs."""
    assert isinstance(finding.subject, tuple)
    stray = ctx.facts.strays[finding.subject]
    if stray.kind is Keeping.CONTAINER:
        yield from attempts(lambda: _as_module(ctx, stray))
    elif stray.kind is Keeping.CLASS:
        yield from attempts(lambda: _built(ctx, stray))
    elif stray.kind is Keeping.FORWARD:
        yield from attempts(lambda: _moved(ctx, stray), lambda: _named(ctx, stray))


def _calls(facts: Facts, stray: Stray) -> list[OpCall]:
    """The calls of the stubs among what is kept."""
    if not stray.classes & STUBS:
        return []
    roles = (Role.QUANTIZE, Role.DEQUANTIZE)
    return [call for call in facts.op_calls.values() if call.owner in stray.members and call.spec.role in roles]


def _raises(facts: Facts, calls: list[OpCall]) -> bool:
    """Does a layer that needs a quantized tensor get what one of the stubs left float?"""
    bases = {tensor.base for call in calls if call.spec.role is Role.QUANTIZE for tensor in inputs_of(call)}
    return any(
        cause_of(call) is Cause.NO_STUB and any(tensor.base in bases for tensor in inputs_of(call))
        for call in facts.op_calls.values()
    )


# --- fixes ------------------------------------------------------------------------------------------------------


def _everywhere(ctx: RuleContext, stray: Stray) -> Iterator[tuple[Facts, Stray]]:
    """The same place in the eager mode contexts of the run."""
    for facts in ctx.everywhere:
        other = facts.strays.get((stray.span, stray.kind))
        if other is not None and facts.context.workflow is Workflow.EAGER:
            yield facts, other
        elif other is not None and facts.context.workflow is not Workflow.NONE:
            raise NoFix("another front end uses the class")


def _as_module(ctx: RuleContext, stray: Stray) -> Fix:
    """A ModuleList or ModuleDict around the container."""
    edit, doubts = ctx.edits(), Doubts()
    for facts, other in _everywhere(ctx, stray):
        require_qconfig(facts, other.holder)
        if not other.takes or other.container != stray.container:
            raise NoFix("members with parameters, or keys that a ModuleDict refuses")
    kind, methods = ("ModuleDict", _DICT_METHODS) if stray.container == "dict" else ("ModuleList", _LIST_METHODS)
    assert stray.attribute is not None
    used = edit.found(re.compile(rf"\.\s*{re.escape(stray.attribute)}\s*\.\s*(\w+)"))
    if not methods.issuperset(used):
        raise NoFix("a method that the container would lack")
    value = _assigned(edit, stray)
    method = edit.method(stray.span)
    if edit.matches(re.compile(_JOINED.format(re.escape(stray.attribute)))):
        raise NoFix("a container that is joined with another")
    local = value.name is not None and "." not in value.name
    start = edit.grown(stray.span, value.name) if local and value.name is not None else value
    if not _LITERAL.fullmatch(start.text):
        raise NoFix("a container that is not built in this statement")
    doubt_the_class(edit, method, doubts)
    spelled = edit.spell(stray.span.path, f"torch.nn.{kind}")
    if value.text in ("[]", "{}", "()", "list()", "dict()", "tuple()"):
        edit.replace(value.place, f"{spelled}()")
    else:
        edit.wrap(value.place, f"{spelled}(", ")")
    return doubts.fix(edit, Message.of("fix-module-container", kind=kind), Message.of("fix-register-reason"))


def _assigned(edit: EditBuilder, stray: Stray) -> Expression:
    """The value of the statement of ``__init__`` that keeps the stubs; a module can stand there."""
    assigned = edit.assigned_value(stray.span)
    if assigned is None or assigned[0] != 1:
        raise NoFix("not one plain assignment")
    if edit.method(stray.span).name != "__init__" or not edit.started(stray.span):
        raise NoFix("not behind the start of the module")
    return assigned[1]


def _built(ctx: RuleContext, stray: Stray) -> Fix:
    """Parentheses behind the class."""
    edit, doubts = ctx.edits(), Doubts()
    for facts, other in _everywhere(ctx, stray):
        require_qconfig(facts, other.holder)
    value = _assigned(edit, stray)
    if value.name is None:
        raise NoFix("not the name of a class")
    edit.insert(value.place.path, value.place.span.end, "()", value.place.span.segment)
    return doubts.fix(edit, Message.of("fix-build-stub"), Message.of("fix-register-reason"))


def _moved(ctx: RuleContext, stray: Stray) -> Fix:
    """``self.quant = QuantStub()`` goes from forward to ``__init__``."""
    edit, doubts = ctx.edits(), Doubts()
    _require_one_stub(ctx, edit, stray)
    site = edit.call(stray.span)
    line = edit.line_of(stray.span)
    attribute = line.partition("=")[0].strip().removeprefix(f"{edit.method(stray.span).receiver}.")
    if site.arguments or not attribute.isidentifier():
        raise NoFix("arguments of forward, or no attribute")
    edit.move_to_init(stray.span, attribute)
    doubt_the_class(edit, edit.method(stray.span), doubts)
    return doubts.fix(edit, Message.of("fix-move-stub"), Message.of("fix-register-reason"))


def _named(ctx: RuleContext, stray: Stray) -> Fix:
    """``QuantStub()`` in forward becomes an attribute that ``__init__`` sets."""
    edit, doubts = ctx.edits(), Doubts()
    _require_one_stub(ctx, edit, stray)
    site = edit.call(stray.span)
    method = edit.method(stray.span)
    if site.arguments or edit.line_of(stray.span).startswith(f"{method.receiver}."):
        raise NoFix("arguments of forward, or an attribute that is set there")
    (cls,) = stray.classes
    hint = "quant" if cls == QUANT_STUB else "dequant"
    doubt_the_class(edit, method, doubts)
    edit.replace(site.place, f"{method.receiver}.{edit.add_submodule(stray.span, hint, cls)}")
    return doubts.fix(edit, Message.of("fix-move-stub"), Message.of("fix-register-reason"))


def _require_one_stub(ctx: RuleContext, edit: EditBuilder, stray: Stray) -> None:
    """Each object builds one stub per run and calls it once, so that one that is kept sees the same tensor."""
    if edit.repeats(stray.span) or len(stray.classes) != 1:
        raise NoFix("a stub that is built in a loop")
    for facts, other in _everywhere(ctx, stray):
        require_qconfig(facts, other.holder)
        calls = [call for call in _calls(facts, other) if call.spec.role is Role.QUANTIZE]
        if len(other.members) != 1 or len(calls) > 1 or any(call.loop for call in calls):
            raise NoFix("a stub for several tensors")
