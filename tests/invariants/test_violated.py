"""Every invariant was seen to fail: some scenario promises that it is violated, or a page says why none can."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.asking import scenarios
from highwater.checker.asking.catalogue import load, scenario_files

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mutate.md"
HEADING = "## Properties that nothing violates"

REASONED = {
    "promise": {
        "the_log_is_in_order",
        "what_is_acknowledged_stays",
        "consumers_read_the_log",
        "what_a_producer_was_told_stays",
    },
    "replication.controller": {
        "elr_members_are_indexed",
        "leader_epoch_never_falls",
        "broker_epochs_never_fall",
        "elr_changes_keep_the_leader_epoch",
        "completed_reassignments_leave_min_isr_members",
        "last_known_leader_stays_until_an_election",
        "only_isr_members_join_the_elr",
        "only_elr_members_join_the_last_known_elr",
    },
    "replication": {
        "leader_epoch_never_falls",
        "broker_epochs_never_fall",
        "a_leaders_hwm_and_log_never_shrink",
        "what_is_committed_stays",
        "unclean_registrations_leave_isr_and_elr",
        "former_replicas_keep_no_log",
        "truncation_ends_where_both_logs_agree",
        "answers_of_other_epochs_change_no_log",
        "completed_reassignments_leave_min_isr_members",
        "hwm_advances_with_min_isr_only",
        "last_known_leader_stays_until_an_election",
        "leaders_count_no_fetch_of_a_former_incarnation",
        "new_leader_epochs_know_no_fetch",
        "requested_elections_replace_no_leader",
    },
}
"""By protocol what no scenario violates; the page has the reasons."""

OF_ONE_PARTITION = "replication.topic"
"""It states no property of its own: those of the controller, of two partitions."""


def violated() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in scenario_files():
        scenario = scenarios.find(name)
        found.setdefault(scenario.protocol.name, set()).update(scenario.promise.violated)
    return found


def test_what_no_scenario_violates_has_its_reason() -> None:
    by_protocol = violated()
    never = {}
    for protocol, seen in by_protocol.items():
        stated = load(protocol)
        asked = {i.name for i in stated.invariants} | {p.name for p in stated.step_properties}
        if protocol != OF_ONE_PARTITION and asked - seen:
            never[protocol] = asked - seen
    assert never == REASONED


@pytest.mark.parametrize("protocol", sorted(REASONED))
def test_the_page_has_the_reasons(protocol: str) -> None:
    _, section = PAGE.read_text(encoding="utf-8").split(HEADING)
    told = section.split("\n## ")[0]
    assert all(f"`{name}`" in told for name in REASONED[protocol])
