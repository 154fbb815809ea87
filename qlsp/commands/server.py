"""``qlsp server``: the language server."""

from __future__ import annotations

import argparse
import os
import sys

from qlsp.commands.output import UsageError


def server(arguments: argparse.Namespace) -> int:
    """Serve until the editor ends it; returns the exit status."""
    address = _address(arguments.tcp) if arguments.tcp is not None else None
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.abspath(sys.path[0]) == os.getcwd() != home:
        del sys.path[0]  # python -m puts the current folder first; what lies there must not be imported

    from qlsp.lsp.server import serve

    return serve(address)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--tcp {text}: expected HOST:PORT")
    return host.strip("[]"), int(port)
