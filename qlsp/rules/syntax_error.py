"""A file or a part of it cannot be read as Python.

## What it does
Reports a file that cannot be read or decoded, and a statement that both parsers (CPython's and LibCST's)
reject. The other statements of the file are still checked.

## Why it matters
What does not parse is not checked: silence there says nothing.
"""

from qlsp.diagnostics import Severity
from qlsp.rules.api import RuleMeta

META = RuleMeta(code="QL001", name="syntax-error", severity=Severity.ERROR, since="0.1")
