"""Settings, configuration files, broken code, broken clients, broken workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp.client import make_test_lsp_client

from . import models
from .conftest import Connect
from .session import ROOT, SERVER, Buffer, Editor, capabilities, until
from .test_editing import codes


def await_if(sent: Any) -> None:
    """Some transports write in a coroutine."""
    if asyncio.iscoroutine(sent):
        asyncio.ensure_future(sent)


def worker_of(editor: Editor) -> int:
    """The process id of the server's worker."""
    assert editor.client._server is not None
    children = Path(f"/proc/{editor.client._server.pid}/task/{editor.client._server.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    (pid,) = children.read_text().split()
    return int(pid)


# One channel


async def test_one_channel_each(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    await buffer.diagnostics()
    assert editor.pulls == (editor.profile != "vscode-old")
    assert editor.pulls or editor.push_count == 1
    assert not editor.pulls or editor.push_count == 0


async def test_the_same_findings_again_are_not_sent_again(editor: Editor, tmp_path: Path) -> None:
    first = editor.open(tmp_path / "net.py", models.FINDING)
    other = editor.open(tmp_path / "other.py", models.FINDING)
    await first.diagnostics()
    await other.diagnostics()
    if editor.pulls:
        report = await editor.client.text_document_diagnostic_async(types.DocumentDiagnosticParams(first.id))
        params = types.DocumentDiagnosticParams(first.id, previous_result_id=report.result_id)
        again = await editor.client.text_document_diagnostic_async(params)
        assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
        return
    before = editor.push_count
    first.type(first.text + "# more\n")
    await first.diagnostics()
    assert editor.push_count == before + 1


async def test_refresh_when_another_file_changes_the_findings(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("vscode-new")
    await editor.start(tmp_path)
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    assert codes(await buffer.diagnostics()) == ["QL101"]
    before = editor.client.diagnostic_refresh_count
    (tmp_path / "qlsp.toml").write_text('ignore = ["QL101"]\n')
    change = types.FileEvent((tmp_path / "qlsp.toml").as_uri(), types.FileChangeType.Created)
    editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([change]))
    await until(lambda: editor.client.diagnostic_refresh_count > before)
    assert await buffer.diagnostics() == []


BLOCK = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], 1)
"""
ROOT_OF_BLOCK = """\
from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare
from block import Block

model = QuantWrapper(Block()).eval()
model.qconfig = get_default_qconfig("x86")
prepared = prepare(model)
"""


@pytest.mark.parametrize("profile", ["vscode-new", "neovim"])
async def test_a_block_alone_is_judged_through_files_that_are_not_open(
    connect: Connect, tmp_path: Path, profile: str
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    main = tmp_path / "main.py"
    editor = await connect(profile)
    await editor.start(tmp_path)
    buffer = editor.open(tmp_path / "block.py", BLOCK)
    assert await buffer.diagnostics() == []

    async def shown(change: types.FileChangeType, count: int) -> None:
        event = types.DidChangeWatchedFilesParams([types.FileEvent(main.as_uri(), change)])
        editor.client.workspace_did_change_watched_files(event)
        await buffer.diagnostics()
        if editor.pulls:
            assert len(await buffer.diagnostics()) == count
        else:
            await until(lambda: len(editor.pushes[buffer.uri, buffer.version]) == count)

    main.write_text(ROOT_OF_BLOCK)
    await shown(types.FileChangeType.Created, 1)
    buffer.type(BLOCK + "# more\n")
    assert len(await buffer.diagnostics()) == 1
    main.unlink()
    await shown(types.FileChangeType.Deleted, 0)
    opened = editor.open(main, ROOT_OF_BLOCK)
    await opened.diagnostics()
    await shown(types.FileChangeType.Created, 1)
    opened.type("model = None\n")
    await opened.diagnostics()
    await shown(types.FileChangeType.Changed, 0)


async def test_workspace_pull_answers(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("vscode-new")
    await editor.start(tmp_path)
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    await buffer.diagnostics()
    report = await editor.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
    assert [item.uri for item in report.items] == [buffer.uri]


# Settings and configuration


@pytest.mark.parametrize("wrapped", [True, False])
async def test_settings_of_initialize(connect: Connect, tmp_path: Path, wrapped: bool) -> None:
    editor = await connect("neovim")
    given = {"ignore": ["QL101"]}
    await editor.start(tmp_path, initialization_options={"settings": given} if wrapped else given)
    assert await editor.open(tmp_path / "net.py", models.FINDING).diagnostics() == []


async def test_settings_change(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    assert codes(await buffer.diagnostics()) == ["QL101"]
    editor.client.set_configuration({"severity": {"QL101": "info"}, "perFileIgnores": None}, section="qlsp")
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))
    if editor.pulls:
        for _ in range(100):
            (found,) = await buffer.diagnostics()
            if found.severity == types.DiagnosticSeverity.Information:
                return
            await asyncio.sleep(0.05)
    else:
        severity = types.DiagnosticSeverity.Information
        await until(lambda: editor.pushes[buffer.uri, 1][0].severity == severity)


async def test_innermost_folder_decides(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("vscode-new")
    inner = tmp_path / "inner"
    inner.mkdir()
    editor.client.set_configuration({"qlsp": {"enable": False}}, scope_uri=inner.as_uri())
    params = [types.WorkspaceFolder(each.as_uri(), each.name) for each in (tmp_path, inner)]
    editor.result = await editor.client.initialize_session(
        types.InitializeParams(capabilities("vscode-new"), workspace_folders=params)
    )
    assert codes(await editor.open(tmp_path / "a.py", models.FINDING).diagnostics()) == ["QL101"]
    assert codes(await editor.open(inner / "a.py", models.FINDING).diagnostics()) == []


async def test_nearest_configuration_is_that_of_the_command_line(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "qlsp.toml").write_text('ignore = ["QL101"]\n')
    nested = tmp_path / "package" / "models"
    nested.mkdir(parents=True)
    (tmp_path / "package" / "pyproject.toml").write_text('[tool.qlsp]\nseverity = { QL101 = "info" }\n')
    (nested / "pyproject.toml").write_text("[tool.other]\n")
    editor = await connect("neovim")
    await editor.start(None)
    for folder in (tmp_path, tmp_path / "package", nested):
        path = folder / "net.py"
        path.write_text(models.FINDING)
        shown = await editor.open(path, models.FINDING).diagnostics()
        command = [sys.executable, "-m", "qlsp", "check", "--output-format", "json", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
        names = {1: "error", 2: "warning", 3: "info"}
        expected = [(each["code"], each["severity"]) for each in json.loads(run.stdout)]
        assert [(each.code, names[each.severity or 1]) for each in shown] == expected


async def test_broken_configuration_is_reported_once_and_the_last_good_one_stays(
    connect: Connect, tmp_path: Path
) -> None:
    config = tmp_path / "qlsp.toml"
    config.write_text('ignore = ["QL101"]\n')
    editor = await connect("neovim")
    await editor.start(tmp_path)
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    assert await buffer.diagnostics() == []
    config.write_text('ignore = ["QL101"\n')
    for number in range(3):
        buffer.type(buffer.text + f"# {number}\n")
        assert await buffer.diagnostics() == []
    assert len(editor.client.messages) == 1 and "qlsp.toml" in editor.client.messages[0].message


async def test_wrong_setting_is_reported(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("neovim")
    await editor.start(tmp_path, initialization_options={"workflow": "eagre"})
    assert codes(await editor.open(tmp_path / "net.py", models.FINDING).diagnostics()) == ["QL101"]
    assert "setting workflow" in editor.client.messages[0].message


async def test_a_configuration_file_of_the_settings(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('ignore = ["QL101"]\n')
    editor = await connect("neovim")
    await editor.start(tmp_path, initialization_options={"configuration": "other.toml"})
    assert await editor.open(tmp_path / "net.py", models.FINDING).diagnostics() == []


async def test_unknown_rule_is_reported(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("neovim")
    await editor.start(tmp_path, initialization_options={"ignore": ["cat-mixed-scale"]})
    assert codes(await editor.open(tmp_path / "net.py", models.FINDING).diagnostics()) == ["QL101"]
    assert "cat-mixed-scales" in editor.client.messages[0].message


async def test_excluded_files_are_left_alone(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("neovim")
    await editor.start(tmp_path)
    inside = tmp_path / "node_modules" / "net.py"
    inside.parent.mkdir()
    assert await editor.open(inside, models.FINDING).diagnostics() == []
    assert await editor.open(tmp_path / "net.py", models.FINDING).diagnostics()


async def test_syntax_errors_are_shown_if_asked_for(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("neovim")
    await editor.start(tmp_path, initialization_options={"showSyntaxErrors": True})
    assert codes(await editor.open(tmp_path / "a.py", "def f(:\n").diagnostics()) == ["QL001"]


# Text that does not parse


async def test_findings_stay_while_their_own_function_is_half_typed(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    lines = '        z = self.(\n        note = "'
    for count in range(1, len(lines) + 1):
        buffer.type(models.FINDING.replace("        a = self", f"{lines[:count]}\n        a = self"))
        shown = await buffer.diagnostics()
        assert [(each.code, buffer.cut(each.range)) for each in shown] == [("QL101", models.CALL)], count
        if count > 16:
            fixes = [each.title for each in await buffer.actions(shown[0].range, ["quickfix"])]
            assert fixes == ["Ignore QL101 on this line"]
    buffer.type(models.FINDING)
    (again,) = await buffer.diagnostics()
    assert again.range == found.range
    buffer.type(models.CLEAN)
    assert await buffer.diagnostics() == []


async def test_syntax_errors_are_not_shown_by_default(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING + models.HALF)
    assert codes(await buffer.diagnostics()) == ["QL101"]


# Hover


async def test_hover_on_a_finding_is_its_page(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.WIDE)
    await buffer.diagnostics()
    hover = await buffer.hover(buffer.text.index("cat(["))
    assert hover is not None and isinstance(hover.contents, types.MarkupContent)
    assert "cat-mixed-scales (QL101)" in hover.contents.value
    assert hover.range is not None and buffer.cut(hover.range) == models.CALL


async def hovered(buffer: Buffer, piece: str) -> str:
    """What hovering over a piece of the text shows, once tensors are known."""
    for _ in range(200):
        hover = await buffer.hover(buffer.text.index(piece))
        if hover is not None:
            assert isinstance(hover.contents, types.MarkupContent)
            assert hover.range is not None and buffer.cut(hover.range) == piece.split("(")[0].split(" ")[0]
            return hover.contents.value
        await asyncio.sleep(0.02)
    raise AssertionError("nothing to hover over")


async def test_hover_on_a_tensor(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.CLEAN)
    await buffer.diagnostics()
    text = await hovered(buffer, "a = self.left")
    assert "quantized" in text and "quint8" in text and "left" in text and "net.py:12" in text
    buffer.type("# one line more\n" + buffer.text)
    await hovered(buffer, "b = self.right")


async def test_hover_beside_everything(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    await buffer.diagnostics()
    assert await buffer.hover(0) is None
    assert await buffer.hover(len(buffer.text)) is None


# Robustness


async def test_parameters_without_sense_get_an_answer(connect: Connect, tmp_path: Path) -> None:
    editor = await connect("neovim")
    await editor.start(tmp_path)
    answers: list[Any] = []
    handle = editor.client.protocol.handle_message
    editor.client.protocol.handle_message = lambda message: (answers.append(message), handle(message))  # type: ignore
    body = b'{"jsonrpc": "2.0", "id": 77, "method": "textDocument/hover", "params": {"position": 1}}'
    assert editor.client.protocol.writer is not None
    await_if(editor.client.protocol.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body)))
    await until(lambda: any(getattr(each, "id", None) == 77 for each in answers))
    (answer,) = (each for each in answers if getattr(each, "id", None) == 77)
    assert answer.error.code == -32602


async def test_a_killed_worker_is_replaced(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    assert codes(await buffer.diagnostics()) == ["QL101"]
    for number in range(3):
        os.kill(worker_of(editor), signal.SIGKILL)
        buffer.type(buffer.text + f"# {number}\n")
        assert codes(await buffer.diagnostics()) == ["QL101"]


async def test_restart_command(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    await buffer.diagnostics()
    before = worker_of(editor)
    await editor.client.workspace_execute_command_async(types.ExecuteCommandParams("qlsp.restart"))
    buffer.type(buffer.text + "# again\n")
    assert codes(await buffer.diagnostics()) == ["QL101"]
    assert worker_of(editor) != before


async def test_newest_version_wins(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.large(20))
    for number in range(30):
        buffer.type(models.large(20) if number % 2 else models.CLEAN)
    buffer.type(models.WIDE)
    assert codes(await buffer.diagnostics()) == ["QL101"]
    assert all(version in (1, 32) or shown for (_, version), shown in editor.pushes.items() if version)


async def test_unknown_methods_and_nonsense_do_no_harm(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    protocol = editor.client.protocol
    with pytest.raises(JsonRpcException):
        await protocol.send_request_async("qlsp/noSuchMethod", {"a": 1})
    protocol.notify("$/noSuchNotification", {"a": 1})
    with pytest.raises(JsonRpcException):
        await editor.client.workspace_execute_command_async(types.ExecuteCommandParams("qlsp.noSuchCommand"))
    with pytest.raises(JsonRpcException):
        action = types.CodeAction("x", data={"uri": buffer.uri, "version": "?"})
        await editor.client.code_action_resolve_async(action)
    await editor.client.workspace_execute_command_async(
        types.ExecuteCommandParams("qlsp.fixAll", ["file:///no"])
    )
    writer = editor.client.protocol.writer
    assert writer is not None
    bodies = [b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff\xfe", b'{"jsonrpc": "1.0", "id": 1}']
    for method, params in (("textDocument/hover", b'{"position": 1}'), ("textDocument/didChange", b"[]")):
        bodies.append(b'{"jsonrpc": "2.0", "method": "%s", "params": %s}' % (method.encode(), params))
    for body in bodies:
        await_if(writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body)))
    assert codes(await buffer.diagnostics()) == ["QL101"]
    assert editor.client.messages == []


async def test_cancelled_requests_do_no_harm(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.large(30))
    params = types.CodeActionParams(buffer.id, buffer.range_of(models.CALL), types.CodeActionContext([]))
    for number in range(10):
        request = editor.client.protocol.send_request_async(
            types.TEXT_DOCUMENT_CODE_ACTION, params, msg_id=f"cancelled-{number}"
        )
        waiting = asyncio.ensure_future(request)
        await asyncio.sleep(0)
        editor.client.cancel_request(types.CancelParams(f"cancelled-{number}"))
        with pytest.raises(JsonRpcException) as refused:
            await waiting
        assert refused.value.code == -32800
    assert len(await buffer.diagnostics()) == 30


async def test_a_fix_all_that_is_given_up_does_no_harm(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.large(10))
    await buffer.diagnostics()
    start = types.Range(types.Position(0, 0), types.Position(0, 0))
    (action,) = await buffer.actions(start, ["source.fixAll.qlsp"])
    for number in range(3):
        request = editor.client.protocol.send_request_async(
            types.CODE_ACTION_RESOLVE, action, msg_id=f"given-up-{number}"
        )
        waiting = asyncio.ensure_future(request)
        await asyncio.sleep(0.02)
        editor.client.cancel_request(types.CancelParams(f"given-up-{number}"))
        with pytest.raises(JsonRpcException):
            await waiting
    buffer.type(models.FINDING)
    assert codes(await buffer.diagnostics()) == ["QL101"]
    (action,) = await buffer.actions(start, ["source.fixAll.qlsp"])
    await buffer.apply(action)
    assert await buffer.diagnostics() == []


async def test_a_file_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    for name in ("asyncio", "attrs", "libcst", "pygls", "queue", "lsprotocol"):
        (tmp_path / f"{name}.py").write_text('raise SystemExit("imported from the workspace")\n')
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.append(sys.argv.pop(1)); import qlsp.cli as c; c.run()",
    ]
    run = subprocess.run(
        [*command, str(ROOT), "server"], input=b"", capture_output=True, cwd=tmp_path, timeout=60, check=False
    )
    assert b"imported from" not in run.stderr


def test_the_server_does_not_load_what_only_the_worker_needs() -> None:
    code = "import sys, qlsp.lsp.server; sys.exit(sum(name in sys.modules for name in ('libcst', 'qlsp.engine')))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=False).returncode == 0
    )


@pytest.mark.parametrize("message", [b"", b"garbage\r\n\r\n", b"Content-Length: 5\r\n\r\nab"])
def test_the_server_ends_with_its_input(message: bytes) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(SERVER, input=message, capture_output=True, env=environment, timeout=60, check=False)
    assert run.stdout == b"" and run.returncode == 1


async def test_server_over_tcp(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = await asyncio.create_subprocess_exec(*SERVER, "--tcp", f"127.0.0.1:{port}", env=environment)
    try:
        editor = Editor(make_test_lsp_client(), "neovim")
        for _ in range(300):
            try:
                await editor.client.start_tcp("127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.1)
        await editor.start(tmp_path)
        assert codes(await editor.open(tmp_path / "net.py", models.FINDING).diagnostics()) == ["QL101"]
        await editor.client.shutdown_async(None)
    finally:
        server.kill()
        await server.wait()


@pytest.mark.parametrize("address", ["localhost", "localhost:port", "localhost:70000", ":"])
def test_wrong_address(address: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [*SERVER, "--tcp", address], capture_output=True, env=environment, timeout=60, check=False
    )
    assert run.returncode == 2 and b"HOST:PORT" in run.stderr
