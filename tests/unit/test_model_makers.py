"""Models of installed packages by name: what is registered under it is judged, nothing is imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qlsp import cli

NET = '''\
import torch
from torch import nn
{imports}


class Net(nn.Module):
    def __init__(self, width=4, flip=False):
        super().__init__()
        self.flip = flip
        self.a, self.b = nn.Conv2d(4, width, 1), nn.Conv2d(4, width, 1)

    def forward(self, x):
        x = x + 1.0 if self.flip else x
        return torch.cat([self.a(x), self.b(x)], 1)


class Plain(Net):
    def forward(self, x):
        return self.b(self.a(x))


'''
VISION = {
    "models/__init__.py": "from .wide import *\nfrom ._api import get_model\n",
    "models/_api.py": "BUILTIN_MODELS = {}\n\n\ndef register_model(name=None):\n    def wrapper(fn):\n"
    "        BUILTIN_MODELS[name or fn.__name__] = fn\n        return fn\n    return wrapper\n\n\n"
    "def get_model(name, **config):\n    return BUILTIN_MODELS[name.lower()](**config)\n",
    "models/_utils.py": "def handle_legacy_interface(**weights):\n    def outer(builder):\n"
    "        def inner(*args, **kwargs):\n            return builder(**kwargs)\n        return inner\n"
    "    return outer\n",
    "models/wide.py": NET.replace(
        "{imports}", "from ._api import register_model\nfrom ._utils import handle_legacy_interface"
    )
    + '@register_model()\n@handle_legacy_interface(\n    weights=("pretrained", None),\n)\n'
    "def wide(*, weights=None, **kwargs):\n    if weights is not None:\n        kwargs['flip'] = True\n"
    "    return Net(**kwargs)\n\n\n"
    '@register_model(name="other_plain")\ndef plain(**kwargs):\n    return Plain(**kwargs)\n',
}
TIMM = {
    "__init__.py": "from .models import create_model\n",
    "models/__init__.py": "from .wide import *\nfrom ._factory import create_model\n",
    "models/_factory.py": "def create_model(model_name, pretrained=False, **kwargs):\n    return entry(model_name)()\n",
    "models/_registry.py": "def register_model(fn):\n    return fn\n",
    "models/_builder.py": "def build_model_with_cfg(model_cls, variant, pretrained, **kwargs):\n"
    "    return load(model_cls)\n",
    "models/wide.py": NET.replace(
        "{imports}", "from ._builder import build_model_with_cfg\nfrom ._registry import register_model"
    )
    + "def _create(cls, variant, pretrained=False, **kwargs):\n"
    "    return build_model_with_cfg(cls, variant, pretrained, pretrained_strict=False, **kwargs)\n\n\n"
    "@register_model\ndef wide(pretrained=False, **kwargs):\n"
    "    return _create(Net, 'wide', pretrained, **dict({'width': 8}, **kwargs))\n\n\n"
    "@register_model\ndef plain(pretrained=False, **kwargs):\n"
    "    return _create(Plain, 'plain', pretrained, **kwargs)\n",
}
USER = """\
from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare
{imports}

model = QuantWrapper({call})
model.qconfig = get_default_qconfig("x86")
prepared = prepare(model)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose environment has small packages of the names and the layout of the real ones."""
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    for package, files in (("torchvision", {"__init__.py": "from . import models\n", **VISION}), ("timm", TIMM)):
        for name, text in files.items():
            path = site / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "qlsp.toml").write_text('environment = "../env"\n')
    monkeypatch.chdir(folder)
    return folder


def findings(project: Path, capsys: Any, imports: str, call: str) -> list[tuple[int, str]]:
    (project / "net.py").write_text(USER.format(imports=imports, call=call))
    capsys.readouterr()
    cli.main(["check", "--output-format", "json", "net.py"])
    return [(item["location"]["row"], item["code"]) for item in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from torchvision.models import get_model", 'get_model("wide")'),
        ("import torchvision", 'torchvision.models.get_model("Wide", weights=None)'),
        ("from torchvision import models", 'models.get_model(name="wide", width=8)'),
        ("from torchvision.models import wide", "wide(weights=None)"),
        ("import timm", 'timm.create_model("wide", pretrained=True, num_classes=None)'),
        ("from timm import create_model", 'create_model("wide.in1k", flip=None)'),
        ("from timm.models import create_model", 'create_model(model_name="wide", features_only=False)'),
    ],
)
def test_the_model_of_a_name_is_judged(project: Path, capsys: Any, imports: str, call: str) -> None:
    assert findings(project, capsys, imports, call) == [(4, "QL101")]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from torchvision.models import get_model", 'get_model("other_plain")'),
        ("from torchvision.models import get_model", 'get_model("plain")'),
        ("from torchvision.models import get_model", 'get_model("absent")'),
        ("from torchvision.models import get_model\nimport sys", "get_model(sys.argv[1])"),
        ("import timm", 'timm.create_model("plain")'),
        ("import timm", 'timm.create_model("hf-hub:someone/wide")'),
        ("import timm", 'timm.create_model("wide", features_only=True)'),
        ("from mine import create_model", 'create_model("wide")'),
    ],
)
def test_other_names_and_other_models_stay_silent(project: Path, capsys: Any, imports: str, call: str) -> None:
    assert findings(project, capsys, imports, call) == []
