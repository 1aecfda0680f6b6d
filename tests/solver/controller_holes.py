"""What the controller's proof rests on: each rule that is off, and the properties that then fail."""

from __future__ import annotations

# Actions that shrink the ISR or elect a leader: all that can change the partition.
SHRINKS = {"fence", "start_controlled_shutdown", "register"}
ELECTS = {"unfence", "elect_leader", "maybe_balance_leader"}
REASSIGNS = {"reassign", "cancel_reassignment"}
CHANGES = {"alter_partition"} | SHRINKS | ELECTS
UNDER_ISR = {"fence", "start_controlled_shutdown", "unfence"}


def each(properties: str, actions: set[str]) -> dict[str, set[str]]:
    """The same actions for each property; names are separated by spaces."""
    return dict.fromkeys(properties.split(), actions)


HOLES: dict[tuple[str, ...], dict[str, set[str]]] = {
    # 841.2. The only way into the ISR that relies on the leader's request.
    ("ineligible_replica_check",): {
        "isr_members_are_eligible": {"alter_partition"},
        "only_active_brokers_join_the_isr": {"alter_partition"},
        "somebody_leads_the_isr": {"alter_partition"},
    },
    # 903.4. A replica that lost its log joins by a fetch of its former incarnation.
    ("member_epoch_check",): {"electable_completeness": {"alter_partition"}},
    # An ISR without its leader; an empty ISR, whose successor leader differs from the last known one; or an
    # ISR of brokers that are no replicas, none of which can lead.
    ("valid_isr_check",): each(
        "isr_within_replicas leader_in_isr last_known_leader_only_without_leader "
        "only_active_brokers_join_the_isr somebody_leads_the_isr "
        "completed_reassignments_leave_min_isr_members electable_replicas_are_elected_first "
        "leaders_from_outside_are_allowed active_leaders_stay_in_the_isr "
        "reassignments_complete_when_they_can partitions_remember_their_last_leader",
        {"alter_partition"},
    ),
    # B8. The replica order elects a member that joins the ISR by the same record.
    ("leader_stays",): each(
        "electable_replicas_are_elected_first leaders_from_outside_are_allowed "
        "partitions_remember_their_last_leader",
        {"alter_partition"},
    ),
    # 966.5. A broker that lost its log stays in ISR or ELR, although it is fenced.
    ("unclean_registration",): {
        "leader_is_active": {"register"},
        "isr_members_are_eligible": {"register"},
        "electable_completeness": {"register"},
    },
    # 966.4. A member that leaves the ISR under min ISR is no longer eligible. The recovery quorum's property
    # excludes unclean registrations of ISR members.
    ("eligible_leader_replicas",): {
        "enough_are_electable": {"alter_partition"} | SHRINKS,
        "recovery_quorum_keeps_min_isr_members": {"alter_partition", "fence", "start_controlled_shutdown"},
    },
    # A leader elected from the ELR is an ISR of one; with min ISR 1, that must empty the ELR.
    ("elr_follows_election",): each(
        "elr_only_under_min_isr electable_completeness last_known_elr_only_under_min_isr",
        ELECTS | {"register", "reassign"},
    ),
    # 966.3. The last ISR member stays in the ISR and is in the ELR too, even if it lost its log.
    ("isr_may_become_empty",): {
        "isr_and_elr_are_disjoint": SHRINKS,
        "elr_only_under_min_isr": SHRINKS,
        "electable_completeness": {"register"},
    },
    # 966.8. With the lower min ISR, records can be committed that ELR members lack.
    ("min_isr_change_empties_elr",): each(
        "elr_only_under_min_isr electable_completeness last_known_elr_only_under_min_isr", {"change_min_isr"}
    ),
    # 966.10. An ELR member that lost its log is not remembered.
    ("last_known_elr",): {"recovery_quorum_keeps_min_isr_members": {"register"}},
    # 966.9. Completing a reassignment can leave fewer replicas than min ISR, all in the ISR. Unfencing acts
    # only on an empty ISR, so it completes none.
    ("reassignment_needs_min_isr",): {
        "last_known_elr_only_under_min_isr": (CHANGES | REASSIGNS) - {"unfence"},
        "reassignments_complete_when_they_can": {"alter_partition"} | SHRINKS,
    },
    # Alone, elr_within_replicas is harmless (see HARMLESS).
    ("elr_within_replicas", "reassignment_needs_min_isr"): each(
        "elr_within_replicas elr_only_under_min_isr electable_completeness "
        "last_known_elr_only_under_min_isr reassignments_complete_when_they_can",
        (CHANGES | REASSIGNS) - {"unfence"},
    ),
    # B8. All actions that elect a leader, or leave the partition without one.
    ("elections_bump_leader_epoch",): {
        "leader_change_ends_the_leader_epoch": CHANGES | REASSIGNS | {"recover_uncleanly"},
        "removed_replica_ends_the_leader_epoch": (CHANGES | REASSIGNS) - {"unfence"},
    },
    # B8. If fencing or unfencing changes the partition, it changes the ISR too.
    ("every_change_bumps_partition_epoch",): {
        "leader_epoch_behind_partition_epoch": (CHANGES | REASSIGNS) - UNDER_ISR,
        "partition_change_is_counted": ((CHANGES | REASSIGNS) - UNDER_ISR) | {"change_min_isr"},
        "elr_changes_keep_the_leader_epoch": {"change_min_isr", "register"},
    },
    # 704.1. The recovered leader proposes other members while the partition still counts as recovering.
    ("proposals_end_recovery",): {"recovering_leader_is_alone": {"alter_partition"}},
    # 966.9. The adding replicas are no longer replicas.
    ("cancellation_is_whole",): {
        "reassignment_within_replicas": {"cancel_reassignment"},
        "a_reassignment_has_two_ends": {"cancel_reassignment"},
        "reassignments_complete_when_they_can": {"cancel_reassignment"},
    },
    # B8. Any change can complete a reassignment and so remove a replica.
    ("reassignment_bumps_leader_epoch",): {
        "removed_replica_ends_the_leader_epoch": (CHANGES | REASSIGNS) - {"unfence"}
    },
}
"""Rules off → property that fails → the actions that break it; derived by hand from the rules."""

HARMLESS = {
    # Stale requests: here a leader's request is always current.
    "sender_epoch_check", "leader_epoch_check", "sender_is_leader_check", "partition_epoch_check",
    # Here a leader always reports that it has recovered.
    "recovery_state_check",
    # Which of several candidates leads: any is safe.
    "replica_order",
    # Liveness only: whether a leader is elected soon.
    "election_on_unfencing",
    # This protocol has no sessions.
    "live_session_check",
    # With unclean recovery there is no other unclean election (966.13), not even of the last known leader.
    "unclean_election_recovers", "last_known_leader", "last_known_leader_unfenced",
    # A clean restart counts as unclean (``diminished`` records it).
    "clean_registration",
    # With min ISR members left after a reassignment, the ELR is empty.
    "elr_within_replicas",
    # Without a leader the ISR is empty. If a shutdown resumes, no last known leader is overwritten.
    "last_known_leader_kept",
    # No operator requests LONGEST_LOG elections here.
    "balanced_election_waits_for_elr",
    # The ELR is never off here.
    "elr_off_empties_elr", "elr_off_forgets_last_known",
}  # fmt: skip
"""Rules on which no proof here rests: the properties or this protocol do not concern them."""

OTHER_PHASE = {"unclean_recovery"}
"""With this rule off, it is KIP-966's first phase: unclean elections instead of recovery."""
