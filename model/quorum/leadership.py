"""What a leader does with its log: append, commit, and complete the fetches that are parked with it.

In the metadata quorum a majority commits, not an ISR. The leader's HWM moves when a voter's fetch says how far that one
is, or when the leader is its own majority; it then has to reach the others, and that is what KIP-1166 is about.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater.model.language import (
    Number,
    SeqValue,
    State,
    StructValue,
    Truth,
    action,
    any_of,
    greatest,
    require,
    spend,
    where,
)
from highwater.model.quorum.cluster import UNKNOWN, Cluster
from highwater.model.quorum.high_watermark import epoch_start, replicated_offset


@action("595.3", says="leader {leader} appends a record", leader="voter")
def append(q: Cluster, s: State, leader: Number) -> None:
    """A record of the leader's epoch. What waits for records is answered.

    Parked fetches are what makes this quick: who waits at the log end hears of the record without asking again.
    """
    me = s.members[leader]
    require("the member takes itself for the leader", q.leads(leader, me))
    spend(s, "appends")
    after = settle(q, s, leader, me.replace(log=me.log.append(q.record(epoch=me.epoch))))
    if q.on("records_complete"):
        complete_parked(q, s, leader, after, q.leads(leader, me), q.member)


@action(
    "K25",
    rule="empty_drain_completes",
    says="leader {leader} finds nothing to append, and answers what is parked",
    leader="voter",
)
def drain_nothing(q: Cluster, s: State, leader: Number) -> None:
    """Its timer for appends runs out, and the queue is empty: fetches that wait at the log end are answered."""
    me = s.members[leader]
    require("the member takes itself for the leader", q.leads(leader, me))
    waits = (s.parked[f].is_some & (s.parked[f].value.leader == leader) for f in q.member)
    require("a fetch is parked with it", any_of(waits))
    complete_parked(q, s, leader, me, q.leads(leader, me), q.member)


# --- the high watermark -------------------------------------------------------------------------------------


def settle(q: Cluster, s: State, leader: Number, member: StructValue) -> StructValue:
    """Write a leader as a step leaves it, its HWM as far as it can be and never back. Returns what was written."""
    hwm = greatest(member.hwm, reachable_hwm(q, leader, member))
    after: StructValue = member.replace(hwm=hwm, peak=greatest(member.peak, hwm))
    s.next.members[leader] = after
    commit(q, s, member.log, hwm)
    return after


def commit(q: Cluster, s: State, log: SeqValue, hwm: Number) -> None:
    """What a leader's HWM has passed is committed, and stays so whatever becomes of that leader."""
    committed: SeqValue = s.committed
    for offset in q.offsets:
        is_news = (hwm > offset) & (committed.length == offset)
        committed = where(is_news, committed.append(log.at(offset)), committed)
    s.next.committed = committed


def reachable_hwm(q: Cluster, leader: Number, member: StructValue) -> Number:
    """The offset that a majority has and that the rules let the HWM move to; −1 where there is none.

    A record of an earlier epoch does not count for itself, however many have it: a later leader may still come that
    lacks it. Once a record of the leader's own epoch is on a majority, nobody without it is elected, and all before
    it is safe with it.
    """
    ends = [member.log.length if int(v) == int(leader) else member.fetched[v] for v in q.counted]
    count = q.majority if q.on("majority_commits") else min(2, q.majority)
    offset = replicated_offset(ends, count)
    if q.on("own_epoch_commits"):
        offset = where(offset > epoch_start(member.log, member.epoch), offset, UNKNOWN)
    return offset


# --- answers ------------------------------------------------------------------------------------------------


def readable(q: Cluster, f: Number, leader: StructValue) -> Number:
    """B6, 595.4. The end of what a leader gives out: all to members of the quorum, what is committed to consumers."""
    if q.is_consumer(f) and q.on("consumers_read_committed"):
        return greatest(leader.hwm, 0)
    end: Number = leader.log.length
    return end


def answer(q: Cluster, f: Number, leader: StructValue, offset: Number) -> StructValue:
    """What a leader says to a fetch from this offset on: the next record, if there is one, and its HWM."""
    has_record = readable(q, f, leader) > offset
    return q.response(
        epoch=leader.epoch,
        record=where(has_record, q.some_record.some(leader.log[offset]), None),
        hwm=leader.hwm,
        diverging=False,
        end_epoch=None,
        end=0,
        timed_out=False,
    )


def respond(q: Cluster, s: State, f: Number, condition: Truth, sent: StructValue) -> None:
    """Send an answer, where the condition holds. One of an older epoch that is still under way is of no use."""
    before = s.responses[f]
    sends = condition & (before.is_none | (before.value.epoch <= sent.epoch))
    s.next.responses[f] = where(sends, q.some_response.some(sent), before)


def complete_parked(
    q: Cluster, s: State, leader: Number, after: StructValue, condition: Truth, among: Iterable[Number]
) -> None:
    """Answer those of these members' fetches that are parked with a leader, where the condition holds.

    A consumer's only where there is a record for it.
    """
    for f in among:
        parked = s.parked[f]
        ends = condition & parked.is_some & (parked.value.leader == leader)
        if q.is_consumer(f):
            ends &= readable(q, f, after) > parked.value.offset
        respond(q, s, f, ends, answer(q, f, after, parked.value.offset))
        s.next.parked[f] = where(ends, None, parked)
