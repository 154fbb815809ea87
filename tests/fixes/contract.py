"""What every fix must keep, checked without torch and with it.

Without: the result parses, the finding is gone, no other comes, the next run has nothing to do. With torch, for
what is SAFE: the float model is the same to the bit, its parameters and buffers have the same names in the same
order, and the converted model runs.
"""

from __future__ import annotations

import ast
import copy
import types
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from qlsp.config import Configs
from qlsp.diagnostics import Applicability, Diagnostic, Fix
from qlsp.engine import CheckResult, check
from qlsp.fixing import choose, fix_texts
from qlsp.messages import render
from qlsp.text import Edit, LineIndex, apply

Texts = Mapping[str, str]

STILL_RAISES = "the float model still raises"

COSTS = {
    "fix-cat-functional": ("QL102",),
    "fix-cat-through-float": ("QL105", "QL412"),
    "fix-quantize": ("QL412",),
}
"""Fixes that trade an error for a hint: the detour that the title announces, a concatenation of concatenations that
are right one by one, a mean in int8 of a tensor that was unknown or float."""


def row_of(result: CheckResult, diagnostic: Diagnostic) -> int:
    """The row of a finding."""
    place = diagnostic.place
    return LineIndex(result.sources[place.path].text).position(place.span.start)[0]


def name_of(result: CheckResult, diagnostic: Diagnostic, fix: Fix) -> str:
    """A fix as the test report shows it."""
    where = f"{diagnostic.place.path}:{row_of(result, diagnostic)}"
    return f"{where} {diagnostic.code} {fix.applicability.value}: {render(fix.title)}"


def fixed_texts(texts: Texts, fix: Fix) -> dict[str, str]:
    """The files after one fix."""
    edits: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        edits.setdefault(edit.path, []).append(edit)
    return {path: apply(text, edits[path]) if path in edits else text for path, text in texts.items()}


def offered(result: CheckResult) -> Iterator[tuple[Diagnostic, Fix]]:
    """Every fix that may be applied."""
    for diagnostic in result.diagnostics:
        for fix in diagnostic.fixes:
            if fix.applicability is not Applicability.DISPLAY:
                yield diagnostic, fix


def problems(texts: Texts, configs: Configs) -> Iterator[str]:
    """What is wrong with the fixes of these files, one line each."""
    before = check(list(texts), configs, texts)
    for diagnostic, fix in offered(before):
        for problem in _problems(texts, configs, before, diagnostic, fix):
            yield f"{name_of(before, diagnostic, fix)}: {problem}"
    for unsafe in (False, True):
        yield from _round_problems(texts, configs, unsafe)


def _problems(texts: Texts, configs: Configs, before: CheckResult, diagnostic: Diagnostic, fix: Fix) -> Iterator[str]:
    new = fixed_texts(texts, fix)
    for path, text in new.items():
        if text != texts[path] and _parses(texts[path]) and not _parses(text):
            yield f"does not parse\n{text}"
            return
    after = check(list(new), configs, new)
    old_codes = Counter(each.code for each in before.diagnostics)
    new_codes = Counter(each.code for each in after.diagnostics)
    if new_codes[diagnostic.code] >= old_codes[diagnostic.code]:
        yield "the finding stays"
    more = new_codes - old_codes
    for code in (*COSTS.get(fix.title.id, ()), *fix.reveals):
        more.pop(code, None)
    if more:
        yield f"new findings: {dict(more)}"


def _round_problems(texts: Texts, configs: Configs, unsafe: bool) -> Iterator[str]:
    fixed = fix_texts(list(texts), configs, texts, unsafe)
    what = "unsafe fixes" if unsafe else "safe fixes"
    if not fixed.settled:
        yield f"{what} do not come to an end"
    if fixed.broken:
        yield f"{what} give what does not parse"
    if choose(fixed.after.diagnostics, configs, unsafe):
        yield f"{what} leave something to do"


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


# --- under torch ------------------------------------------------------------------------------------------------


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors of a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in flat(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in flat(item)]
    return []


def float_problems(old: nn.Module, new: nn.Module, batch: tuple[Any, ...]) -> Iterator[str]:
    """What differs between two float models that were built from one seed. A model that raises has nothing to keep,
    and its fix has to make it run."""
    for kind in ("named_parameters", "named_buffers"):
        names = [[name for name, _ in getattr(model, kind)()] for model in (old, new)]
        if names[0] != names[1]:
            yield f"{kind}: {names[0]} became {names[1]}"
            return
    if all(_float_result(old, batch, training) is None for training in (False, True)):
        if _float_result(new, batch, False) is None:
            yield STILL_RAISES
        return
    for one, other in zip(old.state_dict().values(), new.state_dict().values(), strict=True):
        if not torch.equal(one, other):
            yield "the initial values differ"
            return
    for training in (False, True):
        expected = _float_result(old, batch, training)
        if expected is None:
            continue
        actual = _float_result(new, batch, training)
        if actual is None:
            yield f"raises in {'train' if training else 'eval'} mode"
            continue
        same = len(expected) == len(actual) and all(
            one.dtype == other.dtype and torch.equal(one, other) or one.isnan().any()
            for one, other in zip(expected, actual, strict=True)
        )
        if not same:
            yield f"another float result in {'train' if training else 'eval'} mode"


def _float_result(model: nn.Module, batch: tuple[Any, ...], training: bool) -> list[torch.Tensor] | None:
    """The tensors a float model returns, None if it raises."""
    model.train(training)
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return flat(model(*copy.deepcopy(batch)))
        except Exception:  # a model may be right in one mode only, or wrong in both
            return None


def module_of(text: str, filename: str) -> types.ModuleType:
    """A text as a module."""
    module = types.ModuleType("fixed_under_torch")
    exec(compile(text, filename, "exec"), module.__dict__)
    return module
