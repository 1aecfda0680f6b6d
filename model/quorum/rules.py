"""The rules of the metadata quorum as switches: those of KIP-1166, and those of KRaft that they build on."""

from __future__ import annotations

from highwater.model.language import Profile, Rule

_KIP_1166 = {
    "fetch_carries_hwm": Rule(
        "1166.1", "A fetch carries the HWM of its sender. Off: no fetch does, as below version 18."
    ),
    "unknown_hwm_is_told": Rule(
        "1166.1",
        "A replica that knows no HWM says so, by −1. Off: it leaves the field out, which says nothing.",
    ),
    "behind_is_answered": Rule(
        "1166.2", "A fetch without new records is answered at once where its HWM is less than the leader's."
    ),
    "equal_hwm_parks": Rule(
        "1166.2",
        "A fetch without new records parks where its HWM is the leader's. Off: only where it is greater.",
    ),
    "hwm_growth_completes": Rule("1166.3", "When the leader's HWM grows, it completes parked fetches."),
    "growth_completes_all": Rule(
        "1166.3", "It completes all of them at once. Off: all but one, whichever that is."
    ),
    "diverging_is_answered": Rule(
        "595.2, 1166.2",
        "An answer that tells where to truncate is not empty, and is sent at once. Off: it has no records, so the "
        "fetch parks.",
    ),
    "consumers_leave_it_out": Rule(
        "1166.5", "A consumer's fetch has no HWM. Off: it says −1, as a replica that knows none."
    ),
    "consumers_read_committed": Rule(
        "B6", "A consumer is given what is below the HWM. Off: all that the leader has, as a replica."
    ),
    "missing_hwm_is_greatest": Rule(
        "1166.4",
        "A fetch without the field counts as one with the greatest HWM there is, 2⁶³−1, and parks as it did before. "
        "Off: as one whose sender knows no HWM.",
    ),
}

_KRAFT = {
    # Fetching.
    "fetch_epoch_check": Rule("595.1", "A leader uses a fetch only when it carries the leader's own epoch."),
    "fetch_response_check": Rule(
        "595.1", "A replica uses an answer to its fetch only in the epoch that it fetched in."
    ),
    "divergence_check": Rule(
        "595.2", "A fetch finds where the replica's log leaves the leader's, and the replica truncates there."
    ),
    "records_complete": Rule(
        "595.3", "When the leader appends, it completes the fetches that wait for records."
    ),
    "timer_answers_as_parked": Rule(
        "K4",
        "A fetch that the park timer ends gets the answer that it would have had when it parked, with the HWM of "
        "that time. Off: with the HWM of now.",
    ),
    # The high watermark.
    "majority_commits": Rule(
        "595.4",
        "The leader's HWM goes as far as a majority of the voters has fetched. Off: as one other has.",
    ),
    "observers_do_not_count": Rule("595.4", "Only voters count for the HWM. Off: observers do as well."),
    "own_epoch_commits": Rule(
        "595.5",
        "The HWM moves only past a record of the leader's own epoch: records of earlier ones follow it.",
    ),
    "new_leader_forgets_hwm": Rule(
        "595.5",
        "A new leader knows no HWM until it can commit in its epoch. Off: it goes on with the one that it had.",
    ),
    "hwm_within_log": Rule("595.6", "A replica's HWM is the lesser of the leader's and its own LEO."),
    # Elections.
    "majority_elects": Rule("595.7", "A candidate needs the votes of a majority. Off: its own is enough."),
    "up_to_date_vote": Rule(
        "595.7", "A voter votes only for a candidate whose last epoch and LEO are not behind its own."
    ),
    "leader_change_record": Rule("595.5", "A new leader appends a record of its epoch at once."),
}

_VOTES = {
    "votes_travel": Rule(
        "595.7", "Votes are messages, asked for and given one by one. Off: a majority votes in one step."
    ),
    "one_vote_per_epoch": Rule("595.8", "A voter votes for one candidate in an epoch."),
    "vote_is_kept": Rule(
        "595.8", "A vote is on disk before it is given. Off: a voter that restarts forgets it."
    ),
    "pre_vote": Rule(
        "996.1",
        "Who wants to lead asks first whether it could be elected, and raises the epoch when a majority says so.",
    ),
    "contact_denies_pre_vote": Rule(
        "996.2", "A follower that has fetched from its leader, and a leader, deny pre-votes."
    ),
}

_KAFKA = {
    "empty_drain_completes": Rule(
        "K25",
        "A leader that finds nothing to append answers what is parked. Off: only what is news ends a wait.",
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
"""A new rule is on only where a profile names it."""
