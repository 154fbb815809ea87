"""Which rules explain an error text: what the table says beyond what the pages quote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qlsp.ops.spec import OpSpec, Role
from qlsp.rules._causes import WEIGHT_FUNCTIONS

OPERATOR = "float-op-on-quantized"
MIX = "float-quantized-mix"


def rules_of_error(rows: Iterable[OpSpec], text: str) -> frozenset[str]:
    """The names of the rules behind the rows with an error that a text contains."""
    return frozenset(rule for row in rows for error, rule in errors(row) if error and error in text)


def errors(row: OpSpec) -> Iterator[tuple[str | None, str]]:
    """The errors of a row, each with the rule that reports it."""
    on_quantized = _rule_on_quantized(row)
    if on_quantized is not None:
        for error in (row.raises, *row.formerly, *(case.raises for case in row.cases)):
            yield error, on_quantized
    for error in (row.on_number, *(row.mixed or ())):
        yield error, MIX
    if row.functionals:
        yield row.on_float, "functional-on-float"
    else:
        yield row.on_float, "missing-quantstub"
        yield row.on_float, "op-after-dequant"
    yield row.refused, "unsupported-module"


def _rule_on_quantized(row: OpSpec) -> str | None:
    if row.role is Role.QUANTIZE:
        return "quantstub-on-quantized"
    if row.role is Role.LOSS:
        return "missing-dequantstub"
    if row.modules:
        return "unsupported-module"
    if row.functionals:
        return None
    return "functional-weight-op" if row.op in WEIGHT_FUNCTIONS else OPERATOR
