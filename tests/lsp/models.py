"""Model files for the tests, with their mistakes."""

from __future__ import annotations

HEAD = """\
import torch
from torch import nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import DeQuantStub, QuantStub


"""

CAT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.quant_b = QuantStub()
        self.left = nn.Conv2d(3, 8, 1)
        self.right = nn.Conv2d(3, 8, 1)
        self.dequant = DeQuantStub()

    def forward(self, x, y):
        a = self.left(self.quant(x))
        b = self.right(self.quant_b(y))
        {line}
        return self.dequant(c)
"""

CALL = "torch.cat([a, b], dim=1)"
LINE = f"c = {CALL}"
FINDING = HEAD + CAT.format(line=LINE)
WIDE_LINE = f'"😀 量化"; c = {CALL}'
WIDE = HEAD + CAT.format(line=WIDE_LINE)
"""The finding has an emoji and Chinese before it on its line."""

OTHER = """\


def helper(model):
    return model
"""
HALF = OTHER.replace("return model", "return model.(")
"""Another function, half typed."""

CLEAN = HEAD + CAT.format(line="c = a")


def large(classes: int, every: int = 1) -> str:
    """Many independent models of about 16 lines; one of ``every`` has a finding."""
    return HEAD + "\n\n".join(
        CAT.format(line="c = a" if number % every else LINE).replace("class Net", f"class Net{number}")
        for number in range(classes)
    )
