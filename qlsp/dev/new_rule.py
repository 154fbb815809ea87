"""``python -m qlsp.dev.new_rule NAME --code CODE``: start a rule.

Writes the rule file and its case file, and prints what is left to do.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from qlsp import __version__
from qlsp.rules.api import all_rules

ROOT = Path(__file__).resolve().parents[2]

RULE = '''\
"""<One line: what is wrong with the code, in words of the PyTorch documentation.>

## What it does
Flags <...>.

## Why it matters
<What happens after convert; the number it costs or the literal error text, and how it was measured.>

## Bad
    import torch
    from torch import nn
    from torch.ao.quantization import DeQuantStub, QuantStub


    class Net(nn.Module):
        ...  # {code}

## Good
    <The same class, put right.>

## When it is silent
<What looks alike and is right.>
"""

from __future__ import annotations

from collections.abc import Iterator

from qlsp.diagnostics import Message, Severity
from qlsp.rules.api import Finding, RuleContext, RuleMeta

META = RuleMeta(code="{code}", name="{name}", severity=Severity.{severity}, since="{since}")


def check(ctx: RuleContext) -> Iterator[Finding]:
    """Yield a finding for each call that <...>."""
    for call in ctx.facts.op_calls.values():
        if call.spec.op == "<operator>":
            yield Finding(call.span, Message.of("{name}"))
'''

CASES = """\
# {name}

<What the rule decides, in one sentence.>

## Flagged

```python
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x  # {level}: [{name}]
```

## Silent

<At least as many cases as above: what looks alike and is right.>

```python
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x
```
"""

TO_DO = """\
Next:
1. The docstring of {rule}. If "Why it matters" is hard to write, drop the rule.
2. The cases in {cases}: the wrong lines, and at least as many silent ones.
3. The message in qlsp/messages/en.py:    "{name}": "<what happens, what it costs>",
4. `check`, then `python -m qlsp.dev.docs` for the page, and the tests.
"""


class NewRuleError(Exception):
    """A name or code that cannot be used; the message says why."""


def create(root: Path, name: str, code: str, severity: str) -> tuple[Path, Path]:
    """Write the two files below a checkout's folder and return their paths."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise NewRuleError(f"{name}: a rule name is lower-case words with hyphens")
    if not re.fullmatch(r"QL\d{3}", code):
        raise NewRuleError(f"{code}: a code is QL and three digits")
    for rule in all_rules():
        if name == rule.meta.name or code == rule.meta.code:
            raise NewRuleError(f"{rule.meta.code} {rule.meta.name} exists")
    rule_file = root / "qlsp" / "rules" / f"{name.replace('-', '_')}.py"
    case_file = root / "tests" / "cases" / "rules" / f"{name}.md"
    for path in (rule_file, case_file):
        if path.exists():
            raise NewRuleError(f"{path} exists")
    values = {
        "name": name,
        "code": code,
        "severity": severity.upper(),
        "level": severity,
        "since": ".".join(__version__.split(".")[:2]),
    }
    for path, template in ((rule_file, RULE), (case_file, CASES)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.format(**values), encoding="utf-8", newline="\n")
    return rule_file, case_file


def main(argv: Sequence[str]) -> int:
    """Write the files of a new rule."""
    parser = argparse.ArgumentParser(prog="python -m qlsp.dev.new_rule", description=__doc__)
    parser.add_argument("name", help="states the problem, such as cat-mixed-scales")
    parser.add_argument("--code", required=True, help="QL and three digits")
    parser.add_argument("--severity", choices=("error", "warning", "info"), default="warning")
    arguments = parser.parse_args(argv)
    try:
        rule, cases = create(ROOT, arguments.name, arguments.code, arguments.severity)
    except NewRuleError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"wrote {rule}\nwrote {cases}")
    print(TO_DO.format(rule=rule, cases=cases, name=arguments.name), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
