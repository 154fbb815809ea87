"""Seeded source text of eager-mode models, one importable file each.

`generate(seed)` writes one file; a `Coverage` shared between calls steers it to the pieces that came up
least. The pieces live in `tests.oracle.grammar`, in tables from their name to the function that writes them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

from tests.oracle.grammar import blocks, conditions, containers, joins, names, nets, operators, statements
from tests.oracle.grammar.core import Coverage, Fault, NotHere, Shape, SourceFile

FAULT_SHARE = 0.5
ENGINES = ("x86", "x86", "qnnpack")


@dataclass(frozen=True)
class Model:
    """One generated file and what is known about it."""

    seed: str
    text: str
    engine: str
    shapes: tuple[Shape, ...]
    call: str
    faults: tuple[Fault, ...]
    used: Counter[str]

    @property
    def raises(self) -> bool:
        """Whether a planted mistake makes the converted model raise."""
        return any(fault.raises for fault in self.faults)


def keys() -> list[str]:
    """Every coverage key of the grammar."""
    return [
        *operators.ROWS,
        *joins.KEYS,
        *joins.JOINS,
        *statements.STATEMENTS,
        *conditions.CONDITIONS,
        *containers.LISTS,
        *containers.SEQUENTIALS,
        *containers.DICTS,
        *nets.OPENINGS,
        *nets.CLOSINGS,
        *nets.FAULTS,
        *nets.SCRIPTS,
        *names.KEYS,
    ]


def generate(seed: int | str, coverage: Coverage | None = None) -> Model:
    """The model of `seed`; with `coverage`, what it uses is added there."""
    coverage = coverage or Coverage()
    rng = Random(str(seed))
    while True:
        try:
            model = _generate(str(seed), rng, coverage)
        except NotHere:
            continue
        coverage.add(model.used)
        return model


def _generate(seed: str, rng: Random, coverage: Coverage) -> Model:
    file = SourceFile(rng, coverage, engine=rng.choice(ENGINES))
    planted = file.choose(list(nets.FAULTS)) if rng.random() < FAULT_SHARE else None
    net = nets.write_net(file, rng.randint(10, 16), planted)
    text, faults = file.render()
    return Model(seed, text, file.engine, tuple(net.shapes), net.call, tuple(faults), file.used)


def assert_tables_agree() -> None:
    """Every block statement is a statement; a guard against a misspelled name."""
    assert set(statements.STATEMENTS) >= blocks.BLOCK_STATEMENTS
