"""An ignore comment ignores nothing, or cannot be understood.

## What it does
Reports a `# qlsp: ignore[...]`, `# qlsp: ignore-file[...]` or `# noqa: QL...` comment, or a rule named in one, for
which there is no finding; and a comment that starts with `# qlsp:` but is not written as an ignore comment.

It is silent where silence proves nothing: if the rule is switched off in this run, if the file has a syntax error,
if the comment stands in a class that no model in view uses, and for codes of other tools and a bare `# noqa`.

## Why it matters
A comment that outlives its finding hides the next one of its kind. A comment with a typing mistake hides nothing,
and nobody notices until the finding is looked for.

## Fix safety
The fix removes the comment, or the rules in it that ignore nothing. Code, and the comments of other tools on the
line, stay as they are. There is no fix where a comment is malformed, or stands on a line of its own above the
finding it names: it has to be moved to a line of the statement.
"""

from qlsp.diagnostics import Severity
from qlsp.rules.api import RuleMeta

META = RuleMeta(code="QL002", name="unused-suppression", severity=Severity.WARNING, since="0.1", fix="safe")
