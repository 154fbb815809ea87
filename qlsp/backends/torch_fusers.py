"""Sequences of modules that torch's eager fuse functions accept, and what becomes of them.

Source: torch/ao/quantization/fuser_method_mappings.py of torch 2.13.0 (``_DEFAULT_OP_LIST_TO_FUSER_METHOD``).
"""

from __future__ import annotations

from qlsp.backends.spec import FuserRow

NN = "torch.nn."
NNI = "torch.ao.nn.intrinsic."


def fuser(parts: str, fused: str, trained: str | None) -> FuserRow:
    """A row from the short names of classes."""
    return FuserRow(tuple(f"{NN}{part}" for part in parts.split()), fused, trained)


def dimensions(n: int) -> tuple[FuserRow, ...]:
    """The sequences of convolutions of ``n`` dimensions. A BatchNorm in eval mode is folded into the weights."""
    conv, norm, transposed = f"Conv{n}d", f"BatchNorm{n}d", f"ConvTranspose{n}d"
    relu = f"{NNI}ConvReLU{n}d"
    rows = (
        fuser(f"{conv} {norm} ReLU", relu, f"{NNI}ConvBnReLU{n}d"),
        fuser(f"{conv} {norm}", f"{NN}{conv}", f"{NNI}ConvBn{n}d"),
        fuser(f"{conv} ReLU", relu, relu),
        fuser(f"{transposed} {norm}", f"{NN}{transposed}", None),
    )
    if n == 1:
        return rows
    return (*rows, fuser(f"{norm} ReLU", f"{NNI}BNReLU{n}d", f"{NNI}BNReLU{n}d"))


FUSERS = (
    *(row for n in (1, 2, 3) for row in dimensions(n)),
    fuser("Linear BatchNorm1d", f"{NN}Linear", f"{NNI}LinearBn1d"),
    fuser("Linear ReLU", f"{NNI}LinearReLU", f"{NNI}LinearReLU"),
)
