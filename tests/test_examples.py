"""Every rule's page: its Bad example is flagged on exactly the marked lines, its Good example is silent."""

from __future__ import annotations

import ast

import pytest
from examples import example, marked, section, table
from scoring import check_texts

from qlsp.rules.api import Rule, all_rules

RULES = all_rules()
WITH_EXAMPLES = [rule for rule in RULES if rule.check is not None]


def codes(text: str) -> list[tuple[int, str]]:
    names = {rule.meta.name: rule.meta.code for rule in RULES}
    return sorted((item.row, names[item.name]) for item in check_texts({"example.py": text}))


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.meta.name)
def test_bad_example_is_flagged_on_the_marked_lines(rule: Rule) -> None:
    bad = example(rule, "Bad")
    assert bad is not None, "the page has no section ## Bad with indented code"
    wanted = marked(bad)
    assert any(code == rule.meta.code for _, code in wanted), f"no line is marked # {rule.meta.code}"
    assert codes(bad) == sorted(wanted)


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.meta.name)
def test_good_example_is_silent(rule: Rule) -> None:
    good = example(rule, "Good")
    assert good is not None, "the page has no section ## Good with indented code"
    assert marked(good) == []
    assert codes(good) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.meta.name)
def test_page_is_complete(rule: Rule) -> None:
    title = rule.page.split("\n")[0]
    assert title and not title.startswith("#")
    for heading in ("What it does", "Why it matters"):
        assert (section(rule.page, heading) or "").strip(), f"the page lacks ## {heading}"
    for heading in ("Bad", "Good"):
        code = example(rule, heading)
        if code is not None and rule.check is not None:
            ast.parse(code)


PAGE = """\
A title.

## Why it matters
| ratio | raw |
|---|---|
| 1 | 34.3 |
| 100 | 0.5 |

## Bad
    x = f(
        1,
    )  # QL101

    y = 2

## Good
    x = 1

## Limits
None.
"""


def test_examples_are_read_from_a_page() -> None:
    class Fake:
        page = PAGE

    rule: Rule = Fake()  # type: ignore[assignment]
    assert example(rule, "Bad") == "x = f(\n    1,\n)  # QL101\n\ny = 2\n"
    assert marked("x = f(\n    1,\n)  # QL101\n\ny = 2\n") == [(3, "QL101")]
    assert example(rule, "Good") == "x = 1\n"
    assert example(rule, "Limits") is None and example(rule, "Fix safety") is None
    assert table(PAGE) == [[1.0, 34.3], [100.0, 0.5]]
