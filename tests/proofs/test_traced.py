"""What the pages of the rules about traced front ends say, under torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization as tq
from examples import example, rule_named
from torch import nn
from torch.ao.quantization.quantize_fx import prepare_fx, prepare_qat_fx
from under_torch import loaded, quiet

ROWS = [torch.randn(16, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
MAPPING = tq.get_default_qconfig_mapping("x86")


def page(rule: str, heading: str, folder: Path, *arguments: Any) -> Any:
    """What the function ``quantize`` of a page's example gives back."""
    code = example(rule_named(rule), heading)
    assert code is not None
    torch.manual_seed(0)
    with loaded({"page.py": code}, (folder / heading).resolve()) as module, quiet():
        return module.quantize(*arguments)


def quotes(rule: str, error: BaseException) -> bool:
    """Does a page quote the first line of an error?"""
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".") in rule_named(rule).page


def test_tracing_needs_example_inputs(tmp_path: Path) -> None:
    rule, net = "missing-example-inputs", nn.Sequential(nn.Linear(8, 8))
    with pytest.raises(TypeError) as raised:
        page(rule, "Bad", tmp_path, ROWS)
    assert quotes(rule, raised.value)
    page(rule, "Good", tmp_path, ROWS)
    for call in (lambda: prepare_qat_fx(net, MAPPING), lambda: torch.export.export(net)):
        with pytest.raises(TypeError) as raised, quiet():
            call()
        assert quotes(rule, raised.value)
    with quiet():
        prepare_fx(net.eval(), MAPPING, ROWS[0])
    with quiet(), pytest.raises(TypeError, match="unexpected keyword argument 'qconfig_dict'"):
        prepare_fx(net, qconfig_dict={})
