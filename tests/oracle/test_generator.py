"""The generator and the observer of torch, without the analyzer."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch")
if sys.version_info < (3, 11):
    pytest.skip("frames know the columns of calls from Python 3.11 on", allow_module_level=True)

import torch
from torch.ao.quantization.observer import HistogramObserver

from tests.oracle.findings import judge
from tests.oracle.generate import Model, generate, keys, mistake_keys
from tests.oracle.grammar import layout, nets, operators
from tests.oracle.grammar.core import ClassText, Coverage, Net, NotHere, Planted, Scope, SourceFile, Tensor
from tests.oracle.grammar.faults.plant import FAULTS, HARMLESS, PLACES, Fault, Spot
from tests.oracle.grammar.operators import ROWS, Row
from tests.oracle.run import observe_model
from tests.oracle.truth import TORCH_SEARCH, Truth, observe, search_range

MODELS = 40
SHAPES = ((2, 4, 8, 8), (2, 4, 64), (2, 2, 4, 8, 8))


@dataclass(frozen=True)
class Observed:
    model: Model
    truth: Truth


@pytest.fixture(scope="module")
def observed() -> list[Observed]:
    """A handful of models and what torch does with them."""
    return [Observed(model, _observe(model)) for model in _models(MODELS)]


def _models(count: int) -> Iterator[Model]:
    coverage = Coverage()
    for index in range(count):
        yield generate(f"test:{index}", coverage)


def _observe(model: Model) -> Truth:
    return observe_model(model, Path(f"{model.seed}.py"))


def test_same_seed_same_text() -> None:
    assert [each.text for each in _models(5)] == [each.text for each in _models(5)]
    assert generate(7).text == generate(7).text
    assert generate(7).text != generate(8).text


def test_files_are_complete_modules(observed: list[Observed]) -> None:
    for each in observed:
        classes = {node.name for node in ast.parse(each.model.text).body if isinstance(node, ast.ClassDef)}
        assert "Net" in classes
        for text in (each.model.text, *each.model.others.values()):
            assert ast.parse(text)


def test_some_programs_have_several_files(observed: list[Observed]) -> None:
    spread = [each for each in observed if each.model.main]
    assert len(spread) >= MODELS // 4
    assert any(cat.place.file for each in spread for cat in each.truth.cats)


def test_every_model_runs_but_for_its_planted_mistake(observed: list[Observed]) -> None:
    for each in observed:
        failure = each.truth.failure
        raising = [fault for fault in each.model.faults if fault.raises]
        assert (failure is None) == (not raising), (each.model.seed, failure)
        if failure is not None:
            assert any(fault.elsewhere or fault.line == failure.line for fault in raising), failure


def test_planted_cats_show(observed: list[Observed]) -> None:
    outcomes = [outcome for each in observed for outcome in judge(each.model, each.truth, []).outcomes]
    assert [outcome for outcome in outcomes if not outcome.shown] == []


def test_every_model_that_runs_joins_tensors(observed: list[Observed]) -> None:
    assert all(each.truth.cats for each in observed if each.truth.failure is None)


def test_steering_reaches_every_key() -> None:
    coverage = Coverage()
    for index in range(300):
        generate(f"coverage:{index}", coverage)
    assert {key: coverage.counts[key] for key in keys() if coverage.counts[key] < 20} == {}


def test_nothing_is_counted_that_has_no_key(observed: list[Observed]) -> None:
    known = [*keys(), *mistake_keys(), *FAULTS, f"rule: {HARMLESS}"]
    assert {key for each in observed for key in each.model.used} <= set(known)
    assert len(set(known)) == len(known)


# -- the operator table -------------------------------------------------------------------------------------

PROBE = """
import torch
import torch.ao.quantization as tq
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        self.layer = {layer}

    def forward(self, x):
        x = self.quant(x)
        y = {call}
        assert tuple(y.shape) == {shape}, y.shape
        fixed = [torch.sigmoid(x).reshape(2, -1), torch.tanh(x).reshape(2, -1)]
        return self.dequant(torch.cat([x.clone().reshape(2, -1), {flat}, *fixed], 1))
"""


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_operator_row_is_what_torch_does(row: Row) -> None:
    shape = next(each for each in SHAPES if row.when(each))
    x = Tensor("x", shape, ("self", "quant"))
    filled = operators.fill(row, x)
    result = row.shape(shape)
    text = PROBE.format(
        layer=filled if row.module else "None",
        call=row.call.format(m="self.layer", x="x") if row.module else filled,
        shape=result,
        flat="y.reshape(2, -1)" if result else "y.reshape(1, 1).repeat(2, 1)",
    )
    truth = observe(text, "probe.py", shapes=[shape], engine=row.engine or "x86")
    assert truth.failure is None
    source, made, sigmoid, tanh = truth.cats[-1].inputs
    known = {source: "keep", sigmoid: "sigmoid", tanh: "tanh"}
    assert known.get(made, "own") == row.scale


# -- the table of mistakes -----------------------------------------------------------------------------------


def _smallest(fault: Fault, place: str) -> tuple[str, list[Planted], Net] | None:
    """A model that holds nothing but the mistake, in one place; None where it cannot stand there."""
    file = SourceFile(Random("smallest"), Coverage())
    text = ClassText("Net", file, root=True, init=["super().__init__()"])
    net = Net(file, text, Scope(file, text))
    nets.one_tensor(net)
    try:
        made = PLACES[place](Spot(fault, net, net.scope, net.scope.pool[-1]), fault.plant)
    except NotHere:
        return None
    nets.finish(net, [made or net.scope.pool[0]], everything=True)
    made = layout.render(file, whole=True)
    return made.text, made.faults, net


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_planted_mistake_is_what_torch_says(fault: Fault) -> None:
    places = ["place: forward of the model"] if fault.here else list(PLACES)
    for place in places:
        smallest = _smallest(fault, place)
        if smallest is None:
            assert place != places[0]
            continue
        text, marks, net = smallest
        entry = "deploy" if net.life else ""
        truth = observe(text, "smallest.py", shapes=net.shapes, call=net.call, entry=entry)
        rows = {each.row for each in marks if each.kind == fault.key}
        if not fault.raises:
            assert truth.failure is None, place
        else:
            assert truth.failure is not None, place
            assert truth.failure.phase not in ("import", "build"), truth.failure
            assert (truth.failure.row in rows) is not fault.elsewhere, (place, truth.failure)


# -- the observer of torch ----------------------------------------------------------------------------------

CALLS = """
import torch
import torch.ao.quantization as tq
import torch.nn as nn


def join(feats):
    return torch.cat(feats, 1)


class Block(nn.Module):
    def forward(self, x, y):
        return [torch.hstack([a, b]) for a, b in [(x, y)]][0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.other, self.dequant = tq.QuantStub(), tq.QuantStub(), tq.DeQuantStub()
        self.block = Block()
        self.ff = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x, y):
        x, y = self.quant(x), self.other(y)
        size = {"größe": x}; a, b = torch.cat([size["größe"], x]), torch.stack([x, y])
        c = join(
            [x, y])
        d = self.block(x, y)
        return self.dequant((self
            .ff
            .cat([c, d], 1)))
"""


def test_calls_are_found_at_their_expression() -> None:
    truth = observe(CALLS, "places.py", shapes=[SHAPES[0], SHAPES[0]])
    assert truth.failure is None
    found = [(cat.spelling, cat.place.row, cat.place.column, [step.row for step in cat.path]) for cat in truth.cats]
    lines = CALLS.split("\n")
    one_line = next(row for row, line in enumerate(lines, 1) if "größe" in line)
    call = next(row for row, line in enumerate(lines, 1) if "c = join(" in line)
    assert found == [
        ("torch.cat", one_line, lines[one_line - 1].index("torch.cat") + 1, []),
        ("torch.stack", one_line, lines[one_line - 1].index("torch.stack") + 1, []),
        ("torch.cat", 8, 12, [call]),
        ("torch.hstack", 13, 17, [call + 2]),
        ("FloatFunctional.cat", call + 3, 30, []),
    ]
    same, mixed = truth.cats[0].inputs, truth.cats[1].inputs
    assert same[0] == same[1]
    assert mixed[0] != mixed[1]
    assert ("", one_line) in truth.warned
    assert [(stub.stub, stub.on_quantized) for stub in truth.stubs] == [("quant", False), ("other", False)]


def test_range_search_agrees_with_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    for scale in (0.01, 1.0, 30.0):
        observer = HistogramObserver()
        for _ in range(2):
            observer(torch.randn(500, generator=generator) ** 3 * scale)
        ours, theirs = search_range(observer), TORCH_SEARCH(observer)
        width = (observer.max_val - observer.min_val).item() / observer.bins
        assert all(abs(float(a) - float(b)) <= 2 * width for a, b in zip(ours, theirs, strict=True))
