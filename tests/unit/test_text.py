"""Offsets, lines, columns, code units; reading files and writing them back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlsp.text import LineIndex, Segment, Source, SourceError, Span, Units, encode, read_source

UNITS: tuple[Units, ...] = ("utf-8", "utf-16", "utf-32")
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
TEXT = st.text(st.sampled_from("ab\n\r\f\v\x1c\x85\u2028\u2029é中😀\t"), max_size=40)


def test_lines_break_at_cr_lf_and_crlf_only() -> None:
    text = "a\r\nb\rc\nd\fe\vf\x1cg\x85h\u2028i\u2029j\n"
    index = LineIndex(text)
    assert len(index) == 5
    assert [index.line_text(row) for row in range(1, 6)] == [
        "a", "b", "c", "d\fe\vf\x1cg\x85h\u2028i\u2029j", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (1, 1)),
        (1, (1, 2)),
        (3, (2, 1)),
        (5, (3, 1)),
        (6, (3, 2)),
        (7, (4, 1)),
        (99, (4, 1)),
        (-1, (1, 1)),
    ],
)
def test_position(offset: int, expected: tuple[int, int]) -> None:
    assert LineIndex("a\r\nb\r😀\n").position(offset) == expected


@pytest.mark.parametrize(
    ("row", "column", "expected"),
    [(1, 1, 0), (1, 2, 1), (1, 99, 1), (2, 1, 3), (3, 2, 6), (0, 5, 0), (9, 1, 7), (2, 0, 3), (4, 1, 7)],
)
def test_offset_is_clamped_to_the_line(row: int, column: int, expected: int) -> None:
    assert LineIndex("a\r\nb\r😀\n").offset(row, column) == expected


@pytest.mark.parametrize(
    ("encoding", "columns"),
    [("utf-8", [0, 1, 3, 6, 10, 11]), ("utf-16", [0, 1, 2, 3, 5, 6]), ("utf-32", [0, 1, 2, 3, 4, 5])],
)
def test_units(encoding: Units, columns: list[int]) -> None:
    index = LineIndex("x\naé中😀b\ny")
    assert [index.to_units(2, column, encoding) for column in range(1, 7)] == columns
    assert [index.from_units(1, column, encoding) for column in columns] == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("encoding", "units", "expected"),
    [
        ("utf-16", 1, 0),
        ("utf-16", 2, 1),
        ("utf-8", 3, 0),
        ("utf-8", 4, 1),
        ("utf-8", 99, 2),
        ("utf-16", -5, 0),
    ],
)
def test_a_column_inside_a_character_is_its_start(encoding: Units, units: int, expected: int) -> None:
    assert LineIndex("😀b\r\nc").from_units(0, units, encoding) == expected


def test_rows_outside_the_text_are_clamped() -> None:
    index = LineIndex("ab\ncd")
    assert index.from_units(-1, 3, "utf-16") == 0
    assert index.from_units(2, 0, "utf-16") == 5
    assert index.from_units(0, 99, "utf-16") == 2


def test_lone_surrogates_have_a_width() -> None:
    index = LineIndex("\ud800x")
    assert index.to_units(1, 2, "utf-16") == 1
    assert index.to_units(1, 2, "utf-8") == 3


@given(TEXT)
def test_positions_go_back_to_their_offsets(text: str) -> None:
    index = LineIndex(text)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n" and offset:
            continue
        assert index.offset(*index.position(offset)) == offset


@given(TEXT, st.sampled_from(UNITS))
def test_units_go_back_to_their_offsets(text: str, encoding: Units) -> None:
    index = LineIndex(text)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n" and offset:
            continue
        row, column = index.position(offset)
        units = index.to_units(row, column, encoding)
        codec, size = CODECS[encoding]
        assert units * size == len(index.line_text(row)[: column - 1].encode(codec))
        assert index.from_units(row - 1, units, encoding) == offset


def test_source_text_is_that_of_the_only_segment() -> None:
    assert Source.from_text("a.py", "x = 1\n") == Source("a.py", (Segment("x = 1\n"),), "utf-8", False)
    assert Source.from_text("a.py", "x = 1\n").text == "x = 1\n"
    with pytest.raises(ValueError, match="too many"):
        _ = Source("a.ipynb", (Segment("a", 0), Segment("b", 1))).text


def test_span_defaults_to_the_first_segment() -> None:
    assert Span(1, 2) == Span(1, 2, 0)


@pytest.mark.parametrize(
    ("data", "text", "encoding", "bom"),
    [
        (b"", "", "utf-8", False),
        (b"x = 1\r\ny = '\xc3\xa9'\r", "x = 1\r\ny = 'é'\r", "utf-8", False),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", True),
        (b"\xef\xbb\xbf# coding: utf-8\n", "# coding: utf-8\n", "utf-8", True),
        (
            b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
            "# -*- coding: latin-1 -*-\nx = 'é'\n",
            "iso-8859-1",
            False,
        ),
        (
            b"#!/bin/sh\n# vim: set fileencoding=gbk :\n# \xc4\xe3\n",
            "#!/bin/sh\n# vim: set fileencoding=gbk :\n# 你\n",
            "gbk",
            False,
        ),
        (b"# coding: cp1252\n'\x80'", "# coding: cp1252\n'€'", "cp1252", False),
        (b"x = '\0'\n", "x = '\0'\n", "utf-8", False),
        (b"x = 1\n\n# coding: latin-1\n", "x = 1\n\n# coding: latin-1\n", "utf-8", False),
    ],
)
def test_read_and_write_back(tmp_path: Path, data: bytes, text: str, encoding: str, bom: bool) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(data)
    source = read_source(str(path))
    assert source == Source(str(path), (Segment(text),), encoding, bom)
    assert encode(source) == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = '\xff'\n", "cannot be decoded: "),
        (b"x\n\n\n\n'\xff'\n", "cannot be decoded: "),
        (b"# coding: klingon\n", "cannot be decoded: unknown encoding: klingon"),
        (b"# coding: hex\n00\n", "cannot be decoded: "),
        (b"\xef\xbb\xbf# coding: latin-1\n", "cannot be decoded: encoding problem: utf-8"),
        ("x = 1\n".encode("utf-16"), "cannot be decoded: "),
        (b"# coding: utf-7\nx = '+AGE-'\n", "cannot be decoded: utf-7 does not give back the same bytes"),
    ],
)
def test_what_cannot_be_decoded_says_so_in_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        read_source(str(path))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="^cannot be read: No such file or directory$"):
        read_source(str(tmp_path / "none.py"))
    with pytest.raises(SourceError, match="^cannot be read: "):
        read_source(str(tmp_path))
    with pytest.raises(SourceError, match="^cannot be read: "):
        read_source("a\0b.py")


def test_what_the_encoding_lacks_cannot_be_encoded() -> None:
    with pytest.raises(SourceError, match="^cannot be encoded: "):
        encode(Source("a.py", (Segment("# coding: ascii\n'é'\n"),), "ascii"))


@given(st.text(max_size=60), st.booleans())
def test_any_text_goes_to_bytes_and_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, bom: bool
) -> None:
    if "coding" in text or text.startswith("\ufeff"):
        return
    path = tmp_path_factory.getbasetemp() / "any.py"
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    source = read_source(str(path))
    assert (source.text, source.bom) == (text, bom)
    assert encode(source) == path.read_bytes()
