"""What the page of cat-mixed-scales says, measured under torch."""

from __future__ import annotations

import copy
import statistics
import warnings
from pathlib import Path

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from examples import example, marked, rule_named, table
from torch import nn
from under_torch import CAT_WARNING, loaded, quantize, quantize_aware, quiet, run, sqnr

RULE = rule_named("cat-mixed-scales")
SEEDS = range(3)
TOLERANCE = 3.0
"""In dB, for the table of the page: seeds differ by about 2."""


class Branches(nn.Module):
    """Two convolutions of one input, the second ``ratio`` times as wide, concatenated narrow first."""

    def __init__(self, functional: bool, ratio: float) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1)
        self.ff, self.functional = nnq.FloatFunctional(), functional
        with torch.no_grad():
            self.b.weight.mul_(ratio)
            self.b.bias.mul_(ratio)

    def join(self, x: torch.Tensor) -> torch.Tensor:
        x = self.quant(x)
        parts = [self.a(x), self.b(x)]
        return self.ff.cat(parts, 1) if self.functional else torch.cat(parts, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dequant(self.join(x))


class Stubs(nn.Module):
    """Two stubs on two inputs, concatenated in the order they are given."""

    def __init__(self, functional: bool) -> None:
        super().__init__()
        self.a, self.b, self.dequant = tq.QuantStub(), tq.QuantStub(), tq.DeQuantStub()
        self.ff, self.functional = nnq.FloatFunctional(), functional

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = [self.a(x), self.b(y)]
        return self.dequant(self.ff.cat(parts, 1) if self.functional else torch.cat(parts, 1))


def cat_warnings(call) -> int:
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        call()
    return sum(CAT_WARNING in str(item.message) for item in caught)


def quantized_pair(ratio: float = 100.0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    with quiet():
        narrow = torch.quantize_per_tensor(torch.randn(4, 4), 0.03, 60, torch.quint8)
        wide = torch.quantize_per_tensor(torch.randn(4, 4) * ratio, 0.03 * ratio, 64, torch.quint8)
    return narrow, wide


@pytest.mark.parametrize(
    "function",
    [
        torch.cat,
        torch.concat,
        torch.concatenate,
        torch.stack,
        torch.hstack,
        torch.vstack,
        torch.dstack,
        torch.column_stack,
    ],
    ids=lambda function: function.__name__,
)
def test_output_takes_the_first_inputs_scale_and_warns(function) -> None:
    narrow, wide = quantized_pair()
    for pair in ([narrow, wide], [wide, narrow]):
        assert cat_warnings(lambda pair=pair: function(pair)) >= 1
        with quiet():
            joined = function(pair)
        assert (joined.q_scale(), joined.q_zero_point()) == (pair[0].q_scale(), pair[0].q_zero_point())


def test_the_others_saturate() -> None:
    narrow, wide = quantized_pair()
    with quiet():
        codes = torch.cat([narrow, wide]).int_repr()[4:]
        survivors = torch.cat([wide, narrow]).int_repr()[4:]
    assert ((codes == 0) | (codes == 255)).float().mean() > 0.8
    assert survivors.unique().numel() <= 3 < narrow.int_repr().unique().numel()


def test_inputs_that_keep_one_scale_do_not_warn() -> None:
    narrow, _ = quantized_pair()
    parts = [narrow, torch.relu(narrow), narrow.flip(-1), narrow.clamp(0.0, 1.0)]
    assert cat_warnings(lambda: torch.cat(parts)) == 0
    assert cat_warnings(lambda: torch.cat([torch.sigmoid(narrow), torch.sigmoid(quantized_pair()[1])])) == 0


@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
@pytest.mark.parametrize("ratio", [3, 10, 100])
def test_branches_narrow_first(backend: str, ratio: int) -> None:
    """Raw cat loses the signal, FloatFunctional.cat keeps it."""
    engine = torch.backends.quantized.engine
    try:
        raw, functional = (
            statistics.mean(_branch_sqnr(flag, ratio, backend, seed) for seed in SEEDS) for flag in (False, True)
        )
    finally:
        torch.backends.quantized.engine = engine
    assert 0.2 < raw < 22
    assert functional > 27


def _branch_sqnr(functional: bool, ratio: float, backend: str, seed: int) -> float:
    torch.manual_seed(seed)
    torch.backends.quantized.engine = backend
    model = Branches(functional, ratio).eval()
    batches = [(torch.randn(4, 3, 12, 12),) for _ in range(6)]
    x = torch.randn(16, 3, 12, 12)
    converted = quantize(copy.deepcopy(model), batches, tq.get_default_qconfig(backend))
    with quiet(), torch.no_grad():
        joined = converted.join(x)
        expected = converted.ff.scale if functional else converted.a.scale
        assert joined.q_scale() == pytest.approx(float(expected))
        return sqnr(model.join(x), joined)


@pytest.mark.parametrize("row", table(RULE.page), ids=lambda row: f"ratio {row[0]:g}")
def test_table_of_the_page(row: list[float]) -> None:
    ratio, *claimed = row
    for functional, decibels in zip((False, True), claimed, strict=True):
        measured = statistics.mean(_stub_sqnr(functional, ratio, seed) for seed in SEEDS)
        assert measured == pytest.approx(decibels, abs=TOLERANCE)


def _stub_sqnr(functional: bool, ratio: float, seed: int) -> float:
    torch.manual_seed(seed)
    batches = [(torch.randn(8, 256), torch.randn(8, 256) * ratio) for _ in range(8)]
    x, y = torch.randn(64, 256), torch.randn(64, 256) * ratio
    model = Stubs(functional).eval()
    converted = quantize(copy.deepcopy(model), batches)
    with quiet(), torch.no_grad():
        return sqnr(model(x, y), converted(x, y))


def test_training_does_not_see_it() -> None:
    """The fake-quantized model is good, the converted one is not."""
    torch.manual_seed(0)
    batches = [(torch.randn(8, 256) * 0.1, torch.randn(8, 256) * 10) for _ in range(8)]
    x, y = torch.randn(64, 256) * 0.1, torch.randn(64, 256) * 10
    with quiet(), torch.no_grad():
        model = Stubs(False).train()
        model.qconfig = tq.get_default_qat_qconfig("x86")
        prepared = tq.prepare_qat(model)
        for batch in batches:
            prepared(*batch)
        prepared.eval().apply(tq.disable_observer)
        trained = sqnr(model.eval()(x, y), prepared(x, y))
        converted = sqnr(model(x, y), tq.convert(prepared)(x, y))
        functional = sqnr(model(x, y), quantize_aware(Stubs(True), batches)(x, y))
    assert trained > 30 and functional > 30
    assert converted < 2


def test_prepare_calibration_and_convert_say_nothing() -> None:
    def life() -> None:
        model = Branches(False, 10).eval()
        model.qconfig = tq.get_default_qconfig("x86")
        prepared = tq.prepare(model)
        prepared(torch.randn(2, 3, 8, 8))
        tq.convert(prepared)

    assert cat_warnings(life) == 0


def test_one_qconfig_on_one_tensor_gives_one_scale() -> None:
    torch.manual_seed(0)
    batches = [(data := torch.randn(8, 16), data) for _ in range(4)]
    model = quantize(Stubs(False), batches)
    assert float(model.a.scale) == float(model.b.scale)
    assert int(model.a.zero_point) == int(model.b.zero_point)
    assert cat_warnings(lambda: model(*batches[0])) == 0


def test_bad_example_warns_on_the_marked_line(tmp_path: Path) -> None:
    bad = example(RULE, "Bad")
    assert bad is not None
    seen = run({"bad.py": bad}, tmp_path.resolve(), {"inputs": [[2, 3, 8, 8]]})
    assert seen.cat_warnings == {("bad.py", row) for row, _ in marked(bad)}
    assert seen.raised == []


def test_good_example_is_the_same_float_model_and_does_not_warn(tmp_path: Path) -> None:
    bad, good = example(RULE, "Bad"), example(RULE, "Good")
    assert bad is not None and good is not None
    x = torch.randn(2, 3, 8, 8)
    with loaded({"bad.py": bad}, tmp_path.resolve()) as module:
        before = module.Net()
    with loaded({"good.py": good}, tmp_path.resolve()) as module:
        after = module.Net()
    after.load_state_dict(before.state_dict(), strict=True)
    assert torch.equal(before(x), after(x))
    seen = run({"good.py": good}, tmp_path.resolve(), {"inputs": [[2, 3, 8, 8]]})
    assert not seen.cat_warnings and seen.raised == []
