"""A multi-scale attention block, quantized in eager mode: it calibrates, converts, and returns noise.

`qlsp check docs/demo` names the reason without running anything; `python docs/demo/attention.py` (needs torch)
measures the damage.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import DeQuantStub, QuantStub, convert, get_default_qconfig, prepare


class MultiScaleAttention(nn.Module):
    """Weighs three feature levels of a backbone against each other and merges them."""

    def __init__(self, channels=(32, 64, 128), width=16):
        super().__init__()
        fine, middle, coarse = channels
        self.quant_fine = QuantStub()
        self.quant_middle = QuantStub()
        self.quant_coarse = QuantStub()
        self.reduce_fine = nn.Conv2d(fine, width, 1)
        self.reduce_middle = nn.Conv2d(middle, width, 1)
        self.reduce_coarse = nn.Conv2d(coarse, width, 1)
        self.score = nn.Conv2d(3 * width, 3 * width, 1)
        self.gate = nn.Sigmoid()
        self.weigh = FloatFunctional()
        self.merge = nn.Conv2d(3 * width, width, 3, padding=1)
        self.dequant = DeQuantStub()

    def forward(self, fine, middle, coarse):
        fine = self.reduce_fine(self.quant_fine(fine))
        middle = self.reduce_middle(self.quant_middle(middle))
        coarse = self.reduce_coarse(self.quant_coarse(coarse))
        middle = F.interpolate(middle, scale_factor=2.0, mode="nearest")
        coarse = F.interpolate(coarse, scale_factor=4.0, mode="nearest")
        # Each level has its own scale; the concatenation keeps only that of `fine`.
        levels = torch.cat([fine, middle, coarse], dim=1)
        weights = self.gate(self.score(levels))
        return self.dequant(self.merge(self.weigh.mul(levels, weights)))


def features(batch=4):
    """Features as a backbone with a bounded activation gives them: the deeper the level, the wider its range."""
    return (
        0.1 * torch.rand(batch, 32, 32, 32),
        1.0 * torch.rand(batch, 64, 16, 16),
        10.0 * torch.rand(batch, 128, 8, 8),
    )


def quantize(model):
    """Post-training quantization with one qconfig for the whole block."""
    model = model.eval()
    model.qconfig = get_default_qconfig("x86")
    prepared = prepare(model)
    with torch.no_grad():
        for _ in range(16):
            prepared(*features())
    return convert(prepared)


def sqnr(expected, actual):
    """Signal to quantization noise ratio in dB; a healthy int8 block has about 30."""
    noise = (expected - actual).square().mean()
    return float(10 * torch.log10(expected.square().mean() / noise))


def main():
    torch.manual_seed(0)
    model = MultiScaleAttention().eval()
    quantized = quantize(model)
    inputs = features()
    with torch.no_grad():
        print(f"int8 against float: {sqnr(model(*inputs), quantized(*inputs)):.1f} dB")


if __name__ == "__main__":
    main()
