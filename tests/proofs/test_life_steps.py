"""What the pages of the rules about the order of a model's life say, under torch."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from examples import example, rule_named
from torch import nn
from under_torch import loaded, quiet, sqnr

BATCHES = [torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
ROWS = [torch.randn(16, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


def page(rule: str, heading: str, folder: Path, call: str = "quantize", *arguments: Any) -> Any:
    """What a function of a page's example gives back."""
    code = example(rule_named(rule), heading)
    assert code is not None
    torch.manual_seed(0)
    with loaded({"page.py": code}, folder.resolve()) as module, quiet():
        return getattr(module, call)(*arguments)


def quantized(model: nn.Module) -> int:
    return sum(isinstance(module, (nnq.Quantize, nnq.Linear, nnq.Conv2d)) for module in model.modules())


def normalized(trains: bool, last: nn.Module) -> float:
    """SQNR in dB of a converted model that was calibrated in a mode, against the float model that came before."""
    torch.manual_seed(0)
    net = tq.QuantWrapper(nn.Sequential(nn.Conv2d(3, 8, 3), last, nn.ReLU(), nn.Conv2d(8, 8, 3)))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.02, 0.1)
    net.eval()
    with torch.no_grad(), quiet():
        wanted = net(BATCHES[0])
        net.qconfig = tq.get_default_qconfig("x86")
        ready = tq.prepare(net).train(trains)
        for batch in BATCHES:
            ready(batch)
        return sqnr(wanted, tq.convert(ready.eval())(BATCHES[0]))


def test_calibration_in_training_mode_loses_with_batchnorm_and_dropout() -> None:
    assert normalized(True, nn.BatchNorm2d(8)) < 15 < 25 < normalized(False, nn.BatchNorm2d(8))
    assert normalized(True, nn.Dropout(0.3)) < normalized(False, nn.Dropout(0.3))


def test_prepare_in_training_mode_and_eval_before_data_is_harmless() -> None:
    torch.manual_seed(0)
    net = tq.QuantWrapper(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    net.qconfig = tq.get_default_qconfig("x86")
    results = []
    with torch.no_grad(), quiet():
        for early in (True, False):
            net.train(not early)
            ready = tq.prepare(net).eval()
            ready(BATCHES[0])
            results.append(tq.convert(ready)(BATCHES[0]).dequantize())
    assert torch.equal(*results)


@pytest.mark.parametrize("mode", ["eager", "fx"])
def test_the_wrong_mode_raises_what_the_page_quotes(mode: str) -> None:
    quoted = rule_named("prepare-mode").page
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    with pytest.raises(AssertionError) as raised, quiet():
        if mode == "eager":
            net.qconfig = tq.get_default_qat_qconfig("x86")
            tq.prepare_qat(net.eval())
        else:
            from torch.ao.quantization.quantize_fx import prepare_fx

            prepare_fx(net.train(), tq.get_default_qconfig_mapping("x86"), (BATCHES[0],))
    assert f"AssertionError: {str(raised.value).rstrip('.')}" in quoted


def test_prepare_qat_fx_takes_a_model_in_eval_mode() -> None:
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    with quiet():
        prepare_qat_fx(net, tq.get_default_qat_qconfig_mapping("x86"), (BATCHES[0],))(BATCHES[0])


def test_the_example_of_prepare_mode(tmp_path: Path) -> None:
    """Dropout scales what it keeps: the observer behind it sees a wider range."""
    bad = page("prepare-mode", "Bad", tmp_path / "bad", "quantize", ROWS)
    good = page("prepare-mode", "Good", tmp_path / "good", "quantize", ROWS)
    assert quantized(bad) == quantized(good) == 3
    last = [[module for module in each.modules() if isinstance(module, nnq.Linear)][-1].scale for each in (bad, good)]
    assert last[0] != last[1]


def test_without_calibration_every_scale_is_one(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        code = example(rule_named("missing-calibration"), "Bad")
        assert code is not None
        with loaded({"page.py": code}, (tmp_path / "bad").resolve()) as module:
            bad = module.quantize(ROWS)
    assert any("must run observer before calling calculate_qparams" in str(each.message) for each in seen)
    assert {module.scale for module in bad.modules() if isinstance(module, nnq.Linear)} == {1.0}
    good = page("missing-calibration", "Good", tmp_path / "good", "quantize", ROWS)
    assert all(module.scale < 0.5 for module in good.modules() if isinstance(module, nnq.Linear))


def test_an_observer_without_fake_quantize_trains_in_float(tmp_path: Path) -> None:
    bad = page("ptq-qconfig-for-qat", "Bad", tmp_path / "bad", "build")
    good = page("ptq-qconfig-for-qat", "Good", tmp_path / "good", "build")
    fakes = [sum(isinstance(m, tq.FakeQuantizeBase) for m in each.modules()) for each in (bad, good)]
    assert fakes == [0, 5]


def test_fusing_too_late_raises_what_the_page_quotes(tmp_path: Path) -> None:
    quoted = rule_named("fuse-after-prepare").page
    bad = page("fuse-after-prepare", "Bad", tmp_path / "bad", "quantize", BATCHES)
    with pytest.raises(RuntimeError) as raised, quiet():
        bad(BATCHES[0])
    assert f"RuntimeError: {raised.value}" in quoted
    good = page("fuse-after-prepare", "Good", tmp_path / "good", "quantize", BATCHES)
    with quiet():
        good(BATCHES[0])
        with pytest.raises(AssertionError, match="did not find fuser method for"):
            tq.fuse_modules(tq.QuantWrapper(good), ["module.conv", "module.relu"])
    assert quantized(good) == 2


@pytest.mark.parametrize("rule", ["prepare-again", "convert-without-prepare"])
def test_nothing_is_quantized(rule: str, tmp_path: Path) -> None:
    bad = page(rule, "Bad", tmp_path / "bad", "quantize", ROWS)
    good = page(rule, "Good", tmp_path / "good", "quantize", ROWS)
    assert quantized(bad) == 0 and quantized(good) == 3


def test_convert_fx_refuses_a_model_that_was_not_prepared() -> None:
    from torch.ao.quantization.quantize_fx import convert_fx

    with pytest.raises(ValueError, match="input model must be a GraphModule") as raised, quiet():
        convert_fx(nn.Sequential(nn.Linear(4, 4)).eval())
    assert f"ValueError: {str(raised.value).split(',')[0]}" in rule_named("convert-without-prepare").page


def test_the_optimizer_of_the_original_trains_nothing(tmp_path: Path) -> None:
    changed = []
    for heading in ("Bad", "Good"):
        start = page("optimizer-before-prepare", heading, tmp_path / "start" / heading, "train", [])
        end = page("optimizer-before-prepare", heading, tmp_path / "end" / heading, "train", ROWS)
        pairs = zip(start.parameters(), end.parameters(), strict=True)
        changed.append(sum(not torch.equal(one, other) for one, other in pairs))
    assert changed == [0, 4]


def test_eval_does_not_stop_the_observers(tmp_path: Path) -> None:
    wide = [3 * row for row in ROWS]
    moved = []
    for heading in ("Bad", "Good"):
        few, _ = page("observers-move-in-eval", heading, tmp_path / "few" / heading, "train", ROWS, [])
        many, _ = page("observers-move-in-eval", heading, tmp_path / "many" / heading, "train", ROWS, wide)
        moved.append(not torch.equal(*(net.quant.activation_post_process.scale for net in (few, many))))
    assert moved == [True, False]


def test_a_wrapper_is_converted_with_its_model(tmp_path: Path) -> None:
    """On the CPU a DataParallel only passes on; the check that its page quotes is in the text of its forward."""
    bad = page("wrapped-dataparallel", "Bad", tmp_path / "bad", "train", ROWS)
    good = page("wrapped-dataparallel", "Good", tmp_path / "good", "train", ROWS)
    assert isinstance(bad, nn.DataParallel) and all(name.startswith("module.") for name in bad.state_dict())
    assert not isinstance(good, nn.DataParallel) and quantized(bad) == quantized(good) == 3
    assert "module must have its parameters and buffers" in inspect.getsource(nn.DataParallel.forward)
