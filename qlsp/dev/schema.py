"""The JSON schema of ``[tool.qlsp]`` and ``qlsp.toml``, for TOML tools of editors; ``docs`` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qlsp.config import FAIL_ON, HORIZON, KEYS, Config, Key, values_of
from qlsp.rules.api import all_rules

_STRINGS = {"type": "array", "items": {"type": "string"}}
_TYPES: Mapping[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number", "minimum": 0},
    "true or false": {"type": "boolean"},
    "list of rules": {"type": "array", "items": {"$ref": "#/definitions/rule"}},
    "list of patterns": _STRINGS,
    "list of folders": _STRINGS,
    "list of classes": _STRINGS,
}
_TABLES: Mapping[str, dict[str, Any]] = {
    "per-file-ignores": _TYPES["list of rules"],
    "severity": {"enum": [*FAIL_ON, "off"]},
    "packages": {"type": "string"},
    "ops": {"type": "string"},
}
"""What the values of a table are."""


def schema() -> str:
    """The schema as JSON text."""
    selectors = {selector for rule in all_rules() for selector in (rule.meta.code, rule.meta.name)}
    prefixes = {rule.meta.code[:length] for rule in all_rules() for length in (2, 3, 4)}
    record = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://qlsp.readthedocs.io/qlsp.schema.json",
        "title": "Configuration of qlsp",
        "description": "The table [tool.qlsp] of pyproject.toml, or all of qlsp.toml.",
        "type": "object",
        "additionalProperties": False,
        "definitions": {"rule": {"type": "string", "examples": sorted(selectors | prefixes)}},
        "properties": _properties(KEYS, values_of(Config())),
    }
    return json.dumps(record, indent=2) + "\n"


def _properties(keys: Mapping[str, Key], defaults: Mapping[str, object]) -> dict[str, Any]:
    return {name: _property(name, key, defaults[name]) for name, key in keys.items()}


def _property(name: str, key: Key, default: object) -> dict[str, Any]:
    described: dict[str, Any] = {"description": key.text}
    if isinstance(default, (str, bool, float, list)):
        described["default"] = default
    if key.choices:
        return described | {"enum": list(key.choices)}
    if name == "horizon":
        assert isinstance(default, dict)
        inner = {"properties": _properties(HORIZON, default), "additionalProperties": False}
        return described | {"type": "object"} | inner
    if name in _TABLES:
        return described | {"type": "object", "additionalProperties": _TABLES[name]}
    return described | _TYPES[key.type]
