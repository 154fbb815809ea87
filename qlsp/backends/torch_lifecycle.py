"""Life-cycle calls of torch's front ends. Source: torch/ao/quantization/{quantize,quantize_fx}.py, torchao pt2e."""

from __future__ import annotations

from qlsp.backends.spec import LifecycleRow
from qlsp.values.workflow import Mode, Stage, Workflow

AO = "torch.ao.quantization."
FX = "torch.ao.quantization.quantize_fx."
PT2E = "torchao.quantization.pt2e.quantize_pt2e."
OLD_PT2E = "torch.ao.quantization.quantize_pt2e."

LIFECYCLE = (
    LifecycleRow(Stage.PREPARE, Workflow.EAGER, (f"{AO}prepare", f"{AO}quantize"), Mode.PTQ),
    LifecycleRow(Stage.PREPARE, Workflow.EAGER, (f"{AO}prepare_qat", f"{AO}quantize_qat"), Mode.QAT),
    LifecycleRow(Stage.CONVERT, Workflow.EAGER, (f"{AO}convert",), model="module"),
    LifecycleRow(Stage.FUSE, Workflow.EAGER, (f"{AO}fuse_modules", f"{AO}fuse_modules_qat")),
    LifecycleRow(Stage.DYNAMIC, Workflow.EAGER, (f"{AO}quantize_dynamic",)),
    LifecycleRow(Stage.PREPARE, Workflow.FX, (f"{FX}prepare_fx", f"{AO}prepare_fx"), Mode.PTQ),
    LifecycleRow(Stage.PREPARE, Workflow.FX, (f"{FX}prepare_qat_fx", f"{AO}prepare_qat_fx"), Mode.QAT),
    LifecycleRow(Stage.FUSE, Workflow.FX, (f"{FX}fuse_fx",)),
    LifecycleRow(Stage.CONVERT, Workflow.FX, (f"{FX}convert_fx", f"{AO}convert_fx"), model="graph_module"),
    LifecycleRow(
        Stage.EXPORT,
        Workflow.PT2E,
        (
            "torch.export.export",
            "torch.export.export_for_training",
            "torch._export.capture_pre_autograd_graph",
        ),
        model="mod",
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
