"""What the quorum must be able to reach: votes for logs that are not behind, and messages that end in any way."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, any_of, reachable
from highwater.model.language.values import Number, SeqValue, Truth
from highwater.model.quorum import Quorum


def _votes(m: Quorum, before: State, after: State, voter: Number, candidate: Number) -> Truth:
    """Whether a voter moves to the epoch in which another one takes over, by the same step."""
    old, new = before.members[candidate], after.members[candidate]
    elected = m.leads(candidate, new) & (~m.leads(candidate, old) | (old.epoch != new.epoch))
    moved = (before.members[voter].epoch < new.epoch) & (after.members[voter].epoch == new.epoch)
    return elected & moved


_Compared = Callable[[SeqValue, SeqValue], Truth]
"""A condition on a voter's log and a candidate's log."""


def _a_voter_votes(m: Quorum, before: State, after: State, compared: _Compared) -> Truth:
    """Whether a voter votes for a candidate whose log compares so with the voter's own log."""
    return any_of(
        _votes(m, before, after, voter, candidate)
        & compared(before.members[voter].log, before.members[candidate].log)
        for voter in m.voter
        for candidate in m.voter
        if int(voter) != int(candidate)
    )


def _have_records(own: SeqValue, other: SeqValue) -> Truth:
    return ~own.is_empty & ~other.is_empty


@reachable("595.7")
def a_voter_votes_for_an_equal_log(m: Quorum, before: State, after: State) -> Truth:
    """A voter votes for a candidate whose log has the same last epoch and the same end as its own."""

    def is_equal(own: SeqValue, other: SeqValue) -> Truth:
        same = (own.last.epoch == other.last.epoch) & (own.length == other.length)
        return _have_records(own, other) & same

    return _a_voter_votes(m, before, after, is_equal)


@reachable("595.7")
def a_voter_votes_for_a_longer_log(m: Quorum, before: State, after: State) -> Truth:
    """A voter votes for a candidate whose log has the same last epoch as its own and is longer."""

    def is_longer(own: SeqValue, other: SeqValue) -> Truth:
        longer = (own.last.epoch == other.last.epoch) & (own.length < other.length)
        return _have_records(own, other) & longer

    return _a_voter_votes(m, before, after, is_longer)


@reachable("595.7")
def a_voter_votes_for_a_later_epoch(m: Quorum, before: State, after: State) -> Truth:
    """A voter that has records votes for a candidate whose log ends in a later epoch."""

    def is_later(own: SeqValue, other: SeqValue) -> Truth:
        return _have_records(own, other) & (own.last.epoch < other.last.epoch)

    return _a_voter_votes(m, before, after, is_later)


@reachable("595.7")
def a_voter_votes_for_an_empty_log(m: Quorum, before: State, after: State) -> Truth:
    """A voter without records votes for a candidate without records."""
    return _a_voter_votes(m, before, after, lambda own, other: own.is_empty & other.is_empty)


@reachable("595.7", rule="votes_travel")
def a_candidate_asks_for_a_vote(m: Quorum, before: State, after: State) -> Truth:
    """A candidate sends a request for a vote."""
    return any_of(
        before.vote_requests[c][v].is_none & after.vote_requests[c][v].is_some
        for c in m.voter
        for v in m.voter
    )


@reachable("996.1", rule="pre_vote")
def a_pre_vote_is_won(m: Quorum, before: State, after: State) -> Truth:
    """A voter that asks for pre-votes becomes a candidate."""
    return any_of(
        (before.members[c].ballot == "pre_vote") & (after.members[c].ballot == "vote") for c in m.voter
    )


@reachable("996.1", rule="pre_vote")
def a_pre_vote_is_given_up(m: Quorum, before: State, after: State) -> Truth:
    """A voter stops asking for pre-votes, without a win and without news from other members."""

    def gives_up(c: Number) -> Truth:
        old, new = before.members[c], after.members[c]
        ends = (old.ballot == "pre_vote") & (new.ballot == "none")
        return ends & (new.epoch == old.epoch) & (new.leader == old.leader)

    quiet = (before.budgets == after.budgets) & (before.vote_responses == after.vote_responses)
    return quiet & any_of(gives_up(c) for c in m.voter)


def _hears(before: State, after: State, c: Number) -> Truth:
    """Whether a member comes to a later epoch by no vote, and without a leader."""
    old, new = before.members[c], after.members[c]
    moves = (old.epoch < new.epoch) & new.leader.is_none & (new.ballot == "none")
    quiet = before.vote_requests == after.vote_requests
    return moves & quiet & (before.vote_responses == after.vote_responses)


@reachable("595.7", rule="votes_travel")
def a_member_hears_of_an_epoch(m: Quorum, before: State, after: State) -> Truth:
    """A member comes to a later epoch without a vote, and before it learns who leads there."""
    return any_of(_hears(before, after, c) for c in m.member)


@reachable("595.7", rule="votes_travel")
def a_member_hears_of_an_epoch_before_a_voter(m: Quorum, before: State, after: State) -> Truth:
    """A member hears of an epoch to which another voter has not come yet."""
    return any_of(
        _hears(before, after, c) & (after.members[o].epoch < after.members[c].epoch)
        for c in m.member
        for o in m.voter
        if int(o) != int(c)
    )


@reachable("595.1")
def a_fetch_is_refused(m: Quorum, before: State, after: State) -> Truth:
    """A fetch arrives and goes unanswered: its receiver neither answers nor parks it."""
    quiet = (before.budgets == after.budgets) & (before.members == after.members)
    return quiet & any_of(
        before.requests[f].is_some
        & after.requests[f].is_none
        & after.responses[f].is_none
        & after.parked[f].is_none
        for f in m.member
    )


@reachable("595.1")
def a_fetch_is_given_up(m: Quorum, before: State, after: State) -> Truth:
    """A member in a new epoch sends a fetch while its fetch of the former epoch is under way."""
    return any_of(
        before.requests[f].is_some
        & after.requests[f].is_some
        & (before.requests[f].value.epoch != after.requests[f].value.epoch)
        for f in m.member
    )


@reachable("1166.1")
def a_member_learns_the_version(m: Quorum, before: State, after: State) -> Truth:
    """A member learns that version 18 of Fetch is finalised."""
    return before.finalised != after.finalised


@reachable("K25", rule="empty_drain_completes")
def an_empty_drain_answers_a_fetch(m: Quorum, before: State, after: State) -> Truth:
    """A leader answers a parked fetch before its timer ends, and no member changes."""
    return (before.members == after.members) & any_of(
        before.parked[f].is_some
        & after.parked[f].is_none
        & after.responses[f].is_some
        & ~after.responses[f].value.timed_out
        for f in m.member
    )


REACHABLE = (
    a_voter_votes_for_an_equal_log,
    a_voter_votes_for_a_longer_log,
    a_voter_votes_for_a_later_epoch,
    a_voter_votes_for_an_empty_log,
    a_candidate_asks_for_a_vote,
    a_pre_vote_is_won,
    a_pre_vote_is_given_up,
    a_member_hears_of_an_epoch,
    a_member_hears_of_an_epoch_before_a_voter,
    a_fetch_is_refused,
    a_fetch_is_given_up,
    a_member_learns_the_version,
    an_empty_drain_answers_a_fetch,
)
