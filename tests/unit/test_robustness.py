"""Bad input: every file gets an answer, and the file beside it is still checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BESIDE = """\
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
        return self.dequant(torch.cat([a, b], dim=1))
"""
"""A file with one finding, checked together with each bad one."""

CLEAN, BROKEN, ANY = "clean", "broken", "any"
"""No QL001; at least one QL001; either (it depends on the Python that runs)."""

MODEL_HEAD = "import torch\nfrom torch import nn\nfrom torch.ao.quantization import QuantStub\n"


def quant(data: bytes) -> bytes:
    """The same below a comment with a word that makes the file worth parsing."""
    return b"# QuantStub\n" + data


def model(*lines: str) -> bytes:
    """A file with a model whose ``forward`` has these lines."""
    body = "".join(f"        {line}\n" for line in lines)
    head = "class Net(nn.Module):\n    def __init__(self):\n        self.q = QuantStub()\n"
    return (MODEL_HEAD + head + "    def forward(self, x):\n" + body).encode()


FILES: dict[str, tuple[bytes, str]] = {
    # Text
    "empty": (b"", CLEAN),
    "byte order mark": (b"\xef\xbb\xbf", CLEAN),
    "byte order mark and code": (b"\xef\xbb\xbf" + BESIDE.encode(), CLEAN),
    "comment without line break": (b"# QuantStub", CLEAN),
    "white space": (quant(b" \n\t\n \t "), CLEAN),
    "line continuation at the end": (quant(b"x = 1\n\\\n"), ANY),
    "carriage returns": (BESIDE.replace("\n", "\r").encode(), CLEAN),
    "mixed line breaks": (BESIDE.replace("\n", "\r\n", 5).encode(), CLEAN),
    "form feed": (b"\x0c\n" + BESIDE.encode() + b"\x0c\n", CLEAN),
    "unusual line separators": (
        BESIDE.replace("torch.cat", "'\u2028\x85\x0b' and torch.cat").encode(),
        CLEAN,
    ),
    "null byte": (quant(b"x = 1\x00\n"), BROKEN),
    "null bytes only": (quant(b"\x00" * 4096), BROKEN),
    "control character": (quant(b"x = \x01\n"), BROKEN),
    "not UTF-8": (b"x = '\xff'\n", BROKEN),
    "cut in a character": ("x = '名'".encode()[:-2], BROKEN),
    "UTF-16": (BESIDE.encode("utf-16"), BROKEN),
    "Latin-1 with its cookie": ("# coding: latin-1\nx = 'é'\n".encode("latin-1"), CLEAN),
    "GBK with its cookie": ("# -*- coding: gbk -*-\nx = '量化'\n".encode("gbk"), CLEAN),
    "unknown cookie": (b"# coding: no-such-encoding\nx = 1\n", BROKEN),
    "cookie against the byte order mark": (b"\xef\xbb\xbf# coding: latin-1\nx = 1\n", BROKEN),
    "binary": (bytes(range(256)) * 64, BROKEN),
    "surrogate escape in a string": (quant(b"x = '\\ud800'\n"), CLEAN),
    # Syntax
    "open bracket": (quant(b"x = (1,\n"), BROKEN),
    "open string": (quant(b'x = """abc\n'), BROKEN),
    "half a call": (BESIDE.replace("[a, b], dim=1))", "[a, ").encode(), BROKEN),
    "Python 2": (quant(b"print 'x'\n"), BROKEN),
    "merge conflict": (quant(b"<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n"), BROKEN),
    "notebook magic": (quant(b"%matplotlib inline\n!pip install torch\n"), BROKEN),
    "wrong indentation": (quant(b"if x:\ny = 1\n"), BROKEN),
    "tabs and spaces": (quant(b"if x:\n    if y:\n\tz = 1\n"), ANY),
    "tabs": (BESIDE.replace("    ", "\t").encode(), CLEAN),
    "newer syntax": (quant(b"type X[T = int] = list[T]\n"), ANY),
    "return outside a function": (quant(b"return 1\n"), ANY),
    "JSON": (quant(b'{"cells": [null, true]}'), CLEAN),
    # Size and depth
    "nested brackets": (quant(b"x = " + b"(" * 5000 + b")" * 5000 + b"\n"), ANY),
    "nested lists": (quant(b"x = " + b"[" * 90 + b"]" * 90 + b"\n"), CLEAN),
    "long sum": (model("return " + " + ".join(["x"] * 20_000)), ANY),
    "long attribute": (model("return x" + ".y" * 20_000), ANY),
    "long chain of calls": (model("return x" + ".relu()" * 5_000), ANY),
    "deep indentation": (
        quant(b"".join(b" " * n + b"if x:\n" for n in range(99)) + b" " * 99 + b"pass\n"),
        ANY,
    ),
    "long elif": (model("if x: pass", *(f"elif x == {n}: pass" for n in range(3000))), ANY),
    "long line": (quant(b"x = '" + b"a" * 1_000_000 + b"'\n"), CLEAN),
    "many lines": (quant(b"x = 1\n" * 50_000), CLEAN),
    "many branches": (model(*(f"y = self.q(x) if x.a{n} else x" for n in range(200)), "return y"), CLEAN),
    # Code that goes in circles
    "endless loop": (model("while True:", "    x = self.q(x)", "return x"), CLEAN),
    "recursive forward": (model("return self.forward(self.q(x))"), CLEAN),
    "list in itself": (model("y = []", "y.append(y)", "return torch.cat(y)"), CLEAN),
    "class of itself": (
        MODEL_HEAD.encode() + b"class A(A):\n    pass\nclass B(C): pass\nclass C(B): pass\n",
        CLEAN,
    ),
    "import of itself": (b"from bad import *\nimport bad\nfrom . import bad\nfrom ... import x\n", CLEAN),
    "huge range": (model("for i in range(10**12):", "    x = self.q(x)", "return x"), CLEAN),
    "huge power": (model("y = 10 ** 10 ** 10", "return x * (2 ** 99999999)"), CLEAN),
    "huge repetition": (model("y = [x] * 10**9", "return torch.cat(y)"), CLEAN),
    "huge shift": (model("return x * (1 << (1 << 60))"), CLEAN),
}


def check(folder: Path, *paths: str) -> tuple[int, list[dict[str, object]], str]:
    """Exit status, findings and stderr of a run; a run that hangs fails."""
    command = [sys.executable, "-m", "qlsp", "check", "--isolated", "--output-format", "json", *paths]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode in (0, 1, 2), f"status {run.returncode}: {run.stderr[-2000:]}"
    return run.returncode, json.loads(run.stdout), run.stderr


def found(findings: list[dict[str, object]], filename: str) -> list[object]:
    return [item["code"] for item in findings if item["filename"] == filename]


@pytest.mark.parametrize("name", FILES)
def test_bad_file(tmp_path: Path, name: str) -> None:
    data, expected = FILES[name]
    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "net.py").write_text(BESIDE)
    status, findings, err = check(tmp_path, "bad.py", "net.py")
    codes = found(findings, "bad.py")
    assert (status, err) == (1, "")
    assert found(findings, "net.py") == ["QL101"]
    assert "QL003" not in codes
    if expected != ANY:
        assert ("QL001" in codes) is (expected == BROKEN), codes
    for item in findings:
        location, end = item["location"], item["end_location"]
        assert isinstance(location, dict) and isinstance(end, dict)
        assert (1, 1) <= (location["row"], location["column"]) <= (end["row"], end["column"])


def test_all_bad_files_in_one_run(tmp_path: Path) -> None:
    for number, (data, _) in enumerate(FILES.values()):
        (tmp_path / f"bad{number}.py").write_bytes(data)
    (tmp_path / "net.py").write_text(BESIDE)
    status, findings, err = check(tmp_path, ".")
    assert (status, err, found(findings, "net.py")) == (1, "", ["QL101"])


def test_a_broken_method_hides_itself_only(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BESIDE + "\n    def half(self):\n        return (1,\n")
    _, findings, _ = check(tmp_path, "net.py")
    assert sorted(map(str, found(findings, "net.py"))) == ["QL001", "QL101"]


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BESIDE)
    (tmp_path / "bad.py").chmod(0)
    if os.access(tmp_path / "bad.py", os.R_OK):
        pytest.skip("this user may read everything")
    (tmp_path / "net.py").write_text(BESIDE)
    status, findings, _ = check(tmp_path, ".")
    assert (status, found(findings, "bad.py"), found(findings, "net.py")) == (1, ["QL001"], ["QL101"])


def test_links_to_nothing_and_to_themselves(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "dangling.py").symlink_to("absent.py")
    (tmp_path / "net.py").write_text(BESIDE)
    status, findings, _ = check(tmp_path, ".")
    assert (status, found(findings, "net.py"), len(findings)) == (1, ["QL101"], 1)
    status, findings, _ = check(tmp_path, "loop.py", "dangling.py", "net.py")
    assert status == 1 and found(findings, "loop.py") == found(findings, "dangling.py") == ["QL001"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_a_folder_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "net.py").write_text(BESIDE)
    status, findings, _ = check(tmp_path, ".")
    assert (status, found(findings, "net.py")) == (1, ["QL101"])


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BESIDE)
    status, findings, err = check(tmp_path, "x" * 5000 + ".py", "net.py")
    assert status == 2 and "no such file" in err and found(findings, "net.py") == ["QL101"]
