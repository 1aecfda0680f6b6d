"""What must hold of every step of the truncation protocol: epochs, decisions, what replicas take over, and logs."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, implies, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import SeqValue, StructValue, Truth
from highwater.model.truncation import Truncation


@step_property("B8")
def decisions_have_epochs_of_their_own(m: Truncation, before: State, after: State) -> Truth:
    """Another leader has the next leader epoch; a request is sent once in each, and says what was decided.

    In an epoch the ISR changes by one replica at most; the leader is one of the ISR that was, and someone stays in it.
    """
    old, new = before.quorum, after.quorum
    none, some = old.leader_epoch.is_none, new.leader_epoch.is_some
    follows = some & (
        (none & (new.leader_epoch.value == 0)) | (new.leader_epoch.value == old.leader_epoch.value + 1)
    )
    decided = old.leader_epoch != new.leader_epoch
    kept = [
        implies(old.leader != new.leader, decided),
        implies(decided, follows),
        implies(new.leader.is_some & (old.leader != new.leader), _is_of(m, old, new)),
        implies(
            old.isr != new.isr, ~new.isr.is_empty & (size(old.isr - new.isr) + size(new.isr - old.isr) == 1)
        ),
    ]
    for e in m.epoch:
        sent = after.requests[e]
        says = new.leader_epoch.is_(e) & (sent.leader == new.leader) & (sent.isr == new.isr)
        kept.append(implies(before.requests[e] != sent, decided & says))
        told = (sent.leader == new.leader) & (sent.isr == new.isr)
        kept.append(implies(decided & new.leader_epoch.is_(e), told))
    return all_of(kept)


def _is_of(m: Truncation, old: StructValue, new: StructValue) -> Truth:
    return any_of(new.leader.is_(r) & old.isr.has(r) & new.isr.has(r) for r in m.replica)


@step_property("B8")
def leadership_is_lost_with_membership(m: Truncation, before: State, after: State) -> Truth:
    """A leader that nobody follows in office has left the ISR, or was its last member; and who leaves leads no more."""
    old, new = before.quorum, after.quorum
    gone = old.isr - new.isr
    lost = old.leader.is_some & new.leader.is_none
    own = any_of(old.leader.is_(r) & (gone.has(r) | (old.isr == [r])) for r in m.replica)
    stays = all_of(~gone.has(r) | ~new.leader.is_(r) for r in m.replica)
    reelected = new.leader.is_some & (old.leader_epoch != new.leader_epoch) & gone.is_empty
    return (
        implies(lost, own) & implies(old.isr != new.isr, stays) & implies(reelected, old.leader != new.leader)
    )


@step_property("B5, B8")
def replicas_take_what_was_sent(m: Truncation, before: State, after: State) -> Truth:
    """A replica never goes back to an earlier epoch; what it takes over is the request of its new one, and all of it.

    In an epoch only the ISR of its leader changes, to the controller's.
    """
    kept = []
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        moved = old.leader_epoch != new.leader_epoch
        later = new.leader_epoch.is_some & (
            old.leader_epoch.is_none | (old.leader_epoch.value < new.leader_epoch.value)
        )
        said = any_of(
            new.leader_epoch.is_(e)
            & (before.requests[e].leader == new.leader)
            & (before.requests[e].isr == new.isr)
            for e in m.epoch
        )
        sent = before.quorum.leader_epoch
        known = sent.is_some & new.leader.is_some & (new.leader_epoch.value <= sent.value)
        kept.append(implies(moved, later & said & known))
        kept.append(implies(old.leader != new.leader, moved))
        altered = (old.isr != new.isr) & ~moved
        kept.append(implies(altered, m.is_true_leader(before, r) & (new.isr == after.quorum.isr)))
    altered = (before.quorum.isr != after.quorum.isr) & (
        before.quorum.leader_epoch == after.quorum.leader_epoch
    )
    told = [~m.is_true_leader(before, r) | (after.replicas[r].isr == after.quorum.isr) for r in m.replica]
    leader = any_of(m.is_true_leader(before, r) for r in m.replica)
    kept.append(implies(altered, leader & all_of(told)))
    return all_of(kept)


@step_property("B1, B2")
def logs_grow_by_their_leaders(m: Truncation, before: State, after: State) -> Truth:
    """A log grows by one record: a new one of the leader's epoch, or one that a presumed leader has at that offset.

    Else it is truncated: never a presumed leader's.
    """
    kept = []
    for r in m.replica:
        old, new = before.logs[r], after.logs[r]
        longer = (new.length == old.length + 1) & _begins_with(m, new, old)
        me = before.replicas[r]
        fresh = (new.last.id == before.next_record_id) & (after.next_record_id == before.next_record_id + 1)
        wrote = m.presumes_leadership(before, r) & me.leader_epoch.is_(new.last.epoch) & fresh
        copied = any_of(
            m.presumes_leadership(before, x)
            & m.follows(before, r, x)
            & (before.logs[x].length > old.length)
            & (before.logs[x][old.length] == new.last)
            for x in m.replica
            if int(x) != int(r)
        )
        shorter = (new.length < old.length) & _begins_with(m, old, new) & ~m.presumes_leadership(after, r)
        kept.append(implies(old != new, (longer & (wrote | copied)) | shorter))
    news = before.next_record_id != after.next_record_id
    kept.append(implies(news, any_of(before.logs[r] != after.logs[r] for r in m.replica)))
    return all_of(kept)


def _begins_with(m: Truncation, log: SeqValue, other: SeqValue) -> Truth:
    """Whether a log begins with another one."""
    offsets = range(m.p.log_size)
    return all_of((other.length <= o) | ((log.length > o) & (log.at(o) == other.at(o))) for o in offsets)


@step_property("B4")
def hwms_follow_leaders_and_logs(m: Truncation, before: State, after: State) -> Truth:
    """An HWM is within its log and moves back only with it; a leader's goes on by one record at a time.

    A follower's is not greater than that of a presumed leader whose record it has just fetched.
    """
    kept = []
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        moved = old.hwm != new.hwm
        length = after.logs[r].length
        kept.append(implies(moved, new.hwm <= length))
        kept.append(implies(moved & m.presumes_leadership(after, r), new.hwm == old.hwm + 1))
        fetched = (before.logs[r].length != length) & (before.logs[r].length < length)
        fetched = fetched & ~m.presumes_leadership(before, r)
        takes = any_of(
            m.presumes_leadership(before, x)
            & m.follows(before, r, x)
            & (
                (new.hwm == before.replicas[x].hwm)
                | ((before.replicas[x].hwm > length) & (new.hwm == length))
            )
            for x in m.replica
        )
        kept.append(implies(fetched, takes))
        kept.append(implies(moved & ~m.presumes_leadership(after, r) & ~fetched, new.hwm == length))
    return all_of(kept)


STEP_PROPERTIES = (
    decisions_have_epochs_of_their_own,
    leadership_is_lost_with_membership,
    replicas_take_what_was_sent,
    logs_grow_by_their_leaders,
    hwms_follow_leaders_and_logs,
)

__all__ = ["STEP_PROPERTIES"]
