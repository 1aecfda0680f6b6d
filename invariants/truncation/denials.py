"""What the truncation protocol allows, denied: each is violated, as nobody need have more to join, stay or count."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, all_of, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, Truth
from highwater.model.truncation import Truncation


def _pairs(m: Truncation) -> list[tuple[Number, Number]]:
    """Each replica with each other one."""
    return [(x, r) for x in m.replica for r in m.replica if int(x) != int(r)]


def _by_leader(m: Truncation, before: State, after: State, leader: Number) -> Truth:
    """Whether a step can be one by which this leader changes the ISR: the controller decides nothing in it."""
    return m.is_true_leader(before, leader) & (before.quorum.leader_epoch == after.quorum.leader_epoch)


def _joins(m: Truncation, before: State, after: State, leader: Number, replica: Number) -> Truth:
    changes = ~before.quorum.isr.has(replica) & after.quorum.isr.has(replica)
    return changes & _by_leader(m, before, after, leader)


def _leaves(m: Truncation, before: State, after: State, leader: Number, replica: Number) -> Truth:
    changes = before.quorum.isr.has(replica) & ~after.quorum.isr.has(replica)
    return changes & _by_leader(m, before, after, leader)


def _nobody(
    m: Truncation,
    changes: Callable[[Truncation, State, State, Number, Number], Truth],
    before: State,
    after: State,
    wrong: Callable[[Number, Number], Truth],
) -> Truth:
    """Whether no leader changes the ISR so by a replica where something is wrong of the two."""
    return all_of(~(changes(m, before, after, x, r) & wrong(x, r)) for x, r in _pairs(m))


@step_property("B5")
def nobody_joins_at_the_hwm(m: Truncation, before: State, after: State) -> Truth:
    """Who joins the ISR has more than the records below the leader's HWM."""
    return _nobody(m, _joins, before, after, lambda x, r: before.logs[r].length == before.replicas[x].hwm)


@step_property("B5")
def nobody_joins_before_the_log_end_counts(m: Truncation, before: State, after: State) -> Truth:
    """Somebody joins the ISR only when the leader's HWM has come to the end of its log."""
    return _nobody(m, _joins, before, after, lambda x, r: before.replicas[x].hwm < before.logs[x].length)


@step_property("B5")
def nobody_joins_once_the_log_end_counts(m: Truncation, before: State, after: State) -> Truth:
    """Somebody joins the ISR only while the leader has a record that its HWM has not passed."""
    return _nobody(m, _joins, before, after, lambda x, r: before.replicas[x].hwm == before.logs[x].length)


@step_property("B7")
def nobody_leaves_who_follows(m: Truncation, before: State, after: State) -> Truth:
    """A leader takes nobody out of the ISR who follows it in its epoch."""
    return _nobody(m, _leaves, before, after, lambda x, r: m.follows_in_epoch(before, r, x))


@step_property("B7")
def nobody_leaves_with_all_records(m: Truncation, before: State, after: State) -> Truth:
    """A leader takes nobody out of the ISR whose log is as long as its own, whoever that one follows."""
    return _nobody(m, _leaves, before, after, lambda x, r: before.logs[r].length >= before.logs[x].length)


@step_property("B4")
def the_hwm_waits_for_all_replicas(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM passes a record only when all replicas have logs as long, those outside the ISR too."""
    kept = []
    for x, r in _pairs(m):
        further = m.presumes_leadership(before, x) & (before.replicas[x].hwm < after.replicas[x].hwm)
        kept.append(
            ~(further & m.presumes_leadership(after, x) & (before.logs[r].length < after.replicas[x].hwm))
        )
    return all_of(kept)


@step_property("B4")
def the_hwm_waits_until_all_follow(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM moves only while all replicas follow it, those outside the ISR too."""
    kept = []
    for x, r in _pairs(m):
        further = before.replicas[x].hwm < after.replicas[x].hwm
        further = further & m.presumes_leadership(before, x) & m.presumes_leadership(after, x)
        kept.append(~(further & ~m.follows(before, r, x)))
    return all_of(kept)


@step_property("B4")
def the_hwm_stays_behind_the_log_end(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM never comes to the end of its log."""
    kept = []
    for x in m.replica:
        further = before.replicas[x].hwm < after.replicas[x].hwm
        further = further & m.presumes_leadership(before, x) & m.presumes_leadership(after, x)
        kept.append(~(further & (after.replicas[x].hwm == after.logs[x].length)))
    return all_of(kept)


@step_property("B8")
def only_leaders_are_taken_out(m: Truncation, before: State, after: State) -> Truth:
    """The controller takes nobody out of the ISR but the leader."""
    old, new = before.quorum, after.quorum
    decided = (old.leader_epoch != new.leader_epoch) & (old.leader == new.leader) & old.leader.is_some
    return implies(decided, old.isr == new.isr)


@step_property("B3")
def nobody_begins_with_nothing(m: Truncation, before: State, after: State) -> Truth:
    """A replica with an empty log becomes the follower of nobody who has the first record of the first epoch."""
    kept = []
    for x, r in _pairs(m):
        begins = (before.replicas[r].leader_epoch != after.replicas[r].leader_epoch) & m.follows(after, r, x)
        theirs = before.logs[x]
        empty = before.logs[r].is_empty & ~theirs.is_empty & (theirs[0].id == 0) & (theirs[0].epoch == 0)
        kept.append(~(begins & empty))
    return all_of(kept)


def _truncates(m: Truncation, before: State, after: State, follower: Number, leader: Number) -> Truth:
    """Whether a follower truncates to the log of the leader that it follows already."""
    same = before.replicas[follower].leader_epoch == after.replicas[follower].leader_epoch
    shorter = after.logs[follower].length < before.logs[follower].length
    return same & shorter & m.follows(before, follower, leader)


@step_property("B3", rule="divergence_on_fetch")
def nobody_truncates_whose_records_differ(m: Truncation, before: State, after: State) -> Truth:
    """A fetch finds no log that is as long as the leader's, and another one."""
    return all_of(
        ~(_truncates(m, before, after, r, x) & (before.logs[r].length == before.logs[x].length))
        for x, r in _pairs(m)
    )


@step_property("B3", rule="divergence_on_fetch")
def nobody_truncates_who_has_more(m: Truncation, before: State, after: State) -> Truth:
    """A fetch finds no log that is longer than the leader's."""
    return all_of(
        ~(_truncates(m, before, after, r, x) & (before.logs[r].length > before.logs[x].length))
        for x, r in _pairs(m)
    )


DENIALS = (
    nobody_joins_at_the_hwm,
    nobody_joins_before_the_log_end_counts,
    nobody_joins_once_the_log_end_counts,
    nobody_leaves_who_follows,
    nobody_leaves_with_all_records,
    the_hwm_waits_for_all_replicas,
    the_hwm_waits_until_all_follow,
    the_hwm_stays_behind_the_log_end,
    only_leaders_are_taken_out,
    nobody_begins_with_nothing,
    nobody_truncates_whose_records_differ,
    nobody_truncates_who_has_more,
)
