"""Numbers in the source of a rewrite."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

from qlsp.diagnostics import NoFix


def literal(text: str) -> int | float | None:
    """The value of a number that is written out, with its sign."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def require_literal(text: str) -> None:
    """Raises ``NoFix`` for what is not written out."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise NoFix("an argument that is computed") from None


def power_of_two(value: int | float) -> bool:
    """A factor that no multiplication rounds, except at the limits of the format."""
    if value == 0 or abs(value) > 2**60 or abs(value) < 2**-60:
        return False
    fraction = abs(Fraction(value))
    top, bottom = fraction.numerator, fraction.denominator
    return top & (top - 1) == 0 and bottom & (bottom - 1) == 0


def shown(value: int | float) -> str:
    """A factor as a float literal."""
    return repr(float(value))


def negated(text: str, value: int | float | None) -> str:
    """The text of a number with its sign turned; ``value`` is None where it is not written out."""
    if value is not None:
        return text[1:].strip() if text.startswith("-") else f"-{text}"
    return f"-{text}" if re.fullmatch(r"[\w.]+", text) else f"-({text})"
