"""Imports and attributes that are taken from where the names are."""

from __future__ import annotations

import pytest

from qlsp.config import Config
from qlsp.engine import check
from qlsp.fixing import fix_texts

REWRITES = [
    (
        "from torch.quantization import A, QuantStub as Q  # old\n",
        "from torch.ao.quantization import A, QuantStub as Q  # old\n",
    ),
    ("import os, torch.quantization as tq\r\n", "import os, torch.ao.quantization as tq\r\n"),
    ("from torch import nn, quantization\n", "from torch import nn\nfrom torch.ao import quantization\n"),
    ("from torch.nn import quantized as nnq\n", "from torch.ao.nn import quantized as nnq\n"),
    (
        "from torch.quantization._numeric_suite import compare_weights\n",
        "from torch.ao.ns._numeric_suite import compare_weights\n",
    ),
    ("import torch\nq = torch.quantization.QuantStub()\n", "import torch\nq = torch.ao.quantization.QuantStub()\n"),
    (
        "import torch\nimport torch.nn as nn\nf = nn.quantized.FloatFunctional()\n",
        "import torch\nimport torch.nn as nn\nf = torch.ao.nn.quantized.FloatFunctional()\n",
    ),
    (
        "from torch.ao.quantization import prepare_fx, QConfigMapping as M\n",
        "from torch.ao.quantization.quantize_fx import prepare_fx\n"
        "from torch.ao.quantization import QConfigMapping as M\n",
    ),
    (
        "def f(net):\n\tfrom torch.ao.quantization import convert, convert_fx as c\n\treturn c(net)\n",
        "def f(net):\n\tfrom torch.ao.quantization import convert\n"
        "\tfrom torch.ao.quantization.quantize_fx import convert_fx as c\n\treturn c(net)\n",
    ),
    (
        "from torch.quantization import (\n    prepare_qat,  # 训练\n    fuse_modules_qat,\n)\n",
        "from torch.ao.quantization import (\n    prepare_qat,  # 训练\n    fuse_modules_qat,\n)\n",
    ),
    (
        "from torch.ao.quantization import *\n\nstub = QuantStub()\nx = a.convert(prepare=1)\n",
        "from torch.ao.quantization import QuantStub\n\nstub = QuantStub()\nx = a.convert(prepare=1)\n",
    ),
    (
        "from torch.ao.quantization.quantizer import Quantizer\n",
        "from torchao.quantization.pt2e.quantizer import Quantizer\n",
    ),
    (
        "from torch.ao.quantization import QConfig, move_exported_model_to_eval\n",
        "from torch.ao.quantization import QConfig\n"
        "from torchao.quantization.pt2e import move_exported_model_to_eval\n",
    ),
]


@pytest.mark.parametrize(("before", "after"), REWRITES, ids=[before.split("\n")[0] for before, _ in REWRITES])
def test_rewritten(before: str, after: str) -> None:
    assert fix_texts(["net.py"], Config(), {"net.py": before}, unsafe=False).texts.get("net.py", "") == after
    assert check(["net.py"], Config(), {"net.py": after}).diagnostics == ()


NOT_OFFERED = [
    "from torch.ao.quantization import get_observer_dict\n",
    "from torch.ao.quantization import *\n",
    "from torch.ao.quantization import (\n    convert,  # eager\n    convert_fx,\n)\n",
    "import torch.quantization._quantized_conversions\n",
]


@pytest.mark.parametrize("text", NOT_OFFERED, ids=NOT_OFFERED)
def test_left_alone(text: str) -> None:
    found = check(["net.py"], Config(), {"net.py": text}).diagnostics
    assert all(not d.fixes for d in found)
    assert fix_texts(["net.py"], Config(), {"net.py": text}, unsafe=False).texts == {}
