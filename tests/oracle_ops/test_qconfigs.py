"""How the table says that qconfigs observe weights is what torch's qconfigs do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization as tq

from oracle_ops.running import named
from qlsp.backends.torch_eager import EAGER
from qlsp.values.workflow import Weights

TABLE = EAGER.weights
KINDS = {
    torch.per_tensor_symmetric: Weights.PER_TENSOR,
    torch.per_tensor_affine: Weights.PER_TENSOR,
    torch.per_channel_symmetric: Weights.PER_CHANNEL,
    torch.per_channel_affine: Weights.PER_CHANNEL,
    torch.per_channel_affine_float_qparams: Weights.FLOAT_QPARAMS,
}


def kind(make: Any) -> Weights:
    """What an observer, or a fake-quantize class, does to a weight."""
    observer = make()
    inner = getattr(observer, "activation_post_process", observer)
    return KINDS[inner.qscheme]


@pytest.mark.parametrize("name", TABLE.qconfigs)
def test_qconfigs(name: str) -> None:
    last = name.rpartition(".")[2]
    qconfig = getattr(tq, last, None) or getattr(tq.qconfig, last)
    assert kind(qconfig.weight) is TABLE.qconfigs[name]


@pytest.mark.parametrize("name", TABLE.observers)
def test_observers(name: str) -> None:
    last = name.rpartition(".")[2]
    make = next(found for at in (tq, tq.observer, tq.fake_quantize) if (found := getattr(at, last, None)))
    assert kind(make) is TABLE.observers[name]


@pytest.mark.parametrize("name", [maker.name for maker in TABLE.makers.values() if maker.choices])
def test_makers(name: str) -> None:
    maker = TABLE.makers[name]
    make: Any = named(name)
    assert kind(make().weight) is dict(maker.choices)[maker.default or ""]
    for choice, weights in maker.choices:
        assert kind(make(**{maker.parameter: choice}).weight) is weights
