"""Follower fixes of Kafka 4.2.1: K17 (KAFKA-18991) and K18 (KAFKA-18723), with and without the rule."""

from __future__ import annotations

from typing import Any

from highwater.checker.engines.native import search
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.replication.protocol import Replication
from tests.runs import Run

LATE_READ: list[tuple[str, dict[str, Any]]] = [
    # Leader 0 has two records; follower 1 has the first and fetches the second.
    ("write_acks_all", {"leader": 0, "value": 0}),
    ("write_acks_all", {"leader": 0, "value": 1}),
    ("send_fetch", {"f": 1}),
    ("answer_fetch", {"leader": 0, "f": 1, "again": False}),
    ("take_fetch_answer", {"f": 1}),
    ("send_fetch", {"f": 1}),
    ("answer_fetch", {"leader": 0, "f": 1, "again": False}),
    # Broker 2, without both records, leads the next epoch and writes two others.
    ("fence_broker", {"b": 0}),
    ("fence_broker", {"b": 1}),
    ("replay_metadata", {"b": 2}),
    ("write_acks_one", {"leader": 2, "value": 2}),
    ("write_acks_one", {"leader": 2, "value": 3}),
    # Broker 0 follows and fetches them. Then its response to broker 1 is sent, with the record that it now
    # has.
    ("replay_metadata", {"b": 0}),
    ("send_fetch", {"f": 0}),
    ("answer_fetch", {"leader": 2, "f": 0, "again": False}),
    ("take_fetch_answer", {"f": 0}),
    ("send_fetch", {"f": 0}),
    ("answer_fetch", {"leader": 2, "f": 0, "again": False}),
    ("take_fetch_answer", {"f": 0}),
    ("send_fetch", {"f": 0}),
    ("answer_fetch", {"leader": 2, "f": 0, "again": False}),
    ("take_fetch_answer", {"f": 0}),
    ("read_late", {"f": 1}),
    ("take_fetch_answer", {"f": 1}),
]


def taken(rules: frozenset[str], steps: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    parameters = {
        "records": 4, "min_isr": 1, "fencings": 2, "weak_writes": 2, "late_reads": 1, "max_leader_epoch": 3,
        "max_partition_epoch": 4,
    }  # fmt: skip
    run = Run(Model(Replication(parameters, rules)))
    for name, choice in steps:
        run.take(name, **choice)
    return run.state


def test_a_follower_does_not_append_a_record_that_was_read_late() -> None:
    """K18. Without the rule, broker 1's first record differs from its leader's, and no fetch detects it."""
    rules = Replication.profiles["kafka_4_2"].rules
    with_it = taken(rules, LATE_READ)["brokers"]
    without = taken(rules - {"appended_epoch_check"}, LATE_READ)["brokers"]
    old, new = {"value": 0, "epoch": 0}, {"value": 3, "epoch": without[2]["view"]["leader_epoch"]}
    assert with_it[1]["log"] == [old]
    assert without[1]["log"] == [old, new]
    assert without[2]["log"][0] != old
    assert without[2]["log"][1] == new


def test_a_registration_in_part_is_taken_and_costs_no_record() -> None:
    """K14 with messages and logs: only the partition changes are written, and the broker retries."""
    chosen = scenario_files.find("replication/kafka-4.2-elr-turned-off")
    bounds = {"downgrades": 0, "min_isr_changes": 0, "crashes": 1, "fencings": 1, "max_broker_epoch": 1}

    def searched(failovers: int) -> tuple[int, int]:
        overrides = Overrides(parameters=bounds | {"failovers": failovers})
        result = search(Request.of(chosen, overrides).model(), SearchOptions())
        assert result.complete
        assert not result.violations
        return result.actions["start_broker_in_part"], result.distinct_states

    (none, fewer), (some, more) = searched(0), searched(1)
    assert none == 0 < some
    assert fewer < more
