"""Open, diagnose, fix, cleared, undo: as old VS Code, new VS Code and Neovim."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types

from . import models
from .session import Buffer, Editor

FIX = "source.fixAll.qlsp"


def codes(diagnostics: list[types.Diagnostic]) -> list[object]:
    return [each.code for each in diagnostics]


async def once_there_are(number: int, buffer: Buffer) -> list[types.Diagnostic]:
    """The findings of a document once there are so many: news of another document's edit is sent after that."""
    for _ in range(250):
        found = await buffer.diagnostics()
        if len(found) == number:
            break
        await asyncio.sleep(0.02)
    return found


async def fix_and_undo(editor: Editor, path: Path, text: str) -> None:
    buffer = editor.open(path, text)
    (found,) = await buffer.diagnostics()
    assert found.code == "QL101" and buffer.cut(found.range) == models.CALL
    fixes = [each for each in await buffer.actions(found.range, ["quickfix"]) if each.is_preferred]
    await buffer.apply(fixes[0])
    assert await buffer.diagnostics() == []
    buffer.undo()
    (again,) = await buffer.diagnostics()
    assert again.range == found.range


@pytest.mark.parametrize("text", [models.FINDING, models.WIDE, models.FINDING.replace("\n", "\r\n")])
async def test_fix_and_undo(editor: Editor, tmp_path: Path, text: str) -> None:
    await fix_and_undo(editor, tmp_path / "net.py", text)


@pytest.mark.parametrize("text", [models.FINDING, models.WIDE])
async def test_fix_and_undo_while_another_function_is_half_typed(
    editor: Editor, tmp_path: Path, text: str
) -> None:
    await fix_and_undo(editor, tmp_path / "net.py", text + models.HALF)


async def test_columns_after_emoji_and_chinese(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.WIDE)
    (found,) = await buffer.diagnostics()
    before = 8 + len('"😀 量化"; c = ')
    extra = {"utf-8": 3 + 2 * 2, "utf-16": 1, "utf-32": 0}
    assert found.range.start.character == before + extra[editor.units]


async def test_what_a_finding_carries(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    assert found.source == "qlsp" and found.severity == types.DiagnosticSeverity.Error
    assert found.code_description is not None and found.code_description.href.endswith("/cat-mixed-scales")
    assert found.data and found.data["version"] == 1
    assert found.related_information is not None
    places = [buffer.cut(each.location.range) for each in found.related_information]
    assert places == ["self.left(self.quant(x))", "self.right(self.quant_b(y))"]


async def test_form_feed_and_vertical_tab_before_the_finding(editor: Editor, tmp_path: Path) -> None:
    text = models.FINDING.replace("class Net", '\f\nNOTE = "\x0b \x1c \x85 \u2028"\n\n\nclass Net')
    await fix_and_undo(editor, tmp_path / "net.py", text)


async def test_ignore_on_this_line(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    (ignore,) = [
        each for each in await buffer.actions(found.range, ["quickfix"]) if each.title.startswith("Ignore")
    ]
    await buffer.apply(ignore)
    assert f"{models.LINE}  # qlsp: ignore[QL101]\n" in buffer.text


async def test_fix_all_applies_safe_fixes(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    start = types.Range(types.Position(0, 0), types.Position(0, 0))
    (action,) = await buffer.actions(start, ["source.fixAll"])
    assert action.kind == FIX
    await buffer.apply(action)
    assert "self.cat.cat([a, b], dim=1)" in buffer.text
    assert await buffer.diagnostics() == []
    assert await buffer.actions(start, [FIX]) == []


async def test_unsafe_fixes_say_what_may_change(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    actions = await buffer.actions(found.range)
    unsafe = [each for each in actions if "(unsafe: " in each.title]
    assert unsafe and not any(each.is_preferred for each in unsafe)
    assert [each.diagnostics and each.diagnostics[0].code for each in unsafe] == ["QL101"] * len(unsafe)


async def test_kinds_that_are_not_asked_for(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    assert await buffer.actions(found.range, ["refactor"]) == []
    assert await buffer.actions(found.range, ["source.organizeImports"]) == []


async def test_edits_are_small_and_name_their_version(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    fix = next(each for each in await buffer.actions(found.range) if each.is_preferred)
    action = await editor.client.code_action_resolve_async(fix)
    assert action.edit is not None and action.edit.document_changes is not None
    (change,) = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit) and change.text_document.version == 1
    assert sum(len(edit.new_text) for edit in change.edits if isinstance(edit, types.TextEdit)) < 100


async def test_resolve_refuses_a_moved_version(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    (found,) = await buffer.diagnostics()
    fix = next(each for each in await buffer.actions(found.range) if each.is_preferred)
    buffer.type("# moved\n" + buffer.text)
    with pytest.raises(Exception, match="has changed") as refused:
        await editor.client.code_action_resolve_async(fix)
    assert getattr(refused.value, "code", None) == -32801


JOIN = """\
class Join(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.left = nn.Conv2d(c, 4, 1)
        self.right = nn.Conv2d(c, 4, 3, padding=1)

    def forward(self, x):
        return torch.cat([self.left(x), self.right(x)], dim=1)


"""
USER = """\
import torch.ao.quantization as tq
from blocks import Join


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = QuantStub()
        self.join = Join(3)
        self.dequant = DeQuantStub()

    def forward(self, x):
        return self.dequant(self.join(self.quant(x)))


def main():
    net = Net().eval()
    net.qconfig = tq.get_default_qconfig("x86")
    net = tq.prepare(net)
    net(torch.rand(1, 3, 8, 8))
    return tq.convert(net)
"""


async def test_resolve_refuses_edits_of_another_document_that_moved(editor: Editor, tmp_path: Path) -> None:
    user = editor.open(tmp_path / "net.py", models.HEAD + USER)
    block = editor.open(tmp_path / "blocks.py", models.HEAD + JOIN)
    await user.diagnostics()
    (found,) = await block.diagnostics()
    tie = next(each for each in await block.actions(found.range) if each.title.startswith("Tie "))
    if tie.edit is not None:
        return
    user.type("# one\n# two\n" + user.text)
    with pytest.raises(Exception, match="has changed"):
        await editor.client.code_action_resolve_async(tie)
    again = next(each for each in await block.actions(found.range) if each.title.startswith("Tie "))
    await block.apply(again)
    assert "net = tq.prepare(net)\n    net.join.right." in user.text


async def test_an_action_is_about_its_own_finding(editor: Editor, tmp_path: Path) -> None:
    """Another document may take away the first of two findings, and this one stays as it is."""
    user = editor.open(tmp_path / "net.py", models.HEAD + USER.replace("import Join", "import Join, Other"))
    block = editor.open(tmp_path / "blocks.py", models.HEAD + JOIN + JOIN.replace("Join", "Other"))
    user.type(user.text.replace("self.join = Join(3)", "self.join = nn.Sequential(Join(3), Other(8))"))
    await user.diagnostics()
    first, second = await once_there_are(2, block)
    ignore = next(each for each in await block.actions(first.range) if each.title.startswith("Ignore "))
    user.type(user.text.replace("Join(3), Other(8)", "nn.ReLU(), Other(3)"))
    await user.diagnostics()
    assert [each.range for each in await once_there_are(1, block)] == [second.range]
    if ignore.edit is None:
        with pytest.raises(Exception, match="has changed"):
            await editor.client.code_action_resolve_async(ignore)


async def test_two_files_see_each_other_unsaved(editor: Editor, tmp_path: Path) -> None:
    block = editor.open(
        tmp_path / "blocks.py",
        models.HEAD
        + "class Join(nn.Module):\n    def forward(self, a, b):\n        return torch.cat([a, b], dim=1)\n",
    )
    net = models.CAT.format(line="c = self.join(a, b)").replace(
        "        self.dequant =", "        self.join = Join()\n        self.dequant ="
    )
    user = editor.open(tmp_path / "net.py", models.HEAD + "from blocks import Join\n\n\n" + net)
    assert codes(await user.diagnostics()) == []
    assert codes(await block.diagnostics()) == ["QL101"]
    editor.close(user)
    assert codes(await block.diagnostics() if editor.pulls else []) == []


async def test_unsaved_new_file(editor: Editor) -> None:
    buffer = editor.open("untitled:Untitled-1", models.FINDING)
    (found,) = await buffer.diagnostics()
    fix = next(each for each in await buffer.actions(found.range) if each.is_preferred)
    await buffer.apply(fix)
    assert await buffer.diagnostics() == []


async def test_other_languages_are_left_alone(editor: Editor, tmp_path: Path) -> None:
    note = editor.open(tmp_path / "note.md", models.FINDING, "markdown")
    net = editor.open(tmp_path / "net.py", models.FINDING)
    assert codes(await net.diagnostics()) == ["QL101"]
    assert (note.uri, 1) not in editor.pushes
    assert await note.actions(note.range_of(models.CALL)) == []


async def test_closing_clears(editor: Editor, tmp_path: Path) -> None:
    buffer = editor.open(tmp_path / "net.py", models.FINDING)
    assert await buffer.diagnostics()
    editor.close(buffer)
    if editor.pulls:
        assert await buffer.diagnostics() == []
    else:
        assert await editor.pushed(buffer.uri, None) == []
