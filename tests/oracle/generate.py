"""Seeded source text of eager-mode models, each a program of one file or several.

`generate(seed)` writes one; a `Coverage` shared between calls steers it to the pieces that came up
least. The pieces live in `tests.oracle.grammar`, in tables from their name to the function that writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.oracle.grammar import (
    blocks,
    conditions,
    containers,
    factories,
    joins,
    layout,
    names,
    nets,
    operators,
    registries,
    statements,
)
from tests.oracle.grammar.core import Coverage, NotHere, Planted, Shape, SourceFile
from tests.oracle.grammar.faults import plant

FAULT_SHARE, HARMLESS_SHARE = 0.5, 0.15
"""How many models hold a planted mistake, and what only looks like one."""
FILLED_BY = (factories, registries)
"""Modules whose import fills the tables of statements."""
ENGINES = ("x86", "x86", "qnnpack")
SIZE, FAULTY_SIZE = (18, 23), (6, 10)
"""How many pieces a body has; one that will be fixed and run again is short."""


@dataclass(frozen=True)
class Model:
    """One generated program and what is known about it.

    `text` is the file that holds `Net`. Of a program of several files `main` is its path below the root, and `others`
    are the other files by theirs.
    """

    seed: str
    text: str
    engine: str
    shapes: tuple[Shape, ...]
    call: str
    faults: tuple[Planted, ...]
    used: Counter[str]
    entry: str = ""
    main: str = ""
    others: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path, name: str) -> tuple[Path, Path | None]:
        """Write the files; returns the one that holds `Net`, and the root of a program of several files."""
        if not self.main:
            path = folder / f"{name}.py"
            path.write_text(self.text, encoding="utf-8")
            return path, None
        for file, text in {self.main: self.text, **self.others}.items():
            path = folder / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder / name / self.main, folder / name

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
        layout.ALONE,
        *layout.LAYOUTS,
        *layout.WAYS,
    ]


def mistake_keys() -> list[str]:
    """The coverage keys of the planted mistakes and their places, and of what only a long run reaches often enough."""
    return [*(f"rule: {rule}" for rule in rules()), *plant.PLACES, layout.ELSEWHERE, layout.EFFECT]


def generate(
    seed: int | str, coverage: Coverage | None = None, only: Sequence[str] = (), *, whole: bool = False
) -> Model:
    """The model of `seed`; with `coverage`, what it uses is added there.

    `only` are the rules to plant mistakes of; `whole` asks for a program in one file.
    """
    coverage = coverage or Coverage()
    rng = Random(str(seed))
    while True:
        try:
            model = _generate(str(seed), rng, coverage, only, whole)
        except NotHere:
            continue
        coverage.add(model.used)
        return model


def _generate(seed: str, rng: Random, coverage: Coverage, only: Sequence[str], whole: bool) -> Model:
    file = SourceFile(rng, coverage, engine=rng.choice(ENGINES))
    chosen = _fault(file, only)
    net = nets.write_net(file, rng.randint(*(FAULTY_SIZE if chosen else SIZE)), chosen)
    made = layout.render(file, whole=whole)
    entry = "deploy" if net.life else ""
    shapes, faults = tuple(net.shapes), tuple(made.faults)
    return Model(seed, made.text, file.engine, shapes, net.call, faults, file.used, entry, made.main, made.others)


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
