"""Configuration: the keys a user may set, and ``Config``, the final values of one run."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from qlsp.diagnostics import Severity

WORKFLOWS = ("auto", "eager", "fx", "pt2e", "horizon")
MODES = ("auto", "ptq", "qat")
FAIL_ON = tuple(severity.value for severity in Severity)
NOT_CHECKED = frozenset({"QL001", "QL003"})
"""Rules whose findings say that something could not be checked: no ``select`` leaves them out."""

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
    """A configuration value that cannot be used; the message is one line for the user.

    ``key`` is the key it is about, where the message does not say which file that stands in.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(" ".join(message.split()))
        self.key = key


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

    def of(self, path: str) -> Config:
        """The configuration of a file of the run: this one."""
        return self


class Configs(Protocol):
    """The configuration of each file of a run."""

    def of(self, path: str) -> Config:
        """The configuration of a file or a folder."""


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


def _cost(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise _wrong(key, "a number that is not negative", value)
    return float(value)


def _version(key: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\d+(\.\w+)*([+-][\w.]+)?", value):
        raise _wrong(key, 'a version as a string, such as "2.5"', value)
    return value


def _dotted(key: str, value: object) -> str:
    if not isinstance(value, str) or not all(part.isidentifier() for part in value.split(".")):
        raise _wrong(key, "a dotted name", value)
    return value


def _list_of(reader: Reader, what: str) -> Reader:
    def read(key: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong(key, f"a list of {what}", value)
        return tuple(reader(key, item) for item in value)

    return read


_strings = _list_of(_string, "strings")


def _one_of(*choices: str) -> Reader:
    def read(key: str, value: object) -> str:
        if value not in choices:
            raise _wrong(key, "one of " + ", ".join(f'"{choice}"' for choice in choices), value)
        return str(value)

    return read


def _table_of(reader: Reader, names: Reader = _string) -> Reader:
    def read(key: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(key, "a table", value)
        return {names(key, name): reader(f"{key}.{name}", item) for name, item in value.items()}

    return read


def _fail_on(key: str, value: object) -> Severity:
    return Severity(_one_of(*FAIL_ON)(key, value))


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration: how its value is read, and what the documentation says about it. ``type``
    names what a value is where it is none of ``choices``."""

    read: Reader
    type: str
    text: str
    example: str
    choices: tuple[str, ...] = ()


def _choice(choices: tuple[str, ...], text: str, example: str, read: Reader | None = None) -> Key:
    return Key(read or _one_of(*choices), "one of", text, example, choices)


_RULES = "list of rules"

HORIZON: Mapping[str, Key] = {
    "version": Key(_version, "string", "version of the plugin, where no file of the project pins it", '"2.3.6"'),
    "march": Key(_string, "string", "the chip's micro-architecture", '"bayes"'),
    "prepare": _choice(
        ("auto", "eager", "fx", "jit"), "form of `prepare`, where no call in view shows it", '"fx"'
    ),
    "rescale-us": Key(_cost, "number", "cost of one rescale in microseconds, for the messages", "30"),
}
"""The keys under ``[tool.qlsp.horizon]``."""


def _horizon(key: str, value: object) -> HorizonConfig:
    if not isinstance(value, dict):
        raise _wrong(key, "a table", value)
    return HorizonConfig(**_read(value, HORIZON, f"{key}."))


KEYS: Mapping[str, Key] = {
    "select": Key(_strings, _RULES, "rules to use", '["QL1", "quantstub-reused"]'),
    "ignore": Key(_strings, _RULES, "rules not to use; of two selectors the more exact one wins", '["QL201"]'),
    "extend-select": Key(_strings, _RULES, "rules to use besides `select`", '["QL201"]'),
    "per-file-ignores": Key(
        _table_of(_strings), "table", "pattern of paths to rules not to use there", '{ "tests/*" = ["QL1"] }'
    ),
    "exclude": Key(_strings, "list of patterns", "folders and files that are not searched", '["third_party"]'),
    "extend-exclude": Key(_strings, "list of patterns", "the same, besides `exclude`", '["third_party"]'),
    "respect-gitignore": Key(
        _flag, "true or false", "leave out what `.gitignore` files name when folders are searched", "false"
    ),
    "src": Key(_strings, "list of folders", "where absolute imports of the project start from", '["src"]'),
    "environment": Key(
        _string,
        "string",
        "a virtual environment or interpreter whose installed packages are read (never imported); else the active one,"
        " else `.venv` or `venv` beside the configuration file; `\"\"` for none",
        '".venv"',
    ),
    "roots": Key(
        _list_of(_dotted, "dotted names"),
        "list of classes",
        "models to judge on their own, as `Net` or `package.module.Net`, although nothing in view prepares them",
        '["models.net.Net"]',
    ),
    "workflow": _choice(WORKFLOWS, "how the models are quantized; `auto`: what the calls in view say", '"fx"'),
    "mode": _choice(MODES, "post-training or quantization-aware training; `auto`: as above", '"qat"'),
    "fail-on": _choice(
        FAIL_ON, "`qlsp check` exits with 1 for findings of this severity or worse", '"error"', _fail_on
    ),
    "severity": Key(
        _table_of(_one_of(*FAIL_ON, "off")),
        "table",
        "rule to its severity: `error`, `warning`, `info` or `off`",
        '{ QL201 = "info" }',
    ),
    "fixable": Key(_strings, _RULES, "rules whose fixes `--fix` may apply", '["QL1"]'),
    "unfixable": Key(_strings, _RULES, "rules whose fixes it may not apply", '["QL201"]'),
    "preview": Key(_flag, "true or false", "use preview rules too, without naming each", "true"),
    "torch": Key(_version, "string", "version of torch; else that of the environment or a lock file", '"2.5"'),
    "qconfig-backend": Key(_string, "string", "backend that fixes name where they add a qconfig", '"x86"'),
    "locale": _choice(("auto", "en", "zh-cn"), "language of the messages", '"zh-cn"'),
    "packages": Key(
        _table_of(_dotted, _dotted),
        "table",
        "package to the one it is a renamed copy of",
        '{ my_plugin = "horizon_plugin_pytorch" }',
    ),
    "horizon": Key(
        _horizon, "table", "what the source of a Horizon project does not say; keys below", '{ march = "bayes" }'
    ),
    "ops": Key(
        _table_of(_dotted, _dotted),
        "table",
        "function or class to the torch operator it stands for; its body is not looked into",
        '{ "my_ops.fused_add" = "torch.add" }',
    ),
}
"""Every key under ``[tool.qlsp]``."""


def _read(table: Mapping[str, object], keys: Mapping[str, Key], prefix: str = "") -> dict[str, Any]:
    values = {}
    for key, value in table.items():
        if key not in keys:
            raise ConfigError(f"unknown key {prefix}{key}" + did_you_mean(key, keys, prefix))
        values[key.replace("-", "_")] = keys[key].read(prefix + key, value)
    return values


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """``"; did you mean NAME?"`` for the nearest known word, or nothing."""
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower().replace("_", "-"), folded, n=1)
    return f"; did you mean {prefix}{folded[near[0]]}?" if near else ""


def from_options(
    isolated: bool = False, config_args: Sequence[str] = (), start: str | os.PathLike[str] = "."
) -> Config:
    """The configuration of a file or folder, see ``Resolver``."""
    return Resolver(isolated, config_args).of(os.fspath(start))


DEFAULT = "default"
"""The origin of a value that nobody set."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The configuration of a file, the configuration file it comes from, and where each value was set.

    ``origins`` maps a key, or a key and the name in its table, to a file, an option or nothing (a default).
    """

    config: Config
    file: Path | None
    origins: Mapping[tuple[str, ...], str]

    def origin(self, *key: str) -> str:
        """Where a value was set."""
        return self.origins.get(key) or self.origins.get(key[:1]) or DEFAULT


class Resolver:
    """Finds the configuration of each file of a run.

    The nearest ``qlsp.toml``, or ``pyproject.toml`` with ``[tool.qlsp]``, counts, looked for in the folder of the
    file and in those above; it is not merged with others. ``config_args`` are the arguments of ``--config``:
    one file that counts for all instead, and any number of ``KEY=VALUE`` with a dotted key under ``[tool.qlsp]``
    and a TOML value. Above these stand ``overrides``: names of options with the fields and values they set.
    ``check`` may refuse a configuration by raising ``ConfigError``.
    """

    def __init__(
        self,
        isolated: bool = False,
        config_args: Sequence[str] = (),
        overrides: Mapping[str, tuple[str, object]] | None = None,
        check: Callable[[Config], None] | None = None,
    ) -> None:
        self._inline = [argument for argument in config_args if _is_inline(argument)]
        named = [argument for argument in config_args if argument not in self._inline]
        if named and isolated:
            raise ConfigError(f"--config {named[0]} cannot be used with --isolated")
        if len(named) > 1:
            raise ConfigError("--config names more than one file: " + ", ".join(named))
        self._named = Path(named[0]) if named else None
        self._isolated = isolated
        self._overrides = dict(overrides or {})
        self._check = check
        self._tables = [(f"--config {argument}", _inline_table(argument)) for argument in self._inline]
        for where, table in self._tables:
            _checked(where, table)
        self._by_path: dict[str, Resolved] = {}
        self._by_folder: dict[Path, Path | None] = {}
        self._by_file: dict[Path | None, Resolved] = {}

    def of(self, path: str) -> Config:
        """The configuration of a file or a folder."""
        return self.resolved(path).config

    def resolved(self, path: str) -> Resolved:
        """The same, with the origin of each value."""
        if path not in self._by_path:
            file = self._named if self._named or self._isolated else self._nearest(_folder(path))
            if file not in self._by_file:
                self._by_file[file] = self._load(file)
            self._by_path[path] = self._by_file[file]
        return self._by_path[path]

    def _nearest(self, folder: Path) -> Path | None:
        if folder not in self._by_folder:
            own = _file_in(folder)
            if own is None and folder.parent != folder:
                own = self._nearest(folder.parent)
            self._by_folder[folder] = own
        return self._by_folder[folder]

    def _load(self, file: Path | None) -> Resolved:
        table: dict[str, object] = {}
        origins: dict[tuple[str, ...], str] = {}
        if file is not None:
            table = _file_table(file)
            _checked(str(file), table)
            table = _from_folder(file.parent, table)
            _note(origins, table, str(file))
        for where, override in self._tables:
            table = _merged(table, override)
            _note(origins, override, where)
        config = Config(root=str(file.parent) if file else ".", **_read(table, KEYS))
        for option, (name, value) in self._overrides.items():
            config = replace(config, **{name: value})  # type: ignore[arg-type]
            origins[(name.replace("_", "-"),)] = option
        if self._check is not None:
            try:
                self._check(config)
            except ConfigError as error:
                prefix = _origin_of(error, origins, file)
                raise ConfigError(f"{prefix}{error}") from None
        return Resolved(config, file, origins)


def _is_inline(argument: str) -> bool:
    return "=" in argument and not os.path.isfile(argument)


def _note(origins: dict[tuple[str, ...], str], table: Mapping[str, object], where: str) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            origins.update({(key, name): where for name in value})
        else:
            origins[(key,)] = where


def _origin_of(error: ConfigError, origins: Mapping[tuple[str, ...], str], file: Path | None) -> str:
    """The file an error is about, if the value that it names was set there."""
    keys = {key[0] for key, where in origins.items() if file is not None and where == str(file)}
    return f"{file}: " if error.key in keys else ""


def find_file(start: str | os.PathLike[str]) -> Path | None:
    """The nearest configuration file of a path: its own folder first, then the folders above."""
    folder = _folder(os.fspath(start))
    return next((found for each in (folder, *folder.parents) if (found := _file_in(each))), None)


def _folder(path: str) -> Path:
    """The folder to start from. A link to a file belongs to the folder in which the link is."""
    try:
        return Path(path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))).resolve()
    except (OSError, RuntimeError, ValueError):
        return Path().resolve()


def _file_in(folder: Path) -> Path | None:
    own, shared = folder / "qlsp.toml", folder / "pyproject.toml"
    if os.path.isfile(own):
        return own
    return shared if os.path.isfile(shared) and "qlsp" in _tool(_load(shared)) else None


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
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _inline_table(argument: str) -> dict[str, object]:
    try:
        return _parse(argument)
    except (ValueError, RecursionError) as error:
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
    or name. What says that something was not checked is on unless it is ignored.
    """
    chosen = max(_strength((*config.select, *config.extend_select), rule), rule.code in NOT_CHECKED)
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
    patterns = (*config.exclude, *config.extend_exclude)
    if any("/" in pattern.rstrip("/") for pattern in patterns):
        relative = _relative(path, config.root)
    else:
        relative = os.path.basename(path)
    return any(_names(config, pattern, relative) for pattern in patterns)


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
    folder, name = os.path.split(os.path.abspath(path))
    try:
        relative = os.path.relpath(os.path.join(_real(folder), name), _real(os.path.abspath(root)))
    except ValueError:  # another drive
        relative = path
    return relative.replace(os.sep, "/")


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def require_known(config: Config, rules: Iterable[RuleIdentity]) -> None:
    """Refuse a configuration with a selector that is about no rule."""
    rules = list(rules)
    for key, selector in selectors_of(config):
        if not any(matches(selector, rule) for rule in rules):
            known = [word for rule in rules for word in (rule.code, rule.name)]
            raise ConfigError(f"unknown rule {selector} in {key}" + did_you_mean(selector, known), key)


def fixable(config: Config, rule: RuleIdentity) -> bool:
    """May fixes of the rule be applied? The most exact selector decides; ``unfixable`` wins a tie."""
    return _strength(config.fixable, rule) > _strength(config.unfixable, rule)


def values_of(config: Config) -> dict[str, object]:
    """Every key with its value, as TOML and JSON can hold them; tables are dictionaries."""
    values: dict[str, object] = {}
    for key in KEYS:
        value = getattr(config, key.replace("-", "_"))
        if isinstance(value, HorizonConfig):
            value = {name: getattr(value, name.replace("-", "_")) for name in HORIZON}
        values[key] = _plain(value)
    return values


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def as_toml(value: object) -> str:
    """A value on one line of TOML."""
    if isinstance(value, Mapping):
        pairs = (f"{toml_key(name)} = {as_toml(item)}" for name, item in value.items() if item is not None)
        inner = ", ".join(pairs)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """A key of TOML, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else as_toml(name)


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
