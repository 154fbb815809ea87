"""``python -m qlsp.dev.docs``: write ``docs/rules/`` from the docstrings of the rules, and the tables of
``docs/configuration.md`` and ``docs/qlsp.schema.json`` from the keys of the configuration.

With ``--check`` nothing is written, and the exit status is 1 where a page is not what it should be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qlsp.config import HORIZON, KEYS, Config, Key, as_toml, values_of
from qlsp.dev.schema import schema
from qlsp.report.page import as_markdown, summary
from qlsp.rules.api import all_rules

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rules"
CONFIGURATION = FOLDER.parent / "configuration.md"
SCHEMA = FOLDER.parent / "qlsp.schema.json"
MEASURED = FOLDER / "measured.json"


def pages() -> dict[str, str]:
    """File name to content: a page for each rule, and the list of all."""
    result = {
        f"{rule.meta.name}.md": as_markdown(rule.meta, rule.page) + measured(rule.meta.name) for rule in all_rules()
    }
    rows = [
        f"| {rule.meta.code} | [{rule.meta.name}]({rule.meta.name}.md) | {rule.meta.severity.value} |"
        f" {rule.meta.fix or '-'} | {summary(rule.page)} |"
        for rule in all_rules()
    ]
    head = "| code | name | severity | fix | |\n|---|---|---|---|---|\n"
    result["README.md"] = (
        "# Rules\n\nWritten by `python -m qlsp.dev.docs` from the docstrings in `qlsp/rules/`.\n\n"
        + head
        + "".join(f"{row}\n" for row in rows)
    )
    return result


def measured(name: str, file: Path = MEASURED) -> str:
    """What the fixes of a rule were measured to be worth, from the file that ``tests/proofs`` writes."""
    data = json.loads(file.read_text(encoding="utf-8"))
    tables = [table for table in data["tables"] if table["rule"] == name]
    if not tables:
        return ""
    parts = [
        f"\n## Measured\n\nBefore and after the fix, with torch {data['torch']} and its x86 qconfig: SQNR in dB (that"
        " of the worst output), the scales (of the inputs and the result of the concatenation where there is one,"
        " else of the stubs), and the number of quantized modules.\n"
    ]
    for table in tables:
        parts.append(f"\n{table['fix']}:\n\n")
        parts.append("| mode | ratio of the ranges | order | SQNR | scales | modules |\n|---|---|---|---|---|---|\n")
        for row in table["rows"]:
            old, new = row["before"], row["after"]
            cells = [row["mode"].upper(), str(row["ratio"]), row["order"], f"{_sqnr(old)} -> {_sqnr(new)}"]
            cells += [f"{_scales(old)} -> {_scales(new)}", f"{old['modules']} -> {new['modules']}"]
            parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def _sqnr(result: Mapping[str, Any]) -> str:
    return f"{result['sqnr']:.1f}" if "sqnr" in result else "raises"


def _scales(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{scale:g}" for scale in result.get("scales", [])) or "-"


def differences(folder: Path) -> list[str]:
    """Names of the pages that are missing, out of date, or of no rule."""
    wanted = pages()
    names = {*wanted, *(path.name for path in folder.glob("*.md"))}
    return sorted(name for name in names if _text(folder / name) != wanted.get(name))


def write(folder: Path) -> list[str]:
    """Bring the folder up to date; returns the names of the pages that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    changed = differences(folder)
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8", newline="\n")
        else:
            (folder / name).unlink()
    return changed


def configuration(text: str) -> str:
    """The page about the configuration with its tables as they should be."""
    values = values_of(Config())
    horizon = values["horizon"]
    assert isinstance(horizon, dict)
    for name, keys, defaults in (("keys", KEYS, values), ("horizon", HORIZON, horizon)):
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(start)
        _, found_too, after = rest.partition(end)
        if not (found and found_too):
            raise ValueError(f"the page lacks {start.strip()} or {end}")
        text = before + start + _key_table(keys, defaults) + end + after
    return text


def _key_table(keys: Mapping[str, Key], defaults: Mapping[str, object]) -> str:
    rows = ["| key | value | default | example | |", "|---|---|---|---|---|"]
    for name, key in keys.items():
        default = defaults[name]
        shown = "-" if default is None or name == "horizon" else f"`{as_toml(default)}`"
        kind = ", ".join(f"`{choice}`" for choice in key.choices) or key.type
        rows.append(f"| `{name}` | {kind} | {shown} | `{key.example}` | {key.text} |")
    return "".join(f"{row}\n" for row in rows)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(argv: Sequence[str]) -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(prog="python -m qlsp.dev.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 for a difference")
    arguments = parser.parse_args(argv)
    changed = differences(FOLDER) if arguments.check else write(FOLDER)
    for path, wanted in ((CONFIGURATION, configuration(_text(CONFIGURATION) or "")), (SCHEMA, schema())):
        if wanted != _text(path):
            changed.append(f"../{path.name}")
            if not arguments.check:
                path.write_text(wanted, encoding="utf-8", newline="\n")
    for name in changed:
        print(("out of date: " if arguments.check else "wrote ") + str(FOLDER / name))
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
