"""Life-cycle calls and qconfigs of torch's front ends.

Source: torch/ao/quantization/{quantize,quantize_fx,fuse_modules,qconfig}.py of torch 2.13.0, torchao pt2e.
"""

from __future__ import annotations

from qlsp.backends.spec import LifecycleRow
from qlsp.values.workflow import Mode, Stage, Workflow

AO = "torch.ao.quantization."
FX = "torch.ao.quantization.quantize_fx."
PT2E = "torchao.quantization.pt2e.quantize_pt2e."
OLD_PT2E = "torch.ao.quantization.quantize_pt2e."

PREPARE_PARAMS = ("model", "inplace", "allow_list", "observer_non_leaf_module_list")
FUSE_PARAMS = ("model", "modules_to_fuse", "inplace", "fuser_func", "fuse_custom_config_dict")
PREPARE_KEYWORDS = ("prepare_custom_config_dict",)
DYNAMIC_PARAMS = ("model", "qconfig_spec", "dtype", "mapping", "inplace")
FX_PARAMS = (
    "model",
    "qconfig_mapping",
    "example_inputs",
    "prepare_custom_config",
    "_equalization_config",
    "backend_config",
)
QAT_FX_PARAMS = tuple(name for name in FX_PARAMS if name != "_equalization_config")

LIFECYCLE = (
    LifecycleRow(Stage.PREPARE, Workflow.EAGER, (f"{AO}prepare",), Mode.PTQ, PREPARE_PARAMS, PREPARE_KEYWORDS),
    LifecycleRow(
        Stage.PREPARE,
        Workflow.EAGER,
        (f"{AO}quantize",),
        Mode.PTQ,
        ("model", "run_fn", "run_args", "mapping", "inplace"),
        (),
    ),
    LifecycleRow(Stage.PREPARE, Workflow.EAGER, (f"{AO}prepare_qat",), Mode.QAT, ("model", "mapping", "inplace"), ()),
    LifecycleRow(
        Stage.PREPARE,
        Workflow.EAGER,
        (f"{AO}quantize_qat",),
        Mode.QAT,
        ("model", "run_fn", "run_args", "inplace"),
        (),
    ),
    LifecycleRow(
        Stage.CONVERT,
        Workflow.EAGER,
        (f"{AO}convert",),
        params=("module", "mapping", "inplace", "remove_qconfig", "is_reference"),
    ),
    LifecycleRow(Stage.FUSE, Workflow.EAGER, (f"{AO}fuse_modules",), params=FUSE_PARAMS),
    LifecycleRow(Stage.FUSE, Workflow.EAGER, (f"{AO}fuse_modules_qat",), Mode.QAT, FUSE_PARAMS),
    LifecycleRow(Stage.DYNAMIC, Workflow.EAGER, (f"{AO}quantize_dynamic",), params=DYNAMIC_PARAMS),
    LifecycleRow(
        Stage.PREPARE,
        Workflow.FX,
        (f"{FX}prepare_fx", f"{AO}prepare_fx"),
        Mode.PTQ,
        FX_PARAMS,
        (),
    ),
    LifecycleRow(
        Stage.PREPARE,
        Workflow.FX,
        (f"{FX}prepare_qat_fx", f"{AO}prepare_qat_fx"),
        Mode.QAT,
        QAT_FX_PARAMS,
        (),
    ),
    LifecycleRow(Stage.FUSE, Workflow.FX, (f"{FX}fuse_fx", f"{AO}fuse_fx")),
    LifecycleRow(Stage.CONVERT, Workflow.FX, (f"{FX}convert_fx", f"{AO}convert_fx"), params=("graph_module",)),
    LifecycleRow(
        Stage.EXPORT,
        Workflow.PT2E,
        (
            "torch.export.export",
            "torch.export.export_for_training",
            "torch._export.capture_pre_autograd_graph",
        ),
        params=("mod",),
    ),
    LifecycleRow(
        Stage.PREPARE,
        Workflow.PT2E,
        (f"{PT2E}prepare_pt2e", f"{OLD_PT2E}prepare_pt2e", "torchao.quantization.pt2e.prepare_pt2e"),
        Mode.PTQ,
    ),
    LifecycleRow(
        Stage.PREPARE,
        Workflow.PT2E,
        (
            f"{PT2E}prepare_qat_pt2e",
            f"{OLD_PT2E}prepare_qat_pt2e",
            "torchao.quantization.pt2e.prepare_qat_pt2e",
        ),
        Mode.QAT,
    ),
)

QCONFIGS = tuple(
    f"{AO}{name}"
    for name in (
        "default_qconfig",
        "default_debug_qconfig",
        "default_per_channel_qconfig",
        "default_dynamic_qconfig",
        "float16_dynamic_qconfig",
        "float16_static_qconfig",
        "per_channel_dynamic_qconfig",
        "float_qparams_weight_only_qconfig",
        "float_qparams_weight_only_qconfig_4bit",
        "default_weight_only_qconfig",
        "default_activation_only_qconfig",
        "default_qat_qconfig",
        "default_qat_qconfig_v2",
        "default_dynamic_qat_qconfig",
        "default_embedding_qat_qconfig",
        "default_embedding_qat_qconfig_4bit",
        "default_symmetric_qnnpack_qconfig",
        "default_symmetric_qnnpack_qat_qconfig",
        "default_per_channel_symmetric_qnnpack_qconfig",
        "default_per_channel_symmetric_qnnpack_qat_qconfig",
        "default_quint8_weight_qconfig",
        "default_reuse_input_qconfig",
    )
)

EMBEDDING_QCONFIGS = tuple(
    f"{AO}{name}"
    for name in (
        "float_qparams_weight_only_qconfig",
        "float_qparams_weight_only_qconfig_4bit",
        "default_embedding_qat_qconfig",
        "default_embedding_qat_qconfig_4bit",
    )
)

QCONFIG_MAKERS = (
    f"{AO}QConfig",
    f"{AO}QConfigDynamic",
    f"{AO}get_default_qconfig",
    f"{AO}get_default_qat_qconfig",
)

QCONFIG_MODES = (
    *(
        (f"{AO}{name}", Mode.PTQ)
        for name in (
            "get_default_qconfig",
            "default_qconfig",
            "default_debug_qconfig",
            "default_per_channel_qconfig",
            "default_symmetric_qnnpack_qconfig",
            "default_per_channel_symmetric_qnnpack_qconfig",
        )
    ),
    *(
        (f"{AO}{name}", Mode.QAT)
        for name in (
            "get_default_qat_qconfig",
            "default_qat_qconfig",
            "default_qat_qconfig_v2",
            "default_symmetric_qnnpack_qat_qconfig",
            "default_per_channel_symmetric_qnnpack_qat_qconfig",
        )
    ),
)
"""Those for training hold fake-quantize modules with moving averages, the others observers. Source: qconfig.py."""
