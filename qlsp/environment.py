"""Where the packages of a project are installed. They are read, never imported."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from qlsp.config import Config

ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Environment variables that name the environment of the shell."""

MAX_LINK = 200_000
"""Characters that are read of a file that points to a folder of packages."""

MAX_MODULE = 1_000_000
"""Characters that are read of a file that may register models."""

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
    """The folders of packages of a virtual environment, or of the interpreter in one, then those of its editable
    installs; none if it is neither."""
    environment = os.path.abspath(environment)
    if os.path.isfile(environment):
        environment = os.path.dirname(os.path.dirname(environment))
    found = [path for path in _candidates(environment) if os.path.isdir(path)]
    linked = [path for folder in found for path in _linked(folder) if os.path.isdir(path)]
    return tuple(dict.fromkeys([*found, *linked]))


def _linked(folder: str) -> Iterator[str]:
    """The folders that the files of a folder of packages point to: the projects of editable installs.

    ``*.pth``: a folder on each line that is no import (https://docs.python.org/3/library/site.html); ``*.egg-link``:
    its first line; the finders that setuptools writes: the folders around the packages in their ``MAPPING``.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith(".pth"):
            lines = (line.strip() for line in _read(path).splitlines())
            yield from (
                os.path.normpath(os.path.join(folder, line))
                for line in lines
                if line and not line.startswith(("#", "import ", "import\t"))
            )
        elif name.endswith(".egg-link"):
            yield from (os.path.normpath(os.path.join(folder, line.strip())) for line in _read(path).splitlines()[:1])
        elif name.startswith("__editable__") and name.endswith("_finder.py"):
            yield from _mapped(_read(path))


def _mapped(text: str) -> Iterator[str]:
    """The folders around the packages that a finder maps to a folder of their own name."""
    found = _MAPPING.search(text)
    try:
        mapping = ast.literal_eval(found[1]) if found is not None else {}
    except (SyntaxError, ValueError):
        return
    for package, path in mapping.items():
        if isinstance(path, str) and os.path.basename(path) == str(package):
            yield os.path.dirname(path)


_MAPPING = re.compile(r"^MAPPING[^=\n]*=\s*(\{[^}]*\})", re.MULTILINE)


def _read(path: str, limit: int = MAX_LINK) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


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


_REGISTERED = re.compile(
    r"^@register_model\b(?:\((?P<given>[^)]*)\))?[^\n]*\n(?:@[^\n]*\n(?:[ \t)][^\n]*\n)*)*def[ \t]+(?P<function>\w+)",
    re.MULTILINE,
)
_GIVEN = re.compile(r"\s*(?:name\s*=\s*)?[\"']([^\"']+)[\"']")


@lru_cache(maxsize=16)
def registrations(folder: str) -> Mapping[str, tuple[str, str]]:
    """What ``@register_model`` registers in a package: name to file and function, told from the text of its files."""
    found: dict[str, tuple[str, str]] = {}
    for parent, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            text = _read(os.path.join(parent, name), MAX_MODULE) if name.endswith(".py") else ""
            for match in _REGISTERED.finditer(text) if "@register_model" in text else ():
                given = _GIVEN.match(match["given"] or "")
                found[given[1] if given else match["function"]] = os.path.join(parent, name), match["function"]
    return found
