"""Quantization parameters as identities: who decides a tensor's scale and zero point."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Dtype(str, Enum):
    """Integer dtypes of quantized tensors."""

    QUINT8 = "quint8"
    QINT8 = "qint8"
    QINT16 = "qint16"
    QINT32 = "qint32"


@dataclass(frozen=True, slots=True)
class ObserverRef:
    """ONE observer or fake-quantize instance: the output slot of one module instance of one analysis."""

    owner: int
    slot: str = "output"


@dataclass(frozen=True, slots=True)
class ObservedScale:
    """The scale and zero point that this observer will find."""

    observer: ObserverRef


@dataclass(frozen=True, slots=True)
class FixedScale:
    """A constant scale and zero point, such as sigmoid's 1/256 and 0."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class DerivedScale:
    """Computed from another scale and constants alone (``mul_scalar``): equal arguments, equal result."""

    operator: str
    base: Scale
    arguments: tuple[object, ...]


Scale = ObservedScale | FixedScale | DerivedScale
"""Scale and zero point together: of an observer, constant, or derived. ``None`` stands for not known."""


@dataclass(frozen=True, slots=True)
class QParams:
    """Quantization parameters of a per-tensor quantized tensor."""

    dtype: Dtype
    scale: Scale | None
