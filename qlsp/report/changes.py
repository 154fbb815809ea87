"""What fixes change: a unified diff, and the list of those that were made."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from qlsp.diagnostics import Diagnostic, Fix
from qlsp.messages import render

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+\Z")


def diff(path: str, old: str, new: str) -> str:
    """A unified diff that keeps the line ends of the file."""
    lines = difflib.unified_diff(_LINE.findall(old), _LINE.findall(new), path, path)
    return "".join(line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changed_lines(old: str, new: str) -> Iterator[tuple[str, str]]:
    """("-" or "+", line) of each line that goes or comes, in order, without line ends."""
    before, after = _LINE.findall(old), _LINE.findall(new)
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    common = min(len(before), len(after))
    start = next((i for i in range(common) if before[i] != after[i]), common)
    before, after = before[start:], after[start:]
    for tag, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (("-", line.rstrip("\r\n")) for line in before[i:j])
            yield from (("+", line.rstrip("\r\n")) for line in after[k:m])


def applied(fixes: Iterable[tuple[Diagnostic, Fix]], locale: str = "en") -> Iterator[str]:
    """One line for each file and kind of fix, with how often it was made."""
    counts = Counter((d.place.path, d.code, d.name, render(fix.title, locale)) for d, fix in fixes)
    for (path, code, name, title), count in sorted(counts.items()):
        yield f"{path}: {count} x {code} {name}: {title}"


def share(diagnostics: Iterable[Diagnostic]) -> Mapping[str, tuple[int, int, int]]:
    """By code: findings, those that carry a fix, those whose first fix is safe."""
    result: dict[str, tuple[int, int, int]] = {}
    for diagnostic in diagnostics:
        found, fixable, safe = result.get(diagnostic.code, (0, 0, 0))
        first = diagnostic.fixes[0].applicability.value if diagnostic.fixes else None
        offered = first in ("safe", "unsafe")
        result[diagnostic.code] = (found + 1, fixable + offered, safe + (first == "safe"))
    return result
