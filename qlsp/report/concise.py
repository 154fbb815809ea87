"""One line per finding: ``path:row:column: CODE [name] message``."""

from __future__ import annotations

from qlsp.messages import render
from qlsp.report.findings import Findings
from qlsp.report.layout import Locator


def report(findings: Findings) -> str:
    """The findings, one a line; nothing where there are none."""
    locator = Locator(findings.sources)
    return "".join(
        f"{locator.name(item.place)}: {item.code} [{item.name}] {render(item.message, findings.locale)}\n"
        for item in findings.diagnostics
    )
