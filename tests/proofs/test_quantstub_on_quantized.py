"""What the page of quantstub-on-quantized says, under torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.ao.quantization as tq
from examples import example, marked, rule_named, section
from torch import nn
from under_torch import QUANTIZED_TWICE, loaded, quantize, quiet, run, sqnr

RULE = rule_named("quantstub-on-quantized")
INPUTS = {"inputs": [[2, 3, 8, 8]]}


def claimed_error() -> str:
    """The exception the page quotes, type and text."""
    text = section(RULE.page, "Why it matters")
    assert text is not None
    return next(line.strip() for line in text.split("\n") if line.startswith("    "))


def test_the_page_quotes_the_exception() -> None:
    assert claimed_error().removesuffix(".") in f"NotImplementedError: {QUANTIZED_TWICE}"


def test_float_model_and_calibration_run_and_the_converted_model_raises() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.dequant = tq.QuantStub(), tq.QuantStub(), tq.DeQuantStub()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dequant(self.second(self.first(x)))

    x = torch.randn(2, 3)
    assert torch.equal(Twice()(x), x)
    converted = quantize(Twice(), [(x,)])
    with pytest.raises(NotImplementedError) as raised, quiet():
        converted(x)
    assert f"NotImplementedError: {raised.value}".startswith(claimed_error())


def test_bad_example_raises_on_the_marked_line(tmp_path: Path) -> None:
    bad = example(RULE, "Bad")
    assert bad is not None
    seen = run({"bad.py": bad}, tmp_path.resolve(), INPUTS)
    ((message, place),) = seen.raised
    assert message.startswith(claimed_error())
    assert [place] == [("bad.py", row) for row, _ in marked(bad)]


def test_good_example_is_the_same_float_model_and_is_quantized(tmp_path: Path) -> None:
    bad, good = example(RULE, "Bad"), example(RULE, "Good")
    assert bad is not None and good is not None
    x = torch.randn(2, 3, 8, 8)
    with loaded({"bad.py": bad}, tmp_path.resolve()) as module:
        before = module.Net().eval()
    with loaded({"good.py": good}, tmp_path.resolve()) as module:
        after = module.Net().eval()
    after.load_state_dict(before.state_dict(), strict=True)
    with torch.no_grad():
        expected = after(x)
        assert torch.equal(before(x), expected)
    converted = quantize(after, [(x,)])
    with quiet(), torch.no_grad():
        assert 25 < sqnr(expected, converted(x)) < 60
    assert run({"good.py": good}, tmp_path.resolve(), INPUTS).raised == []
