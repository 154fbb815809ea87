"""The version of torch that a project uses, as far as its files or its environment say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from qlsp.config import Config
from qlsp.environment import site_packages

Version = tuple[int, ...]

LOCK_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
PIN_FILES = ("requirements.txt", "pyproject.toml", "setup.cfg", "setup.py", "environment.yml", "environment.yaml")


def parse(text: str) -> Version:
    """The numbers of a version: ``(2, 13, 0)`` of ``2.13.0+cpu``; empty if it begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", text.strip())
    return tuple(int(part) for part in found[0].split(".")) if found is not None else ()


def torch_version(config: Config) -> Version | None:
    """The version under ``torch`` in the configuration, else of the environment, a lock file, a pinned requirement.

    None where nothing says it. Files that cannot be read say nothing.
    """
    if config.torch is not None:
        return parse(config.torch) or None
    return _found("torch", site_packages(config), config.root)


def oldest_torch(config: Config) -> Version | None:
    """The oldest torch that a project supports: the lowest of its requirements, ``torch>=1.7`` or ``torch==1.8.1``;
    None if the configuration names the version or no requirement has a bound."""
    return _lowest("torch", config.root) if config.torch is None else None


@lru_cache(maxsize=64)
def _lowest(package: str, root: str) -> Version | None:
    bound = re.compile(rf"(?m)(?:^|[\s\"'])-?\s*{package}\s*(?:==?=?|>=?|~=)\s*(\d[\w.+]*)")
    texts = (_text(os.path.join(root, name)) for name in PIN_FILES)
    return min((parse(version) for text in texts for version in bound.findall(text)), default=None)


@lru_cache(maxsize=64)
def _found(package: str, folders: tuple[str, ...], root: str) -> Version | None:
    return next(_versions(package, folders, root), None)


def _versions(package: str, folders: tuple[str, ...], root: str) -> Iterator[Version]:
    installed = re.compile(rf"{package}-(\d[^-]*)\.dist-info")
    for folder in folders:
        for name in _listed(folder):
            found = installed.fullmatch(name)
            if found is not None:
                yield parse(found[1])
    locked = re.compile(rf'name\s*=\s*"{package}"\s*\n\s*version\s*=\s*"(\d[^"]*)"')
    pinned = re.compile(rf"(?m)(?:^|[\s\"'])-?\s*{package}\s*==?=?\s*(\d[\w.+]*)")
    for names, pattern in ((LOCK_FILES, locked), (PIN_FILES, pinned)):
        for name in names:
            versions = {parse(version) for version in pattern.findall(_text(os.path.join(root, name)))}
            if len(versions) == 1:
                yield versions.pop()


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return ""
