"""The fixes of functional-bad-call give what the call means: the torch function of that name, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
from mdtest import Case, cases_of
from under_torch import _batches, loaded, quiet

from qlsp.config import Config
from qlsp.fixing import fix_texts

MEANINGS = {
    "sub": torch.sub,
    "sub_scalar": torch.sub,
    "div": torch.div,
    "stack": torch.stack,
    "concat": torch.concat,
    "neg": torch.neg,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "bmm": torch.bmm,
    "add": torch.add,
    "cat": torch.cat,
}


def fixed_cases() -> Iterator[tuple[Case, dict[str, str]]]:
    for case in cases_of("rules"):
        if case.page.stem == "functional-bad-call" and case.inputs is not None and "Tensors without" not in case.title:
            texts = case.texts()
            fixed = fix_texts(list(texts), Config(), texts, unsafe=False)
            if fixed.texts:
                yield case, {**texts, **fixed.texts}


@pytest.mark.parametrize(("case", "fixed"), fixed_cases(), ids=lambda value: getattr(value, "id", ""))
def test_the_fixed_call_gives_what_is_meant(
    case: Case, fixed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert case.inputs is not None
    new = output(fixed, case.inputs, tmp_path / "new")
    for name, function in MEANINGS.items():
        meant = lambda self, *args, _call=function, **kwargs: _call(*args, **kwargs)  # noqa: E731
        monkeypatch.setattr(nnq.FloatFunctional, name, meant, raising=False)
    assert torch.equal(new, output(case.texts(), case.inputs, tmp_path / "meant"))


def output(texts: dict[str, str], inputs: dict[str, Any], folder: Path) -> torch.Tensor:
    folder.mkdir()
    with loaded(texts, folder.resolve()) as module, quiet(), torch.no_grad():
        torch.manual_seed(0)
        result: torch.Tensor = module.Net().eval()(*_batches(inputs)[0])
    return result
