"""Rules about the structure of modules: what their fixes give runs under torch, and what does not raise is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mdtest import Case, cases_of
from scoring import configuration
from under_torch import loaded, quantize, run

from qlsp.engine import check
from qlsp.fixing import fix_texts

FIXED = {"module-alias", "module-reused", "shared-observer-averages"}


def cases() -> list[Case]:
    return [
        case
        for case in cases_of("rules")
        if case.page.stem in FIXED and case.inputs and "skip" not in case.inputs and " / Flagged / " in case.title
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_fixed_cases_run(case: Case, tmp_path: Path) -> None:
    configs = configuration(values=case.config)
    before = check(list(case.texts()), configs, case.texts())
    own = [each for each in before.diagnostics if each.name == case.page.stem]
    if not all(each.fixes for each in own):
        pytest.skip("no fix")
    fixed = fix_texts(list(case.texts()), configs, case.texts(), True)
    assert not [each for each in fixed.after.diagnostics if each.name == case.page.stem]
    assert case.inputs is not None
    texts = {name: source.text for name, source in fixed.after.sources.items()}
    assert run(texts, tmp_path.resolve(), case.inputs).raised == []


def test_a_second_dequantstub_hands_a_quantized_tensor_on(tmp_path: Path) -> None:
    (case,) = (case for case in cases_of("rules") if case.title.endswith("A DeQuantStub hands the tensor on"))
    with loaded(case.texts(), tmp_path.resolve()) as module:
        batch = (torch.randn(2, 4, 8, 8),)
        assert quantize(module.Leak(), [batch])(*batch).is_quantized
