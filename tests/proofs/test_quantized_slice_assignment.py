"""QL107: the values that a slice assignment between quantized tensors loses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from examples import example
from under_torch import loaded, quantize, quiet, sqnr

from qlsp.rules.api import all_rules

RULE = next(rule for rule in all_rules() if rule.meta.name == "quantized-slice-assignment")


def quality(code: str, folder: Path) -> float:
    """dB of the converted model, whose second branch is ten times as wide."""
    with loaded({"net.py": code}, folder.resolve()) as module, quiet(), torch.no_grad():
        torch.manual_seed(0)
        model = module.Net().eval()
        model.far.weight *= 10
        batch = (torch.randn(2, 3, 8, 8),)
        expected = model(*batch)
        return sqnr(expected, quantize(model, [batch])(*batch))


@pytest.mark.parametrize(("kind", "low", "high"), [("Bad", -20.0, 12.0), ("Good", 25.0, 60.0)])
def test_page(kind: str, low: float, high: float, tmp_path: Path) -> None:
    code = example(RULE, kind)
    assert code is not None
    assert low < quality(code, tmp_path) < high


def test_the_number_on_the_page() -> None:
    with quiet():
        a = torch.quantize_per_tensor(torch.zeros(8), 0.01, 128, torch.quint8)
        b = torch.quantize_per_tensor(torch.full((8,), 5.0), 0.05, 0, torch.quint8)
        a[:4] = b[:4]
    assert torch.allclose(a[:4].dequantize(), torch.full((4,), -0.28))


def test_a_whole_tensor_takes_over_scale_and_zero_point() -> None:
    with quiet():
        a = torch.quantize_per_tensor(torch.zeros(8), 0.01, 128, torch.quint8)
        b = torch.quantize_per_tensor(torch.full((8,), 5.0), 0.05, 0, torch.quint8)
        c = a.clone()
        a[:] = b
        c.copy_(b)
    assert torch.equal(a.dequantize(), b.dequantize()) and torch.equal(c.dequantize(), b.dequantize())
