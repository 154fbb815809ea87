"""A rule failed with an internal error.

## What it does
Reports that a rule raised while it looked at a file. All other rules still report, and the exit status is 2.

## Why it matters
The findings of that rule are missing. It is a defect of the tool: please report it with the file.
"""

from qlsp.diagnostics import Severity
from qlsp.rules.api import RuleMeta

META = RuleMeta(code="QL003", name="rule-crashed", severity=Severity.ERROR, since="0.1")
