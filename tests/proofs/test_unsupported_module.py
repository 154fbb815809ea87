"""PReLU with one weight scale runs after convert, and is wrong: the number of the page."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization as tq
from torch import nn
from under_torch import quantize, sqnr


class Net(nn.Module):
    """PReLU among stubs, quantized or in float."""

    def __init__(self, island: bool) -> None:
        super().__init__()
        self.quant, self.dequant, self.again = tq.QuantStub(), tq.DeQuantStub(), tq.QuantStub()
        self.act, self.island = nn.PReLU(), island
        if island:
            self.act.qconfig = None  # type: ignore[assignment]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The activation of a quantized tensor."""
        x = self.quant(x)
        return self.dequant(self.again(self.act(self.dequant(x))) if self.island else self.act(x))


def loss(island: bool) -> float:
    torch.manual_seed(0)
    model, x = Net(island), torch.randn(4, 8, 16)
    with torch.no_grad():
        expected = model.eval()(x)
    return sqnr(expected, quantize(model, [(x,)], tq.default_qconfig)(x))


def test_prelu_with_one_weight_scale_is_wrong() -> None:
    assert 5.5 < loss(island=False) < 7.0


def test_prelu_in_float_is_right() -> None:
    assert loss(island=True) > 31.0


def test_the_kernel_shrinks_positive_values_too() -> None:
    torch.manual_seed(0)
    x = torch.quantize_per_tensor(torch.randn(4096), 0.05, 64, torch.quint8)
    positive = x.dequantize() > 1
    for slope, factor in ((0.1, 0.2), (0.25, 0.5), (0.6, 1.0)):
        weight = torch.quantize_per_tensor(torch.tensor([slope]), slope * 2 / 255, 0, torch.quint8)
        result = torch.ops.quantized.prelu(x, weight, 0.05, 64).dequantize()
        ratio = float((result[positive] / x.dequantize()[positive]).mean())
        assert ratio == pytest.approx(factor, abs=0.02)
