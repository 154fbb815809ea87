"""The tables of the rule pages: measured anew, and what they have to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import measured
import pytest

from qlsp.rules.api import all_rules

TOLERANCE = 1.5
"""dB; the quantized kernels round a little differently on other processors."""
LOST_AT_MOST = 3.0
"""dB that a fix may cost where the order happened to be lucky."""

RECORDED = json.loads(measured.FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def anew() -> dict[str, Any]:
    return measured.measure()


def rows(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for table in data["tables"]:
        for row in table["rows"]:
            yield table, row


def test_the_pages_show_what_is_measured(anew: dict[str, Any]) -> None:
    for (table, row), (other, now) in zip(rows(RECORDED), rows(anew), strict=True):
        assert {**table, "rows": None} == {**other, "rows": None}
        for side in ("before", "after"):
            old, new = row[side], now[side]
            assert old.get("raises") == new.get("raises") and old["modules"] == new["modules"], (table["rule"], row)
            if "sqnr" in old:
                assert new["sqnr"] == pytest.approx(old["sqnr"], abs=TOLERANCE), (table["rule"], row)
                assert new["scales"] == pytest.approx(old["scales"], rel=0.05), (table["rule"], row)


def test_a_fix_repairs_the_adverse_order_and_costs_little_in_the_other() -> None:
    for table, row in rows(RECORDED):
        old, new = row["before"], row["after"]
        assert new["sqnr"] > 25
        if "sqnr" in old:
            assert new["sqnr"] >= old["sqnr"] - LOST_AT_MOST
        if table["rule"] == "cat-mixed-scales" and row["ratio"] >= 10 and row["order"] == "narrow first":
            assert old["sqnr"] < 10


def test_a_concatenation_behind_one_stub_has_one_scale() -> None:
    for table, row in rows(RECORDED):
        if table["branches"] == "inputs" and table["rule"] == "cat-mixed-scales":
            assert len(set(row["after"]["scales"])) == 1 < len(set(row["before"]["scales"]))


def test_the_page_names_the_largest_loss() -> None:
    """The number in the text of the page is the worst row of its table."""
    rows = [row for table in RECORDED["tables"] if table["rule"] == "cat-mixed-scales" for row in table["rows"]]
    worst = max(row["before"]["sqnr"] - row["after"]["sqnr"] for row in rows)
    page = next(rule.page for rule in all_rules() if rule.meta.name == "cat-mixed-scales")
    assert f"at most {worst:.1f} dB were lost" in " ".join(page.split())
