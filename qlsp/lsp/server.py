"""The server: each handler converts its parameters, makes one call, and converts the answer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCNotification

from qlsp import __version__
from qlsp.lsp import actions, convert, settings
from qlsp.lsp.convert import Client, Converter
from qlsp.lsp.exchange import OpenFile, Settings
from qlsp.lsp.schedule import Analysed, Document, Schedule

LANGUAGES = ("python", "")
WATCHED = ("**/*.py", "**/*.ipynb", "**/pyproject.toml", "**/qlsp.toml")
SETTINGS_WAIT = 2.0
"""Seconds that the first analysis waits for the client's settings."""
CONTENT_MODIFIED = -32801

log = logging.getLogger(__name__)


class Protocol(LanguageServerProtocol):
    """Answers requests whose parameters make no sense, and goes on."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message as a typed value; one that cannot be typed is answered here."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], None, error.to_response_error())
            return JsonRPCNotification("$/malformed", self.VERSION, None)


class Server(LanguageServer):
    """The state of one session."""

    def __init__(self) -> None:
        super().__init__(
            "qlsp", __version__, types.TextDocumentSyncKind.Full, protocol_cls=Protocol, max_workers=2
        )
        self.client = Client()
        self.schedule = Schedule(self.finished, self.problem)
        self.folders: dict[str, Settings] = {}
        self.settings = Settings()
        self._reported: dict[str, str] = {}
        self._problems: set[str] = set()

    def report_server_error(self, error: Exception, source: object) -> None:
        """Errors go to the log; a pop-up for every broken message would help nobody."""
        log.error("%s", error)

    # Documents

    def put(self, uri: str, language: str | None, version: int, text: str) -> None:
        """Take over a document's new text."""
        known = self.schedule.documents.get(uri)
        if known is not None:
            self.schedule.put(uri, replace(known.file, version=version, text=text))
        elif (language or "") in LANGUAGES and not uri.startswith("vscode-notebook-cell:"):
            path, on_disk = convert.path_of(uri)
            folder = self.folder_of(path)
            chosen = self.folders.get(folder, self.settings) if folder else self.settings
            self.schedule.put(uri, OpenFile(path, version, text, chosen, folder, on_disk))

    def folder_of(self, path: str) -> str | None:
        """The innermost workspace folder around a file; the first one for a file that has no place yet."""
        around = [folder for folder in self.folders if path.startswith(os.path.join(folder, ""))]
        if around:
            return max(around, key=len)
        return next(iter(self.folders), None) if not os.path.isabs(path) else None

    def converter(self, analysed: Analysed) -> Converter:
        """A converter for what an analysis says."""
        by_path = {document.file.path: document for document in self.schedule.documents.values()}
        return Converter(self.client, analysed, by_path, tuple(self.schedule.rules.values()))

    async def current(self, uri: str) -> Analysed | None:
        """The analysis of a document's current version; None if there is none, or none could be made."""
        analysed = await self.schedule.settled(uri)
        document = self.schedule.documents.get(uri)
        if analysed is None or document is None:
            return None
        return analysed if analysed.document.file.version == document.file.version else None

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """Make the edit of an action; raises ``Moved`` if a document it is about is another version by now.

        An edit may reach into other documents, so that it waits for the analysis of all of them as they are.
        """
        choice = actions.Choice.of(action.data)
        self.unmoved(choice)
        if choice.action == actions.FIX_ALL:
            edits = await self.schedule.fixed_all(choice.uri)
            action.edit = self.converter(self.unmoved(choice)).workspace_edit(edits)
        else:
            await self.schedule.settled(choice.uri)
            analysed = self.unmoved(choice)
            if not self.schedule.current():
                raise actions.Moved
            action.edit = actions.edit(self.converter(analysed), choice)
        return action

    def unmoved(self, choice: actions.Choice) -> Analysed:
        """The analysis that a choice was made from; raises ``Moved`` if there is a later version."""
        analysed, document = self.schedule.latest(choice.uri), self.schedule.documents.get(choice.uri)
        versions = {each.file.version for each in (document, analysed and analysed.document) if each}
        if analysed is None or document is None or versions != {choice.version}:
            raise actions.Moved
        return analysed

    # What the schedule reports

    def problem(self, text: str) -> None:
        """Tell the user what is wrong with the configuration or the server, once."""
        log.error("%s", text)
        if text not in self._problems:
            self._problems.add(text)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"qlsp: {text}"))

    def finished(self, edited: frozenset[str]) -> None:
        """Send what is new: findings to a client that waits for them, a hint to one that asks."""
        stale = False
        for uri, document in self.schedule.documents.items():
            analysed = self.schedule.latest(uri)
            if analysed is None or analysed.document.file.version != document.file.version:
                continue
            new = self._reported.get(uri) != convert.result_id(analysed)
            if not self.client.pulls and (new or uri in edited):
                self.publish(analysed)
            stale = stale or (new and uri not in edited and uri in self._reported)
        if self.client.pulls and self.client.refreshes and stale:
            self.workspace_diagnostic_refresh(None)

    def publish(self, analysed: Analysed) -> None:
        """Push the findings of a document."""
        document = analysed.document
        self._reported[document.uri] = convert.result_id(analysed)
        diagnostics = self.converter(analysed).diagnostics()
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(document.uri, diagnostics, document.file.version)
        )

    def report(self, analysed: Analysed, previous: str | None) -> Any:
        """The findings of a document, for a client that asks; only their id if it has them."""
        number = self._reported[analysed.document.uri] = convert.result_id(analysed)
        if number == previous:
            return types.RelatedUnchangedDocumentDiagnosticReport(number)
        diagnostics = self.converter(analysed).diagnostics()
        return types.RelatedFullDocumentDiagnosticReport(diagnostics, result_id=number)

    def forget(self, uri: str) -> None:
        """A document was closed: a pushed finding must not stay behind."""
        self.schedule.remove(uri)
        if self._reported.pop(uri, None) is not None and not self.client.pulls:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    # Settings

    async def load_settings(self) -> None:
        """Ask the client for its settings, those of each folder for itself."""
        if not get_capability(self.client_capabilities, "workspace.configuration", False):
            return
        folders = list(self.folders)
        items = [types.ConfigurationItem(scope_uri=convert.uri_of(each), section="qlsp") for each in folders]
        params = types.ConfigurationParams([types.ConfigurationItem(section="qlsp"), *items])
        try:
            # The client may never answer, and a request of ours must not be cancelled.
            request = asyncio.ensure_future(self.workspace_configuration_async(params))
            found = await asyncio.wait_for(asyncio.shield(request), SETTINGS_WAIT)
        except (JsonRpcException, asyncio.TimeoutError) as error:
            log.warning("no settings from the client: %s", error)
            return
        if found and found[0]:
            self.settings = settings.read(found[0])
        for folder, raw in zip(folders, found[1:], strict=False):
            self.folders[folder] = settings.read(raw) if raw else self.settings

    def apply_settings(self) -> None:
        """Give every document the settings of its folder, and check again."""
        self._problems.clear()

        def changed(uri: str, file: OpenFile) -> OpenFile:
            folder = self.folder_of(file.path)
            chosen = self.folders.get(folder, self.settings) if folder else self.settings
            return replace(file, settings=chosen, folder=folder)

        self.schedule.update(changed)


def create() -> Server:
    """A server with all its handlers."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(ls: Server, params: types.InitializeParams) -> None:
        ls.client = Client.of(params, ls.workspace.position_encoding)
        options = params.initialization_options
        ls.settings = settings.read(settings.given(options))
        for folder in params.workspace_folders or ():
            ls.folders[convert.path_of(folder.uri)[0]] = ls.settings
        if not ls.folders and params.root_uri:
            ls.folders[convert.path_of(params.root_uri)[0]] = ls.settings
        if ls.client.pulls:
            _add_pull(ls)
        for name, command in COMMANDS.items():
            if name not in settings.client_commands(options):
                ls.command(name)(command)
        ls.schedule.start()

    @server.feature(types.INITIALIZED)
    async def initialized(ls: Server, params: types.InitializedParams) -> None:
        await ls.load_settings()
        ls.apply_settings()
        ls.schedule.begin()
        if ls.client.pulls:
            _add_workspace_pull(ls)
        await _register(ls)

    @server.feature(types.SHUTDOWN)
    async def shutdown(ls: Server, params: None) -> None:
        await ls.schedule.close()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        ls.put(document.uri, str(document.language_id), document.version, document.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        whole = [change for change in params.content_changes if not hasattr(change, "range")]
        if whole and params.text_document.uri in ls.schedule.documents:
            ls.put(params.text_document.uri, None, params.text_document.version, whole[-1].text)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.schedule.recheck()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
        ls.schedule.recheck()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(ls: Server, params: types.DidChangeConfigurationParams) -> None:
        if (raw := settings.given(params.settings)) is not None:
            ls.settings = settings.read(raw)
            ls.folders = dict.fromkeys(ls.folders, ls.settings)
        await ls.load_settings()
        ls.apply_settings()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def did_change_folders(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.removed:
            ls.folders.pop(convert.path_of(folder.uri)[0], None)
        for folder in params.event.added:
            ls.folders[convert.path_of(folder.uri)[0]] = ls.settings
        await ls.load_settings()
        ls.apply_settings()

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=actions.KINDS, resolve_provider=True),
    )
    async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        analysed = await ls.current(params.text_document.uri)
        if analysed is None or not ls.client.literal_actions:
            return []
        span = convert.to_span(analysed.document.index, params.range, ls.client.units)
        found = actions.actions(ls.converter(analysed), span, params.context.only)
        if ls.client.lazy_edits:
            return found
        try:
            return [await ls.resolve(each) if each.data is not None else each for each in found]
        except actions.Moved:
            raise _moved() from None

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(ls: Server, action: types.CodeAction) -> types.CodeAction:
        try:
            return await ls.resolve(action)
        except actions.Moved:
            raise _moved() from None

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        analysed, document = ls.schedule.latest(uri), ls.schedule.documents.get(uri)
        if analysed is None or document is None:
            return None
        offset = convert.to_offset(document.index, params.position, ls.client.units)
        return convert.hover(ls.client, analysed, ls.schedule.rules, document, offset)

    return server


def _moved() -> JsonRpcException:
    return JsonRpcException("the document has changed since", CONTENT_MODIFIED)


def _add_pull(server: Server) -> None:
    """Let the client ask for findings; then none is pushed."""

    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(identifier="qlsp", inter_file_dependencies=True, workspace_diagnostics=False),
    )
    async def document(ls: Server, params: types.DocumentDiagnosticParams) -> Any:
        analysed = await ls.schedule.settled(params.text_document.uri)
        if analysed is None:
            return types.RelatedFullDocumentDiagnosticReport([])
        return ls.report(analysed, params.previous_result_id)


def _add_workspace_pull(server: Server) -> None:
    """Answer who asks for everything, about the open documents. Not offered: clients would ask all the time."""

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    async def workspace(ls: Server, params: types.WorkspaceDiagnosticParams) -> Any:
        known = {each.uri: each.value for each in params.previous_result_ids}
        items: list[Any] = []
        for uri in list(ls.schedule.documents):
            analysed = await ls.schedule.settled(uri)
            if analysed is not None:
                items.append(_workspace_report(ls.report(analysed, known.get(uri)), analysed.document))
        return types.WorkspaceDiagnosticReport(items)


def _workspace_report(report: Any, document: Document) -> Any:
    uri, version = document.uri, document.file.version
    if isinstance(report, types.RelatedUnchangedDocumentDiagnosticReport):
        return types.WorkspaceUnchangedDocumentDiagnosticReport(uri, report.result_id, version)
    return types.WorkspaceFullDocumentDiagnosticReport(uri, report.items, version, result_id=report.result_id)


async def _restart(ls: Server) -> None:
    """Take a new worker process."""
    await ls.schedule.restart()


async def _fix_all(ls: Server, *arguments: Any) -> None:
    """Apply the safe fixes of a document."""
    analysed = await ls.current(str(arguments[0])) if arguments else None
    if analysed is None:
        return
    edits = await ls.schedule.fixed_all(analysed.document.uri)
    edit = ls.converter(analysed).workspace_edit(edits) if edits else None
    if edit is not None and ls.schedule.latest(analysed.document.uri) is analysed:
        params = types.ApplyWorkspaceEditParams(edit, "qlsp: apply all safe fixes")
        await asyncio.shield(asyncio.ensure_future(ls.workspace_apply_edit_async(params)))


COMMANDS = {"qlsp.restart": _restart, "qlsp.fixAll": _fix_all}


async def _register(ls: Server) -> None:
    """Ask for news about files and settings, where the client has no other way to agree on it."""
    registrations: list[types.Registration] = []
    capabilities = ls.client_capabilities
    if get_capability(capabilities, "workspace.did_change_watched_files.dynamic_registration", False):
        watchers: Sequence[types.FileSystemWatcher] = [types.FileSystemWatcher(each) for each in WATCHED]
        options: object = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        registrations.append(types.Registration("qlsp-files", method, options))
    if get_capability(capabilities, "workspace.did_change_configuration.dynamic_registration", False):
        options = types.DidChangeConfigurationRegistrationOptions(section="qlsp")
        method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
        registrations.append(types.Registration("qlsp-settings", method, options))
    if registrations:
        params = types.RegistrationParams(registrations)
        try:
            await asyncio.shield(asyncio.ensure_future(ls.client_register_capability_async(params)))
        except JsonRpcException as error:
            log.warning("the client does not register for news: %s", error)


def serve(tcp: tuple[str, int] | None) -> int:
    """Serve one client, over standard input and output or over TCP; the exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("qlsp").setLevel(logging.INFO)
    logging.getLogger("pygls").setLevel(logging.ERROR)
    server = create()
    if tcp is None:
        server.start_io()
    else:
        server.start_tcp(*tcp)
    return 0 if server.protocol._shutdown else 1
