"""The example controller conforms to the model, and each planted defect shows within few operations."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from highwater.checker.base.problems import InputError
from highwater.checker.testing.conformance import Contract, Mismatch
from highwater.checker.testing.conformance.kafka import CONTRACT
from highwater.checker.testing.conformance.stateful import ConformanceMachine, conformance_machine
from tests.conformance.controller import DEFECTS
from tests.conformance.driver import SCENARIO, Driver
from tests.slow import all_but, often, slow

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
