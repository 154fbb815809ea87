"""Life-cycle facts: the order of events, their identity, what can cross a process border."""

from __future__ import annotations

import pickle
from textwrap import dedent

from scoring import configuration

from qlsp.analysis.facts import (
    Handover,
    LifecycleCall,
    LifeEvent,
    ModelStep,
    QconfigAssignment,
    QconfigState,
    QconfigTarget,
)
from qlsp.engine import analyze
from qlsp.values.workflow import Mode, Stage


def events(code: str) -> list[LifeEvent]:
    text = "import torch.ao.quantization as tq\nfrom torch import nn\n" + dedent(code)
    analysis = analyze(["test.py"], configuration(), {"test.py": text})
    (script,) = analysis.scripts
    assert pickle.loads(pickle.dumps(script)) == script
    return script.events


RUN = """
def run(data):
    net = tq.QuantWrapper(nn.Linear(4, 4)).eval()
    net.qconfig = tq.default_qconfig
    ready = tq.prepare(net)
    ready(data)
    tq.convert(ready, inplace=True)
"""


def test_events_of_one_run_stand_in_its_order_and_name_one_model() -> None:
    first, prepare, convert = (e for e in events(RUN) if not isinstance(e, (Handover, ModelStep)))
    assert isinstance(first, QconfigAssignment) and first.target is QconfigTarget.MODULE and not first.cleared
    assert isinstance(prepare, LifecycleCall) and isinstance(convert, LifecycleCall)
    assert (prepare.row.stage, convert.row.stage) == (Stage.PREPARE, Stage.CONVERT)
    assert (prepare.inplace, convert.inplace) == (False, True)
    assert (prepare.ignored, convert.ignored) == (False, True)
    assert first.members <= prepare.members == convert.members
    assert first.entry == prepare.entry == convert.entry
    assert prepare.qconfig is QconfigState.SET


def test_the_state_of_a_model() -> None:
    code = """
    from elsewhere import touch
    def absent():
        net = tq.QuantWrapper(nn.Linear(4, 4))
        tq.prepare(net, inplace=True)
    def maybe():
        net = tq.QuantWrapper(nn.Linear(4, 4))
        touch(net)
        tq.prepare(net, inplace=True)
    def outside(net):
        tq.prepare(net, inplace=True)
    def configured(net):
        net.head.qconfig = tq.default_qconfig
        tq.prepare(net, inplace=True)
    """
    states = [event.qconfig for event in events(code) if isinstance(event, LifecycleCall)]
    assert states == [QconfigState.ABSENT, QconfigState.MAYBE, QconfigState.OUTSIDE, QconfigState.SET]


def test_a_model_that_is_handed_over_is_named() -> None:
    code = """
    from elsewhere import touch
    def run():
        net = tq.QuantWrapper(nn.Linear(4, 4))
        touch([net])
        tq.prepare(net)
    """
    handover, prepare = events(code)
    assert isinstance(handover, Handover) and isinstance(prepare, LifecycleCall)
    assert handover.callee == "touch" and handover.members & prepare.members


def test_functions_are_entries_of_their_own() -> None:
    code = """
    def one(net):
        tq.prepare(net)
    def two(net):
        tq.prepare(net)
    """
    first, second = events(code)
    assert first.entry != second.entry


def test_what_a_test_expects_to_fail_is_no_event() -> None:
    code = """
    import pytest
    def test(net):
        with pytest.raises(AssertionError):
            tq.prepare_qat(net)
    """
    text = "import torch.ao.quantization as tq\n" + dedent(code)
    assert analyze(["test.py"], configuration(), {"test.py": text}).scripts[0].events == []


def steps(code: str) -> list[tuple[str, str, bool]]:
    return [(e.kind.value, e.shown, e.looped) for e in events(code) if isinstance(e, ModelStep)]


def test_the_steps_of_a_model_stand_in_the_order_of_the_run() -> None:
    code = """
    import torch
    def train(net, batches, flag):
        net = tq.QuantWrapper(net).train()
        net.qconfig = tq.default_qat_qconfig
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net = tq.prepare_qat(net)
        for batch in batches:
            net(batch).sum().backward()
        net.apply(tq.disable_observer)
        net.train(flag)
        net.cuda()
        net.to("cpu")
        net.load_state_dict(torch.load("x"))
        return tq.convert(net.eval())
    """
    assert list(dict.fromkeys(steps(code))) == [
        ("train", "", False),
        ("optimizer", "torch.optim", False),
        ("run", "net", True),
        ("observers off", "net", False),
        ("mode", "net", False),
        ("cuda", "net", False),
        ("cpu", "net", False),
        ("load", "net", False),
        ("eval", "net", False),
    ]


def test_steps_without_a_life_cycle_are_left_out() -> None:
    assert steps("def f(net, x):\n    net.eval()\n    return net(x)  # quantization\n") == []


def test_what_a_model_holds_and_what_its_qconfigs_are() -> None:
    code = """
    import torch
    def known():
        net = tq.QuantWrapper(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        net.qconfig = tq.get_default_qat_qconfig("x86")
        return tq.prepare_qat(net.train())
    def unknown(part):
        net = nn.Sequential(part, nn.Linear(4, 4))
        net.qconfig = "x86"
        return tq.prepare(net)
    """
    found = [e for e in events(code) if isinstance(e, LifecycleCall)]
    assert [(e.contents.whole, e.contents.leaf, e.contents.modes) for e in found] == [
        (True, "torch.ao.quantization.QuantWrapper", frozenset({Mode.QAT})),
        (False, "torch.nn.Sequential", frozenset({Mode.UNKNOWN})),
    ]
    assert "torch.nn.BatchNorm1d" in {cls for _, cls in found[0].contents.modules}
    assert all(e.contents.root in e.members for e in found)
    kinds = [(e.kind.value, e.mode) for e in events(code) if isinstance(e, QconfigAssignment)]
    assert kinds == [("qconfig", Mode.QAT), ("text", Mode.UNKNOWN)]
