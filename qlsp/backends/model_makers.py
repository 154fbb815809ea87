"""Functions of installed packages that make a model of a name or of a class, by where they are defined.

Sources: torchvision/models/_api.py (``get_model``, ``register_model``), timm/models/_factory.py (``create_model``),
timm/models/_registry.py (``register_model``) and timm/models/_builder.py (``build_model_with_cfg``).
"""

from __future__ import annotations

from qlsp.backends.spec import ModelBuilder, ModelMaker

_TIMM_META = (
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
    "scriptable",
    "exportable",
    "no_jit",
)

PLAIN_DECORATORS = frozenset(
    [
        "torchvision.models._api.register_model",
        "torchvision.models._utils.handle_legacy_interface",
        "torchvision.models._utils.kwonly_to_pos_or_kw",
        "timm.models._registry.register_model",
    ]
)
"""Decorators of functions that make models: they note them, and accept older spellings of arguments."""

MODEL_MAKERS = {
    "torchvision.models._api.get_model": ModelMaker("torchvision.models", "name"),
    "timm.models._factory.create_model": ModelMaker("timm.models", "model_name", _TIMM_META, tag="."),
}
"""The function registered under a name is called."""

MODEL_BUILDERS = {
    "timm.models._builder.build_model_with_cfg": ModelBuilder(
        ("model_cls", "variant", "pretrained"),
        (
            *_TIMM_META,
            "feature_cfg",
            "pretrained_strict",
            "pretrained_filter_fn",
            "kwargs_filter",
            "pretrained_model_args",
        ),
        ("features_only", "pruned"),
        ("model_cfg", "cfg"),
    )
}
"""The class is called."""
