"""The state of the metadata quorum: members with their logs, fetches in flight and parked, the committed records.

The model leaves out:

* changes of the membership, snapshots, unflushed logs, and downgrades of the finalised Fetch version;
* BeginQuorumEpoch as a message: a member learns of a leader at any time after its election, or never;
* votes as messages, unless the rule ``votes_travel`` is on (``elections.py``). Without the rule a majority votes in one
  step, at the moment of the last vote that the election needs. Failed elections then have no steps of their own;
* a leader's resignation (EndQuorumEpoch), so no member grants or refuses a pre-vote because of it (KAFKA-20895);
* a leader's timer for the fetches of a majority: a leader without them keeps leading in its epoch (KAFKA-15489).

A response carries at most one record. A member has one fetch in flight in an epoch: it sends the next fetch after the
previous response or its loss. An error ends a fetch and has no other effect. A parked fetch ends when its leader no
longer leads.

The actions are functions of (q, s, …) in ``elections.py`` and ``leadership.py``. ``q`` is the quorum, with its types,
parameters and rules; ``s`` is the state before the step and ``s.next`` the state after the step.
"""

from __future__ import annotations

import itertools
from typing import Any

from highwater.model.language import (
    Array,
    Band,
    Bool,
    Budgets,
    Drawing,
    Enum,
    Index,
    Int,
    Lane,
    Log,
    Message,
    Number,
    Only,
    Option,
    Parameter,
    Profile,
    Protocol,
    Rule,
    Seq,
    Set,
    Sign,
    Struct,
    StructValue,
    Truth,
)
from highwater.model.rulebook import RULEBOOK

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
    "change_forgets_requests": Rule(
        "K26",
        "A member whose epoch or role changes ignores the answers to its earlier requests. Off: it takes them.",
    ),
    "answers_decide": Rule(
        "K27",
        "The vote answer that decides an election ends it in the same step, and a voter answers once in an election. "
        "Off: the election ends later.",
    ),
    "vote_answer_names_leader": Rule(
        "K28", "A vote answer names the leader that the voter knows, and the candidate follows this leader."
    ),
    "restarted_leader_raises_epoch": Rule(
        "K29",
        "A restarted leader whose timer expires requests pre-votes in the next epoch. Off: in its epoch.",
    ),
    "leaderless_voter_asks_again": Rule(
        "K30",
        "A voter without a leader whose pre-vote runs out of time requests pre-votes again. Off: it waits.",
    ),
    "record_of_the_epoch_is_invalid": Rule(
        "K31",
        "A voter refuses the vote request of a candidate whose log has records of the request's epoch as invalid.",
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
    "kafka_4_0": Profile.of("Kafka 4.0.2 as it is: before KIP-1166", *_BEFORE, *_VOTES, *_KAFKA),
    "before_kip_1166": Profile.of("before KIP-1166: a leader does not know which HWM a replica has", *_BEFORE),
}  # fmt: skip
"""The profiles by name. A rule is on only in profiles that name it."""


UNKNOWN = -1
"""1166.1. The value of an unknown HWM, in memory and in a fetch."""

BUDGETS = Budgets(
    {
        "appends": "records that clients write",
        "elections": "elections after the first leader's",
        "restarts": "restarts of members, which keep their log and forget the HWM",
        "losses": "fetches or answers that are lost with their connection",
    },
    most=3,
)
"""Client appends, elections and faults; a scenario grants a number of each."""


class Cluster(Protocol):
    """The types, initial states and predicates that all parts of the quorum protocol share."""

    rulebook = RULEBOOK
    parameters = {
        "voters": Parameter(3, 1, 5, "members that elect and count for the HWM; member 0 leads first"),
        "observers": Parameter(
            0, 0, 2, "members that only fetch, such as brokers; they come after the voters"
        ),
        "older": Parameter(
            0, 0, 127, "members below version 18 of Fetch, as bits: 1 is member 0, 4 is member 2"
        ),
        "consumers": Parameter(0, 0, 1, "observers, the last one, that read as a consumer of a partition"),
        "finalised_late": Parameter.switch(
            "whether version 18 of Fetch is finalised while members run; they learn of it one by one"
        ),
        "timer": Parameter.switch("whether the park timer can end a fetch", default=True),
        "settled": Parameter.switch(
            "whether all members have the first leader's first record, and know that it is committed"
        ),
        "impatient": Parameter(
            31, 0, 31, "voters whose fetch timers can expire, as bits; only if votes are messages"
        ),
        **BUDGETS.parameters,
        "appends": BUDGETS.parameter("appends", default=1, low=1),
    }
    rules = RULES
    profiles = PROFILES

    def define(self) -> Struct:
        """Define the types. A log has room for every record that the budgets allow, so no step is pruned."""
        p = self.p
        self.size = 1 + p.appends + p.elections
        self.majority = p.voters // 2 + 1
        self.member = Index("member", p.voters + p.observers)
        self.voter = Index("member", p.voters)
        self.counted = self.voter if self.on("observers_do_not_count") else self.member
        raised = p.restarts if self.on("restarted_leader_raises_epoch") else 0
        self.epoch = Index("epoch", 1 + p.elections + raised)
        self.some_epoch = Option(self.epoch)
        self.offsets = range(self.size)
        offset, hwm = Int(0, self.size), Int(UNKNOWN, self.size)
        self.record = Struct("Record", epoch=(self.epoch, "epoch in which it was appended"))
        self.some_record = Option(self.record)
        self.hwm_field = Option(hwm)
        self.ballot = Enum("Ballot", "none pre_vote vote")
        votes_travel = self.on("votes_travel")
        self._define_fetches(offset, hwm)
        self._define_votes(offset)
        self._define_members(hwm)
        return Struct(
            "State",
            members=Array(self.member, self.member_type),
            requests=(Array(self.member, self.some_request), "the fetch that is under way from each member"),
            parked=(Array(self.member, self.some_parked), "fetches that wait at the leader"),
            responses=(Array(self.member, self.some_response), "the answer that is under way to each member"),
            vote_requests=(
                Only(Array(self.voter, Array(self.voter, self.some_vote_request)), votes_travel),
                "requests for votes, by candidate and voter",
            ),
            vote_responses=(
                Only(Array(self.voter, Array(self.voter, self.some_vote_response)), votes_travel),
                "answers, by candidate and voter",
            ),
            elected=(Array(self.epoch, Option(self.member)), "member elected in each epoch"),
            finalised=(
                Only(Array(self.member, Bool), p.finalised_late),
                "members that know that version 18 of Fetch is finalised",
            ),
            committed=(
                Seq(self.record, self.size),
                "records below the HWM of some leader at some time; no rule reads it",
            ),
            budgets=(BUDGETS.type(p), "how many faults and steps are left"),
        )

    def _define_members(self, hwm: Int) -> None:
        """Define the type of members."""
        votes_travel, forgets = self.on("votes_travel"), self.on("change_forgets_requests")
        self.member_type = Struct(
            "Member",
            epoch=(self.epoch, "the epoch that it knows; on disk"),
            leader=(Option(self.member), "leader of that epoch, where it is known"),
            log=(Seq(self.record, self.size), "its log, from offset 0"),
            hwm=(hwm, "high watermark that it knows; -1: none"),
            peak=(hwm, "the greatest HWM that it has known since it started; no rule reads it"),
            fetched=(
                Array(self.counted, Int(-1, self.size)),
                "offset from which each voter has fetched in its epoch; leader only",
            ),
            ballot=(Only(self.ballot, votes_travel), "the kind of votes that it requests"),
            granted=(
                Only(Set(self.voter), votes_travel),
                "voters that have granted it a vote, itself included",
            ),
            voted=(
                Only(Option(self.voter), votes_travel),
                "candidate that it voted for in its epoch; on disk",
            ),
            heard=(
                Only(Bool, votes_travel),
                "whether it has had a fetch answer since it follows this leader",
            ),
            denied=(Only(Set(self.voter), self.on("answers_decide")), "voters that have denied it a vote"),
            awaits=(Only(Bool, forgets), "whether it waits for the answer to its last fetch"),
            asked=(
                Only(Set(self.voter), forgets),
                "voters whose answers to its last vote request it waits for",
            ),
        )

    def _define_fetches(self, offset: Int, hwm: Int) -> None:
        """Define the types of fetches, parked fetches and responses."""
        self.request = Struct(
            "Fetch",
            leader=(self.member, "recipient of the fetch"),
            epoch=(self.epoch, "epoch of the sender"),
            offset=(offset, "log end offset of the sender"),
            last_epoch=(self.some_epoch, "epoch of its last record"),
            hwm=(self.hwm_field, "field HighWatermark: what the sender knows; none: version below 18"),
        )
        self.some_request = Option(self.request)
        self.parked_type = Struct(
            "ParkedFetch",
            leader=(self.member, "member at which it waits"),
            epoch=(self.epoch, "epoch of the sender"),
            offset=(offset, "log end offset of the sender"),
            told=(Only(Bool, self.p.finalised_late), "whether the fetch carries its sender's HWM"),
            answer=(Only(hwm, self.on("timer_answers_as_parked")), "the HWM when the fetch was parked"),
        )
        self.some_parked = Option(self.parked_type)
        self.response = Struct(
            "FetchAnswer",
            epoch=(self.epoch, "epoch of the leader"),
            record=(self.some_record, "the record at the offset; none: log end"),
            hwm=(hwm, "high watermark of the leader"),
            diverging=(Bool, "whether the logs diverge"),
            end_epoch=(self.some_epoch, "if diverging, the epoch to which the logs can agree"),
            end=(offset, "if diverging, its end offset"),
            timed_out=(Bool, "whether the timer answered"),
        )
        self.some_response = Option(self.response)

    def _define_votes(self, offset: Int) -> None:
        """Define the sets of voters that can elect a leader, and the types of vote requests and responses."""
        self.votes_needed = self.majority if self.on("majority_elects") else 1
        self.electorates = [
            Set(self.voter).lift(list(chosen))
            for chosen in itertools.combinations(range(self.p.voters), self.votes_needed)
        ]
        self.vote_request = Struct(
            "Vote",
            epoch=(self.epoch, "epoch of the candidate"),
            pre=(Bool, "whether it is a pre-vote"),
            last_epoch=(self.some_epoch, "epoch of its last record"),
            offset=(offset, "log end offset of the candidate"),
        )
        self.some_vote_request = Option(self.vote_request)
        # ``asked`` and ``pre`` belong to the request, ``epoch`` to the voter.
        self.vote_response = Struct(
            "VoteAnswer",
            asked=(self.epoch, "epoch of the request"),
            pre=(Bool, "whether it was a pre-vote"),
            epoch=(self.epoch, "epoch of the voter"),
            granted=(Bool, "whether the vote is granted"),
            leader=(
                Only(Option(self.voter), self.on("vote_answer_names_leader")),
                "leader that the voter knows in its epoch",
            ),
            invalid=(
                Only(Bool, self.on("record_of_the_epoch_is_invalid")),
                "whether the request is refused as invalid",
            ),
        )
        self.some_vote_response = Option(self.vote_response)

    def initial(self) -> list[dict[str, Any]]:
        """Member 0 leads in epoch 0 and has written the first record of that epoch; every member knows the leader.

        With the parameter ``settled`` every member has the record and knows that it is committed; all but the leader
        have received a fetch response. Without ``votes_travel`` a member has no fields about votes.
        """
        p = self.p
        first = [{"epoch": 0}]
        members = []
        for m in range(p.voters + p.observers):
            has_it = m == 0 or p.settled
            known = 1 if p.settled or p.voters == 1 else UNKNOWN
            hwm = known if has_it else UNKNOWN
            fetched = [1 if p.settled and m == 0 and v != 0 else -1 for v in range(self.counted.size)]
            members.append(
                {
                    "leader": 0,
                    "log": first if has_it else [],
                    "hwm": hwm,
                    "peak": hwm,
                    "fetched": fetched,
                    "voted": 0 if m == 0 else None,
                    "heard": p.settled and m != 0,
                }
            )
        return [
            {
                "members": members,
                "elected": [0] + [None] * (self.epoch.size - 1),
                "committed": first if p.settled or p.voters == 1 else [],
                "budgets": BUDGETS.granted(p),
            }
        ]

    # --- words ------------------------------------------------------------------------------------

    def is_older(self, m: Number) -> bool:
        """1166.4. True if the software version of member ``m`` neither sends nor reads the HWM in a fetch."""
        return bool(self.p.older >> int(m) & 1)

    def is_consumer(self, m: Number) -> bool:
        """1166.5. True if member ``m`` reads as a consumer of a partition (parameter ``consumers``)."""
        members = self.p.voters + self.p.observers
        return int(m) >= members - min(self.p.consumers, self.p.observers)

    def leads(self, m: Number, member: StructValue) -> Truth:
        """True if member ``m`` believes that it leads."""
        return member.leader.is_(m)

    def follows(self, m: Number, member: StructValue) -> Truth:
        """True if member ``m`` knows another member as leader, and requests neither votes nor pre-votes."""
        return member.leader.is_some & ~member.leader.is_(m) & (member.ballot == self.ballot.none)

    def is_impatient(self, v: Number) -> bool:
        """True if the fetch timer of voter ``v`` can expire in this scenario (parameter ``impatient``)."""
        return bool(self.p.impatient >> int(v) & 1)


# How pages draw runs of the quorum: members, and fetches between members.

DRAWING = Drawing(
    lanes=(Lane("member {}", ("member {}", "leader {}"), index="member"),),
    messages={
        "requests": Message("Fetch", to="leader", shows=("offset", "last_epoch", "epoch", "hwm")),
        "responses": Message("Fetch answer", shows=("record", "hwm", "epoch", "diverging", "timed_out")),
    },
    tells=(
        "members.epoch",
        "members.leader",
        "members.log",
        "members.hwm",
        "parked",
        "committed",
    ),
    logs=(
        Log("member {}", "members.log", {"HWM": "members.hwm"}, shows=("epoch",)),
        Log("committed", "committed", shows=("epoch",)),
    ),
    bands=(Band("believes that it leads", "member", (Sign("leader", "members.leader"),)),),
)
