"""What the pages of the rules about traced front ends say, under torch."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from examples import example, rule_named
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx
from under_torch import loaded, quiet

ROWS = [torch.randn(16, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
MAPPING = tq.get_default_qconfig_mapping("x86")


def page(rule: str, heading: str, folder: Path, *arguments: Any) -> Any:
    """What the function ``quantize`` of a page's example gives back."""
    code = example(rule_named(rule), heading)
    assert code is not None
    torch.manual_seed(0)
    with loaded({"page.py": code}, (folder / heading).resolve()) as module, quiet():
        return module.quantize(*arguments)


def quotes(rule: str, error: BaseException) -> bool:
    """Does a page quote the first line of an error?"""
    first = str(error).split(". Declaration")[0].splitlines()[0].rstrip(".")
    return f"{type(error).__name__}: {first}" in rule_named(rule).page


def test_tracing_needs_example_inputs(tmp_path: Path) -> None:
    rule, net = "missing-example-inputs", nn.Sequential(nn.Linear(8, 8))
    with pytest.raises(TypeError) as raised:
        page(rule, "Bad", tmp_path, ROWS)
    assert quotes(rule, raised.value)
    page(rule, "Good", tmp_path, ROWS)
    for call in (lambda: prepare_qat_fx(net, MAPPING), lambda: torch.export.export(net)):
        with pytest.raises(TypeError) as raised, quiet():
            call()
        assert quotes(rule, raised.value)
    with quiet():
        prepare_fx(net.eval(), MAPPING, ROWS[0])
    with quiet(), pytest.raises(TypeError, match="unexpected keyword argument 'qconfig_dict'"):
        prepare_fx(net, qconfig_dict={})


def test_a_functional_convolution_raises_in_convert(tmp_path: Path) -> None:
    rule, image = "fx-functional-conv-args", torch.randn(2, 3, 8, 8)
    with pytest.raises(RuntimeError) as raised:
        page(rule, "Bad", tmp_path, image)
    assert quotes(rule, raised.value)
    page(rule, "Good", tmp_path, image)(image)


@pytest.mark.parametrize(
    "arguments",
    [
        {"bias": None},
        {"bias": None, "stride": 1, "padding": (0, 0), "dilation": (1, 1), "groups": 1},
        {"bias": None, "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)},
    ],
)
def test_the_packing_operator_says_what_the_page_quotes(arguments: dict[str, Any]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3, 1, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.conv2d(x, self.weight, **arguments)

    image = torch.randn(2, 3, 8, 8)
    with quiet(), torch.no_grad():
        ready = prepare_fx(Net().eval(), MAPPING, (image,))
        ready(image)
        with pytest.raises(RuntimeError) as raised:
            convert_fx(ready)
    error = str(raised.value).split(". Declaration")[0].split(" but instead")[0]
    assert f"RuntimeError: {error}\n" in rule_named("fx-functional-conv-args").page


def test_recurrent_layers_stay_in_float_unless_they_are_dynamic(tmp_path: Path) -> None:
    import torch.ao.nn.quantized.dynamic as dynamic

    sequence = torch.randn(2, 5, 8)
    bad, good = (page("fx-unquantized-module", heading, tmp_path, sequence) for heading in ("Bad", "Good"))
    assert type(bad.rnn) is nn.GRU and type(good.rnn) is dynamic.GRU


def test_what_a_mapping_does_not_name_stays_in_float(tmp_path: Path) -> None:
    rows = torch.randn(4, 6)
    bad, good = (page("fx-mapping-empty", heading, tmp_path, rows) for heading in ("Bad", "Good"))
    assert type(bad.classifier) is nn.Linear and type(good.classifier) is nnq.Linear
    mappings = [tq.QConfigMapping(), tq.QConfigMapping().set_object_type(nn.Conv2d, tq.default_qconfig), {}]
    for mapping in mappings:
        net = nn.Sequential(nn.Linear(6, 4)).eval()
        net.qconfig = tq.default_qconfig
        with warnings.catch_warnings(record=True) as seen:
            ready = prepare_fx(net, mapping, (rows,))
            assert type(getattr(convert_fx(ready), "0")) is nn.Linear
        assert not [each for each in seen if "quantized" in str(each.message)]


def test_one_half_of_a_fused_pair_raises(tmp_path: Path) -> None:
    rule = "fx-fused-qconfig-mismatch"
    with pytest.raises(LookupError) as raised:
        page(rule, "Bad", tmp_path, ROWS[0])
    text = str(raised.value)
    assert text.startswith("During fusion, we need to specify the same qconfigs for all module types")
    assert type(getattr(page(rule, "Good", tmp_path, ROWS[0]), "2")) is nnq.Linear
    qconfig = tq.get_default_qconfig("x86")
    for mapping in (MAPPING, tq.QConfigMapping().set_global(qconfig)):
        with pytest.raises(LookupError), quiet():
            net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()).eval()
            prepare_fx(net, copy.deepcopy(mapping).set_object_type(nn.Conv2d, qconfig), (torch.randn(1, 3, 4, 4),))


@pytest.mark.parametrize("method", ["eval", "train"])
def test_an_exported_model_has_no_modes(method: str) -> None:
    model = torch.export.export(nn.Sequential(nn.Linear(8, 8)), (ROWS[0],)).module()
    with pytest.raises(NotImplementedError) as raised:
        getattr(model, method)()
    assert quotes("exported-model-eval", raised.value)


def test_a_prepared_exported_model_has_no_modes_skipped_without_torchao() -> None:
    torchao = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="torchao is not installed")
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
    model = torch.export.export(nn.Sequential(nn.Linear(8, 8)).eval(), (ROWS[0],)).module()
    with pytest.raises(NotImplementedError) as raised:
        torchao.prepare_pt2e(model, quantizer).eval()
    assert str(raised.value).strip().splitlines()[0].strip() in rule_named("exported-model-eval").page


def test_control_flow_stops_the_trace(tmp_path: Path) -> None:
    with pytest.raises(torch.fx.proxy.TraceError) as raised:
        page("fx-control-flow", "Bad", tmp_path, ROWS[0])
    assert str(raised.value) in rule_named("fx-control-flow").page
    page("fx-control-flow", "Good", tmp_path, ROWS[0])(ROWS[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * len(x),
        lambda x: x if x.shape[0] > 1 else -x,
        lambda x: x if x.is_cuda else -x,
        lambda x: [x + i for i in range(x.shape[0])],
        lambda x: x * int(x.sum()),
        lambda x: [each for each in x],
    ],
)
def test_what_has_no_value_raises_what_the_page_quotes(function: Any) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    with pytest.raises(Exception, match=".") as raised, quiet():
        prepare_fx(Net().eval(), MAPPING, (ROWS[0],))
    assert str(raised.value).split(". ")[0] in rule_named("fx-control-flow").page


def test_only_cat_shares_its_observers(tmp_path: Path) -> None:
    bad, good = (page("cat-alias-not-annotated", heading, tmp_path, ROWS[0]) for heading in ("Bad", "Good"))
    assert bad.left.scale != bad.right.scale and good.left.scale == good.right.scale
