"""``conform`` compares scenarios of the controller with Kafka's, and finds planted differences."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.conform.bridge import Bridge, Jars
from highwater.checker.conform.comparison import KafkaComparison, StatesResult
from highwater.checker.conform.expectation import trace
from highwater.checker.engines import by_name as engines
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.graph import values_of
from highwater.model.replication.controller.rules import PROFILES, RULES
from tests.slow import largest, often, slow, whole_only

SMALL = "replication/controller/reach-kafka-4.2"
LEVELS = "replication/controller/small-kafka-4.2-levels"
INDEX = "replication/controller/small-kafka-4.2-index"
OPERATOR = "replication/controller/small-kafka-4.2-operator"
REASSIGNMENT = "replication/controller/kafka-4.2-stuck-elr"
TOPIC = "replication/topic/kafka-4.2-first-partition"


def run(kafka: Path, tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """The exit status of a comparison, its JSON, and its text."""
    target = tmp_path / "result.json"
    command = ["conform", *arguments, "--kafka", str(kafka), "--json", str(target)]
    done = CliRunner().invoke(cli, command)
    content = json.loads(target.read_text()) if target.exists() else {}
    return done.exit_code, content, done.output


def test_every_request_in_every_state_gets_kafkas_answer(kafka: Path, tmp_path: Path) -> None:
    status, found, output = run(kafka, tmp_path, SMALL, "--other-paths")
    assert (status, found["kafka"]["version"]) == (0, "4.2.1"), output
    (one,) = found["scenarios"]
    assert one["complete"]
    assert one["differences"] == []
    assert one["states"] > 311  # each by a second path, too, where it has one
    assert one["requests"] > 40_000
    errors = {outcome["error"] for outcome in one["outcomes"]}
    assert {"NONE", "STALE_BROKER_EPOCH", "NOT_CONTROLLER", "INELIGIBLE_REPLICA", "INVALID_CONFIG"} < errors
    kinds = {outcome["request"] for outcome in one["outcomes"]}
    assert len({kind for kind in kinds if kind.endswith("losesDirectory")}) == 8
    together = Counter[str]()
    for row in one["decided_together"]:
        together[row["request"]] += row["count"]
    assert dict(together) == DECIDED_TOGETHER


DECIDED_TOGETHER = {
    "brokerHeartbeat losesDirectory": 140,
    "brokerHeartbeat wantFence+losesDirectory": 119,
    "brokerHeartbeat wantFence+behind+losesDirectory": 119,
    "brokerHeartbeat wantFence+wantShutDown+losesDirectory": 119,
    "brokerHeartbeat wantFence+wantShutDown+behind+losesDirectory": 119,
    "brokerHeartbeat wantShutDown+losesDirectory": 119,
    "brokerHeartbeat wantShutDown+behind+losesDirectory": 119,
}
"""The number of heartbeats with two events whose result fits neither order, by their flags."""


FAILED = "AAAAAAAAA-gAAAAAAAAAAA"
"""The directory of broker 0 at the start."""


def test_a_broker_that_is_unfenced_and_loses_its_directory_is_elected(bridge: Bridge) -> None:
    """Kafka decides both events on the state before the heartbeat. A later report does not take the leader away."""
    setup = {"brokers": 2, "minIsr": 1, "unclean": False, "elr": 1, "partitions": [[0, 1]]}
    path = [
        {"name": "alterPartition", "newIsr": [0]},
        {"name": "fenceStaleBroker", "broker": 0, "over": True},
    ]
    both = {"name": "brokerHeartbeat", "broker": 0, "losesDirectory": True}
    again = {"name": "brokerHeartbeat", "broker": 0, "offlineLogDirs": [FAILED]}
    for more, heartbeat in ([], both), ([both], again):
        answer = bridge.ask({"explain": {"scenario": setup, "path": path + more, "op": heartbeat}})
        after = [answer["after"][f"partition.{name}"] for name in ("leader", "isr", "offline")]
        assert after == [0, 0b01, 0b01]


FIRST_ORDER_ONLY = [
    {"name": "fenceStaleBroker", "broker": 0, "over": True},
    {"name": "alterPartitionReassignments", "replicas": [1], "allowReplicationFactorChange": True},
    {
        "name": "incrementalAlterConfigs",
        "resourceType": "TOPIC",
        "key": "unclean.leader.election.enable",
        "value": "true",
    },
]
"""A path of ``OPERATOR`` to a state in which a heartbeat with two events has another result in the second order."""


def test_a_heartbeat_that_fits_only_the_first_order_is_no_difference(bridge: Bridge) -> None:
    """If ``conform`` drops the first order, it counts the heartbeat as decided on the state before."""
    scenario = replace(scenario_files.find(OPERATOR), properties=())
    model = Request.of(scenario, Overrides()).without_goals().without_symmetry().model()
    options = SearchOptions(workers=1, limit_states=6_000, all_states=True)
    comparison = KafkaComparison(model, lambda m: engines.explore("native")(m, options, None))
    paths = comparison.paths(np.arange(comparison.graph.expanded))
    operations = [request.operation for request in comparison.requests]
    (state,) = (n for n, path in enumerate(paths) if [operations[r] for r in path] == FIRST_ORDER_ONLY)
    kind = "brokerHeartbeat losesDirectory"
    values = comparison.graph.scalars(state)
    results = [
        [values_of([one.error, *(node for _, node in one.after)], values) for one in trace(model, request)]
        for request in comparison.requests
        if request.kind == kind
    ]
    assert any(first != second for first, second, _ in results)
    found = StatesResult()
    comparison.compare(bridge, np.array([state]), None, found)
    assert not found.differences
    assert kind in {request for request, _, _ in found.outcomes}
    assert kind not in {request for request, _ in found.decided_together}


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        (TOPIC, 2_000),
        *(
            pytest.param(name, requests, marks=slow("more scenarios, where the fast test takes one"))
            for name, requests in ((INDEX, 25_000), (OPERATOR, 20_000))
        ),
    ],
)
def test_a_sample_of_a_scenario_gets_kafkas_answers(
    kafka: Path, tmp_path: Path, name: str, requests: int
) -> None:
    sample = "30" if name == TOPIC else "300"
    status, found, output = run(kafka, tmp_path, name, "--sample", sample, "--seed", "5")
    assert status == 3, output  # not every state
    assert found["scenarios"][0]["differences"] == []
    assert found["scenarios"][0]["requests"] > requests


@slow("every state of the standard scenarios with the profile, where the fast tests take a sample")
@pytest.mark.parametrize(
    "name",
    [LEVELS, *(pytest.param(name, marks=largest("millions of requests")) for name in (INDEX, OPERATOR))],
)
def test_a_whole_scenario_gets_kafkas_answers(kafka: Path, tmp_path: Path, name: str) -> None:
    status, found, output = run(kafka, tmp_path, name, "--other-paths")
    assert (status, found["scenarios"][0]["differences"]) == (0, []), output


def test_a_rule_that_kafka_has_otherwise_is_told_and_repeated(kafka: Path, tmp_path: Path) -> None:
    saved = tmp_path / "differences"
    rule = ("--rule", "assignment_empties_elr=off", "--limit-states", "60", "--quiet")
    status, found, output = run(kafka, tmp_path, SMALL, *rule, "--save", str(saved))
    assert status == 1, output
    example = found["scenarios"][0]["examples"][0]
    assert example["kind"] == "assign_directory"
    assert (example["model"]["after"]["partition.elr"], example["kafka"]["after"]["partition.elr"]) == (1, 0)
    assert [len(example["path"]), example["kafka"]["records"][0]["type"]] == [2, "PARTITION_CHANGE_RECORD"]
    file = saved / "difference-1.json"
    status, found, output = run(kafka, tmp_path, "--request", str(file))
    assert (status, found["same"]) == (1, False), output
    expected = json.loads(file.read_text())
    expected["expected"]["after"]["partition.elr"] = expected["expected"]["after"]["elr_entries[0]"] = 0
    file.write_text(json.dumps(expected))
    status, found, output = run(kafka, tmp_path, "--request", str(file))
    assert (status, found["same"]) == (0, True), output


NOTICED_IN = {
    "member_epoch_check": INDEX,
    "elr_follows_election": INDEX,
    "reassignment_needs_min_isr": INDEX,
    "elr_within_replicas": INDEX,
    "last_known_leader_first": LEVELS,
    "last_known_leader_by_leader": LEVELS,
    "level_change_empties_elr": LEVELS,
    "registration_leaves_isr": LEVELS,
    "replica_order": "replication/controller/kafka-4.2-forgotten-leader",
    "cancellation_is_whole": "replication/controller/kafka-4.2-reassignment-loss",
    "level_changes_with_leader": "replication/controller/kafka-4.2-elr-turned-off",
    "unassigned_candidate_fails": REASSIGNMENT,
    "reassignment_by_added": REASSIGNMENT,
    "offline_directory_check": REASSIGNMENT,
    "min_isr_by_first_partition": TOPIC,
}
"""The scenario that notices an inverted rule, if ``SMALL`` does not."""
WITH_FAILOVERS = {
    "removals": 1,
    "failovers": 1,
    "directories": 0,
    "max_broker_epoch": 1,
    "max_partition_epoch": 4,
}
"""The parameters of ``SMALL`` that ``leftover_elr_elects`` needs."""
UNNOTICED = {
    "unclean_recovery", "clean_election_picks_any", "unclean_election_picks_any", "balanced_election_waits_for_elr",
    "min_isr_change_empties_elr", "last_known_leader_kept", "registration_may_be_split",
}  # fmt: skip
"""Rules that no request notices; docs/conform.md gives the reasons."""


@slow("a comparison for each rule of the controller, some of a million requests")
@pytest.mark.parametrize("rule", sorted({*RULES} - UNNOTICED)[:: often(4, 1)])
def test_a_rule_that_kafka_has_otherwise_is_noticed(kafka: Path, tmp_path: Path, rule: str) -> None:
    turned = "off" if rule in PROFILES["kafka_4_2"].rules else "on"
    more = [f"--set={n}={v}" for n, v in WITH_FAILOVERS.items()] if rule == "leftover_elr_elects" else []
    arguments = ["--rule", f"{rule}={turned}", "--limit-states", "20000", "--quiet", *more]
    status, _, output = run(kafka, tmp_path, NOTICED_IN.get(rule, SMALL), *arguments)
    assert (status, "DIFFERENCES" in output) == (1, True), output


def test_differences_under_other_rules_than_kafkas_name_its_profile(kafka: Path, tmp_path: Path) -> None:
    status, _, output = run(
        kafka, tmp_path, "replication/controller/small", "--limit-states", "20", "--quiet"
    )
    assert status == 1
    assert output.splitlines()[-1].endswith("Kafka 4.2 has those of --profile kafka_4_2")


@slow("a scenario of seventy thousand states")
@whole_only
def test_a_registration_in_part_leaves_a_lost_directory_offline(kafka: Path, tmp_path: Path) -> None:
    status, found, output = run(kafka, tmp_path, OPERATOR, "--set=failovers=1", "--set=removals=1")
    assert (status, found["scenarios"][0]["differences"]) == (0, []), output


WITHOUT_INDEX = """package org.apache.kafka.controller;
import org.apache.kafka.common.Uuid;
class BrokersToElrs {
    BrokersToElrs(org.apache.kafka.timeline.SnapshotRegistry registry) { }
    void update(Uuid topic, int partition, int[] before, int[] after) { }
    void removeTopicEntryForBroker(Uuid topic, int broker) { }
    BrokersToIsrs.PartitionsOnReplicaIterator partitionsWithBrokerInElr(int broker) {
        return new BrokersToIsrs.PartitionsOnReplicaIterator(java.util.Map.of(), false);
    }
}"""
"""Planted: the index of ELR members is empty, so an unclean registration leaves its broker in the ELR."""


@slow("a changed class, where fast tests turn a rule of the model")
def test_a_changed_kafka_class_is_found(kafka: Path, tmp_path: Path) -> None:
    source, classes = tmp_path / "BrokersToElrs.java", tmp_path / "classes"
    source.write_text(WITHOUT_INDEX)
    class_path = ":".join(Jars.found(kafka).class_path)
    subprocess.run(["javac", "-nowarn", "-cp", class_path, "-d", str(classes), str(source)], check=True)
    limit = ("--limit-states", "2000")
    status, found, output = run(kafka, tmp_path, SMALL, "--before", str(classes), "--quiet", *limit)
    assert status == 1, output
    assert {d["request"] for d in found["scenarios"][0]["differences"]} >= {"register", "lose_directory"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name scenarios, or --request FILE"),
        (
            ["truncation/kip-101"],
            "conform compares scenarios of replication, replication.controller and replication.topic",
        ),
        (["--request", "none.json"], "none.json"),
        ([SMALL, "--before", "nowhere"], "--before nowhere: no such directory or jar"),
        (
            ["replication/controller/large-unclean-recovery"],
            "stands for no request of Kafka's controller under these rules",
        ),
    ],
)
def test_a_bad_request_is_one_line(kafka: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    status, _, output = run(kafka, tmp_path, *arguments, "--quiet")
    assert status == 2
    assert message in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "another"}, "format 'another'"),
        ({"path": 3}, "no request of conform"),
        ({"expected": {"error": "NONE", "after": {"x": 0}}}, "the bridge observes no field 'x'"),
        ({"request": {"name": "unheard"}}, "cannot be repeated"),
    ],
)
def test_a_bad_file_of_a_request_is_one_line(
    kafka: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    setup = {"brokers": 1, "minIsr": 1, "unclean": False, "elr": 1, "partitions": [[0]]}
    whole = {
        "format": "highwater-conform-request-1",
        "scenario": setup,
        "path": [],
        "request": {"name": "failover"},
        "expected": {"error": "NONE", "after": {"partition.leader": 0}},
        "fields": [],
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(whole | change))
    status, _, output = run(kafka, tmp_path, "--request", str(file))
    assert (status, message in output, output.count("\n")) == (2, True, 1), output
