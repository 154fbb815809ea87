"""What the page of quantstub-reused says, measured under torch."""

from __future__ import annotations

import copy
import statistics
from pathlib import Path

import pytest
import torch
import torch.ao.quantization as tq
from examples import example, marked, rule_named, table
from torch import nn
from under_torch import loaded, quantize, quantize_aware, quiet, run, sqnr

RULE = rule_named("quantstub-reused")
SEEDS = range(3)


class Inputs(nn.Module):
    """Two inputs through one stub, or through one each."""

    def __init__(self, separate: bool) -> None:
        super().__init__()
        self.quant, self.other = tq.QuantStub(), tq.QuantStub()
        self.a, self.b = nn.Linear(16, 8), nn.Linear(16, 8)
        self.dequant, self.separate = tq.DeQuantStub(), separate

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stub = self.other if self.separate else self.quant
        return self.dequant(self.a(self.quant(x))), self.dequant(self.b(stub(y)))


def decibels(separate: bool, ratio: float, seed: int, qat: bool = False) -> tuple[float, float]:
    """SQNR of the narrow and of the wide output."""
    torch.manual_seed(seed)
    model = Inputs(separate).eval()
    batches = [(torch.randn(32, 16), torch.randn(32, 16) * ratio) for _ in range(400 if qat else 6)]
    data = torch.randn(128, 16), torch.randn(128, 16) * ratio
    converted = (quantize_aware if qat else quantize)(copy.deepcopy(model), batches)
    with quiet(), torch.no_grad():
        narrow, wide = model(*data)
        narrow_out, wide_out = converted(*data)
    return sqnr(narrow, narrow_out), sqnr(wide, wide_out)


@pytest.mark.parametrize("row", table(RULE.page), ids=lambda row: f"ratio {row[0]:g}")
def test_table_of_the_page(row: list[float]) -> None:
    ratio, *claimed = row
    for separate, expected in zip((False, True), claimed, strict=True):
        measured = statistics.mean(decibels(separate, ratio, seed)[0] for seed in SEEDS)
        assert measured == pytest.approx(expected, abs=1.0)


def test_the_wide_tensor_loses_in_training() -> None:
    """The moving average of the two ranges clips it."""
    shared, separate = decibels(False, 10, 0, qat=True), decibels(True, 10, 0, qat=True)
    assert shared[1] == pytest.approx(17.9, abs=1.5)
    assert separate[1] > shared[1] + 8
    assert separate[0] > shared[0] + 5


def test_one_stub_is_right_for_a_cat_after_calibration() -> None:
    """Silent there: the union of the ranges is what the cat needs."""

    class Joined(nn.Module):
        def __init__(self, first: bool) -> None:
            super().__init__()
            self.quant, self.dequant, self.first = tq.QuantStub(), tq.DeQuantStub(), first

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if self.first:
                return self.dequant(self.quant(torch.cat([x, y], 1)))
            return self.dequant(torch.cat([self.quant(x), self.quant(y)], 1))

    torch.manual_seed(0)
    batches = [(torch.randn(32, 64), torch.randn(32, 64) * 10) for _ in range(6)]
    data = batches[0]
    with quiet():
        shared, first = (sqnr(Joined(flag)(*data), quantize(Joined(flag), batches)(*data)) for flag in (False, True))
        average = sqnr(Joined(False)(*data), quantize_aware(Joined(False), batches * 40)(*data))
        trained = sqnr(Joined(True)(*data), quantize_aware(Joined(True), batches * 40)(*data))
    assert shared == pytest.approx(first, abs=0.5)
    assert shared > 30
    assert average < 22 and trained > 28


def test_bad_example_reuses_a_stub_on_the_marked_lines(tmp_path: Path) -> None:
    bad, good = example(RULE, "Bad"), example(RULE, "Good")
    assert bad is not None and good is not None
    inputs = {"inputs": [[4, 8], [4, 8]]}
    assert run({"bad.py": bad}, tmp_path.resolve(), inputs).stub_reused == {("bad.py", row) for row, _ in marked(bad)}
    assert run({"good.py": good}, tmp_path.resolve(), inputs).stub_reused == set()


def test_good_example_is_the_same_float_model_and_keeps_both_inputs(tmp_path: Path) -> None:
    results = {}
    for name in ("Bad", "Good"):
        code = example(RULE, name)
        assert code is not None
        with loaded({f"{name.lower()}.py": code}, tmp_path.resolve()) as module:
            torch.manual_seed(0)
            model = module.Net().eval()
        with torch.no_grad():
            for layer in (model.image, model.speed):
                layer.bias.zero_()
        generator = torch.Generator().manual_seed(1)
        batches = [
            (torch.randn(32, 8, generator=generator), torch.randn(32, 8, generator=generator) * 0.1) for _ in range(6)
        ]
        with torch.no_grad():
            expected = model(*batches[0])
        converted = quantize(copy.deepcopy(model), batches)
        with quiet(), torch.no_grad():
            actual = converted(*batches[0])
        results[name] = expected, [sqnr(e, a) for e, a in zip(expected, actual, strict=True)]
    for before, after in zip(results["Bad"][0], results["Good"][0], strict=True):
        assert torch.equal(before, after)
    assert results["Bad"][1][1] < 20
    assert min(results["Good"][1]) > 28
