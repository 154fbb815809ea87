"""Code written for a vendor's plugin, under its own name or a renamed copy, is not judged by torch's eager rules."""

from __future__ import annotations

import pytest

from qlsp.config import Config
from qlsp.engine import check

NET = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant_a, self.quant_b, self.dequant = QuantStub(), QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x, y):
        a = self.a(self.quant_a(x))
        b = self.b(self.quant_b(y))
        return self.dequant(torch.cat([a, b], 1))
"""


def codes(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(item.place.path, item.code) for item in check(list(texts), Config(), texts).diagnostics]


@pytest.mark.parametrize("package", ["horizon_plugin_pytorch", "somebody_plugin_pytorch"])
@pytest.mark.parametrize(
    "line",
    ["import {}", "import {} as hpp", "from {}.march import March", "from {}.quantization import QuantStub"],
)
def test_a_file_that_imports_a_plugin(package: str, line: str) -> None:
    assert codes({"net.py": NET + line.format(package) + "\n"}) == []


def test_other_packages_do_not_matter() -> None:
    for line in ("import plugin_pytorch_tools", "from timm import create_model"):
        assert codes({"net.py": f"{line}\n{NET}"}) == [("net.py", "QL101")]


def test_a_model_with_a_part_that_uses_a_plugin() -> None:
    part = "import some_plugin_pytorch\nfrom torch import nn\n\n\nclass Part(nn.Module):\n    pass\n"
    net = NET.replace("nn.Conv2d(4, 4, 1)", "nn.Conv2d(4, 4, 1)\n        self.part = Part()")
    assert codes({"part.py": part, "net.py": f"from part import Part\n{net}"}) == []
    assert codes({"part.py": part.replace("import some_plugin_pytorch\n", ""), "net.py": net}) == [("net.py", "QL101")]
    derived = NET.replace("class Net(nn.Module)", "class Net(Part)")
    assert codes({"part.py": part, "net.py": f"from part import Part\n{derived}"}) == []


def test_a_package_that_uses_a_plugin_elsewhere() -> None:
    texts = {"pkg/__init__.py": "", "pkg/net.py": NET, "pkg/deploy.py": "import some_plugin_pytorch  # quantization\n"}
    assert codes(texts) == []
    texts["other.py"] = NET
    assert codes(texts) == [("other.py", "QL101")]


def test_a_vendors_file_may_use_the_old_namespace() -> None:
    old = NET.replace("torch.ao.quantization", "torch.quantization")
    assert codes({"net.py": f"{old}import somebody_plugin_pytorch\n"}) == []
    texts = {"pkg/__init__.py": "", "pkg/net.py": old, "pkg/deploy.py": "import some_plugin_pytorch  # quantization\n"}
    assert codes(texts) == []
    assert codes({"net.py": old}) == [("net.py", "QL901"), ("net.py", "QL101")]
