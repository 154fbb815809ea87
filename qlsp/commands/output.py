"""Where commands write: the report, and lines for people on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

OK, FINDINGS, FAILED, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: nothing left to report, findings, the tool or its arguments failed, Ctrl-C."""

STDIN = "-"


class UsageError(Exception):
    """Arguments that cannot be used; the message is one line for the user."""


def write(text: str, path: str | None = None) -> None:
    """Print the report, or write it to a file. A reader that went away is no error."""
    if path is not None:
        try:
            with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"{path}: cannot write the report: {error.strerror}") from error
        return
    _tolerate_any_text(sys.stdout)
    with _reader_may_go():
        sys.stdout.write(text)
        sys.stdout.flush()


def write_bytes(data: bytes) -> None:
    """Print the bytes of a file as they are: encoding, byte order mark and line breaks."""
    with _reader_may_go():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _reader_may_go() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise UsageError(f"cannot write the report: {error.strerror}") from error


def complain(line: str) -> None:
    """One line that begins with the name of the tool."""
    complain_lines([f"qlsp: {line}"])


def complain_lines(lines: Iterable[str]) -> None:
    """Lines as they are."""
    _tolerate_any_text(sys.stderr)
    for line in lines:
        print(line, file=sys.stderr)


def _tolerate_any_text(stream: object) -> None:
    """Print what the terminal's encoding lacks as escapes, instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def count(number: int, what: str) -> str:
    """``3 files``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
