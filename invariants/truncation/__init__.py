"""Properties of the protocol ``truncation``: the published specification's invariants, step properties, and goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from highwater.invariants.statements import defined, goals
from highwater.model.language import (
    Invariant,
    Number,
    State,
    StepProperty,
    Truth,
    all_of,
    any_of,
    implies,
    invariant,
    reachable,
    step_property,
)
from highwater.model.truncation import Truncation


@invariant("B4")
def weak_isr(m: Truncation, s: State) -> Iterator[Truth]:
    """For each replica that believes it leads, all members of its own ISR hold every record below its HWM.

    The property is weak because leaders are elected from the controller's ISR, which may differ from the leader's.
    """
    for leader in m.replica:
        for replica in m.replica:
            yield implies(
                m.presumes_leadership(s, leader)
                & s.replicas[leader].isr.has(replica)
                & (s.replicas[leader].hwm > 0),
                m.holds_below_hwm(s, leader, replica),
            )


@invariant("B4")
def strong_isr(m: Truncation, s: State) -> Iterator[Truth]:
    """For each replica that believes it leads, all members of the controller's ISR hold every record below its HWM.

    Each of these members can be elected. A record that one of them lacks can be lost after a consumer has read it.
    """
    for leader in m.replica:
        for replica in m.replica:
            yield implies(
                m.presumes_leadership(s, leader) & s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 0),
                m.holds_below_hwm(s, leader, replica),
            )


# --- steps ----------------------------------------------------------------------------------------------------


@step_property("B3, B4")
def hwms_stay_within_their_logs(m: Truncation, before: State, after: State) -> Iterator[Truth]:
    """After a replica truncates its log, or starts to follow, its HWM is not past its log end.

    A replica with an HWM past its log would promise consumers records that it does not have.
    """
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        begins = (old.leader_epoch != new.leader_epoch) & ~m.presumes_leadership(after, r)
        truncated = after.logs[r].length < before.logs[r].length
        yield implies(begins | truncated, new.hwm <= after.logs[r].length)


@step_property("101.1", rule="leader_epoch_lookup")
def hwms_stay_where_the_leader_knows_no_end(m: Truncation, before: State, after: State) -> Iterator[Truth]:
    """A new follower truncates below its HWM only if its leader has a record of the follower's last epoch or later.

    If the leader knows no end offset of the follower's last epoch, the follower keeps every record below its HWM.
    """
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        cut = (old.leader_epoch != new.leader_epoch) & (after.logs[r].length < old.hwm)
        last = before.logs[r].last.epoch
        knows = any_of(
            new.leader.is_(x) & ~before.logs[x].is_empty & (before.logs[x].last.epoch >= last)
            for x in m.replica
        )
        yield implies(cut, knows)


@step_property("B5, 320.4")
def replicas_join_the_isr_caught_up(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR only if it follows the leader and has reached the leader's HWM.

    With the rule ``fenced_join`` the replica also follows in the leader's epoch.
    """
    joining = after.quorum.isr - before.quorum.isr
    able = []
    for r in m.replica:
        follows = [
            m.is_true_leader(before, x)
            & (m.follows_in_epoch if m.on("fenced_join") else m.follows)(before, r, x)
            & (before.logs[r].length >= before.replicas[x].hwm)
            for x in m.replica
            if int(x) != int(r)
        ]
        able.append(~joining.has(r) | any_of(follows))
    return implies((before.quorum.isr != after.quorum.isr) & ~joining.is_empty, all_of(able))


@step_property("B7")
def caught_up_replicas_stay_in_the_isr(m: Truncation, before: State, after: State) -> Truth:
    """A leader keeps in its ISR every replica that follows it in its epoch and has its last record."""
    gone = before.quorum.isr - after.quorum.isr
    same_epoch = before.quorum.leader_epoch == after.quorum.leader_epoch
    stays = []
    for r in m.replica:
        for x in m.replica:
            mine, theirs = before.logs[x], before.logs[r]
            has_all = (theirs.length == mine.length) & (mine.is_empty | (theirs.last == mine.last))
            current = m.is_true_leader(before, x) & m.follows_in_epoch(before, r, x) & has_all
            stays.append(~(gone.has(r) & current))
    return implies((before.quorum.isr != after.quorum.isr) & same_epoch, all_of(stays))


# --- goals ----------------------------------------------------------------------------------------------------


def _pairs(m: Truncation) -> list[tuple[Number, Number]]:
    return [(x, r) for x in m.replica for r in m.replica if int(x) != int(r)]


def _changes_isr(
    m: Truncation, before: State, after: State, joins: bool, about: Callable[[Number, Number], Truth]
) -> Truth:
    """True if a leader, not the controller, adds a replica to the ISR (``joins``) or removes one in this step.

    ``about`` must hold for the leader and that replica.
    """
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
    """A replica joins the ISR while the leader's HWM is below the end of the leader's log."""
    return _changes_isr(m, before, after, True, lambda x, r: before.replicas[x].hwm < before.logs[x].length)


@reachable("B5")
def a_replica_joins_once_all_is_committed(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR while the leader's HWM is at the end of the leader's log."""
    return _changes_isr(m, before, after, True, lambda x, r: before.replicas[x].hwm == before.logs[x].length)


@reachable("B7")
def a_follower_is_removed(m: Truncation, before: State, after: State) -> Truth:
    """A leader removes from the ISR a replica that follows in the leader's epoch."""
    return _changes_isr(m, before, after, False, lambda x, r: m.follows_in_epoch(before, r, x))


@reachable("B7")
def a_replica_with_all_records_is_removed(m: Truncation, before: State, after: State) -> Truth:
    """A leader removes from the ISR a replica whose log is as long as the leader's."""
    return _changes_isr(m, before, after, False, lambda x, r: before.logs[r].length >= before.logs[x].length)


def _moves_hwm(m: Truncation, before: State, after: State, leader: Number) -> Truth:
    """True if a replica that believes it leads, before and after the step, advances its HWM."""
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
    """A leader's HWM advances while another replica does not follow this leader."""
    return any_of(_moves_hwm(m, before, after, x) & ~m.follows(before, r, x) for x, r in _pairs(m))


@reachable("B4")
def the_hwm_reaches_the_log_end(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM reaches the end of its log."""
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
    """True if a follower truncates to the log of the leader that it already follows."""
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


INVARIANTS = defined(Invariant, __name__)
STEP_PROPERTIES = defined(StepProperty, __name__)
REACHABLE = goals(__name__)
