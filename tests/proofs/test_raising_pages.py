"""Pages of rules that predict an exception: Bad raises the quoted text on a marked line, Good runs and is quantized."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from examples import example, marked, section
from torch import nn
from under_torch import loaded, quiet, run, sqnr
from under_torch import quantize as quantized

from qlsp.diagnostics import Predicts
from qlsp.rules.api import Rule, all_rules

SHAPES = ([2, 3, 8, 8], [2, 4, 8, 8], [2, 8, 8, 8], [2, 3, 16], [2, 4], [2, 8], [2, 16])
HEALTHY = 15.0
"""dB that a small quantized model reaches at least."""

TABLE = Path(__file__).with_name("raising_pages.json")
"""Run descriptions (see ``under_torch``) of pages that need more than the first inputs that fit, by rule name."""


def pages() -> list[Rule]:
    return [
        rule
        for rule in all_rules()
        if rule.check is not None
        and rule.meta.predicts is Predicts.RAISES
        and "class Net(" in (example(rule, "Bad") or "")
    ]


def claimed_errors(rule: Rule) -> list[str]:
    """The exceptions that the page quotes on lines of their own."""
    text = section(rule.page, "Why it matters") or ""
    return [line.strip() for line in text.split("\n") if line.startswith("    ")]


def description(rule: Rule, code: str, folder: Path) -> Mapping[str, Any]:
    """How to run an example: as the table says, or on the first inputs that its float model accepts."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    found: dict[str, Any] = table.get(rule.meta.name, {})
    return found if found else {"inputs": inputs_of(code, folder)}


def inputs_of(code: str, folder: Path) -> list[list[int]]:
    with loaded({"float.py": code}, folder) as module, quiet(), torch.no_grad():
        model: nn.Module = module.Net().eval()
        count = len(inspect.signature(model.forward).parameters)
        for shapes in product(SHAPES, repeat=count):
            try:
                model(*(torch.randn(*shape) for shape in shapes))
            except Exception:  # not its shape
                continue
            return [list(shape) for shape in shapes]
    raise AssertionError("no inputs fit: describe the run in raising_pages.json")


@pytest.mark.parametrize("rule", pages(), ids=lambda rule: rule.meta.name)
def test_bad_raises_a_quoted_text_on_a_marked_line(rule: Rule, tmp_path: Path) -> None:
    bad, good = example(rule, "Bad"), example(rule, "Good")
    assert bad is not None and good is not None
    folder = tmp_path.resolve()
    how = description(rule, good, folder)
    seen = run({"bad.py": bad}, folder, how)
    assert seen.raised, "nothing raised"
    message, place = seen.raised[0]
    claims = claimed_errors(rule)
    assert claims, "the page quotes no exception on an indented line"
    assert any(message.startswith(claim) for claim in claims), message
    rows = [("bad.py", row) for row, _ in marked(bad)]
    assert place in rows or how.get("raises_outside"), place


@pytest.mark.parametrize("rule", pages(), ids=lambda rule: rule.meta.name)
def test_good_runs_and_is_quantized(rule: Rule, tmp_path: Path) -> None:
    good = example(rule, "Good")
    assert good is not None
    folder = tmp_path.resolve()
    how = description(rule, good, folder)
    if how.keys() - {"inputs", "raises_outside"}:
        assert run({"good.py": good}, folder, how).raised == []
        return
    with loaded({"good.py": good}, folder) as module, quiet(), torch.no_grad():
        torch.manual_seed(0)
        model: nn.Module = module.Net().eval()
        batch = tuple(torch.randn(*shape) for shape in how["inputs"])
        expected = model(*batch)
        result = quantized(model, [batch])(*batch)
        for one, other in zip(_flat(expected), _flat(result), strict=True):
            assert HEALTHY < sqnr(one, other) < float("inf")


def _flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [tensor for item in value for tensor in _flat(item)]
