"""What the pages of the life-cycle rules say, under torch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from examples import example, marked, rule_named, section
from torch import nn
from under_torch import loaded, quantize, quiet, run

UNCONFIGURED = "None of the submodule got qconfig applied"


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The texts of the warnings that are raised inside."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        texts: list[str] = []
        yield texts
    texts.extend(str(each.message) for each in seen if not issubclass(each.category, DeprecationWarning))


def quantized_modules(model: nn.Module) -> int:
    """How many modules convert swapped; a FloatFunctional lives in the same package and is none."""
    kinds = (nnq.Quantize, nnq.DeQuantize, nnq.QFunctional, nnq.Linear, nnq.Conv2d)
    return sum(isinstance(module, kinds) for module in model.modules())


def observers(model: nn.Module) -> int:
    return sum(isinstance(module, tq.ObserverBase) for module in model.modules())


def wrapped() -> nn.Module:
    return tq.QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))).eval()


def returned(rule: str, heading: str, folder: Path) -> tuple[Any, list[str]]:
    """What ``quantize(batches)`` of an example gives back, and the warnings on the way."""
    code = example(rule_named(rule), heading)
    assert code is not None
    with loaded({"page.py": code}, folder.resolve()) as module, recorded() as texts:
        result = module.quantize([torch.randn(4, 8)])
    return result, texts


@pytest.mark.parametrize("rule", ["missing-qconfig", "qconfig-after-prepare", "result-ignored"])
def test_bad_example_stays_float_and_good_example_is_quantized(rule: str, tmp_path: Path) -> None:
    bad, texts = returned(rule, "Bad", tmp_path / "bad")
    good, _ = returned(rule, "Good", tmp_path / "good")
    assert quantized_modules(bad) == 0
    assert quantized_modules(good) == 4
    warned = any(UNCONFIGURED in text for text in texts)
    assert warned == (rule != "result-ignored")
    why = section(rule_named(rule).page, "Why it matters")
    assert why is not None and (UNCONFIGURED in why) == warned


def test_without_a_warning_when_the_result_is_ignored() -> None:
    net = wrapped()
    net.qconfig = tq.get_default_qconfig("x86")
    with recorded() as texts:
        tq.prepare(net)
        tq.convert(net)
        tq.fuse_modules(net, [["module.0", "module.1"]])
        tq.quantize_dynamic(net, {nn.Linear})
    assert not [text for text in texts if "reduce_range" not in text]
    assert observers(net) == quantized_modules(net) == 0 and type(net.module[1]) is nn.ReLU
    with quiet():
        assert observers(tq.prepare(net)) > 0


def test_a_second_prepare_in_place_does_not_repair_a_missing_qconfig() -> None:
    net = wrapped()
    with quiet():
        tq.prepare(net, inplace=True)
    assert net.module[0].qconfig is None
    net.qconfig = tq.get_default_qconfig("x86")
    with recorded() as texts:
        tq.prepare(net, inplace=True)
    assert observers(net) == 0
    assert not any(UNCONFIGURED in text for text in texts)


def test_convert_takes_the_weight_observer_of_the_qconfig_that_a_layer_has_then() -> None:
    results = []
    for late in (None, tq.default_per_channel_qconfig):
        torch.manual_seed(0)
        net = wrapped()
        net.qconfig = tq.default_qconfig
        with quiet():
            net = tq.prepare(net)
            net(torch.randn(4, 8))
            if late is not None:
                net.module[2].qconfig = late
            results.append(tq.convert(net).module[2].weight().qscheme())
    assert results == [torch.per_tensor_affine, torch.per_channel_affine]


def test_none_after_prepare_keeps_a_layer_float() -> None:
    net = wrapped()
    net.qconfig = tq.default_qconfig
    with quiet():
        net = tq.prepare(net)
        net(torch.randn(4, 8))
        net.module[2].qconfig = None
        converted = tq.convert(net)
    assert type(converted.module[2]) is nn.Linear and type(converted.module[0]) is nnq.Linear


def test_a_qconfig_is_not_callable(tmp_path: Path) -> None:
    rule = rule_named("qconfig-called")
    why = section(rule.page, "Why it matters")
    code = example(rule, "Bad")
    assert why is not None and code is not None
    claimed = next(line.strip() for line in why.split("\n") if line.startswith("    "))
    with loaded({"page.py": code}, tmp_path.resolve()) as module, pytest.raises(TypeError) as raised:
        module.prepared()
    assert claimed == f"TypeError: {raised.value}"
    assert [raised.traceback[-1].lineno + 1] == [row for row, _ in marked(code)]
    for value in (tq.default_qconfig, tq.get_default_qconfig("x86"), tq.get_default_qat_qconfig("x86")):
        with pytest.raises(TypeError):
            value()


@pytest.mark.parametrize("name", ["share_observation", "share_observer", "share_qconfig"])
def test_nothing_reads_a_stray_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'QConfig' object has no attribute '{name}'"):
        setattr(tq.get_default_qconfig("x86"), name, True)

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.quant(x)
            return self.dequant(torch.cat([self.a(x), self.b(x)], 1))

    torch.manual_seed(0)
    plain = Branches().eval()
    tagged = copy.deepcopy(plain)
    for module in tagged.modules():
        setattr(module, name, True)
    x = torch.randn(8, 4)
    first, second = quantize(plain, [(x,)]), quantize(tagged, [(x,)])
    assert first.a.scale == second.a.scale != second.b.scale
    with quiet():
        assert torch.equal(first(x), second(x))


def test_a_qconfig_on_a_tensor_is_not_seen(tmp_path: Path) -> None:
    code = example(rule_named("tensor-qconfig"), "Bad")
    assert code is not None
    with loaded({"page.py": code}, tmp_path.resolve()) as module, recorded() as texts:
        net = module.Net().eval()
        net.fc.weight.qconfig = tq.default_qconfig
        net(torch.randn(2, 4))
        prepared = tq.prepare(net)
    assert observers(prepared) == 0
    assert any(UNCONFIGURED in text for text in texts)
    x = torch.randn(2)
    x.qconfig = tq.default_qconfig
    assert not hasattr(x.clone(), "qconfig") and not hasattr(x + 1, "qconfig")


def test_a_module_gets_no_observer_from_a_qconfig_that_forward_sets() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant, self.fc, self.dequant = tq.QuantStub(), nn.Linear(4, 4), tq.DeQuantStub()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.fc.qconfig = tq.default_qconfig
            return self.dequant(self.fc(self.quant(x)))

    with quiet():
        net = tq.prepare(Late().eval())
        net(torch.randn(2, 4))
    assert observers(net) == 0


def test_an_island_is_right_and_a_functional_does_without(tmp_path: Path) -> None:
    bad, good = (example(rule_named("dequant-cat-requant"), heading) for heading in ("Bad", "Good"))
    assert bad is not None and good is not None
    inputs = {"inputs": [[2, 3, 8, 8]]}
    for name, code in (("bad.py", bad), ("good.py", good)):
        seen = run({name: code}, (tmp_path / name).resolve(), inputs)
        assert seen.raised == [] and seen.cat_warnings == set()
    x = torch.randn(2, 3, 8, 8)
    with loaded({"bad.py": bad}, (tmp_path / "a").resolve()) as module:
        before = module.Net().eval()
    with loaded({"good.py": good}, (tmp_path / "b").resolve()) as module:
        after = module.Net().eval()
    after.load_state_dict(before.state_dict(), strict=True)
    with torch.no_grad():
        assert torch.equal(before(x), after(x))


@pytest.mark.parametrize("part", ["", "module"])
def test_a_second_qconfig_after_prepare_has_no_effect(part: str) -> None:
    def output(second: object) -> torch.Tensor:
        torch.manual_seed(0)
        net = tq.QuantWrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))).eval()
        net.qconfig = tq.get_default_qconfig("x86")
        prepared = tq.prepare(net)
        if second is not None:
            prepared.get_submodule(part).qconfig = second
        batch = torch.randn(16, 8)
        prepared(batch)
        return tq.convert(prepared)(batch)

    with quiet():
        assert torch.equal(output(None), output(tq.get_default_qconfig("qnnpack")))
