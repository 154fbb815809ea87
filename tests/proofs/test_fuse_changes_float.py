"""What the page of fuse-changes-float says that fusing the wrong modules does to the float model, under torch."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization as tq
from examples import rule_named, section
from torch import nn
from under_torch import quiet

SEEDS = range(5)


class Net(nn.Module):
    """Two convolutions, a BatchNorm with statistics, a ReLU, and a way to call them."""

    def __init__(self, way: Callable[[Net, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.way = way
        self.conv, self.other = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.bn, self.relu = nn.BatchNorm2d(8), nn.ReLU()
        nn.init.normal_(self.bn.running_mean, 0, 0.3)
        nn.init.uniform_(self.bn.running_var, 0.5, 2)
        nn.init.uniform_(self.bn.weight, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way(self, x)


def shared(net: Net, x: torch.Tensor) -> torch.Tensor:
    """The ReLU is called twice."""
    return net.relu(net.other(net.relu(net.conv(x))))


def consumer(net: Net, x: torch.Tensor) -> torch.Tensor:
    """The output of the convolution goes into the BatchNorm and into a sum."""
    y = net.conv(x)
    return y + net.bn(y)


def apart(net: Net, x: torch.Tensor) -> torch.Tensor:
    """A BatchNorm stands between the convolution and the ReLU."""
    return net.relu(net.bn(net.conv(x)))


SHAPES = {
    "with a shared ReLU": (shared, ["conv", "relu"]),
    "second use": (consumer, ["conv", "bn"]),
    "between the convolution and the ReLU": (apart, ["conv", "relu"]),
}


def difference(way: Callable[[Net, torch.Tensor], torch.Tensor], names: list[str], seed: int) -> float:
    """The largest difference between the outputs of the model before and after fusing, relative to the largest."""
    torch.manual_seed(seed)
    net = Net(way).eval()
    x = torch.randn(4, 3, 16, 16)
    with quiet(), torch.no_grad():
        before = net(x)
        after = tq.fuse_modules(copy.deepcopy(net), [names])(x)
    return float((after - before).abs().max() / before.abs().max())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_float_model_changes_as_the_page_says(shape: str) -> None:
    text = section(rule_named("fuse-changes-float").page, "Why it matters")
    assert text is not None
    sentence = re.sub(r"\s+", " ", text)
    claimed = re.search(rf"(\d+) %[^%]*?{re.escape(shape)}", sentence)
    assert claimed is not None
    measured = [100 * difference(*SHAPES[shape], seed) for seed in SEEDS]
    assert min(measured) > 5
    assert sum(measured) / len(measured) == pytest.approx(int(claimed[1]), abs=5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_right_list_changes_nothing(shape: str) -> None:
    """With a ReLU of its own, without the second use, with all three modules."""
    torch.manual_seed(0)
    net = Net({consumer: apart}.get(SHAPES[shape][0], SHAPES[shape][0])).eval()
    names = ["conv", "bn", "relu"]
    if shape == "with a shared ReLU":
        net.first = nn.ReLU()
        net.way = lambda net, x: net.relu(net.other(net.first(net.conv(x))))
        names = ["conv", "first"]
    x = torch.randn(4, 3, 16, 16)
    with quiet(), torch.no_grad():
        torch.testing.assert_close(tq.fuse_modules(copy.deepcopy(net), [names])(x), net(x))
