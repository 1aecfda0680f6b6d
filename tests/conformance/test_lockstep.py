"""Lockstep keeps every model state that fits what the implementation reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios.request import asked
from highwater.checker.testing.conformance import Adapter, AdapterError, Contract, Lockstep, Mismatch, Outcome
from highwater.checker.testing.conformance.kafka import CONTRACT
from highwater.checker.testing.conformance.stateful import ConformanceMachine, conformance_machine
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from tests.conformance.controller import DEFECTS
from tests.conformance.driver import SCENARIO, Driver
from tests.slow import all_but, often, slow

REGISTER = Path(__file__).parents[2] / "docs/examples/register.py"


class Told(Adapter):
    """An adapter that returns the outcomes and states that the test sets, and records its calls."""

    def __init__(self) -> None:
        self.outcome: Any = Outcome(True)
        self.state: Mapping[str, Any] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def reset(self, state: Mapping[str, Any]) -> None:
        self.asked.clear()

    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        self.asked.append((operation, dict(parameters)))
        return self.outcome

    def observe(self) -> Mapping[str, Any]:
        return self.state


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(scope="module")
def model() -> Model:
    return asked(str(REGISTER), parameters={"writes": 1}).model()


def lockstep(model: Model, adapter: Adapter, **contract: Any) -> Lockstep:
    made = Lockstep(model, adapter, Contract(**contract), Interpreter(model))
    made.start()
    return made


def number(model: Model, called: str) -> int:
    return [str(instance) for instance in model.instances].index(called)


def test_a_parameter_that_the_implementation_chooses_leaves_states_to_guess(model: Model, told: Told) -> None:
    run = lockstep(model, told, chosen={"fail_over": ["to"]})
    run.step(number(model, "fail_over(to=1)"))
    assert told.asked == [("fail_over", {})]
    assert {model.decode(state)["leader"] for state in run.states} == {1, 2}
    told.state = {"leader": 2}
    run.step(number(model, "write()"))
    assert {model.decode(state)["leader"] for state in run.states} == {2}
    told.state = {"leader": 1}
    with pytest.raises(Mismatch, match="leader: the model says 2, observed is 1") as wrong:
        run.step(number(model, "copy(to=1)"))
    # The error lists the operations as called, without the parameter that the implementation chose.
    for sentence in ("fail_over()", "a client writes to the leader", "the leader copies to replica 1"):
        assert sentence in str(wrong.value)


def test_unseen_steps_are_guessed_as_many_as_are_allowed(model: Model, told: Told) -> None:
    wanted, after = number(model, "acknowledge()"), {"acknowledged": 1}
    for hidden, fits in ((1, False), (2, True)):
        told.state = {}
        run = lockstep(model, told, hidden_steps=hidden)
        run.step(number(model, "write()"))
        run.states = [s for s in run.states if model.decode(s)["stored"] == [1, 0, 0]]
        told.state = after
        if fits:
            run.step(wanted)
        else:
            with pytest.raises(Mismatch, match="every live replica has it"):
                run.step(wanted)


def test_a_refusal_has_to_be_the_models(model: Model, told: Told) -> None:
    guard = "there is a write to acknowledge"
    run = lockstep(model, told, answers={guard: "NOTHING_WRITTEN"})
    acknowledge = number(model, "acknowledge()")
    assert acknowledge in run.possible()[1]
    told.outcome = Outcome(False, "NOTHING_WRITTEN")
    run.step(acknowledge)
    told.outcome = Outcome(False, "BUSY")
    with pytest.raises(Mismatch, match=r"there is a write to acknowledge \(answer NOTHING_WRITTEN\)"):
        run.step(acknowledge)
    run = lockstep(model, told)
    assert acknowledge not in run.possible()[1], "nobody answers for this guard: it is not tried"
    told.outcome = Outcome(False)
    with pytest.raises(Mismatch, match="the model carries it out; the implementation refused"):
        run.step(number(model, "write()"))


def test_an_idle_operation_may_be_called_done_or_refused_but_changes_nothing(
    model: Model, told: Told
) -> None:
    idle, done = ["there is a write to acknowledge"], Outcome(True)
    run = lockstep(model, told, idle=idle)
    for told.outcome in (done, Outcome(False)):
        run.step(number(model, "acknowledge()"))
    told.state = {"acknowledged": 1}
    with pytest.raises(Mismatch, match="acknowledged: the model says 0, observed is 1"):
        run.step(number(model, "acknowledge()"))


def test_a_state_that_the_model_cannot_be_in_is_a_mismatch(model: Model, told: Told) -> None:
    run = lockstep(model, told)
    told.state = {"stored": [2, 0, 0]}
    with pytest.raises(Mismatch, match=r"observed is stored\[0\]: 2 is outside 0..1 \(bound writes\)"):
        run.step(number(model, "write()"))
    told.outcome = True
    with pytest.raises(AdapterError, match="not an Outcome"):
        run.step(number(model, "write()"))


@pytest.mark.parametrize("state", [{"storde": [1, 0, 0]}, {"stored": 1}, {"acknowledged": "one"}])
def test_a_field_or_a_kind_that_the_model_has_not_is_the_drivers_error(
    model: Model, told: Told, state: dict[str, Any]
) -> None:
    run = lockstep(model, told)
    told.state = state
    said = f"observe\\(\\) returned no state: .*`highwater show {model.protocol.name}` lists the fields"
    with pytest.raises(AdapterError, match=said):
        run.step(number(model, "write()"))


def test_a_refusal_has_the_error_of_the_first_guard_that_refuses(model: Model, told: Told) -> None:
    answers = {"the follower lives": "DEAD", "it lacks a write": "NOTHING_TO_COPY"}
    run = lockstep(model, told, answers=answers)
    run.step(number(model, "fail_over(to=1)"))
    told.outcome = Outcome(False, "DEAD")
    run.step(number(model, "copy(to=0)"))
    told.outcome = Outcome(False, "NOTHING_TO_COPY")
    run.step(number(model, "copy(to=2)"))
    with pytest.raises(Mismatch, match="refused with NOTHING_TO_COPY"):
        run.step(number(model, "copy(to=0)"))


def test_too_many_states_that_fit_are_one_error(
    model: Model, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.checker.testing.conformance.lockstep.LIMIT", 3)
    run = lockstep(model, told, hidden_steps=4)
    with pytest.raises(AdapterError, match="more than 3 states of the model fit what was observed"):
        run.step(number(model, "write()"))


# --- the example controller conforms to the model, and each planted defect shows within few operations ----


OPERATIONS = {
    "fenced_joins": 4,
    "stale_epoch_joins": 6,
    "elr_not_emptied": 7,
    "no_elr": 3,
    "unclean_keeps_elr": 3,
    "no_epoch_bump": 2,
    "first_replica_leads": 6,
    "min_isr_keeps_elr": 4,
    "unfencing_elects_nobody": 7,
    "shutdown_keeps_isr": 3,
}
"""The most operations of each shrunk run: one more than the longest of eight seeds."""

SAID = {
    "fenced_joins": "the model refuses it: no member is fenced or shutting down (answer INELIGIBLE_REPLICA)",
    "stale_epoch_joins": "the model refuses it: every member's broker epoch is the registered one",
    "no_elr": "partition.elr: the model says",
    "no_epoch_bump": "partition.leader_epoch: the model says",
    "unfencing_elects_nobody": "partition.leader: the model says",
    "shutdown_keeps_isr": "partition.isr: the model says",
}


def run(made: type[ConformanceMachine], examples: int) -> None:
    chosen = settings(made.TestCase.settings, max_examples=examples, derandomize=True, database=None)
    run_state_machine_as_test(made, settings=chosen)


def conform(defect: str | None) -> type[ConformanceMachine]:
    return conformance_machine(SCENARIO, Driver(defect), CONTRACT)


@pytest.mark.parametrize(
    "examples", [40, pytest.param(often(1_500, 5_000), marks=slow("many more runs than the fast test"))]
)
def test_the_controller_conforms_and_every_operation_is_tried(examples: int) -> None:
    made, taken = conform(None), Counter[str]()

    def count(self: ConformanceMachine) -> None:
        for number in self.lockstep.operations:
            taken[self.model.instances[number].action.name] += 1
        taken["refused"] += sum("refused with" in line for line in self.lockstep.told)

    made.teardown = count  # type: ignore[method-assign, assignment]
    run(made, examples)
    assert {*(CONTRACT.operations or ()), "refused"} <= {name for name, times in taken.items() if times}


@pytest.mark.parametrize(
    "defect",
    all_but(("fenced_joins", "no_elr", "first_replica_leads"), DEFECTS, "fast for three of the defects"),
)
def test_a_planted_defect_is_found_and_shrunk(defect: str) -> None:
    with pytest.raises(Mismatch) as caught:
        run(conform(defect), 500)
    assert 1 <= len(caught.value.operations) <= OPERATIONS[defect]
    text = str(caught.value)
    assert "replication.controller does not allow what the implementation did" in text
    assert SAID.get(defect, "the model says") in text
    if defect == "fenced_joins":
        assert "    841.2  The controller refuses an ISR with a fenced or shutting-down replica" in text


def test_an_unknown_name_in_a_contract_is_refused() -> None:
    for contract, said in (
        (Contract(operations=["fense"]), "did you mean 'fence'"),
        (Contract(answers={"something change": None}), "did you mean 'something changes'"),
        (Contract(chosen={"fence": ["brokers"]}), "did you mean 'broker'"),
    ):
        with pytest.raises(InputError, match=said):
            conformance_machine(SCENARIO, Driver(), contract)
