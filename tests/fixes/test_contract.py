"""The contract of every fix on model files and Markdown cases, and the share of findings that carry one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from contract import STILL_RAISES, fixed_texts, float_problems, name_of, offered, problems, row_of
from mdtest import Case, cases_of
from scoring import ModelCase, built_rules, configuration, torch_cases
from torch import nn
from under_torch import Seen, _batches, _builders, loaded, quantize, quiet, run

from qlsp.diagnostics import Applicability, Diagnostic, Fix, Predicts
from qlsp.engine import CheckResult, check
from qlsp.fixing import fix_texts
from qlsp.report.changes import share

REWRITTEN = ("QL101", "QL201", "QL202")
NEEDED_SHARE = 0.9
SHAPES = ((2, 3, 16, 16), (2, 8))
"""Inputs of models whose layers do not tell."""


def config_of(case: Case | ModelCase) -> Any:
    if isinstance(case, ModelCase):
        return configuration(case.settings)
    return configuration(values=case.config)


def texts_of(case: Case | ModelCase) -> dict[str, str]:
    return {case.path.name: case.text} if isinstance(case, ModelCase) else case.texts()


def label(case: Case | ModelCase) -> str:
    return case.path.stem if isinstance(case, ModelCase) else case.id


@lru_cache(maxsize=1)
def with_fixes() -> list[Case | ModelCase]:
    """The cases in which some finding carries a fix."""
    cases: list[Case | ModelCase] = [*torch_cases(), *cases_of("rules")]
    return [case for case in cases if any(d.fixes for d in checked(case).diagnostics)]


def checked(case: Case | ModelCase) -> CheckResult:
    texts = texts_of(case)
    return check(list(texts), config_of(case), texts)


def safe_fixes(case: Case | ModelCase) -> Iterator[tuple[str, Diagnostic, Fix]]:
    result = checked(case)
    for diagnostic, fix in offered(result):
        if fix.applicability is Applicability.SAFE:
            yield name_of(result, diagnostic, fix), diagnostic, fix


@pytest.mark.parametrize("case", with_fixes(), ids=label)
def test_contract(case: Case | ModelCase) -> None:
    assert not list(problems(texts_of(case), config_of(case)))


@pytest.mark.parametrize("code", REWRITTEN)
def test_share_of_findings_with_a_fix(code: str) -> None:
    found = [diagnostic for case in torch_cases() for diagnostic in checked(case).diagnostics]
    total, fixable, _ = share(found)[code]
    assert fixable >= NEEDED_SHARE * total, f"{fixable} of {total}"


# --- Markdown cases under torch ---------------------------------------------------------------------------------


def runnable() -> list[Case]:
    return [
        case
        for case in with_fixes()
        if isinstance(case, Case) and case.inputs is not None and not {"skip", "call"} & set(case.inputs)
    ]


@pytest.mark.parametrize("case", runnable(), ids=label)
def test_safe_fixes_keep_the_float_model(case: Case, tmp_path: Path) -> None:
    assert case.inputs is not None
    texts = case.texts()
    for number, (name, diagnostic, fix) in enumerate(safe_fixes(case)):
        others = [] if diagnostic.predicts is Predicts.RAISES else [STILL_RAISES]
        old = models(texts, tmp_path / f"{number}-old", case.inputs)
        new = models(fixed_texts(texts, fix), tmp_path / f"{number}-new", case.inputs)
        assert len(old) == len(new)
        for one, other in zip(old, new, strict=True):
            assert list(float_problems(one, other, _batches(case.inputs)[0])) in ([], others), name


def models(texts: dict[str, str], folder: Path, inputs: dict[str, Any]) -> list[nn.Module]:
    folder.mkdir()
    found = []
    with loaded(texts, folder.resolve()) as module, quiet():
        for build in _builders(module, inputs):
            torch.manual_seed(0)
            found.append(build())
    return found


@pytest.mark.parametrize("case", runnable(), ids=label)
def test_fixed_models_convert_run_and_do_what_the_findings_left_say(case: Case, tmp_path: Path) -> None:
    assert case.inputs is not None
    texts = case.texts()
    fixed = fix_texts(list(texts), config_of(case), texts)
    seen = run({**texts, **fixed.texts}, tmp_path.resolve(), case.inputs)
    expect_only(seen, fixed.after, shared=bool(case.inputs.get("shared")))


def expect_only(seen: Seen, after: CheckResult, shared: bool) -> None:
    """Torch warns and raises where a finding is left, and nowhere else."""

    def places(code: str) -> set[tuple[str, int]]:
        return {(d.place.path, row_of(after, d)) for d in after.diagnostics if d.code == code}

    assert seen.cat_warnings == places("QL101")
    assert seen.quantized_twice == places("QL202")
    if not shared:
        assert seen.stub_reused <= places("QL201")
    if not any(d.predicts is Predicts.RAISES for d in after.diagnostics):
        assert seen.raised == []


# --- model files under torch --------------------------------------------------------------------------------------


def rewritten_models() -> list[ModelCase]:
    return [
        case
        for case in with_fixes()
        if isinstance(case, ModelCase) and any(d.code in REWRITTEN and d.fixes for d in checked(case).diagnostics)
    ]


@pytest.mark.parametrize("case", rewritten_models(), ids=label)
def test_model_files_under_torch(case: ModelCase, tmp_path: Path) -> None:
    """Float identity of each safe fix; after all of them the model converts, runs, and torch has no warning."""
    text = case.text
    nets = roots(case)
    for number, (name, _, fix) in enumerate(safe_fixes(case)):
        new = fixed_texts({case.path.name: text}, fix)[case.path.name]
        for net in nets:
            one = instance(text, net, tmp_path / f"{number}-{net}-old")
            other = instance(new, net, tmp_path / f"{number}-{net}-new")
            batch = inputs_for(one)
            assert not list(float_problems(one, other, batch)), name
    fixed = fix_texts([case.path.name], config_of(case), {case.path.name: text})
    raises = any(d.predicts is Predicts.RAISES for d in fixed.after.diagnostics)
    other_mistakes = {name for name, _ in case.expected} | {name.partition(":")[0] for name in case.allowed}
    if raises or not other_mistakes <= built_rules():
        return
    for net in nets:
        model = instance(fixed.texts.get(case.path.name, text), net, tmp_path / f"{net}-fixed")
        batch = inputs_for(model)
        converted = quantize(model.eval(), [batch])
        with quiet(), torch.no_grad():
            converted(*batch)


def roots(case: ModelCase) -> list[str]:
    return sorted({facts.context.root for facts in checked(case).analysis.facts})


def instance(text: str, name: str, folder: Path) -> nn.Module:
    folder.mkdir()
    with loaded({"model.py": text}, folder.resolve()) as module, quiet():
        torch.manual_seed(0)
        if not hasattr(module, name):
            pytest.skip(f"{name} is made inside a function: there is no class to build alone")
        model: nn.Module = getattr(module, name)()
    return model


def inputs_for(model: nn.Module) -> tuple[torch.Tensor, ...]:
    """Some tensors that the float model accepts."""
    names = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    model.eval()
    for shapes in product(dict.fromkeys([*layer_shapes(model), *SHAPES]), repeat=len(names)):
        generator = torch.Generator().manual_seed(0)
        batch = tuple(torch.randn(shape, generator=generator) * 3.0**i for i, shape in enumerate(shapes))
        try:
            with quiet(), torch.no_grad():
                model(*batch)
        except Exception:  # not its shape
            continue
        return batch
    pytest.fail("no inputs found that this model accepts")


def layer_shapes(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Shapes that the layers of a model accept."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            yield (2, layer.in_channels, 16, 16)
        elif isinstance(layer, nn.Linear):
            yield (2, layer.in_features)
