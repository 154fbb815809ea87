"""The message catalogue: message id to text, one module per language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from qlsp.messages.en import MESSAGES

CATALOGUES: Mapping[str, Mapping[str, str]] = {"en": MESSAGES}
"""Texts by locale; English has every message."""

RULES_URL = "https://qlsp.readthedocs.io/rules"


class AnyMessage(Protocol):
    """What is rendered: an id of the catalogue and the values of its placeholders."""

    @property
    def id(self) -> str: ...

    @property
    def params(self) -> tuple[tuple[str, str], ...]: ...


def render(message: AnyMessage, locale: str = "en") -> str:
    """The text of a message; English where the locale has none."""
    text = CATALOGUES.get(locale, MESSAGES).get(message.id, MESSAGES[message.id])
    return text.format(**dict(message.params))


def rule_url(name: str) -> str:
    """The page of a rule, for a link in a report or an editor."""
    return f"{RULES_URL}/{name}"
