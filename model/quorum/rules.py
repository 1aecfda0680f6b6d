"""The rules of the metadata quorum as switches: the rules of KIP-1166, and the KRaft rules that they build on."""

from __future__ import annotations

from highwater.model.language import Profile, Rule

_KIP_1166 = {
    "fetch_carries_hwm": Rule(
        "1166.1", "A fetch carries its sender's HWM. Off: no fetch does, as before version 18."
    ),
    "unknown_hwm_is_told": Rule(
        "1166.1",
        "A replica without an HWM sends −1. Off: it leaves the field out.",
    ),
    "behind_is_answered": Rule(
        "1166.2", "A leader immediately answers a fetch without new records if its HWM is below the leader's."
    ),
    "equal_hwm_parks": Rule(
        "1166.2",
        "A fetch without new records parks if its HWM equals the leader's. Off: only if it is greater.",
    ),
    "hwm_growth_completes": Rule("1166.3", "A leader whose HWM advances answers parked fetches."),
    "growth_completes_all": Rule(
        "1166.3", "It answers all parked fetches together. Off: all but one, chosen freely."
    ),
    "diverging_is_answered": Rule(
        "595.2, 1166.2",
        "A leader immediately answers a fetch of a diverging log with the truncation offset. Off: the fetch parks, "
        "because the response has no records.",
    ),
    "consumers_leave_it_out": Rule(
        "1166.5", "A consumer's fetch has no HWM. Off: it carries −1, as from a replica without an HWM."
    ),
    "consumers_read_committed": Rule(
        "B6", "A consumer reads records below the HWM only. Off: every record of the leader, as a replica."
    ),
    "missing_hwm_is_greatest": Rule(
        "1166.4",
        "A fetch without the field counts as one with the greatest HWM, 2⁶³−1, and parks as before KIP-1166. "
        "Off: it counts as one without an HWM.",
    ),
}

_KRAFT = {
    # Fetching.
    "fetch_epoch_check": Rule("595.1", "A leader uses a fetch only if it carries the leader's own epoch."),
    "fetch_response_check": Rule("595.1", "A replica uses a fetch response only in the epoch of its fetch."),
    "divergence_check": Rule(
        "595.2",
        "A fetch detects where the replica's log diverges from the leader's, and the replica truncates there.",
    ),
    "records_complete": Rule("595.3", "A leader that appends answers the fetches that wait for records."),
    "timer_answers_as_parked": Rule(
        "K4",
        "When the park timer fires, the response carries the HWM at the time of parking. Off: the current HWM.",
    ),
    # The high watermark.
    "majority_commits": Rule(
        "595.4",
        "A leader's HWM advances to an offset that a majority of the voters has. Off: that one other voter has.",
    ),
    "observers_do_not_count": Rule("595.4", "Only voters count for the HWM. Off: observers count, too."),
    "own_epoch_commits": Rule(
        "595.5",
        "The HWM advances only past a record of the leader's own epoch; that commits the earlier records, too.",
    ),
    "new_leader_forgets_hwm": Rule(
        "595.5",
        "A new leader has no HWM until it can commit in its epoch. Off: it keeps its HWM as a follower.",
    ),
    "hwm_within_log": Rule("595.6", "A replica's HWM is the minimum of the leader's HWM and its own LEO."),
    # Elections.
    "majority_elects": Rule(
        "595.7", "A candidate needs the votes of a majority. Off: its own vote is enough."
    ),
    "up_to_date_vote": Rule(
        "595.7", "A voter votes only for a candidate whose last epoch and LEO are not behind its own."
    ),
    "leader_change_record": Rule("595.5", "A new leader immediately appends a record of its epoch."),
}

_VOTES = {
    "votes_travel": Rule(
        "595.7", "Votes are messages, requested and granted one by one. Off: a majority votes in one step."
    ),
    "one_vote_per_epoch": Rule("595.8", "A voter votes for one candidate in an epoch."),
    "vote_is_kept": Rule(
        "595.8",
        "A voter stores its vote on disk before it grants it. Off: a restarted voter forgets its vote.",
    ),
    "pre_vote": Rule(
        "996.1",
        "A prospective candidate first requests pre-votes; it raises the epoch only if a majority grants them.",
    ),
    "contact_denies_pre_vote": Rule(
        "996.2", "A leader, and a follower that has fetched from its leader, deny pre-votes."
    ),
}

_KAFKA = {
    "empty_drain_completes": Rule(
        "K25",
        "A leader whose append timer fires without records answers parked fetches. Off: only news ends a wait.",
    ),
}

RULES = {**_KIP_1166, **_KRAFT, **_VOTES, **_KAFKA}

_BEFORE = (
    "fetch_epoch_check", "fetch_response_check", "divergence_check", "records_complete", "timer_answers_as_parked",
    "majority_commits", "observers_do_not_count", "own_epoch_commits", "new_leader_forgets_hwm", "hwm_within_log",
    "majority_elects", "up_to_date_vote", "leader_change_record", "diverging_is_answered", "consumers_read_committed",
)  # fmt: skip

_1166 = (
    *_BEFORE, "fetch_carries_hwm", "unknown_hwm_is_told", "behind_is_answered", "equal_hwm_parks",
    "hwm_growth_completes", "growth_completes_all", "missing_hwm_is_greatest", "consumers_leave_it_out",
)  # fmt: skip

PROFILES = {
    "kip_1166": Profile.of("KIP-1166: the HWM travels with the fetch", *_1166),
    "kip_996": Profile.of("KIP-996 and KIP-1166, with votes as messages", *_1166, *_VOTES),
    "kafka_4_2": Profile.of("Kafka 4.2.1 as it is", *_1166, *_VOTES, *_KAFKA),
    "before_kip_1166": Profile.of("before KIP-1166: a leader does not know which HWM a replica has", *_BEFORE),
}  # fmt: skip
"""The profiles by name. A rule is on only in profiles that name it."""
