"""The rules of data replication as switches, including the controller's, and the profiles."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model.language import Profile, Rule
from highwater.model.replication.controller import rules as controller

RULES = {
    **controller.RULES,
    # Fetching and truncation.
    "fetch_epoch_check": Rule(
        "B2", "A leader uses a fetch only if it carries the leader's own leader epoch."
    ),
    "stale_fetch_check": Rule(
        "K2",
        "A leader ignores a fetch with a lower broker epoch than its view has for the sender: a former incarnation "
        "sent it.",
    ),
    "divergence_check": Rule(
        "B3",
        "A fetch detects where the follower's log diverges from the leader's, and the follower truncates there. "
        "Off: a new follower truncates to its own HWM (before KIP-101).",
    ),
    "diverging_fetch_counts_nothing": Rule(
        "B3",
        "A leader records nothing of a fetch whose log diverges. Off: it counts the fetch offset, as Kafka did before "
        "KAFKA-13141.",
    ),
    "fetch_response_check": Rule(
        "K17", "A follower uses a fetch response only at the offset from which it fetched."
    ),
    "fetch_response_epoch_check": Rule(
        "B2, K17", "A follower uses a fetch response only in the leader epoch in which it fetched."
    ),
    "appended_epoch_check": Rule(
        "K18", "A follower appends no record of a later leader epoch than its request's."
    ),
    # The high watermark.
    "alter_answer_advances_hwm": Rule(
        "B4, B7",
        "A leader advances its HWM when it handles an AlterPartition response. Off: it waits for the next fetch or "
        "append, as Kafka did before KAFKA-13091.",
    ),
    "hwm_over_maximal_isr": Rule(
        "B4, B7",
        "The HWM waits for the maximal ISR, including a proposed member. Off: it waits for the committed ISR only.",
    ),
    "hwm_within_log": Rule(
        "B4", "A follower's HWM is min(leader's HWM, own LEO). Off: the follower takes the leader's HWM."
    ),
    "hwm_waits_for_leaving": Rule(
        "B7",
        "The HWM waits for a member that a proposal removes until the controller has answered. Off: the HWM stops "
        "waiting when the leader proposes the removal.",
    ),
    "hwm_needs_min_isr": Rule(
        "966.1",
        "The HWM advances only while the ISR has at least min ISR members, for records with any acks.",
    ),
    "hwm_gate_is_committed_isr": Rule(
        "966.1",
        "For 966.1 only members of the committed ISR count. Off: proposed members count as well (the maximal ISR).",
    ),
    "min_isr_within_replicas": Rule(
        "966.2",
        "A leader requires at most as many ISR members as the partition has replicas. Off: it requires "
        "min.insync.replicas members, even if there are fewer replicas.",
    ),
    "hwm_waits_for_caught_up": Rule(
        "K3",
        "The HWM also waits for eligible, caught-up replicas outside the ISR. The model has no lag time: a replica "
        "that has caught up counts as caught up until the leader epoch ends.",
    ),
    # Joining the ISR.
    "proposal_outlives_known_metadata": Rule(
        "B7",
        "A proposal stays pending until it is answered or a newer partition epoch arrives. Off: metadata that "
        "repeats an AlterPartition response clears the leader's next proposal.",
    ),
    "re_election_forgets_fetches": Rule(
        "B5",
        "A leader that is elected again, without having seen another leader, forgets its followers' LEOs. Off: its "
        "HWM uses the LEOs of the former leader epoch until the followers fetch.",
    ),
    "fetch_state_per_epoch": Rule(
        "B5",
        "A new leader epoch clears the leader's fetch state; followers join the ISR after a fetch in this epoch.",
    ),
    "join_at_hwm": Rule("B5", "A follower joins the ISR only if its LEO has reached the leader's HWM."),
    "join_at_epoch_start": Rule(
        "B5", "A follower joins the ISR only if its LEO has reached the leader epoch start offset (LESO)."
    ),
    "proposed_replica_eligible_check": Rule(
        "841.1", "A leader proposes only replicas that its view shows unfenced and not shutting down."
    ),
    "proposed_broker_epoch_check": Rule(
        "903.2",
        "A leader proposes a replica only if the replica's last fetch carried the broker epoch that the leader's "
        "view has for it.",
    ),
    "epochs_from_fetches": Rule(
        "903.3",
        "AlterPartition carries the broker epoch of each member's last fetch. Off: it carries the broker epochs of "
        "the leader's metadata, an alternative that KIP-903 rejects.",
    ),
    "proposal_keeps_its_epochs": Rule(
        "903.3",
        "A retried AlterPartition carries the broker epochs of the first request. Off: it carries the broker epochs "
        "of the members' last fetches.",
    ),
    # Clients.
    "acks_all_needs_min_isr": Rule(
        "B6",
        "A leader refuses an acks=all write while the ISR is under min ISR, and acknowledges it only while the ISR "
        "has at least min ISR members.",
    ),
    "followers_end_waiting": Rule(
        "B6",
        "A leader that becomes a follower, or stops, fails the requests of waiting producers. A re-elected leader "
        "does not. Off: producers wait for their offset, whatever record is there later.",
    ),
    "consumers_read_below_hwm": Rule(
        "B6",
        "Consumers read below the HWM, whatever the records' acks. Off: they read up to the leader's LEO.",
    ),
    "end_waits_for_epoch_start": Rule(
        "207.1",
        "A leader gives consumers the end of the log once its HWM has reached the leader epoch start offset (LESO). "
        "Off: it gives its HWM immediately.",
    ),
    # AlterPartition at the controller.
    "answers_are_committed": Rule(
        "B8",
        "A controller acknowledges a partition change once the metadata log has committed it. Off: it acknowledges "
        "immediately, even as a former controller, whose change is never committed.",
    ),
    # A controlled shutdown.
    "listens_while_shutting_down": Rule(
        "841.5",
        "A broker in controlled shutdown keeps replaying metadata. Off: it stops replaying when the shutdown begins, "
        "as before KIP-841.",
    ),
    "changes_are_no_stop_replica": Rule(
        "841.5",
        "A broker in controlled shutdown applies partition changes as usual. Off: it treats each change as a "
        "StopReplica, an alternative that KIP-841 rejects.",
    ),
    # Registration.
    "registration_bumps_leader_epoch": Rule(
        "903.4",
        "A registration ends the leader epoch of the broker's partitions. No version of Kafka does so: KIP-903 "
        "rejects this alternative.",
    ),
    "fenced_before_registration": Rule(
        "B8",
        "The controller registers a new incarnation of a broker only once the former registration is fenced. Off: "
        "it registers the broker once the former session is over.",
    ),
    "removed_replicas_delete": Rule(
        "966.9",
        "A broker deletes its log once it is no longer a replica. Off: it deletes the log when its removal starts.",
    ),
    "unseen_stop_is_clean": Rule(
        "966.12",
        "A broker that stops in order writes its CleanShutdownFile, whether the controller granted the shutdown or "
        "not. Off: it writes the file only if the controller granted the shutdown.",
    ),
    "file_after_flush": Rule(
        "966.12",
        "A broker writes its CleanShutdownFile after the flush. Off: it writes the file before the flush, and the "
        "flush does not finish.",
    ),
    "early_stop_writes_none": Rule(
        "966.12",
        "A broker that stops before it is registered writes epoch −1 to its CleanShutdownFile. Off: it writes its "
        "former broker epoch.",
    ),
    "clean_in_every_directory": Rule(
        "966.12",
        "A restart is clean only if every log directory has a CleanShutdownFile. Off: one directory with the file "
        "is enough.",
    ),
    # Features that are turned on and off.
    "elr_begins_empty": Rule(
        "966.18",
        "When the ELR is turned on, it is empty until the partition's next change. Off: an earlier ELR that no "
        "change has emptied counts again.",
    ),
    # Unclean recovery.
    "recovery_answers_expire": Rule(
        "966.14",
        "A replica's answer counts only while its broker epoch is registered and its leader epoch is current. The "
        "controller asks again once the answer is stale.",
    ),
    "recovery_epoch_check": Rule(
        "966.14",
        "The controller accepts an answer only if it has the replica's registered broker epoch and the current leader "
        "epoch.",
    ),
    "recovery_counts_unfenced": Rule(
        "966.14",
        "Only the answers of unfenced replicas count in an election. Off: a fenced replica with the best log "
        "blocks the election.",
    ),
    "unclean_stays_an_option": Rule(
        "966.17", "The operator can request an unclean election while unclean recovery is on."
    ),
    "recovery_waits_for_last_known_elr": Rule(
        "966.14",
        "Balanced recovery elects once every last known ELR member has answered. Off: it elects once any min ISR "
        "replicas have answered, an alternative that the proposal rejects.",
    ),
    "recovery_by_last_epoch": Rule(
        "966.14",
        "In a recovery the log with the later last leader epoch wins. Off: only lengths are compared.",
    ),
    "recovery_by_length": Rule(
        "966.14",
        "Of two logs with the same last leader epoch, the length decides a recovery. Off: either can win.",
    ),
    "recovery_prefers_longer": Rule(
        "966.14", "If the length decides a recovery, the longer log wins. Off: the shorter log wins."
    ),
}

# The brokers' rules of each proposal and version. A new rule is on only in profiles that name it.
_BASE = (
    "fetch_epoch_check", "divergence_check", "diverging_fetch_counts_nothing", "fetch_response_check",
    "fetch_response_epoch_check", "alter_answer_advances_hwm",
    "hwm_over_maximal_isr", "hwm_waits_for_leaving", "answers_are_committed", "fetch_state_per_epoch", "join_at_hwm",
    "join_at_epoch_start", "proposal_keeps_its_epochs", "removed_replicas_delete",
    "changes_are_no_stop_replica", "acks_all_needs_min_isr", "min_isr_within_replicas", "followers_end_waiting",
    "consumers_read_below_hwm", "end_waits_for_epoch_start", "hwm_within_log",
    # The CleanShutdownFile; relevant with `clean_registration`.
    "unseen_stop_is_clean", "file_after_flush", "early_stop_writes_none", "clean_in_every_directory",
    # The choice of a recovery; relevant with `unclean_recovery`.
    "recovery_waits_for_last_known_elr", "recovery_by_last_epoch", "recovery_by_length", "recovery_prefers_longer",
)  # fmt: skip
_KIP_841 = ("proposed_replica_eligible_check", "listens_while_shutting_down")
_KIP_903 = ("proposed_broker_epoch_check", "stale_fetch_check", "epochs_from_fetches")
_KIP_966 = ("hwm_needs_min_isr", "hwm_gate_is_committed_isr")
_FEATURES = ("elr_begins_empty",)
_UNCLEAN_RECOVERY = ("recovery_epoch_check", "recovery_counts_unfenced")
_BEYOND_RECOVERY = ("recovery_answers_expire",)
# Rules that the proposals assume and Kafka's code lacks.
_TAKEN_FOR_GRANTED = (
    "proposal_outlives_known_metadata", "re_election_forgets_fetches", "fenced_before_registration",
)  # fmt: skip
# Rules that only controller/ models: log directories, and the controller's index of ELR members.
_OF_THE_CONTROLLER_ALONE = frozenset({
    "offline_directory_check", "assignment_empties_elr", "cleared_elr_stays_indexed",
})  # fmt: skip


def _of(meaning: str, controllers: Iterable[str], *brokers: str) -> Profile:
    """A profile with the given rules of the controller and of the brokers."""
    return Profile.of(meaning, *controllers, *brokers)


_KAFKA = {
    name: _of(
        controller.PROFILES[name].meaning,
        controller.PROFILES[name].rules - _OF_THE_CONTROLLER_ALONE,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966, "appended_epoch_check",
    )
    for name in ("kafka_4_0", "kafka_4_1_0", "kafka_4_1", "kafka_4_2", "kafka_4_3", "kafka_4_4")
}  # fmt: skip

PROFILES = {
    "kip_966": _of(
        "KIP-966 in full",
        controller.PROFILES["kip_966"].rules,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966, *_FEATURES, *_UNCLEAN_RECOVERY, *_BEYOND_RECOVERY,
        *_TAKEN_FOR_GRANTED,
    ),
    "kip_966_letter": _of(
        "the text of KIP-966 with KIP-841 and KIP-903, without the rules that the text only implies",
        controller.PROFILES["kip_966_letter"].rules,
        *(rule for rule in _BASE if rule not in ("proposal_keeps_its_epochs", "fetch_response_epoch_check")),
        *_KIP_841, "proposed_broker_epoch_check", "epochs_from_fetches", *_KIP_966, *_UNCLEAN_RECOVERY,
        "unclean_stays_an_option",
    ),
    "kip_966_gate_alone": _of(
        "the state of every rolling upgrade: brokers have the gate of the HWM (966.1), and there is no ELR",
        controller.PROFILES["before_kip_966"].rules,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966, *_TAKEN_FOR_GRANTED,
    ),
    "kip_966_first_phase": _of(
        "KIP-966 without unclean recovery (966.15)",
        controller.PROFILES["kip_966_first_phase"].rules,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966, *_FEATURES, *_TAKEN_FOR_GRANTED,
    ),
    **_KAFKA,
    "kafka_4_0_0": _KAFKA["kafka_4_0"].but(
        "Apache Kafka 4.0.0", off=("fetch_response_epoch_check", "appended_epoch_check")
    ),
    "before_kip_966": _of(
        "KIP-841 and KIP-903, but the HWM advances under min ISR and there is no ELR",
        controller.PROFILES["before_kip_966"].rules,
        *_BASE, *_KIP_841, *_KIP_903, *_TAKEN_FOR_GRANTED,
    ),
    "before_kip_903": _of(
        "KIP-841, but broker epochs of ISR members are not compared",
        (*controller.BASE, *controller.KIP_841),
        *_BASE, *_KIP_841, *_TAKEN_FOR_GRANTED,
    ),
    "before_kip_841": _of(
        "fenced and shutting-down replicas may join the ISR",
        controller.PROFILES["before_kip_841"].rules,
        *_BASE, *_TAKEN_FOR_GRANTED,
    ),
}  # fmt: skip
