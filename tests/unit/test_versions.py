"""Where the version of torch comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from qlsp.config import Config
from qlsp.engine import check
from qlsp.versions import oldest_torch, parse, torch_version

OLD = "from torch.ao.quantization.quantize_pt2e import prepare_pt2e\n"


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.13.0+cpu", (2, 13, 0)), ("1.10", (1, 10)), (" 2.0a1 ", (2, 0)), ("nightly", ()), ("", ())],
)
def test_the_numbers_of_a_version(text: str, version: tuple[int, ...]) -> None:
    assert parse(text) == version


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "numpy>=1.2\ntorch==2.5.1\ntorchvision==0.20.1\n"),
        ("requirements.txt", "torch == 2.5.1+cu121\n"),
        ("pyproject.toml", '[project]\ndependencies = [\n  "torch==2.5.1",\n]\n'),
        ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.5.1"\n'),
        ("poetry.lock", '[[package]]\nname = "torch"\nversion = "2.5.1"\ndescription = ""\n'),
        ("environment.yml", "dependencies:\n  - python=3.11\n  - torch=2.5.1\n"),
    ],
)
def test_a_file_pins_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    version = torch_version(Config(root=str(tmp_path)))
    assert version is not None and version[:3] == (2, 5, 1)


@pytest.mark.parametrize(
    "text",
    ["torch>=2.0\n", "torchvision==0.20.1\n", "pytorch-lightning==2.0\n", "torch==2.5.1\ntorch==2.6.0\n", "\xff"],
)
def test_nothing_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "requirements.txt").write_bytes(text.encode("latin-1"))
    assert torch_version(Config(root=str(tmp_path))) is None


@pytest.mark.parametrize(
    ("text", "version", "found"),
    [
        ('"torch>=1.7.0",\n', (1, 7, 0), 0),
        ("torch>=1.7,<2.1\n", (1, 7), 0),
        ("torch~=1.10\ntorch>=2.4\n", (1, 10), 0),
        ("torch>=2.1\n", (2, 1), 1),
        ("torch\n", None, 1),
        ("torchvision>=0.9\npytorch-lightning>=1.2\n", None, 1),
    ],
)
def test_an_old_namespace_is_no_matter_where_requirements_allow_a_torch_that_has_no_other(
    tmp_path: Path, text: str, version: tuple[int, ...] | None, found: int
) -> None:
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    config = Config(root=str(tmp_path), environment="")
    assert oldest_torch(config) == version
    file = tmp_path / "stubs.py"
    file.write_text("from torch.quantization import QuantStub\n", encoding="utf-8")
    assert [d.code for d in check([str(file)], config).diagnostics] == ["QL901"] * found


def test_the_configuration_comes_first_then_the_environment(tmp_path: Path) -> None:
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    (packages / "torch-2.9.1+cpu.dist-info").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch==2.5.1\n", encoding="utf-8")
    config = Config(root=str(tmp_path), environment="env")
    assert torch_version(config) == (2, 9, 1)
    assert torch_version(Config(root=str(tmp_path), environment="env", torch="1.13")) == (1, 13)


def test_the_version_decides_what_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "lower.py"
    file.write_text(OLD, encoding="utf-8")
    assert [d.code for d in check([str(file)], Config(root=str(tmp_path))).diagnostics] == ["QL707"]
    (tmp_path / "uv.lock").write_text('name = "torch"\nversion = "2.5.1"\n', encoding="utf-8")
    other = tmp_path / "project"
    other.mkdir()
    (other / "uv.lock").write_text('name = "torch"\nversion = "2.5.1"\n', encoding="utf-8")
    assert [d.code for d in check([str(file)], Config(root=str(other))).diagnostics] == []
