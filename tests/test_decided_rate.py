"""Silence is not bought with Unknown: most concatenations, stub and operator calls are flagged or proved right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from qlsp.config import Config
from qlsp.engine import check

MODELS = Path(__file__).parent / "cases" / "models"
AT_LEAST = {"cat": 0.85, "stub": 0.85, "op": 0.7}
"""Of the operator calls, 16 in torch's test models stand in classes that only FX and PT2E tests out of view use."""


def torch_file(name: str) -> Path:
    """A source file of the installed torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / name


def torch_cases() -> list[Path]:
    """The model files of the cases that a vendor's front end has no part in."""
    return [path for path in sorted(MODELS.glob("*.py")) if "horizon_plugin" not in path.read_text(encoding="utf-8")]


def rate(paths: list[Path]) -> dict[str, tuple[int, int]]:
    return dict(check([str(path) for path in paths], Config(), statistics=True).statistics.by_kind)


def test_calls_of_the_torch_cases_and_torchs_own_test_models() -> None:
    kinds = rate([torch_file("testing/_internal/common_quantization.py"), *torch_cases()])
    for kind, share in AT_LEAST.items():
        decided, found = kinds[kind]
        assert found >= 40
        assert decided / found >= share, f"{kind}: {decided} of {found}"


def test_every_operator_call_of_the_torch_cases_is_decided() -> None:
    decided, found = rate(torch_cases())["op"]
    assert found >= 40
    assert decided == found


def test_torchs_own_test_models_are_right_but_for_two_and_every_stub_call_is_decided() -> None:
    """One returns its quantized result; one gives a layer a qconfig that no stub feeds and raises when converted."""
    result = check([str(torch_file("testing/_internal/common_quantization.py"))], Config(), statistics=True)
    assert sorted(d.code for d in result.diagnostics if d.code != "QL901") == ["QL204", "QL205"]
    decided, found = result.statistics.by_kind["stub"]
    assert (decided, found) == (26, 26)


def test_what_is_undecided_has_a_reason() -> None:
    result = check([str(torch_file("testing/_internal/common_quantization.py"))], Config(), statistics=True)
    assert all(reason for _, reason, _ in result.statistics.undecided)
    missing = sum(found - decided for decided, found in result.statistics.by_kind.values())
    assert len(result.statistics.undecided) == missing
