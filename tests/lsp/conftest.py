"""Editors connected to a fresh server."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from pytest_lsp.client import make_test_lsp_client

from .session import PROFILES, ROOT, SERVER, Editor

Connect = Callable[[str], Awaitable[Editor]]


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Connect]:
    """Start a server and connect an editor of a profile to it; the editor is not introduced yet."""
    editors: list[Editor] = []

    async def start(profile: str) -> Editor:
        client = make_test_lsp_client()
        await client.start_io(*SERVER, env={**os.environ, "PYTHONPATH": str(ROOT)})
        editors.append(Editor(client, profile))
        return editors[-1]

    yield start
    for editor in editors:
        if editor.client._server is not None and editor.client._server.returncode is None:
            await editor.client.shutdown_session()
            if editor.client._server.returncode is None:
                editor.client._server.kill()
        await editor.client.stop()


@pytest_asyncio.fixture(params=PROFILES)
async def editor(request: pytest.FixtureRequest, connect: Connect, tmp_path: Path) -> Editor:
    """Each editor in turn, with an empty folder open."""
    editor = await connect(request.param)
    await editor.start(tmp_path)
    return editor


if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
