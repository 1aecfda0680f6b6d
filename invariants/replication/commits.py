"""Helper invariants for induction: which brokers must hold a record before it is committed.

A leader commits the records that all replicas it waits for have fetched in its epoch. While none of these replicas has
moved to a later epoch, all electable brokers are among them. Once one replica has moved on, the leader can commit only
the records that this replica had fetched. Every electable broker and every later leader holds those records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.invariants.replication.histories import (
    begins_with,
    electable,
    holds_committed,
    is_whole,
    kept_by_answer,
    nothing_is_lost,
    takes_answer,
)
from highwater.invariants.replication.knowledge import helper, reached
from highwater.model.language import (
    Number,
    SetValue,
    State,
    Truth,
    all_of,
    any_of,
    implies,
    size,
    step_property,
)
from highwater.model.replication import logs as log_rules
from highwater.model.replication.logs import gate_is_open, same_record
from highwater.model.replication.protocol import Replication


@dataclass(frozen=True)
class WaitedFor:
    """The replicas that a leader waits for before it commits, now or after the AlterPartition response in flight.

    ``commits`` is false if broker ``leader`` does not lead, or if the HWM may not advance (966.1). For the replicas
    after a response it is also false if no such response is in flight.
    """

    leader: Number
    commits: Truth
    waits_for: SetValue


def quorums(m: Replication, s: State) -> list[WaitedFor]:
    """The replicas that each broker waits for as leader: now, after a refused and after an accepted AlterPartition."""
    found = []
    for b in m.broker:
        broker, response = s.brokers[b], s.alter_responses[b]
        view, answer, leads = broker.view, response.value, m.leads(b, broker)
        takes = leads & response.is_some & broker.proposed.is_some
        takes &= answer.leader_epoch == view.leader_epoch
        committed = takes & (answer.outcome == "COMMITTED")
        reverted = takes & (answer.outcome == "REVERT")
        needed = m.min_isr_in(view)
        found += [
            WaitedFor(b, leads & gate_is_open(size(view.isr), needed), m.maximal_isr(broker)),
            WaitedFor(b, reverted & gate_is_open(size(view.isr), needed), view.isr),
            WaitedFor(b, committed & gate_is_open(size(answer.isr), needed), answer.isr),
        ]
    return found


def _epoch(s: State, b: Number) -> Number:
    return s.brokers[b].view.leader_epoch


def _fetched(m: Replication, s: State, leader: Number, f: Number, offset: int) -> Truth:
    """True if the leader knows that follower ``f`` has the record at ``offset``, or will by a fetch in flight."""
    recorded, request, log = s.brokers[leader].followers[f].leo, s.fetch_requests[f], s.brokers[leader].log
    fetch = request.value
    comes = request.is_some & (fetch.leader == leader) & (fetch.leader_epoch == _epoch(s, leader))
    comes &= (fetch.offset > offset) & ~log_rules.diverges(log, fetch.offset, fetch.last_epoch)
    return (recorded.is_some & (recorded.value > offset)) | comes


def _has_passed(m: Replication, s: State, quorum: WaitedFor, f: Number) -> Truth:
    """True if replica ``f`` has moved to a later epoch than the leader's, and so no longer fetches from the leader."""
    return reached(m, s, f) > _epoch(s, quorum.leader)


def somebody_has_passed(m: Replication, s: State, quorum: WaitedFor) -> Truth:
    """True if the leader waits for a replica that has moved to a later epoch."""
    return any_of(
        quorum.waits_for.has(f) & _has_passed(m, s, quorum, f)
        for f in m.broker
        if int(f) != int(quorum.leader)
    )


def can_commit(
    m: Replication, s: State, quorum: WaitedFor, offset: int, without: Number | None = None
) -> Truth:
    """True if a leader has committed its record at ``offset`` or still can.

    ``without`` is a replica that must already have fetched the record: its fetches from now on do not count.
    """
    able = [quorum.commits, s.brokers[quorum.leader].log.length > offset]
    for f in m.broker:
        if int(f) == int(quorum.leader):
            continue
        fetched = _fetched(m, s, quorum.leader, f, offset)
        if without is None or int(f) != int(without):
            fetched |= ~_has_passed(m, s, quorum, f)
        able.append(~quorum.waits_for.has(f) | fetched)
    return all_of(able)


# --- the replicas that a leader waits for -------------------------------------------------------------------


@helper("B7, 966.1")
def leaders_wait_for_the_electable(m: Replication, s: State) -> Iterator[Truth]:
    """A leader that can commit waits for all electable brokers, or for a replica that has moved to a later epoch.

    In the second case the leader need not wait for an electable broker that has also moved to a later epoch. Such a
    broker has fetched in that epoch, and has then joined the ISR of that epoch's leader.
    """
    for quorum in quorums(m, s):
        passed = somebody_has_passed(m, s, quorum)
        for b in m.broker:
            if int(b) == int(quorum.leader):
                continue
            known = quorum.waits_for.has(b) | (passed & _has_passed(m, s, quorum, b))
            yield implies(quorum.commits & electable(m, s, b), known)
            later = m.leads(b, s.brokers[b]) & _has_passed(m, s, quorum, b)
            yield implies(quorum.commits & later, passed)
        yield implies(quorum.commits, quorum.waits_for.has(quorum.leader))


# --- the brokers that hold committed records ----------------------------------------------------------------


@helper("B4, 966.6")
def the_electable_hold_what_can_be_committed(m: Replication, s: State) -> Iterator[Truth]:
    """An electable broker holds every record that a leader can commit without a further fetch by that broker.

    The same holds for a later leader and, while no log is lost, for every broker that has fetched the record. An
    electable broker that truncates its log keeps these records, and so does a broker that has fetched them.
    """
    for quorum in quorums(m, s):
        log = s.brokers[quorum.leader].log
        for b in m.broker:
            if int(b) == int(quorum.leader):
                continue
            own = s.brokers[b].log
            later = m.leads(b, s.brokers[b]) & _has_passed(m, s, quorum, b)
            for o in m.offsets:
                copies = nothing_is_lost(m, s) & _fetched(m, s, quorum.leader, b, o)
                elected = (electable(m, s, b) | copies) & is_whole(m, s, b)
                able = can_commit(m, s, quorum, o, without=b)
                yield implies(able & (later | elected), same_record(own, log, o))
                truncates = takes_answer(m, s, b) & s.fetch_responses[b].value.diverging
                yield implies(able & elected & truncates, kept_by_answer(m, s, b) > o)


@helper("B4")
def the_electable_hold_what_is_committed(m: Replication, s: State) -> Iterator[Truth]:
    """An electable broker holds every committed record, and keeps them all when it truncates.

    Exception: once some crash has lost records, a broker that is down after a crash need not hold them.
    """
    for b in m.broker:
        there = electable(m, s, b) & is_whole(m, s, b)
        yield implies(there, holds_committed(m, s, b))
        truncates = takes_answer(m, s, b) & s.fetch_responses[b].value.diverging
        yield implies(there & truncates, kept_by_answer(m, s, b) >= s.committed.length)


@helper("B4, B5")
def who_can_commit_holds_what_is_committed(m: Replication, s: State) -> Iterator[Truth]:
    """A leader that can commit a record holds all committed records up to that record's offset.

    A leader holds all committed records in two cases:
    - It can commit, and no replica that it waits for has moved to a later epoch.
    - Some electable broker has not moved to a later epoch.
    In the current leader epoch, each committed record is before the leader's LESO, or the leader committed it.
    """
    for quorum in quorums(m, s):
        log = s.brokers[quorum.leader].log
        nobody = quorum.commits & ~somebody_has_passed(m, s, quorum)
        yield implies(nobody, holds_committed(m, s, quorum.leader))
        for o in m.offsets:
            before = all_of(
                (s.committed.length <= x) | same_record(log, s.committed, x) for x in range(o + 1)
            )
            yield implies(can_commit(m, s, quorum, o), before)
    for b in m.broker:
        broker = s.brokers[b]
        leads = m.leads(b, broker)
        behind = any_of(
            electable(m, s, x) & is_whole(m, s, x) & (reached(m, s, x) <= _epoch(s, b)) for x in m.broker
        )
        yield implies(leads & behind, holds_committed(m, s, b))
        for o in m.offsets:
            own = leads & (_epoch(s, b) == s.partition.leader_epoch) & (broker.leso <= o)
            yield implies(own & (s.committed.length > o), broker.hwm > o)


@helper("B4")
def hwms_are_of_what_is_committed(m: Replication, s: State) -> Iterator[Truth]:
    """Every record below a broker's HWM is committed.

    The same holds for the HWM that the broker will have after it has handled the fetch response in flight.
    """
    for b in m.broker:
        broker, answer = s.brokers[b], s.fetch_responses[b].value
        takes = takes_answer(m, s, b) & ~answer.diverging
        yield begins_with(m, broker.log, s.committed, broker.hwm)
        for o in m.offsets:
            below = takes & (answer.hwm > o)
            yield implies(below & (broker.log.length > o), same_record(broker.log, s.committed, o))
            appends = below & (broker.log.length == o) & answer.record.is_some
            same = (s.committed.length > o) & (s.committed.at(o) == answer.record.value)
            yield implies(appends, same)


@helper("B4, B6")
def replicas_that_are_waited_for_hold_what_is_committed(m: Replication, s: State) -> Iterator[Truth]:
    """While no log is lost, every replica that a leader waits for holds the records below the leader's HWM.

    The replica keeps these records, because it truncates only to the log of another leader that holds them, too. The
    other leader has a later epoch, or an earlier one that some replica in the maximal ISR has not moved beyond.
    """
    whole = nothing_is_lost(m, s)
    for leader in m.broker:
        broker = s.brokers[leader]
        for b in m.broker:
            if int(b) == int(leader):
                continue
            own, waits = s.brokers[b].log, m.maximal_isr(broker).has(b)
            later = m.leads(b, s.brokers[b]) & (_epoch(s, b) > _epoch(s, leader))
            earlier = m.leads(b, s.brokers[b]) & any_of(
                m.maximal_isr(broker).has(f) & (reached(m, s, f) <= _epoch(s, b))
                for f in m.broker
                if int(f) != int(leader)
            )
            truncates = takes_answer(m, s, b) & s.fetch_responses[b].value.diverging
            for o in m.offsets:
                below = whole & m.leads(leader, broker) & (broker.hwm > o)
                copies = below & (waits | _fetched(m, s, leader, b, o))
                yield implies(copies | (below & (later | earlier)), same_record(own, broker.log, o))
                yield implies(copies & truncates, kept_by_answer(m, s, b) > o)


@helper("B6")
def acknowledged_is_committed(m: Replication, s: State) -> Iterator[Truth]:
    """Records acknowledged to acks=all producers are committed."""
    for v in m.value:
        yield implies(
            s.writes[v] == "ACKNOWLEDGED",
            any_of((s.committed.length > o) & (s.committed.at(o).value == v) for o in m.offsets),
        )


@step_property("B4")
def a_leaders_hwm_and_log_never_shrink(m: Replication, before: State, after: State) -> Iterator[Truth]:
    """While a broker leads in one epoch, its HWM does not decrease and its log keeps its records."""
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        leads = m.leads(b, old) & m.leads(b, new) & (old.view.leader_epoch == new.view.leader_epoch)
        yield implies(leads, (old.hwm <= new.hwm) & begins_with(m, new.log, old.log, old.log.length))


@step_property("B6")
def what_is_committed_stays(m: Replication, before: State, after: State) -> Truth:
    """Committed records do not change; records can only be added."""
    return begins_with(m, after.committed, before.committed, before.committed.length)
