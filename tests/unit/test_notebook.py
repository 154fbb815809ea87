"""Notebooks: cells as one program, magics tolerated, places in cells, fixes that change nothing else."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlsp import cli
from qlsp.notebook import _python, decode, rewritten, source_of
from qlsp.text import Edit, SourceError, Span, encode

IMPORTS = ["%matplotlib inline\n", "!pip install 'torch'\n", "import torch\n", "from torch import nn"]
STUBS = "from torch.ao.quantization import DeQuantStub, QuantStub\n"
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant_a, self.quant_b, self.dequant = QuantStub(), QuantStub(), DeQuantStub()
        self.a, self.b = nn.Conv2d(4, 8, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x, y):
        a = self.a(self.quant_a(x))  # 量化 🚀
        b = self.b(self.quant_b(y))
        return self.dequant(torch.cat([a, b], 1))"""


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": source, **more}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


OUTPUT = {"output_type": "stream", "name": "stdout", "text": ['{"source": ["not this"]}\n']}
CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# A net\n", "with *text*"]},
    code(IMPORTS, outputs=[OUTPUT]),
    code(["%%bash\n", "echo 'def f(:'"]),
    code(lines(STUBS + NET), z=1, a=2),
    code("%%time\nnet = Net()\n!ls"),
]


def notebook(cells: list[Any] = CELLS, **metadata: Any) -> dict[str, Any]:
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(capsys: Any, *arguments: str) -> list[tuple[str, int | None, int, int, str]]:
    capsys.readouterr()
    cli.main(["check", "--isolated", "--output-format", "json", *arguments])
    records = json.loads(capsys.readouterr().out)
    return [
        (r["filename"], r["cell"], r["location"]["row"], r["location"]["column"], r["code"]) for r in records
    ]  # fmt: skip


FORMS: dict[str, dict[str, Any]] = {
    "as Jupyter writes": {"indent": 1, "ensure_ascii": False},
    "ascii": {"indent": 1, "ensure_ascii": True},
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "four": {"indent": 4, "ensure_ascii": False},
    "tabs": {"indent": "\t", "ensure_ascii": False, "sort_keys": True},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_fix_changes_the_sources_of_its_cells_only(
    project: Path, capsys: Any, form: dict[str, Any], newline: str
) -> None:
    text = json.dumps(notebook(), **form).replace("\n", newline) + newline
    path = project / "net.ipynb"
    path.write_bytes(text.encode())
    assert found(capsys, "net.ipynb") == [("net.ipynb", 4, 11, 29, "QL101")]
    assert cli.main(["check", "--isolated", "--fix", "net.ipynb"]) == 0
    after = path.read_bytes().decode()
    old, new = json.loads(text), json.loads(after)
    changed = {number for number, (a, b) in enumerate(zip(old["cells"], new["cells"], strict=True)) if a != b}
    assert changed == {3}
    assert "self.cat.cat([a, b], 1)" in "".join(new["cells"][3]["source"])
    assert all(line.endswith("\n") for line in new["cells"][3]["source"][:-1])
    expected = dict(old)
    expected["cells"] = [new["cells"][3] if number == 3 else cell for number, cell in enumerate(old["cells"])]
    assert after == json.dumps(expected, **form).replace("\n", newline) + newline
    assert found(capsys, "net.ipynb") == []


def test_folders_are_searched_for_notebooks(project: Path, capsys: Any) -> None:
    (project / "deep").mkdir()
    (project / "deep" / "net.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    assert [item[:2] for item in found(capsys)] == [("deep/net.ipynb", 4)]
    cli.main(["check", "--isolated", "--output-format", "concise"])
    assert capsys.readouterr().out.startswith("deep/net.ipynb:cell 4:11:29: QL101")


def test_standard_input(project: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    data = json.dumps(notebook()).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert found(capsys, "-", "--stdin-filename", "a.ipynb") == [("a.ipynb", 4, 11, 29, "QL101")]


def test_suppression_comments(project: Path, capsys: Any) -> None:
    path = project / "net.ipynb"
    path.write_text(json.dumps(notebook(), indent=1), encoding="utf-8")
    assert cli.main(["check", "--isolated", "--add-ignore", "net.ipynb"]) == 0
    source = json.loads(path.read_text(encoding="utf-8"))["cells"][3]["source"]
    assert source[-1].endswith("# qlsp: ignore[QL101] -- TODO: reason")
    path.write_text(json.dumps(notebook([code(["x = 1  # qlsp: ignore[QL101]"])])), encoding="utf-8")
    assert [item[4] for item in found(capsys, "net.ipynb")] == ["QL002"]


def test_inspect_counts_rows_in_the_cell(project: Path, capsys: Any) -> None:
    (project / "net.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    assert cli.main(["inspect", "net.ipynb", "--output-format", "json"]) == 0
    (root,) = json.loads(capsys.readouterr().out)["roots"]
    assert [site["row"] for site in root["sites"] if site["op"] == "cat"] == [11]


def test_a_syntax_error_hides_its_statement_only(project: Path, capsys: Any) -> None:
    cells = [*CELLS, code(["def f(:\n"])]
    (project / "net.ipynb").write_text(json.dumps(notebook(cells)), encoding="utf-8")
    assert [(item[1], item[4]) for item in found(capsys, "net.ipynb")] == [(4, "QL101"), (6, "QL001")]


@pytest.mark.parametrize(
    "metadata",
    [{"language_info": {"name": "R"}}, {"kernelspec": {"language": "julia"}}, {"language_info": {"name": "scala"}}],
)
def test_other_languages_are_left_alone(metadata: dict[str, Any]) -> None:
    text = json.dumps(notebook([code("library(torch) <- ("), code("x")], **metadata))
    assert source_of("a.ipynb", text).segments[0].text == ""


@pytest.mark.parametrize("metadata", [{"language_info": {"name": "python"}}, {"kernelspec": {"name": "x"}}, {}])
def test_python_is_read(metadata: dict[str, Any]) -> None:
    assert source_of("a.ipynb", json.dumps(notebook([code("x")], **metadata))).segments[0].text == "x"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"worksheets": []}',
        b'{"cells": 3}',
        b'{"cells": [3]}',
        b'{"cells": [{"cell_type": "code"}]}',
        b'{"cells": [{"cell_type": "code", "source": 3}]}',
        b'{"cells": [{"cell_type": "code", "source": [3]}]}',
        b"\xff\xfe{}",
        b"[" * 100_000,
    ],
)
def test_what_is_no_notebook(project: Path, capsys: Any, data: bytes) -> None:
    (project / "bad.ipynb").write_bytes(data)
    with pytest.raises(SourceError):
        decode("bad.ipynb", data)
    assert [item[4] for item in found(capsys, "bad.ipynb")] == ["QL001"]


# --- magics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "masked"),
    [
        ("x = 1\n", "x = 1\n"),
        ("%matplotlib inline\nx", "pass#lotlib inline\nx"),
        ("!ls", "#ls"),
        ("!pip", "pass"),
        ("!cat a 'b\nx", "pass#a 'b\nx"),
        ("if x:\n    !pip install a\ny", "if x:\n    pass#install a\ny"),
        ("files = !ls -l\nx", "files = 0#s -l\nx"),
        ("t = %timeit -o f()\nx", "t = 0#imeit -o f()\nx"),
        ("?print\nx?\nx??\ny", "pass#t\n#?\n#??\ny"),
        ("!pip install \\\n  a \\\n  b\nx", "pass#nstall \\\n  #\\\n  #\nx"),
        ("%%time\nx", "pass#e\nx"),
        ("%%capture out\nx", "pass#ture out\nx"),
        ('s = """\n%d\n"""\n!ls\n', 's = """\n%d\n"""\n#ls\n'),
        ("s = ('%d'\n  % x)\n!ls\n", "s = ('%d'\n  % x)\n#ls\n"),
        ("x = 5 \\\n% 3\n!ls", "x = 5 \\\n% 3\n#ls"),
    ],
)
def test_magics_become_code_of_their_length(cell: str, masked: str) -> None:
    result = _python(cell)
    assert result is not None and len(result) == len(cell)
    if "\\\n  a" not in cell:
        assert result == masked
    ast.parse(result)


@pytest.mark.parametrize("cell", ["%%bash\nls -l", "%%html\n<b>", "%%writefile a.py\nx = 1", "\n%%sh\nx"])
def test_cells_in_other_languages_are_no_code(cell: str) -> None:
    assert _python(cell) is None


@given(st.text(alphabet="ab%!?=\\\n '\"(#"))
def test_masking_keeps_length_and_lines(cell: str) -> None:
    result = _python(cell)
    assert result is None or (len(result), result.count("\n")) == (len(cell), cell.count("\n"))


strings = st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=4)
values = st.one_of(st.text(), strings, st.integers(), st.none(), st.dictionaries(st.text(), st.text(), max_size=3))
cells = st.builds(
    lambda kind, source, more: {**more, "cell_type": kind, "source": source, "more": more},
    st.sampled_from(["code", "markdown", "raw"]),
    st.one_of(st.text(st.characters(exclude_categories=("Cs",))), strings),
    st.dictionaries(st.text(), values, max_size=3),
)


@given(st.lists(cells, max_size=5), st.sampled_from(list(FORMS.values())), st.data())
def test_rewriting_one_cell_changes_its_source_alone(
    parts: list[dict[str, Any]], form: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(notebook(parts), **form)
    source = source_of("a.ipynb", text)
    assert encode(source) == text.encode("utf-8")
    assert rewritten(source, []) == text
    numbers = [n for n, segment in enumerate(source.segments) if segment.cell is not None]
    if not numbers:
        return
    number = data.draw(st.sampled_from(numbers))
    segment = source.segments[number]
    offset = data.draw(st.integers(0, len(segment.text)))
    after = rewritten(source, [Edit("a.ipynb", Span(offset, offset, number), "new\nlines")])
    assert segment.cell is not None
    expected = json.loads(text)
    old = "".join(expected["cells"][segment.cell - 1]["source"])
    got = json.loads(after)
    assert "".join(got["cells"][segment.cell - 1].pop("source")) == old[:offset] + "new\nlines" + old[offset:]
    expected["cells"][segment.cell - 1].pop("source")
    assert got == expected
