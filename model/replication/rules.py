"""The rules of data replication as switches, those of the controller included, and the profiles."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model.language import Profile, Rule
from highwater.model.replication.controller import rules as controller

RULES = {
    **controller.RULES,
    # Fetching and truncation.
    "fetch_epoch_check": Rule(
        "B2", "A leader uses a fetch only when it carries the leader's own leader epoch."
    ),
    "stale_fetch_check": Rule(
        "K2",
        "A leader does not use a fetch with a lower broker epoch than its view has for the sender: a former "
        "incarnation sent it.",
    ),
    "divergence_check": Rule(
        "B3",
        "A fetch finds where the follower's log leaves the leader's, and the follower truncates there. Off: a new "
        "follower truncates to its own high watermark (before KIP-101).",
    ),
    "fetch_response_check": Rule(
        "B2", "A follower uses a fetch response only at the offset that it asked for."
    ),
    "fetch_response_epoch_check": Rule(
        "B2, K17", "A follower uses a fetch response only in the leader epoch that it asked in."
    ),
    "appended_epoch_check": Rule(
        "K18", "A follower appends no record of a later leader epoch than the one that it asked in."
    ),
    # The high watermark.
    "hwm_over_maximal_isr": Rule(
        "B4, B7", "The HWM waits for the maximal ISR, a proposed member included. Off: for the committed ISR."
    ),
    "hwm_within_log": Rule(
        "B4", "A follower's HWM is the lesser of the leader's and its own LEO. Off: it is the leader's."
    ),
    "hwm_waits_for_leaving": Rule(
        "B7",
        "The HWM waits for who a proposal takes out of the ISR, until the controller has answered. Off: no more as "
        "soon as it is proposed.",
    ),
    "hwm_needs_min_isr": Rule(
        "966.1", "The HWM advances only while the ISR has min ISR members, whatever the records' acks."
    ),
    "hwm_gate_is_committed_isr": Rule(
        "966.1", "It is the committed ISR that must have min ISR members. Off: the maximal ISR."
    ),
    "min_isr_within_replicas": Rule(
        "966.2",
        "A leader asks for no more ISR members than the partition has replicas. Off: for min.insync.replicas as it is "
        "configured.",
    ),
    "hwm_waits_for_caught_up": Rule(
        "K3",
        "The HWM also waits for replicas outside the ISR that are eligible and caught up. Here who was once caught "
        "up stays so for the leader epoch: the lag time is never over.",
    ),
    # Joining the ISR.
    "proposal_outlives_known_metadata": Rule(
        "B7",
        "A proposed ISR stands until it is answered or a newer partition epoch is there. Off: metadata that repeats "
        "what the answer to an AlterPartition said makes the leader forget what it has proposed since.",
    ),
    "re_election_forgets_fetches": Rule(
        "B5",
        "A leader that is elected anew, and saw no other leader in between, forgets where its followers were. Off: "
        "until they fetch, its HWM goes by where they were in its former epoch.",
    ),
    "fetch_state_per_epoch": Rule(
        "B5",
        "A new leader epoch forgets what followers fetched before; they join after a fetch in this epoch.",
    ),
    "join_at_hwm": Rule("B5", "A follower joins the ISR only when it has reached the leader's HWM."),
    "join_at_epoch_start": Rule(
        "B5", "A follower joins the ISR only when it has reached the leader epoch start offset (LESO)."
    ),
    "proposed_replica_eligible_check": Rule(
        "841.1", "A leader proposes only replicas that its view shows unfenced and not shutting down."
    ),
    "proposed_broker_epoch_check": Rule(
        "903.2",
        "A leader proposes a replica only when its fetch carried the broker epoch of the leader's view.",
    ),
    "epochs_from_fetches": Rule(
        "903.3",
        "An AlterPartition gives each member the broker epoch that it fetched in. Off: the one that the leader's "
        "metadata has, which KIP-903 rejects.",
    ),
    "proposal_keeps_its_epochs": Rule(
        "903.3",
        "A proposal that is sent again gives each member the broker epoch that it gave at first. Off: that of the "
        "member's last fetch.",
    ),
    # Clients.
    "acks_all_needs_min_isr": Rule(
        "B6",
        "acks=all is refused while the ISR is under min ISR, and succeeds only with min ISR members in it.",
    ),
    "followers_end_waiting": Rule(
        "B6",
        "A leader that comes to follow, or stops, ends the wait of its producers; one that leads on in a later epoch "
        "does not. Off: they wait for their offsets, whatever comes to be there.",
    ),
    "consumers_read_below_hwm": Rule(
        "B6",
        "Consumers read below the HWM, whatever the records' acks. Off: what a leader has appended.",
    ),
    "end_waits_for_epoch_start": Rule(
        "207.1",
        "A leader tells consumers the end of the log once its HWM has reached the start of its epoch (LESO). Off: it "
        "tells them its HWM at once.",
    ),
    # AlterPartition at the controller.
    "answers_are_committed": Rule(
        "B8",
        "A controller answers that it has changed a partition once the change is in the metadata log. Off: at once, be "
        "it a former controller, whose changes come to nothing.",
    ),
    # A controlled shutdown.
    "listens_while_shutting_down": Rule(
        "841.5",
        "A broker in controlled shutdown goes on replaying metadata. Off: it stops as the shutdown begins, as before "
        "KIP-841.",
    ),
    "changes_are_no_stop_replica": Rule(
        "841.5",
        "A broker in controlled shutdown takes a change of the partition for what it is. Off: for a StopReplica, the "
        "alternative that KIP-841 rejects.",
    ),
    # Registration.
    "registration_bumps_leader_epoch": Rule(
        "903.4",
        "A broker that registers ends the leader epoch of its partitions. No version does so: KIP-903 rejects it.",
    ),
    "fenced_before_registration": Rule(
        "B8",
        "A broker's new incarnation is registered only once the former registration is fenced. Off: it can be "
        "registered as soon as the former session is over, fenced or not.",
    ),
    "removed_replicas_delete": Rule(
        "966.9",
        "A broker deletes its log once it is no replica any more. Off: as soon as it is being removed.",
    ),
    "unseen_stop_is_clean": Rule(
        "966.12",
        "A broker that stops in order writes its CleanShutdownFile, whether the controller has heard of it or not. "
        "Off: only after a shutdown that was granted.",
    ),
    "file_after_flush": Rule(
        "966.12", "The CleanShutdownFile is written after the flush. Off: before, and the flush never ends."
    ),
    "early_stop_writes_none": Rule(
        "966.12",
        "A broker that stops before it is registered writes −1 for its epoch. Off: that of its former life.",
    ),
    "clean_in_every_directory": Rule(
        "966.12",
        "A restart is clean only if every log directory has a CleanShutdownFile. Off: if one has.",
    ),
    # Features that are turned on and off.
    "elr_begins_empty": Rule(
        "966.18",
        "When the ELR is turned on it is empty until the next change. Off: what an earlier time has left, and no "
        "change has emptied since, counts again.",
    ),
    # Unclean recovery.
    "recovery_answers_expire": Rule(
        "966.14",
        "A replica's answer counts only while its broker epoch is registered and its leader epoch is current; then the "
        "controller asks again.",
    ),
    "recovery_epoch_check": Rule(
        "966.14",
        "What a replica says of its log counts only with its registered broker epoch and the current leader epoch.",
    ),
    "recovery_counts_unfenced": Rule(
        "966.14",
        "Only the answers of unfenced replicas count in an election. Off: a fenced replica with the best log, which "
        "cannot be elected, keeps the others from it.",
    ),
    "unclean_stays_an_option": Rule(
        "966.17", "The operator can ask for an unclean election with unclean recovery in place, too."
    ),
    "recovery_waits_for_last_known_elr": Rule(
        "966.14",
        "Balanced recovery elects once every last known ELR member has answered. Off: once min ISR replicas have, "
        "whoever they are, which the proposal rejects.",
    ),
    "recovery_by_last_epoch": Rule(
        "966.14",
        "Of two logs the one whose last record is of a later leader epoch wins. Off: leader epochs are not compared, "
        "only lengths are.",
    ),
    "recovery_by_length": Rule(
        "966.14",
        "Of two logs that end in the same leader epoch the length decides. Off: any of them can win.",
    ),
    "recovery_prefers_longer": Rule(
        "966.14", "Where the length decides the longer log wins. Off: the shorter one."
    ),
}

# What each proposal and each version has of the brokers' rules. A new rule is on only where a profile names it.
# The trunk of 2024-10 lacks fetch_response_epoch_check (K17); its profile has it all the same, so what was found in
# that profile is not of this defect, which is a race of its own.
_BASE = (
    "fetch_epoch_check", "divergence_check", "fetch_response_check", "fetch_response_epoch_check",
    "hwm_over_maximal_isr", "hwm_waits_for_leaving", "answers_are_committed", "fetch_state_per_epoch", "join_at_hwm",
    "join_at_epoch_start", "proposal_keeps_its_epochs", "removed_replicas_delete",
    "changes_are_no_stop_replica", "acks_all_needs_min_isr", "min_isr_within_replicas", "followers_end_waiting",
    "consumers_read_below_hwm", "end_waits_for_epoch_start", "hwm_within_log",
    # The CleanShutdownFile; it matters where `clean_registration` is on.
    "unseen_stop_is_clean", "file_after_flush", "early_stop_writes_none", "clean_in_every_directory",
    # How a recovery chooses; it matters where `unclean_recovery` is on, in a profile or over one.
    "recovery_waits_for_last_known_elr", "recovery_by_last_epoch", "recovery_by_length", "recovery_prefers_longer",
)  # fmt: skip
_KIP_841 = ("proposed_replica_eligible_check", "listens_while_shutting_down")
_KIP_903 = ("proposed_broker_epoch_check", "stale_fetch_check", "epochs_from_fetches")
_KIP_966 = ("hwm_needs_min_isr", "hwm_gate_is_committed_isr")
_FEATURES = ("elr_begins_empty",)
_UNCLEAN_RECOVERY = ("recovery_epoch_check", "recovery_counts_unfenced")
_BEYOND_RECOVERY = ("recovery_answers_expire",)
# What the proposals take for granted, and Kafka's code of 2024-10 does not do.
_TAKEN_FOR_GRANTED = (
    "proposal_outlives_known_metadata", "re_election_forgets_fetches", "fenced_before_registration",
)  # fmt: skip
# What the messages know nothing of: log directories, and the controller's index of ELR members (controller/).
_OF_THE_CONTROLLER_ALONE = frozenset({
    "offline_directory_check", "assignment_empties_elr", "cleared_elr_stays_indexed",
})  # fmt: skip


def _of(meaning: str, controllers: Iterable[str], *brokers: str) -> Profile:
    """A profile: the rules of the controller and those of the brokers."""
    return Profile.of(meaning, *controllers, *brokers)


PROFILES = {
    "kip_966": _of(
        "KIP-966 in full",
        controller.PROFILES["kip_966"].rules,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966, *_FEATURES, *_UNCLEAN_RECOVERY, *_BEYOND_RECOVERY,
        *_TAKEN_FOR_GRANTED,
    ),
    "kip_966_letter": _of(
        "what the text of KIP-966 says, with KIP-841 and KIP-903, and nothing that goes without saying",
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
    "kafka_trunk_2024_10": _of(
        "apache/kafka trunk of 2024-10-25, ELR on",
        controller.PROFILES["kafka_trunk_2024_10"].rules,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966,
    ),
    "kafka_4_2": _of(
        "Apache Kafka 4.2.1, eligible.leader.replicas.version 1",
        controller.PROFILES["kafka_4_2"].rules - _OF_THE_CONTROLLER_ALONE,
        *_BASE, *_KIP_841, *_KIP_903, *_KIP_966, "appended_epoch_check",
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
