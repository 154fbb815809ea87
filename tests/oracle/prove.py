"""What the fixes are worth on generated models of one file with mistakes in them.

python -m tests.oracle.prove --models 600 --seed 1 [--rules QL401,QL402] [--keep-failures DIR]

Every SAFE fix alone must keep the float model to the bit. All fixes of one rule together must let the converted
model run where a finding said that it raises, and must not cost more than 3 dB where it ran before. What UNSAFE
fixes do is counted, too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from qlsp.config import Config
from qlsp.diagnostics import Applicability, Predicts
from qlsp.engine import CheckResult, check
from qlsp.fixing import Fixed, fix_texts
from tests.fixes.contract import COSTS, STILL_RAISES, fixed_texts, float_problems, offered
from tests.oracle.generate import Model, generate
from tests.oracle.grammar.core import Coverage
from tests.oracle.program import Program
from tests.oracle.run import observe_text
from tests.oracle.truth import Truth, inputs, sqnr

NAME, FLOAT = "net.py", "float model: "
WORST_LOSS = 3.0
"""The SQNR in dB that no fix may cost."""
BEHIND = {"QL101": "QL102"}
"""A hint that is given only where the error of another rule is gone."""
BEST = 100.0
"""From here on a result counts as exact."""
DRAWS = 5
"""Over how many draws of the weights the SQNR is taken where one draw shows a loss."""
BATCHES = 8
"""On how many inputs the SQNR is measured."""
ALONE = 8
"""How many SAFE fixes of one rule are compared one by one in a model; all of them are compared at once, too."""


@dataclass(frozen=True)
class Proof:
    """All fixes of one rule in one model. `before` and `after` are SQNR in dB, None where the model raises.

    `fell`: by too much with these weights; a problem only if so over other weights too. `alone`: how many SAFE fixes
    were compared one by one. `problems` says what a fix must not do and did.
    """

    model: Model
    rule: str
    safe: bool
    fixes: int
    alone: int
    before: float | None
    after: float | None
    fell: bool
    problems: tuple[str, ...] = ()
    text: str = ""

    @property
    def gain(self) -> float | None:
        """The change of the SQNR, where both can be measured."""
        if self.before is None or self.after is None:
            return None
        return min(self.after, BEST) - min(self.before, BEST)


@dataclass
class Report:
    """A whole run."""

    models: int = 0
    proofs: list[Proof] = field(default_factory=list)
    seconds: float = 0.0

    def problems(self) -> list[tuple[Proof, str]]:
        return [(proof, problem) for proof in self.proofs for problem in proof.problems]


def prove(model: Model, folder: Path) -> Iterator[Proof]:
    """Apply the fixes that are offered for a model, rule by rule."""
    texts = {NAME: model.text}
    before = check([NAME], Config(), texts)
    wanted = sorted({(each.code, fix.applicability is Applicability.SAFE) for each, fix in offered(before)})
    if not wanted:
        return
    path = folder / NAME
    truth = observe_text(model, model.text, path, batches=BATCHES)
    for rule, safe in wanted:
        if safe or (rule, True) not in wanted:
            yield _prove(model, before, truth, path, rule, safe)


def _prove(model: Model, before: CheckResult, truth: Truth, path: Path, rule: str, safe: bool) -> Proof:
    texts = {NAME: model.text}
    fixed = fix_texts([NAME], Config(fixable=(rule,)), texts, unsafe=not safe)
    text = fixed.texts.get(NAME, model.text)
    problems: list[str] = []
    alone = 0
    if safe:
        safe_fixes = [fix for each, fix in offered(before) if each.code == rule and fix.applicability is SAFE]
        for fix in safe_fixes[:ALONE]:
            alone += 1
            problems += _float_problems(model, fixed_texts(texts, fix)[NAME], path)
        problems += _float_problems(model, text, path)
    after = observe_text(model, text, path, batches=BATCHES)
    levels = _level(truth, truth), _level(truth, after)
    if _falls(levels):
        steady = _mean_levels(model, text, path)
        if safe and _falls(steady):
            problems.append(f"SQNR falls from {steady[0]:.1f} to {steady[1]:.1f} dB")
    problems += _result_problems(model, fixed, before, truth, after, rule, safe)
    return Proof(
        model,
        rule,
        safe,
        len(fixed.applied),
        alone,
        *levels,
        _falls(levels),
        tuple(dict.fromkeys(problems)),
        text,
    )


SAFE = Applicability.SAFE


def _level(expected: Truth, actual: Truth) -> float | None:
    """SQNR against the float results of the model before the fix; None if it raises or has other results."""
    if actual.failure is not None:
        return None
    reference = expected.expected or actual.expected
    if [each.shape for each in reference] != [each.shape for each in actual.actual]:
        return None
    return sqnr(reference, actual.actual)


def _falls(levels: tuple[float | None, float | None]) -> bool:
    """Whether the SQNR falls by more than a fix may cost."""
    before, after = levels
    return before is not None and after is not None and after < min(before, BEST) - WORST_LOSS


def _mean_levels(model: Model, text: str, path: Path) -> tuple[float, float]:
    """The SQNR before and after, over several draws of the weights: one draw may be a stroke of luck."""
    totals = []
    for each in (model.text, text):
        truths = [observe_text(model, each, path, seed=seed, batches=BATCHES) for seed in range(DRAWS)]
        expected = [tensor / scale for one in truths for scale in [_norm(one)] for tensor in one.expected]
        actual = [tensor / scale for one in truths for scale in [_norm(one)] for tensor in one.actual]
        totals.append(sqnr(expected, actual))
    return totals[0], totals[1]


def _norm(truth: Truth) -> float:
    return max(1e-12, sum(float(each.double().pow(2).sum()) for each in truth.expected) ** 0.5)


def _float_problems(model: Model, text: str, path: Path) -> Iterator[str]:
    """How the float model of `text` differs from the one before; nothing to compare where that one raises."""
    batch = inputs(model.shapes, model.call, torch.Generator().manual_seed(0), 1.0)
    try:
        old = _built(model.text, path)
    except Exception:  # a mistake in the constructor
        return
    try:
        for each in float_problems(old, _built(text, path), batch):
            if each != STILL_RAISES:  # for a mistake of another rule; what a fix promises is checked in the whole life
                yield FLOAT + each
    except Exception as error:  # whatever the fixed file raises when it is built
        yield f"{FLOAT}{type(error).__name__}: {error}".split("\n")[0][:160]


def _built(text: str, path: Path) -> nn.Module:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net: nn.Module = Program(text, str(path)).load().Net()
    return net


def _result_problems(
    model: Model, fixed: Fixed, before: CheckResult, old: Truth, new: Truth, rule: str, safe: bool
) -> Iterator[str]:
    """What is wrong after the fixes of one rule were applied."""
    if not fixed.settled or fixed.broken:
        yield "the fixes do not come to an end, or do not parse"
    codes = [Counter(each.code for each in result.diagnostics) for result in (before, fixed.after)]
    more = codes[1] - codes[0]
    for applied in fixed.applied:
        for code in (*COSTS.get(applied.fix.title.id, ()), *applied.fix.reveals, BEHIND.get(rule, "")):
            more.pop(code, None)
    if more:
        yield f"new findings: {dict(more)}"
    predicted = any(each.predicts is Predicts.RAISES for each in fixed.after.diagnostics)
    repaired = any(applied.diagnostic.predicts is Predicts.RAISES for applied in fixed.applied)
    if new.failure is None and predicted:
        yield "an exception is still predicted, and the model runs"
    if new.failure is not None and (old.failure is None or repaired and not predicted):
        yield f"raises: {new.failure.phase}: {new.failure.kind}: {new.failure.message[:140]}"


def run(count: int, seed: int, folder: Path, only: Sequence[str] = ()) -> Report:
    """Prove the fixes on `count` models with a mistake in them."""
    report, coverage, start = Report(), Coverage(), time.perf_counter()
    number = 0
    while report.models < count:
        model = generate(f"fix:{seed}:{number}", coverage, only, whole=True)
        number += 1
        if not model.faults:
            continue
        report.models += 1
        report.proofs += prove(model, folder)
    report.seconds = time.perf_counter() - start
    return report


# -- printing -----------------------------------------------------------------------------------------------


def show(report: Report, limit: int) -> None:
    """Print a line per rule and applicability."""
    print(f"models with a mistake: {report.models}, seconds: {report.seconds:.0f}")
    print(f"{'':14} {'':6} {'':6} {'float':>11} {'raised,':>17} {'ran,':>14}   {'gain in dB':>15}")
    heads = f"{'min':>15} {'5 %':>5} {'median':>7} {'95 %':>5} {'rose':>5}"
    print(f"{'rule':14} models  fixes {'same':>11} {'runs now':>17} {'runs now':>14}   {heads}")
    keys = sorted({(proof.rule, not proof.safe) for proof in report.proofs})
    for rule, unsafe in keys:
        _row(
            f"{rule} {'unsafe' if unsafe else 'safe'}",
            [p for p in report.proofs if (p.rule, not p.safe) == (rule, unsafe)],
        )
    for safe in (True, False):
        _row(f"all {'safe' if safe else 'unsafe'}", [proof for proof in report.proofs if proof.safe is safe])
    print(f"more than {WORST_LOSS} dB lost with one draw of the weights: {sum(proof.fell for proof in report.proofs)}")
    print(f"problems (losses over {DRAWS} draws): {len(report.problems())}")
    for kind, number in Counter(
        (p.rule, p.safe, text.split(":")[0][:40]) for p, text in report.problems()
    ).most_common():
        print(f"  {number:4} {kind[0]} {'safe' if kind[1] else 'unsafe'}: {kind[2]}")
    for proof, text in report.problems()[:limit]:
        print(f"  {proof.model.seed} {proof.rule} {'safe' if proof.safe else 'unsafe'}: {text}")


def _row(name: str, proofs: Sequence[Proof]) -> None:
    if not proofs:
        return
    bad = sum(any(text.startswith(FLOAT) for text in proof.problems) for proof in proofs)
    raised, ran = ([p for p in proofs if (p.before is None) is test] for test in (True, False))
    gains = sorted(each.gain for each in proofs if each.gain is not None)
    alive = [sum(p.after is not None for p in part) for part in (raised, ran)]
    same = f"{len(proofs) - bad}/{len(proofs)}" if proofs[0].safe else "-"
    print(
        f"{name:14} {len(proofs):6} {sum(p.fixes for p in proofs):6} {same:>11} {f'{alive[0]}/{len(raised)}':>17} "
        f"{f'{alive[1]}/{len(ran)}':>14}   {_quantiles(gains)}"
    )


def _quantiles(gains: Sequence[float]) -> str:
    if not gains:
        return f"{'-':>16}"
    at = [gains[0], gains[int(0.05 * len(gains))], statistics.median(gains), gains[int(0.95 * (len(gains) - 1))]]
    rose = sum(gain > 0.05 for gain in gains) / len(gains)
    return f"{at[0]:15.1f} {at[1]:5.1f} {at[2]:7.1f} {at[3]:5.1f} {rose:5.0%}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.prove", description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rules", default="", help="plant mistakes of these rules only, such as QL401,QL402")
    parser.add_argument("--keep-failures", type=Path, metavar="DIR", help="write the files with a problem there")
    parser.add_argument("--limit", type=int, default=40, help="how many problems to print")
    options = parser.parse_args(argv)
    only = [rule for rule in options.rules.split(",") if rule]
    with tempfile.TemporaryDirectory() as folder:
        report = run(options.models, options.seed, Path(folder), only)
    show(report, options.limit)
    if options.keep_failures:
        options.keep_failures.mkdir(parents=True, exist_ok=True)
        for proof, _ in report.problems():
            name = f"{proof.model.seed.replace(':', '_')}_{proof.rule}"
            (options.keep_failures / f"{name}_after.py").write_text(proof.text, encoding="utf-8")
            (options.keep_failures / f"{name}_before.py").write_text(proof.model.text, encoding="utf-8")
    return 1 if any(proof.safe for proof, _ in report.problems()) else 0


if __name__ == "__main__":
    sys.exit(main())
