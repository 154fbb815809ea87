"""qlsp as a library, and the schema of its configuration."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import qlsp
from qlsp.config import HORIZON, KEYS, Config, ConfigError, from_options
from qlsp.dev.schema import schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NET = """\
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant_a, self.quant_b, self.dequant = QuantStub(), QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x, y):
        a = self.a(self.quant_a(x))
        b = self.b(self.quant_b(y))
        return self.dequant(torch.cat([a, b], 1))
"""


def test_check_source_is_pure_and_picklable() -> None:
    found = qlsp.check_source(NET)
    assert [item.code for item in found] == ["QL101"]
    assert pickle.loads(pickle.dumps(found)) == found == qlsp.check_source(NET)
    assert qlsp.check_source(NET, config=Config(ignore=("QL101",))) == []
    assert [item.code for item in qlsp.check_source("def f(:\n")] == ["QL001"]


def test_fix_source() -> None:
    fixed = qlsp.fix_source(NET, "net.py").texts["net.py"]
    assert qlsp.check_source(fixed) == []
    assert qlsp.fix_source(fixed, "net.py").texts == {}


def test_check_paths(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    (item,) = qlsp.check_paths([str(tmp_path)])
    assert (item.code, item.place.path) == ("QL101", str(tmp_path / "net.py"))
    (tmp_path / "qlsp.toml").write_text('ignore = ["QL1"]\n')
    assert qlsp.check_paths([str(tmp_path)]) == []
    (tmp_path / "qlsp.toml").write_text('ignore = ["QL999"]\n')
    with pytest.raises(ConfigError, match="QL999"):
        qlsp.check_paths([str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="absent"):
        qlsp.check_paths([str(tmp_path / "absent.py")])


# --- schema ---------------------------------------------------------------------------------------------------------

CHECKER = jsonschema.Draft7Validator(json.loads(schema()))


def value(example: str) -> Any:
    return tomllib.loads(f"value = {example}")["value"]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(json.loads(schema()))
    assert set(json.loads(schema())["properties"]) == set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_every_example_is_valid(name: str) -> None:
    assert CHECKER.is_valid({name: value(KEYS[name].example)})


@pytest.mark.parametrize("name", HORIZON)
def test_every_horizon_example_is_valid(name: str) -> None:
    assert CHECKER.is_valid({"horizon": {name: value(HORIZON[name].example)}})


@pytest.mark.parametrize(
    "table",
    [
        {"mdoe": "ptq"},
        {"mode": "both"},
        {"select": "QL1"},
        {"severity": {"QL101": "fatal"}},
        {"horizon": {"chip": "x5"}},
        {"horizon": {"rescale-us": -1}},
        {"preview": "yes"},
        {"ops": {"a.b": 3}},
        {"per-file-ignores": {"a": "QL1"}},
    ],
    ids=str,
)
def test_what_the_reader_refuses_the_schema_refuses(table: dict[str, Any]) -> None:
    assert not CHECKER.is_valid(table)
    ((key, item),) = table.items()
    name, inner = (f"{key}.{next(iter(item))}", next(iter(item.values()))) if isinstance(item, dict) else (key, item)
    quoted = ".".join(part if part.isidentifier() or "-" in part else json.dumps(part) for part in name.split(".", 1))
    with pytest.raises(ConfigError):
        from_options(True, [f"{quoted} = {json.dumps(inner)}"])
