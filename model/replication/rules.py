"""The rules of data replication as switches, those of the controller included, and the profiles."""

from __future__ import annotations

from highwater.model.language import Profile, Rule
from highwater.model.replication.controller import rules as controller

RULES = {
    **controller.RULES,
    # Fetching and truncation.
    "fetch_epoch_check": Rule(
        "B2", "A leader uses a fetch only when it carries the leader's own leader epoch."
    ),
    "stale_fetch_check": Rule(
        "Kafka trunk, 2024-10",
        "A leader does not use a fetch with a lower broker epoch than its view has for the sender: a former "
        "incarnation sent it.",
    ),
    "divergence_check": Rule(
        "B3",
        "A fetch finds where the follower's log leaves the leader's, and the follower truncates there. Off: a new "
        "follower truncates to its own high watermark (before KIP-101).",
    ),
    "fetch_response_check": Rule(
        "B2", "A follower uses a fetch response only in the leader epoch and at the offset that it asked for."
    ),
    # The high watermark.
    "hwm_over_maximal_isr": Rule(
        "B4, B7", "The HWM waits for the maximal ISR, a proposed member included. Off: for the committed ISR."
    ),
    "hwm_needs_min_isr": Rule(
        "966.1", "The HWM advances only while the ISR has min ISR members, whatever the records' acks."
    ),
    "hwm_gate_is_committed_isr": Rule(
        "966.1", "It is the committed ISR that must have min ISR members. Off: the maximal ISR."
    ),
    "hwm_waits_for_caught_up": Rule(
        "Kafka trunk, 2024-10",
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
    "leader_eligible_check": Rule(
        "841.1", "A leader proposes only replicas that its view shows unfenced and not shutting down."
    ),
    "leader_epoch_match": Rule(
        "903.2",
        "A leader proposes a replica only when its fetch carried the broker epoch of the leader's view.",
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
    # Registration.
    "fenced_before_registration": Rule(
        "B8",
        "A broker's new incarnation is registered only once the former registration is fenced. Off: it can be "
        "registered as soon as the former session is over, fenced or not.",
    ),
    # Unclean recovery.
    "recovery_answers_expire": Rule(
        "966.14",
        "What a replica said of its log does not count any more once its broker has registered anew; it is asked "
        "again.",
    ),
    "recovery_epoch_check": Rule(
        "966.14",
        "What a replica says of its log counts only with its registered broker epoch and the current leader epoch.",
    ),
}

_BROKERS = tuple(name for name in RULES if name not in controller.RULES)


def _with(profile: str, *without: str) -> frozenset[str]:
    return (controller.PROFILES[profile].rules | set(_BROKERS)) - {"hwm_waits_for_caught_up", *without}


_GATE = ("hwm_needs_min_isr", "hwm_gate_is_committed_isr")
_KIP_903 = ("leader_epoch_match", "member_epoch_check", "stale_fetch_check")
_KIP_841 = ("leader_eligible_check", "ineligible_replica_check")

PROFILES = {
    "kip_966": Profile("KIP-966 in full", _with("kip_966")),
    "kip_966_first_phase": Profile(
        "KIP-966 without unclean recovery (966.15)",
        _with("kip_966_first_phase", "recovery_epoch_check", "recovery_answers_expire"),
    ),
    "kafka_trunk_2024_10": Profile(
        "apache/kafka trunk of 2024-10-25, ELR on",
        _with(
            "kafka_trunk_2024_10",
            "recovery_epoch_check",
            "recovery_answers_expire",
            "fenced_before_registration",
            "proposal_outlives_known_metadata",
            "re_election_forgets_fetches",
        ),
    ),
    "before_kip_966": Profile(
        "KIP-841 and KIP-903, but the HWM advances under min ISR and there is no ELR",
        _with("before_kip_966", "recovery_epoch_check", "recovery_answers_expire", *_GATE),
    ),
    "before_kip_903": Profile(
        "KIP-841, but broker epochs of ISR members are not compared",
        _with("before_kip_966", "recovery_epoch_check", "recovery_answers_expire", *_GATE, *_KIP_903),
    ),
    "before_kip_841": Profile(
        "fenced and shutting-down replicas may join the ISR",
        _with(
            "before_kip_841", "recovery_epoch_check", "recovery_answers_expire", *_GATE, *_KIP_903, *_KIP_841
        ),
    ),
}

__all__ = ["PROFILES", "RULES"]
