"""What the analysis of any file costs is bounded, and what is not run to its end is counted. Costs are steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from qlsp import engine
from qlsp.analysis import machine
from qlsp.commands.statistics import statistics_lines
from qlsp.config import Config
from qlsp.engine import CheckResult

HEAD = "import torch\nfrom torch import nn\nfrom torch.ao.quantization import DeQuantStub, QuantStub, prepare\n\n\n"


def net(forward: Sequence[str], constructor: Sequence[str] = (), before: str = "") -> str:
    """A file with one model between stubs."""
    lines = [
        "class Net(nn.Module):",
        "    def __init__(self, n=3):",
        "        super().__init__()",
        "        self.quant, self.dequant = QuantStub(), DeQuantStub()",
        *(f"        {line}" for line in constructor),
        "",
        "    def forward(self, x, flag=None):",
        "        x = self.quant(x)",
        *(f"        {line}" for line in forward),
        "        return self.dequant(x)",
    ]
    return HEAD + before + "\n".join(lines) + "\n"


def functions(name: str, count: int, last: str) -> str:
    """Functions that call the next one twice."""
    chain = [f"def {name}{i}(x):\n    return {name}{i + 1}({name}{i + 1}(x))\n\n\n" for i in range(count)]
    return "".join([*chain, f"def {name}{count}(x):\n    return {last}\n\n\n"])


def check(text: str) -> CheckResult:
    return engine.check(["net.py"], Config(), {"net.py": text}, statistics=True)


def spent(result: CheckResult) -> int:
    return sum(view.machine.spent for view in result.analysis.views)


def reasons(result: CheckResult) -> list[str]:
    return [re.sub(r"\d+", "N", reason) for reason, _ in result.statistics.given_up]


RECURSIVE = """\
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = Block(n - 1) if n else nn.ReLU()
        self.b = Block(n - 1) if n else nn.ReLU()

    def forward(self, x):
        return self.b(self.a(x))


"""

MUTUAL = """\
def f(x):
    return g(g(x))


def g(x):
    return h(h(x))


def h(x):
    return f(f(f(x)))


"""

ITERATED = [f"{'    ' * i}for a{i + 1} in {f'a{i}' if i else 'flag'}:" for i in range(7)]
FILLED = ["out = []", *(f"{'    ' * i}for a{i} in flag:" for i in range(7)), "    " * 7 + "out.append([x])"]
CONVOLUTIONS = [f"self.c{i} = nn.Conv2d(3, 3, 1)" for i in range(500)]

WALK = """\
def walk(model):
    for name, child in model.named_children():
        walk(child)
        setattr(model, name, walk(child))
    return prepare(model)


"""

KEPT = """\
def replace(model):
    for a, b in model.named_children():
        kept = {}
        for c, d in b.named_children():
            kept[c] = nn.ReLU()
            for e, f in d.named_children():
                kept[e] = nn.ReLU6()
        model._modules.update(kept)
    return prepare(model)


"""

WHOLE = {
    "a walk through an unknown model": (HEAD + WALK, 200),
    "objects that loops in loops keep in a dict": (HEAD + KEPT, 200),
    "blocks that build themselves": (net(["x = self.b(x)"], ["self.b = Block(30)"], RECURSIVE), 5_000),
    "forty branches in a row": (net([f"if x.mean() > {i}: x = x[{i}:]" for i in range(40)]), 5_000),
    "forty flags": (
        net([f"if self.f{i}: x = x[{i}:]" for i in range(40)], [f"self.f{i} = n == {i}" for i in range(40)]),
        5_000,
    ),
    "functions that call each other": (net(["x = f(x)"], before=MUTUAL), 40_000),
    "2,000 lines": (net([f"x = x[{i}:]" for i in range(2_000)]), 60_000),
    "loops in loops": (net([*ITERATED, "    " * 7 + "x = x[a7:]"]), 20_000),
    "a list filled by loops in loops": (net(FILLED), 40_000),
    "loops without an end": (
        net(["while x.sum():", "    while x.mean():", "        while flag:", "            x = x[1:]"]),
        9_000,
    ),
    "500 layers": (net([f"x = self.c{i}(x)" for i in range(500)], CONVOLUTIONS), 40_000),
    "500 layers under conditions": (
        net([f"if flag == {i}: x = self.c{i}(x)" for i in range(500)], CONVOLUTIONS),
        40_000,
    ),
    "a function of itself": (net(["x = (lambda f: f(f))(lambda f: f(f))"]), 1_000),
    "a tuple that doubles": (net(["t = (x, x)", *["t = (t, t)"] * 40]), 2_000),
    "a list that doubles": (net(["t = [x, x]", *["t = t + t"] * 40]), 2_000),
    "a list that doubles in a display": (net(["t = [x, x]", *["t = [*t, *t]"] * 40]), 2_000),
    "a list that doubles in place": (net(["t = [x, x]", *["t += t"] * 40]), 2_000),
    "a list times itself": (net(["t = [x, x]", *["t = t * 60"] * 40]), 2_000),
    "numbers and texts that double": (
        net(["n, s, b = 7, 'a', b'a'", *["n, s, b = n * n, s + s, b * 1000"] * 60, "x = x[n:]"]),
        4_000,
    ),
    "towers of powers": (net(["x = x[9 ** 9 ** 9 ** 9 :]", "x = x[1 << 10 ** 9 :]", "x = x['a' * 10**10 :]"]), 500),
    "endless ranges": (net(["for i in range(10 ** 9):", "    x = x[i:]", "t = [1] * 10 ** 9"]), 2_000),
}


@pytest.mark.parametrize("name", WHOLE)
def test_run_to_the_end(name: str) -> None:
    text, most = WHOLE[name]
    result = check(text)
    assert not result.analysis.crashes
    assert reasons(result) == []
    assert 0 < spent(result) < most


CUT = {
    "calls that branch in forward": (
        net(["x = f0(x)"], before=functions("f", 25, "x")),
        ["a forward of more than N steps"],
        600_000,
    ),
    "calls that branch in a script": (
        HEAD + functions("f", 25, "prepare(x)"),
        ["a function of more than N steps", "a function after the N steps of its file"],
        130_000,
    ),
    "a literal of 25,000 numbers": (
        HEAD + f"quantizer = prepare([{', '.join(map(str, range(25_000)))}])\n",
        ["a script of more than N steps"],
        30_000,
    ),
    "a constructor that branches": (
        net([], ["super().__init__()"]) + "\n\n" + functions("g", 25, "QuantStub()") + "class Big(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.q = g0(1)\n",
        [
            "a constructor of more than N steps",
            "a function of more than N steps",
            "a function after the N steps of its file",
        ],
        200_000,
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_given_up_and_counted(name: str) -> None:
    text, expected, most = CUT[name]
    result = check(text)
    assert not result.analysis.crashes
    assert set(reasons(result)) == set(expected)
    assert spent(result) < most


def test_the_statistics_name_reason_and_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_STEPS", 3_000)
    lines = list(statistics_lines(check(CUT["calls that branch in forward"][0]), False))
    start = lines.index("gave up: 1 a forward of more than 3000 steps")
    assert lines[start + 1].startswith("  net.py:")


def test_more_ways_to_build_a_model_than_are_judged() -> None:
    ways = "".join(f"\n\ndef way{i}():\n    return prepare(Net({i}))\n" for i in range(9))
    result = check(net([]) + ways)
    assert reasons(result) == ["more than N ways to build a model"]


def test_many_models_cost_in_proportion() -> None:
    def models(count: int) -> int:
        return spent(check(HEAD + "\n\n".join(net([])[len(HEAD) :].replace("Net", f"N{i}") for i in range(count))))

    assert models(200) <= 10 * models(20) + 100
