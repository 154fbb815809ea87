"""What counts as decided: what is flagged, and what is right in every context that a judged model reaches."""

from __future__ import annotations

import textwrap

from qlsp.config import Config
from qlsp.engine import check
from qlsp.statistics import UNUSED, Statistics

HEAD = """
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub, QuantWrapper, convert, default_qconfig, prepare
"""


def counted(text: str, head: str = HEAD) -> Statistics:
    path = "models.py"
    return check([path], Config(), {path: head + textwrap.dedent(text)}, statistics=True).statistics


def reasons(statistics: Statistics) -> list[tuple[str, str]]:
    return [(kind, reason) for kind, reason, _ in statistics.undecided]


BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()

    def forward(self, x):
        return self.quant(x)


class Known(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.dequant = Block(), DeQuantStub()

    def forward(self, x):
        return self.dequant(self.block(x))
"""


def test_a_call_that_one_model_decides_and_another_leaves_open_is_undecided() -> None:
    assert counted(BLOCK).by_kind["stub"] == (1, 1)
    both = counted(
        BLOCK
        + """
class Open(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.dequant = Block(), DeQuantStub()

    def forward(self, x):
        return self.dequant(self.block(elsewhere(x)))
"""
    )
    assert both.by_kind["stub"] == (0, 1)
    assert len(reasons(both)) == 1


def test_a_wrapper_is_decided_by_what_its_quant_stub_gets() -> None:
    """What an unknown model inside gives its DeQuantStub says nothing about the QuantStub."""
    statistics = counted("def ready(net):\n    net = QuantWrapper(net)\n    return prepare(net.eval())\n")
    assert statistics.by_kind["stub"] == (1, 1)


def test_an_operator_in_a_class_that_no_model_uses_is_undecided() -> None:
    statistics = counted(
        """
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.add(self.fc(x), 1)
"""
    )
    assert reasons(statistics) == [("op", UNUSED)]
    assert [reached for _, reached in statistics.classes] == [False]


SECOND_IN_A_LINE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x = self.quant(x)
        return self.dequant(torch.add(torch.mul(x, x), self.fc(x)))
"""


def test_the_inner_operator_of_a_flagged_expression_is_flagged_with_it() -> None:
    statistics = counted(SECOND_IN_A_LINE)
    assert statistics.findings == {"QL401": 1}
    assert statistics.by_kind["op"] == (2, 2)


OPERATORS = """
import torch.nn.functional as F
from torch.ao.nn.quantized import FloatFunctional
from torch.nn.functional import interpolate


class Net(nn.Module):
    def __init__(self, up):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.skip: FloatFunctional = FloatFunctional()
        self.fc, self.join = nn.Linear(4, 4), FloatFunctional()

    def forward(self, x, mask):
        x = self.quant(x)
        y = F.relu(self.fc(x))
        y = self.skip.add(x, y)
        x = self.join.cat([x, interpolate(y, 2)], 1)
        return torch.softmax(self.dequant(x), 1)


def outside(x):
    return F.relu(torch.zeros(1))
"""


def test_operators_with_and_without_a_kernel_and_those_of_a_functional_are_counted() -> None:
    statistics = counted(OPERATORS)
    assert statistics.by_kind["op"] == (4, 4)
    assert statistics.by_kind["cat"] == (1, 1)


def test_an_operator_on_an_operand_that_is_not_known_is_undecided() -> None:
    for line in ("y = self.skip.add(x, y)", "y = F.relu(self.fc(x))"):
        statistics = counted(OPERATORS.replace(line, f"y = elsewhere(x)\n        {line}".replace("self.fc(x)", "y")))
        assert statistics.by_kind["op"][0] < statistics.by_kind["op"][1] == 4


def test_an_operator_that_no_judged_model_comes_to_is_decided() -> None:
    branch = "if False:\n            y = torch.relu(elsewhere(x))\n        x = self.join.cat"
    assert counted(OPERATORS.replace("x = self.join.cat", branch)).by_kind["op"] == (5, 5)


def test_the_classes_that_judged_models_run() -> None:
    unused = "\n\nclass Unused(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
    statistics = counted(BLOCK + SECOND_IN_A_LINE + unused)
    assert [reached for _, reached in statistics.classes] == [True, True, True, False]


def test_a_class_whose_forward_calls_nothing_runs_where_it_is_built() -> None:
    same = """
class Same(nn.Module):
    def forward(self, x):
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.same, self.dequant = QuantStub(), Same(), DeQuantStub()

    def forward(self, x):
        return self.dequant(self.same(self.quant(x)))
"""
    assert [reached for _, reached in counted(same).classes] == [True, True]
    assert [reached for _, reached in counted(same.replace("Same()", "nn.ReLU()")).classes] == [False, True]


PLAIN = """
class Plain(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y], 1)
"""


def test_where_nothing_makes_quantized_tensors_none_meets_a_concatenation() -> None:
    traced = "import torch\nfrom torch import nn\nfrom torch.ao.quantization.quantize_fx import prepare_fx\n"
    assert counted(PLAIN, traced).by_kind["cat"] == (1, 1)
    assert counted(PLAIN).by_kind["cat"] == (0, 1)
