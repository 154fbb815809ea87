"""Our values as the protocol's: places, findings, fixes, hover texts. Positions are converted here only."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import from_fs_path, to_fs_path

from qlsp.diagnostics import Diagnostic, Severity
from qlsp.lsp.exchange import RuleInfo, TensorNote
from qlsp.lsp.schedule import Analysed, Document, offset_then
from qlsp.messages import render, rule_url
from qlsp.text import Edit, LineIndex, Place, Span, Units

SOURCE = "qlsp"
SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}
UNNECESSARY = frozenset({"QL002"})
"""Rules whose findings can be deleted as they stand."""
DEPRECATED = frozenset({"QL901", "QL902"})
"""Rules about names on their way out."""

TARGET = 80
"""Longest piece of source shown in a hover."""


@dataclass(frozen=True, slots=True)
class Client:
    """What the client can do, as far as an answer depends on it."""

    units: Units = "utf-16"
    locale: str = "en"
    pulls: bool = False
    refreshes: bool = False
    related: bool = False
    tags: bool = False
    literal_actions: bool = False
    lazy_edits: bool = False
    disabled_actions: bool = False
    document_changes: bool = False
    markdown: bool = False

    @classmethod
    def of(cls, params: types.InitializeParams, encoding: str | None) -> Client:
        """The client as it introduces itself."""

        def can(name: str) -> Any:
            return get_capability(params.capabilities, name)

        units: Units = "utf-8" if encoding == "utf-8" else "utf-32" if encoding == "utf-32" else "utf-16"
        return cls(
            units=units,
            locale=(params.locale or "en").lower(),
            pulls=can("text_document.diagnostic") is not None,
            refreshes=bool(can("workspace.diagnostics.refresh_support")),
            related=bool(can("text_document.publish_diagnostics.related_information")),
            tags=bool(can("text_document.publish_diagnostics.tag_support")),
            literal_actions=can("text_document.code_action.code_action_literal_support") is not None,
            lazy_edits="edit" in (can("text_document.code_action.resolve_support.properties") or ())
            and bool(can("text_document.code_action.data_support")),
            disabled_actions=bool(can("text_document.code_action.disabled_support")),
            document_changes=bool(
                can("workspace.workspace_edit.document_changes")
                or can("workspace.workspace_edit.resource_operations")
            ),
            markdown="markdown" in (can("text_document.hover.content_format") or ()),
        )


def path_of(uri: str) -> tuple[str, bool]:
    """The file a URI names, and whether it can be on disk; an unsaved document keeps its URI as a name."""
    path = to_fs_path(uri)
    return (os.path.normpath(path), True) if path else (uri, False)


def uri_of(path: str) -> str:
    """The URI of a file on disk."""
    return from_fs_path(os.path.abspath(path)) or path


def to_range(index: LineIndex, span: Span, units: Units) -> types.Range:
    """A span as the client counts."""

    def position(offset: int) -> types.Position:
        row, column = index.position(offset)
        return types.Position(row - 1, index.to_units(row, column, units))

    return types.Range(position(span.start), position(span.end))


def to_offset(index: LineIndex, position: types.Position, units: Units) -> int:
    """A client's position as an offset."""
    return index.from_units(position.line, position.character, units)


def to_span(index: LineIndex, range_: types.Range, units: Units) -> Span:
    """A client's range as a span."""
    return Span(to_offset(index, range_.start, units), to_offset(index, range_.end, units))


@dataclass(frozen=True, slots=True)
class Converter:
    """Converts what one analysis says; other open documents and files that are not open are known by path."""

    client: Client
    analysed: Analysed
    documents: Mapping[str, Document]
    rules: Sequence[RuleInfo] = ()

    def diagnostic(self, number: int) -> types.Diagnostic:
        """A finding, by its index in the analysis."""
        finding = self.analysed.findings[number]
        document, client = self.analysed.document, self.client
        related = (self._related(finding) or None) if client.related else None
        text = render(finding.message, client.locale)
        assumes = f" ({render(finding.assumes, client.locale)})" if finding.assumes else ""
        return types.Diagnostic(
            range=to_range(document.index, finding.place.span, client.units),
            message=text + assumes,
            severity=SEVERITIES[finding.severity],
            code=finding.code,
            code_description=types.CodeDescription(rule_url(finding.name)),
            source=SOURCE,
            tags=_tags(finding.code) if client.tags else None,
            related_information=related,
            data={
                "name": finding.name,
                "predicts": finding.predicts.value,
                "version": document.file.version,
                "fixes": [render(fix.title, client.locale) for fix in finding.fixes],
            },
        )

    def diagnostics(self) -> list[types.Diagnostic]:
        """All findings of the document."""
        return [self.diagnostic(number) for number in range(len(self.analysed.findings))]

    def _related(self, finding: Diagnostic) -> list[types.DiagnosticRelatedInformation]:
        found = []
        for related in finding.related:
            location = self.location(related.place)
            if location is not None:
                text = render(related.message, self.client.locale)
                found.append(types.DiagnosticRelatedInformation(location, text))
        return found

    def location(self, place: Place) -> types.Location | None:
        """A place in any file whose text is known."""
        known = self._lines(place.path)
        if known is None:
            return None
        uri, index = known
        return types.Location(uri, to_range(index, place.span, self.client.units))

    def _lines(self, path: str) -> tuple[str, LineIndex] | None:
        document = self.analysed.document
        if path != document.file.path:
            if path not in self.documents:
                text = self.analysed.texts.get(path)
                return (uri_of(path), LineIndex(text)) if text is not None else None
            document = self.documents[path]
        return document.uri, document.index

    def workspace_edit(self, edits: Iterable[Edit]) -> types.WorkspaceEdit | None:
        """Edits as one change that an editor refuses where a version moved; None if a file is not known."""
        by_path: dict[str, list[Edit]] = {}
        for edit in edits:
            by_path.setdefault(edit.path, []).append(edit)
        changes: dict[str, list[types.TextEdit]] = {}
        versions: dict[str, int | None] = {}
        for path, group in by_path.items():
            known = self._lines(path)
            if known is None:
                return None
            uri, index = known
            ordered = sorted(group, key=lambda edit: (edit.span.start, edit.span.end))
            changes[uri] = [
                types.TextEdit(to_range(index, edit.span, self.client.units), edit.content)
                for edit in ordered
            ]
            versions[uri] = self._version(path)
        if not self.client.document_changes:
            return types.WorkspaceEdit(changes)
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(
                    types.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]), edits
                )
                for uri, edits in changes.items()
            ]
        )

    def _version(self, path: str) -> int | None:
        if path == self.analysed.document.file.path:
            return self.analysed.document.file.version
        return self.documents[path].file.version if path in self.documents else None


def _tags(code: str) -> list[types.DiagnosticTag] | None:
    if code in UNNECESSARY:
        return [types.DiagnosticTag.Unnecessary]
    return [types.DiagnosticTag.Deprecated] if code in DEPRECATED else None


def result_id(analysed: Analysed) -> str:
    """Equal for equal findings at equal places."""
    content = (analysed.findings, analysed.document.index.text if analysed.findings else "")
    return hashlib.blake2b(pickle.dumps(content), digest_size=12).hexdigest()


def hover(
    client: Client, analysed: Analysed, rules: Mapping[str, RuleInfo], document: Document, offset: int
) -> types.Hover | None:
    """The page of the finding under an offset, or what the tensor under it is."""
    then = offset_then(analysed.document, document, offset)
    if then is not None:
        for finding in analysed.findings:
            span = finding.place.span
            if span.start <= then < max(span.end, span.start + 1):
                page = rules[finding.code].page if finding.code in rules else rule_url(finding.name)
                text = f"{render(finding.message, client.locale)}\n\n---\n\n{page}"
                return _hover(client, text, document, offset - then, span)
    if analysed.tensors is None or analysed.hovered is None:
        return None
    then = offset_then(analysed.hovered, document, offset)
    if then is None:
        return None
    around = [span for span in analysed.tensors.spans if span[0] <= then < span[1]]
    if not around:
        return None
    start, end, _ = min(around, key=lambda span: span[1] - span[0])
    notes = [analysed.tensors.notes[span[2]] for span in around if span[:2] == (start, end)]
    shown = analysed.hovered.file.text[start:end].split("\n", 1)[0][:TARGET]
    lines = dict.fromkeys(_tensor_line(client, analysed, note) for note in notes)
    text = f"`{shown}`\n\n" + "\n".join(f"- {line}" for line in lines)
    return _hover(client, text, document, offset - then, Span(start, end))


def _hover(client: Client, text: str, document: Document, shift: int, span: Span) -> types.Hover:
    kind = types.MarkupKind.Markdown if client.markdown else types.MarkupKind.PlainText
    now = Span(span.start + shift, span.end + shift)
    return types.Hover(types.MarkupContent(kind, text), to_range(document.index, now, client.units))


def _tensor_line(client: Client, analysed: Analysed, note: TensorNote) -> str:
    """``quantized quint8, scale of conv (net.py:12) in Net``."""
    text = f"**{note.domain}**" if client.markdown else note.domain
    if note.domain == "quantized":
        text += f" `{note.dtype}`" if client.markdown else f" {note.dtype}"
        place = _built(client, analysed, note.built)
        owner = note.owner if note.owner is not None else "not known"
        text += f", scale {'of ' if note.built is not None else ''}{owner}{place}"
    return f"{text} (in {note.root})"


def _built(client: Client, analysed: Analysed, place: Place | None) -> str:
    if place is None or analysed.hovered is None:
        return ""
    here = analysed.hovered.file
    text = here.text if place.path == here.path else analysed.texts.get(place.path)
    if text is None:
        return ""
    row = text.count("\n", 0, place.span.start) + 1
    label = f"{os.path.basename(place.path)}:{row}"
    return f" ([{label}]({uri_of(place.path)}#L{row}))" if client.markdown else f" ({label})"
