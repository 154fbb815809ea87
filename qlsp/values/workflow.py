"""The vocabulary of front ends and training modes."""

from __future__ import annotations

from enum import Enum


class Workflow(str, Enum):
    """Which front end quantizes a model."""

    EAGER = "eager"
    FX = "fx"
    PT2E = "pt2e"
    HORIZON = "horizon"
    NONE = "none"


class Mode(str, Enum):
    """Post-training quantization, quantization-aware training, or not known."""

    PTQ = "ptq"
    QAT = "qat"
    UNKNOWN = "unknown"


class Stage(str, Enum):
    """What a life-cycle call does to a model."""

    FUSE = "fuse"
    PREPARE = "prepare"
    CONVERT = "convert"
    EXPORT = "export"
    DYNAMIC = "dynamic"


class Weights(str, Enum):
    """How a qconfig observes weights: one scale, one for each channel, or one for each row in float."""

    PER_TENSOR = "per-tensor"
    PER_CHANNEL = "per-channel"
    FLOAT_QPARAMS = "float-qparams"
