"""Which code that lists children may do something with one more child of a class."""

from __future__ import annotations

import pytest

from qlsp.backends.torch_eager import EAGER
from qlsp.project import Project
from qlsp.syntax.edits import CodeView, EditBuilder

HEAD = "import torch\nfrom torch import nn\nfrom torchvision import models\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.conv(x)
"""


def listed(texts: dict[str, str], name: str = "Net") -> bool:
    project = Project((), texts)
    for path in texts:
        project.load(path)
    view = CodeView(project.modules, EAGER.canonical)
    (cls,) = view.named(name)
    return EditBuilder(view).lists_children(cls)


def beside(text: str) -> bool:
    """The answer for code in the file of the class."""
    return listed({"net.py": HEAD + NET + text})


METHOD = "\n    def fuse(self):\n"
OTHER = "\n\nclass Other(nn.Module):\n"
FUNCTION = "\n\ndef change(model):\n"


@pytest.mark.parametrize(
    "text",
    [
        METHOD + "        for m in self.children():\n            if hasattr(m, 'fuse_model'):\n"
        "                m.fuse_model()\n",
        METHOD + "        for m in self.children():\n            if type(m) == nn.Sequential:\n"
        "                torch.quantization.fuse_modules(m, ['0', '1'], inplace=True)\n",
        METHOD + "        for m in self.children():\n            if type(m) is not Net:\n                continue\n"
        "            m.fuse()\n",
        METHOD + "        for name, m in self.named_children():\n"
        "            if isinstance(m, (nn.Conv2d, nn.Linear)):\n"
        "                nn.init.zeros_(m.weight)\n            elif isinstance(m, nn.BatchNorm2d):\n"
        "                nn.init.ones_(m.weight)\n",
        METHOD + "        for name, m in self._modules.items():\n            if isinstance(m, nn.ReLU) and m.inplace:\n"
        "                m.inplace = False\n",
        METHOD + "        self._modules['conv'] = nn.Conv2d(4, 4, 3)\n        return self._modules.get('conv')\n",
        FUNCTION + "    for name, child in model.named_children():\n        if isinstance(child, nn.ReLU):\n"
        "            setattr(model, name, nn.ReLU6())\n        else:\n            change(child)\n",
        FUNCTION + "    for name, child in model.named_children():\n        if len(list(child.children())) > 0:\n"
        "            change(child)\n        if isinstance(child, nn.ReLU):\n"
        "            setattr(model, name, nn.ReLU6())\n",
        FUNCTION + "    '''Freeze.'''\n    for child in model.children():\n        for p in child.parameters():\n"
        "            p.requires_grad = False\n",
        FUNCTION + "    if isinstance(model, nn.Conv2d):\n        model.bias = None\n        return\n"
        "    for child in model.children():\n        change(child)\n",
        FUNCTION + "    for child in list(model.children()):\n        if type(child).__name__ == 'Block':\n"
        "            child.fuse()\n        elif child.__class__.__name__ in ('A', 'B'):\n            child.run()\n",
        FUNCTION + "    return [m for m in model.children() if isinstance(m, nn.Conv2d)]\n",
        FUNCTION + "    for child in model.children():\n        if not isinstance(child, Net):\n            pass\n"
        "        else:\n            child.half()\n",
        FUNCTION + "    for child in model.children():\n        if callable(getattr(child, 'fuse_model', None)):\n"
        "            child.fuse_model()\n",
        OTHER + "    def forward(self, x):\n        for m in self.children():\n            x = m(x)\n"
        "        return x\n",
        OTHER + "    def layers(self):\n        return list(super().children())[:-1]\n",
        OTHER + "    def __init__(self):\n        super().__init__()\n"
        "        self.body = nn.Sequential(Net(), nn.ReLU())\n"
        "\n    def parts(self):\n        return list(self.body.children())\n",
        OTHER + "    def __init__(self):\n        super().__init__()\n"
        "        resnet = models.resnet18(pretrained=True)\n"
        "        self.body = nn.Sequential(*list(resnet.children())[:-2])\n",
        OTHER + "    pass\n\n\nother = Other()\nprint(list(other.children()))\n",
        "\n\nprint(len(list(models.resnet18().children())))\n",
        "\n\n# model.children()\nNOTE = 'model.children()'\n",
    ],
)  # fmt: skip
def test_code_that_leaves_a_new_child_alone(text: str) -> None:
    assert not beside(text)


@pytest.mark.parametrize(
    "text",
    [
        METHOD + "        for m in self.children():\n            m.fuse_model()\n",
        METHOD + "        for m in self.children():\n            if hasattr(m, 'qconfig'):\n"
        "                m.qconfig = None\n",
        METHOD + "        for m in self.children():\n            if hasattr(m, 'cat'):\n                m.cat = None\n",
        METHOD + "        for m in self.children():\n            if isinstance(m, nn.Module):\n"
        "                m.x = 1\n",
        METHOD + "        for m in self.children():\n            if isinstance(m, (nn.Conv2d, nn.LayerNorm)):\n"
        "                nn.init.ones_(m.weight)\n",
        METHOD + "        for m in self.children():\n            if isinstance(m, torch.ao.quantization.QuantStub):\n"
        "                m.x = 1\n",
        METHOD + "        for m in self.children():\n            if type(m) == nn.Conv2d:\n                pass\n"
        "            else:\n                m.x = 1\n",
        METHOD + "        for m in self.children():\n            if type(m) in self.kinds:\n                m.x = 1\n",
        METHOD + "        for n, m in enumerate(self.children()):\n            if isinstance(m, nn.Conv2d):\n"
        "                m.number = n\n",
        METHOD + "        for m in self.children():\n            if isinstance(m, nn.Conv2d):\n"
        "                m.x = 1\n"
        "        else:\n            m.x = 2\n",
        METHOD + "        for name in self._modules:\n            print(name)\n",
        METHOD + "        return len(self._modules)\n",
        METHOD + "        return self._modules[self.last]\n",
        FUNCTION + "    return list(model.children())[:-1]\n",
        FUNCTION + "    for child in model.children():\n        if not list(child.children()):\n"
        "            child.x = 1\n",
        FUNCTION + "    for name, child in model.named_children():\n        if 'conv' in name:\n"
        "            child.x = 1\n",
        FUNCTION + "    for child in model.children():\n        count(child)\n",
        FUNCTION + "    for child in model.children():\n        change(child)\n    model.x = 1\n",
        FUNCTION + "    if not list(model.children()):\n        model.x = 1\n    for child in model.children():\n"
        "        change(child)\n",
        FUNCTION + "    return vars(model)['_modules']\n",
        OTHER + "    def forward(self, model):\n        return list(model.children())\n",
        OTHER + "    def __init__(self, body):\n        super().__init__()\n        self.body = body\n\n"
        "    def parts(self):\n        return list(self.body.children())\n",
        OTHER + "    def __init__(self):\n        super().__init__()\n        self.body = Net()\n\n"
        "    def parts(self):\n        return list(self.body.children())\n",
        OTHER + "    def __init__(self):\n        super().__init__()\n        self.body = nn.ReLU()\n\n"
        "    def parts(self):\n        return list(self.body.children())\n\n\nother = Other()\nother.body = Net()\n",
        OTHER.replace("nn.Module", "Net") + "    def parts(self):\n        return list(self.children())\n",
        OTHER + "    def parts(self):\n        return list(self.children())\n\n\nclass Both(Other, Net):\n    pass\n",
        "\n\nnet = Net()\nprint(list(net.children()))\n",
        "\n\nnet = models.resnet18()\nnet = load()\nprint(list(net.children()))\n",
        "\n\ndef parts():\n    net = models.resnet18()\n    for net in nets():\n        print(list(net.children()))\n",
        "\n\ndef broken(net):\n    return net.children( +\n",
    ],
)  # fmt: skip
def test_code_that_may_do_something_with_a_new_child(text: str) -> None:
    assert beside(text)


LISTS = "def parts(model):\n    return list(model.children())\n"


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"parts.py": LISTS}, False),
        ({"parts.py": "import torch\n" + LISTS}, False),
        ({"parts.py": "from net import Net\n" + LISTS}, True),
        ({"parts.py": LISTS, "main.py": "import net, parts\n"}, True),
        ({"parts.py": LISTS, "main.py": "from net import (\n    Net,\n)\nfrom parts import parts\n"}, True),
        ({"parts.py": LISTS, "main.py": "def main():\n    import net\n    from parts import parts\n"}, True),
        ({"parts.py": LISTS, "one.py": "import net\n", "other.py": "import parts\n"}, False),
        ({"parts.py": "import importlib\n" + LISTS}, True),
        ({"a/__init__.py": "", "a/parts.py": LISTS, "a/main.py": "from . import parts\nimport net\n"}, True),
        ({"a/__init__.py": "", "a/parts.py": LISTS, "a/main.py": "from .parts import p, q\nimport net\n"}, True),
    ],
)
def test_only_files_that_imports_connect_matter(others: dict[str, str], expected: bool) -> None:
    assert listed({"net.py": HEAD + NET, **others}) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FUNCTION + "    for name, m in model.named_children():\n        if isinstance(m, nn.Identity):\n"
         "            setattr(model, name, nn.ReLU())\n        else:\n            change(m)\n", True),
        (FUNCTION + "    for m in model.children():\n        if len(list(m.children())) == 0:\n            pass\n"
         "        else:\n            m.run()\n", True),
        (FUNCTION + "    for m in model.children():\n        for part in m.children():\n"
         "            if isinstance(part, nn.Conv2d):\n                part.bias = None\n", False),
        (FUNCTION + "    for m in model.children():\n        for part in m.children():\n"
         "            part.half()\n", True),
        (FUNCTION + "    return list(model.modules())[3]\n", True),
        (FUNCTION + "    return [*model.modules()]\n", True),
        (FUNCTION + "    return len(list(model.named_modules()))\n", True),
        (FUNCTION + "    for i, m in enumerate(model.modules()):\n        print(i, m)\n", True),
        (FUNCTION + "    for m in list(model.modules()):\n        print(m)\n", False),
        (FUNCTION + "    return dict(model.named_modules())['conv']\n", False),
        (FUNCTION + "    for n, m in model.named_modules():\n        if isinstance(m, nn.Identity):\n"
         "            setattr(model, n, nn.ReLU())\n", True),
        (FUNCTION + "    for m in model.modules():\n        if isinstance(m, nn.Conv2d):\n            m.half()\n"
         "        else:\n            raise TypeError(m)\n", True),
        (FUNCTION + "    for n, m in model.named_modules():\n        if isinstance(m, nn.LSTM):\n"
         "            raise TypeError(n)\n", False),
        (FUNCTION + "    return len(list(getattr(model, 'children')()))\n", True),
        (FUNCTION + "    return hasattr(model, 'children')\n", False),
        ("\n\nclass Kind(type):\n    pass\n\n\nclass Leaf(metaclass=Kind):\n    pass\n" + FUNCTION
         + "    for m in model.children():\n        if isinstance(m, Leaf):\n            m.half()\n", True),
        ("\n\nclass Leaf(nn.Module):\n    pass\n" + FUNCTION
         + "    for m in model.children():\n        if isinstance(m, Leaf):\n            m.half()\n", False),
    ],
)  # fmt: skip
def test_a_functional_has_an_identity_and_modules_have_places(text: str, expected: bool) -> None:
    assert beside(text) is expected


def test_a_class_without_modules_becomes_one_with_children() -> None:
    text = HEAD + NET.replace("self.conv = nn.Conv2d(4, 4, 1)", "self.scale = 2").replace("self.conv(x)", "x * 2")
    recursion = FUNCTION + (
        "    for name, child in model.named_children():\n        if len(list(child.children())) > 0:\n"
        "            change(child)\n"
    )
    assert listed({"net.py": text + recursion})
    assert not beside(recursion)
