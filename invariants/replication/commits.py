"""Why nothing that is committed is lost: who has to hold it before it can be committed. Helper invariants.

A leader commits what all replicas that it waits for have fetched in its epoch. While nobody of them has gone on to a
later epoch, everyone who can be elected is among them. Once somebody has, no more can be committed than what that one
had fetched by then, and whoever can be elected, or leads in a later epoch, holds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater.invariants.replication.histories import (
    begins_with,
    electable,
    is_whole,
    kept_by_answer,
    nothing_is_lost,
    takes_answer,
)
from highwater.invariants.replication.knowledge import helper, reached
from highwater.model.language import State, all_of, any_of, implies, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, SetValue, Truth
from highwater.model.replication import Replication
from highwater.model.replication import logs as log_rules
from highwater.model.replication.logs import gate_is_open, same_record


@dataclass(frozen=True)
class WaitedFor:
    """The replicas that a leader waits for before it commits: now, or once it has taken an answer that is under way.

    It is there, and lets the HWM advance (966.1), under a condition.
    """

    leader: Number
    commits: Truth
    waits_for: SetValue


def quorums(m: Replication, s: State) -> list[WaitedFor]:
    """Those of every leader."""
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
    """Whether a leader knows that a follower has a record, or will by a fetch that is under way."""
    recorded, request, log = s.brokers[leader].followers[f].leo, s.fetch_requests[f], s.brokers[leader].log
    fetch = request.value
    comes = request.is_some & (fetch.leader == leader) & (fetch.leader_epoch == _epoch(s, leader))
    comes &= (fetch.offset > offset) & ~log_rules.diverges(log, fetch.offset, fetch.last_epoch)
    return (recorded.is_some & (recorded.value > offset)) | comes


def _has_passed(m: Replication, s: State, quorum: WaitedFor, f: Number) -> Truth:
    """Whether a replica has gone on to a later epoch than the leader's: it fetches from it no more."""
    return reached(m, s, f) > _epoch(s, quorum.leader)


def somebody_has_passed(m: Replication, s: State, quorum: WaitedFor) -> Truth:
    """Whether the leader waits for somebody who has gone on to a later epoch."""
    return any_of(
        quorum.waits_for.has(f) & _has_passed(m, s, quorum, f)
        for f in m.broker
        if int(f) != int(quorum.leader)
    )


def can_commit(
    m: Replication, s: State, quorum: WaitedFor, offset: int, without: Number | None = None
) -> Truth:
    """Whether a leader can yet commit its record at an offset, or has: without a further fetch by one replica."""
    able = [quorum.commits, s.brokers[quorum.leader].log.length > offset]
    for f in m.broker:
        if int(f) == int(quorum.leader):
            continue
        fetched = _fetched(m, s, quorum.leader, f, offset)
        if without is None or int(f) != int(without):
            fetched |= ~_has_passed(m, s, quorum, f)
        able.append(~quorum.waits_for.has(f) | fetched)
    return all_of(able)


def _holds_committed(m: Replication, s: State, b: Number) -> Truth:
    return begins_with(m, s.brokers[b].log, s.committed, s.committed.length)


# --- who is waited for --------------------------------------------------------------------------------------


@helper("B7, 966.1")
def leaders_wait_for_the_electable(m: Replication, s: State) -> Truth:
    """A leader that can commit waits for all who can be elected, or for somebody who has gone on to a later epoch.

    Who is not waited for has gone on itself: it joined the ISR of a later leader, and fetched in that epoch.
    """
    waits = []
    for quorum in quorums(m, s):
        passed = somebody_has_passed(m, s, quorum)
        for b in m.broker:
            if int(b) == int(quorum.leader):
                continue
            known = quorum.waits_for.has(b) | (passed & _has_passed(m, s, quorum, b))
            waits.append(implies(quorum.commits & electable(m, s, b), known))
            later = m.leads(b, s.brokers[b]) & _has_passed(m, s, quorum, b)
            waits.append(implies(quorum.commits & later, passed))
        waits.append(implies(quorum.commits, quorum.waits_for.has(quorum.leader)))
    return all_of(waits)


# --- who holds what can be committed ------------------------------------------------------------------------


@helper("B4, 966.6")
def the_electable_hold_what_can_be_committed(m: Replication, s: State) -> Truth:
    """What a leader can commit without a further fetch of somebody who can be elected, that one holds.

    So does the leader of a later epoch; and, as long as no log is lost, everybody who has fetched it. A follower that
    truncates keeps it.
    """
    held = []
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
                held.append(implies(able & (later | elected), same_record(own, log, o)))
                truncates = takes_answer(m, s, b) & s.fetch_responses[b].value.diverging
                held.append(implies(able & elected & truncates, kept_by_answer(m, s, b) > o))
    return all_of(held)


@helper("B4")
def the_electable_hold_what_is_committed(m: Replication, s: State) -> Truth:
    """Who can be elected holds every committed record, and keeps it when it truncates; what it has lost excepted."""
    held = []
    for b in m.broker:
        there = electable(m, s, b) & is_whole(m, s, b)
        held.append(implies(there, _holds_committed(m, s, b)))
        truncates = takes_answer(m, s, b) & s.fetch_responses[b].value.diverging
        held.append(implies(there & truncates, kept_by_answer(m, s, b) >= s.committed.length))
    return all_of(held)


@helper("B4, B5")
def who_can_commit_holds_what_is_committed(m: Replication, s: State) -> Truth:
    """Before a leader can commit a record it holds all that is committed before it.

    So does a leader as long as nobody whom it waits for has gone on, or one who can be elected has not; and in the
    controller's epoch what is committed is before its start offset, or was committed by itself.
    """
    held = []
    for quorum in quorums(m, s):
        log = s.brokers[quorum.leader].log
        nobody = quorum.commits & ~somebody_has_passed(m, s, quorum)
        held.append(implies(nobody, _holds_committed(m, s, quorum.leader)))
        for o in m.offsets:
            before = all_of(
                (s.committed.length <= x) | same_record(log, s.committed, x) for x in range(o + 1)
            )
            held.append(implies(can_commit(m, s, quorum, o), before))
    for b in m.broker:
        broker = s.brokers[b]
        leads = m.leads(b, broker)
        behind = any_of(
            electable(m, s, x) & is_whole(m, s, x) & (reached(m, s, x) <= _epoch(s, b)) for x in m.broker
        )
        held.append(implies(leads & behind, _holds_committed(m, s, b)))
        for o in m.offsets:
            own = leads & (_epoch(s, b) == s.partition.leader_epoch) & (broker.leso <= o)
            held.append(implies(own & (s.committed.length > o), broker.hwm > o))
    return all_of(held)


@helper("B4")
def hwms_are_of_what_is_committed(m: Replication, s: State) -> Truth:
    """Below every HWM is what is committed, also once a follower has taken the answer to its fetch."""
    held = []
    for b in m.broker:
        broker, answer = s.brokers[b], s.fetch_responses[b].value
        takes = takes_answer(m, s, b) & ~answer.diverging
        held.append(begins_with(m, broker.log, s.committed, broker.hwm))
        for o in m.offsets:
            below = takes & (answer.hwm > o)
            held.append(implies(below & (broker.log.length > o), same_record(broker.log, s.committed, o)))
            appends = below & (broker.log.length == o) & answer.record.is_some
            same = (s.committed.length > o) & (s.committed.at(o) == answer.record.value)
            held.append(implies(appends, same))
    return all_of(held)


@helper("B4, B6")
def replicas_that_are_waited_for_hold_what_is_committed(m: Replication, s: State) -> Truth:
    """As long as no log is lost, all that a leader waits for hold what is below its HWM, and keep it.

    Whoever they truncate by holds it too: the leader of a later epoch, and one of an earlier epoch as long as somebody
    who is waited for has not gone on from it.
    """
    held, whole = [], nothing_is_lost(m, s)
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
                held.append(implies(copies | (below & (later | earlier)), same_record(own, broker.log, o)))
                held.append(implies(copies & truncates, kept_by_answer(m, s, b) > o))
    return all_of(held)


@helper("B6")
def acknowledged_is_committed(m: Replication, s: State) -> Truth:
    """What was acknowledged to an acks=all producer is committed."""
    return all_of(
        implies(
            s.writes[v] == "ACKNOWLEDGED",
            any_of((s.committed.length > o) & (s.committed.at(o).value == v) for o in m.offsets),
        )
        for v in m.value
    )


@step_property("B4")
def a_leaders_hwm_and_log_never_shrink(m: Replication, before: State, after: State) -> Truth:
    """As long as a broker leads in one epoch its HWM does not move back, and it keeps the records that it has."""
    kept = []
    for b in m.broker:
        old, new = before.brokers[b], after.brokers[b]
        leads = m.leads(b, old) & m.leads(b, new) & (old.view.leader_epoch == new.view.leader_epoch)
        kept.append(implies(leads, (old.hwm <= new.hwm) & begins_with(m, new.log, old.log, old.log.length)))
    return all_of(kept)


@step_property("B6")
def what_is_committed_stays(m: Replication, before: State, after: State) -> Truth:
    """What is committed stays as it is; more can be committed behind it."""
    return begins_with(m, after.committed, before.committed, before.committed.length)


STEPS = (a_leaders_hwm_and_log_never_shrink, what_is_committed_stays)
"""The properties of steps about logs and what is committed."""

COMMITS = (
    leaders_wait_for_the_electable,
    the_electable_hold_what_can_be_committed,
    the_electable_hold_what_is_committed,
    who_can_commit_holds_what_is_committed,
    hwms_are_of_what_is_committed,
    replicas_that_are_waited_for_hold_what_is_committed,
    acknowledged_is_committed,
)
"""The helper invariants about what is, and what can be, committed."""
