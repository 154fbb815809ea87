"""Differences of texts, findings that move with them, settings, positions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from qlsp.config import Resolver
from qlsp.diagnostics import Diagnostic, Message, Related, Severity
from qlsp.engine import Piece
from qlsp.lsp import convert, settings
from qlsp.lsp.retain import Change, edits_between, retained
from qlsp.text import LineIndex, Place, Span, Units, apply

TEXTS = st.text("ab \n\r\f😀量", max_size=30)
MESSAGE = Message.of("cat-scale-from", owner="conv")


def finding(start: int, end: int, *related: tuple[int, int]) -> Diagnostic:
    places = tuple(Related(MESSAGE, Place("a.py", Span(*each))) for each in related)
    place = Place("a.py", Span(start, end))
    return Diagnostic("QL101", "cat-mixed-scales", MESSAGE, Severity.ERROR, place, related=places)


@given(TEXTS, TEXTS)
def test_a_change_explains_the_difference(old: str, new: str) -> None:
    change = Change.between(old, new)
    assert old[: change.start] == new[: change.start]
    assert old[change.old_end :] == new[change.new_end :]
    assert old[: change.start] + new[change.start : change.new_end] + old[change.old_end :] == new


@given(TEXTS, TEXTS, st.data())
def test_what_moves_stays_the_same(old: str, new: str, data: st.DataObject) -> None:
    change = Change.between(old, new)
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    span = change.forward(Span(start, end))
    if span is not None and (end <= change.start or start >= change.old_end):
        assert new[span.start : span.end] == old[start:end]
    offset = data.draw(st.integers(0, max(0, len(new) - 1)))
    before = change.backward(offset)
    if before is not None and offset < len(new):
        assert old[before] == new[offset]


@given(TEXTS, TEXTS)
def test_edits_between_texts(old: str, new: str) -> None:
    assert apply(old, edits_between("a.py", old, new)) == new


BROKEN_METHOD = [Piece(Span(0, 100), False, (Piece(Span(10, 40), True), Piece(Span(50, 90), False)))]
NOWHERE = Change(200, 200, 200)


@pytest.mark.parametrize(
    ("span", "change", "pieces", "kept"),
    [
        ((20, 30), Change(12, 12, 13), BROKEN_METHOD, (21, 31)),
        ((20, 30), Change(25, 25, 26), BROKEN_METHOD, (20, 31)),
        ((20, 30), Change(18, 24, 18), BROKEN_METHOD, None),
        ((60, 70), Change(15, 15, 16), BROKEN_METHOD, (61, 71)),
        ((60, 70), Change(55, 55, 56), BROKEN_METHOD, None),
        ((20, 30), NOWHERE, [Piece(Span(0, 100), False), Piece(Span(100, 200), True)], None),
        ((20, 30), NOWHERE, [], None),
    ],
)
def test_what_a_half_typed_part_hides_stays(
    span: tuple[int, int], change: Change, pieces: list[Piece], kept: tuple[int, int] | None
) -> None:
    found = retained([finding(*span)], change, pieces, [])
    assert [(each.place.span.start, each.place.span.end) for each in found] == ([kept] if kept else [])
    assert all(each.fixes == () for each in found)


def test_a_finding_that_points_to_a_half_typed_part_stays() -> None:
    pieces = [Piece(Span(0, 50), False), Piece(Span(50, 100), True)]
    assert retained([finding(20, 30, (60, 70))], Change(80, 80, 81), pieces, [])
    assert not retained([finding(20, 30, (60, 70))], Change(25, 25, 26), pieces, [])


def test_a_live_finding_is_not_doubled() -> None:
    live = finding(60, 70)
    assert retained([finding(60, 70)], NOWHERE, BROKEN_METHOD, [live]) == []


def test_settings_are_read_like_the_command_line() -> None:
    read = settings.read(
        {
            "enable": True,
            "path": ["/bin/qlsp"],
            "showSyntaxErrors": True,
            "configuration": {"torch": "2.13"},
            "extendSelect": ["QL1"],
            "per-file-ignores": {"tests/*.py": ["QL101"]},
            "preview": None,
            "workflow": "eager",
        }
    )
    config = Resolver(True, read.values).of("a.py")
    assert read.enable and read.show_syntax_errors and read.configuration is None
    assert (config.extend_select, config.torch, config.workflow) == (("QL1",), "2.13", "eager")
    assert config.per_file_ignores == {"tests/*.py": ("QL101",)} and not config.preview


@pytest.mark.parametrize("raw", [None, [], "x", 3, {"enable": None}, {"configuration": ""}])
def test_nonsense_is_the_default(raw: object) -> None:
    assert settings.read(raw) == settings.Settings()


@given(TEXTS, st.sampled_from(["utf-8", "utf-16", "utf-32"]), st.data())
def test_positions_there_and_back(text: str, units: Units, data: st.DataObject) -> None:
    index = LineIndex(text)
    offset = data.draw(st.integers(0, len(text)))
    position = convert.to_range(index, Span(offset, offset), units).start
    inside_line_break = text[offset - 1 : offset + 1] == "\r\n"
    assert convert.to_offset(index, position, units) == (offset - 1 if inside_line_break else offset)


@pytest.mark.parametrize("position", [types.Position(0, 99), types.Position(99, 0), types.Position(2, 2)])
def test_positions_outside_the_text_are_clamped_and_left_alone(position: types.Position) -> None:
    before = (position.line, position.character)
    assert 0 <= convert.to_offset(LineIndex("a\n😀"), position, "utf-16") <= 3
    assert (position.line, position.character) == before


def test_uris_and_paths() -> None:
    assert convert.path_of("file:///tmp/a%20b/%E9%87%8F.py") == ("/tmp/a b/量.py", True)
    assert convert.path_of(convert.uri_of("/tmp/a b/量#1.py")) == ("/tmp/a b/量#1.py", True)
    assert convert.path_of("untitled:Untitled-1") == ("untitled:Untitled-1", False)
