"""What members may do with their messages, denied: each is violated, as nobody waits who may ask, answer or give up."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, Truth
from highwater.model.quorum import Quorum


@step_property("595.7", rule="votes_travel")
def nobody_asks_for_votes(m: Quorum, before: State, after: State) -> Truth:
    """No request for a vote is sent."""
    return all_of(
        before.vote_requests[c][v].is_some | after.vote_requests[c][v].is_none
        for c in m.voter
        for v in m.voter
    )


@step_property("996.1", rule="pre_vote")
def nobody_wins_a_pre_vote(m: Quorum, before: State, after: State) -> Truth:
    """Who asks for pre-votes is no candidate next."""
    return all_of(
        (before.members[c].ballot != "pre_vote") | (after.members[c].ballot != "vote") for c in m.voter
    )


@step_property("996.1", rule="pre_vote")
def nobody_gives_up_a_pre_vote(m: Quorum, before: State, after: State) -> Truth:
    """Who asks for pre-votes ends that only by winning them, or by what it hears from others."""
    kept = []
    for c in m.voter:
        old, new = before.members[c], after.members[c]
        gives_up = (
            (old.ballot == "pre_vote")
            & (new.ballot == "none")
            & (new.epoch == old.epoch)
            & (new.leader == old.leader)
        )
        quiet = (before.budgets == after.budgets) & (before.vote_responses == after.vote_responses)
        kept.append(~(gives_up & quiet))
    return all_of(kept)


def _hears(before: State, after: State, c: Number) -> Truth:
    """Whether a member comes to a later epoch by no vote, and without a leader."""
    old, new = before.members[c], after.members[c]
    moves = (old.epoch < new.epoch) & new.leader.is_none & (new.ballot == "none")
    quiet = before.vote_requests == after.vote_requests
    return moves & quiet & (before.vote_responses == after.vote_responses)


@step_property("595.7", rule="votes_travel")
def nobody_hears_of_an_epoch(m: Quorum, before: State, after: State) -> Truth:
    """A member comes to a later epoch as a candidate, with a message of a vote, or as it learns who leads there."""
    return all_of(~_hears(before, after, c) for c in m.member)


@step_property("595.7", rule="votes_travel")
def nobody_hears_of_it_before_all_voters(m: Quorum, before: State, after: State) -> Truth:
    """What a member hears of is an epoch that all other voters have come to."""
    return all_of(
        ~(
            _hears(before, after, c)
            & any_of(after.members[o].epoch < after.members[c].epoch for o in m.voter if int(o) != int(c))
        )
        for c in m.member
    )


@step_property("595.1")
def no_fetch_is_refused(m: Quorum, before: State, after: State) -> Truth:
    """No fetch goes unanswered that is not lost."""
    quiet = (before.budgets == after.budgets) & (before.members == after.members)
    return all_of(
        ~(quiet & before.requests[f].is_some & after.requests[f].is_none)
        | after.responses[f].is_some
        | after.parked[f].is_some
        for f in m.member
    )


@step_property("595.1")
def nobody_gives_up_a_fetch(m: Quorum, before: State, after: State) -> Truth:
    """In a new epoch a member waits for what became of its fetch of the former one before it sends another."""
    return all_of(
        before.requests[f].is_none
        | after.requests[f].is_none
        | (before.requests[f].value.epoch == after.requests[f].value.epoch)
        for f in m.member
    )


@step_property("1166.1")
def nobody_learns_the_version(m: Quorum, before: State, after: State) -> Truth:
    """No member comes to know that version 18 of Fetch is finalised."""
    return before.finalised == after.finalised


@step_property("K25", rule="empty_drain_completes")
def nothing_is_answered_by_an_empty_drain(m: Quorum, before: State, after: State) -> Truth:
    """A fetch that is parked is answered only by its timer, or as a member changes."""
    return all_of(
        ~((before.members == after.members) & before.parked[f].is_some & after.parked[f].is_none)
        | after.responses[f].is_none
        | after.responses[f].value.timed_out
        for f in m.member
    )


DENIALS = (
    nobody_asks_for_votes,
    nobody_wins_a_pre_vote,
    nobody_gives_up_a_pre_vote,
    nobody_hears_of_an_epoch,
    nobody_hears_of_it_before_all_voters,
    no_fetch_is_refused,
    nobody_gives_up_a_fetch,
    nobody_learns_the_version,
    nothing_is_answered_by_an_empty_drain,
)
