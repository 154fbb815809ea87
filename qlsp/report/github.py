"""Workflow commands of GitHub Actions: an annotation for each finding.

The format is that of ``actions/toolkit`` (``packages/core/src/command.ts``): property values and messages escape
``%``, line breaks, and values also ``:`` and ``,``.
"""

from __future__ import annotations

from qlsp.diagnostics import Severity
from qlsp.messages import render
from qlsp.report.findings import Findings
from qlsp.report.layout import Locator

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def report(findings: Findings) -> str:
    """One command a line; nothing where there are no findings."""
    locator = Locator(findings.sources)
    lines = []
    for item in findings.diagnostics:
        at = locator.locate(item.place)
        values = {"title": f"{item.code} {item.name}", "file": item.place.path, "line": at.row, "endLine": at.end_row}
        if at.row == at.end_row:
            values |= {"col": at.column, "endColumn": at.end_column}
        shown = ",".join(f"{key}={_value(str(value))}" for key, value in values.items())
        where = f"{locator.name(item.place)}: "
        text = f"{where}{item.code} [{item.name}] {render(item.message, findings.locale)}"
        lines.append(f"::{_COMMAND[item.severity]} {shown}::{_data(text)}\n")
    return "".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
