"""The files of a run: named ones as they are, folders searched, what git ignores left out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qlsp.config import Config, Resolver
from qlsp.discover import collect


def tree(folder: Path, *names: str, **texts: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for name, text in texts.items():
        (folder / name).write_text(text)


def found(folder: Path, *named: str, config: Config | None = None) -> list[str]:
    paths = collect([str(folder / name) for name in named or (".",)], config or Config(root=str(folder))).paths
    return sorted(Path(path).resolve().relative_to(folder.resolve()).as_posix() for path in paths)


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "gen/b.py", "gen/keep.py", "sub/gen/c.py", "sub/old_d.py", "sub/e.py", "sub/deep/x.py")
    (tmp_path / ".gitignore").write_text("# generated\ngen/*\n!gen/keep.py\n\nold_*\n[\n")
    (tmp_path / "sub" / ".gitignore").write_text("/deep/\r\n!old_d.py\r\n")
    assert found(tmp_path) == ["a.py", "gen/keep.py", "sub/e.py", "sub/gen/c.py", "sub/old_d.py"]
    everything = found(tmp_path, config=Config(root=str(tmp_path), respect_gitignore=False))
    assert len(everything) == 7
    assert found(tmp_path, "gen/b.py", "sub/deep/x.py") == ["gen/b.py", "sub/deep/x.py"]


def test_files_above_count_within_a_repository(tmp_path: Path) -> None:
    tree(tmp_path, "repo/models/a.py", "repo/models/gen/b.py", "repo/models/c_local.py")
    (tmp_path / ".gitignore").write_text("*.py\n")
    (tmp_path / "repo" / ".gitignore").write_text("gen/\n")
    models = tmp_path / "repo" / "models"
    assert found(models) == ["a.py", "c_local.py", "gen/b.py"]
    (tmp_path / "repo" / ".git" / "info").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "info" / "exclude").write_text("*_local.py\n")
    assert found(models) == ["a.py"]
    assert found(models / "gen") == ["b.py"], "a folder that is named is searched"


def test_configurations_below_a_searched_folder_count(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.py", "a/y.py", "a/raw/z.py", "b/x.py", "b/raw/z.py")
    (tmp_path / "qlsp.toml").write_text('extend-exclude = ["raw"]\n')
    (tmp_path / "a" / "qlsp.toml").write_text('extend-exclude = ["x.py"]\n')
    paths = collect([str(tmp_path)], Resolver()).paths
    assert [Path(p).relative_to(tmp_path).as_posix() for p in paths] == ["a/y.py", "a/raw/z.py", "b/x.py"]


PATTERNS = st.lists(
    st.sampled_from(
        [
            *("a", "a/", "/a", "/a/", "*.py", "b.py", "!b.py", "a/b.py", "**/c", "c/**", "!c/", "a/*/b.py", "?.py"),
            *("#x", "\\#x", "!a/**/b.py", "**/a/**", "[a-b].py", "[!b].py", "[^b].py", "[", "b.p[", "b.py ", "*", "/*"),
            *("!*/", "c/a", "**", "/**/b.py", "**.py", "c**", "\\b.py", "[]b].py", "  ", "!", "/"),
        ]
    ),
    max_size=4,
)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=PATTERNS, inner=PATTERNS)
def test_git_agrees(tmp_path_factory: pytest.TempPathFactory, top: list[str], inner: list[str]) -> None:
    folder = tmp_path_factory.mktemp("repository")
    tree(folder, "a/b.py", "a/c/b.py", "b.py", "c/a/b.py", "c/c/x.py")
    (folder / ".gitignore").write_text("\n".join(top))
    (folder / "c" / ".gitignore").write_text("\n".join(inner))
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    command = ["git", "-C", str(folder), "ls-files", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert found(folder) == sorted(listed)
