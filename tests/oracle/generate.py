"""Seeded source text of eager-mode models, one importable file each.

`generate(seed)` writes one file; a `Coverage` shared between calls steers it to the pieces that came up
least. The pieces live in `tests.oracle.grammar`, in tables from their name to the function that writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.oracle.grammar import blocks, conditions, containers, joins, names, nets, operators, statements
from tests.oracle.grammar.core import Coverage, NotHere, Planted, Shape, SourceFile
from tests.oracle.grammar.faults import plant

FAULT_SHARE, HARMLESS_SHARE = 0.5, 0.15
"""How many models hold a planted mistake, and what only looks like one."""
ENGINES = ("x86", "x86", "qnnpack")
SIZE, FAULTY_SIZE = (15, 21), (6, 10)
"""How many pieces a body has; one that will be fixed and run again is short."""


@dataclass(frozen=True)
class Model:
    """One generated file and what is known about it."""

    seed: str
    text: str
    engine: str
    shapes: tuple[Shape, ...]
    call: str
    faults: tuple[Planted, ...]
    used: Counter[str]
    entry: str = ""

    @property
    def raises(self) -> bool:
        """Whether a planted mistake makes the converted model raise."""
        return any(fault.raises for fault in self.faults)


def keys() -> list[str]:
    """Every coverage key of the grammar without its mistakes."""
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
        *nets.SCRIPTS,
        *names.KEYS,
    ]


def mistake_keys() -> list[str]:
    """The coverage keys of the rules with a planted mistake, and of the places it stands in."""
    return [*(f"rule: {rule}" for rule in rules()), *plant.PLACES]


def generate(seed: int | str, coverage: Coverage | None = None, only: Sequence[str] = ()) -> Model:
    """The model of `seed`; with `coverage`, what it uses is added there. `only` are the rules to plant mistakes of."""
    coverage = coverage or Coverage()
    rng = Random(str(seed))
    while True:
        try:
            model = _generate(str(seed), rng, coverage, only)
        except NotHere:
            continue
        coverage.add(model.used)
        return model


def _generate(seed: str, rng: Random, coverage: Coverage, only: Sequence[str]) -> Model:
    file = SourceFile(rng, coverage, engine=rng.choice(ENGINES))
    chosen = _fault(file, only)
    net = nets.write_net(file, rng.randint(*(FAULTY_SIZE if chosen else SIZE)), chosen)
    text, faults = file.render()
    entry = "deploy" if net.life else ""
    return Model(seed, text, file.engine, tuple(net.shapes), net.call, tuple(faults), file.used, entry)


def rules() -> list[str]:
    """The rules with a mistake in the table."""
    return sorted({each.rule for each in plant.FAULTS.values()} - {plant.HARMLESS})


def _fault(file: SourceFile, only: Sequence[str]) -> plant.Fault | None:
    """A mistake of the rule that came up least, in the spelling that did; what looks like one; or nothing."""
    dice = 0.0 if only else file.rng.random()
    if dice >= FAULT_SHARE + HARMLESS_SHARE:
        return None
    rule = plant.HARMLESS
    if dice < FAULT_SHARE:
        rule = file.choose([f"rule: {each}" for each in only or rules()]).removeprefix("rule: ")
    return plant.FAULTS[file.choose([key for key, each in plant.FAULTS.items() if each.rule == rule])]


def assert_tables_agree() -> None:
    """Every block statement is a statement; a guard against a misspelled name."""
    assert set(statements.STATEMENTS) >= blocks.BLOCK_STATEMENTS
