"""How the qconfigs of torch observe weights.

Source: torch/ao/quantization/{qconfig,observer,fake_quantize}.py of torch 2.13.0; checked by tests/oracle_ops.
"""

from __future__ import annotations

from qlsp.backends.spec import QconfigMaker, WeightTable
from qlsp.values.workflow import Weights

AO = "torch.ao.quantization."


def _named(weights: Weights, names: str) -> tuple[tuple[str, Weights], ...]:
    return tuple((f"{AO}{name}", weights) for name in names.split())


_QCONFIGS = (
    *_named(
        Weights.PER_TENSOR,
        "default_qconfig default_debug_qconfig default_dynamic_qconfig default_weight_only_qconfig "
        "default_qat_qconfig default_qat_qconfig_v2 default_dynamic_qat_qconfig default_symmetric_qnnpack_qconfig "
        "default_symmetric_qnnpack_qat_qconfig default_quint8_weight_qconfig float16_dynamic_qconfig "
        "float16_static_qconfig",
    ),
    *_named(
        Weights.PER_CHANNEL,
        "default_per_channel_qconfig per_channel_dynamic_qconfig default_per_channel_symmetric_qnnpack_qconfig "
        "default_per_channel_symmetric_qnnpack_qat_qconfig",
    ),
    *_named(
        Weights.FLOAT_QPARAMS,
        "float_qparams_weight_only_qconfig float_qparams_weight_only_qconfig_4bit default_embedding_qat_qconfig "
        "default_embedding_qat_qconfig_4bit",
    ),
)
"""QConfig objects."""

_OBSERVERS = (
    *_named(
        Weights.PER_TENSOR,
        "MinMaxObserver MovingAverageMinMaxObserver HistogramObserver PlaceholderObserver default_observer "
        "default_weight_observer default_histogram_observer default_placeholder_observer default_weight_fake_quant "
        "default_fused_wt_fake_quant fused_wt_fake_quant_range_neg_127_to_127 weight_observer_range_neg_127_to_127 "
        "default_fake_quant",
    ),
    *_named(
        Weights.PER_CHANNEL,
        "PerChannelMinMaxObserver MovingAveragePerChannelMinMaxObserver default_per_channel_weight_observer "
        "default_per_channel_weight_fake_quant default_fused_per_channel_wt_fake_quant "
        "fused_per_channel_wt_fake_quant_range_neg_127_to_127 per_channel_weight_observer_range_neg_127_to_127",
    ),
    *_named(
        Weights.FLOAT_QPARAMS,
        "default_float_qparams_observer default_float_qparams_observer_4bit default_embedding_fake_quant "
        "default_embedding_fake_quant_4bit",
    ),
)
"""Observers and fake-quantize classes."""

_SCHEMES = (
    ("torch.per_tensor_symmetric", Weights.PER_TENSOR),
    ("torch.per_tensor_affine", Weights.PER_TENSOR),
    ("torch.per_channel_symmetric", Weights.PER_CHANNEL),
    ("torch.per_channel_affine", Weights.PER_CHANNEL),
    ("torch.per_channel_affine_float_qparams", Weights.FLOAT_QPARAMS),
)
"""Values of an observer's ``qscheme``."""

_ENGINES = (
    ("fbgemm", Weights.PER_CHANNEL),
    ("x86", Weights.PER_CHANNEL),
    ("onednn", Weights.PER_CHANNEL),
    ("qnnpack", Weights.PER_TENSOR),
)

_MAKERS = (
    QconfigMaker(f"{AO}get_default_qconfig", "backend", 0, _ENGINES, "x86"),
    QconfigMaker(f"{AO}get_default_qat_qconfig", "backend", 0, _ENGINES, "x86"),
    QconfigMaker(f"{AO}QConfig", "weight", 1),
)

_FACTORIES = frozenset(
    f"{AO}{name}"
    for name in (
        "FakeQuantize",
        "FixedQParamsFakeQuantize",
        "FusedMovingAvgObsFakeQuantize",
        "FixedQParamsObserver",
        "NoopObserver",
        "RecordingObserver",
        "ReuseInputObserver",
        "default_affine_fixed_qparams_observer",
        "default_debug_observer",
        "default_dynamic_fake_quant",
        "default_dynamic_quant_observer",
        "default_fused_act_fake_quant",
        "default_reuse_input_observer",
        "default_symmetric_fixed_qparams_observer",
        "fused_wt_fake_quant_range_neg_127_to_127",
    )
)
"""Further classes and functions that build an observer."""

WEIGHTS = WeightTable(
    dict(_QCONFIGS),
    dict(_OBSERVERS),
    dict(_SCHEMES),
    {maker.name: maker for maker in _MAKERS},
    _FACTORIES | {name for name, _ in _OBSERVERS},
)
