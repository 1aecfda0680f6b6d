"""Findings in Kafka 4.2: each scenario violates a property, and a minimal set of rules closes it."""

from __future__ import annotations

import pytest

from highwater.checker.engines.native import search
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from tests.replication.findings_4_2 import FINDINGS, PLACE, searched
from tests.slow import all_but

DEPTHS = {
    "elr-turned-off": {"leader_completeness": 6},
    "reassignment": {"elr_within_replicas": 4},
    "reassignment-loss": {"leader_completeness": 6},
    "shut-out": {"every_broker_comes_back": 7},
    "cleared-elr": {"partitions_are_led": 6},
    "forgotten-leader": {"last_known_leader_is_a_broker": 6},
    "assignment": {"enough_are_electable": 3},
    "first-partition": {"enough_are_electable": 3},
    "level-lowered": {"partitions_are_led": 5},
    "level-raised": {"partitions_are_led": 5},
    "stuck-elr": {"electable_replicas_come_to_lead": 4},
    "cancelled-loss": {"leader_completeness": 6},
    "outlived-leader": {"last_known_leader_only_without_leader": 4},
    "first-partition-of-two": {"enough_are_electable": 3},
    "second-partition-loss": {"leader_completeness": 4},
    "elr-turned-off-records": {"leader_completeness": 8, "acknowledged_records_survive": 10},
    "reassignment-loss-records": {"leader_completeness": 8, "acknowledged_records_survive": 10},
    "forgotten-proposal-records": {
        "electable_completeness": 18,
        "leader_completeness": 20,
        "acknowledged_records_survive": 22,
    },
    "re-elected-leader": {"electable_completeness": 25},
    "reassigned-back": {"reassignments_complete_when_they_can": 4},
    "fenced-leader": {"leader_is_active": 3},
    "nobody-remembered": {"last_known_leader_is_a_broker": 5},
}
QUICK = ("elr-turned-off", "level-raised", "stuck-elr", "first-partition-of-two", "reassigned-back")
"""Findings of safety and of liveness, of one partition and of two."""
REST = "searches up to millions of states; fast for other findings"
KEPT_SAFE = {"cleared-elr": {"min_isr_change_empties_elr"}}
"""Rules that a finding does not need to be closed; without them another defect would appear: the ELR stays."""


@pytest.mark.parametrize("name", all_but(QUICK, FINDINGS, REST))
def test_a_finding_is_there(name: str) -> None:
    assert {v.property: v.depth for v in searched(name).violations} == DEPTHS[name]


@pytest.mark.parametrize("name", all_but(QUICK, FINDINGS, REST))
def test_a_smallest_set_of_rules_closes_it(name: str) -> None:
    for switches in FINDINGS[name]["closes"]:
        closed = searched(name, switches)
        assert closed.complete
        assert not closed.violations
        parts = sorted(set(switches) - KEPT_SAFE.get(name, set())) if len(switches) > 1 else []
        for left_out in parts:
            fewer = {rule: on for rule, on in switches.items() if rule != left_out}
            assert searched(name, fewer).violations


MENDED = ("elr-turned-off", "shut-out", "reassignment", "reassignment-loss", "level-lowered", "level-raised")


@pytest.mark.parametrize("name", all_but(QUICK[:2], MENDED, REST))
def test_the_mended_profile_has_no_mended_finding(name: str) -> None:
    model = asked(PLACE + name, profile="kafka_4_2_mended").model()
    result = search(model, SearchOptions(workers=1))
    assert result.complete
    assert not result.violations


def test_emptying_the_elr_with_the_level_elects_no_leader() -> None:
    assert searched("level-lowered", {"level_change_empties_elr": True}).violations
    assert searched("level-raised", {"level_change_empties_elr": True}).violations
