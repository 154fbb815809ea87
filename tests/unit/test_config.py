"""Configuration: keys, values, files, selection of rules, excluded paths."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlsp.config import (
    KEYS,
    Config,
    ConfigError,
    Configs,
    HorizonConfig,
    Resolver,
    as_toml,
    excluded,
    find_file,
    fixable,
    from_options,
    path_matches,
    selected,
    selectors_of,
    severity_of,
    values_of,
)
from qlsp.diagnostics import Severity
from qlsp.engine import check, validate


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


@pytest.mark.parametrize(
    ("config", "on"),
    [
        (Config(select=("QL1",)), True),
        (Config(select=()), True),
        (Config(select=("QL1",), ignore=("QL001",)), False),
        (Config(ignore=("QL0",)), False),
        (Config(select=("QL1",), severity={"QL001": "off"}), False),
        (Config(select=("QL1",), per_file_ignores={"*": ("QL0",)}), False),
    ],
)
def test_what_could_not_be_checked_is_said_unless_ignored(config: Config, on: bool) -> None:
    assert selected(config, Meta("QL001", "syntax-error"), "net.py") is on


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


# The configuration of each file


def test_each_file_has_its_nearest_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name, text in (
        (".", "pyproject.toml", '[tool.qlsp]\nmode = "qat"\nworkflow = "fx"\n'),
        ("a", "qlsp.toml", 'mode = "ptq"\n'),
        ("a/b", "pyproject.toml", "[tool.other]\nx = 1\n"),
        ("c", "pyproject.toml", "[tool.qlsp]\n"),
        ("c", "qlsp.toml", 'workflow = "eager"\n'),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    expected = {
        "net.py": ("qat", "fx"),
        "a/net.py": ("ptq", "auto"),
        "a/b/net.py": ("ptq", "auto"),
        "a/b": ("ptq", "auto"),
        "c/net.py": ("auto", "eager"),
        "absent/net.py": ("qat", "fx"),
    }
    resolver = Resolver()
    for cwd in (tmp_path, tmp_path / "a" / "b"):
        monkeypatch.chdir(cwd)
        for path, values in expected.items():
            for spelling in (str(tmp_path / path), os.path.relpath(tmp_path / path)):
                config = resolver.of(spelling) if os.path.isabs(spelling) else Resolver().of(spelling)
                assert (config.mode, config.workflow) == values, spelling
                assert config == from_options(start=spelling)
    assert find_file(tmp_path / "a" / "b" / "net.py") == tmp_path / "a" / "qlsp.toml"


def test_a_link_is_looked_up_where_it_stands(tmp_path: Path) -> None:
    for name, mode in (("a", "ptq"), ("b", "qat")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "qlsp.toml").write_text(f'mode = "{mode}"\n[per-file-ignores]\n"{name}.py" = ["QL1"]\n')
    (tmp_path / "a" / "a.py").write_text("")
    (tmp_path / "b" / "b.py").symlink_to(tmp_path / "a" / "a.py")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    resolver = Resolver()
    assert resolver.of(str(tmp_path / "b" / "b.py")).mode == "qat"
    linked = str(tmp_path / "c" / "a.py")
    assert resolver.of(linked).mode == "ptq" and not selected(resolver.of(linked), CAT, linked)


def test_options_stand_above_every_file_and_origins_are_told(tmp_path: Path) -> None:
    (tmp_path / "qlsp.toml").write_text('mode = "qat"\npreview = true\n[severity]\nQL1 = "info"\nQL2 = "off"\n')
    resolver = Resolver(
        config_args=['severity.QL2 = "error"', 'mode = "ptq"', "horizon.rescale-us = 3"],
        overrides={"--workflow": ("workflow", "fx")},
    )
    resolved = resolver.resolved(str(tmp_path / "net.py"))
    file = str(tmp_path / "qlsp.toml")
    config = resolved.config
    assert (config.mode, config.workflow, config.preview) == ("ptq", "fx", True)
    assert config.severity == {"QL1": "info", "QL2": "error"} and resolved.file == Path(file)
    assert {
        key: resolved.origin(*key)
        for key in (("mode",), ("workflow",), ("preview",), ("severity", "QL1"), ("severity", "QL2"), ("src",))
    } == {
        ("mode",): '--config mode = "ptq"',
        ("workflow",): "--workflow",
        ("preview",): file,
        ("severity", "QL1"): file,
        ("severity", "QL2"): '--config severity.QL2 = "error"',
        ("src",): "default",
    }
    assert resolved.origin("horizon", "rescale-us") == "--config horizon.rescale-us = 3"
    assert resolved.origin("horizon", "march") == "default"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('select = ["QL999"]', "unknown rule QL999 in select"),
        ('[per-file-ignores]\n"*" = ["cat-mixed"]', "unknown rule cat-mixed in per-file-ignores; did you mean cat-"),
        ('packages = {x = "tourch"}', "packages.x: no table is about tourch; did you mean torch?"),
        ('ops = {"x.y" = "torch.addd"}', "ops.x.y: no operator is called torch.addd; did you mean torch.add?"),
        ('ops = {"x y" = "torch.add"}', "ops: expected a dotted name, got 'x y'"),
        ('ops = {"x" = "torch add"}', "ops.x: expected a dotted name, got 'torch add'"),
        ('roots = ["models/net.py"]', "roots: expected a dotted name, got 'models/net.py'"),
        ('roots = "Net"', "roots: expected a list of dotted names, got 'Net'"),
        ('torch = "latest"', 'torch: expected a version as a string, such as "2.5", got \'latest\''),
        ("horizon.rescale-us = -1", "horizon.rescale-us: expected a number that is not negative"),
        ("horizon.rescale-us = nan", "horizon.rescale-us: expected a number that is not negative"),
        ("x = " + "[" * 100_000, ""),
        ("[mode]\n[mode]", "Cannot declare"),
        ("\x00", ""),
    ],
)
def test_a_wrong_value_in_a_file_is_one_line_with_the_place(tmp_path: Path, content: str, text: str) -> None:
    (tmp_path / "qlsp.toml").write_text(content)
    with pytest.raises(ConfigError) as caught:
        Resolver(check=validate).of(str(tmp_path / "net.py"))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'qlsp.toml'}: ") and text in message and "\n" not in message


def test_the_file_is_not_blamed_for_an_option(tmp_path: Path) -> None:
    (tmp_path / "qlsp.toml").write_text('mode = "qat"\n')
    with pytest.raises(ConfigError, match=r"^unknown rule ABCDE in select$"):
        Resolver(overrides={"--select": ("select", ("ABCDE",))}, check=validate).of(str(tmp_path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "qlsp.toml").write_text("")
    (tmp_path / "qlsp.toml").chmod(0)
    if os.access(tmp_path / "qlsp.toml", os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(ConfigError, match=r"qlsp\.toml: cannot be read: Permission denied"):
        Resolver().of(str(tmp_path))


def test_values_are_shown_as_toml_that_reads_back() -> None:
    arguments = [f"{key} = {text}" for key, (text, _) in VALUES.items() if key not in ("severity", "packages", "ops")]
    config = options(*arguments)
    shown = [f"{key} = {as_toml(value)}" for key, value in values_of(config).items() if value is not None]
    assert options(*shown) == config
    assert as_toml({"a b": 'x"\x7f', "c": [1.5, True]}) == '{ "a b" = "x\\"\\u007f", c = [1.5, true] }'


def test_fixable() -> None:
    assert fixable(Config(), CAT)
    assert not fixable(Config(unfixable=("QL1",)), CAT) and fixable(Config(unfixable=("QL1",)), STUB)
    assert not fixable(Config(fixable=("QL2",)), CAT)
    assert fixable(Config(fixable=("QL", "QL101"), unfixable=("QL1",)), CAT)
    assert not fixable(Config(fixable=("QL1",), unfixable=("QL1",)), CAT)


Selectors = tuple[str, ...]
WORDS = st.sampled_from(["QL", "QL1", "QL2", "QL10", "QL101", "QL201", "cat-mixed-scales"])
SELECTORS = st.lists(WORDS, max_size=3).map(tuple)


@given(SELECTORS, SELECTORS, SELECTORS)
def test_an_exact_selector_beats_a_shorter_one(select: Selectors, ignore: Selectors, more: Selectors) -> None:
    config = Config(select=select, ignore=ignore, extend_select=more)

    def exact(selectors: Selectors) -> bool:
        return CAT.code in selectors or CAT.name in selectors

    if exact(ignore):
        assert not selected(config, CAT)
    elif exact((*select, *more)):
        assert selected(config, CAT)
    if not select and not more:
        assert not selected(config, CAT)
    assert selected(replace(config, ignore=()), CAT) >= selected(config, CAT)


# What the configuration does to a run

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


def codes(texts: Mapping[str, str], config: Configs) -> list[str]:
    result = check(list(texts), config, texts)
    return [f"{item.place.path} {item.code} {item.severity.value}" for item in result.diagnostics]


def test_files_of_one_run_keep_their_own_configurations(tmp_path: Path) -> None:
    for name, text in (("a", 'ignore = ["QL101"]\n'), ("b", 'severity.QL101 = "info"\n'), ("c", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "qlsp.toml").write_text(text)
    (tmp_path / "c" / "qlsp.toml").write_text('workflow = "fx"\n')
    (tmp_path / "d").mkdir()
    texts = {str(tmp_path / name / "net.py"): NET for name in "abcd"}
    found = codes(texts, Resolver())
    assert found == [f"{tmp_path / 'b' / 'net.py'} QL101 info", f"{tmp_path / 'd' / 'net.py'} QL101 error"]


def test_packages_are_renamed() -> None:
    text = NET.replace("torch.ao.quantization", "mine.quant")
    assert codes({"net.py": text}, Config()) == []
    config = Config(packages={"mine.quant": "torch.ao.quantization"})
    assert codes({"net.py": text}, config) == ["net.py QL101 error"]
    vendor = NET.replace("torch.ao.quantization", "my_plugin.quantization")
    assert codes({"net.py": vendor}, Config(packages={"my_plugin": "horizon_plugin_pytorch"})) == []


@pytest.mark.parametrize("view", ["no", "import", "from", "here"])
def test_operators_are_renamed(view: str) -> None:
    own = "def join(tensors, dim):\n    return tensors[0]\n"
    call = {"no": "my_ops.join", "import": "my_ops.join", "from": "join", "here": "join"}[view]
    head = {"no": "import my_ops", "import": "import my_ops", "from": "from my_ops import join", "here": own}[view]
    texts = {"net.py": f"{head}\n{NET.replace('torch.cat', call)}"}
    if view in ("import", "from"):
        texts["my_ops.py"] = own
    name = "net.join" if view == "here" else "my_ops.join"
    assert codes(texts, Config()) == []
    assert codes(texts, Config(ops={name: "torch.cat"})) == ["net.py QL101 error"]
    assert codes(texts, Config(ops={name: "torch.concat"})) == ["net.py QL101 error"]


INNER = NET.replace("class Net", "class Inner").replace("self.dequant(torch.cat([a, b], 1))", "torch.cat([a, b], 1)")
OUTER = """

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
"""


@pytest.mark.parametrize("root", ["Inner", "net.Inner", "models.net.Inner"])
def test_roots_are_judged_on_their_own(root: str) -> None:
    texts = {"net.py": INNER + OUTER}
    assert codes(texts, Config()) == codes(texts, Config(roots=("Other", "other.Inner"))) == []
    assert codes(texts, Config(roots=(root,))) == ["net.py QL101 error"]


def test_source_folders_are_those_of_the_importing_file(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "neck.py").write_text("import torch\n\n\ndef join(a, b):\n    return torch.cat([a, b], 1)\n")
    text = "from neck import join\n" + NET.replace("torch.cat([a, b], 1)", "join(a, b)")
    net, neck = str(tmp_path / "net.py"), str(tmp_path / "lib" / "neck.py")
    texts = {net: text, neck: Path(neck).read_text()}
    assert codes(texts, Resolver()) == []
    (tmp_path / "qlsp.toml").write_text('src = ["lib"]\n')
    assert codes(texts, Resolver()) == [f"{neck} QL101 error"]
