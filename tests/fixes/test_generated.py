"""The contract on random models with planted mistakes: without torch, and what SAFE fixes do under torch."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from contract import problems, row_of

from qlsp.config import Config
from qlsp.engine import CheckResult, check
from qlsp.fixing import fix_texts

if sys.version_info < (3, 11):
    pytest.skip("the oracle needs frames that know columns", allow_module_level=True)

from tests.oracle.generate import Model, generate
from tests.oracle.prove import prove
from tests.oracle.run import observe_text

MODELS = int(os.environ.get("QLSP_FIX_MODELS", "12"))


@dataclass(frozen=True)
class Generated:
    """A model in which something can be fixed."""

    model: Model
    before: CheckResult


@lru_cache(maxsize=1)
def generated() -> list[Generated]:
    found = []
    for number in range(10 * MODELS):
        model = generate(f"fixes:{number}", whole=True)
        if model.faults:
            before = check(["net.py"], Config(), {"net.py": model.text})
            if any(diagnostic.fixes for diagnostic in before.diagnostics):
                found.append(Generated(model, before))
        if len(found) == MODELS:
            break
    return found


def label(case: Generated) -> str:
    return case.model.seed


@pytest.mark.parametrize("case", generated(), ids=label)
def test_contract(case: Generated) -> None:
    assert not list(problems({"net.py": case.model.text}, Config()))


@pytest.mark.parametrize("case", generated(), ids=label)
def test_safe_fixes_keep_what_they_promise_under_torch(case: Generated, tmp_path: Path) -> None:
    proofs = [each for each in prove(case.model, tmp_path) if each.safe]
    assert [(each.rule, problem) for each in proofs for problem in each.problems] == []


@pytest.mark.parametrize("case", generated(), ids=label)
def test_fixed_models_warn_only_where_a_finding_is_left(case: Generated, tmp_path: Path) -> None:
    model = case.model
    fixed = fix_texts(["net.py"], Config(), {"net.py": model.text})
    text = fixed.texts.get("net.py", model.text)
    truth = observe_text(model, text, tmp_path / "net.py")
    rows = {row_of(fixed.after, d) for d in fixed.after.diagnostics if d.code == "QL101"}
    assert set({row for _, row in truth.warned}) <= rows
