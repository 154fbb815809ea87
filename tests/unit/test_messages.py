"""The message catalogue: every message that is used exists and gets what it needs."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from qlsp.diagnostics import Message
from qlsp.messages import CATALOGUES, render, rule_url
from qlsp.messages.en import MESSAGES

PACKAGE = Path(__file__).resolve().parents[2] / "qlsp"


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def uses() -> Iterator[tuple[str, str, frozenset[str]]]:
    """(place, message id, keywords) of each ``Message.of`` with a literal id."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Message.of" and node.args:
                first = node.args[0]
                ids = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                keywords = frozenset(keyword.arg or "**" for keyword in node.keywords)
                for each in ids:
                    if isinstance(each, ast.Constant):
                        yield f"{path.relative_to(PACKAGE.parent)}:{node.lineno}", str(each.value), keywords


USES = list(uses())


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use[0]}-{use[1]}")
def test_a_used_message_exists_and_gets_its_placeholders(use: tuple[str, str, frozenset[str]]) -> None:
    _, name, keywords = use
    assert name in MESSAGES
    if "**" not in keywords:
        assert placeholders(MESSAGES[name]) <= keywords


def test_uses_are_found() -> None:
    assert "unreadable-file" in {name for _, name, _ in USES}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_renders_and_is_one_line(name: str) -> None:
    values = {key: f"<{key}>" for key in placeholders(MESSAGES[name])}
    text = render(Message.of(name, **values))
    assert all(value in text for value in values.values())
    assert "\n" not in text and "  " not in text and text == text.strip()


@pytest.mark.parametrize("locale", CATALOGUES)
def test_translations_have_the_placeholders_of_english(locale: str) -> None:
    for name, text in CATALOGUES[locale].items():
        assert placeholders(text) == placeholders(MESSAGES[name]), name


def test_values_are_inserted_as_they_are() -> None:
    assert "{self.x}" in render(Message.of("cat-scale-from", owner="{self.x}"))


def test_an_unknown_locale_is_english() -> None:
    message = Message.of("quantstub-first-use", stub="quant")
    assert render(message, "xx") == render(message) == "the first use of `quant` is here"


def test_what_is_not_in_the_catalogue_is_an_error() -> None:
    with pytest.raises(KeyError):
        render(Message.of("no-such-message"))
    with pytest.raises(KeyError):
        render(Message.of("cat-scale-from"))


def test_the_link_of_a_rule() -> None:
    assert rule_url("cat-mixed-scales").endswith("/rules/cat-mixed-scales")
