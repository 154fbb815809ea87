"""What the page of missing-dequantstub says, under torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from examples import example, rule_named, section
from torch import nn
from under_torch import loaded, quantize, quiet, sqnr

RULE = rule_named("missing-dequantstub")


def converted(kind: str, folder: Path) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The converted model of an example, an input, and the float model's result."""
    text = example(RULE, kind)
    assert text is not None
    torch.manual_seed(0)
    x = torch.randn(16, 8)
    with loaded({f"{kind.lower()}.py": text}, folder.resolve()) as module, torch.no_grad():
        model: nn.Module = module.Net().eval()
        return quantize(model, [(x,)]), x, model(x)


def claimed_error() -> str:
    text = section(RULE.page, "Why it matters")
    assert text is not None
    return next(line.strip() for line in text.split("\n") if line.startswith("    "))


def test_bad_runs_and_returns_a_quantized_tensor_that_softmax_refuses(tmp_path: Path) -> None:
    model, x, expected = converted("Bad", tmp_path)
    with quiet(), torch.no_grad():
        out = model(x)
        assert out.dtype is torch.quint8
        assert 25 < sqnr(expected, out) < 60
        with pytest.raises(NotImplementedError) as raised:
            nn.functional.cross_entropy(out, torch.zeros(16, dtype=torch.long))
        assert f"NotImplementedError: {raised.value}".startswith(claimed_error())
        for refused in (lambda: out.softmax(1), lambda: out.argmax(1), lambda: out.sum(), lambda: out.numpy()):
            with pytest.raises((NotImplementedError, TypeError)):
                refused()
        assert out.max(1).values.is_quantized
        assert out.topk(2).values.is_quantized


def test_good_returns_floats(tmp_path: Path) -> None:
    model, x, expected = converted("Good", tmp_path)
    with quiet(), torch.no_grad():
        out = model(x)
        assert out.dtype is torch.float32
        assert 25 < sqnr(expected, out) < 60
        assert nn.functional.cross_entropy(out, torch.zeros(16, dtype=torch.long)).isfinite()
