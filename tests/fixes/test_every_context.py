"""A SAFE fix is right for every object that the code in view can build: classes made to break it, under torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from contract import fixed_texts, float_problems, offered
from scoring import configuration
from under_torch import loaded, quiet

from qlsp.diagnostics import Applicability
from qlsp.engine import check

HEAD = """
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


"""
INIT = """        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
"""
FORWARD = """
    def forward(self, x, y):
        return self.dequant(torch.cat([self.a(self.quant(x)), self.b(self.quant(y))], 1))
"""
NET = f"class Net(nn.Module):\n    def __init__(self):\n{INIT}{FORWARD}"
JOIN = """class Join(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Identity()

    def forward(self, a, b):
        return torch.cat([a, b], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.join = Join()

    def forward(self, x, y):
        z = self.quant(x)
        return self.dequant(self.join(self.a(z), self.b(z))){more}
"""

BARE = "class Join(nn.Module):\n" + JOIN[JOIN.index("    def forward") :]

HEIR = f"class Base(nn.Module):\n    def __init__(self):\n{INIT}\n\nclass Net(Base):{FORWARD}"

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE

CLASSES: dict[str, tuple[str, tuple[str, ...], Applicability | None]] = {
    "an early return": (
        NET.replace("(self):", "(self, small=False):").replace(
            "self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)\n",
            "self.a = nn.Conv2d(4, 4, 1)\n        if small:\n            self.b = nn.Identity()\n            return\n"
            "        self.b = nn.Conv2d(4, 4, 1)\n",
        ),
        ("Net()", "Net(True)"),
        SAFE,
    ),
    "a return in try": (
        NET.replace("(self):", "(self, small=False):").replace(
            "self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)\n",
            "self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)\n        try:\n            if small:\n"
            "                return\n        finally:\n            pass\n        self.c = nn.Identity()\n",
        ),
        ("Net()", "Net(True)"),
        SAFE,
    ),
    "super().__init__() behind other lines": (
        NET.replace(
            "        super().__init__()\n",
            '        self.note = str("super().__init__() comes later")\n        self.width = int(4)\n'
            "        super().__init__()\n",
        ),
        ("Net()",),
        SAFE,
    ),
    "two bases that are started by hand": (
        "class Named:\n    def __init__(self):\n        self.label = str('x')\n\n\n"
        + NET.replace("(nn.Module)", "(nn.Module, Named)").replace(
            "super().__init__()",
            "Named.__init__(self)\n        self.kind = str(type(self))\n        nn.Module.__init__(self)",
        ),
        ("Net()",),
        SAFE,
    ),
    "class attributes of the new names": (
        NET.replace("(nn.Module):\n", "(nn.Module):\n    cat = 'feline'\n    quant_y = 3\n\n"),
        ("Net()",),
        SAFE,
    ),
    "methods of a subclass of the new names": (
        f"{NET}\n\nclass Sub(Net):\n    def cat(self):\n        return 3\n\n    def quant_y(self):\n        return 4\n",
        ("Net()", "Sub()"),
        SAFE,
    ),
    "slots": (
        NET.replace("(nn.Module):\n", "(nn.Module):\n    __slots__ = ('cat', 'quant_y')\n\n"),
        ("Net()",),
        SAFE,
    ),
    "attributes that are refused": (
        NET + "\n    def __setattr__(self, name, value):\n        super().__setattr__(name, value)\n",
        ("Net()",),
        UNSAFE,
    ),
    "objects without __init__": (
        NET + "\n    @classmethod\n    def empty(cls):\n        return cls.__new__(cls)\n",
        ("Net()",),
        UNSAFE,
    ),
    "children by number": (
        f"{NET}\n\ndef third(net):\n    return list(vars(net)['_modules'].values())[2]\n",
        ("Net()",),
        UNSAFE,
    ),
    "a method that runs the children": (
        f"{NET}\n    def run(self, x):\n        for _, child in self.named_children():\n            x = child(x)\n"
        "        return x\n",
        ("Net()",),
        None,
    ),
    "a subclass that makes a Sequential of the children": (
        f"{NET}\n\nclass Sub(Net):\n    def whole(self):\n        return nn.Sequential(*self.children())\n",
        ("Net()", "Sub()"),
        None,
    ),
    "a method that looks through the children": (
        f"{NET}\n    def fuse_model(self):\n        for child in self.children():\n            print(type(child))\n",
        ("Net()",),
        UNSAFE,
    ),
    "a method that fuses the children which can be fused": (
        f"{NET}\n    def fuse_model(self):\n        for child in self.children():\n"
        "            if hasattr(child, 'fuse_model'):\n                child.fuse_model()\n"
        "            elif type(child) == nn.Sequential:\n"
        "                torch.ao.quantization.fuse_modules(child, ['0', '1'], inplace=True)\n",
        ("Net()",),
        SAFE,
    ),
    "a function that goes through the children for layers of a type": (
        f"{NET}\n\ndef widen(model):\n    for name, child in model.named_children():\n"
        "        if isinstance(child, nn.Conv2d):\n            setattr(model, name, nn.Conv2d(4, 4, 1))\n"
        "        else:\n            widen(child)\n    return model\n",
        ("Net()", "widen(Net())"),
        SAFE,
    ),
    "another class that runs its children": (
        f"{NET}\n\nclass Chain(nn.Module):\n    def __init__(self, *parts):\n        super().__init__()\n"
        "        for number, part in enumerate(parts):\n            self.add_module(f'part{number}', part)\n\n"
        "    def forward(self, x, y):\n        for child in self.children():\n            x = child(x, y)\n"
        "        return x\n",
        ("Net()", "Chain(Net())"),
        SAFE,
    ),
    "a subclass with an __init__ of its own": (
        f"{NET}\n\nclass Sub(Net):\n    def __init__(self):\n{INIT}".replace(
            "class Sub(Net):\n    def __init__(self):\n        super()",
            "class Sub(Net):\n    def __init__(self):\n        super(Net, self)",
        ),
        ("Net()", "Sub()"),
        None,
    ),
    "forward of one class on another": (
        f"{NET}\n\nclass Other(nn.Module):\n    def __init__(self):\n{INIT}\n    def forward(self, x, y):\n"
        "        return Net.forward(self, x, y)\n",
        ("Net()", "Other()"),
        None,
    ),
    "a subclass with another forward": (
        NET.replace(
            "torch.cat([self.a(self.quant(x)), self.b(self.quant(y))], 1))",
            "self.join(self.a(self.quant(x)), self.b(self.quant(y))))",
        )
        + "\n    def join(self, a, b):\n        return torch.cat([a, b], 1)\n\n\nclass Plain(Net):\n"
        "    def forward(self, x, y):\n        return self.join(x, y)\n\n\nnet = Net()\n",
        ("Net()", "Plain()"),
        UNSAFE,
    ),
    "a block that floats go through as well": (
        JOIN.format(more=" + self.join(x, y)"),
        ("Net()",),
        None,
    ),
    "a block in a class of unknown use": (
        JOIN.format(more="")
        + "\n\nclass Plain(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.join = Join()\n\n    def forward(self, x, y):\n        return self.join(x, y)\n",
        ("Net()", "Plain()"),
        UNSAFE,
    ),
    "an inherited constructor": (HEIR, ("Net()",), SAFE),
    "an inherited constructor with parameters": (
        HEIR.replace("def __init__(self)", "def __init__(self, width: int = 4, *more, bias=True, **rest)")
        .replace("nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)", "nn.Conv2d(4, width, 1), nn.Conv2d(4, 4, 1, bias=bias)"),
        ("Net()", "Net(8)", "Net(4, 1, bias=False, other=2)"),
        SAFE,
    ),
    "an inherited constructor, comments and attributes in the class": (
        HEIR.replace("class Net(Base):", 'class Net(Base):\n    """A net."""\n\n    kind = 1\n    # the way through'),
        ("Net()",),
        SAFE,
    ),
    "a block without a constructor": (BARE.format(more=""), ("Net()",), SAFE),
    "a block without a constructor, and one that derives from it": (
        BARE.format(more="") + "\n\nclass Wide(Join):\n    def __init__(self, width):\n"
        "        super(Wide, self).__init__()\n        self.width = width\n",
        ("Net()", "Wide(2)"),
        UNSAFE,
    ),
    "a block without a constructor, and one that skips it": (
        BARE.format(more="") + "\n\nclass Wide(Join):\n    def __init__(self, width):\n"
        "        nn.Module.__init__(self)\n        self.width = width\n",
        ("Net()", "Wide(2)"),
        None,
    ),
    "a block with a decorator in place of a constructor": (
        "import dataclasses\n\n\n@dataclasses.dataclass(eq=False)\n" + BARE.format(more=""),
        ("Net()",),
        None,
    ),
    "a block without a constructor, with two bases": (
        "class Named:\n    name = 'x'\n\n\n" + BARE.format(more="").replace("(nn.Module)", "(Named, nn.Module)", 1),
        ("Net()",),
        None,
    ),
    "an inherited constructor, and a class that runs it": (
        HEIR + "\n\nclass Other(Net):\n    def __init__(self):\n        super().__init__()\n\n\nnet = Net()\n",
        ("Net()", "Other()"),
        SAFE,
    ),
    "an inherited constructor, and a class that skips it": (
        HEIR + "\n\nclass Other(Net):\n    def __init__(self):\n        nn.Module.__init__(self)\n\n\nnet = Net()\n",
        ("Net()",),
        None,
    ),
    "two inherited constructors": (
        HEIR.replace("class Net(Base)", "class Mixin:\n    pass\n\n\nclass Net(Mixin, Base)"),
        ("Net()",),
        None,
    ),
    "stubs by computed names": (
        NET.replace("self.quant,", "self.quant_x, self.quant_y,")
        .replace("QuantStub(), De", "QuantStub(), QuantStub(), De")
        .replace("[self.a(self.quant(x)), self.b(self.quant(y))]", "[self.quant_x(x), self.quant_y(y)]")
        + "\n    def stubs(self):\n        return [getattr(self, f'quant_{name}') for name in 'xy']\n",
        ("Net()",),
        SAFE,
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_object_stays_what_it_is(name: str, tmp_path: Path) -> None:
    text, builds, best = CLASSES[name]
    texts = {"net.py": HEAD + text}
    result = check(["net.py"], configuration(), texts)
    fixes = [fix for _, fix in offered(result)]
    found = {diagnostic.code: diagnostic for diagnostic in result.diagnostics}
    offers = {code: [fix.applicability for fix in found[code].fixes][:1] for code in found}
    assert offers["QL101"] == ([best] if best is not None else []), offers
    for number, fix in enumerate(fixes):
        if fix.applicability is not SAFE:
            continue
        folders = tmp_path / f"{number}-old", tmp_path / f"{number}-new"
        models = []
        for folder, source in zip(folders, (texts, fixed_texts(texts, fix)), strict=True):
            folder.mkdir()
            with loaded(source, folder) as module, quiet():
                built = []
                for build in builds:
                    torch.manual_seed(0)
                    built.append(eval(build, vars(module)))
                for model in built:
                    assert not hasattr(model, "stubs") or len(model.stubs()) == 2
                models.append(built)
        batch = tuple(torch.randn(2, 4, 8, 8) for _ in range(2))
        for old, new in zip(*models, strict=True):
            assert not list(float_problems(old, new, batch))
