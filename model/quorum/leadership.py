"""A leader of the metadata quorum appends, commits, and answers or parks fetches; members take the responses."""

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
    """The greatest offset that at least ``count`` members have reached; −1 if there is none.

    ``ends`` has the log end offset of each member; −1: unknown.
    """
    reached = [where(total(other >= end for other in ends) >= count, end, -1) for end in ends]
    return greatest(reached[0], *reached[1:])


def epoch_start(log: SeqValue, epoch: Number) -> Number:
    """The start offset of an epoch in a log: the offset after the last record of an earlier epoch."""
    return total((log.length > i) & (log.at(i).epoch < epoch) for i in range(log.type.maximum))


# The leader's log: append, commit, and complete parked fetches.
#
# In the metadata quorum a majority of the voters commits, not an ISR. The leader's HWM advances if a voter's fetch
# carries a larger offset, or if the leader alone is a majority. KIP-1166 defines how other members learn the new HWM.


@action("595.3", says="leader {leader} appends a record", leader="voter")
def append(q: Cluster, s: State, leader: Number) -> None:
    """A leader appends a record of its epoch, and answers the fetches that wait for records.

    A member with a parked fetch receives the record immediately, without another request.
    """
    me = s.members[leader]
    require("the member believes that it leads", q.leads(leader, me))
    spend(s, "appends")
    after = advance_hwm(q, s, leader, me.replace(log=me.log.append(q.record(epoch=me.epoch))))
    if q.on("records_complete"):
        complete_parked(q, s, leader, after, q.leads(leader, me), q.member)


@action(
    "K25",
    rule="empty_drain_completes",
    says="leader {leader} finds nothing to append, and answers parked fetches",
    leader="voter",
)
def drain_nothing(q: Cluster, s: State, leader: Number) -> None:
    """The leader's append timer fires with an empty queue: the leader answers the fetches that are parked with it."""
    me = s.members[leader]
    require("the member believes that it leads", q.leads(leader, me))
    waits = (s.parked[f].is_some & (s.parked[f].value.leader == leader) for f in q.member)
    require("a fetch is parked with it", any_of(waits))
    complete_parked(q, s, leader, me, q.leads(leader, me), q.member)


# --- the high watermark -------------------------------------------------------------------------------------


def advance_hwm(q: Cluster, s: State, leader: Number, member: StructValue) -> StructValue:
    """Advance a leader's HWM as far as the rules allow, and never back. Write and return the changed leader.

    The records below the HWM are recorded as committed.
    """
    hwm = greatest(member.hwm, reachable_hwm(q, leader, member))
    after: StructValue = member.replace(hwm=hwm, peak=greatest(member.peak, hwm))
    s.next.members[leader] = after
    commit(q, s, member.log, hwm)
    return after


def commit(q: Cluster, s: State, log: SeqValue, hwm: Number) -> None:
    """Record every record below a leader's HWM as committed. Committed records stay committed."""
    committed: SeqValue = s.committed
    for offset in q.offsets:
        is_news = (hwm > offset) & (committed.length == offset)
        committed = where(is_news, committed.append(log.at(offset)), committed)
    s.next.committed = committed


def reachable_hwm(q: Cluster, leader: Number, member: StructValue) -> Number:
    """The offset to which the rules let the HWM advance, because a majority has reached it; −1 if there is none.

    Copies on a majority do not commit a record of an earlier epoch, because a later leader may lack the record. If a
    majority holds a record of the leader's own epoch, no member without this record can be elected. All earlier records
    are then safe, too.
    """
    ends = [member.log.length if int(v) == int(leader) else member.fetched[v] for v in q.counted]
    count = q.majority if q.on("majority_commits") else min(2, q.majority)
    offset = replicated_offset(ends, count)
    if q.on("own_epoch_commits"):
        offset = where(offset > epoch_start(member.log, member.epoch), offset, UNKNOWN)
    return offset


# --- answers ------------------------------------------------------------------------------------------------


def readable(q: Cluster, f: Number, leader: StructValue) -> Number:
    """B6, 595.4. The offset up to which ``f`` can read the leader's log: the HWM for consumers, otherwise the LEO."""
    if q.is_consumer(f) and q.on("consumers_read_committed"):
        return greatest(leader.hwm, 0)
    end: Number = leader.log.length
    return end


def answer(q: Cluster, f: Number, leader: StructValue, offset: Number) -> StructValue:
    """A leader's response to a fetch at this offset: the record there, if ``f`` can read it, and the leader's HWM."""
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
    """Send member ``f`` a response if the condition holds and no response of a later epoch is in flight.

    The new response replaces a response in flight.
    """
    before = s.responses[f]
    sends = condition & (before.is_none | (before.value.epoch <= sent.epoch))
    s.next.responses[f] = where(sends, q.some_response.some(sent), before)


def complete_parked(
    q: Cluster, s: State, leader: Number, after: StructValue, condition: Truth, among: Iterable[Number]
) -> None:
    """If the condition holds, answer the fetches of the members ``among`` that are parked with the leader.

    The leader answers a consumer's fetch only if the consumer can read a record at the fetch offset. ``after`` is the
    leader with its new HWM.
    """
    for f in among:
        parked = s.parked[f]
        ends = condition & parked.is_some & (parked.value.leader == leader)
        if q.is_consumer(f):
            ends &= readable(q, f, after) > parked.value.offset
        respond(q, s, f, ends, answer(q, f, after, parked.value.offset))
        s.next.parked[f] = where(ends, None, parked)


# Members fetch; leaders answer or park fetches; the park timer ends a parked fetch (KIP-1166).
#
# A leader parks a fetch without new records for at most 500 ms, so members need not poll. A response carries records
# and the HWM. Before KIP-1166 the leader did not know a member's HWM, and also parked the fetch of a member that lacked
# only the HWM. The member then learned of a commit half a second late. With KIP-1166 a fetch carries the member's HWM.


@action("595.1, 1166.1, K26", says="member {f} sends a fetch", f="member")
def send_fetch(q: Cluster, s: State, f: Number) -> None:
    """A member fetches at its LEO, with its epoch, the epoch of its last record and its HWM.

    Precondition: the member follows a leader, and has no response in flight and no other fetch of its epoch. The new
    fetch replaces a fetch of an earlier epoch. K26: it replaces any fetch that the member has forgotten.
    """
    me, before, parked = s.members[f], s.requests[f], s.parked[f]
    require("the member follows a leader", q.follows(f, me))
    if q.on("change_forgets_requests"):
        idle = before.is_none & parked.is_none & s.responses[f].is_none
        require("the member waits for no answer", idle | ~me.awaits)
        s.next.members[f] = me.replace(awaits=True)
        s.next.parked[f] = None
        s.next.responses[f] = None
    else:
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
    """A member learns that Fetch version 18 is finalised, so its later fetches carry its HWM.

    A fetch that is already parked still lacks the HWM.
    """
    require("versions are finalised", q.p.finalised_late)
    require("the member supports it", not q.is_older(m))
    require("the member does not know yet", ~s.finalised[m])
    s.next.finalised[m] = True


def carried_hwm(q: Cluster, f: Number, member: StructValue) -> OptionValue:
    """1166.1, 1166.5. The HWM field of a member's fetch; none if the field is missing or has its default.

    A member sends an unknown HWM as −1, because the leader parks a fetch without the field. A consumer leaves the field
    out, because it waits for records only.
    """
    if q.is_older(f) or not q.on("fetch_carries_hwm"):
        return q.hwm_field.none()
    if q.is_consumer(f):
        return q.hwm_field.none() if q.on("consumers_leave_it_out") else q.hwm_field.some(UNKNOWN)
    known = q.hwm_field.some(member.hwm)
    if q.on("unknown_hwm_is_told"):
        return known
    return where(member.hwm == UNKNOWN, None, known)


# --- the leader ---------------------------------------------------------------------------------------------


@action(
    "595.4, 1166.2, 1166.3",
    says="leader {leader} takes the fetch of member {f}",
    leader="voter",
    f="member",
)
def receive_fetch(q: Cluster, s: State, leader: Number, f: Number) -> None:
    """A leader stores a voter's fetch offset, which can advance the HWM, and then answers or parks the fetch.

    Precondition: the fetch is for this leader and its epoch. If the logs diverge, the leader stores no offset. The
    order matters: the response to a fetch that advances the HWM carries the new HWM. 1166.3: if the HWM advances, the
    leader answers the parked fetches of all other members. Without this rule those members would learn the new HWM only
    when the park timer fires.
    """
    request, me = s.requests[f], s.members[leader]
    require("a fetch is under way", request.is_some)
    fetch = request.value
    require("the fetch is for this member", fetch.leader == leader)
    require("the fetch can be used", can_use(q, leader, me, fetch))
    diverging = q.on("divergence_check") & logs.diverges(me.log, fetch.offset, fetch.last_epoch)
    after = advance_hwm(q, s, leader, where(diverging, me, note_fetch(q, me, f, fetch)))
    plain = answer(q, f, after, fetch.offset)
    # A response with a truncation offset is not empty, although it has no record.
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
    """1166.3. The members whose parked fetches end if the fetch of ``f`` advances the HWM: all other members.

    Before KIP-1166 (the rule ``hwm_growth_completes`` is off, or the leader has an older version) only fetches of
    consumers end, because consumers can then read more records. If only the rule ``growth_completes_all`` is
    off, the step leaves out one member that it chooses.
    """
    others = [g for g in q.member if int(g) != int(f)]
    if not q.on("hwm_growth_completes") or q.is_older(leader):
        return [g for g in others if q.is_consumer(g)]
    if q.on("growth_completes_all"):
        return others
    left_out = one_of("left out", [int(g) for g in others])
    return [g for g in others if int(g) != left_out]


def note_fetch(q: Cluster, leader: StructValue, f: Number, fetch: StructValue) -> StructValue:
    """The leader with the fetch offset of ``f`` stored: voter ``f`` holds all records before this offset.

    Offsets of observers are not stored, because observers do not count for the HWM.
    """
    if int(f) >= q.counted.size:
        return leader
    return leader.replace(fetched=leader.fetched.set(f, fetch.offset))


def truncation(q: Cluster, leader: StructValue, fetch: StructValue, plain: StructValue) -> StructValue:
    """The leader's response to a fetch whose log diverges.

    The response has the last epoch that both logs can share, and the end offset of this epoch in the leader's log.
    All other fields are those of the response ``plain``.
    """
    end = logs.end_offset_for_epoch(leader.log, fetch.last_epoch.value)
    end_epoch = where(end > 0, q.some_epoch.some(logs.epoch_before(leader.log, end)), None)
    return plain.replace(diverging=True, record=None, end_epoch=end_epoch, end=end)


def may_park(q: Cluster, leader: Number, remote: OptionValue, hwm: Number) -> Truth:
    """1166.2, 1166.4. True if a leader with HWM ``hwm`` may park a fetch for which it has no new record.

    ``remote`` is the HWM in the fetch. If it is below ``hwm``, the leader must answer the fetch. A missing field
    counts as the greatest HWM: the sender has an older version, and the leader parks its fetch as before KIP-1166.
    """
    if q.is_older(leader) or not q.on("behind_is_answered"):
        return as_bool(True)
    missing = as_bool(True) if q.on("missing_hwm_is_greatest") else hwm <= UNKNOWN
    not_behind = hwm <= remote.value if q.on("equal_hwm_parks") else hwm < remote.value
    parks: Truth = where(remote.is_some, not_behind, missing)
    return parks


def can_use(q: Cluster, m: Number, member: StructValue, fetch: StructValue) -> Truth:
    """True if member ``m`` leads and the fetch has the member's epoch.

    The offset in a fetch of another epoch does not refer to this leader's log. A leader that counted it could commit
    records that the sender truncates.
    """
    return q.leads(m, member) & under("fetch_epoch_check", fetch.epoch == member.epoch)


@action("595.1", says="the fetch of member {f} is refused", f="member")
def refuse_fetch(q: Cluster, s: State, f: Number) -> None:
    """A member that does not lead in the fetch's epoch refuses the fetch.

    The model ignores the content of the error response. The sender fetches again when it knows a leader.
    """
    request = s.requests[f]
    require("a fetch is under way", request.is_some)
    for m in q.voter:
        usable = can_use(q, m, s.members[m], request.value)
        require(
            f"member {int(m)}, if the fetch is for it, cannot use it", (request.value.leader != m) | ~usable
        )
    s.next.requests[f] = None


@action(
    "1166.4",
    says="the park timer of leader {leader} ends the fetch of member {f}",
    leader="voter",
    f="member",
)
def park_timer(q: Cluster, s: State, leader: Number, f: Number) -> None:
    """After 500 ms the leader ends a parked fetch: it sends a response without records.

    K4: the response carries the HWM at the time of parking, which can be below the current HWM.
    """
    parked, me = s.parked[f], s.members[leader]
    require("there is a park timer", q.p.timer)
    require("the fetch is parked", parked.is_some)
    require("it is parked with this leader", parked.value.leader == leader)
    hwm = parked.value.answer if q.on("timer_answers_as_parked") else me.hwm
    plain = answer(q, f, me, parked.value.offset)
    late = plain.replace(epoch=parked.value.epoch, record=None, hwm=hwm, timed_out=True)
    respond(q, s, f, parked.is_some, late)
    s.next.parked[f] = None


# --- the member that asked ----------------------------------------------------------------------------------


@action("595.1, 595.2, 595.6, K26", says="member {f} takes the answer to its fetch", f="member")
def take_answer(q: Cluster, s: State, f: Number) -> None:
    """A member takes a fetch response: it appends the record, or truncates its log where the logs diverge.

    A response of another epoch changes nothing, because a former leader's log may differ from the current leader's
    log. HWM := min(leader's HWM, own LEO) (595.6). If the leader's HWM is unknown or the log is truncated, the member
    keeps its HWM. With a response of its epoch the member has contact with its leader (996.2).
    """
    me, response = s.members[f], s.responses[f]
    require("an answer is under way", response.is_some)
    got = response.value
    current = q.follows(f, me) & under("fetch_response_check", got.epoch == me.epoch)
    current &= under("change_forgets_requests", me.awaits)
    appended = where(got.record.is_some, me.log.append(got.record.value), me.log)
    end = logs.truncation_offset(me.log, got.end_epoch, got.end)
    log = where(got.diverging, me.log.truncate(end), appended)
    received = least(got.hwm, log.length) if q.on("hwm_within_log") else got.hwm
    hwm = where(got.diverging | (got.hwm == UNKNOWN), me.hwm, received)
    after = me.replace(log=log, hwm=hwm, peak=greatest(me.peak, hwm), heard=True, awaits=False)
    s.next.members[f] = where(current, after, me)
    s.next.responses[f] = None


@action("F1", says="the fetch of member {f}, or its answer, is lost", f="member")
def lose_fetch(q: Cluster, s: State, f: Number) -> None:
    """A connection breaks: the member's fetch, the parked fetch and the response that use the connection are lost.

    The member cannot know whether its fetch arrived, and fetches again. A repeated fetch must therefore change nothing.
    """
    under_way = s.requests[f].is_some | s.parked[f].is_some | s.responses[f].is_some
    require("a fetch or an answer is under way", under_way)
    spend(s, "losses")
    s.next.requests[f] = None
    s.next.parked[f] = None
    s.next.responses[f] = None
