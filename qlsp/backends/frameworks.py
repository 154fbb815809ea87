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

ATTRIBUTE_DICTS = frozenset(
    [
        "mmcv.Config",
        "mmcv.ConfigDict",
        "mmcv.utils.Config",
        "mmcv.utils.ConfigDict",
        "mmengine.Config",
        "mmengine.ConfigDict",
        "mmengine.config.Config",
        "mmengine.config.ConfigDict",
        "addict.Dict",
        "easydict.EasyDict",
        "ml_collections.ConfigDict",
        "munch.Munch",
        "munch.munchify",
        "omegaconf.OmegaConf.create",
    ]
)
"""What makes a dict whose entries are attributes, too."""

CONFIG_READERS = frozenset(
    f"{module}.Config.fromfile" for module in ("mmcv", "mmcv.utils", "mmengine", "mmengine.config")
)
"""What runs a Python file and gives its names as a configuration."""

DATA_READERS = frozenset(
    f"{module}.{function}"
    for module, functions in {
        "yaml": ("load", "safe_load", "full_load", "unsafe_load"),
        "json": ("load", "loads"),
        "toml": ("load", "loads"),
        "tomllib": ("load", "loads"),
        "omegaconf.OmegaConf": ("load", "from_cli"),
    }.items()
    for function in functions
)
"""What reads a configuration that is no program."""

PARSERS = frozenset({"argparse.ArgumentParser", "configargparse.ArgumentParser", "configargparse.ArgParser"})
PARSING = frozenset({"parse_args", "parse_known_args"})
