"""Configuration: the keys a user may set, and ``Config``, the final values of one run."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from qlsp.diagnostics import Severity

WORKFLOWS = ("auto", "eager", "fx", "pt2e", "horizon")
MODES = ("auto", "ptq", "qat")
FAIL_ON = tuple(severity.value for severity in Severity)

DEFAULT_EXCLUDE = (
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
"""Folders that are not walked; hidden folders and virtual environments are never walked either."""


class ConfigError(Exception):
    """A configuration value that cannot be used; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class HorizonConfig:
    """What cannot be read from the source of a Horizon project."""

    version: str | None = None
    march: str | None = None
    prepare: str = "auto"
    rescale_us: float = 44.0


@dataclass(frozen=True, slots=True)
class Config:
    """The values of one run: defaults, then the configuration file, then the command line.

    ``root`` is the folder that relative patterns and paths start from. Selectors (in ``select``, ``ignore``,
    ``extend_select``, ``fixable``, ``unfixable``, ``per_file_ignores`` and ``severity``) are codes, prefixes
    of codes, or names.
    """

    root: str = "."
    select: tuple[str, ...] = ("QL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    src: tuple[str, ...] = ()
    environment: str | None = None
    roots: tuple[str, ...] = ()
    workflow: str = "auto"
    mode: str = "auto"
    fail_on: Severity = Severity.WARNING
    severity: Mapping[str, str] = field(default_factory=dict, hash=False)
    fixable: tuple[str, ...] = ("QL",)
    unfixable: tuple[str, ...] = ()
    preview: bool = False
    torch: str | None = None
    qconfig_backend: str | None = None
    locale: str = "auto"
    packages: Mapping[str, str] = field(default_factory=dict, hash=False)
    horizon: HorizonConfig = HorizonConfig()
    ops: Mapping[str, str] = field(default_factory=dict, hash=False)


Reader = Callable[[str, object], Any]
"""Checks the value under a key (named for the message) and returns it as ``Config`` holds it."""


def _wrong(key: str, expected: str, value: object) -> ConfigError:
    return ConfigError(f"{key}: expected {expected}, got {value!r}")


def _string(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(key, "a string", value)
    return value


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(key, "a number", value)
    return float(value)


def _strings(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(key, "a list of strings", value)
    return tuple(value)


def _one_of(*choices: str) -> Reader:
    def read(key: str, value: object) -> str:
        if value not in choices:
            raise _wrong(key, "one of " + ", ".join(f'"{choice}"' for choice in choices), value)
        return str(value)

    return read


def _table_of(reader: Reader) -> Reader:
    def read(key: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(key, "a table", value)
        return {name: reader(f"{key}.{name}", item) for name, item in value.items()}

    return read


def _fail_on(key: str, value: object) -> Severity:
    return Severity(_one_of(*FAIL_ON)(key, value))


_HORIZON: Mapping[str, Reader] = {
    "version": _string,
    "march": _string,
    "prepare": _one_of("auto", "eager", "fx", "jit"),
    "rescale-us": _number,
}


def _horizon(key: str, value: object) -> HorizonConfig:
    if not isinstance(value, dict):
        raise _wrong(key, "a table", value)
    return HorizonConfig(**_read(value, _HORIZON, f"{key}."))


KEYS: Mapping[str, Reader] = {
    "select": _strings,
    "ignore": _strings,
    "extend-select": _strings,
    "per-file-ignores": _table_of(_strings),
    "exclude": _strings,
    "extend-exclude": _strings,
    "respect-gitignore": _flag,
    "src": _strings,
    "environment": _string,
    "roots": _strings,
    "workflow": _one_of(*WORKFLOWS),
    "mode": _one_of(*MODES),
    "fail-on": _fail_on,
    "severity": _table_of(_one_of(*FAIL_ON, "off")),
    "fixable": _strings,
    "unfixable": _strings,
    "preview": _flag,
    "torch": _string,
    "qconfig-backend": _string,
    "locale": _one_of("auto", "en", "zh-cn"),
    "packages": _table_of(_string),
    "horizon": _horizon,
    "ops": _table_of(_string),
}
"""Every key under ``[tool.qlsp]``, and how its value is read."""


def _read(table: Mapping[str, object], readers: Mapping[str, Reader], prefix: str = "") -> dict[str, Any]:
    values = {}
    for key, value in table.items():
        if key not in readers:
            raise ConfigError(f"unknown key {prefix}{key}" + did_you_mean(key, readers, prefix))
        values[key.replace("-", "_")] = readers[key](prefix + key, value)
    return values


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """``"; did you mean NAME?"`` for the nearest known word, or nothing."""
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower().replace("_", "-"), folded, n=1)
    return f"; did you mean {prefix}{folded[near[0]]}?" if near else ""


def from_options(
    isolated: bool = False, config_args: Sequence[str] = (), start: str | os.PathLike[str] = "."
) -> Config:
    """The configuration of a run that checks ``start``.

    ``config_args`` are the arguments of ``--config``: files, and ``KEY=VALUE`` with a dotted key under
    ``[tool.qlsp]`` and a TOML value. Without a file, and unless ``isolated``, the nearest ``qlsp.toml`` or
    ``pyproject.toml`` with ``[tool.qlsp]`` counts, looked for from ``start`` upwards.
    """
    inline = [argument for argument in config_args if "=" in argument and not os.path.isfile(argument)]
    named = [argument for argument in config_args if argument not in inline]
    if named and isolated:
        raise ConfigError(f"--config {named[0]} cannot be used with --isolated")
    if len(named) > 1:
        raise ConfigError("--config names more than one file: " + ", ".join(named))
    path = Path(named[0]) if named else None if isolated else find_file(start)
    table: dict[str, object] = {}
    if path is not None:
        table = _file_table(path)
        _checked(str(path), table)
        table = _from_folder(path.parent, table)
    for argument in inline:
        override = _inline_table(argument)
        _checked(f"--config {argument}", override)
        table = _merged(table, override)
    return Config(root=str(path.parent) if path else ".", **_read(table, KEYS))


def find_file(start: str | os.PathLike[str]) -> Path | None:
    """The nearest configuration file of a path: its own folder first, then the folders above."""
    try:
        here = Path(start).resolve()
    except (OSError, RuntimeError):
        return None
    for folder in (here, *here.parents):
        own = folder / "qlsp.toml"
        if own.is_file():
            return own
        shared = folder / "pyproject.toml"
        if shared.is_file() and "qlsp" in _tool(_load(shared)):
            return shared
    return None


def _from_folder(folder: Path, table: Mapping[str, object]) -> dict[str, object]:
    """Paths in a configuration file start from its folder."""
    result = dict(table)
    if "environment" in table:
        result["environment"] = str(folder / str(table["environment"]))
    if isinstance(src := table.get("src"), list):
        result["src"] = [str(folder / item) for item in src]
    return result


def _file_table(path: Path) -> dict[str, object]:
    document = _load(path)
    if path.name != "pyproject.toml":
        return document
    table = _tool(document).get("qlsp", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.qlsp: expected a table, got {table!r}")
    return table


def _tool(document: Mapping[str, object]) -> Mapping[str, object]:
    tool = document.get("tool")
    return tool if isinstance(tool, dict) else {}


def _load(path: Path) -> dict[str, object]:
    try:
        return _parse(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _inline_table(argument: str) -> dict[str, object]:
    try:
        return _parse(argument)
    except ValueError as error:
        key, _, value = (part.strip() for part in argument.partition("="))
        hint = f'; a string needs quotes: {key} = "{value}"' if value and value[0].isalpha() else ""
        raise ConfigError(f"--config {argument}: {error}{hint}") from error


def _parse(text: str) -> dict[str, object]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, object] = toml.loads(text)
    return document


def _checked(where: str, table: Mapping[str, object]) -> None:
    try:
        _read(table, KEYS)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


class RuleIdentity(Protocol):
    """What selection looks at; a rule's ``META`` has it."""

    @property
    def code(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def preview(self) -> bool: ...


def matches(selector: str, rule: RuleIdentity) -> bool:
    """True if the selector is the rule's name, its code, or a prefix of its code."""
    return selector == rule.name or (selector.startswith("QL") and rule.code.startswith(selector))


def selected(config: Config, rule: RuleIdentity, path: str | None = None) -> bool:
    """Is the rule switched on, for every file or for this one?

    The most exact selector decides; ``ignore`` wins a tie. A preview rule needs ``preview``, or its own code
    or name.
    """
    chosen = _strength((*config.select, *config.extend_select), rule)
    if chosen <= _strength(config.ignore, rule) or severity_of(config, rule, Severity.ERROR) is None:
        return False
    if rule.preview and not config.preview and chosen < len(rule.code):
        return False
    if path is None:
        return True
    return not any(
        _strength(selectors, rule) and path_matches(config, path, pattern)
        for pattern, selectors in config.per_file_ignores.items()
    )


def severity_of(config: Config, rule: RuleIdentity, severity: Severity) -> Severity | None:
    """The severity of a finding after the ``severity`` table; None for ``"off"``."""
    found = [
        (_strength((selector,), rule), level)
        for selector, level in config.severity.items()
        if matches(selector, rule)
    ]
    if not found:
        return severity
    level = max(found)[1]
    return None if level == "off" else Severity(level)


def _strength(selectors: Iterable[str], rule: RuleIdentity) -> int:
    lengths = (
        len(rule.code) if selector == rule.name else len(selector)
        for selector in selectors
        if matches(selector, rule)
    )
    return max(lengths, default=0)


def excluded(config: Config, path: str) -> bool:
    """True if ``exclude`` or ``extend-exclude`` names this file or folder itself.

    Folders above do not count: a search from the top down has left out what they exclude, and a folder that
    the user names is searched wherever it is.
    """
    relative = _relative(path, config.root)
    return any(_names(config, pattern, relative) for pattern in (*config.exclude, *config.extend_exclude))


def path_matches(config: Config, path: str, pattern: str) -> bool:
    """Does the pattern name this path or a folder above it?"""
    parts = _relative(path, config.root).split("/")
    return any(_names(config, pattern, "/".join(parts[:count])) for count in range(1, len(parts) + 1))


def _names(config: Config, pattern: str, relative: str) -> bool:
    """A pattern without a slash is compared with the last part, one with a slash with the whole path.

    Relative patterns start from the folder of the configuration file.
    """
    pattern = pattern.rstrip("/")
    if "/" not in pattern:
        return fnmatchcase(relative.rsplit("/", 1)[-1], pattern)
    if os.path.isabs(pattern):
        pattern = _relative(pattern, config.root)
    return fnmatchcase(relative, pattern.removeprefix("./"))


def _relative(path: str, root: str) -> str:
    try:
        relative = os.path.relpath(path, root)
    except ValueError:  # another drive
        relative = path
    return relative.replace(os.sep, "/")


def selectors_of(config: Config) -> list[tuple[str, str]]:
    """Every selector of the configuration, with the key it stands under."""
    listed = ("select", "ignore", "extend_select", "fixable", "unfixable")
    found = [
        (key.name.replace("_", "-"), selector)
        for key in fields(config)
        if key.name in listed
        for selector in getattr(config, key.name)
    ]
    found += [("severity", selector) for selector in config.severity]
    found += [
        ("per-file-ignores", selector)
        for selectors in config.per_file_ignores.values()
        for selector in selectors
    ]
    return found
