"""Names of frameworks around torch that build models from descriptions: registries, configurations.

Sources: mmcv 1.7 ``mmcv/utils/registry.py``, mmengine 0.10 ``registry/registry.py`` and ``config/config.py``,
fvcore 0.1.5 ``common/registry.py``, mobile_cv ``common/misc/registry.py``.
"""

from __future__ import annotations

REGISTRY_CLASSES = frozenset(
    f"{module}.Registry"
    for module in (
        "mmcv",
        "mmcv.utils",
        "mmcv.utils.registry",
        "mmengine",
        "mmengine.registry",
        "mmengine.registry.registry",
        "fvcore.common.registry",
        "detectron2.utils.registry",
        "mobile_cv.common.misc.registry",
    )
)
"""Tables of classes by name, with a decorator that fills them."""

BUILDERS = frozenset(
    f"{module}.{function}"
    for module in ("mmcv", "mmcv.utils", "mmcv.utils.registry", "mmcv.cnn", "mmengine", "mmengine.registry")
    for function in ("build_from_cfg", "build_model_from_cfg")
)
"""Functions of a description and a registry: ``build_from_cfg(cfg, registry, default_args=None)``."""
