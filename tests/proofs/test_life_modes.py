"""What the pages of the rules about modes and qconfigs say, under torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization as tq
from examples import example, rule_named
from torch import nn
from under_torch import loaded, quiet

BATCHES = [torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


def page(rule: str, heading: str, folder: Path, call: str, *arguments: Any) -> Any:
    """What a function of a page's example gives back."""
    code = example(rule_named(rule), heading)
    assert code is not None
    torch.manual_seed(0)
    with loaded({"page.py": code}, folder.resolve()) as module, quiet():
        return getattr(module, call)(*arguments)


def test_folding_leaves_no_batchnorm_to_train(tmp_path: Path) -> None:
    models = [page("fuse-mode", heading, tmp_path / heading, "build") for heading in ("Bad", "Good")]
    assert [sum(isinstance(m, nn.BatchNorm2d) for m in model.modules()) for model in models] == [0, 1]
    assert type(models[1].conv).__name__ == "ConvBnReLU2d"


def test_folding_in_training_mode_raises_what_the_page_quotes() -> None:
    quoted = rule_named("fuse-mode").page
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    with pytest.raises(AssertionError) as raised:
        tq.fuse_modules(net, ["0", "1", "2"])
    assert f"AssertionError: {raised.value}" in quoted
    tq.fuse_modules(net, ["1", "2"])
    tq.fuse_modules_qat(net.eval(), ["0", "1", "2"])
    tq.fuse_modules_qat(net.train(), ["0", "1", "2"])
