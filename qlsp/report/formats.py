"""The formats of ``qlsp check --output-format``, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qlsp.report import concise, full, github, gitlab, json, junit, sarif
from qlsp.report.findings import Findings

FORMATS: Mapping[str, Callable[[Findings], str]] = {
    "full": full.report,
    "concise": concise.report,
    "json": json.report,
    "json-lines": json.lines,
    "sarif": sarif.report,
    "github": github.report,
    "gitlab": gitlab.report,
    "junit": junit.report,
}
"""Name to writer. Only ``full`` looks different in colour: ``full.report(findings, color=True)``."""
