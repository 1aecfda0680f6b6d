"""What must happen in the quorum: the high watermark comes, with the park timer or without it."""

from __future__ import annotations

from collections.abc import Callable

from highwater.invariants.quorum.safety import both_support
from highwater.model.language import State, all_of, always_eventually, any_of, either, weak
from highwater.model.language.values import Number, Truth
from highwater.model.quorum import Quorum

_FETCHING = (
    weak("send_fetch", "take_answer")
    + weak(either("receive_fetch", "refuse_fetch"), by=["f"])
    + weak("learn_version", by=["m"])
)
_TIMER = weak("park_timer", by=["f"])
_LEARNING = weak("learn", by=["m"])

Pairs = Callable[[Quorum, Number, Number], bool]


def _every_pair(m: Quorum, f: Number, leader: Number) -> bool:
    return True


def _follows(s: State, f: Number, leader: Number) -> Truth:
    """Whether a member follows a leader who leads, in the epoch of both."""
    follower, other = s.members[f], s.members[leader]
    return (follower.epoch == other.epoch) & follower.leader.is_(leader) & other.leader.is_(leader)


def _all_know(m: Quorum, s: State, pairs: Pairs) -> Truth:
    """Whether each member that follows a leader knows its HWM, of those pairs."""
    return all_of(
        ~_follows(s, f, leader) | (s.members[f].hwm >= s.members[leader].hwm)
        for f in m.member
        for leader in m.voter
        if int(f) != int(leader) and pairs(m, f, leader)
    )


@always_eventually("P2", fair=_FETCHING)
def hwm_comes_without_the_timer(m: Quorum, s: State) -> Truth:
    """Again and again every replica knows the HWM of the leader that it follows, where both have version 18.

    The park timer may fire or not: nothing waits for it.
    """
    return _all_know(m, s, both_support)


@always_eventually("1166.4", fair=_FETCHING)
def hwm_comes_to_older_without_the_timer(m: Quorum, s: State) -> Truth:
    """The same of all replicas, be they below version 18: this is not promised, and shows who needs the timer."""
    return _all_know(m, s, _every_pair)


@always_eventually("1166.4", fair=_FETCHING + _TIMER)
def hwm_comes_with_the_timer(m: Quorum, s: State) -> Truth:
    """Where the park timer ends each fetch that stays parked, every replica comes to know its leader's HWM."""
    return _all_know(m, s, _every_pair)


@always_eventually("595.5, 595.7", fair=_FETCHING + _LEARNING + _TIMER)
def what_a_leader_has_is_committed(m: Quorum, s: State) -> Truth:
    """The latest leader commits all that it has, and everyone comes to know it, once they have learned of it."""
    return all_of(
        ~(
            s.members[v].leader.is_(v)
            & all_of((s.members[v].epoch >= e) | s.elected[e].is_none for e in m.epoch)
        )
        | all_of(s.members[f].hwm == s.members[v].log.length for f in m.member)
        for v in m.voter
    )


@always_eventually("1166.2, 1166.4", fair=_FETCHING)
def fetches_come_to_rest(m: Quorum, s: State) -> Truth:
    """Again and again every fetch to a leader is parked: nobody fetches for ever what is not news.

    Where the scenario leaves out the park timer; else that ends one fetch or another at any time.
    """
    return all_of(
        ~any_of(_follows(s, f, leader) for leader in m.voter if int(leader) != int(f))
        | (s.parked[f].is_some & (s.parked[f].value.epoch == s.members[f].epoch))
        for f in m.member
    )


LIVENESS = (
    hwm_comes_without_the_timer,
    hwm_comes_to_older_without_the_timer,
    hwm_comes_with_the_timer,
    what_a_leader_has_is_committed,
    fetches_come_to_rest,
)
