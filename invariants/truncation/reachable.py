"""What the truncation protocol must be able to reach: joins and leaves of the ISR, and moves of the HWM."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, any_of, reachable
from highwater.model.language.values import Number, Truth
from highwater.model.truncation import Truncation


def _pairs(m: Truncation) -> list[tuple[Number, Number]]:
    """Each replica with each other one."""
    return [(x, r) for x in m.replica for r in m.replica if int(x) != int(r)]


def _changes_isr(
    m: Truncation, before: State, after: State, joins: bool, about: Callable[[Number, Number], Truth]
) -> Truth:
    """Whether a leader lets such a replica join or leave the ISR: the controller decides nothing in the step."""
    old, new = before.quorum, after.quorum
    return any_of(
        m.is_true_leader(before, x)
        & (old.leader_epoch == new.leader_epoch)
        & (~old.isr.has(r) & new.isr.has(r) if joins else old.isr.has(r) & ~new.isr.has(r))
        & about(x, r)
        for x, r in _pairs(m)
    )


@reachable("B5")
def a_replica_joins_at_the_hwm(m: Truncation, before: State, after: State) -> Truth:
    """A replica that has exactly the records below the leader's HWM joins the ISR."""
    return _changes_isr(m, before, after, True, lambda x, r: before.logs[r].length == before.replicas[x].hwm)


@reachable("B5")
def a_replica_joins_below_the_log_end(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR while the leader has a record that its HWM has not passed."""
    return _changes_isr(m, before, after, True, lambda x, r: before.replicas[x].hwm < before.logs[x].length)


@reachable("B5")
def a_replica_joins_once_all_is_committed(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR while the leader's HWM is the end of its log."""
    return _changes_isr(m, before, after, True, lambda x, r: before.replicas[x].hwm == before.logs[x].length)


@reachable("B7")
def a_follower_is_removed(m: Truncation, before: State, after: State) -> Truth:
    """A leader removes a replica from the ISR that follows it in its epoch."""
    return _changes_isr(m, before, after, False, lambda x, r: m.follows_in_epoch(before, r, x))


@reachable("B7")
def a_replica_with_all_records_is_removed(m: Truncation, before: State, after: State) -> Truth:
    """A leader removes a replica from the ISR whose log is as long as its own."""
    return _changes_isr(m, before, after, False, lambda x, r: before.logs[r].length >= before.logs[x].length)


def _moves_hwm(m: Truncation, before: State, after: State, leader: Number) -> Truth:
    """Whether a replica that presumes leadership before and after a step advances its HWM."""
    further = before.replicas[leader].hwm < after.replicas[leader].hwm
    return further & m.presumes_leadership(before, leader) & m.presumes_leadership(after, leader)


@reachable("B4")
def the_hwm_passes_the_end_of_another_log(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM passes a record that another replica lacks."""
    return any_of(
        _moves_hwm(m, before, after, x) & (before.logs[r].length < after.replicas[x].hwm)
        for x, r in _pairs(m)
    )


@reachable("B4")
def the_hwm_moves_before_all_follow(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM moves while another replica does not follow this leader."""
    return any_of(_moves_hwm(m, before, after, x) & ~m.follows(before, r, x) for x, r in _pairs(m))


@reachable("B4")
def the_hwm_reaches_the_log_end(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM comes to the end of its log."""
    return any_of(
        _moves_hwm(m, before, after, x) & (after.replicas[x].hwm == after.logs[x].length) for x in m.replica
    )


@reachable("B8")
def the_controller_removes_a_follower(m: Truncation, before: State, after: State) -> Truth:
    """The controller changes the ISR and keeps the leader."""
    old, new = before.quorum, after.quorum
    decided = (old.leader_epoch != new.leader_epoch) & (old.leader == new.leader) & old.leader.is_some
    return decided & (old.isr != new.isr)


@reachable("B3")
def an_empty_log_follows_the_first_record(m: Truncation, before: State, after: State) -> Truth:
    """A replica with an empty log begins to follow a leader that has the first record of the first epoch."""
    found = []
    for x, r in _pairs(m):
        begins = (before.replicas[r].leader_epoch != after.replicas[r].leader_epoch) & m.follows(after, r, x)
        theirs = before.logs[x]
        empty = before.logs[r].is_empty & ~theirs.is_empty & (theirs[0].id == 0) & (theirs[0].epoch == 0)
        found.append(begins & empty)
    return any_of(found)


def _truncates(m: Truncation, before: State, after: State, follower: Number, leader: Number) -> Truth:
    """Whether a follower truncates to the log of the leader that it follows already."""
    same = before.replicas[follower].leader_epoch == after.replicas[follower].leader_epoch
    shorter = after.logs[follower].length < before.logs[follower].length
    return same & shorter & m.follows(before, follower, leader)


@reachable("B3", rule="divergence_on_fetch")
def a_fetch_truncates_an_equally_long_log(m: Truncation, before: State, after: State) -> Truth:
    """A fetch truncates a follower's log that is as long as the leader's."""
    return any_of(
        _truncates(m, before, after, r, x) & (before.logs[r].length == before.logs[x].length)
        for x, r in _pairs(m)
    )


@reachable("B3", rule="divergence_on_fetch")
def a_fetch_truncates_a_longer_log(m: Truncation, before: State, after: State) -> Truth:
    """A fetch truncates a follower's log that is longer than the leader's."""
    return any_of(
        _truncates(m, before, after, r, x) & (before.logs[r].length > before.logs[x].length)
        for x, r in _pairs(m)
    )


REACHABLE = (
    a_replica_joins_at_the_hwm,
    a_replica_joins_below_the_log_end,
    a_replica_joins_once_all_is_committed,
    a_follower_is_removed,
    a_replica_with_all_records_is_removed,
    the_hwm_passes_the_end_of_another_log,
    the_hwm_moves_before_all_follow,
    the_hwm_reaches_the_log_end,
    the_controller_removes_a_follower,
    an_empty_log_follows_the_first_record,
    a_fetch_truncates_an_equally_long_log,
    a_fetch_truncates_a_longer_log,
)
