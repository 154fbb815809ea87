"""Configuration: keys, values, files, selection of rules, excluded paths."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from qlsp.config import (
    KEYS,
    Config,
    ConfigError,
    HorizonConfig,
    excluded,
    find_file,
    from_options,
    path_matches,
    selected,
    selectors_of,
    severity_of,
)
from qlsp.diagnostics import Severity


@dataclass(frozen=True)
class Meta:
    code: str = "QL101"
    name: str = "cat-mixed-scales"
    preview: bool = False


CAT = Meta()
STUB = Meta("QL201", "quantstub-reused")
PREVIEW = Meta("QL102", "nested-cat", preview=True)


def options(*arguments: str) -> Config:
    return from_options(isolated=True, config_args=arguments)


def test_defaults() -> None:
    config = options()
    assert config == Config()
    assert (config.workflow, config.mode, config.fail_on) == ("auto", "auto", Severity.WARNING)
    assert config.horizon == HorizonConfig(version=None, march=None, prepare="auto", rescale_us=44.0)


def test_every_key_is_a_field() -> None:
    assert {key.replace("-", "_") for key in KEYS} == {field.name for field in fields(Config)} - {"root"}


VALUES = {
    "select": ('["QL1"]', ("QL1",)),
    "ignore": ('["quantstub-reused"]', ("quantstub-reused",)),
    "extend-select": ('["QL102"]', ("QL102",)),
    "per-file-ignores": ('{"tests/*" = ["QL1"]}', {"tests/*": ("QL1",)}),
    "exclude": ('["old"]', ("old",)),
    "extend-exclude": ('["old"]', ("old",)),
    "respect-gitignore": ("false", False),
    "src": ('["src"]', ("src",)),
    "environment": ('".venv"', ".venv"),
    "roots": ('["pkg.net.Net"]', ("pkg.net.Net",)),
    "workflow": ('"fx"', "fx"),
    "mode": ('"qat"', "qat"),
    "fail-on": ('"info"', Severity.INFO),
    "severity": ('{QL901 = "off"}', {"QL901": "off"}),
    "fixable": ('["QL1"]', ("QL1",)),
    "unfixable": ('["QL1"]', ("QL1",)),
    "preview": ("true", True),
    "torch": ('"2.13"', "2.13"),
    "qconfig-backend": ('"qnnpack"', "qnnpack"),
    "locale": ('"zh-cn"', "zh-cn"),
    "packages": ('{changan = "horizon_plugin_pytorch"}', {"changan": "horizon_plugin_pytorch"}),
    "horizon": ('{version = "2.3.6", rescale-us = 12}', HorizonConfig(version="2.3.6", rescale_us=12.0)),
    "ops": ('{"my_ops.fused_add" = "torch.add"}', {"my_ops.fused_add": "torch.add"}),
}


@pytest.mark.parametrize("key", KEYS)
def test_every_key_can_be_set(key: str) -> None:
    text, value = VALUES[key]
    config = options(f"{key} = {text}")
    assert getattr(config, key.replace("-", "_")) == value
    assert options(f"{key}={text}") == config


def test_dotted_keys_reach_tables() -> None:
    config = options(
        'horizon.version = "0.16.3"', 'horizon.march="bernoulli2"', 'ops."my_ops.add" = "torch.add"'
    )
    assert config.horizon == HorizonConfig(version="0.16.3", march="bernoulli2")
    assert config.ops == {"my_ops.add": "torch.add"}


def test_a_later_value_wins_and_tables_are_merged() -> None:
    config = options('mode="ptq"', 'mode="qat"', 'severity.QL1="info"', 'severity.QL2="off"')
    assert config.mode == "qat" and config.severity == {"QL1": "info", "QL2": "off"}


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ('wrokflow = "fx"', "unknown key wrokflow; did you mean workflow?"),
        ('extend_select = ["QL1"]', "did you mean extend-select?"),
        ('horizon.verion = "1"', "unknown key horizon.verion; did you mean horizon.version?"),
        ('completely-else = "1"', "unknown key completely-else"),
        ('select = "QL1"', "select: expected a list of strings, got 'QL1'"),
        ("select = [1]", "select: expected a list of strings"),
        ("torch = 2.13", "torch: expected a version as a string, such as \"2.5\", got 2.13"),
        ('preview = "yes"', "preview: expected true or false"),
        ("horizon.rescale-us = true", "horizon.rescale-us: expected a number"),
        ('horizon.prepare = "qat"', 'horizon.prepare: expected one of "auto", "eager", "fx", "jit"'),
        ('workflow = "onnx"', 'workflow: expected one of "auto", "eager", "fx", "pt2e", "horizon"'),
        ('fail-on = "never"', "fail-on: expected one of"),
        ('severity.QL1 = "fatal"', "severity.QL1: expected one of"),
        ('horizon = "2.3.6"', "horizon: expected a table"),
        ('per-file-ignores."a/*" = "QL1"', "per-file-ignores.a/*: expected a list of strings"),
        ("mode = qat", 'a string needs quotes: mode = "qat"'),
        ("mode =", "mode ="),
        ("= 1", "= 1"),
    ],
)
def test_wrong_values_are_refused(argument: str, text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)) as caught:
        options(argument)
    assert "\n" not in str(caught.value) and argument in str(caught.value)


def test_configuration_is_hashable_and_picklable() -> None:
    config = options('severity.QL1="info"', 'horizon.version="2.3.6"')
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(replace(config))


def test_the_nearest_file_counts_whole(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.qlsp]\nmode = "qat"\nworkflow = "fx"\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[tool.other]\n")
    (inner / "net.py").write_text("")
    assert find_file(inner / "net.py") == tmp_path / "pyproject.toml"
    assert from_options(start=inner).mode == "qat"
    (inner / "qlsp.toml").write_text('workflow = "eager"\n')
    config = from_options(start=inner / "net.py")
    assert (config.workflow, config.mode, config.root) == ("eager", "auto", str(inner))
    assert from_options(isolated=True, start=inner) == Config()
    assert from_options(config_args=['mode = "ptq"'], start=tmp_path).mode == "ptq"


def test_a_named_file_replaces_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "qlsp.toml").write_text('mode = "qat"\n')
    other = tmp_path / "ci.toml"
    other.write_text('workflow = "fx"\n')
    config = from_options(config_args=[str(other), "preview = true"], start=tmp_path)
    assert (config.workflow, config.mode, config.preview) == ("fx", "auto", True)
    with pytest.raises(ConfigError, match="--isolated"):
        from_options(isolated=True, config_args=[str(other)])
    with pytest.raises(ConfigError, match="more than one file"):
        from_options(config_args=[str(other), str(tmp_path / "qlsp.toml")])
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        from_options(config_args=["absent.toml"])


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("qlsp.toml", b"mode = \n", "qlsp.toml: "),
        ("qlsp.toml", b'mode = "\xff"\n', "qlsp.toml: "),
        ("qlsp.toml", b'moed = "ptq"\n', "qlsp.toml: unknown key moed; did you mean mode?"),
        ("pyproject.toml", b'[tool.qlsp]\nmode = "x"\n', "pyproject.toml: mode: expected one of"),
        ("pyproject.toml", b"[tool]\nqlsp = 3\n", "pyproject.toml: tool.qlsp: expected a table"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(text)):
        from_options(start=tmp_path)


@pytest.mark.parametrize(
    ("config", "on"),
    [
        (Config(), True),
        (Config(select=("QL2",)), False),
        (Config(select=("QL1",)), True),
        (Config(select=("cat-mixed-scales",)), True),
        (Config(select=("cat-mixed",)), False),
        (Config(select=()), False),
        (Config(select=("QL2",), extend_select=("QL101",)), True),
        (Config(ignore=("QL1",)), False),
        (Config(ignore=("QL101",)), False),
        (Config(ignore=("cat-mixed-scales",)), False),
        (Config(select=("QL101",), ignore=("QL1",)), True),
        (Config(select=("QL1",), ignore=("QL101",)), False),
        (Config(select=("QL1",), ignore=("QL1",)), False),
        (Config(severity={"QL1": "off"}), False),
        (Config(severity={"QL1": "off", "QL101": "info"}), True),
    ],
)
def test_selection(config: Config, on: bool) -> None:
    assert selected(config, CAT) is on


def test_preview_rules_need_a_word() -> None:
    assert not selected(Config(), PREVIEW)
    assert not selected(Config(select=("QL1",)), PREVIEW)
    assert selected(Config(preview=True), PREVIEW)
    assert selected(Config(extend_select=("QL102",)), PREVIEW)
    assert selected(Config(select=("nested-cat",)), PREVIEW)


def test_ignores_of_a_file() -> None:
    config = Config(per_file_ignores={"tests/*": ("QL1",), "zoo": ("quantstub-reused",)})
    assert selected(config, CAT) and selected(config, CAT, "models/net.py")
    assert not selected(config, CAT, "tests/net.py")
    assert selected(config, STUB, "tests/net.py") and not selected(config, STUB, "a/zoo/net.py")


def test_severity_of_a_rule() -> None:
    config = Config(severity={"QL1": "info", "cat-mixed-scales": "warning"})
    assert severity_of(config, CAT, Severity.ERROR) is Severity.WARNING
    assert severity_of(config, PREVIEW, Severity.ERROR) is Severity.INFO
    assert severity_of(config, STUB, Severity.ERROR) is Severity.ERROR
    assert severity_of(Config(severity={"QL": "off"}), STUB, Severity.ERROR) is None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("build", "build/net.py", True),
        ("build", "a/build/net.py", True),
        ("build/", "build/net.py", True),
        ("build", "a/build.py", False),
        ("*_old.py", "a/net_old.py", True),
        ("a/b", "a/b/net.py", True),
        ("./a/b", "a/b/net.py", True),
        ("a/b", "c/a/b/net.py", False),
        ("a/*.py", "a/net.py", True),
        ("**/net.py", "a/b/net.py", True),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, path: str, matches: bool) -> None:
    config = Config(root=str(tmp_path))
    assert path_matches(config, str(tmp_path / path), pattern) is matches


def test_excluded_is_about_the_path_itself() -> None:
    config = Config(extend_exclude=("*_old.py", "zoo/raw"))
    assert excluded(config, "a/dist") and excluded(config, "a/net_old.py") and excluded(config, "zoo/raw")
    assert not excluded(config, "dist/net.py") and not excluded(config, "a/zoo/raw")


def test_an_absolute_pattern() -> None:
    config = Config(root="/project")
    assert path_matches(config, "/project/a/net.py", "/project/a")
    assert not path_matches(config, "/project/b/net.py", "/project/a")
    assert not path_matches(config, "/project/b/a/net.py", "/project/a")


def test_paths_in_a_file_start_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "qlsp.toml").write_text('src = ["lib", "/opt/lib"]\nenvironment = ".venv"\n')
    config = from_options(start=tmp_path)
    assert config.src == (str(tmp_path / "lib"), "/opt/lib")
    assert config.environment == str(tmp_path / ".venv")
    assert from_options(config_args=['src = ["here"]'], start=tmp_path).src == ("here",)


def test_selectors_are_listed_with_their_keys() -> None:
    config = Config(ignore=("QL2",), severity={"QL9": "off"}, per_file_ignores={"*": ("QL3",)})
    assert set(selectors_of(config)) == {
        ("select", "QL"),
        ("ignore", "QL2"),
        ("fixable", "QL"),
        ("severity", "QL9"),
        ("per-file-ignores", "QL3"),
    }
