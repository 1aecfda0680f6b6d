"""Every property fails in a sanity scenario or in a mutant, or is listed with a reason."""

from __future__ import annotations

from highwater.checker.scenarios.catalogue import load, scenario_files
from highwater.checker.scenarios.scenario_files import find

_MUTANTS = "mutants violate it; the rule that keeps it is not a switch"
_RULE_ITSELF = (
    "it exists only with its rule; the defect scenario of the rule shows the loss, mutants violate it"
)
_PLANTED = "a planted mistake violates it; the rule that keeps it is not a switch"

REASONED: dict[str, dict[str, str]] = {
    _PLANTED: {
        "quorum": "consumers_are_answered_with_records fetches_and_votes_are_received hwm_growth_ends_all_waits "
        "members_can_act older_leaders_ignore_the_hwm_field votes_are_granted votes_stand_for_the_epoch",
        "replication": "brokers_can_come_and_go clean_registrations_keep_the_elr clients_are_served "
        "current_proposals_are_accepted leader_epochs_start_at_the_log_end messages_are_received "
        "min_isr_changes_are_carried_out only_lagging_members_are_proposed_to_leave "
        "proposals_stand_as_they_were_made reassignments_are_carried_out recoveries_wait_for_answers_only "
        "replication_goes_on requested_elections_are_held",
        "truncation": "leaders_leave_no_empty_isr",
        "zookeeper": "controllers_that_resign_send_nothing current_requests_are_obeyed requests_arrive",
    },
    _MUTANTS: {
        "quorum": "fetches_without_hwm_wait_for_records",
        "replication.controller": "active_leaders_stay_in_the_isr designated_replicas_lead "
        "electable_replicas_are_elected_first leaders_from_outside_are_allowed "
        "partitions_remember_their_last_leader "
        "recoveries_elect_complete_replicas strategy_none_recovers_no_replica "
        "unclean_elections_do_not_wait",
        "replication": "a_leaders_hwm_and_log_never_shrink former_replicas_keep_no_log "
        "partitions_with_active_isr_members_are_led requested_elections_replace_no_leader",
        "truncation": "caught_up_replicas_stay_in_the_isr hwms_stay_within_their_logs "
        "replicas_join_the_isr_caught_up",
        "zookeeper": "current_shutdown_requests_are_granted elected_leaders_were_in_the_isr "
        "isr_members_leave_by_failure_or_shutdown joining_replicas_follow_their_leader "
        "live_leaders_lead_on",
    },
    _RULE_ITSELF: {
        "quorum": "finalised_members_send_their_hwm timers_answer_with_the_hwm_at_parking",
        "replication.controller": "cancelled_reassignments_leave_min_isr_members "
        "completed_reassignments_leave_min_isr_members last_known_elr_members_stay_until_min_isr "
        "last_known_leader_stays_until_an_election last_known_leaders_lead_once_active "
        "members_that_leave_the_isr_stay_eligible min_isr_changes_clear_the_elr",
        "replication": "completed_reassignments_leave_min_isr_members "
        "hwm_advances_with_min_isr_only last_known_leader_stays_until_an_election "
        "last_known_leaders_led_last leaders_count_no_fetch_of_a_former_incarnation "
        "members_that_leave_under_min_isr_stay_eligible metadata_leaves_replicas_their_logs",
        "truncation": "followers_truncate_in_their_leaders_epoch unknown_epochs_end_at_the_own_hwm",
        "zookeeper": "bounced_brokers_leave_the_isr registrations_have_later_epochs",
    },
    "the promise has no rules; mutants violate it": {
        "promise": "consumers_read_the_log the_log_is_in_order what_a_producer_was_told_stays "
        "what_is_acknowledged_stays",
    },
    "one record changes ELR and index; only entries too many have a defect (K8)": {
        "replication.controller": "elr_members_are_indexed",
    },
    "a record gives no epoch: one is counted on where it is merged, or stays": {
        "replication.controller": "broker_epochs_never_fall leader_epoch_never_falls",
        "replication": "broker_epochs_never_fall leader_epoch_never_falls",
    },
    "registration_bumps_leader_epoch, which breaks it, is of replication": {
        "replication.controller": "elr_changes_keep_the_leader_epoch",
    },
    "the ELR is made of ISR and ELR; mutants that add others violate more": {
        "replication.controller": "only_isr_members_join_the_elr",
    },
    "no rule adds another broker; a mutant violates it": {
        "replication.controller": "only_elr_members_join_the_last_known_elr",
    },
    "`committed` records what was ever shown; nothing takes from it": {
        "replication": "what_is_committed_stays",
    },
    "no rule takes the comparison of epochs off; mutants violate it": {
        "replication": "unclean_registrations_leave_isr_and_elr",
    },
    "without divergence_check no answer says where logs diverge": {
        "replication": "truncation_ends_where_both_logs_agree",
    },
}  # fmt: skip
"""Reason → protocol → properties that no scenario violates."""

OF_ONE_PARTITION = "replication.topic"
"""This protocol's properties are the controller's, for two partitions."""


def violated() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in scenario_files():
        scenario = find(name)
        found.setdefault(scenario.protocol.name, set()).update(scenario.expectation.violated)
    return found


def test_every_property_that_no_scenario_violates_has_its_reason() -> None:
    never: set[tuple[str, str]] = set()
    for protocol, seen in violated().items():
        stated = load(protocol)
        checked = {p.name for p in (*stated.invariants, *stated.step_properties)}
        if protocol != OF_ONE_PARTITION:
            never |= {(protocol, name) for name in checked - seen}
    reasoned = {
        (protocol, name)
        for by_protocol in REASONED.values()
        for protocol, names in by_protocol.items()
        for name in names.split()
    }
    assert sorted(never - reasoned) == [], "add a scenario that violates it, or a reason in REASONED"
    assert sorted(reasoned - never) == [], "it is violated, or gone: remove its reason"
