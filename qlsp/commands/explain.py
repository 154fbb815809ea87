"""``qlsp explain``: the page of a rule, or of the rule behind an error text."""

from __future__ import annotations

import argparse
import json
import re

from qlsp.backends.torch_eager import EAGER
from qlsp.commands.output import OK, UsageError, write
from qlsp.config import did_you_mean
from qlsp.report import page
from qlsp.rules._errors import OPERATOR, rules_of_error
from qlsp.rules.api import Rule, all_rules


def explain(arguments: argparse.Namespace) -> int:
    """Print pages; returns the exit status."""
    wanted = " ".join(arguments.words).strip()
    if bool(wanted) == arguments.all:
        raise UsageError("explain needs a rule, an error text or --all")
    exact = [rule for rule in all_rules() if wanted in (rule.meta.code, rule.meta.name)]
    rules = list(all_rules()) if arguments.all else exact or _rules_about(wanted)

    if arguments.output_format == "json":
        records = [page.as_record(rule.meta, rule.page) for rule in rules]
        write(json.dumps(records[0] if exact else records, indent=2) + "\n")
    else:
        write_page = page.as_markdown if arguments.output_format == "markdown" else page.as_text
        write("\n\n".join(write_page(rule.meta, rule.page) for rule in rules))
    return OK


def _rules_about(text: str) -> list[Rule]:
    """The rules whose pages quote the most of a pasted error text, and the one for operators if the table says that
    an operator raises it; where no page quotes it, those that the table tells."""
    lengths = [(page.match_length(rule.page, text), rule) for rule in all_rules()]
    best = max((length for length, _ in lengths), default=0)
    told = rules_of_error(EAGER.rows, " ".join(text.split()))
    wanted = told & {OPERATOR} if best else told
    found = [rule for length, rule in lengths if best and length == best or rule.meta.name in wanted]
    if not found:
        known = [word for rule in all_rules() for word in (rule.meta.code, rule.meta.name)]
        what = "unknown rule" if re.fullmatch(r"[\w-]+", text) else "no rule quotes this error text:"
        raise UsageError(f"{what} {text}" + did_you_mean(text, known))
    return found
