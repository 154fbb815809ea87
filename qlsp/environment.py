"""Where the packages of a project are installed. They are read, never imported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache

from qlsp.config import Config

ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Environment variables that name the environment of the shell."""

NAMES = (".venv", "venv")
"""Where a project keeps an environment of its own."""


def site_packages(config: Config, variables: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The folders of installed packages: of the configured environment, else the active one, else the project's own.

    ``environment = ""`` names none.
    """
    if config.environment is not None:
        return folders(os.path.join(config.root, config.environment)) if config.environment else ()
    for name in ACTIVE:
        if variables.get(name):
            return folders(variables[name])
    return next(filter(None, (folders(os.path.join(config.root, name)) for name in NAMES)), ())


@lru_cache(maxsize=64)
def folders(environment: str) -> tuple[str, ...]:
    """The folders of packages of a virtual environment, or of the interpreter in one; none if it is neither."""
    environment = os.path.abspath(environment)
    if os.path.isfile(environment):
        environment = os.path.dirname(os.path.dirname(environment))
    return tuple(path for path in _candidates(environment) if os.path.isdir(path))


def _candidates(prefix: str) -> Iterator[str]:
    yield os.path.join(prefix, "Lib", "site-packages")
    for lib in ("lib", "lib64"):
        folder = os.path.join(prefix, lib)
        try:
            names = sorted(name for name in os.listdir(folder) if name.startswith("python3"))
        except OSError:
            continue
        if not os.path.islink(folder):
            yield from (os.path.join(folder, name, "site-packages") for name in names)
