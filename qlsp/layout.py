"""How a project lies on disk: its root, and the folders in which its imports begin."""

from __future__ import annotations

import os
from functools import lru_cache

from qlsp.config import Config

ROOT_NAMES = ("qlsp.toml", "pyproject.toml", ".git", "setup.py", "setup.cfg", ".hg")
"""What the root of a project has in it."""


def project_root(path: str, config: Config) -> str | None:
    """The nearest folder around a file that is the root of a project; else the folder that the configuration starts
    from, if the file is in it; else nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    found = _marked(folder)
    if found is None and config.root != "." and (folder + os.sep).startswith(os.path.join(config.root, "")):
        return config.root
    return found


def source_folders(path: str, config: Config) -> tuple[str, ...]:
    """Where the absolute imports of a file begin besides its own folder: the configured ``src``, else the root of the
    project and its ``src``."""
    if config.src:
        return config.src
    root = project_root(path, config)
    return (root, os.path.join(root, "src")) if root is not None else ()


def package_top(path: str) -> str:
    """The folder that a file, or the package around it, stands in."""
    folder = os.path.dirname(path)
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


@lru_cache(maxsize=4096)
def _marked(folder: str) -> str | None:
    while not any(os.path.lexists(os.path.join(folder, name)) for name in ROOT_NAMES):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder
