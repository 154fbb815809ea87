"""One canonical name for every public spelling of a name of torch: old namespaces, defining modules."""

from __future__ import annotations

Aliases = tuple[tuple[str, str], ...]

QUANTIZATION = (
    ("torch.quantization", "torch.ao.quantization"),
    *(
        (f"{package}.{module}", "torch.ao.quantization")
        for package in ("torch.ao.quantization", "torch.quantization")
        for module in ("stubs", "observer", "fake_quantize", "qconfig", "quantization_mappings")
    ),
    ("torch.ao.quantization.qconfig_mapping", "torch.ao.quantization"),
    *(
        (f"{package}.{module}.{name}", f"torch.ao.quantization.{name}")
        for package in ("torch.ao.quantization", "torch.quantization")
        for module, names in (
            (
                "quantize",
                (
                    "prepare prepare_qat convert quantize quantize_dynamic quantize_qat propagate_qconfig_ "
                    "swap_module"
                ),
            ),
            ("fuse_modules", "fuse_modules fuse_modules_qat"),
        )
        for name in names.split()
        if (package, name) != ("torch.quantization", "fuse_modules_qat")
    ),
)
"""``torch.ao.quantization.quantize`` is a function and a module: the module has no prefix entry."""

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

ALIASES: Aliases = (*QUANTIZATION, *NN, *AO_NN, *FUNCTIONS)
