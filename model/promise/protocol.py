"""What Kafka promises its clients, of one partition. Read this first: all else is there to keep it.

The log is what is committed. A record that is written and not committed is promised to nobody: it may be gone at any
time, and nothing here changes by that. What is committed stays, in its order, as long as fewer than
min.insync.replicas brokers lose data and no leader is elected uncleanly (P1).
"""

from __future__ import annotations  # noqa: I001 (so that it stays a page)

from itertools import combinations
from typing import Any

from highwater.model.language import (
    Array, Bool, Enum, Index, Int, Number, Parameter, Protocol, Seq, SeqValue, State, Struct,
    action, all_of, one_of, require,
)  # fmt: skip
from highwater.model.rulebook import RULEBOOK

Write = Enum("Write", "UNUSED WRITTEN PENDING ACKNOWLEDGED")
"""Of a record: not there yet; written with acks 0 or 1; with acks=all, and its producer waits; or has its answer."""


class Promise(Protocol):
    """One partition as its clients see it, through whichever brokers take themselves for its leader."""

    name = "promise"
    rulebook = RULEBOOK
    parameters = {
        "records": Parameter(2, 1, 4, "records that producers write, numbered in their order"),
        "initial_records": Parameter(
            0, 0, 4, "records that are committed at the start, and shown by broker 0"
        ),
        "brokers": Parameter(2, 1, 4, "brokers that clients ask"),
        "min_isr": Parameter(2, 1, 4, "min.insync.replicas: fewer can lose data, and clients lose none"),
        "unclean": Parameter(0, 0, 1, "whether leaders may be elected uncleanly"),
    }

    def define(self) -> Struct:
        """What became of each record; what is committed; what each broker shows consumers; what was lost."""
        self.value, self.broker = Index("value", self.p.records), Index("broker", self.p.brokers)
        self.log, self.lengths = Seq(self.value, self.p.records), range(self.p.records + 1)
        runs = (run for n in self.lengths[1:] for run in combinations(range(self.p.records), n))
        self.runs = list(map(self.log.lift, runs))
        return Struct(
            "State",
            writes=Array(self.value, Write),
            log=self.log,
            shown=Array(self.broker, self.log),
            lost=Int(0, self.p.min_isr - 1),
            void=Bool,
        ).about(
            writes="what became of each record",
            log="committed records",
            shown="what each broker shows to consumers",
            lost="copies that were lost, in replicas",
            void="whether more copies were lost than min ISR promises to bear",
        )

    def initial(self) -> list[dict[str, Any]]:
        """Nothing is written yet, but for what the scenario begins with; that is acknowledged."""
        count = min(self.p.initial_records, self.p.records)
        log, writes = list(range(count)), ["ACKNOWLEDGED"] * count + ["UNUSED"] * (self.p.records - count)
        return [
            {
                "writes": writes,
                "log": log,
                "shown": [log] + [[]] * (self.p.brokers - 1),
                "lost": 0,
                "void": False,
            }
        ]

    @action("B1, B6", says="record {v} is written to broker {b}", v="value", b="broker")
    def write(self, s: State, v: Number, b: Number) -> None:
        """A leader appends. With acks 0 or 1 that is all that the producer is told."""
        acks = one_of("acks", ["1", "all"])
        require("it is a new record", s.writes[v] == "UNUSED")
        s.next.writes[v] = "PENDING" if acks == "all" else "WRITTEN"
        if one_of("committed", [False, True]):  # at once, where the leader waits for nobody
            self.append(s, self.log.lift([v]), b)

    @action("B4, 966.1", says="records {run} are committed by broker {b}", run="runs", b="broker")
    def commit(self, s: State, run: SeqValue, b: Number) -> None:
        """The high watermark of a leader passes them. From now on nobody may lose them."""
        require("they were written", all_of(~run.has(v) | (s.writes[v] != "UNUSED") for v in self.value))
        self.append(s, run, b)

    def append(self, s: State, run: SeqValue, b: Number) -> None:
        """The log grows at its end, in the order in which records were written. The broker shows all of it."""
        require("they follow what is committed", s.log.is_empty | (s.log.last < run.head))
        s.next.log = s.next.shown[b] = s.log + run

    @action("B6", says="broker {b} acknowledges record {v}", v="value", b="broker")
    def acknowledge(self, s: State, v: Number, b: Number) -> None:
        """acks=all: the producer is told that its record is committed, and forgets it."""
        require("its producer waits", s.writes[v] == "PENDING")
        require("it is committed", s.shown[b].has(v) | s.void)
        s.next.writes[v] = "ACKNOWLEDGED"

    @action("B6", says="consumers read {n} records from broker {b}", n="lengths", b="broker")
    def read(self, s: State, n: int, b: Number) -> None:
        """Consumers read the log from its start on; from a broker that does not lead, nothing."""
        require("so many are committed", s.log.length >= n)
        s.next.shown[b] = s.log.truncate(n)

    @action("P1, 966.12", says="broker {b} loses data", b="broker")
    def lose_data(self, s: State, b: Number) -> None:
        """Its page cache, or its disk. While fewer than min ISR do so, no client notices."""
        require("fewer than min ISR lose data", s.lost < self.p.min_isr - 1)
        s.next.lost, s.next.shown[b] = s.lost + 1, []

    @action("P1", says="more is lost than may be")
    def lose(self, s: State) -> None:
        """Committed records can go, acknowledged ones among them. From here on nothing is promised of the log."""
        if one_of("by", ["another data loss", "an unclean election"]) == "another data loss":
            require("min ISR - 1 brokers have lost data", s.lost == self.p.min_isr - 1)
        else:
            require("leaders may be elected uncleanly", bool(self.p.unclean))
        s.next.log, s.next.shown, s.next.lost, s.next.void = [], [[]] * self.p.brokers, 0, True


PROTOCOL = Promise
