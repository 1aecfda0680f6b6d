"""Helper invariants for induction: log matching among brokers and messages, whichever broker leads.

A leader epoch has one leader, whose log only grows in that epoch. All other records of that epoch are copies of the
leader's. So two logs that share a record share all records before it. A follower that has fetched in its leader's
epoch has a prefix of the leader's log.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.invariants.replication.knowledge import acceptable, helper, is_unaware_leader, reached
from highwater.model.language import Number, SeqValue, State, Truth, all_of, any_of, implies, least, where
from highwater.model.replication import logs as log_rules
from highwater.model.replication.logs import same_record
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
