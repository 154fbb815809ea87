"""Findings, fixes and edits as the protocol's values, for clients that can do more or less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lsprotocol import types

from qlsp.diagnostics import Applicability, Diagnostic, Fix, Message, Related, Severity
from qlsp.lsp import actions
from qlsp.lsp.convert import Client, Converter
from qlsp.lsp.exchange import OpenFile
from qlsp.lsp.schedule import Analysed, Document
from qlsp.text import Edit, Place, Span

TEXT = "a = 1\n😀量 = bad(2)\n"
BAD = Span(TEXT.index("bad"), TEXT.index("bad") + 3)
OTHER = "x = 1\ny = 2\n"
MODERN = Client(
    related=True, tags=True, literal_actions=True, disabled_actions=True, document_changes=True, markdown=True
)
WHOLE = Span(0, len(TEXT))


def message(owner: str) -> Message:
    return Message.of("cat-scale-from", owner=owner)


def fix(applicability: Applicability, *edits: Edit) -> Fix:
    return Fix(message(applicability.value), applicability, message("the reason"), edits)


def converter(client: Client, *fixes: Fix, code: str = "QL101", opened: bool = False) -> Converter:
    related = (Related(message("far"), Place("/p/other.py", Span(6, 7))),)
    place = Place("/p/a.py", BAD)
    finding = Diagnostic(
        code, "cat-mixed-scales", message("it"), Severity.WARNING, place, related=related, fixes=fixes
    )
    document = Document.of("file:///p/a.py", OpenFile("/p/a.py", 7, TEXT))
    other = Document.of("file:///p/other.py", OpenFile("/p/other.py", 3, OTHER))
    texts = {} if opened else {"/p/other.py": OTHER}
    documents = {"/p/a.py": document, **({"/p/other.py": other} if opened else {})}
    return Converter(client, Analysed(document, (finding,), texts=texts), documents)


HERE = Edit("/p/a.py", BAD, "good")
THERE = Edit("/p/other.py", Span(6, 7), "z")


@pytest.mark.parametrize(("opened", "version"), [(True, 3), (False, None)])
def test_a_fix_of_two_files(opened: bool, version: int | None) -> None:
    made = converter(MODERN, fix(Applicability.SAFE, HERE, THERE), opened=opened)
    (action, _) = actions.actions(made, WHOLE, None)
    assert action.is_preferred and action.edit is not None and action.edit.document_changes is not None
    seen = {}
    for change in action.edit.document_changes:
        assert isinstance(change, types.TextDocumentEdit)
        seen[change.text_document.uri] = change.text_document.version
    assert seen == {"file:///p/a.py": 7, "file:///p/other.py": version}


def test_edits_for_a_client_without_versions() -> None:
    made = converter(replace(MODERN, document_changes=False), fix(Applicability.SAFE, HERE))
    (action, _) = actions.actions(made, WHOLE, None)
    assert action.edit is not None and action.edit.document_changes is None
    assert action.edit.changes == {
        "file:///p/a.py": [types.TextEdit(types.Range(types.Position(1, 6), types.Position(1, 9)), "good")]
    }


def test_no_edit_where_a_file_is_not_known() -> None:
    made = converter(MODERN, fix(Applicability.SAFE, Edit("/p/unknown.py", Span(0, 0), "x")))
    assert actions.actions(made, WHOLE, None)[0].edit is None


def test_unsafe_and_display_fixes() -> None:
    made = converter(MODERN, fix(Applicability.UNSAFE, HERE), fix(Applicability.DISPLAY))
    unsafe, display, ignore = actions.actions(made, WHOLE, ["quickfix"])
    assert "(unsafe: " in unsafe.title and "the reason" in unsafe.title and not unsafe.is_preferred
    assert display.disabled is not None and "the reason" in display.disabled.reason and display.edit is None
    assert ignore.title == "Ignore QL101 on this line"
    plain = converter(replace(MODERN, disabled_actions=False), fix(Applicability.DISPLAY))
    assert len(actions.actions(plain, WHOLE, ["quickfix"])) == 1


def test_lazy_edits_are_made_later_and_only_for_their_version() -> None:
    made = converter(replace(MODERN, lazy_edits=True), fix(Applicability.SAFE, HERE))
    action = actions.actions(made, WHOLE, None)[0]
    assert action.edit is None
    choice = actions.Choice.of(action.data)
    assert choice.version == 7 and actions.edit(made, choice) is not None
    with pytest.raises(actions.Moved):
        actions.edit(made, replace(choice, version=8))


@pytest.mark.parametrize(("span", "count"), [(Span(0, 2), 0), (Span(BAD.start, BAD.start), 2), (WHOLE, 2)])
def test_actions_belong_to_a_range(span: Span, count: int) -> None:
    made = converter(MODERN, fix(Applicability.SAFE, HERE))
    assert len(actions.actions(made, span, None)) == count


@pytest.mark.parametrize("code", ["QL001", "QL003"])
def test_what_cannot_be_ignored_is_not_offered(code: str) -> None:
    assert actions.actions(converter(MODERN, code=code), WHOLE, None) == []


def test_a_diagnostic_for_modern_and_for_plain_clients() -> None:
    (modern,) = converter(MODERN, code="QL002").diagnostics()
    assert modern.tags == [types.DiagnosticTag.Unnecessary]
    assert modern.related_information is not None
    assert modern.related_information[0].location.uri == "file:///p/other.py"
    assert modern.related_information[0].location.range.start == types.Position(1, 0)
    assert modern.range == types.Range(types.Position(1, 6), types.Position(1, 9))
    (plain,) = converter(Client(units="utf-8"), code="QL002").diagnostics()
    assert plain.tags is None and plain.related_information is None
    assert plain.range.start.character == 4 + 3 + 3
    (wide,) = converter(Client(units="utf-32")).diagnostics()
    assert wide.range.start.character == 5


@pytest.mark.parametrize(
    ("kind", "only", "wanted"),
    [
        ("quickfix", None, True),
        ("quickfix", ["quickfix"], True),
        ("quickfix", [""], True),
        ("quickfix", ["source"], False),
        ("source.fixAll.qlsp", ["source"], True),
        ("source.fixAll.qlsp", ["source.fixAll"], True),
        ("source.fixAll.qlsp", ["source.fixAll.ruff"], False),
        ("source.fixAll.qlsp", ["source.fix"], False),
    ],
)
def test_kinds(kind: str, only: list[str] | None, wanted: bool) -> None:
    assert actions.wanted(kind, only) is wanted
