"""Every property was seen to fail: in a scenario that expects its violation, in a mutant, or there is a reason."""

from __future__ import annotations

from highwater.checker.scenarios.catalogue import load, scenario_files
from highwater.checker.scenarios.scenario_files import find

_MUTANTS = "mutants violate it; the rule that keeps it is not a switch"
_RULE_ITSELF = (
    "it exists only with its rule; the defect scenario of the rule shows the loss, mutants violate it"
)
_PLANTED = "a planted mistake violates it; the rule that keeps it is not a switch"

REASONED = {
    "promise": {
        "the_log_is_in_order": "the promise has no rules; mutants violate it",
        "what_is_acknowledged_stays": "the promise has no rules; mutants violate it",
        "consumers_read_the_log": "the promise has no rules; mutants violate it",
        "what_a_producer_was_told_stays": "the promise has no rules; mutants violate it",
    },
    "quorum": {
        "consumers_are_answered_with_records": _PLANTED,
        "fetches_without_hwm_wait_for_records": _MUTANTS,
        "finalised_members_send_their_hwm": _RULE_ITSELF,
        "older_leaders_ignore_the_hwm_field": _PLANTED,
        "timers_answer_with_the_hwm_at_parking": _RULE_ITSELF,
    },
    "replication.controller": {
        "elr_members_are_indexed": "one record changes ELR and index; only entries too many have a defect (K8)",
        "leader_epoch_never_falls": "a record gives no epoch: one is counted on where it is merged, or stays",
        "broker_epochs_never_fall": "a record gives no epoch: one is counted on where it is merged, or stays",
        "elr_changes_keep_the_leader_epoch": "registration_bumps_leader_epoch, which breaks it, is of replication",
        "completed_reassignments_leave_min_isr_members": _RULE_ITSELF,
        "last_known_leader_stays_until_an_election": _RULE_ITSELF,
        "only_isr_members_join_the_elr": "the ELR is made of ISR and ELR; mutants that add others violate more",
        "only_elr_members_join_the_last_known_elr": "no rule adds another broker; a mutant violates it",
        "active_leaders_stay_in_the_isr": _MUTANTS,
        "designated_replicas_lead": _MUTANTS,
        "electable_replicas_are_elected_first": _MUTANTS,
        "last_known_leaders_lead_once_active": _RULE_ITSELF,
        "leaders_from_outside_are_allowed": _MUTANTS,
        "members_that_leave_the_isr_stay_eligible": _RULE_ITSELF,
        "min_isr_changes_clear_the_elr": _RULE_ITSELF,
        "partitions_remember_their_last_leader": _MUTANTS,
        "reassignments_complete_when_they_can": _MUTANTS,
        "cancelled_reassignments_leave_min_isr_members": _RULE_ITSELF,
        "recoveries_elect_complete_replicas": _MUTANTS,
        "strategy_none_recovers_no_replica": _MUTANTS,
        "unclean_elections_do_not_wait": _MUTANTS,
    },
    "replication": {
        "leader_epoch_never_falls": "a record gives no epoch: one is counted on where it is merged, or stays",
        "broker_epochs_never_fall": "a record gives no epoch: one is counted on where it is merged, or stays",
        "a_leaders_hwm_and_log_never_shrink": _MUTANTS,
        "what_is_committed_stays": "`committed` records what was ever shown; nothing takes from it",
        "unclean_registrations_leave_isr_and_elr": "no rule takes the comparison of epochs off; mutants violate it",
        "former_replicas_keep_no_log": _MUTANTS,
        "truncation_ends_where_both_logs_agree": "without divergence_check no answer says where logs diverge",
        "answers_of_other_epochs_change_no_log": _RULE_ITSELF,
        "completed_reassignments_leave_min_isr_members": _RULE_ITSELF,
        "hwm_advances_with_min_isr_only": _RULE_ITSELF,
        "last_known_leader_stays_until_an_election": _RULE_ITSELF,
        "leaders_count_no_fetch_of_a_former_incarnation": _RULE_ITSELF,
        "new_leader_epochs_know_no_fetch": _RULE_ITSELF,
        "requested_elections_replace_no_leader": _MUTANTS,
        "last_known_leaders_led_last": _RULE_ITSELF,
        "members_that_leave_under_min_isr_stay_eligible": _RULE_ITSELF,
        "metadata_leaves_replicas_their_logs": _RULE_ITSELF,
        "partitions_with_active_isr_members_are_led": _MUTANTS,
        "proposals_stand_as_they_were_made": _PLANTED,
    },
    "truncation": {
        "caught_up_replicas_stay_in_the_isr": _MUTANTS,
        "hwms_stay_where_the_leader_knows_no_end": _RULE_ITSELF,
        "hwms_stay_within_their_logs": _MUTANTS,
        "hwms_wait_for_the_isr": _RULE_ITSELF,
        "replicas_join_the_isr_caught_up": _MUTANTS,
    },
    "zookeeper": {
        "current_shutdown_requests_are_granted": _MUTANTS,
        "elected_leaders_were_in_the_isr": _MUTANTS,
        "isr_members_leave_by_failure_or_shutdown": _MUTANTS,
        "joining_replicas_follow_their_leader": _MUTANTS,
        "live_leaders_lead_on": _MUTANTS,
        "replicas_move_to_later_epochs_only": _RULE_ITSELF,
    },
}
"""By protocol the properties that no scenario violates, and why."""

OF_ONE_PARTITION = "replication.topic"
"""It states no property of its own: those of the controller, of two partitions."""


def violated() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in scenario_files():
        scenario = find(name)
        found.setdefault(scenario.protocol.name, set()).update(scenario.expectation.violated)
    return found


def test_every_property_that_no_scenario_violates_has_its_reason() -> None:
    never = {}
    for protocol, seen in violated().items():
        stated = load(protocol)
        checked = {i.name for i in stated.invariants} | {p.name for p in stated.step_properties}
        if protocol != OF_ONE_PARTITION and checked - seen:
            never[protocol] = checked - seen
    assert never == {protocol: set(reasons) for protocol, reasons in REASONED.items()}
