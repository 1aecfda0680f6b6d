"""Helper invariants for induction: which logs match, and which brokers must hold a record before it is committed.

A leader epoch has one leader, whose log only grows in that epoch. All other records of that epoch are copies of the
leader's. So two logs that share a record share all records before it, whichever broker leads. A follower that has
fetched in its leader's epoch has a prefix of the leader's log.

A leader commits the records that all replicas it waits for have fetched in its epoch. While none of these replicas has
moved to a later epoch, all electable brokers are among them. Once one replica has moved on, the leader can commit only
the records that this replica had fetched. Every electable broker and every later leader holds those records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.invariants.replication.knowledge import acceptable, helper, is_unaware_leader, reached
from highwater.model.language import (
    Number,
    SeqValue,
    SetValue,
    State,
    Truth,
    all_of,
    any_of,
    implies,
    least,
    size,
    step_property,
    where,
)
from highwater.model.replication import logs as log_rules
from highwater.model.replication.logs import gate_is_open, same_record
from highwater.model.replication.protocol import Replication


def takes_answer(m: Replication, s: State, f: Number) -> Truth:
    """True if a follower can use the fetch response in flight to it."""
    broker, response = s.brokers[f], s.fetch_responses[f]
    return m.follows(f, broker) & response.is_some & (response.value.leader_epoch == broker.view.leader_epoch)


def history(m: Replication, s: State, b: Number) -> SeqValue:
    """A broker's log, with the record of the fetch response in flight if the broker can append it."""
    log, answer = s.brokers[b].log, s.fetch_responses[b].value
    appends = takes_answer(m, s, b) & ~answer.diverging & answer.record.is_some & (log.length < m.p.records)
    return where(appends, log.append(answer.record.value), log)


def kept_by_answer(m: Replication, s: State, f: Number) -> Number:
    """The number of records that a follower keeps when it truncates by the fetch response in flight."""
    log, answer = s.brokers[f].log, s.fetch_responses[f].value
    return least(log_rules.truncation_offset(log, answer.epoch, answer.end), log.length)


def electable(m: Replication, s: State, b: Number) -> Truth:
    """True if a broker is in ISR or ELR, or if an acceptable AlterPartition in flight adds it to the ISR."""
    joins = any_of(
        acceptable(s, x)
        & s.alter_requests[x].value.isr.has(b)
        & s.alter_requests[x].value.epochs[b].is_(s.registrations[b].epoch)
        for x in m.broker
    )
    return (s.partition.isr | s.partition.elr).has(b) | joins


def nothing_is_lost(m: Replication, s: State) -> Truth:
    """True if no crash has removed records from a log."""
    return all_of(getattr(s.budgets, name) == getattr(m.p, name) for name in ("lossy_crashes", "disk_losses"))


def is_whole(m: Replication, s: State, b: Number) -> Truth:
    """True if a broker is not down after a crash, or no crash has removed records from a log."""
    return (s.brokers[b].status != "CRASHED") | nothing_is_lost(m, s)


def begins_with(m: Replication, log: SeqValue, other: SeqValue, length: Number) -> Truth:
    """True if both logs have at least ``length`` records, and their first ``length`` records are equal."""
    return all_of((length <= o) | same_record(log, other, o) for o in m.offsets)


def holds_committed(m: Replication, s: State, b: Number) -> Truth:
    """True if a broker's log begins with all committed records."""
    return begins_with(m, s.brokers[b].log, s.committed, s.committed.length)


def has_value(m: Replication, s: State, b: Number, value: Number) -> Truth:
    """True if a broker's log has a record with this value."""
    log = s.brokers[b].log
    return any_of((log.length > o) & (log.at(o).value == value) for o in m.offsets)


@helper("B1, B2")
def epochs_in_logs_ascend(m: Replication, s: State) -> Iterator[Truth]:
    """Leader epochs do not decrease along a broker's log, and do not exceed the broker's own leader epoch."""
    for b in m.broker:
        log = history(m, s, b)
        for o in m.offsets:
            there = log.length > o
            yield implies(there, log.at(o).epoch <= reached(m, s, b))
            if o:
                yield implies(there, log.at(o - 1).epoch <= log.at(o).epoch)


@helper("B3")
def histories_match(m: Replication, s: State) -> Truth:
    """Two logs agree up to offset min(i, j), included, if their records at offsets i and j have the same leader epoch.

    So if the leader's log has records of a follower's last epoch, that epoch starts at the same offset in both logs.
    """
    return all_of(
        implies(
            (one.length > i) & (other.length > j) & (one.at(i).epoch == other.at(j).epoch),
            begins_with(m, one, other, m.offset.lift(min(i, j) + 1)),
        )
        for a in m.broker
        for b in m.broker
        if int(a) < int(b)
        for one, other in [(history(m, s, a), history(m, s, b))]
        for i in m.offsets
        for j in m.offsets
    )


@helper("B1")
def records_are_their_leaders(m: Replication, s: State) -> Iterator[Truth]:
    """While the leader of an epoch leads in that epoch, its log holds every record of the epoch.

    A leader that does not know of its election has written nothing in its epoch.
    """
    p = s.partition
    for b in m.broker:
        log = history(m, s, b)
        for o in m.offsets:
            there = log.length > o
            written = there & (log.at(o).epoch == p.leader_epoch)
            yield implies(written, p.leader.is_some)
            for x in m.broker:
                broker = s.brokers[x]
                leads = m.leads(x, broker) & (broker.view.leader_epoch == log.at(o).epoch)
                yield implies(there & leads, same_record(log, broker.log, o))
                yield ~(written & is_unaware_leader(m, s, x))


@helper("B5")
def a_leaders_epoch_starts_at_its_start_offset(m: Replication, s: State) -> Truth:
    """In a leader's log, exactly the records from its LESO on have the leader's epoch."""
    return all_of(
        implies(
            m.leads(b, s.brokers[b]),
            (s.brokers[b].leso <= s.brokers[b].log.length)
            & (
                (s.brokers[b].log.length <= o)
                | ((s.brokers[b].leso > o) == (s.brokers[b].log.at(o).epoch < s.brokers[b].view.leader_epoch))
            ),
        )
        for b in m.broker
        for o in m.offsets
    )


@helper("B2, 903.1")
def fetches_tell_the_log(m: Replication, s: State) -> Iterator[Truth]:
    """A fetch in flight has the LEO of its sender, and the epoch of the sender's last record, as both were at sending.

    Unless the sender has crashed, its log still has that record. While the sender is in the fetch's leader epoch, its
    log has not grown since. If that record has the fetch's leader epoch, the leader of this epoch also has the record
    while it leads. A response that a follower can use starts at the end of the follower's log.
    """
    for f in m.broker:
        broker, fetch = s.brokers[f], s.fetch_requests[f].value
        same = (fetch.broker_epoch == broker.epoch) | electable(m, s, f) | nothing_is_lost(m, s)
        log, there = broker.log, s.fetch_requests[f].is_some & same
        last = (fetch.offset == 0) | (log_rules.epoch_before(log, fetch.offset) == fetch.last_epoch.value)
        yield implies(there & is_whole(m, s, f), (fetch.offset <= log.length) & last)
        here = is_whole(m, s, f) & (fetch.leader_epoch == reached(m, s, f))
        yield implies(there & here, fetch.offset == log.length)
        for x in m.broker:
            leader = s.brokers[x]
            leads = m.leads(x, leader) & (leader.view.leader_epoch == fetch.leader_epoch)
            copied = s.fetch_requests[f].is_some & fetch.last_epoch.is_(fetch.leader_epoch)
            has = (fetch.offset <= leader.log.length) & (
                log_rules.epoch_before(leader.log, fetch.offset) == fetch.leader_epoch
            )
            yield implies(copied & leads, has)
            current = fetch.leader_epoch == s.partition.leader_epoch
            yield ~(copied & current & is_unaware_leader(m, s, x))
        yield implies(takes_answer(m, s, f), s.fetch_responses[f].value.offset == log.length)


@helper("B3, B4")
def a_follower_has_what_it_fetched(m: Replication, s: State) -> Iterator[Truth]:
    """The log of a follower that has fetched in the leader's epoch is a prefix of the leader's log.

    The follower's log reaches the offset of the last fetch that the leader knows, and is not truncated again in this
    epoch. This applies to the incarnation that fetched, and to an ISR member that stopped cleanly.
    """
    for leader in m.broker:
        broker = s.brokers[leader]
        for f in m.broker:
            if int(f) == int(leader):
                continue
            state, log = broker.followers[f], history(m, s, f)
            epoch = broker.view.leader_epoch
            here = m.leads(leader, broker) & is_whole(m, s, f) & (reached(m, s, f) == epoch)
            same = (state.broker_epoch == s.registrations[f].epoch) | electable(m, s, f)
            fetched = here & state.leo.is_some & (same | nothing_is_lost(m, s))
            yield implies(state.leo.is_some, state.leo.value <= broker.log.length)
            yield implies(
                fetched,
                (state.leo.value <= s.brokers[f].log.length) & begins_with(m, log, broker.log, log.length),
            )
            answer = s.fetch_responses[f].value
            yield ~(fetched & takes_answer(m, s, f) & answer.diverging)
            answered = here & takes_answer(m, s, f) & ~answer.diverging
            yield implies(answered, begins_with(m, log, broker.log, log.length))


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
