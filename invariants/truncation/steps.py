"""What must hold of every step of the truncation protocol: epochs, decisions, what replicas take over, and logs."""

from __future__ import annotations

from highwater.model.language import State, all_of, any_of, implies, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import SeqValue, StructValue, Truth
from highwater.model.truncation import Truncation


@step_property("B8")
def decisions_have_epochs_of_their_own(m: Truncation, before: State, after: State) -> Truth:
    """Another leader has the next leader epoch; a request is sent once in each, and says what was decided.

    In an epoch the ISR changes by one replica at most; the leader is one of the ISR that was, and stays in it.
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
        implies(old.isr != new.isr, size(old.isr - new.isr) + size(new.isr - old.isr) == 1),
        implies(new.isr.is_empty, new.leader.is_none),
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
    """A leader that nobody follows in office has left the ISR, or was its last member; and who leaves leads no more.

    The last member leaves only a partition without a leader: else nobody could be elected cleanly ever again.
    """
    old, new = before.quorum, after.quorum
    gone = old.isr - new.isr
    lost = old.leader.is_some & new.leader.is_none
    own = any_of(old.leader.is_(r) & (gone.has(r) | (old.isr == [r])) for r in m.replica)
    stays = all_of(~gone.has(r) | ~new.leader.is_(r) for r in m.replica)
    reelected = new.leader.is_some & (old.leader_epoch != new.leader_epoch) & gone.is_empty
    last = implies(new.isr.is_empty, old.isr.is_empty | old.leader.is_none)
    kept = implies(lost, own) & implies(old.isr != new.isr, stays) & last
    return kept & implies(reelected, old.leader != new.leader)


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
        cut = (new.hwm == length) & (new.hwm < old.hwm)
        kept.append(implies(moved & ~m.presumes_leadership(after, r) & ~fetched, cut))
    return all_of(kept)


@step_property("B3, B4")
def hwms_stay_within_their_logs(m: Truncation, before: State, after: State) -> Truth:
    """A replica whose log is truncated, or that begins to follow, has no HWM past the end of its log.

    There is no record there that could be committed; and a replica whose HWM is past its log shows consumers what it
    does not have.
    """
    kept = []
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        begins = (old.leader_epoch != new.leader_epoch) & ~m.presumes_leadership(after, r)
        truncated = after.logs[r].length < before.logs[r].length
        kept.append(implies(begins | truncated, new.hwm <= after.logs[r].length))
    return all_of(kept)


@step_property("101.1", rule="leader_epoch_lookup")
def hwms_stay_where_the_leader_knows_no_end(m: Truncation, before: State, after: State) -> Truth:
    """A new follower truncates below its HWM only if its leader has a record of that log's last epoch, or a later one.

    Where the leader knows no end of that epoch, all below the HWM stays.
    """
    kept = []
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        cut = (old.leader_epoch != new.leader_epoch) & (after.logs[r].length < old.hwm)
        last = before.logs[r].last.epoch
        knows = any_of(
            new.leader.is_(x) & ~before.logs[x].is_empty & (before.logs[x].last.epoch >= last)
            for x in m.replica
        )
        kept.append(implies(cut, knows))
    return all_of(kept)


@step_property("320.1", rule="fenced_fetch")
def records_come_from_the_leader_of_the_epoch(m: Truncation, before: State, after: State) -> Truth:
    """A follower takes a record only from the leader of its own epoch: of another one the log may have parted."""
    kept = []
    for r in m.replica:
        old, new = before.logs[r], after.logs[r]
        longer = (old.length != new.length) & (old.length < new.length) & ~m.presumes_leadership(before, r)
        own = [m.follows_in_epoch(before, r, x) & (before.logs[x].length > old.length) for x in m.replica]
        kept.append(implies(longer, any_of(own)))
    return all_of(kept)


@step_property("320.6, B3", rule="divergence_on_fetch")
def records_come_behind_what_both_have(m: Truncation, before: State, after: State) -> Truth:
    """A follower takes a record only where the leader has one of the same leader epoch before it."""
    kept = []
    for r in m.replica:
        old, new = before.logs[r], after.logs[r]
        longer = (old.length != new.length) & (old.length < new.length) & ~m.presumes_leadership(before, r)
        own = [
            m.follows(before, r, x)
            & (before.logs[x].length > old.length)
            & (old.is_empty | (before.logs[x][old.length - 1].epoch == old.last.epoch))
            for x in m.replica
        ]
        kept.append(implies(longer, any_of(own)))
    return all_of(kept)


@step_property("320.2", rule="fenced_truncation")
def logs_are_compared_in_the_epoch(m: Truncation, before: State, after: State) -> Truth:
    """Who begins to follow in an epoch has asked the leader of that epoch where to truncate, and that one leads."""
    kept = []
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        moved = (old.leader_epoch != new.leader_epoch) & new.leader.is_some & ~new.leader.is_(r)
        kept.append(
            implies(moved, any_of(m.follows_in_epoch(after, r, x) for x in m.replica if int(x) != int(r)))
        )
    return all_of(kept)


@step_property("B3")
def logs_are_truncated_by_a_leader(m: Truncation, before: State, after: State) -> Truth:
    """A log is truncated only by one that a presumed leader has, or as a replica begins to follow in an epoch."""
    kept = []
    for r in m.replica:
        old, new = before.logs[r], after.logs[r]
        begins = before.replicas[r].leader_epoch != after.replicas[r].leader_epoch
        by = [
            m.presumes_leadership(before, x)
            & m.follows(before, r, x)
            & all_of(
                (new.length <= o) | ((before.logs[x].length > o) & (before.logs[x][o] == new[o]))
                for o in range(m.p.log_size)
            )
            for x in m.replica
            if int(x) != int(r)
        ]
        shorter = (old.length != new.length) & (new.length < old.length)
        kept.append(implies(shorter, begins | any_of(by)))
    return all_of(kept)


@step_property("B5, 320.4")
def who_joins_the_isr_follows_and_has_what_counts(m: Truncation, before: State, after: State) -> Truth:
    """Who comes into the ISR follows its leader, in its epoch where that is asked, with a log up to its HWM."""
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
def who_has_caught_up_stays_in_the_isr(m: Truncation, before: State, after: State) -> Truth:
    """A leader takes nobody out of its ISR who follows in its epoch and has its last record."""
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


@step_property("B4, 320.3", rule="fenced_high_watermark")
def hwms_wait_for_the_isr(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM passes a record only when all in its ISR follow it in its epoch, and have logs as long."""
    kept = []
    for x in m.replica:
        old, new = before.replicas[x], after.replicas[x]
        further = (old.hwm != new.hwm) & (old.hwm < new.hwm) & m.presumes_leadership(after, x)
        there = [
            ~old.isr.has(r) | (m.follows_in_epoch(before, r, x) & (before.logs[r].length >= new.hwm))
            for r in m.replica
        ]
        kept.append(implies(further, m.presumes_leadership(before, x) & all_of(there)))
    return all_of(kept)


WATCHED = (
    decisions_have_epochs_of_their_own,
    leadership_is_lost_with_membership,
    replicas_take_what_was_sent,
    logs_grow_by_their_leaders,
    hwms_follow_leaders_and_logs,
    hwms_stay_within_their_logs,
    hwms_stay_where_the_leader_knows_no_end,
    records_come_from_the_leader_of_the_epoch,
    records_come_behind_what_both_have,
    logs_are_compared_in_the_epoch,
    logs_are_truncated_by_a_leader,
    who_joins_the_isr_follows_and_has_what_counts,
    who_has_caught_up_stays_in_the_isr,
    hwms_wait_for_the_isr,
)
