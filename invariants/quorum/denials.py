"""What the quorum allows, denied: each is violated, as a voter grants its vote to whoever is not behind it."""

from __future__ import annotations

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


def _denied(m: Quorum, before: State, after: State, wrong: dict[tuple[int, int], Truth]) -> Truth:
    """Whether no voter votes for a candidate where it is said to be wrong."""
    pairs = [(v, c) for v in m.voter for c in m.voter if int(v) != int(c)]
    return all_of(~(_votes(m, before, after, v, c) & wrong[int(v), int(c)]) for v, c in pairs)


def _same_epoch(one: SeqValue, other: SeqValue) -> Truth:
    """Whether two logs have records, the last ones of the same epoch."""
    return ~one.is_empty & ~other.is_empty & (one.last.epoch == other.last.epoch)


@step_property("595.7")
def nobody_votes_for_an_equal_log(m: Quorum, before: State, after: State) -> Truth:
    """Nobody votes for a member whose log has the same last epoch and the same end as its own."""
    logs = {int(v): before.members[v].log for v in m.voter}
    wrong = {
        (v, c): _same_epoch(logs[v], logs[c]) & (logs[v].length == logs[c].length) for v in logs for c in logs
    }
    return _denied(m, before, after, wrong)


@step_property("595.7")
def nobody_votes_for_a_longer_log(m: Quorum, before: State, after: State) -> Truth:
    """Nobody votes for a member whose log has the same last epoch and goes on for longer."""
    logs = {int(v): before.members[v].log for v in m.voter}
    wrong = {
        (v, c): _same_epoch(logs[v], logs[c]) & (logs[v].length < logs[c].length) for v in logs for c in logs
    }
    return _denied(m, before, after, wrong)


@step_property("595.7")
def nobody_votes_for_a_later_epoch(m: Quorum, before: State, after: State) -> Truth:
    """Nobody who has records votes for a member whose log ends in a later epoch."""
    logs = {int(v): before.members[v].log for v in m.voter}
    wrong = {
        (v, c): ~logs[v].is_empty & ~logs[c].is_empty & (logs[v].last.epoch < logs[c].last.epoch)
        for v in logs
        for c in logs
    }
    return _denied(m, before, after, wrong)


DENIALS = (nobody_votes_for_an_equal_log, nobody_votes_for_a_longer_log, nobody_votes_for_a_later_epoch)
