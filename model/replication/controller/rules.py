"""The controller's rules as switches, and the profiles: the rules of each proposal and version.

A rule that is on in every profile can still be turned off. An exploration or a replay of a real controller must then
find the defect that the rule prevents.
"""

from __future__ import annotations

from highwater.model.language import Profile, Rule

RULES = {
    # AlterPartition: the checks, in this order.
    "sender_epoch_check": Rule(
        "B8", "The controller accepts an AlterPartition only with the sender's registered broker epoch."
    ),
    "leader_epoch_check": Rule(
        "B8", "The controller accepts an AlterPartition only with the partition's current leader epoch."
    ),
    "sender_is_leader_check": Rule(
        "B8", "The controller accepts an AlterPartition only from the partition's leader."
    ),
    "partition_epoch_check": Rule(
        "B8", "The controller accepts an AlterPartition only with the partition's current partition epoch."
    ),
    "valid_isr_check": Rule(
        "B8", "A proposed ISR contains the leader, and only replicas of the partition, each once."
    ),
    "recovery_state_check": Rule(
        "704.2",
        "A RECOVERING leader is the only ISR member, and a RECOVERED one does not return to RECOVERING.",
    ),
    "ineligible_replica_check": Rule(
        "841.2", "The controller adds no fenced or shutting-down broker to the ISR."
    ),
    "member_epoch_check": Rule(
        "903.4", "The controller adds no broker to the ISR by a broker epoch other than its registered one."
    ),
    "proposals_end_recovery": Rule(
        "704.1",
        "The partition takes the recovery state of an accepted AlterPartition. Off: the state is checked and not "
        "stored.",
    ),
    # Elections.
    "leader_stays": Rule(
        "B8", "A leader that may lead stays leader, whatever its place in the replica order."
    ),
    "replica_order": Rule("B8", "Of several candidates, the first in replica order is elected."),
    "clean_election_picks_any": Rule(
        "966.13",
        "Any of several ISR or ELR members can be elected. Off: the first in replica order is elected.",
    ),
    "unclean_election_picks_any": Rule(
        "966.15", "An unclean election elects any live replica. Off: it elects the first in replica order."
    ),
    "election_on_unfencing": Rule(
        "966.5", "When a broker is unfenced, partitions without a leader elect one."
    ),
    "unclean_election_recovers": Rule(
        "704.1", "An uncleanly elected leader is RECOVERING until it reports that it has recovered."
    ),
    "unclean_recovery": Rule(
        "966.13, 966.14",
        "If no ISR or ELR member is unfenced, the controller compares the replicas' logs and elects the replica with "
        "the best log. This replaces unclean election.",
    ),
    "balanced_election_waits_for_elr": Rule(
        "966.13, 966.14",
        "An operator's LONGEST_LOG_BALANCED election is refused while the ELR has members, because Balanced waits "
        "for them. Off: it elects a last known ELR member nevertheless; the proposal does not exclude that.",
    ),
    # Epochs.
    "elections_bump_leader_epoch": Rule(
        "B8",
        "A partition change that writes a leader ends the leader epoch, even if the leader stays the same. Off: the "
        "leader epoch stays.",
    ),
    "every_change_bumps_partition_epoch": Rule(
        "B8", "Every change of the partition increases the partition epoch. Off: only ISR changes do."
    ),
    "reassignment_bumps_leader_epoch": Rule("B8", "Removing a replica ends the leader epoch."),
    "shrink_bumps_leader_epoch": Rule("K5", "An ISR shrink ends the leader epoch."),
    # Brokers.
    "live_session_check": Rule("B8", "A broker with a live session cannot be registered a second time."),
    "unclean_registration": Rule(
        "966.5",
        "A broker that registers after an unclean shutdown leaves ISR and ELR before it is registered.",
    ),
    "clean_registration": Rule(
        "966.12", "A registration is clean exactly if its previous broker epoch is the registered one."
    ),
    # Eligible leader replicas.
    "eligible_leader_replicas": Rule(
        "966.4", "A member that leaves the ISR enters the ELR if the ISR is then under min ISR."
    ),
    "elr_follows_election": Rule(
        "966.4, 966.6",
        "If the ISR has at least min ISR members after an election, the ELR is emptied, as after any other change.",
    ),
    "isr_may_become_empty": Rule("966.3", "The last member can leave the ISR."),
    "min_isr_change_empties_elr": Rule(
        "966.8", "When min.insync.replicas changes to a value that the ISR satisfies, the ELR is emptied."
    ),
    "last_known_elr": Rule(
        "966.10", "An ELR member that leaves by an unclean shutdown enters the last known ELR."
    ),
    "last_known_leader": Rule(
        "966.11",
        "The last member that leaves the ISR becomes the last known leader until a leader is elected. The last known "
        "leader can be elected.",
    ),
    "last_known_leader_kept": Rule(
        "966.11",
        "The last known leader is always a broker; it stays set when a leaderless partition loses its last ISR "
        "member.",
    ),
    "last_known_leader_unfenced": Rule(
        "966.15", "The last known leader is elected only while it is unfenced."
    ),
    "last_known_leader_first": Rule(
        "K1", "The last known leader is tried before any other unclean election."
    ),
    "last_known_leader_by_leader": Rule(
        "K6",
        "When a change writes that there is no leader, the previous leader becomes the last known leader, whatever "
        "the ISR is, unless one is set already. It is cleared when a change writes a leader.",
    ),
    "min_isr_change_clears_elr": Rule(
        "K7",
        "Every accepted change of min.insync.replicas empties ELR and last known leader, whatever the value, the "
        "ISR and the leader are.",
    ),
    "cleared_elr_stays_indexed": Rule(
        "K8",
        "After a change of min.insync.replicas, members of the emptied ELR stay in the controller's index. When "
        "such a broker registers uncleanly or is removed, the partition changes once for each entry.",
    ),
    "leftover_elr_elects": Rule(
        "K9",
        "An ELR from before the ELR was turned off stays until the partition's next change, whose election can "
        "still use it.",
    ),
    "elr_off_empties_elr": Rule(
        "966.18",
        "While the ELR is off, the next change of the partition empties the ELR. Off: the recorded ELR stays.",
    ),
    "elr_off_forgets_last_known": Rule(
        "966.18",
        "While the ELR is off, the next change of the partition also clears last known ELR and last known leader.",
    ),
    "level_change_empties_elr": Rule(
        "966.6",
        "A change of eligible.leader.replicas.version empties ELR and last known leader, because they are not "
        "maintained while the ELR is off. No version of Kafka does so.",
    ),
    "level_changes_with_leader": Rule(
        "584.1",
        "eligible.leader.replicas.version changes only while every partition has a leader: an emptied ELR leaves a "
        "leaderless partition without a candidate. No version of Kafka does so.",
    ),
    "min_isr_by_first_partition": Rule(
        "K10",
        "The controller computes min ISR from the replicas of the topic's first partition; a leader computes it from "
        "its own partition's replicas.",
    ),
    "unassigned_candidate_fails": Rule(
        "K11", "A decision fails as a whole if a live candidate for leader is not a replica of the partition."
    ),
    # Brokers and features, beyond the proposals.
    "registration_leaves_isr": Rule(
        "K12",
        "A new incarnation of a broker leaves the ISR as if it had been fenced, also while the ELR is off.",
    ),
    "fenced_broker_has_session": Rule(
        "K13",
        "A fenced broker that sends heartbeats has a session. While the session lives, no other incarnation can "
        "register. When it ends, the broker is fenced again.",
    ),
    "registration_may_be_split": Rule(
        "K14",
        "A controller that fails can leave a registration's partition changes without the registration.",
    ),
    "finalized_features_check": Rule(
        "584.1",
        "A broker is registered, and a feature gets another level, only if every broker supports the level.",
    ),
    "min_isr_is_the_clusters": Rule(
        "K15",
        "With the ELR on, min.insync.replicas can be set for the cluster and for topics, not for a broker, and the "
        "cluster's value cannot be removed. Turning the ELR on enforces this.",
    ),
    # Log directories.
    "offline_directory_check": Rule(
        "858.1", "A replica in a log directory that its broker no longer has leaves the ISR and cannot lead."
    ),
    "assignment_empties_elr": Rule(
        "K16",
        "The assignment of a replica to a log directory is decided as if the ELR were off, so it empties the ELR.",
    ),
    # Reassignment.
    "replication_factor_check": Rule(
        "860.1",
        "The controller refuses a reassignment that would change the replication factor, if the request forbids that.",
    ),
    "reassignment_needs_min_isr": Rule(
        "966.9",
        "A reassignment completes only if all adding replicas are in the ISR. It completes or is cancelled only if at "
        "least min ISR members are left. Off: it completes once every remaining replica is in the ISR.",
    ),
    "reassignment_by_added": Rule(
        "K19",
        "A reassignment that adds at least as many replicas as it removes completes once all adding replicas are in "
        "the ISR. Off: every remaining replica must be in the ISR, in any reassignment.",
    ),
    "cancellation_is_whole": Rule(
        "966.9",
        "A cancelled reassignment has no adding or removing replicas. Off: the adding replicas leave replicas and "
        "ISR, but the reassignment stays in progress.",
    ),
    "elr_within_replicas": Rule(
        "966.9", "The ELR contains replicas of the partition only, also after a reassignment."
    ),
}

BASE = (
    "sender_epoch_check", "leader_epoch_check", "sender_is_leader_check", "partition_epoch_check", "valid_isr_check",
    "recovery_state_check", "leader_stays", "replica_order", "election_on_unfencing", "unclean_election_recovers",
    "reassignment_bumps_leader_epoch", "live_session_check", "elr_off_empties_elr", "proposals_end_recovery",
    "elections_bump_leader_epoch", "every_change_bumps_partition_epoch", "cancellation_is_whole",
)  # fmt: skip
"""The controller rules that every version has."""

KIP_841 = ("ineligible_replica_check",)
KIP_903 = ("member_epoch_check",)
_BEFORE_KIP_966 = (*BASE, *KIP_841, *KIP_903)
_KIP_966_FIRST_PHASE = (
    "unclean_registration", "clean_registration", "eligible_leader_replicas", "elr_follows_election",
    "isr_may_become_empty", "min_isr_change_empties_elr", "last_known_elr", "last_known_leader",
    "last_known_leader_kept", "last_known_leader_unfenced", "reassignment_needs_min_isr", "elr_within_replicas",
    "elr_off_forgets_last_known",
)  # fmt: skip

_NOT_IN_THE_TEXT = ("elr_follows_election", "last_known_leader_kept", "replica_order")

ELR_FEATURE = frozenset({
    "unclean_registration", "eligible_leader_replicas", "elr_follows_election", "isr_may_become_empty",
    "min_isr_change_empties_elr", "last_known_elr", "last_known_leader", "last_known_leader_kept",
    "last_known_leader_unfenced", "last_known_leader_first", "last_known_leader_by_leader",
    "min_isr_change_clears_elr", "min_isr_is_the_clusters",
})  # fmt: skip
"""The rules that eligible.leader.replicas.version turns on: off at level 0, whatever the profile has."""

_KAFKA_4_2_ELR_OFF = (
    *_BEFORE_KIP_966, "clean_registration", "registration_leaves_isr", "fenced_broker_has_session",
    "registration_may_be_split", "finalized_features_check", "offline_directory_check", "assignment_empties_elr",
    "replication_factor_check", "unassigned_candidate_fails", "cleared_elr_stays_indexed",
    "leftover_elr_elects", "min_isr_by_first_partition",
)  # fmt: skip
_KAFKA_4_2_ELR = (
    "unclean_registration", "eligible_leader_replicas", "isr_may_become_empty", "last_known_leader",
    "last_known_leader_unfenced", "last_known_leader_first", "last_known_leader_by_leader",
    "min_isr_change_clears_elr", "min_isr_is_the_clusters",
)  # fmt: skip

_KAFKA_4_2 = Profile.of(
    "Apache Kafka 4.2 (18d5ecd939), eligible.leader.replicas.version 1", *_KAFKA_4_2_ELR_OFF, *_KAFKA_4_2_ELR
)
_KAFKA_4_1_0 = _KAFKA_4_2.but("Apache Kafka 4.1.0", off=("last_known_leader_by_leader",))
_CHANGES_OF_4_3 = ("reassignment_by_added",), ("assignment_empties_elr",)
_KAFKA_4_3 = _KAFKA_4_2.but("Apache Kafka 4.3", *_CHANGES_OF_4_3)

PROFILES = {
    "kafka_4_0": _KAFKA_4_1_0.but("Apache Kafka 4.0.2", off=("last_known_leader_unfenced",)),
    "kafka_4_1_0": _KAFKA_4_1_0,
    "kafka_4_1": _KAFKA_4_2.but("Apache Kafka 4.1.2"),
    "kafka_4_2": _KAFKA_4_2,
    "kafka_4_3": _KAFKA_4_3,
    "kafka_4_4": _KAFKA_4_3.but("Apache Kafka 4.4"),
    "kafka_4_2_mended": Profile.of(
        "no release: kafka_4_2 with rules that prevent its losses by clean elections, its failing registrations, and "
        "leaderless partitions after changes of the ELR feature's level",
        *_KAFKA_4_2_ELR_OFF, *_KAFKA_4_2_ELR, "level_change_empties_elr", "level_changes_with_leader",
        "reassignment_needs_min_isr", "elr_within_replicas",
    ),
    "kafka_4_2_elr_off": Profile.of("Kafka 4.2 without the ELR", *_KAFKA_4_2_ELR_OFF),
    "kafka_4_3_elr_off": Profile.of("", *_KAFKA_4_2_ELR_OFF).but("Kafka 4.3 without the ELR", *_CHANGES_OF_4_3),
    "kip_966": Profile.of(
        "KIP-966 as proposed, with unclean recovery",
        *_BEFORE_KIP_966, *_KIP_966_FIRST_PHASE, "unclean_recovery", "balanced_election_waits_for_elr",
    ),
    "kip_966_first_phase": Profile.of(
        "KIP-966 without unclean recovery (966.15)", *_BEFORE_KIP_966, *_KIP_966_FIRST_PHASE
    ),
    "kip_966_letter": Profile.of(
        "the text of KIP-966 only: any candidate can be elected, and the rules that the text only implies are off",
        *(rule for rule in (*_BEFORE_KIP_966, *_KIP_966_FIRST_PHASE) if rule not in _NOT_IN_THE_TEXT),
        "clean_election_picks_any", "unclean_election_picks_any", "unclean_recovery",
    ),
    "before_kip_966": Profile.of("KIP-841 and KIP-903, no ELR, metadata.version 3.6 to 4.0-IV0", *_BEFORE_KIP_966),
    "before_kip_841": Profile.of(
        "neither KIP-841, KIP-903 nor ELR; metadata.version before 3.6",
        *BASE, "shrink_bumps_leader_epoch",
    ),
}  # fmt: skip
