"""Scenarios of ``replication`` on real brokers and their logs: they conform, and changed rules differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.cluster_state import ExpectedObservations
from highwater.checker.conform.walks import (
    WalkComparison,
    differing,
    operation_of,
    setup_of,
)
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.interpreter import interpreter_of
from tests.conform.test_conform import run
from tests.slow import often, slow, whole_only

MESSAGES = "replication/small-messages"
ON_KAFKA = ("--profile", "kafka_4_2")


def test_random_walks_of_a_cluster_reach_the_states_of_the_model(kafka: Path, tmp_path: Path) -> None:
    sample = (MESSAGES, *ON_KAFKA, "--sample", "12", "--seed", "2")
    status, found, output = run(kafka, tmp_path, *sample)
    assert status == 3, output  # not every step is compared
    (one,) = found["scenarios"]
    assert one["differences"] == []
    assert (one["paths"], one["steps"] > 250) == (12, True)
    assert {"answer_fetch", "take_fetch_answer", "replay_metadata", "fence_broker"} < set(
        one["steps_by_action"]
    )
    (again,) = run(kafka, tmp_path, *sample, "--workers", "2")[1]["scenarios"]
    assert (again["steps"], again["steps_by_action"]) == (one["steps"], one["steps_by_action"])


def test_random_paths_depend_on_the_seed_and_take_no_blocked_step() -> None:
    scenario = replace(scenario_files.find(MESSAGES), properties=())
    small = Overrides(profile="kafka_4_2", parameters={"losses": 0, "duplicates": 0})
    model = Request.of(scenario, small).without_goals().without_symmetry().model()
    comparison = WalkComparison(model, lambda m: explore(m, SearchOptions(workers=1), None))
    blocked = set(range(0, len(comparison.graph.targets), 7)) - {0}
    first, again, other = (
        [step for path in comparison.random_paths(5, 20, seed, blocked) for step in path]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert blocked.isdisjoint(first)


def test_a_difference_of_the_brokers_is_reported_and_repeated(kafka: Path, tmp_path: Path) -> None:
    """Without the gate of the HWM the model commits a record alone; Kafka does not."""
    saved = tmp_path / "differences"
    rule = ("--rule", "hwm_needs_min_isr=off", "--sample", "10")
    status, found, output = run(kafka, tmp_path, MESSAGES, *ON_KAFKA, *rule, "--quiet", "--save", str(saved))
    assert status == 1, output
    example = found["scenarios"][0]["examples"][0]
    assert [(example["model"][n], example["kafka"][n]) for n in example["model"] if n.startswith("hwm[")] == [
        (1, 0)
    ]
    file = saved / "difference-1.json"
    status, found, output = run(kafka, tmp_path, "--request", str(file))
    assert (status, found["same"]) == (1, False), output
    content = json.loads(file.read_text())
    content["expected"] = {"a field that no broker has": 0}
    file.write_text(json.dumps(content))
    status, _, output = run(kafka, tmp_path, "--request", str(file))
    assert (status, "differs: a field that no broker has" in output) == (1, True), output


SWITCHED_OFF = {
    "hwm_needs_min_isr": MESSAGES,
    "divergence_check": "replication/small-operator",
    "fetch_state_per_epoch": "replication/small-operator",
    "proposed_replica_eligible_check": MESSAGES,
    "proposed_broker_epoch_check": "replication/small-crash",
    "acks_all_needs_min_isr": MESSAGES,
    "min_isr_change_clears_elr": "replication/small-min-isr",
}
"""Rules of brokers and of the controller, each with a scenario whose walks differ if the rule is off."""


@slow("a comparison for each rule, where the fast test takes one")
@pytest.mark.parametrize("rule", sorted(SWITCHED_OFF)[:: often(2, 1)])
def test_walks_detect_that_a_rule_is_off(kafka: Path, tmp_path: Path, rule: str) -> None:
    arguments = [*ON_KAFKA, "--rule", f"{rule}=off", "--sample", "300", "--quiet"]
    status, _, output = run(kafka, tmp_path, SWITCHED_OFF[rule], *arguments)
    assert (status, "DIFFERENCES" in output) == (1, True), output


NOTICED_BY_A_PATH = {
    # The model's leader forgets the LEO of broker 1 with the rule; Kafka's leader keeps it.
    "re_election_forgets_fetches": (
        {"fencings": 2},
        [
            "broker 1 sends a fetch",
            "leader 0 answers the fetch of broker 1",
            "the controller fences broker 1",
            "the controller fences broker 0",
            "the controller unfences broker 0",
            "broker 0 replays the metadata log",
        ],
        ("follower.leo", "follower.epoch"),
    ),
    # The last step repeats the accepted ISR [0]. The model with the rule has no such step; Kafka forgets ISR [0,1].
    "proposal_outlives_known_metadata": (
        {"shrinks": 1, "min_isr": 1},
        [
            "leader 0 proposes to take broker 1 out of the ISR",
            "the controller takes broker 0's AlterPartition",
            "leader 0 takes the answer to its AlterPartition",
            "broker 1 sends a fetch",
            "leader 0 answers the fetch of broker 1",
            "leader 0 proposes broker 1 for the ISR",
            "broker 0 replays the metadata log",
        ],
        ("maximal_isr",),
    ),
}
"""Rules that random walks do not notice: parameters, a path, and the fields that then differ with the rule on."""


@pytest.mark.parametrize("rule", sorted(NOTICED_BY_A_PATH))
def test_a_path_detects_that_a_rule_is_on(bridge: Bridge, rule: str) -> None:
    parameters, sentences, fields = NOTICED_BY_A_PATH[rule]
    assert _differing_after(bridge, parameters, sentences, {rule: False}) == ()
    assert _differing_after(bridge, parameters, sentences, {rule: True}) == fields


def _differing_after(
    bridge: Bridge, parameters: dict[str, int], sentences: list[str], rules: dict[str, bool]
) -> tuple[str, ...]:
    """The fields in which the model and Kafka differ after a path. In the model, a disabled step changes nothing."""
    scenario = replace(scenario_files.find(MESSAGES), properties=())
    small = Overrides(
        profile="kafka_4_2", parameters={"losses": 0, "duplicates": 0, **parameters}, rules=rules
    )
    model = Request.of(scenario, small).without_goals().without_symmetry().model()
    numbers = {instance.sentence: number for number, instance in enumerate(model.instances)}
    path = [numbers[sentence] for sentence in sentences]
    interpreter, state = interpreter_of(model), model.initial[0]
    for number in path:
        state = interpreter.step(state, number).state or state
    operations = [operation_of(model.instances[number]) for number in path]
    bridge.ask({"scenario": setup_of(model), "operations": operations})
    answer = bridge.ask({"walk": [list(range(len(path)))]})
    walk = answer["walks"][0]
    assert walk[1::2] == [0] * len(path)
    return differing(ExpectedObservations(model)(state), answer["seen"][walk[-1]])


@slow("every step of a scenario, where the fast test walks at random")
def test_paths_that_cover_every_step_reach_the_states_of_the_model(kafka: Path, tmp_path: Path) -> None:
    less = ("--set", "losses=0", "--set", "duplicates=0")
    status, found, output = run(kafka, tmp_path, MESSAGES, *ON_KAFKA, *less)
    assert status == 0, output
    (one,) = found["scenarios"]
    assert (one["states"], one["transitions"], one["not_compared"]) == (2_752, 8_693, {})


WHOLE = {"small-min-isr-above": (4_815, 15_364, 0), "small-recovery": (6_025, 19_829, 33)}
"""The states and transitions of scenarios, and the number of transitions that ``conform`` does not compare."""


@slow("every step of two more scenarios, one with registrations in part")
@whole_only
@pytest.mark.parametrize("name", WHOLE)
def test_paths_go_around_what_is_known_to_differ(kafka: Path, tmp_path: Path, name: str) -> None:
    status, found, said = run(kafka, tmp_path, f"replication/{name}", *ON_KAFKA)
    assert status == 0, said
    (one,) = found["scenarios"]
    states, transitions, left = WHOLE[name]
    assert (one["states"], one["transitions"]) == (states, transitions - left)
    assert sum(one["not_compared"].values()) == left


@slow("random walks of every kind of fault")
@pytest.mark.parametrize(
    "name",
    [
        "small-crash",
        "small-flushes",
        "small-disk-loss",
        "small-shutdown",
        "small-shutdown-unseen",
        "small-min-isr",
        "small-reassign",
        "small-operator",
        "small-metadata",
        "small-late-fetches",
        "small-downgrade",
    ],
)
def test_random_walks_with_faults_reach_the_states_of_the_model(
    kafka: Path, tmp_path: Path, name: str
) -> None:
    status, found, output = run(
        kafka, tmp_path, f"replication/{name}", *ON_KAFKA, "--sample", str(often(100, 300))
    )
    assert (status, found["scenarios"][0]["differences"]) == (3, []), output


@slow("random walks in which the clock stands still")
def test_walks_compare_when_a_follower_counts_as_caught_up(kafka: Path, tmp_path: Path) -> None:
    still = ("--rule", "hwm_waits_for_caught_up=on", "--set", "initial_isr=1", "--set", "min_isr=1")
    status, found, said = run(
        kafka, tmp_path, "replication/small-operator", *ON_KAFKA, *still, "--sample", "60"
    )
    assert (status, found["scenarios"][0]["differences"]) == (3, []), said
