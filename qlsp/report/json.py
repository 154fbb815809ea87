"""The findings as JSON, for scripts: an array, or one object a line."""

from __future__ import annotations

import json
from typing import Any

from qlsp.diagnostics import Diagnostic, Fix
from qlsp.messages import render, rule_url
from qlsp.report.findings import Findings
from qlsp.report.layout import Locator
from qlsp.text import Place


def report(findings: Findings) -> str:
    """The findings as JSON; an empty array where there are none."""
    return json.dumps(_records(findings), indent=2) + "\n"


def lines(findings: Findings) -> str:
    """The objects of the array, one a line."""
    return "".join(json.dumps(record) + "\n" for record in _records(findings))


def _records(findings: Findings) -> list[dict[str, Any]]:
    locator = Locator(findings.sources)
    return [_finding(item, locator, findings.locale) for item in findings.diagnostics]


def _finding(item: Diagnostic, locator: Locator, locale: str) -> dict[str, Any]:
    fixes = [_fix(fix, locator, locale) for fix in item.fixes]
    return {
        "code": item.code,
        "name": item.name,
        "severity": item.severity.value,
        "message": render(item.message, locale),
        "predicts": item.predicts.value,
        "assumes": render(item.assumes, locale) if item.assumes else None,
        **_place(item.place, locator),
        "url": rule_url(item.name),
        "related": [
            {"message": render(related.message, locale), **_place(related.place, locator)}
            for related in item.related
        ],
        "fixes": fixes,
        "fix": fixes[0] if fixes else None,
    }


def _fix(fix: Fix, locator: Locator, locale: str) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": render(fix.title, locale),
        "reason": render(fix.reason, locale),
        "edits": [
            {"content": edit.content, **_place(Place(edit.path, edit.span), locator)} for edit in fix.edits
        ],
    }


def _place(place: Place, locator: Locator) -> dict[str, Any]:
    at = locator.locate(place)
    return {
        "filename": place.path,
        "cell": at.cell,
        "location": {"row": at.row, "column": at.column},
        "end_location": {"row": at.end_row, "column": at.end_column},
    }
