"""Names of torch that moved, never were where people look for them, or are gone.

Source: the packages of torch 2.13.0 and torchao 0.18.0, compared name by name
(tests/oracle_ops/test_moves.py repeats it); the version that lost the PT2E modules is that of
https://github.com/pytorch/pytorch/commit/0e38e0291ccb84d0ff0314846014f65c7080e1de.
"""

from __future__ import annotations

from qlsp.backends.spec import MovedNames, NameMove, Namespace

AO = "torch.ao.quantization"
OLD = "torch.quantization"
PT2E = "torchao.quantization.pt2e"

NAMESPACES = (
    Namespace(OLD, AO, since=(1, 13)),
    *(
        Namespace(f"torch.nn.{package}", f"torch.ao.nn.{package}", since=(1, 13))
        for package in ("quantized", "qat", "intrinsic", "quantizable")
    ),
)
"""Old namespaces: names in them are those of the new one."""

ELSEWHERE = {
    f"{OLD}._numeric_suite": "torch.ao.ns._numeric_suite",
    f"{OLD}._numeric_suite_fx": "torch.ao.ns._numeric_suite_fx",
    "torch.nn.quantized._reference": "torch.ao.nn.quantized.reference",
    f"{OLD}._quantized_conversions": None,
    f"{OLD}.fx.fusion_patterns": None,
    f"{OLD}.fx.quantization_patterns": None,
    f"{OLD}.fx.quantization_types": None,
}
"""Modules of the old namespaces that the new one does not have under this name, and where they are."""

_NEWER = (
    "FixedQParamsObserver QConfigMapping ReuseInputObserver default_dynamic_fake_quant default_dynamic_qat_qconfig "
    "default_embedding_fake_quant default_embedding_fake_quant_4bit default_embedding_qat_qconfig "
    "default_embedding_qat_qconfig_4bit default_fixed_qparams_range_0to1_observer "
    "default_fixed_qparams_range_neg1to1_observer default_float_qparams_observer_4bit "
    "default_per_channel_symmetric_qnnpack_qat_qconfig default_per_channel_symmetric_qnnpack_qconfig "
    "default_quint8_weight_qconfig default_reuse_input_observer default_reuse_input_qconfig "
    "default_symmetric_qnnpack_qat_qconfig default_symmetric_qnnpack_qconfig "
    "float_qparams_weight_only_qconfig_4bit fuse_convtranspose_bn fuse_modules_qat "
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127 fused_wt_fake_quant_range_neg_127_to_127 "
    "get_default_custom_config_dict get_default_qat_qconfig_dict get_default_qat_qconfig_mapping "
    "get_default_qconfig_dict get_default_qconfig_mapping get_default_static_quant_reference_module_mappings "
    "get_embedding_qat_module_mappings get_embedding_static_quant_module_mappings get_fuser_method_new "
    "per_channel_weight_observer_range_neg_127_to_127 weight_observer_range_neg_127_to_127"
)
"""Names of the new package that the old one never had."""

_NEWER_IN = {
    "fuse_modules": "fuse_modules_qat",
    "fake_quantize": "default_dynamic_fake_quant default_embedding_fake_quant default_embedding_fake_quant_4bit "
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127 fused_wt_fake_quant_range_neg_127_to_127",
    "observer": "FixedQParamsObserver ReuseInputObserver default_fixed_qparams_range_0to1_observer "
    "default_fixed_qparams_range_neg1to1_observer default_float_qparams_observer_4bit "
    "default_reuse_input_observer per_channel_weight_observer_range_neg_127_to_127 "
    "weight_observer_range_neg_127_to_127",
    "qconfig": "default_dynamic_qat_qconfig default_embedding_qat_qconfig default_embedding_qat_qconfig_4bit "
    "default_per_channel_symmetric_qnnpack_qat_qconfig default_per_channel_symmetric_qnnpack_qconfig "
    "default_quint8_weight_qconfig default_reuse_input_qconfig default_symmetric_qnnpack_qat_qconfig "
    "default_symmetric_qnnpack_qconfig float_qparams_weight_only_qconfig_4bit get_default_qat_qconfig_dict "
    "get_default_qconfig_dict",
    "quantize_fx": "QConfigMapping",
}
"""The same of the modules in it."""

_IN_QUANTIZE_FX = "prepare_fx prepare_qat_fx convert_fx fuse_fx"
_LOST = "add_observer_ get_observer_dict"

MOVES = (
    *(NameMove(f"{OLD}.{name}", f"{AO}.{name}") for name in _NEWER.split()),
    *(
        NameMove(f"{OLD}.{module}.{name}", f"{AO}.{module}.{name}")
        for module, names in _NEWER_IN.items()
        for name in names.split()
    ),
    *(NameMove(f"{OLD}.{module}", f"{AO}.{module}") for module in ("qconfig_mapping", "backend_config")),
    *(
        NameMove(f"{package}.{name}", f"{AO}.quantize_fx.{name}")
        for package in (OLD, AO)
        for name in _IN_QUANTIZE_FX.split()
    ),
    *(
        NameMove(f"{package}.{name}", None, until=(2, 13))
        for package in (OLD, f"{OLD}.quantize", AO, f"{AO}.quantize")
        for name in _LOST.split()
    ),
)
"""Names that a namespace does not have: where they are, and up to which version they were there."""

_PUBLIC = (
    "AffineQuantizedObserverBase DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS "
    "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS "
    "DEFAULT_MODULE_TO_ACT_POST_PROCESS DEFAULT_QAT_MODULE_MAPPINGS "
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS DEFAULT_STATIC_QUANT_MODULE_MAPPINGS "
    "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS DeQuantStub FakeQuantize FakeQuantizeBase "
    "FixedQParamsFakeQuantize FixedQParamsObserver FusedMovingAvgObsFakeQuantize Granularity HistogramObserver "
    "MappingType MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver "
    "ObserverBase ObserverOrFakeQuantize PerAxis PerBlock PerChannelMinMaxObserver PerGroup PerRow PerTensor "
    "PerToken PlaceholderObserver QConfig QConfigAny QConfigDynamic QConfigMapping QuantStub QuantType "
    "QuantWrapper RecordingObserver ReuseInputObserver TorchAODType UniformQuantizationObserverBase "
    "ZeroPointDomain add_quant_dequant convert convert_dynamic_jit convert_jit default_activation_only_qconfig "
    "default_affine_fixed_qparams_fake_quant default_affine_fixed_qparams_observer default_debug_observer "
    "default_debug_qconfig default_dynamic_fake_quant default_dynamic_qat_qconfig default_dynamic_qconfig "
    "default_dynamic_quant_observer default_embedding_fake_quant default_embedding_fake_quant_4bit "
    "default_embedding_qat_qconfig default_embedding_qat_qconfig_4bit default_eval_fn default_fake_quant "
    "default_fixed_qparams_range_0to1_fake_quant default_fixed_qparams_range_0to1_observer "
    "default_fixed_qparams_range_neg1to1_fake_quant default_fixed_qparams_range_neg1to1_observer "
    "default_float_qparams_observer default_float_qparams_observer_4bit default_fused_act_fake_quant "
    "default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant "
    "default_histogram_observer default_observer default_per_channel_qconfig "
    "default_per_channel_symmetric_qnnpack_qat_qconfig default_per_channel_symmetric_qnnpack_qconfig "
    "default_per_channel_weight_fake_quant default_per_channel_weight_observer default_placeholder_observer "
    "default_qat_qconfig default_qat_qconfig_v2 default_qconfig default_quint8_weight_qconfig "
    "default_reuse_input_observer default_reuse_input_qconfig default_symmetric_fixed_qparams_fake_quant "
    "default_symmetric_fixed_qparams_observer default_symmetric_qnnpack_qat_qconfig "
    "default_symmetric_qnnpack_qconfig default_weight_fake_quant default_weight_observer "
    "default_weight_only_qconfig disable_fake_quant disable_observer enable_fake_quant enable_observer "
    "float16_dynamic_qconfig float16_static_qconfig float_qparams_weight_only_qconfig "
    "float_qparams_weight_only_qconfig_4bit fuse_conv_bn fuse_conv_bn_jit fuse_conv_bn_relu fuse_convtranspose_bn "
    "fuse_linear_bn fuse_modules fuse_modules_qat fused_per_channel_wt_fake_quant_range_neg_127_to_127 "
    "fused_wt_fake_quant_range_neg_127_to_127 get_block_size get_default_compare_output_module_list "
    "get_default_custom_config_dict get_default_dynamic_quant_module_mappings "
    "get_default_dynamic_sparse_quant_module_mappings get_default_float_to_quantized_operator_mappings "
    "get_default_qat_module_mappings get_default_qat_qconfig get_default_qat_qconfig_dict "
    "get_default_qat_qconfig_mapping get_default_qconfig get_default_qconfig_dict get_default_qconfig_mapping "
    "get_default_qconfig_propagation_list get_default_static_quant_module_mappings "
    "get_default_static_quant_reference_module_mappings get_default_static_sparse_quant_module_mappings "
    "get_dynamic_quant_module_class get_embedding_qat_module_mappings get_embedding_static_quant_module_mappings "
    "get_fuser_method get_fuser_method_new get_observer_state_dict get_quantized_operator "
    "get_static_quant_module_class load_observer_state_dict no_observer_set per_channel_dynamic_qconfig "
    "per_channel_weight_observer_range_neg_127_to_127 prepare prepare_dynamic_jit prepare_jit prepare_qat "
    "propagate_qconfig_ qconfig_equals quantize quantize_dynamic quantize_dynamic_jit quantize_jit quantize_qat "
    "script_qconfig script_qconfig_dict swap_module weight_observer_range_neg_127_to_127"
)
"""The public names of ``torch.ao.quantization`` that are no modules."""

STARS = (
    NameMove(
        OLD,
        AO,
        error="AttributeError: module 'torch.quantization' has no attribute '_prepare_ondevice_dynamic_jit'",
        gives=frozenset(_PUBLIC.split()),
    ),
    NameMove(
        AO,
        AO,
        error="AttributeError: module 'torch.ao.quantization' has no attribute 'MatchAllNode'",
        gives=frozenset(_PUBLIC.split()),
    ),
)
"""Packages whose ``__all__`` names something that they do not have: a star import of them raises (torch 2.13)."""

_PT2E_NAMES = (
    "move_exported_model_to_eval move_exported_model_to_train allow_exported_model_train_eval "
    "generate_numeric_debug_handle prepare_for_propagation_comparison extract_results_from_loggers compare_results "
    "CUSTOM_KEY NUMERIC_DEBUG_HANDLE_KEY"
)

PT2E_MOVES = (
    NameMove(f"{AO}.quantize_pt2e", f"{PT2E}.quantize_pt2e", until=(2, 11)),
    NameMove(f"{AO}.pt2e", PT2E, until=(2, 11)),
    NameMove(f"{AO}.quantizer", f"{PT2E}.quantizer", until=(2, 11)),
    *(
        NameMove(f"{AO}.quantizer.{module}", home, until=(2, 11))
        for module, home in (
            ("xnnpack_quantizer", "executorch.backends.xnnpack.quantizer.xnnpack_quantizer"),
            ("xnnpack_quantizer_utils", "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils"),
            ("xpu_inductor_quantizer", f"{PT2E}.quantizer.xpu_inductor_quantizer"),
        )
    ),
    *(NameMove(f"{AO}.{name}", f"{PT2E}.{name}", until=(2, 11)) for name in _PT2E_NAMES.split()),
)
"""Modules and names of PT2E quantization, which are in torchao now."""

MOVED = MovedNames(NAMESPACES, ELSEWHERE, (*MOVES, *PT2E_MOVES), STARS)
