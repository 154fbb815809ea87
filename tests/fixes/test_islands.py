"""Unsafe fixes that run a part in float: the fixed model converts and runs, and its float output is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from contract import float_problems
from mdtest import Case, cases_of
from scoring import configuration
from under_torch import _batches, _builders, loaded, quiet, run

from qlsp.engine import check
from qlsp.fixing import fix_texts

PAGES = ("unsupported-module", "functional-weight-op")
CONFIG = configuration()


def fixable() -> list[Case]:
    """The cases of these pages in which every finding has a fix."""
    found = []
    for case in cases_of("rules"):
        if case.page.stem in PAGES and case.inputs is not None and not {"skip", "call"} & set(case.inputs):
            diagnostics = check(list(case.texts()), CONFIG, case.texts()).diagnostics
            if diagnostics and all(diagnostic.fixes for diagnostic in diagnostics):
                found.append(case)
    return found


@pytest.mark.parametrize("case", fixable(), ids=lambda case: case.id)
def test_the_fixed_model_runs(case: Case, tmp_path: Path) -> None:
    assert case.inputs is not None
    texts = case.texts()
    fixed = fix_texts(list(texts), CONFIG, texts, unsafe=True)
    assert not fixed.after.diagnostics
    new = {**texts, **fixed.texts}
    for name, files in (("old", texts), ("new", new)):
        (tmp_path / name).mkdir()
        with loaded(files, (tmp_path / name).resolve()) as module, quiet():
            torch.manual_seed(0)
            model = next(_builders(module, case.inputs))()
        if name == "old":
            old = model
    assert not list(float_problems(old, model, _batches(case.inputs)[0]))
    (tmp_path / "run").mkdir()
    assert run(new, (tmp_path / "run").resolve(), case.inputs).raised == []
