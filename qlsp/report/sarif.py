"""SARIF 2.1.0 (OASIS standard, https://docs.oasis-open.org/sarif/sarif/v2.1.0/): results, rules, fixes.

Columns count code points. A finding that a comment or the baseline hides is a result with a suppression.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from qlsp.diagnostics import Applicability, Diagnostic, Fix, Suppressed
from qlsp.identity import fingerprints
from qlsp.messages import render, rule_url
from qlsp.report.findings import Findings, RuleText
from qlsp.report.layout import Locator
from qlsp.text import Place

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}


def report(findings: Findings) -> str:
    """The log of one run."""
    run = {
        "tool": {
            "driver": {
                "name": "qlsp",
                "version": findings.version,
                "semanticVersion": findings.version,
                "informationUri": rule_url("").rstrip("/"),
                "rules": [_rule(rule) for rule in findings.rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not findings.failed}],
        "results": _Results(findings).all(),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: RuleText) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "helpUri": rule_url(rule.name),
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": ["quantization", "pytorch", f"{rule.code[:3]}xx"]},
    }


class _Results:
    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.locator = Locator(findings.sources)
        self.indexes = {rule.code: number for number, rule in enumerate(findings.rules)}

    def all(self) -> list[dict[str, Any]]:
        hidden = [each.diagnostic for each in self.findings.suppressed]
        everything = [*self.findings.diagnostics, *hidden]
        marks = list(fingerprints(everything, self.findings.sources))
        shown = len(self.findings.diagnostics)
        results = [self._result(item, mark) for item, mark in zip(everything, marks, strict=True)]
        for result, each in zip(results[shown:], self.findings.suppressed, strict=True):
            result["suppressions"] = [self._suppression(each)]
        return results

    def _result(self, item: Diagnostic, mark: str) -> dict[str, Any]:
        result: dict[str, Any] = {"ruleId": item.code}
        if item.code in self.indexes:
            result["ruleIndex"] = self.indexes[item.code]
        result |= {
            "level": _LEVEL[item.severity.value],
            "message": {"text": self._text(item)},
            "locations": [{"physicalLocation": self._physical(item.place)}],
            "partialFingerprints": {"qlspFinding/v1": mark},
            "properties": {"predicts": item.predicts.value},
        }
        if item.related:
            result["relatedLocations"] = [
                {
                    "id": number,
                    "message": {"text": render(related.message, self.findings.locale)},
                    "physicalLocation": self._physical(related.place),
                }
                for number, related in enumerate(item.related, 1)
            ]
        fixes = [self._fix(fix) for fix in item.fixes if fix.applicability is not Applicability.DISPLAY]
        if fixes:
            result["fixes"] = fixes
        return result

    def _text(self, item: Diagnostic) -> str:
        text = render(item.message, self.findings.locale)
        return text if item.assumes is None else f"{text} ({render(item.assumes, self.findings.locale)})"

    def _fix(self, fix: Fix) -> dict[str, Any]:
        paths = dict.fromkeys(edit.path for edit in fix.edits)
        title, reason = (render(text, self.findings.locale) for text in (fix.title, fix.reason))
        return {
            "description": {"text": f"{title} ({fix.applicability.value}: {reason})"},
            "artifactChanges": [self._change(path, fix) for path in paths],
        }

    def _change(self, path: str, fix: Fix) -> dict[str, Any]:
        replacements = [
            {"deletedRegion": self._region(Place(path, edit.span)), "insertedContent": {"text": edit.content}}
            for edit in fix.edits
            if edit.path == path
        ]
        return {"artifactLocation": _artifact(path), "replacements": replacements}

    def _suppression(self, each: Suppressed) -> dict[str, Any]:
        inside = each.place.path == each.diagnostic.place.path
        found: dict[str, Any] = {"kind": "inSource" if inside else "external"}
        if each.reason is not None:
            found["justification"] = each.reason
        found["location"] = {"physicalLocation": self._physical(each.place)}
        return found

    def _physical(self, place: Place) -> dict[str, Any]:
        return {"artifactLocation": _artifact(place.path), "region": self._region(place)}

    def _region(self, place: Place) -> dict[str, int]:
        at = self.locator.locate(place)
        return {"startLine": at.row, "startColumn": at.column, "endLine": at.end_row, "endColumn": at.end_column}


def _artifact(path: str) -> dict[str, str]:
    """A relative path counts from the root of the checkout, as code scanning services expect."""
    if os.path.isabs(path):
        return {"uri": "file://" + quote(path.replace(os.sep, "/"))}
    return {"uri": quote(os.path.normpath(path).replace(os.sep, "/")), "uriBaseId": ROOT}


