"""What the pages of the rules about modes and qconfigs say, under torch."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.nn.quantized.dynamic as nnqd
import torch.ao.quantization as tq
from examples import example, rule_named
from torch import nn
from torch.ao.quantization import quantize_fx
from under_torch import loaded, quiet

from qlsp.backends.torch_lifecycle import LIFECYCLE
from qlsp.backends.torch_qconfigs import WEIGHTS
from qlsp.rules.dynamic_unsupported import IGNORED
from qlsp.values.workflow import Workflow

BATCHES = [torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


def page(rule: str, heading: str, folder: Path, call: str, *arguments: Any) -> Any:
    """What a function of a page's example gives back."""
    code = example(rule_named(rule), heading)
    assert code is not None
    torch.manual_seed(0)
    with loaded({"page.py": code}, folder.resolve()) as module, quiet():
        return getattr(module, call)(*arguments)


def test_folding_leaves_no_batchnorm_to_train(tmp_path: Path) -> None:
    models = [page("fuse-mode", heading, tmp_path / heading, "build") for heading in ("Bad", "Good")]
    assert [sum(isinstance(m, nn.BatchNorm2d) for m in model.modules()) for model in models] == [0, 1]
    assert type(models[1].conv).__name__ == "ConvBnReLU2d"


def test_folding_in_training_mode_raises_what_the_page_quotes() -> None:
    quoted = rule_named("fuse-mode").page
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    with pytest.raises(AssertionError) as raised:
        tq.fuse_modules(net, ["0", "1", "2"])
    assert f"AssertionError: {raised.value}" in quoted
    tq.fuse_modules(net, ["1", "2"])
    tq.fuse_modules_qat(net.eval(), ["0", "1", "2"])
    tq.fuse_modules_qat(net.train(), ["0", "1", "2"])


def spoilt(name: str) -> Any:
    """Values that are no QConfig, by the kind that the rule tells them apart by."""
    return {
        "text": "x86",
        "function": tq.get_default_qconfig,
        "class": tq.QConfig,
        "mapping": tq.get_default_qconfig_mapping("x86"),
        "dict": {"": tq.default_qconfig},
        "observer": tq.default_observer,
        "package": tq.qconfig,
    }[name]


@pytest.mark.parametrize("kind", ["text", "function", "class", "mapping", "dict", "observer", "package"])
def test_what_is_no_qconfig_raises_what_the_page_quotes(kind: str) -> None:
    net = tq.QuantWrapper(nn.Linear(4, 4)).eval()
    net.qconfig = spoilt(kind)
    with pytest.raises((AttributeError, TypeError)) as raised, quiet():
        tq.prepare(net)
    assert f"{type(raised.value).__name__}: {raised.value}" in rule_named("bad-qconfig-value").page


def test_prepare_fx_takes_a_mapping_only() -> None:
    quoted, net, rows = (
        rule_named("bad-qconfig-value").page,
        nn.Sequential(nn.Linear(4, 4)).eval(),
        (torch.randn(2, 4),),
    )
    for value in (tq.default_qconfig, "x86", tq.get_default_qconfig_mapping):
        with pytest.raises(AssertionError) as raised, quiet():
            quantize_fx.prepare_fx(net, value, rows)
        assert f"AssertionError: {raised.value}" in quoted
    with pytest.raises(TypeError) as refused, quiet():
        quantize_fx.prepare_fx(net, qconfig_dict={"": tq.default_qconfig}, example_inputs=rows)
    assert f"TypeError: {refused.value}" in quoted
    with quiet():
        quantize_fx.prepare_fx(net, qconfig_mapping={"": tq.default_qconfig}, example_inputs=rows)


def test_the_parameters_of_prepare_calls_are_those_of_torch() -> None:
    for row in LIFECYCLE:
        if row.keywords is not None:
            module = quantize_fx if row.workflow is Workflow.FX else tq
            signature = inspect.signature(getattr(module, row.names[0].rpartition(".")[2]))
            assert set(signature.parameters) == {*row.params, *row.keywords}


def test_the_example_of_bad_qconfig_value(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        page("bad-qconfig-value", "Bad", tmp_path / "bad", "prepared")
    ready = page("bad-qconfig-value", "Good", tmp_path / "good", "prepared")
    assert sum(hasattr(module, "activation_post_process") for module in ready.modules()) == 3


def test_a_qconfig_refuses_what_is_built(tmp_path: Path) -> None:
    quoted = rule_named("qconfig-observer-instance").page
    with pytest.raises(ValueError) as raised:
        page("qconfig-observer-instance", "Bad", tmp_path / "bad", "build")
    assert f"ValueError: {str(raised.value).partition('.')[0]}" in quoted
    assert isinstance(page("qconfig-observer-instance", "Good", tmp_path / "good", "build"), tq.QConfig)
    with pytest.raises(ValueError):
        tq.QConfig(activation=nn.Identity(), weight=nn.Identity)


def test_the_factories_of_observers_build_modules() -> None:
    fixed = {"scale": 1.0, "zero_point": 0}
    arguments = {"observer": tq.MinMaxObserver}, {"observer": tq.FixedQParamsObserver.with_args(**fixed)}, fixed
    for name in WEIGHTS.factories:
        factory, built = getattr(tq, name.rpartition(".")[2]), None
        for keywords in ({}, *arguments):
            try:
                built = factory(**keywords)
                break
            except (AssertionError, TypeError):
                continue
        assert isinstance(built, nn.Module), name


def test_a_bare_layer_is_not_quantized(tmp_path: Path) -> None:
    rows = [torch.randn(4, 8) for _ in range(2)]
    models = [page("root-leaf-quantized", each, tmp_path / each, "quantize", rows) for each in ("Bad", "Good")]
    found = [sum(isinstance(m, (nnq.Linear, nnq.Quantize)) for m in model.modules()) for model in models]
    assert found == [0, 2]
    with quiet():
        assert type(tq.quantize_dynamic(nn.LSTM(8, 8), {nn.LSTM})) is nn.LSTM


def test_dynamic_quantization_leaves_types_without_a_twin(tmp_path: Path) -> None:
    assert not IGNORED & {f"torch.nn.{cls.__name__}" for cls in tq.get_default_dynamic_quant_module_mappings()}
    models = [page("dynamic-unsupported", each, tmp_path / each, "build") for each in ("Bad", "Good")]
    assert [sum(isinstance(m, nnqd.Linear) for m in model) for model in models] == [1, 1]
    assert all(type(model[0]) is nn.Conv1d for model in models)
