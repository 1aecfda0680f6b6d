"""What the truncation protocol allows, denied: each is violated, as nobody need have more to join, stay or count."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, all_of
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


DENIALS = (
    nobody_joins_at_the_hwm,
    nobody_joins_before_the_log_end_counts,
    nobody_joins_once_the_log_end_counts,
    nobody_leaves_who_follows,
    nobody_leaves_with_all_records,
    the_hwm_waits_for_all_replicas,
)
