"""Code quality report of GitLab (https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format)."""

from __future__ import annotations

import json

from qlsp.diagnostics import Diagnostic, Predicts, Severity
from qlsp.identity import fingerprints
from qlsp.messages import render, rule_url
from qlsp.report.findings import Findings
from qlsp.report.layout import Locator


def report(findings: Findings) -> str:
    """A JSON array; an exception that is certain is critical, any other error major."""
    locator = Locator(findings.sources)
    marks = fingerprints(findings.diagnostics, findings.sources)
    records = []
    for item, mark in zip(findings.diagnostics, marks, strict=True):
        at = locator.locate(item.place)
        records.append(
            {
                "description": f"{item.code} [{item.name}] {render(item.message, findings.locale)}",
                "check_name": item.code,
                "fingerprint": mark,
                "severity": _severity(item),
                "location": {
                    "path": item.place.path.replace("\\", "/"),
                    "positions": {
                        "begin": {"line": at.row, "column": at.column},
                        "end": {"line": at.end_row, "column": at.end_column},
                    },
                },
                "content": {"body": rule_url(item.name)},
            }
        )
    return json.dumps(records, indent=2) + "\n"


def _severity(item: Diagnostic) -> str:
    if item.severity is Severity.ERROR:
        return "critical" if item.predicts is Predicts.RAISES else "major"
    return "minor" if item.severity is Severity.WARNING else "info"
