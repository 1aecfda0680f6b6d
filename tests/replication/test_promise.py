"""Replication implements the client promise, and violates it if a rule is off; what clients observe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from highwater.checker.engines.native import search
from highwater.checker.report.counterexample import Counterexample, follow_all
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.invariants.replication import promise
from highwater.invariants.replication.promise import keeps_the_promise
from highwater.model.language import Model, Protocol, State, all_of, implies, invariant, where
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.refinement import Refinement, refines
from highwater.model.language.types import Truth
from highwater.model.promise import Promise
from highwater.model.replication.clients import can_acknowledge
from highwater.model.replication.protocol import Replication
from tests.slow import all_but

PLACE = "replication/sanity-promise-"

BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "without-gate": ("fence_broker", {"log": ([0], [])}),
    "committed-isr": ("write_acks_all", {"shown[0]": ([], [0])}),
    "elr-kept": ("write_acks_all", {"shown[1]": ([], [0])}),
    "unclean-restart": ("answer_fetch", {"shown[0]": ([], [0])}),
    "early-join": ("fence_broker", {"log": ([0], [])}),
    "forgotten-elr": ("finish_recovery", {"log": ([0], [])}),
}
"""The step that breaks the promise, and its forbidden effect on the abstract state."""


def model_of(name: str, *refinements: Refinement, **overrides: Any) -> Model:
    request = Request.of(scenario_files.find(name), Overrides(**overrides))
    rules = (rule for rule, on in request.rules.items() if on)
    protocol = request.scenario.definition.protocol(request.parameters, rules)
    return Model(protocol, step_properties=refinements or [keeps_the_promise])


def searched(model: Model, limit: int | None = 1_000_000) -> SearchResult:
    return search(model, SearchOptions(workers=1, stop_at_first=True, limit_states=limit))


def broken(name: str, *refinements: Refinement, **overrides: Any) -> Counterexample | None:
    model = model_of(name, *refinements, **overrides)
    result = searched(model)
    found = follow_all(model, result.violations)
    assert found or result.complete, "the search ends before anything is known"
    return found[0] if found else None


@pytest.mark.parametrize(
    "name", all_but(("without-gate", "forgotten-elr"), BROKEN, "fast for two; the gate searches all, too")
)
def test_a_rule_that_is_off_breaks_the_promise(name: str) -> None:
    example = broken(PLACE + name)
    assert example is not None
    action, changes = BROKEN[name]
    assert example.steps[-1].action == action
    assert example.abstract is not None
    assert changes.items() <= example.abstract.steps[-1].changes.items()


# --- refinement is not vacuous ------------------------------------------------------------------------


def mapped(name: str, **fields: Any) -> Refinement:
    """The refinement with other mappings of some fields: functions of (protocol, state, original mapping)."""

    def mapping(m: Protocol, s: State) -> Mapping[str, Any]:
        honest = keeps_the_promise.mapping(m, s)
        return {**honest, **{field: function(m, s, honest) for field, function in fields.items()}}

    mapping.__name__ = name
    return refines(Promise, "P1", parameters=promise.tolerated)(mapping)


WRONG = {
    "shown": lambda m, s, honest: [[]] * m.p.brokers,
    "writes": lambda m, s, honest: ["UNUSED"] * m.p.records,
}


@pytest.mark.parametrize("field", ["shown", "writes"])
def test_a_mapping_that_ignores_a_field_is_detected(field: str) -> None:
    """The other fields reveal it: what is committed is shown and was written."""
    assert broken("replication/large-records", mapped("blind", **{field: WRONG[field]})) is not None


def test_without_unclean_recovery_the_promise_ends_with_the_first_outage() -> None:
    """Kafka 4.2: the last ISR member shuts down cleanly, and a broker outside the ISR is elected."""
    parameters = {
        "brokers": 2,
        "replication_factor": 2,
        "initial_isr": 2,
        "min_isr": 1,
        "controlled_shutdowns": 2,
    }
    overrides = {"profile": "kafka_4_2", "parameters": {**parameters, "unclean_election": 1}}
    result = searched(model_of("replication/small-messages", **overrides), 10_000)
    assert not result.violations
    assert result.depth > 6


def test_the_promise_depends_on_order_and_values() -> None:
    def backwards(m: Any, s: Any, honest: Any) -> Any:
        """The log with its two records swapped."""
        log = honest["log"]
        zero = log.type.zero()
        return where(log.length == 2, zero.append(log.at(1)).append(log.at(0)), log)

    example = broken("replication/large-records", mapped("backwards", log=backwards))
    assert example is not None
    assert example.abstract is not None
    assert example.abstract.steps[-1].changes["log"] == ([0], [1, 0])


# --- acknowledged writes, and the end offsets that consumers get --------------------------------------


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
