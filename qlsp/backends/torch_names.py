"""One canonical name for every public spelling of a name of torch: old namespaces, defining modules."""

from __future__ import annotations

Aliases = tuple[tuple[str, str], ...]

HIDDEN_MODULES = {
    "quantize": "prepare prepare_qat convert quantize quantize_dynamic quantize_qat propagate_qconfig_ "
    "swap_module add_quant_dequant",
    "fuse_modules": "fuse_modules fuse_conv_bn fuse_conv_bn_relu get_fuser_method",
    "quantize_jit": "quantize_jit script_qconfig script_qconfig_dict fuse_conv_bn_jit prepare_jit "
    "prepare_dynamic_jit convert_jit convert_dynamic_jit quantize_dynamic_jit",
}
"""Modules that have the name of a function, or more names than their package: no prefix stands for them."""

HIDDEN_IN_NEW = {
    "quantize": "no_observer_set QuantWrapper DeQuantStub get_default_custom_config_dict "
    "get_default_static_quant_module_mappings get_default_static_quant_reference_module_mappings "
    "get_default_qat_module_mappings get_default_dynamic_quant_module_mappings "
    "get_default_qconfig_propagation_list",
    "fuse_modules": "fuse_modules_qat",
    "quantize_jit": "QConfig QuantType",
    "quantize_fx": "QConfigMapping",
}
"""More names, which the same modules of ``torch.quantization`` lack."""

QUANTIZATION = (
    ("torch.quantization", "torch.ao.quantization"),
    ("torch.ao.quantization.qconfig_mapping", "torch.ao.quantization"),
    *(
        (f"{package}.{module}", "torch.ao.quantization")
        for package in ("torch.ao.quantization", "torch.quantization")
        for module in ("stubs", "observer", "fake_quantize", "qconfig", "quantization_mappings", "quant_type")
    ),
    *(
        (f"{package}.{module}.{name}", f"torch.ao.quantization.{name}")
        for package in ("torch.ao.quantization", "torch.quantization")
        for module, names in HIDDEN_MODULES.items()
        for name in names.split()
    ),
    *(
        (f"torch.ao.quantization.{module}.{name}", f"torch.ao.quantization.{name}")
        for module, names in HIDDEN_IN_NEW.items()
        for name in names.split()
    ),
)

NN_MODULES = (
    "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm "
    "linear loss module normalization padding pixelshuffle pooling rnn sparse transformer upsampling"
)

NN = (
    ("torch.nn.modules", "torch.nn"),
    ("torch.nn.parameter", "torch.nn"),
    *((f"torch.nn.modules.{module}", "torch.nn") for module in NN_MODULES.split()),
)


def _package(package: str, modules: str) -> Aliases:
    """``torch.nn.P`` and the modules below both ``torch.nn.P`` and ``torch.ao.nn.P``."""
    new, old = f"torch.ao.nn.{package}", f"torch.nn.{package}"
    below = ((f"{root}.{module}", new) for root in (new, old) for module in modules.split())
    return ((old, new), *below)


AO_NN = (
    *_package(
        "quantized",
        "modules modules.activation modules.batchnorm modules.conv modules.dropout modules.embedding_ops "
        "modules.functional_modules modules.linear modules.normalization",
    ),
    *_package("quantized.dynamic", "modules modules.conv modules.linear modules.rnn"),
    *_package("intrinsic", "modules modules.fused"),
    *_package("intrinsic.qat", "modules modules.conv_fused modules.linear_fused modules.linear_relu"),
    *_package("intrinsic.quantized", "modules modules.bn_relu modules.conv_relu modules.linear_relu"),
    *_package("qat", "modules modules.conv modules.embedding_ops modules.linear"),
    *_package("quantizable", "modules modules.activation modules.rnn"),
)

FLOAT_CLASSES = "BatchNorm1d BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d Linear ReLU"

SAME_CLASSES = (
    *(
        (f"{package}.MaxPool2d", "torch.nn.MaxPool2d")
        for root in ("torch.ao.nn.quantized", "torch.nn.quantized")
        for package in (root, f"{root}.modules")
    ),
    *((f"torch.ao.nn.intrinsic.modules.fused.{name}", f"torch.nn.{name}") for name in FLOAT_CLASSES.split()),
    ("torch.ao.nn.qat.modules.linear.LinearReLU", "torch.ao.nn.intrinsic.LinearReLU"),
)
"""Classes that a package imports from another one."""

SAME_FUNCTIONS = (
    "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle "
    "pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_"
)
"""Functions of ``torch.nn.functional`` that are the ones of ``torch``."""

FUNCTIONS = (
    ("torch.functional", "torch"),
    *((f"torch.nn.functional.{name}", f"torch.{name}") for name in SAME_FUNCTIONS.split()),
)

ALIASES: Aliases = (*QUANTIZATION, *NN, *AO_NN, *SAME_CLASSES, *FUNCTIONS)
