"""Edits of a fix, made from slices of the source and never from printed nodes.

A rule's ``fix(ctx, finding)`` asks ``ctx.edits()`` for an ``EditBuilder``, describes the rewrite and ends with
``edit.fix(title, reason, applicability)``. Places are given as span ids (``SpanId`` of a fact) or as ``Place``s.
Whatever cannot be done right raises ``NoFix``; ``rules.api.attempts`` turns that into "not offered".

    edit = ctx.edits()
    call = edit.call(finding.span)                    # function, arguments, all with their places
    name = edit.add_submodule(finding.span, "cat", FLOAT_FUNCTIONAL)   # a line in __init__, an import if needed
    edit.replace(call.function, f"{edit.method(finding.span).receiver}.{name}.cat")
    yield edit.fix(Message.of("..."), Message.of("..."), Applicability.SAFE)

What it offers:

- questions: ``text``, ``expression``, ``operation``, ``call``, ``method``, ``assigned`` (what one constructor line
  makes), ``repeats``, ``single_use``, ``family``;
- text: ``replace``, ``wrap``, ``insert``;
- calls: ``add_argument``, ``rename_keyword``, ``unwrap_call`` (a call becomes its argument);
- statements: ``insert_before``, ``insert_after``, ``delete_statement``, ``move_statement``, ``wrap_statement``;
- names: ``spell`` (an imported library name as this file spells it, importing it if it must), ``add_submodule``,
  ``remove_submodule``.

Line breaks, indentation and spelling follow the neighbours. Edits of one fix must not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

from qlsp.diagnostics import NoFix
from qlsp.syntax.edits.blocks import Blocks
from qlsp.syntax.edits.calls import Calls
from qlsp.syntax.edits.expressions import Expressions
from qlsp.syntax.edits.parts import ArgumentAt, CallAt, Expression, OperationAt
from qlsp.syntax.edits.slices import merged
from qlsp.syntax.edits.submodules import Submodules
from qlsp.syntax.view import CodeView, Key, MethodAt
from qlsp.text import Place


@dataclass
class EditBuilder(Expressions, Blocks, Calls, Submodules):
    """Collects the edits of one fix."""


__all__ = [
    "ArgumentAt", "CallAt", "CodeView", "EditBuilder", "Expression", "Key", "MethodAt", "NoFix", "OperationAt", "Place",
    "merged",
]  # fmt: skip
