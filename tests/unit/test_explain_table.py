"""``qlsp explain`` finds a rule for every error text of the table, the older and the newer one."""

from __future__ import annotations

import pytest

from qlsp.backends.torch_eager import EAGER
from qlsp.commands.explain import _rules_about
from qlsp.rules._errors import OPERATOR, errors
from qlsp.rules.api import all_rules

TAIL = ". This could be because the operator doesn't exist for this backend"
BUILT = {rule.meta.name for rule in all_rules()}
TEXTS = sorted({error for row in EAGER.rows for error, _ in errors(row) if error})
OPERATORS = {error for row in EAGER.rows for error, rule in errors(row) if error and rule == OPERATOR}


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_of_the_table_finds_a_rule(text: str) -> None:
    found = {rule.meta.name for rule in _rules_about(f"NotImplementedError: {text}{TAIL}")}
    assert found <= BUILT
    assert (text not in OPERATORS) or OPERATOR in found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend", OPERATOR),
        ("Could not run 'aten::add.Tensor' with arguments from the 'QuantizedCPU' backend", OPERATOR),
        ("Could not run 'aten::add_.Tensor' with arguments from the 'QuantizedCPUTensorId' backend", OPERATOR),
        ("Could not run 'aten::empty.memory_format' with arguments from the 'QuantizedCPU' backend", OPERATOR),
        ("Could not run 'aten::empty_strided' with arguments from the 'QuantizedCPU' backend", OPERATOR),
        ("empty_strided not supported on quantized tensors yet", OPERATOR),
        ("promoteTypes with quantized numbers is not handled yet", "float-quantized-mix"),
        ("Could not run 'aten::qscheme' with arguments from the 'CPU' backend", "float-quantized-mix"),
        ("Could not run 'quantized::cat' with arguments from the 'CPU' backend", "functional-on-float"),
        ("Could not run 'quantized::conv1d' with arguments from the 'CPU' backend", "missing-quantstub"),
        ("Could not run 'aten::silu.out' with arguments from the 'QuantizedCPU' backend", "unsupported-module"),
    ],
)
def test_pasted_texts(text: str, name: str) -> None:
    assert name in {rule.meta.name for rule in _rules_about(text)}
