"""Every module class of the torch eager table goes through prepare, calibration, convert and forward."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch
import torch.ao.quantization as tq
from torch import nn

from oracle_ops.module_examples import CASE_SHAPES, CASES, FEATURES, build, inputs, loss_inputs, qat
from oracle_ops.running import SCALE_A, SCALE_B, ZERO_A, ZERO_B, has_scale, named, quantized, tensors_of
from qlsp.backends.torch_eager import EAGER
from qlsp.ops.spec import Case, Observation, OpSpec, Role, Shape

MODULE_ROWS = [(row, name) for row in EAGER.rows for name in row.modules]
LOSSES = [(row, name) for row, name in MODULE_ROWS if row.observation is Observation.NONE and row.raises]
LOSSES = [(row, name) for row, name in LOSSES if not row.swapped]
STUBS = [(row, name) for row, name in MODULE_ROWS if row.role in (Role.QUANTIZE, Role.DEQUANTIZE)]
EMBEDDINGS = [(row, name) for row, name in MODULE_ROWS if row.op.startswith("embedding")]
OTHERS = [each for each in MODULE_ROWS if each not in (*LOSSES, *STUBS, *EMBEDDINGS)]
SWAPPED = [(row, name) for row, name in OTHERS if row.on_float is not None]
PLAIN = [(row, name) for row, name in OTHERS if row.on_float is None]


def ids(pairs: list[tuple[OpSpec, str]]) -> list[str]:
    """Test names."""
    return [name for _, name in pairs]


def last(name: str) -> str:
    """The class name."""
    return name.rpartition(".")[2]


def needs_qat(name: str) -> bool:
    """Classes that only prepare_qat makes quantizable."""
    return ".qat." in name or "intrinsic.ConvBn" in name or name.endswith("intrinsic.LinearBn1d")


class Region(nn.Module):
    """QuantStub, the module, and no DeQuantStub: the result stays quantized."""

    def __init__(self, body: nn.Module, call: Any = None) -> None:
        super().__init__()
        self.quant, self.body = tq.QuantStub(), body
        self.call = call
        self.entered: torch.Tensor | None = None

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Quantize what is float, then run the body."""
        given = [self.quant(tensors[0]), *tensors[1:]]
        given[1:] = [given[0] if t.is_floating_point() else t for t in given[1:]]
        self.entered = given[0].detach()
        return self.call(self.body, *given) if self.call else self.body(*given)


def prepared(body: nn.Module, qconfig: Any, training: bool, configured: bool = True) -> nn.Module:
    """The region after prepare or prepare_qat."""
    region = Region(body)
    region.qconfig = qconfig
    if not configured:
        body.qconfig = None
    if training:
        return tq.prepare_qat(region.train())
    return tq.prepare(region.eval())


def quietly(function: Any, *arguments: Any) -> Any:
    """Call without warnings and gradients."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return function(*arguments)


def qconfig_for(row: OpSpec, training: bool) -> Any:
    """The default qconfig, or one that does not refuse the class."""
    if training:
        return qat()
    return tq.default_qconfig if row.refused is not None else tq.get_default_qconfig("x86")


def lazily(body: nn.Module, tensors: tuple[torch.Tensor, ...]) -> nn.Module:
    """Initialize a lazy class."""
    if isinstance(body, nn.modules.lazy.LazyModuleMixin):
        quietly(body, *tensors)
    return body


@pytest.mark.parametrize(("row", "name"), SWAPPED, ids=ids(SWAPPED))
def test_swapped(row: OpSpec, name: str) -> None:
    """prepare observes, convert swaps, the scale is that of the observer (or the input's)."""
    assert row.swapped
    tensors, training = inputs(last(name)), needs_qat(name)
    body = lazily(build(name), tensors)
    before = quietly(prepared, body, qconfig_for(row, training), training)
    assert hasattr(before.body, "activation_post_process") == row.observed
    quietly(before, *tensors)
    before.eval()
    quietly(before, *tensors)
    after = quietly(tq.convert, before)
    assert type(after.body) is not named(name)
    result = quietly(after, *tensors)
    if row.observed:
        scale, zero_point = quietly(before.body.activation_post_process.calculate_qparams)
        expected = (float(scale), int(zero_point))
    outputs = tensors_of(row, result)
    assert all(t.is_quantized for t in outputs)
    entered = after.entered
    same = has_scale(outputs[0], entered.q_scale(), entered.q_zero_point())
    assert same == (row.observation is Observation.SHARE)
    if row.observed and row.observation is Observation.OWN:
        assert has_scale(outputs[0], *expected)
    with pytest.raises(Exception) as caught:
        quietly(after.body, *tensors)
    assert str(caught.value).startswith(row.on_float or "")


@pytest.mark.parametrize(("row", "name"), SWAPPED, ids=ids(SWAPPED))
def test_not_swapped(row: OpSpec, name: str) -> None:
    """Without a qconfig of its own the float class meets a quantized tensor."""
    tensors = inputs(last(name))
    if ".qat." in name:
        assert _error(build(name), quantized(tensors[0], SCALE_A, ZERO_A)).startswith(row.raises or "")
        return
    before = quietly(prepared, lazily(build(name), tensors), tq.default_qconfig, False, False)
    quietly(before, *tensors)
    after = quietly(tq.convert, before)
    if row.raises is not None:
        with pytest.raises(Exception) as caught:
            quietly(after, *tensors)
        assert str(caught.value).startswith(row.raises)
        return
    result = quietly(after, *tensors)
    assert has_scale(result, after.entered.q_scale(), after.entered.q_zero_point())


@pytest.mark.parametrize(("row", "name"), PLAIN, ids=ids(PLAIN))
def test_without_quantized_class(row: OpSpec, name: str) -> None:
    """The float class runs on quantized tensors and keeps or fixes the scale, or raises."""
    tensors = inputs(last(name))
    body = lazily(build(name), tensors)
    configured = row.refused is None
    before = quietly(prepared, body, tq.get_default_qconfig("x86"), False, configured)
    if configured:
        assert hasattr(before.body, "activation_post_process") == row.observed
    quietly(before, *tensors)
    after = quietly(tq.convert, before)
    assert (type(after.body) is not type(body)) == row.swapped
    if row.raises is not None:
        with pytest.raises(Exception) as caught:
            quietly(after, *tensors)
        assert str(caught.value).startswith(row.raises)
        return
    result = quietly(after, *tensors)
    (output,) = tensors_of(row, result)
    if row.fixed is not None:
        assert has_scale(output, row.fixed.scale, row.fixed.zero_point)
    else:
        assert row.observation is Observation.SHARE
        assert has_scale(output, after.entered.q_scale(), after.entered.q_zero_point())


REFUSED = [(row, name) for row, name in MODULE_ROWS if row.refused is not None]


@pytest.mark.parametrize(("row", "name"), REFUSED, ids=ids(REFUSED))
def test_refused(row: OpSpec, name: str) -> None:
    """The default qconfig meets the row's error in prepare, calibration or convert."""
    tensors = inputs(last(name))
    body = lazily(build(name), tensors)
    if row in [each for each, _ in EMBEDDINGS]:
        body.qconfig = tq.get_default_qconfig("x86")
        model: nn.Module = nn.Sequential(body)
    else:
        model = Region(body)
        model.qconfig = tq.get_default_qconfig("x86")
    with pytest.raises(Exception) as caught:
        before = quietly(tq.prepare, model.eval())
        quietly(before, *tensors)
        quietly(tq.convert, before)
    assert str(caught.value).startswith(row.refused or "")


TRAINED = [(row, name) for row, name in MODULE_ROWS if row.trained_refused is not None]


@pytest.mark.parametrize(("row", "name"), TRAINED, ids=ids(TRAINED))
def test_refused_in_training(row: OpSpec, name: str) -> None:
    """The default qconfig for training meets the row's error in prepare_qat, training or convert."""
    tensors = inputs(last(name))
    body = lazily(build(name), tensors)
    model: nn.Module = nn.Sequential(body) if row in [each for each, _ in EMBEDDINGS] else Region(body)
    model.qconfig = tq.get_default_qat_qconfig("x86")
    with pytest.raises(Exception) as caught:
        before = quietly(tq.prepare_qat, model.train())
        quietly(before, *tensors)
        quietly(tq.convert, before.eval())
    assert str(caught.value).startswith(row.trained_refused or "")


ALLOWED = [(row, name) for row, name in REFUSED if row.refused_weights]


@pytest.mark.parametrize(("row", "name"), ALLOWED, ids=ids(ALLOWED))
def test_refused_for_some_weights(row: OpSpec, name: str) -> None:
    """A qconfig that observes weights in another way is not refused."""
    tensors = inputs(last(name))
    body = lazily(build(name), tensors)
    embedding = row in [each for each, _ in EMBEDDINGS]
    model: nn.Module = nn.Sequential(body) if embedding else Region(body)
    model.qconfig = tq.float_qparams_weight_only_qconfig if embedding else tq.default_qconfig
    before = quietly(tq.prepare, model.eval())
    quietly(before, *tensors)
    quietly(tq.convert, before)


@pytest.mark.parametrize(("row", "name"), [each for each in SWAPPED if each[0].packed], ids=str)
def test_packed_attributes_are_methods(row: OpSpec, name: str) -> None:
    """Parameters of the float class are methods of the quantized one."""
    tensors, training = inputs(last(name)), needs_qat(name)
    before = quietly(prepared, lazily(build(name), tensors), qconfig_for(row, training), training)
    quietly(before, *tensors)
    after = quietly(tq.convert, before.eval())
    assert all(inspect.ismethod(getattr(after.body, attribute)) for attribute in row.packed)


@pytest.mark.parametrize(("row", "name"), LOSSES, ids=ids(LOSSES))
def test_losses(row: OpSpec, name: str) -> None:
    """Losses and distances raise on quantized tensors; a float operand beside one has its own error."""
    arguments = loss_inputs(last(name))
    body = named(name)()
    a, b = quantized(arguments[0], SCALE_A, ZERO_A), arguments[1]
    both = b.is_floating_point() and len(row.tensors) > 1
    second = quantized(b, SCALE_B, ZERO_B) if both else b
    third = arguments[2:] if last(name) != "TripletMarginLoss" else (second,)
    assert _error(body, a, second, *third).startswith(row.raises or "")
    if row.mixed is not None:
        behind, before = row.mixed
        assert _error(body, a, b, *third).startswith(behind or "")
        assert _error(body, arguments[0], second, *third).startswith(before or "")


def _error(body: Any, *arguments: Any) -> str:
    with pytest.raises(Exception) as caught:
        quietly(body, *arguments)
    return str(caught.value)


@pytest.mark.parametrize(("row", "name"), EMBEDDINGS, ids=ids(EMBEDDINGS))
def test_embeddings(row: OpSpec, name: str) -> None:
    """Weight-only quantization: convert swaps the class, the output is float."""
    body = build(name)
    body.qconfig = tq.float_qparams_weight_only_qconfig
    after = quietly(tq.convert, quietly(tq.prepare, nn.Sequential(body).eval()))
    assert row.swapped and type(after[0]) is not named(name)
    assert quietly(after, *inputs(last(name))).dtype is torch.float32
    assert _error(named(name)(10, 8), quantized(torch.randn(2, 3), 0.1, 0)).startswith(row.raises or "")


@pytest.mark.parametrize(("row", "name"), STUBS, ids=ids(STUBS))
def test_stubs(row: OpSpec, name: str) -> None:
    """QuantStub takes its observer's scale and refuses a quantized tensor; DeQuantStub accepts both."""
    stub = named(name)()
    model = nn.Sequential(stub).eval()
    model.qconfig = tq.get_default_qconfig("x86")
    before = quietly(tq.prepare, model)
    assert hasattr(before[0], "activation_post_process") == row.observed
    assert torch.equal(quietly(before, FEATURES), FEATURES)
    after = quietly(tq.convert, before)
    assert type(after[0]) is not type(stub)
    assert row.swapped
    tensor = quantized(FEATURES, SCALE_A, ZERO_A)
    if row.role is Role.DEQUANTIZE:
        assert quietly(after, tensor).dtype is torch.float32
        assert quietly(after, FEATURES).dtype is torch.float32
        return
    scale, zero_point = quietly(before[0].activation_post_process.calculate_qparams)
    assert has_scale(quietly(after, FEATURES), float(scale), int(zero_point))
    assert _error(after, tensor).startswith(row.raises or "")


def case_list() -> list[tuple[OpSpec, str, Case]]:
    """Every case of every module class."""
    return [(row, name, case) for row, name in MODULE_ROWS for case in row.cases]


@pytest.mark.parametrize(
    ("row", "name", "case"),
    case_list(),
    ids=[f"{name}-{case.parameter}-{case.values[0]}" for _, name, case in case_list()],
)
def test_case(row: OpSpec, name: str, case: Case) -> None:
    """A constructor argument changes the error of the float class."""
    key = str(case.values[0]) if case.parameter == "mode" else case.parameter
    tensors = inputs(last(name))
    if key in CASE_SHAPES:
        tensors = (torch.randn(CASE_SHAPES[key]),)
    body = lazily(build(name, CASES[key]), tensors)
    expected = case.raises or row.raises
    assert expected is not None
    assert case.shape in (None, Shape.PAIR)
    assert _error(body, quantized(tensors[0], SCALE_A, ZERO_A)).startswith(expected)


@pytest.mark.parametrize(("row", "name"), MODULE_ROWS, ids=ids(MODULE_ROWS))
def test_constructor(row: OpSpec, name: str) -> None:
    """The constructor parameters are torch's, in order; forward's parameters too."""
    signature = [each for each in inspect.signature(named(name)).parameters if each not in ("args", "kwargs")]
    if signature and row.constructor:
        assert list(row.constructor) == signature[: len(row.constructor)]
    forward = list(inspect.signature(named(name).forward).parameters)[1:]
    count = len(row.params)
    if len(forward) >= count and last(name) not in ("LSTM", "Identity"):
        assert [each.rstrip("_") for each in forward[:count]] == _forward_names(row, name)


def _forward_names(row: OpSpec, name: str) -> list[str]:
    """QuantStub and a few others call their input ``x`` or ``src``."""
    own = {
        "QuantStub": "x",
        "DeQuantStub": "x",
        "TransformerEncoderLayer": "src",
        "TransformerEncoder": "src",
    }
    names = list(row.params)
    if last(name) in own:
        names[0] = own[last(name)]
    return names


def test_no_row_untested() -> None:
    """The parametrizations above cover the table."""
    covered = {name for pairs in (SWAPPED, PLAIN, LOSSES, STUBS, EMBEDDINGS) for _, name in pairs}
    assert covered == {name for row in EAGER.rows for name in row.modules}
