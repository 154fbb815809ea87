"""Float models of torchvision in a QuantWrapper: qlsp reads the package and reports what torch then warns about.

torchvision 0.28 is the release for torch 2.13. Its wheel may be built for another torch build, whose operators are
declared first; nothing here uses them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization as tq
from under_torch import CAT_WARNING, quiet

from qlsp.config import Config
from qlsp.engine import check

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")

FLOAT = {
    "googlenet(init_weights=False)": (9, 128),
    "inception_v3(init_weights=False, aux_logits=False)": (15, 299),
    "densenet121()": (58, 128),
    "shufflenet_v2_x1_0()": (16, 128),
    "squeezenet1_0()": (8, 128),
}
"""Builders, the concatenations that run on inputs of different scales, and the size of the image in pixels. On smaller
ones random weights leave the last branches of Inception zero, so that their scales are equal."""
QUANTIZABLE = ("googlenet()", "inception_v3()", "shufflenet_v2_x1_0()", "mobilenet_v2()", "resnet18()")
SCRIPT = """\
import torchvision
from torch.ao.quantization import QuantWrapper, get_default_qconfig, prepare

model = {model}
model.qconfig = get_default_qconfig("x86")
prepared = prepare(model)
"""


def found(model: str) -> list[Any]:
    """The findings of a script that prepares this model."""
    config = Config(environment=sys.prefix)
    return list(check(["script.py"], config, {"script.py": SCRIPT.format(model=model)}).diagnostics)


def models() -> Any:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with quiet():
        import torchvision

    return torchvision.models


@pytest.mark.parametrize("builder", FLOAT)
def test_every_raw_cat_that_torch_warns_about_is_a_finding_at_the_wrapper(builder: str) -> None:
    items = [item for item in found(f"QuantWrapper(torchvision.models.{builder})") if item.code == "QL101"]
    assert {SCRIPT[: item.place.span.start].count("\n") + 1 for item in items} == {4}
    torch.manual_seed(0)
    name, _, arguments = builder.partition("(")
    with quiet():
        model = eval(f"models().{name}({arguments}", {"models": models}).eval()
    number, size = FLOAT[builder]
    counts = warned(tq.QuantWrapper(model), size)
    rows = Counter(row_of(item.related[0].place) for item in items)
    assert rows == counts and sum(counts.values()) == number


def row_of(place: Any) -> int:
    return Path(place.path).read_text(encoding="utf-8")[: place.span.start].count("\n") + 1


def warned(model: torch.nn.Module, size: int) -> Counter[int]:
    """How often torch warns about a cat, by the row of the file."""
    batch = torch.randn(2, 3, size, size)
    with quiet(), torch.no_grad():
        model.qconfig = tq.get_default_qconfig("x86")
        prepared = tq.prepare(model)
        prepared(batch)
        converted = tq.convert(prepared)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        with contextlib.suppress(NotImplementedError, RuntimeError):  # an operator behind the last cat
            converted(batch)
    return Counter(item.lineno for item in caught if CAT_WARNING in str(item.message))


@pytest.mark.parametrize("builder", QUANTIZABLE)
def test_the_quantizable_models_are_silent(builder: str) -> None:
    model = f"torchvision.models.quantization.{builder}"
    assert [item.code for item in found(model) if item.code.startswith(("QL1", "QL2", "QL4"))] == []
