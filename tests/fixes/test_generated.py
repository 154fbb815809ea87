"""The contract on random models with planted mistakes: without torch, and what SAFE fixes do under torch."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from contract import fixed_texts, float_problems, name_of, offered, problems, row_of
from torch import nn

from qlsp.config import Config
from qlsp.diagnostics import Applicability
from qlsp.engine import CheckResult, check
from qlsp.fixing import fix_texts

if sys.version_info < (3, 11):
    pytest.skip("the oracle needs frames that know columns", allow_module_level=True)

from tests.oracle.generate import Model, generate
from tests.oracle.run import observe_text
from tests.oracle.truth import inputs, load

MODELS = int(os.environ.get("QLSP_FIX_MODELS", "12"))
FLOAT_FIXES = 6
"""Fixes per model whose float model is compared one by one; all of them are compared at once, too."""


@dataclass(frozen=True)
class Generated:
    """A model in which something can be fixed."""

    model: Model
    before: CheckResult


@lru_cache(maxsize=1)
def generated() -> list[Generated]:
    found = []
    for number in range(10 * MODELS):
        model = generate(f"fixes:{number}")
        if model.faults:
            before = check(["net.py"], Config(), {"net.py": model.text})
            if any(diagnostic.fixes for diagnostic in before.diagnostics):
                found.append(Generated(model, before))
        if len(found) == MODELS:
            break
    return found


def label(case: Generated) -> str:
    return case.model.seed


def built(text: str, path: Path) -> nn.Module:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net: nn.Module = load(text, str(path)).Net()
    return net


@pytest.mark.parametrize("case", generated(), ids=label)
def test_contract(case: Generated) -> None:
    assert not list(problems({"net.py": case.model.text}, Config()))


def safe_results(case: Generated) -> Iterator[tuple[str, str]]:
    """What each of the first SAFE fixes makes of the text, and what all of them make of it."""
    texts = {"net.py": case.model.text}
    safe = [each for each in offered(case.before) if each[1].applicability is Applicability.SAFE]
    for diagnostic, fix in safe[:FLOAT_FIXES]:
        yield name_of(case.before, diagnostic, fix), fixed_texts(texts, fix)["net.py"]
    yield "all safe fixes", fix_texts(["net.py"], Config(), texts).texts.get("net.py", case.model.text)


@pytest.mark.parametrize("case", generated(), ids=label)
def test_safe_fixes_keep_the_float_model(case: Generated, tmp_path: Path) -> None:
    model = case.model
    for name, text in safe_results(case):
        old, new = built(model.text, tmp_path / "old.py"), built(text, tmp_path / "new.py")
        batch = inputs(model.shapes, model.call, torch.Generator().manual_seed(0), 1.0)
        assert not list(float_problems(old, new, batch)), name


@pytest.mark.parametrize("case", generated(), ids=label)
def test_fixed_models_convert_run_and_warn_only_where_a_finding_is_left(case: Generated, tmp_path: Path) -> None:
    model = case.model
    fixed = fix_texts(["net.py"], Config(), {"net.py": model.text})
    text = fixed.texts.get("net.py", model.text)
    truth = observe_text(model, text, tmp_path / "net.py")
    if truth.failure is not None:
        assert model.raises, truth.failure
        return
    rows = {row_of(fixed.after, d) for d in fixed.after.diagnostics if d.code == "QL101"}
    assert set(truth.warned_rows) <= rows
