"""How far a leader's high watermark can move. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater.model.language import (
    Number,
    OptionValue,
    SeqValue,
    State,
    StructValue,
    Truth,
    action,
    any_of,
    as_bool,
    greatest,
    least,
    one_of,
    require,
    spend,
    total,
    under,
    where,
)
from highwater.model.quorum.cluster import UNKNOWN, Cluster
from highwater.model.replication import logs


def replicated_offset(ends: Sequence[Number], count: int) -> Number:
    """The greatest of these offsets that at least ``count`` of them have reached; −1 where fewer than that are known.

    An offset that is not known is −1.
    """
    reached = [where(total(other >= end for other in ends) >= count, end, -1) for end in ends]
    return greatest(reached[0], *reached[1:])


def epoch_start(log: SeqValue, epoch: Number) -> Number:
    """Where a leader's epoch starts on its log: one past the last record of an earlier one."""
    return total((log.length > i) & (log.at(i).epoch < epoch) for i in range(log.type.maximum))


# What a leader does with its log: append, commit, and complete the fetches that are parked with it.
#
# In the metadata quorum a majority commits, not an ISR. The leader's HWM moves when a voter's fetch says
# how far that one
# is, or when the leader is its own majority; it then has to reach the others, and that is what KIP-1166 is
# about.


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


# Members fetch, leaders answer or park the fetch, and the park timer ends it (KIP-1166).
#
# A fetch without new records is parked at the leader, for 500 ms at most, so that members need not ask all
# the time. But
# an answer has two things in it, records and the HWM. Before KIP-1166 the leader did not know which HWM a
# member has, and
# parked fetches of members that lacked only that: a record was committed, and members heard of it half a
# second later.
# Now the fetch says it.


@action("595.1, 1166.1", says="member {f} sends a fetch", f="member")
def send_fetch(q: Cluster, s: State, f: Number) -> None:
    """From its LEO, with its epoch, the epoch of its last record and its HWM.

    One at a time in an epoch. A new epoch has a new leader, and what was asked of the old one is given up.
    """
    me, before, parked = s.members[f], s.requests[f], s.parked[f]
    require("the member knows a leader", q.follows(f, me))
    require("no answer is under way", s.responses[f].is_none)
    require("no fetch of this epoch is under way", before.is_none | (before.value.epoch != me.epoch))
    require("no fetch of this epoch is parked", parked.is_none | (parked.value.epoch != me.epoch))
    s.next.requests[f] = q.request(
        leader=me.leader.value,
        epoch=me.epoch,
        offset=me.log.length,
        last_epoch=logs.last_epoch(q.some_epoch, me.log),
        hwm=where(s.finalised[f], carried_hwm(q, f, me), None)
        if q.p.finalised_late
        else carried_hwm(q, f, me),
    )


@action("1166.1", says="member {m} learns that version 18 of Fetch is finalised", m="member")
def learn_version(q: Cluster, s: State, m: Number) -> None:
    """From its next fetch on it says which HWM it knows. One that is parked has not said so."""
    require("versions are finalised", bool(q.p.finalised_late))
    require("the member supports it", not q.is_older(m))
    require("the member does not know yet", ~s.finalised[m])
    s.next.finalised[m] = True


def carried_hwm(q: Cluster, f: Number, member: StructValue) -> OptionValue:
    """1166.1, 1166.5. The HWM field of a member's fetch; none: it is not there, or has its default.

    To know none, −1, is another thing than to say nothing: who says −1 is answered, who says nothing is parked. A
    consumer is parked: it waits for records, and no HWM is news to it.
    """
    if q.is_older(f) or not q.on("fetch_carries_hwm"):
        return q.hwm_field.none()
    if q.is_consumer(f):
        return q.hwm_field.none() if q.on("consumers_leave_it_out") else q.hwm_field.some(UNKNOWN)
    told = q.hwm_field.some(member.hwm)
    if q.on("unknown_hwm_is_told"):
        return told
    return where(member.hwm == UNKNOWN, None, told)


# --- the leader ---------------------------------------------------------------------------------------------


@action(
    "595.4, 1166.2, 1166.3",
    says="leader {leader} takes the fetch of member {f}",
    leader="voter",
    f="member",
)
def receive_fetch(q: Cluster, s: State, leader: Number, f: Number) -> None:
    """The leader notes how far a voter is, which can move its HWM, and then answers the fetch or parks it.

    In this order: a fetch that moves the HWM is itself answered with it. The HWM that has grown is news to all others
    that are parked, so they are answered, too (1166.3): nothing else would tell them before their timers.
    """
    request, me = s.requests[f], s.members[leader]
    require("a fetch is under way", request.is_some)
    fetch = request.value
    require("it is for this member", fetch.leader == leader)
    require("the fetch can be used", can_use(q, leader, me, fetch))
    diverging = q.on("divergence_check") & logs.diverges(me.log, fetch.offset, fetch.last_epoch)
    after = settle(q, s, leader, where(diverging, me, note_fetch(q, me, f, fetch)))
    plain = answer(q, f, after, fetch.offset)
    # An answer that tells where to truncate is not empty, although it has no record.
    empty = plain.record.is_none & ~diverging if q.on("diverging_is_answered") else plain.record.is_none
    parks = empty & may_park(q, leader, fetch.hwm, after.hwm)
    s.next.requests[f] = None
    respond(q, s, f, ~parks, where(diverging, truncation(q, me, fetch, plain), plain))
    kept = q.parked_type(
        leader=leader, epoch=me.epoch, offset=fetch.offset, told=fetch.hwm.is_some, answer=after.hwm
    )
    s.next.parked[f] = where(parks, q.some_parked.some(kept), s.parked[f])
    complete_parked(q, s, leader, after, after.hwm > me.hwm, told_of_growth(q, leader, f))


def told_of_growth(q: Cluster, leader: Number, f: Number) -> list[Number]:
    """1166.3. Those whose parked fetches end when a fetch of another one has moved the HWM.

    All of them, as it is news to all. For consumers it is a record that comes to be there, as it always was.
    """
    others = [g for g in q.member if int(g) != int(f)]
    if not q.on("hwm_growth_completes") or q.is_older(leader):
        return [g for g in others if q.is_consumer(g)]
    if q.on("growth_completes_all"):
        return others
    left_out = one_of("left out", [int(g) for g in others])
    return [g for g in others if int(g) != left_out]


def note_fetch(q: Cluster, leader: StructValue, f: Number, fetch: StructValue) -> StructValue:
    """A leader that has heard of a member: it holds all before the fetch offset. Of observers nothing is noted."""
    if int(f) >= q.counted.size:
        return leader
    return leader.replace(fetched=leader.fetched.set(f, fetch.offset))


def truncation(q: Cluster, leader: StructValue, fetch: StructValue, plain: StructValue) -> StructValue:
    """The answer to a log that diverges: the last epoch that both can have, and where it ends on the leader's log."""
    end = logs.end_offset_for_epoch(leader.log, fetch.last_epoch.value)
    end_epoch = where(end > 0, q.some_epoch.some(logs.epoch_before(leader.log, end)), None)
    return plain.replace(diverging=True, record=None, end_epoch=end_epoch, end=end)


def may_park(q: Cluster, leader: Number, remote: OptionValue, hwm: Number) -> Truth:
    """1166.2, 1166.4. Whether a leader with this HWM may park a fetch that has no new records.

    Where the member is behind, the answer is news to it. Where the field is missing its sender is older and the leader
    does as before: the greatest HWM there is stands for it, so that one comparison will do for all.
    """
    if q.is_older(leader) or not q.on("behind_is_answered"):
        return as_bool(True)
    missing = as_bool(True) if q.on("missing_hwm_is_greatest") else hwm <= UNKNOWN
    told = hwm <= remote.value if q.on("equal_hwm_parks") else hwm < remote.value
    parks: Truth = where(remote.is_some, told, missing)
    return parks


def can_use(q: Cluster, m: Number, member: StructValue, fetch: StructValue) -> Truth:
    """Whether a member takes itself for the leader, and a fetch for one of its epoch.

    A fetch of another epoch says nothing of this leader's log: counted, it could commit what its sender truncates.
    """
    return q.leads(m, member) & under("fetch_epoch_check", fetch.epoch == member.epoch)


@action("595.1", says="the fetch of member {f} is refused", f="member")
def refuse_fetch(q: Cluster, s: State, f: Number) -> None:
    """It came to a member that does not lead, or not in its epoch.

    The error tells the member nothing here; it fetches again when it has learnt of a leader.
    """
    request = s.requests[f]
    require("a fetch is under way", request.is_some)
    for m in q.voter:
        usable = can_use(q, m, s.members[m], request.value)
        require(f"member {int(m)}, if it is for it, cannot use it", (request.value.leader != m) | ~usable)
    s.next.requests[f] = None


@action(
    "1166.4",
    says="the park timer of leader {leader} ends the fetch of member {f}",
    leader="voter",
    f="member",
)
def park_timer(q: Cluster, s: State, leader: Number, f: Number) -> None:
    """500 ms are over: the fetch is answered without records.

    Kafka answers with what it had in hand when the fetch parked, the HWM of that time included: even the timer need
    not bring the news.
    """
    parked, me = s.parked[f], s.members[leader]
    require("there is a park timer", bool(q.p.timer))
    require("the fetch is parked", parked.is_some)
    require("it is parked with this leader", parked.value.leader == leader)
    hwm = parked.value.answer if q.on("timer_answers_as_parked") else me.hwm
    plain = answer(q, f, me, parked.value.offset)
    late = plain.replace(epoch=parked.value.epoch, record=None, hwm=hwm, timed_out=True)
    respond(q, s, f, parked.is_some, late)
    s.next.parked[f] = None


# --- the member that asked ----------------------------------------------------------------------------------


@action("595.1, 595.2, 595.6", says="member {f} takes the answer to its fetch", f="member")
def take_answer(q: Cluster, s: State, f: Number) -> None:
    """It appends the record or truncates its log, and takes over the HWM.

    Only in the epoch that it fetched in: the log of a former leader may not be that of the present one.
    """
    me, response = s.members[f], s.responses[f]
    require("an answer is under way", response.is_some)
    got = response.value
    current = q.follows(f, me) & under("fetch_response_check", got.epoch == me.epoch)
    appended = where(got.record.is_some, me.log.append(got.record.value), me.log)
    end = logs.truncation_offset(me.log, got.end_epoch, got.end)
    log = where(got.diverging, me.log.truncate(end), appended)
    told = least(got.hwm, log.length) if q.on("hwm_within_log") else got.hwm
    hwm = where(got.diverging | (got.hwm == UNKNOWN), me.hwm, told)
    after = me.replace(log=log, hwm=hwm, peak=greatest(me.peak, hwm), heard=True)
    s.next.members[f] = where(current, after, me)
    s.next.responses[f] = None


@action("F1", says="the fetch of member {f}, or its answer, is lost", f="member")
def lose_fetch(q: Cluster, s: State, f: Number) -> None:
    """The connection breaks; a fetch that is parked is lost with it.

    The member cannot tell how far it came, and asks again: nothing in a fetch may count twice.
    """
    under_way = s.requests[f].is_some | s.parked[f].is_some | s.responses[f].is_some
    require("a fetch or an answer is under way", under_way)
    spend(s, "losses")
    s.next.requests[f] = None
    s.next.parked[f] = None
    s.next.responses[f] = None
