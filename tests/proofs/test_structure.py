"""Rules about the structure of modules: what their fixes give runs under torch, and what does not raise is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from examples import example, rule_named
from mdtest import Case, cases_of
from scoring import configuration
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub, fuse_modules
from under_torch import loaded, quantize, quiet, run

from qlsp.engine import check
from qlsp.fixing import fix_texts

FIXED = {"module-alias", "module-reused", "shared-observer-averages"}


def cases() -> list[Case]:
    return [
        case
        for case in cases_of("rules")
        if case.page.stem in FIXED and case.inputs and "skip" not in case.inputs and " / Flagged / " in case.title
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_fixed_cases_run(case: Case, tmp_path: Path) -> None:
    configs = configuration(values=case.config)
    before = check(list(case.texts()), configs, case.texts())
    own = [each for each in before.diagnostics if each.name == case.page.stem]
    if not all(each.fixes for each in own):
        pytest.skip("no fix")
    fixed = fix_texts(list(case.texts()), configs, case.texts(), True)
    assert not [each for each in fixed.after.diagnostics if each.name == case.page.stem]
    assert case.inputs is not None
    texts = {name: source.text for name, source in fixed.after.sources.items()}
    assert run(texts, tmp_path.resolve(), case.inputs).raised == []


def test_a_second_dequantstub_hands_a_quantized_tensor_on(tmp_path: Path) -> None:
    (case,) = (case for case in cases_of("rules") if case.title.endswith("A DeQuantStub hands the tensor on"))
    with loaded(case.texts(), tmp_path.resolve()) as module:
        batch = (torch.randn(2, 4, 8, 8),)
        assert quantize(module.Leak(), [batch])(*batch).is_quantized


def fuse_cases() -> list[Case]:
    return [case for case in cases_of("rules") if case.page.stem == "fuse-changes-float"]


@pytest.mark.parametrize("case", fuse_cases(), ids=lambda case: case.id)
def test_fusing_changes_the_float_model(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flagged calls change the float output (or raise, where a module is fused twice), silent ones do not."""

    def statistics(norm: nn.BatchNorm2d) -> None:
        for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            nn.init.uniform_(tensor, 0.5, 1.5)

    monkeypatch.setattr(nn.BatchNorm2d, "reset_parameters", statistics)
    flagged = any(file.expected() for file in case.files)
    with loaded(case.texts(), tmp_path.resolve()) as module, quiet(), torch.no_grad():
        torch.manual_seed(0)
        plain = module.Net().eval()
        torch.manual_seed(0)
        try:
            fused = module.build().eval()
        except AssertionError:
            assert flagged
            return
        batch = torch.randn(2, 4, 8, 8) + 0.5
        results = [_flat(model(batch)) for model in (plain, fused)]
    same = all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*results, strict=True))
    assert same is not flagged


def _flat(value: torch.Tensor | tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


class Normed(nn.Module):
    """A convolution of one dimension with a BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.conv, self.bn = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dequant(self.bn(self.conv(self.quant(x))))


def test_a_batchnorm1d_runs_only_when_it_is_fused() -> None:
    batch = (torch.randn(2, 3, 16),)
    with pytest.raises(NotImplementedError, match="aten::native_batch_norm"):
        quantize(Normed(), [batch])(*batch)
    quantize(fuse_modules(Normed().eval(), [["conv", "bn"]]), [batch])(*batch)


def test_the_fix_of_missing_fuse_runs(tmp_path: Path) -> None:
    bad = example(rule_named("missing-fuse"), "Bad")
    assert bad is not None
    fixed = fix_texts(["bad.py"], configuration(), {"bad.py": bad}, True)
    assert not fixed.after.diagnostics
    with loaded({"bad.py": fixed.after.sources["bad.py"].text}, tmp_path.resolve()) as module:
        assert type(module.net.bn) is nn.Identity
