"""A rule's page: what ``qlsp explain`` prints and ``docs/rules/`` holds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol

from qlsp.messages import rule_url


class RuleMeta(Protocol):
    """What a page says about its rule besides the docstring."""

    @property
    def code(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def severity(self) -> Enum: ...

    @property
    def predicts(self) -> Enum: ...

    @property
    def fix(self) -> str | None: ...

    @property
    def since(self) -> str: ...

    @property
    def preview(self) -> bool: ...


def as_markdown(meta: RuleMeta, docstring: str) -> str:
    """The page as Markdown."""
    return f"# {meta.name} ({meta.code})\n\n{_flags(meta)}\n\n{_body(docstring)}\n"


def as_text(meta: RuleMeta, docstring: str) -> str:
    """The page for a terminal: Markdown headings become underlined lines."""
    title = f"{meta.name} ({meta.code})"
    body = re.sub(
        r"^#+ (.+)$", lambda heading: heading[1] + "\n" + "-" * len(heading[1]), _body(docstring), flags=re.M
    )
    return f"{title}\n{'=' * len(title)}\n\n{_flags(meta)}\n\n{body}\n\n{rule_url(meta.name)}\n"


def as_record(meta: RuleMeta, docstring: str) -> dict[str, Any]:
    """The page for scripts."""
    body = _body(docstring)
    return {
        "code": meta.code,
        "name": meta.name,
        "summary": summary(docstring),
        "severity": meta.severity.value,
        "predicts": meta.predicts.value,
        "fix": meta.fix,
        "preview": meta.preview,
        "since": meta.since,
        "url": rule_url(meta.name),
        "explanation": body,
    }


def summary(docstring: str) -> str:
    """The first paragraph, as one line."""
    return " ".join(_body(docstring).split("\n\n", 1)[0].split())


def match_length(docstring: str, error: str) -> int:
    """How much of a pasted error text the page quotes: characters of its longest quotation in the text, or 0.

    A quotation is a code span or an indented line of the page; ``...`` in it stands for anything, and so does
    a lone ``X``. A text that is itself part of a quotation counts too.
    """
    text = _without_class(" ".join(error.split()))
    best = 0
    for quotation in _quotations(_body(docstring)):
        parts = [part for part in re.split(r"\.\.\.|\bX\b", quotation) if part.strip()]
        pattern = ".*?".join(re.escape(part.strip()) for part in parts)
        if parts and re.search(pattern, text):
            best = max(best, sum(map(len, parts)))
        elif len(text) >= _MIN_QUOTATION and text in quotation:
            best = max(best, len(text))
    return best


_MIN_QUOTATION = 20
"""Shorter code is a name, not an error text."""


def _quotations(body: str) -> Iterable[str]:
    spans = [match[2] for match in re.finditer(r"(`+)(.+?)\1(?!`)", body, flags=re.S)]
    for quotation in (*spans, *re.findall(r"^ {4,}(.+)$", body, flags=re.M)):
        joined = _without_class(" ".join(quotation.split()))
        if len(joined) >= _MIN_QUOTATION:
            yield joined


def _without_class(text: str) -> str:
    """The message of ``SomeError: message``."""
    return re.sub(r"^[\w.]+(Error|Warning|Exception): ", "", text)


def _flags(meta: RuleMeta) -> str:
    outcome = {"raises": "the code raises an exception", "silent": "nothing is raised"}[meta.predicts.value]
    fix = f"{meta.fix} fix" if meta.fix else "no fix"
    preview = ", preview" if meta.preview else ""
    return f"Severity {meta.severity.value}; {outcome}; {fix}; since {meta.since}{preview}."


def _body(docstring: str) -> str:
    return inspect.cleandoc(docstring).strip()
