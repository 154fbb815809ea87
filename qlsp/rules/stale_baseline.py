"""An entry of the baseline no longer occurs.

## What it does
Reports an entry of the file given by `--baseline` that is about more findings than there are: the code was corrected,
removed or changed. Entries for files that were not checked in this run, and for rules that were switched off, are left
alone. An entry for a file that is gone is stale.

## Why it matters
A stale entry hides the next finding of its kind in the same function. A baseline that only ever grows stops saying
how much is left to do.

## Fix safety
`qlsp check --baseline FILE --fix` takes what is stale out of the file, and nothing else. `--write-baseline FILE`
writes it anew from all that is found.
"""

from qlsp.diagnostics import Severity
from qlsp.rules.api import RuleMeta

META = RuleMeta(code="QL004", name="stale-baseline", severity=Severity.WARNING, since="0.1", fix="safe")
