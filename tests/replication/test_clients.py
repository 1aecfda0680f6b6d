"""What clients observe: when writes are acknowledged, and which end offsets consumers get."""

from __future__ import annotations

from typing import Any

import pytest

from docs.pages import galleries
from highwater.checker.engines.native import search
from highwater.checker.report.counterexample import follow_all
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model, State, all_of, implies, invariant
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.types import Truth
from highwater.model.replication.clients import can_acknowledge
from highwater.model.replication.protocol import Replication


@invariant("B6")
def only_records_of_its_own_epoch(m: Replication, s: State) -> Truth:
    """A leader acknowledges only records of its current leader epoch."""
    return all_of(
        implies(
            can_acknowledge(m, s, b, v) & (s.brokers[b].log.length > o) & (s.brokers[b].log.at(o).value == v),
            s.brokers[b].log.at(o).epoch == s.brokers[b].view.leader_epoch,
        )
        for b in m.broker
        for v in m.value
        for o in m.offsets
    )


def protocol_of(name: str, **parameters: int) -> Any:
    overrides = Overrides.parse([f"{k}={v}" for k, v in parameters.items()], [], None, [])
    return Request.of(find(name), overrides).model().protocol


def sentences(name: str, **parameters: int) -> list[str]:
    """The shortest run to an acknowledgeable record of an earlier leader epoch; empty if there is none."""
    model = Model(protocol_of(name, **parameters), [only_records_of_its_own_epoch])
    found = search(model, SearchOptions(workers=1, stop_at_first=True))
    return [step.sentence for run in follow_all(model, found.violations) for step in run.steps]


def test_a_leader_that_is_elected_anew_answers_the_producers_of_its_former_epoch() -> None:
    run = sentences("replication/large-waiting-producers")
    assert "value 0 is written to leader 0 with acks=all" in run
    assert "the controller unfences broker 0" in run, "it is the leader of an earlier epoch, elected anew"
    assert not sentences("replication/large-waiting-producers", waiting_producers=0)


@pytest.mark.parametrize(
    ("steps", "hwms"),
    [(["crash_broker", "fence_broker"], [0, 1]), (["begin_shutdown", "finish_shutdown"], [1])],
    ids=["crashed", "stopped"],
)
def test_only_a_crashed_broker_comes_back_with_an_older_hwm(steps: list[str], hwms: list[int]) -> None:
    model = Model(protocol_of("replication/large-old-checkpoints", controlled_shutdowns=1), [])
    interpreter = Interpreter(model)
    (state,) = model.initial
    for action in steps:
        state = following(interpreter, state, action)[0]
    started = [model.decode(after) for after in following(interpreter, state, "start_broker")]
    assert sorted(after["brokers"][1]["hwm"] for after in started) == hwms


def following(interpreter: Interpreter, state: Scalars, action: str) -> list[Scalars]:
    """The states after an action of broker 1."""
    steps = interpreter.steps(state)
    ours = [s for s in steps if s.instance.action.name == action and s.instance.parameters["b"] == 1]
    return [s.state for s in ours if s.state is not None]


def test_the_end_for_consumers_decreases_only_while_the_hwm_is_below_the_epoch_start() -> None:
    (run,) = galleries.find("told-end").examples
    last = run.steps[-1].state
    leader = last["brokers"][last["partition"]["leader"]]
    assert leader["hwm"] < len(last["committed"]) <= leader["leso"]
