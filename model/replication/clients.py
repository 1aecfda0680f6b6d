"""Producers: records with acks 0, 1 and all, and when they are acknowledged (B6).

An acknowledged acks=all write is the promise that everything else is about: it is never lost while fewer than min ISR
brokers lose data. Consumers are not modelled as such: what they can have read is ``committed``, and what a leader
tells them of the end of the log is in ``leadership``.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    State,
    StructValue,
    Truth,
    action,
    any_of,
    require,
    size,
    spend,
    under,
    where,
)  # fmt: skip
from highwater.model.replication.cluster import Cluster, Write
from highwater.model.replication.high_watermark import advance_hwm


@action(
    "B6", says="value {value} is written to leader {leader} with acks=all", leader="broker", value="value"
)
def write_acks_all(m: Cluster, s: State, leader: Number, value: Number) -> None:
    """Refused with NOT_ENOUGH_REPLICAS while the ISR is under min ISR.

    It could not be acknowledged as things are, so the producer hears so before anything is appended.
    """
    view = s.brokers[leader].view
    enough = size(view.isr) >= m.min_isr_in(view)
    require("the ISR has min ISR members", enough, rule="acks_all_needs_min_isr")
    write(m, s, leader, value, Write.PENDING)
    if m.p.waiting_producers:
        s.next.waiting[value] = m.waiter(leader=leader, offset=s.brokers[leader].log.length)


@action("B6", says="value {value} is written to leader {leader} with acks=1", leader="broker", value="value")
def write_acks_one(m: Cluster, s: State, leader: Number, value: Number) -> None:
    """Acks 0 and 1 succeed on the leader's append.

    Nobody promised the producer anything. But consumers see the record once the HWM passes it, and 966.1 holds for it,
    too: else it would be committed by fewer replicas than an election counts on.
    """
    spend(s, "weak_writes")
    write(m, s, leader, value, Write.WRITTEN)


@action("B6", says="leader {leader} acknowledges value {value}", leader="broker", value="value")
def acknowledge(m: Cluster, s: State, leader: Number, value: Number) -> None:
    """The producer learns that its record is written.

    Once told, it forgets the record: from now on only the replicas have it.
    """
    require("the record is committed", can_acknowledge(m, s, leader, value))
    s.next.writes[value] = Write.ACKNOWLEDGED


def can_acknowledge(m: Cluster, s: State, leader: Number, value: Number) -> Truth:
    """B6. Whether a leader may tell a producer that its acks=all record is written.

    It wrote the record itself, its HWM has passed it, and the ISR is not under min ISR; else the answer is
    NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """
    broker = s.brokers[leader]
    passed = has_passed(m, s, leader, broker, value)
    enough = size(m.maximal_isr(broker)) >= m.min_isr_in(broker.view)
    waits = m.leads(leader, broker) & (s.writes[value] == "PENDING")
    return waits & passed & under("acks_all_needs_min_isr", enough)


def has_passed(m: Cluster, s: State, leader: Number, broker: StructValue, value: Number) -> Truth:
    """B6. Whether a leader's HWM has passed a record that it wrote: in this epoch, or ever since it leads.

    A producer waits for an offset. As long as its leader leads on, in whatever epoch, the record stays there.
    """
    if m.p.waiting_producers:
        waiter = s.waiting[value]
        return waiter.is_some & (waiter.value.leader == leader) & (broker.hwm > waiter.value.offset)
    return any_of(
        (broker.hwm > offset)
        & (broker.log.at(offset).value == value)
        & (broker.log.at(offset).epoch == broker.view.leader_epoch)
        for offset in m.offsets
    )


def end_waiting(m: Cluster, s: State, b: Number, condition: Truth | bool = True) -> None:
    """B6. Producers that wait at a broker are told that it leads no more, where the condition holds.

    As a follower it may truncate their records, and others come to be at these offsets.
    """
    if not m.p.waiting_producers or not m.on("followers_end_waiting"):
        return
    for value in m.value:
        waiter = s.waiting[value]
        ends = waiter.is_some & (waiter.value.leader == b) & condition
        s.next.waiting[value] = where(ends, None, waiter)


def write(m: Cluster, s: State, leader: Number, value: Number, becomes: Number) -> None:
    """B1. The leader appends a record in its epoch. Values are written in their order."""
    broker: StructValue = s.brokers[leader]
    earlier_is_unwritten = any_of((other < value) & (s.writes[other] == "UNUSED") for other in m.value)
    require("the broker takes itself for the leader", m.leads(leader, broker))
    require("the value is the next one", (s.writes[value] == "UNUSED") & ~earlier_is_unwritten)
    require("the log has room", broker.log.length < m.p.records)
    log = broker.log.append(m.record(value=value, epoch=broker.view.leader_epoch))
    s.next.writes[value] = becomes
    advance_hwm(m, s, leader, broker.replace(log=log))
