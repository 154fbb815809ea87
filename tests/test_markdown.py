"""The Markdown cases of ``cases/semantics`` and ``cases/rules``, and the harness that runs them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mdtest import (
    Case,
    MarkdownError,
    cases_of,
    expects_findings,
    finding_problems,
    pages,
    parse,
    reveal_problems,
    updated,
)
from scoring import Found, built_rules, check_texts, configuration, reveal_texts

FOLDERS = ("semantics", "rules")
TOOL_RULES = frozenset({"rule-crashed", "syntax-error"})


def check(texts: Mapping[str, str], config: Mapping[str, Any]) -> list[Found]:
    return check_texts(texts, configuration(values=config))


def reveal(texts: Mapping[str, str], config: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    return reveal_texts(texts, configuration(values=config))


@pytest.mark.parametrize("case", list(cases_of("rules")), ids=lambda case: case.id)
def test_rule(case: Case) -> None:
    found = finding_problems(case, check, built_rules())
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize("case", list(cases_of("semantics")), ids=lambda case: case.id)
def test_semantics(case: Case) -> None:
    found = reveal_problems(case, reveal)
    assert not found, "\n".join(["", *found])
    assert not [item for item in check(case.texts(), case.config) if item.name in TOOL_RULES]
    if expects_findings(case.page):
        wrong = finding_problems(case, check, built_rules())
        assert not wrong, "\n".join(["", *wrong])


@pytest.mark.skipif(not os.environ.get("UPDATE_EXPECTED"), reason="rewrites the pages")
@pytest.mark.parametrize("page", [page for folder in FOLDERS for page in pages(folder)], ids=lambda p: p.stem)
def test_update_expected(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    page.write_text(updated(text, parse(page, text), reveal), encoding="utf-8")


PAGE = """\
# Title

Prose with a `name.py`: in it.

```toml
mode = "ptq"
[horizon]
march = "nash-e"
```

## First

```python
reveal_quant(x)  # revealed: float
y = 1  # error: [one-rule] # info: [other-rule]
```

## Second case

```toml
[horizon]
version = "2.3.6"
```

`neck.py`:

```python
a = 1
```

Then the file that uses it, `test.py`:

```python
b = 2
reveal_quant(b)
```

```json inputs
{"inputs": [[1, 2]]}
```
"""


def fake_check(*found: Found):
    return lambda texts, config: list(found)


def fake_reveal(*shown: tuple[str, int, str]):
    return lambda texts, config: list(shown)


BUILT = frozenset({"one-rule", "other-rule"})


def page_cases(text: str = PAGE) -> list[Case]:
    return parse(Path("page.md"), text)


def test_parse_reads_headings_files_configuration_and_inputs() -> None:
    first, second = page_cases()
    assert (first.title, second.title) == ("Title / First", "Title / Second case")
    assert [file.name for file in first.files] == ["test.py"]
    assert [file.name for file in second.files] == ["neck.py", "test.py"]
    assert first.config == {"mode": "ptq", "horizon": {"march": "nash-e"}}
    assert second.config == {"mode": "ptq", "horizon": {"march": "nash-e", "version": "2.3.6"}}
    assert (first.inputs, second.inputs) == (None, {"inputs": [[1, 2]]})
    lines = PAGE.split("\n")
    for case in (first, second):
        for file in case.files:
            assert lines[file.row - 1] == file.text.split("\n")[0]


def test_expectations_of_a_file() -> None:
    (file,) = page_cases()[0].files
    assert file.expected() == [(2, "error", "one-rule"), (2, "info", "other-rule")]
    assert file.revealed() == {1: "float"}
    assert page_cases()[1].files[1].revealed() == {2: None}


def test_a_case_that_holds() -> None:
    first = page_cases()[0]
    found = [Found("test.py", 2, "other-rule", "info"), Found("test.py", 2, "one-rule", "error")]
    assert finding_problems(first, fake_check(*found), BUILT) == []
    assert reveal_problems(first, fake_reveal(("test.py", 1, "float"))) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([], "missing error[one-rule] at page.md:15 (test.py:2) `y = 1`"),
        ([Found("test.py", 2, "one-rule", "warning")], "unexpected warning[one-rule]"),
        ([Found("test.py", 1, "one-rule", "error")], "unexpected error[one-rule]"),
        ([Found("test.py", 2, "one-rule", "error")] * 2, "unexpected error[one-rule]"),
        ([Found("test.py", 2, "third-rule", "error")], "unexpected error[third-rule]"),
        ([Found("elsewhere.py", 9, "one-rule", "error")], "unexpected error[one-rule] at elsewhere.py:9"),
    ],
)
def test_findings_must_match_exactly(found: list[Found], text: str) -> None:
    first = page_cases()[0]
    result = finding_problems(first, fake_check(*found), BUILT)
    assert any(text in line for line in result), result


def test_a_rule_that_does_not_exist_is_not_expected() -> None:
    first = page_cases()[0]
    assert finding_problems(first, fake_check(), frozenset()) == []


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ([], "expected float, revealed nothing at page.md:14"),
        ([("test.py", 1, "integer")], "expected float, revealed integer"),
        ([("test.py", 1, "float")] * 2, "expected float, revealed float and float"),
        ([("test.py", 1, "float"), ("test.py", 2, "float")], "unexpected float at page.md:15"),
    ],
)
def test_revealed_texts_must_match_exactly(shown: list[tuple[str, int, str]], text: str) -> None:
    result = reveal_problems(page_cases()[0], fake_reveal(*shown))
    assert any(line.startswith(text) for line in result), result


def test_update_rewrites_and_adds_revealed_texts() -> None:
    def shows(texts: Mapping[str, str], config: Mapping[str, Any]) -> list[tuple[str, int, str]]:
        return [("test.py", 2, "integer")] if "neck.py" in texts else [("test.py", 1, "unknown")]

    text = updated(PAGE, page_cases(), shows)
    assert "reveal_quant(x)  # revealed: unknown\n" in text
    assert "reveal_quant(b)  # revealed: integer\n" in text
    assert len(text.split("\n")) == len(PAGE.split("\n"))
    assert updated(text, page_cases(text), shows) == text


@pytest.mark.parametrize(
    "text",
    [
        "# A\n```python\nx = 1\n",
        "# A\n```python\nx = 1\n```\n```python\ny = 1\n```\n",
        "# A\n```python\nx = 1\n```\n# A\n```python\ny = 1\n```\n",
        "# A\n```pyhton\nx = 1\n```\n",
    ],
)
def test_badly_written_pages_are_refused(text: str) -> None:
    with pytest.raises(MarkdownError):
        page_cases(text)
