"""A qconfig with one weight scale for transposed convolutions: what it gives, and where the engine is wrong."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization as tq
from torch import nn
from under_torch import quiet, sqnr

AGREE = [(8, 8, 1), (8, 8, 8), (8, 1, 1), (1, 8, 1), (64, 64, 1)]
DIFFER = [(8, 4, 1), (4, 8, 1), (8, 4, 2)]


class Net(nn.Module):
    """A convolution and a transposed one."""

    def __init__(self, dimensions: int, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        layer = getattr(nn, f"ConvTranspose{dimensions}d")
        self.up = layer(inputs, outputs, 3, stride=2, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Up."""
        return self.dequant(self.up(self.quant(x)))


def loss(dimensions: int, channels: tuple[int, int, int], training: bool = False) -> float:
    torch.manual_seed(0)
    model, x = Net(dimensions, *channels), torch.randn(2, channels[0], *[6] * dimensions)
    with quiet(), torch.no_grad():
        expected = model.eval()(x)
        model.train(training)
        model.qconfig = tq.get_default_qat_qconfig("x86") if training else tq.get_default_qconfig("x86")
        model.up.qconfig = tq.default_qat_qconfig if training else tq.default_qconfig
        prepared = tq.prepare_qat(model) if training else tq.prepare(model)
        for _ in range(10):
            prepared(x)
        return sqnr(expected, tq.convert(prepared.eval())(x))


@pytest.mark.parametrize("training", [False, True], ids=["ptq", "qat"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("channels", AGREE, ids=str)
def test_right_where_the_channels_agree(channels: tuple[int, int, int], dimensions: int, training: bool) -> None:
    assert loss(dimensions, channels, training) > 27.0


@pytest.mark.parametrize("engine", ["fbgemm", "qnnpack"])
@pytest.mark.parametrize("channels", DIFFER, ids=str)
def test_these_engines_are_right_where_they_differ(channels: tuple[int, int, int], engine: str) -> None:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        assert loss(2, channels) > 27.0
    finally:
        torch.backends.quantized.engine = before


@pytest.mark.parametrize("channels", DIFFER, ids=str)
def test_onednn_is_wrong_where_they_differ(channels: tuple[int, int, int]) -> None:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "onednn"
    try:
        assert loss(2, channels) < 5.0
    finally:
        torch.backends.quantized.engine = before
