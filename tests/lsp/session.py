"""An editor for the tests: keeps its text, talks to a server, applies what the server says."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import converters, types
from pytest_lsp import LanguageClient, client_capabilities

from qlsp.text import LineIndex

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "clients"
SERVER = [sys.executable, "-m", "qlsp", "server"]
PROFILES = ("vscode-old", "vscode-new", "neovim")


def capabilities(profile: str) -> types.ClientCapabilities:
    """What an editor says it can do."""
    if profile == "vscode-old":
        return client_capabilities("visual-studio-code")
    if profile == "neovim":
        return client_capabilities("neovim@0.11.0")
    recorded = json.loads((RECORDED / f"{profile}.json").read_text(encoding="utf-8"))
    return converters.get_converter().structure(recorded, types.ClientCapabilities)


@dataclass
class Buffer:
    """One document in the editor."""

    editor: Editor
    uri: str
    text: str
    version: int = 1
    before: list[str] = field(default_factory=list)

    @property
    def id(self) -> types.TextDocumentIdentifier:
        """How requests name the document."""
        return types.TextDocumentIdentifier(self.uri)

    def type(self, text: str) -> None:
        """Replace the text, as typing does."""
        self.before.append(self.text)
        self.text = text
        self.version += 1
        self.editor.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    def undo(self) -> None:
        """Go back to the text before the last change."""
        self.type(self.before[-1])

    def position(self, offset: int) -> types.Position:
        """An offset in the editor's own units."""
        index = LineIndex(self.text)
        row, column = index.position(offset)
        return types.Position(row - 1, index.to_units(row, column, self.editor.units))

    def range_of(self, piece: str, start: int = 0) -> types.Range:
        """Where a piece of the text stands."""
        begin = self.text.index(piece, start)
        return types.Range(self.position(begin), self.position(begin + len(piece)))

    def offset(self, position: types.Position) -> int:
        """The offset of a position."""
        return LineIndex(self.text).from_units(position.line, position.character, self.editor.units)

    def cut(self, range_: types.Range) -> str:
        """The text in a range."""
        return self.text[self.offset(range_.start) : self.offset(range_.end)]

    async def diagnostics(self) -> list[types.Diagnostic]:
        """The findings for the current text, over whichever channel this editor uses."""
        if self.editor.pulls:
            report = await self.editor.client.text_document_diagnostic_async(
                types.DocumentDiagnosticParams(self.id)
            )
            return list(report.items)
        return await self.editor.pushed(self.uri, self.version)

    async def actions(self, range_: types.Range, only: Sequence[str] | None = None) -> list[types.CodeAction]:
        """The code actions for a range."""
        context = types.CodeActionContext([], only=list(only) if only is not None else None)
        params = types.CodeActionParams(self.id, range_, context)
        found = await self.editor.client.text_document_code_action_async(params)
        return [action for action in found or [] if isinstance(action, types.CodeAction)]

    async def apply(self, action: types.CodeAction) -> None:
        """Apply an action as editors do: resolve it first, refuse another version."""
        if action.edit is None:
            action = await self.editor.client.code_action_resolve_async(action)
        assert action.edit is not None
        changes = action.edit.document_changes
        assert changes, "the edit has no versions"
        for change in changes:
            assert isinstance(change, types.TextDocumentEdit)
            buffer = self.editor.buffers[change.text_document.uri]
            assert change.text_document.version == buffer.version
            buffer.type(buffer.edited([edit for edit in change.edits if isinstance(edit, types.TextEdit)]))

    def edited(self, edits: Sequence[types.TextEdit]) -> str:
        """The text after edits, which must not overlap."""
        text, last = self.text, len(self.text)
        for edit in sorted(edits, key=lambda edit: self.offset(edit.range.start), reverse=True):
            start, end = self.offset(edit.range.start), self.offset(edit.range.end)
            assert start <= end <= last
            text, last = text[:start] + edit.new_text + text[end:], start
        return text

    async def hover(self, offset: int) -> types.Hover | None:
        """What the server says about an offset."""
        return await self.editor.client.text_document_hover_async(
            types.HoverParams(self.id, self.position(offset))
        )


@dataclass
class Editor:
    """A client with the habits of one editor."""

    client: LanguageClient
    profile: str
    result: types.InitializeResult | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    pushes: dict[tuple[str, int | None], list[types.Diagnostic]] = field(default_factory=dict)
    push_count: int = 0

    def __post_init__(self) -> None:
        self.client.protocol.fm.features.pop(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, None)

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def pushed(params: types.PublishDiagnosticsParams) -> None:
            self.pushes[params.uri, params.version] = list(params.diagnostics)
            self.push_count += 1

    async def start(self, folder: Path | None, **options: Any) -> types.InitializeResult:
        """Introduce the editor to the server."""
        folders = [types.WorkspaceFolder(folder.as_uri(), folder.name)] if folder else None
        params = types.InitializeParams(capabilities(self.profile), workspace_folders=folders, **options)
        self.result = await self.client.initialize_session(params)
        return self.result

    @property
    def pulls(self) -> bool:
        """Does the editor ask for findings?"""
        assert self.result is not None
        return self.result.capabilities.diagnostic_provider is not None

    @property
    def units(self) -> Any:
        """The code units the two agreed on."""
        assert self.result is not None
        encoding = self.result.capabilities.position_encoding or "utf-16"
        return getattr(encoding, "value", encoding)

    def open(self, path: Path | str, text: str, language: str = "python") -> Buffer:
        """Open a document; a string is a URI."""
        uri = path if isinstance(path, str) else path.as_uri()
        buffer = self.buffers[uri] = Buffer(self, uri, text)
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return buffer

    def close(self, buffer: Buffer) -> None:
        """Close a document."""
        del self.buffers[buffer.uri]
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(buffer.id))

    async def pushed(self, uri: str, version: int | None) -> list[types.Diagnostic]:
        """Wait for a push about one version."""
        await until(lambda: (uri, version) in self.pushes)
        return self.pushes[uri, version]


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        await asyncio.sleep(0.005)
