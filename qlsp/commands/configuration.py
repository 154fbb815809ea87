"""The configuration that a command's options ask for, and ``qlsp config``, which shows it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator

from qlsp.commands.output import OK, UsageError, write
from qlsp.config import Resolved, Resolver, as_toml, toml_key, values_of
from qlsp.diagnostics import Severity


def configs_of(arguments: argparse.Namespace) -> Resolver:
    """The configuration of each file: that of the nearest configuration file, changed by the options."""
    from qlsp.engine import validate

    overrides: dict[str, tuple[str, object]] = {}
    for name in ("select", "ignore", "extend_select"):
        if (groups := getattr(arguments, name, None)) is not None:
            value: object = tuple(selector for group in groups for selector in group)
            overrides[f"--{name.replace('_', '-')}"] = (name, value)
    for name in ("workflow", "mode"):
        if (value := getattr(arguments, name)) is not None:
            overrides[f"--{name}"] = (name, value)
    if (value := getattr(arguments, "fail_on", None)) is not None:
        overrides["--fail-on"] = ("fail_on", Severity(value))
    return Resolver(arguments.isolated, arguments.config, overrides, validate)


def config(arguments: argparse.Namespace) -> int:
    """Show the configuration of a file or folder; returns the exit status."""
    if not os.path.lexists(arguments.path):
        raise UsageError(f"{arguments.path}: no such file or folder")
    resolved = configs_of(arguments).resolved(arguments.path)
    rows = list(_config_rows(resolved))
    if arguments.output_format == "json":
        values = {".".join(map(toml_key, key)): {"value": value, "origin": origin} for key, value, origin in rows}
        file = str(resolved.file) if resolved.file else None
        record = {"path": arguments.path, "file": file, "root": resolved.config.root, "values": values}
        write(json.dumps(record, indent=2) + "\n")
        return OK
    lines = [f"# {arguments.path}: {resolved.file or 'no configuration file'}"]
    for key, value, origin in rows:
        name = ".".join(map(toml_key, key))
        lines.append(f"# {name} is not set" if value is None else f"{name} = {as_toml(value)}  # {origin}")
    write("".join(f"{line}\n" for line in lines))
    return OK


def _config_rows(resolved: Resolved) -> Iterator[tuple[tuple[str, ...], object, str]]:
    """Key, value and origin; the names in a table are keys of their own."""
    for key, value in values_of(resolved.config).items():
        if isinstance(value, dict) and value:
            for name, item in value.items():
                yield (key, name), item, resolved.origin(key, name)
        else:
            yield (key,), value, resolved.origin(key)
