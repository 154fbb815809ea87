"""Questions to models that FX traces that several rules ask."""

from __future__ import annotations

from qlsp.analysis.facts import Context, MappingKey, QconfigMapping, QconfigUse
from qlsp.values.workflow import Workflow


def traced(context: Context) -> bool:
    """Does FX trace the model whole, as it does without a custom configuration?"""
    return context.workflow is Workflow.FX and context.tracing is not None and context.tracing.plain


def quantizes_functions(context: Context) -> bool:
    """Does the mapping certainly give every function of the model a qconfig for static quantization?"""
    mapping = context.tracing.mapping if context.tracing is not None else None
    if mapping is None or not mapping.whole:
        return False
    others = (entry for entry in mapping.entries if entry.kind is not MappingKey.GLOBAL)
    return quantizes_all(mapping) and all(
        entry.kind is MappingKey.TYPE and (entry.key or "").startswith("torch.nn.modules.") or _is_class(entry.key)
        for entry in others
    )


def quantizes_all(mapping: QconfigMapping) -> bool:
    """Is static quantization what layers without an entry of their own get?"""
    uses = [entry.use for entry in mapping.entries if entry.kind is MappingKey.GLOBAL]
    return not mapping.bare if not uses else set(uses) == {QconfigUse.STATIC}


def _is_class(key: str | None) -> bool:
    return key is not None and key.startswith("torch.nn.") and key.rpartition(".")[2][:1].isupper()
