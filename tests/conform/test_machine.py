"""Hypothesis drives Kafka's controller beside the model, with more brokers and longer runs than a search."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from highwater.checker.conform.bridge import Bridge
from highwater.checker.testing.conformance import Mismatch
from highwater.checker.testing.conformance.kafka import CONTRACT, KafkaController
from highwater.checker.testing.conformance.stateful import ConformanceMachine, conformance_machine
from tests.slow import often, slow

SCENARIO = "replication/controller/small"
LARGE: dict[str, Any] = {
    "profile": "kafka_4_2",
    "parameters": {
        "brokers": 4,
        "replication_factor": 3,
        "max_min_isr": 3,
        "max_broker_epoch": 20,
        "max_leader_epoch": 50,
        "max_partition_epoch": 50,
    },
}


def explore(bridge: Bridge, examples: int, **more: Any) -> list[int]:
    """Run the machine; returns the number of operations of each run."""
    adapter = KafkaController(bridge, SCENARIO, **{**LARGE, **more.pop("of_kafka", {})})
    made = conformance_machine(SCENARIO, adapter, CONTRACT, **{**LARGE, **more})
    lengths: list[int] = []

    def count(self: ConformanceMachine) -> None:
        lengths.append(len(self.lockstep.operations))

    made.teardown = count  # type: ignore[method-assign, assignment]
    chosen = settings(made.TestCase.settings, max_examples=examples, derandomize=True, database=None)
    run_state_machine_as_test(made, settings=chosen)
    return lengths


def test_the_real_controller_does_what_the_model_allows(bridge: Bridge) -> None:
    lengths = explore(bridge, 3)
    assert sum(lengths) > 40


@slow("many more runs, with five brokers, and with reassignments")
@pytest.mark.parametrize("more", [{"brokers": 5, "replication_factor": 4}, {"reassignments": 1}])
def test_the_real_controller_does_what_the_model_allows_in_many_runs(
    bridge: Bridge, more: dict[str, int]
) -> None:
    parameters = {**LARGE["parameters"], **more}
    explore(bridge, often(100, 3_000), parameters=parameters, of_kafka={"parameters": parameters})


def test_a_difference_from_kafka_is_shrunk_to_a_few_requests(bridge: Bridge) -> None:
    """With the rule off, the model keeps the last member in the ISR; Kafka moves it to the ELR."""
    with pytest.raises(Mismatch) as caught:
        explore(bridge, 60, rules={"isr_may_become_empty": False})
    assert len(caught.value.operations) <= 6
