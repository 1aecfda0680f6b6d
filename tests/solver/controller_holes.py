"""What the controller's proof rests on: each rule that is off, and what is not kept then."""

from __future__ import annotations

# What takes a replica out of the ISR or elects: everything that decides on a change of the partition.
SHRINKS = {"fence", "start_controlled_shutdown", "register"}
ELECTS = {"unfence", "elect_leader", "maybe_balance_leader"}
REASSIGNS = {"reassign", "cancel_reassignment"}
CHANGES = {"alter_partition"} | SHRINKS | ELECTS
UNDER_ISR = {"fence", "start_controlled_shutdown", "unfence"}

HOLES: dict[tuple[str, ...], dict[str, set[str]]] = {
    # 841.2. The one way into the ISR that goes by the leader's word.
    ("ineligible_replica_check",): {
        "isr_members_are_eligible": {"alter_partition"},
        "only_active_brokers_join_the_isr": {"alter_partition"},
        "somebody_leads_the_isr": {"alter_partition"},
    },
    # 903.4. A replica that lost its log joins by a fetch of its former self.
    ("member_epoch_check",): {"electable_completeness": {"alter_partition"}},
    # An ISR without its leader; or an empty one, so that a leader from the ELR finds another remembered; or one of
    # brokers that are no replicas, of whom none can lead.
    ("valid_isr_check",): {
        name: {"alter_partition"}
        for name in (
            "isr_within_replicas",
            "leader_in_isr",
            "last_known_leader_only_without_leader",
            "only_active_brokers_join_the_isr",
            "somebody_leads_the_isr",
            "completed_reassignments_leave_min_isr_members",
            "electable_replicas_are_elected_first",
            "leaders_from_outside_are_allowed",
            "active_leaders_stay_in_the_isr",
            "reassignments_complete_when_they_can",
            "partitions_remember_their_last_leader",
        )
    },
    # B8. The order of the replicas then elects a member that joins the ISR by the same record.
    ("leader_stays",): {
        name: {"alter_partition"}
        for name in (
            "electable_replicas_are_elected_first",
            "leaders_from_outside_are_allowed",
            "partitions_remember_their_last_leader",
        )
    },
    # 966.5. A broker that lost its log stays where it was, and is fenced there.
    ("unclean_registration",): {
        "leader_is_active": {"register"},
        "isr_members_are_eligible": {"register"},
        "electable_completeness": {"register"},
    },
    # 966.4. Who leaves the ISR under min ISR is eligible no more. That an ISR member registers uncleanly is a loss that
    # the recovery quorum's property leaves out.
    ("eligible_leader_replicas",): {
        "enough_are_electable": {"alter_partition"} | SHRINKS,
        "recovery_quorum_keeps_min_isr_members": {"alter_partition", "fence", "start_controlled_shutdown"},
    },
    # A leader from the ELR is an ISR of one, and with min ISR 1 that empties the ELR.
    ("elr_follows_election",): {
        name: ELECTS | {"register", "reassign"}
        for name in ("elr_only_under_min_isr", "electable_completeness", "last_known_elr_is_not_electable")
    },
    # 966.3. The last member is not written out of the ISR: it is in the ELR too, with the log that it lost.
    ("isr_may_become_empty",): {
        "isr_and_elr_are_disjoint": SHRINKS,
        "elr_only_under_min_isr": SHRINKS,
        "electable_completeness": {"register"},
    },
    # 966.8. With the lower min ISR records are committed that the ELR lacks.
    ("min_isr_change_empties_elr",): {
        name: {"change_min_isr"}
        for name in ("elr_only_under_min_isr", "electable_completeness", "last_known_elr_is_not_electable")
    },
    # 966.10. An ELR member that lost its log is forgotten.
    ("last_known_elr",): {"recovery_quorum_keeps_min_isr_members": {"register"}},
    # 966.9. Whatever can complete a reassignment can leave fewer replicas than min ISR, all of them in the ISR.
    # Unfencing decides on an empty ISR, with which none completes.
    ("reassignment_needs_min_isr",): {
        "last_known_elr_is_not_electable": (CHANGES | REASSIGNS) - {"unfence"},
        "reassignments_complete_when_they_can": {"alter_partition"} | SHRINKS,
    },
    # Alone it breaks nothing (below): with min ISR members left the ELR is empty. Without that rule it matters.
    ("elr_within_replicas", "reassignment_needs_min_isr"): dict.fromkeys(
        (
            "elr_within_replicas",
            "elr_only_under_min_isr",
            "electable_completeness",
            "last_known_elr_is_not_electable",
            "reassignments_complete_when_they_can",
        ),
        (CHANGES | REASSIGNS) - {"unfence"},
    ),
    # B8. Whatever elects, or leaves nobody to lead.
    ("elections_bump_leader_epoch",): {
        "leader_change_ends_the_leader_epoch": CHANGES | REASSIGNS | {"recover_uncleanly"},
        "removed_replica_ends_the_leader_epoch": (CHANGES | REASSIGNS) - {"unfence"},
    },
    # B8. Fencing and its end, where they change anything, change the ISR too.
    ("every_change_bumps_partition_epoch",): {
        "leader_epoch_behind_partition_epoch": (CHANGES | REASSIGNS) - UNDER_ISR,
        "partition_change_is_counted": ((CHANGES | REASSIGNS) - UNDER_ISR) | {"change_min_isr"},
        "elr_changes_keep_the_leader_epoch": {"change_min_isr", "register"},
    },
    # 704.1. The leader has recovered and asks for others, and the partition is still recovering.
    ("proposals_end_recovery",): {"recovering_leader_is_alone": {"alter_partition"}},
    # 966.9. Who was to be added is no replica any more.
    ("cancellation_is_whole",): {
        "reassignment_within_replicas": {"cancel_reassignment"},
        "a_reassignment_has_two_ends": {"cancel_reassignment"},
        "reassignments_complete_when_they_can": {"cancel_reassignment"},
    },
    # B8. Any change can complete a reassignment, and then a replica is gone.
    ("reassignment_bumps_leader_epoch",): {
        "removed_replica_ends_the_leader_epoch": (CHANGES | REASSIGNS) - {"unfence"}
    },
}
"""Rules off to the properties that are not kept then, and by which actions. Worked out from what each rule is about."""

HARMLESS = {
    # Requests of another epoch or sender: here the leader asks with what is current.
    "sender_epoch_check", "leader_epoch_check", "sender_is_leader_check", "partition_epoch_check",
    # A leader here always says that it has recovered.
    "recovery_state_check",
    # Which of several that may lead: any would do.
    "replica_order",
    # Whether a leader is found soon: no matter of safety.
    "election_on_unfencing",
    # Sessions are not in this protocol.
    "live_session_check",
    # With unclean recovery nobody is elected uncleanly any more (966.13), the last known leader included.
    "unclean_election_recovers", "last_known_leader", "last_known_leader_unfenced",
    # A clean restart counts as unclean, which is said of it (``diminished``).
    "clean_registration",
    # With min ISR members left after a reassignment the ELR is empty.
    "elr_within_replicas",
    # Without a leader the ISR is empty, unless a shutdown is resumed: "no leader" is written over nobody.
    "last_known_leader_kept",
    # No operator asks for LONGEST_LOG elections here.
    "balanced_election_waits_for_elr",
    # Here the ELR is never off: what a change does with what was recorded then is not asked.
    "elr_off_empties_elr", "elr_off_forgets_last_known",
}  # fmt: skip
"""Rules that no proof here rests on, as these properties or this protocol do not concern them."""

OTHER_PHASE = {"unclean_recovery"}
"""Off it is another protocol, KIP-966's first phase, with unclean elections in place of recovery."""
