"""FloatFunctionals are kept in a plain list, tuple or dict, so convert never finds them.

## What it does
Flags an attribute of a module that keeps FloatFunctionals in a Python list, tuple or dict and joins quantized tensors
with them.

## Why it matters
Prepare and convert walk the submodules of a model, and a plain container hides what is in it. The FloatFunctionals get
no observer and stay torch functions: `cat` silently is `torch.cat`, which takes the scale of the first input and
saturates the rest (16.8 instead of 29.3 dB were measured at a range ratio of 3), the other methods raise in the
converted model:

    NotImplementedError: Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend

## Bad
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.convs = nn.ModuleList([nn.Conv2d(4, 4, 1) for _ in range(3)])
            self.adds = [FloatFunctional() for _ in range(3)]  # QL406
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            for conv, add in zip(self.convs, self.adds):
                x = add.add(x, conv(x))
            return self.dequant(x)

## Good
    import torch
    from torch import nn
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant = QuantStub()
            self.convs = nn.ModuleList([nn.Conv2d(4, 4, 1) for _ in range(3)])
            self.adds = nn.ModuleList([FloatFunctional() for _ in range(3)])
            self.dequant = DeQuantStub()

        def forward(self, x):
            x = self.quant(x)
            for conv, add in zip(self.convs, self.adds):
                x = add.add(x, conv(x))
            return self.dequant(x)

## Fix safety
Safe: the container becomes an `nn.ModuleList` or `nn.ModuleDict`; the float model stays the same to the bit. There is
no fix where the container holds something else too, where a key is one that a ModuleDict refuses (a dot in it, or a
name such as `type` or `items`), where the code uses a method that the module container lacks, or for a local list that
more than `append` of new objects fills.

## When it is silent
On float tensors, where the torch function is right, and for a concatenation of tensors that share one scale. Where the
same objects are attributes of a module as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Keeping
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.rules._functionals import losses, sites
from qlsp.rules._rewrites import FLOAT_FUNCTIONAL, Doubts, doubt_the_class, quantized_everywhere, require_eager
from qlsp.rules.api import Finding, Note, RuleContext, RuleMeta, assumption, attempts
from qlsp.values.value import SpanId

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder, Expression

META = RuleMeta(code="QL406", name="functional-not-registered", severity=Severity.ERROR, since="0.1", fix="safe")

_LISTS_ONLY = (
    r"\.\s*(?:sort|reverse|remove|index|count|copy|clear)\b|\.\s*pop\s*\(\s*\)|[+*](?!=)",
    r"[+*]\s*(?:[\w.]+\.)?{0}\b",
)
_DICTS_ONLY = (r"\.\s*(?:get|setdefault|copy|popitem|fromkeys)\b|\|", r"\|\s*(?:[\w.]+\.)?{0}\b")
_EITHER = (r"[=!]=", r"[=!]=\s*(?:[\w.]+\.)?{0}\b|\b(?:isinstance|type)\s*\(\s*(?:[\w.]+\.)?{0}\s*[,)]")
"""Text behind a container, and around it, that uses it as only the plain one can be used."""
_ALIAS = r"^[ \t]*(\w+)\s*(?::[^=\n]*)?=\s*[\w.]+\.{0}\s*(?:#[^\n]*)?$"

_OPENERS = ("[", "(", "{", "list(", "tuple(", "dict(")
_NAMES = re.compile(r"(?<![\w.\"'(])[A-Za-z_][\w.]*(?=\s*[,\])}])")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for every plain container whose FloatFunctionals cost something."""
    for stray, lost in losses(ctx, Keeping.CONTAINER):
        worst = next((loss for loss in lost if loss.raises is not None), lost[0])
        related = (Note(Message.of("functional-used-here"), worst.call.span),)
        shown = {"attribute": stray.attribute or "it", "container": stray.container or "container"}
        if worst.raises is None:
            message = Message.of("functional-not-registered-cat", **shown)
            yield Finding(stray.span, message, assumes=assumption(ctx), related=related)
        else:
            message = Message.of("functional-not-registered", error=worst.raises, **shown)
            yield Finding(stray.span, message, None, Predicts.RAISES, assumption(ctx), related)


def fix(ctx: RuleContext, finding: Finding) -> Iterator[Fix]:
    """A ModuleList or ModuleDict."""
    yield from attempts(lambda: _registered(ctx, finding.span))


def _registered(ctx: RuleContext, span: SpanId) -> Fix:
    stray = ctx.facts.strays[(span, Keeping.CONTAINER)]
    if not stray.takes or stray.others or stray.classes != {FLOAT_FUNCTIONAL} or stray.attribute is None:
        raise NoFix("a container that a module container cannot replace")
    edit, doubts = ctx.edits(), Doubts()
    method = edit.method(span)
    if method.name != "__init__" or not edit.started(span):
        raise NoFix("not behind the start of the module")
    doubt_the_class(edit, method, doubts)
    for call in sites(ctx, stray):
        require_eager(ctx, call, doubts)
        quantized_everywhere(ctx, call, doubts)
    if _needs_plain(edit, stray.attribute, stray.container == "dict"):
        raise NoFix("a use that the module container lacks")
    assigned = edit.assigned_value(span)
    if assigned is None or assigned[0] != 1:
        raise NoFix("not one plain assignment")
    name = assigned[1].name
    if not _displayed(edit.grown(span, name) if name is not None and "." not in name else assigned[1]):
        raise NoFix("a container that is not written here")
    modules = "torch.nn.ModuleDict" if stray.container == "dict" else "torch.nn.ModuleList"
    edit.wrap(assigned[1].place, f"{edit.spell(span.path, modules)}(", ")")
    title = Message.of("fix-register-container", container=modules.rpartition(".")[2])
    return doubts.fix(edit, title, Message.of("fix-register-functional-reason"))


def _needs_plain(edit: EditBuilder, attribute: str, mapping: bool) -> bool:
    """Does code in view use an attribute, or a local name for it, as only a plain container can be used?"""
    escaped = re.escape(attribute)
    aliases = edit.found(re.compile(_ALIAS.format(escaped), re.M))
    for before, name in ((r"\.\s*", escaped), *((r"(?<![\w.])", alias) for alias in aliases)):
        for behind, around in (_DICTS_ONLY if mapping else _LISTS_ONLY, _EITHER):
            if edit.matches(re.compile(rf"{before}{name}\s*(?:{behind})|{around.format(name)}")):
                return True
    return False


def _displayed(value: Expression) -> bool:
    """A list, tuple, dict or comprehension as it stands; no name in it twice."""
    names = _NAMES.findall(value.text)
    return value.atom and value.text.startswith(_OPENERS) and len(names) == len(set(names))
