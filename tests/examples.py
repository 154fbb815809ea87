"""The Bad and Good examples on the pages of the rules."""

from __future__ import annotations

import re
import textwrap

from qlsp.rules.api import Rule, all_rules

_MARK = re.compile(r"#\s*(QL\d{3})\b")


def section(page: str, heading: str) -> str | None:
    """The text under ``## heading``, or None."""
    match = re.search(rf"^## {re.escape(heading)}[ \t]*\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return match[1] if match else None


def example(rule: Rule, heading: str) -> str | None:
    """The indented code of a section without its indentation, or None where there is no such section."""
    text = section(rule.page, heading)
    if text is None:
        return None
    lines = text.split("\n")
    indented = [line if line.startswith("    ") else "" for line in lines]
    code = textwrap.dedent("\n".join(indented)).strip("\n")
    return f"{code}\n" if code else None


def marked(code: str) -> list[tuple[int, str]]:
    """(row, rule code) of each ``# QLxxx`` mark, row by row."""
    return [(row, match[1]) for row, line in enumerate(code.split("\n"), 1) for match in _MARK.finditer(line)]


def rule_named(name: str) -> Rule:
    """The rule of this name."""
    return next(rule for rule in all_rules() if rule.meta.name == name)


def table(page: str) -> list[list[float]]:
    """The rows of the page's first table of numbers."""
    rows = []
    for line in page.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.strip().startswith("|") and all(re.fullmatch(r"-?[\d.]+", cell) for cell in cells):
            rows.append([float(cell) for cell in cells])
        elif rows:
            break
    return rows
