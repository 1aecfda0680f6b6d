"""What the quorum allows, denied: each is violated, as a voter grants its vote to whoever is not behind it."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, all_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, SeqValue, Truth
from highwater.model.quorum import Quorum


def _votes(m: Quorum, before: State, after: State, voter: Number, candidate: Number) -> Truth:
    """Whether a voter moves to the epoch in which another one takes over, by the same step."""
    old, new = before.members[candidate], after.members[candidate]
    elected = m.leads(candidate, new) & (~m.leads(candidate, old) | (old.epoch != new.epoch))
    moved = (before.members[voter].epoch < new.epoch) & (after.members[voter].epoch == new.epoch)
    return elected & moved


def _nobody_votes(
    m: Quorum, before: State, after: State, wrong: Callable[[SeqValue, SeqValue], Truth]
) -> Truth:
    """Whether no voter with records votes for one with records where something is wrong of its log and that one's."""
    kept = []
    for voter in m.voter:
        for candidate in m.voter:
            if int(voter) != int(candidate):
                own, other = before.members[voter].log, before.members[candidate].log
                both = ~own.is_empty & ~other.is_empty
                kept.append(~(_votes(m, before, after, voter, candidate) & both & wrong(own, other)))
    return all_of(kept)


@step_property("595.7")
def nobody_votes_for_an_equal_log(m: Quorum, before: State, after: State) -> Truth:
    """Nobody votes for a member whose log has the same last epoch and the same end as its own."""

    def is_equal(own: SeqValue, other: SeqValue) -> Truth:
        return (own.last.epoch == other.last.epoch) & (own.length == other.length)

    return _nobody_votes(m, before, after, is_equal)


@step_property("595.7")
def nobody_votes_for_a_longer_log(m: Quorum, before: State, after: State) -> Truth:
    """Nobody votes for a member whose log has the same last epoch and goes on for longer."""

    def is_longer(own: SeqValue, other: SeqValue) -> Truth:
        return (own.last.epoch == other.last.epoch) & (own.length < other.length)

    return _nobody_votes(m, before, after, is_longer)


@step_property("595.7")
def nobody_votes_for_a_later_epoch(m: Quorum, before: State, after: State) -> Truth:
    """Nobody who has records votes for a member whose log ends in a later epoch."""
    return _nobody_votes(m, before, after, lambda own, other: own.last.epoch < other.last.epoch)


@step_property("595.7")
def nobody_votes_for_an_empty_log(m: Quorum, before: State, after: State) -> Truth:
    """Nobody votes for a member without records, not even who has none itself."""
    kept = []
    for voter in m.voter:
        for candidate in m.voter:
            if int(voter) != int(candidate):
                own, other = before.members[voter].log, before.members[candidate].log
                kept.append(~(_votes(m, before, after, voter, candidate) & own.is_empty & other.is_empty))
    return all_of(kept)


DENIALS = (
    nobody_votes_for_an_equal_log,
    nobody_votes_for_a_longer_log,
    nobody_votes_for_a_later_epoch,
    nobody_votes_for_an_empty_log,
)
