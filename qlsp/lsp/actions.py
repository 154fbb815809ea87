"""Code actions: a quick fix per fix, "ignore on this line", and fix-all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from qlsp import suppress
from qlsp.diagnostics import Applicability, Diagnostic, Fix
from qlsp.lsp.convert import Converter
from qlsp.messages import render
from qlsp.suppress import NEVER_HIDDEN, read
from qlsp.text import Edit, Source, Span

FIX_ALL = "source.fixAll.qlsp"
KINDS: list[types.CodeActionKind | str] = [types.CodeActionKind.QuickFix, FIX_ALL]


class Moved(Exception):
    """A document that an action is about is another version by now, or its finding is another one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which action: what is kept in ``data`` while the edit is not asked for. ``finding`` is the ``identity`` of
    its finding: a change of another document may change findings and fixes, but not this document's version."""

    uri: str
    version: int
    action: str
    finding: str = ""
    fix: int = 0

    def as_data(self) -> dict[str, Any]:
        """For ``CodeAction.data``."""
        return {
            "uri": self.uri, "version": self.version, "action": self.action,
            "finding": self.finding, "fix": self.fix,
        }  # fmt: skip

    @classmethod
    def of(cls, data: object) -> Choice:
        """From ``CodeAction.data``, as it comes back."""
        values = data if isinstance(data, Mapping) else vars(data) if hasattr(data, "__dict__") else {}
        return cls(
            str(values.get("uri", "")),
            _number(values.get("version")),
            str(values.get("action", "")),
            str(values.get("finding", "")),
            _number(values.get("fix")),
        )


def _number(value: object) -> int:
    """A number as it comes from a client, as an integer or, of another client's making, as a float."""
    return int(value) if isinstance(value, (int, float)) else -1


def identity(finding: Diagnostic) -> str:
    """Equal for findings that say the same about the same place and have the same fixes."""
    return hashlib.blake2b(repr(finding).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Does the client ask for this kind? A kind stands for all below it: ``source`` for ``source.fixAll``."""
    return only is None or any(kind == each or kind.startswith(f"{each}.") or not each for each in only)


def actions(converter: Converter, span: Span, only: Sequence[str] | None) -> list[types.CodeAction]:
    """The actions for a range of a document."""
    found: list[types.CodeAction] = []
    if wanted(types.CodeActionKind.QuickFix, only):
        for number, finding in enumerate(converter.analysed.findings):
            if finding.place.span.start <= span.end and span.start <= finding.place.span.end:
                found.extend(_quick_fixes(converter, number, finding))
    if wanted(FIX_ALL, only) and converter.analysed.fixable:
        data = _choice(converter, FIX_ALL).as_data()
        found.append(types.CodeAction("qlsp: apply all safe fixes", kind=FIX_ALL, data=data))
    return found


def _quick_fixes(converter: Converter, number: int, finding: Diagnostic) -> Iterator[types.CodeAction]:
    about, name = converter.diagnostic(number), identity(finding)
    kind = types.CodeActionKind.QuickFix
    applicable = [each for each in finding.fixes if each.applicability is not Applicability.DISPLAY]
    for position, fix in enumerate(finding.fixes):
        title = fix_title(fix, converter.client.locale)
        if fix.applicability is Applicability.DISPLAY:
            if converter.client.disabled_actions:
                reason = render(fix.reason, converter.client.locale)
                disabled = types.CodeActionDisabled(reason)
                yield types.CodeAction(title, kind=kind, diagnostics=[about], disabled=disabled)
            continue
        choice = _choice(converter, "fix", name, position)
        action = _action(converter, title, kind, choice)
        action.diagnostics = [about]
        action.is_preferred = fix is applicable[0] and fix.applicability is Applicability.SAFE or None
        yield action
    if finding.code in NEVER_HIDDEN:
        return
    choice = _choice(converter, "ignore", name)
    ignore = _action(converter, f"Ignore {finding.code} on this line", kind, choice)
    ignore.diagnostics = [about]
    yield ignore


def fix_title(fix: Fix, locale: str) -> str:
    """The title of a fix; one that is not safe says what may change."""
    title = render(fix.title, locale)
    if fix.applicability is Applicability.UNSAFE:
        return f"{title} (unsafe: {render(fix.reason, locale)})"
    return title


def _choice(converter: Converter, action: str, finding: str = "", fix: int = 0) -> Choice:
    document = converter.analysed.document
    return Choice(document.uri, document.file.version, action, finding, fix)


def _action(converter: Converter, title: str, kind: str, choice: Choice) -> types.CodeAction:
    """An action whose edit is made now or, if the client can ask for it, later."""
    action = types.CodeAction(title, kind=kind)
    if converter.client.lazy_edits:
        action.data = choice.as_data()
    else:
        action.edit = edit(converter, choice)
    return action


def edit(converter: Converter, choice: Choice) -> types.WorkspaceEdit | None:
    """The edit of an action; raises ``Moved`` if the document is another version or the finding is gone."""
    document, findings = converter.analysed.document, converter.analysed.findings
    number = next((n for n, each in enumerate(findings) if identity(each) == choice.finding), None)
    if choice.version != document.file.version or number is None:
        raise Moved
    if choice.action == "ignore":
        return converter.workspace_edit(ignore_edits(converter, number))
    fixes = findings[number].fixes
    if choice.action != "fix" or not 0 <= choice.fix < len(fixes):
        raise Moved
    return converter.workspace_edit(fixes[choice.fix].edits)


def ignore_edits(converter: Converter, number: int) -> list[Edit]:
    """A comment that hides a finding, or nothing where there is no place for one."""
    file = converter.analysed.document.file
    comments = read(Source.from_text(file.path, file.text), converter.rules)
    return suppress.ignore_edits(comments, [converter.analysed.findings[number]], reason=None)
