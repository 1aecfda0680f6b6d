"""Producers (B6): records with acks 0, 1 and all, and their acknowledgement.

The protocol promises that an acknowledged acks=all record survives while fewer than min ISR brokers lose data.
Consumers have no actions. ``committed`` holds all records that they can have read. ``high_watermark.tells_end`` is true
if a leader may answer consumers with its HWM as the end of the log.
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
    """A leader appends an acks=all record, if its committed ISR has at least min ISR members (B6).

    Otherwise it answers NOT_ENOUGH_REPLICAS and appends nothing, because it could not acknowledge the record.
    """
    view = s.brokers[leader].view
    enough = size(view.isr) >= m.min_isr_in(view)
    require("the ISR has min ISR members", enough, rule="acks_all_needs_min_isr")
    write(m, s, leader, value, Write.PENDING)
    if m.p.waiting_producers:
        s.next.waiting[value] = m.waiter(leader=leader, offset=s.brokers[leader].log.length)


@action("B6", says="value {value} is written to leader {leader} with acks=1", leader="broker", value="value")
def write_acks_one(m: Cluster, s: State, leader: Number, value: Number) -> None:
    """A leader appends a record with acks 0 or 1. The write succeeds with the append (B6).

    The producer has no guarantee that the record survives. Consumers still read the record once the HWM passes it, so
    the HWM stops under min ISR (966.1) for this record as well.
    """
    spend(s, "weak_writes")
    write(m, s, leader, value, Write.WRITTEN)


@action("B6", says="leader {leader} acknowledges value {value}", leader="broker", value="value")
def acknowledge(m: Cluster, s: State, leader: Number, value: Number) -> None:
    """A leader acknowledges a committed acks=all record to its producer (B6).

    The producer then drops its copy: from now on only replicas hold the record.
    """
    require("the record is committed", can_acknowledge(m, s, leader, value))
    s.next.writes[value] = Write.ACKNOWLEDGED


def can_acknowledge(m: Cluster, s: State, leader: Number, value: Number) -> Truth:
    """B6. True if the leader can acknowledge an acks=all record that it appended.

    The leader's HWM has passed the record, and the maximal ISR has at least min ISR members. With fewer members Kafka
    answers NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """
    broker = s.brokers[leader]
    passed = has_passed(m, s, leader, broker, value)
    waits: Truth = m.leads(leader, broker) & (s.writes[value] == "PENDING")
    return waits & passed & under("acks_all_needs_min_isr", has_min_isr(m, broker))


def has_min_isr(m: Cluster, broker: StructValue) -> Truth:
    """B6. True if the maximal ISR of a leader has at least min ISR members."""
    enough: Truth = size(m.maximal_isr(broker)) >= m.min_isr_in(broker.view)
    return enough


def has_passed(m: Cluster, s: State, leader: Number, broker: StructValue, value: Number) -> Truth:
    """B6. True if the leader's HWM has passed the record with this value, which the leader appended.

    With ``waiting_producers`` the HWM must have passed the offset at which the record was appended. The leader epoch
    does not matter, and neither does the record that is now at that offset. Without the parameter, the leader must
    still be in the leader epoch of the append.
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
    """B6. Fail the requests of producers that wait at broker ``b``, if ``condition`` holds.

    Callers pass the condition that the broker no longer leads. As a follower the broker may truncate the producers'
    records, and other records then take their offsets. Without ``waiting_producers`` no producer waits.
    """
    if not m.p.waiting_producers or not m.on("followers_end_waiting"):
        return
    for value in m.value:
        waiter = s.waiting[value]
        ends = waiter.is_some & (waiter.value.leader == b) & condition
        s.next.waiting[value] = where(ends, None, waiter)


def write(m: Cluster, s: State, leader: Number, value: Number, becomes: Number) -> None:
    """B1. A leader appends the next unused value as a record of its leader epoch, and advances its HWM if allowed.

    ``becomes`` is the state of the write after the append.
    """
    broker: StructValue = s.brokers[leader]
    earlier_is_unwritten = any_of((other < value) & (s.writes[other] == "UNUSED") for other in m.value)
    require("the broker believes that it leads", m.leads(leader, broker))
    require("the value is the next one", (s.writes[value] == "UNUSED") & ~earlier_is_unwritten)
    require("the log has room", broker.log.length < m.p.records)
    log = broker.log.append(m.record(value=value, epoch=broker.view.leader_epoch))
    s.next.writes[value] = becomes
    advance_hwm(m, s, leader, broker.replace(log=log))
