"""Life-cycle facts: the order of events, their identity, what can cross a process border."""

from __future__ import annotations

import pickle
from textwrap import dedent

from scoring import configuration

from qlsp.analysis.facts import (
    Handover,
    LifecycleCall,
    LifeEvent,
    QconfigAssignment,
    QconfigState,
    QconfigTarget,
)
from qlsp.engine import analyze
from qlsp.values.workflow import Stage


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
    first, prepare, convert = (e for e in events(RUN) if not isinstance(e, Handover))
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
