"""Producers: records with acks 0, 1 and all, and when they are acknowledged (B6)."""

from __future__ import annotations

from typing import Any

from highwater.model.language import State, action, any_of, require, size, spend
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication.cluster import Write
from highwater.model.replication.fetching import Fetching


class Clients(Fetching):
    """Actions of producers."""

    def write(self, s: State, leader: Number, value: Number, write: Any) -> None:
        """B1. The leader appends a record in its epoch. Values are written in their order."""
        broker = s.brokers[leader]
        require("the broker takes itself for the leader", self.leads(leader, broker))
        require("the value is the next one", (s.writes[value] == "UNUSED") & self._next(s, value))
        require("the log has room", broker.log.length < self.p.records)
        log = broker.log.append(self.record(value=value, epoch=broker.view.leader_epoch))
        s.next.writes[value] = write
        self.settle(s, leader, broker.replace(log=log))

    def _next(self, s: State, value: Number) -> Truth:
        return ~any_of((other < value) & (s.writes[other] == "UNUSED") for other in self.value)

    @action(
        "B6", says="value {value} is written to leader {leader} with acks=all", leader="broker", value="value"
    )
    def write_acks_all(self, s: State, leader: Number, value: Number) -> None:
        """Refused with NOT_ENOUGH_REPLICAS while the ISR is under min ISR."""
        broker = s.brokers[leader]
        if self.on("acks_all_needs_min_isr"):
            require("the ISR has min ISR members", size(broker.view.isr) >= self.min_isr_in(broker.view))
        self.write(s, leader, value, Write.PENDING)

    @action(
        "B6", says="value {value} is written to leader {leader} with acks=1", leader="broker", value="value"
    )
    def write_acks_one(self, s: State, leader: Number, value: Number) -> None:
        """Acks 0 and 1 succeed on the leader's append."""
        spend(s, "weak_writes")
        self.write(s, leader, value, Write.WRITTEN)

    def can_acknowledge(self, s: State, leader: Number, value: Number) -> Truth:
        """B6. Whether a leader may tell a producer that its acks=all record is written.

        It wrote the record itself, in this epoch, its HWM has passed it, and the ISR is not under min ISR;
        else the answer is NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        """
        broker = s.brokers[leader]
        passed = any_of(
            (broker.hwm > offset)
            & (broker.log.at(offset).value == value)
            & (broker.log.at(offset).epoch == broker.view.leader_epoch)
            for offset in self.offsets
        )
        return self.leads(leader, broker) & (s.writes[value] == "PENDING") & passed & self._enough(broker)

    def _enough(self, broker: StructValue) -> Truth:
        if not self.on("acks_all_needs_min_isr"):
            return self.t.brokers.zero().is_empty
        return size(self.maximal_isr(broker)) >= self.min_isr_in(broker.view)

    @action("B6", says="leader {leader} acknowledges value {value}", leader="broker", value="value")
    def acknowledge(self, s: State, leader: Number, value: Number) -> None:
        """The producer learns that its record is written."""
        require("the record is committed", self.can_acknowledge(s, leader, value))
        s.next.writes[value] = Write.ACKNOWLEDGED


__all__ = ["Clients"]
