"""One line per finding: ``path:row:column: CODE [name] message``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qlsp.diagnostics import Diagnostic
from qlsp.messages import render
from qlsp.report.layout import Locator
from qlsp.text import Source


def report(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source], locale: str = "en") -> str:
    """The findings, one a line; nothing where there are none."""
    locator = Locator(sources)
    return "".join(
        f"{locator.name(item.place)}: {item.code} [{item.name}] {render(item.message, locale)}\n"
        for item in diagnostics
    )
