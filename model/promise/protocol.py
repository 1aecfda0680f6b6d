"""Kafka's promise to the clients of one partition. Read this protocol first: ``replication`` must keep the promise.

The log holds the committed records. Kafka promises nothing about uncommitted records, so no step models their loss.
Committed records stay in the log, in their order, while fewer than min.insync.replicas brokers lose data and no leader
is elected uncleanly (P1).
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
"""The status of a record: unused; written (acks 0 or 1); pending (acks=all); acknowledged to its producer."""


class Promise(Protocol):
    """One partition as its clients see it, through every broker that believes it leads."""

    name = "promise"
    rulebook = RULEBOOK
    parameters = {
        "records": Parameter(2, 1, 4, "records that producers write, numbered in their order"),
        "initial_records": Parameter(
            0, 0, 4, "records that are committed at the start, and shown by broker 0"
        ),
        "brokers": Parameter(2, 1, 4, "brokers that clients ask"),
        "min_isr": Parameter(2, 1, 4, "min.insync.replicas: fewer can lose data, and clients lose none"),
        "unclean": Parameter.switch("whether leaders may be elected uncleanly"),
    }

    def define(self) -> Struct:
        """The state: each record's status, the committed log, the log that each broker shows, and the data losses."""
        self.value, self.broker = Index("value", self.p.records), Index("broker", self.p.brokers)
        self.log, self.lengths = Seq(self.value, self.p.records), range(self.p.records + 1)
        runs = (run for n in self.lengths[1:] for run in combinations(range(self.p.records), n))
        self.runs = list(map(self.log.lift, runs))
        return Struct(
            "State",
            writes=(Array(self.value, Write), "what became of each record"),
            log=(self.log, "committed records"),
            shown=(Array(self.broker, self.log), "what each broker shows to consumers"),
            lost=(Int(0, self.p.min_isr - 1), "copies that were lost, in replicas"),
            void=(Bool, "whether more copies were lost than min ISR promises to bear"),
        )

    def initial(self) -> list[dict[str, Any]]:
        """The initial records are committed, acknowledged and shown by broker 0; no other record is written."""
        count = min(self.p.initial_records, self.p.records)
        log, writes = list(range(count)), ["ACKNOWLEDGED"] * count + ["UNUSED"] * (self.p.records - count)
        return [{"writes": writes, "log": log, "shown": [log] + [[]] * (self.p.brokers - 1)}]

    @action("B1, B6", says="record {v} is written to broker {b}", v="value", b="broker")
    def write(self, s: State, v: Number, b: Number) -> None:
        """A leader appends a new record. With acks 0 or 1 the producer does not wait until the record is committed.

        If the leader waits for no other replica, the record is committed in the same step.
        """
        acks = one_of("acks", ["1", "all"])
        require("it is a new record", s.writes[v] == "UNUSED")
        s.next.writes[v] = "PENDING" if acks == "all" else "WRITTEN"
        if one_of("committed", [False, True]):  # in the same step, if the leader waits for no other replica
            self.append(s, self.log.lift([v]), b)

    @action("B4, 966.1", says="records {run} are committed by broker {b}", run="runs", b="broker")
    def commit(self, s: State, run: SeqValue, b: Number) -> None:
        """A leader's high watermark passes written records. From then on the records must not be lost."""
        require("they were written", all_of(~run.has(v) | (s.writes[v] != "UNUSED") for v in self.value))
        self.append(s, run, b)

    def append(self, s: State, run: SeqValue, b: Number) -> None:
        """Append the records ``run`` to the committed log, in the order of their writes.

        The broker ``b`` then shows the whole log.
        """
        require("they follow what is committed", s.log.is_empty | (s.log.last < run.head))
        s.next.log = s.next.shown[b] = s.log + run

    @action("B6", says="broker {b} acknowledges record {v}", v="value", b="broker")
    def acknowledge(self, s: State, v: Number, b: Number) -> None:
        """With acks=all, a broker that shows the record as committed acknowledges it to the waiting producer.

        After the step ``lose`` any broker may acknowledge it.
        """
        require("its producer waits", s.writes[v] == "PENDING")
        require("it is committed", s.shown[b].has(v) | s.void)
        s.next.writes[v] = "ACKNOWLEDGED"

    @action("B6", says="consumers read {n} records from broker {b}", n="lengths", b="broker")
    def read(self, s: State, n: int, b: Number) -> None:
        """A broker shows consumers the first ``n`` committed records.

        For example, ``n`` is 0 if the broker does not lead.
        """
        require("so many are committed", s.log.length >= n)
        s.next.shown[b] = s.log.truncate(n)

    @action("P1, 966.12", says="broker {b} loses data", b="broker")
    def lose_data(self, s: State, b: Number) -> None:
        """A broker loses its page cache or its disk.

        Precondition: with this loss, fewer than min.insync.replicas brokers have lost data. The committed log stays
        complete.
        """
        require("fewer than min ISR lose data", s.lost < self.p.min_isr - 1)
        s.next.lost, s.next.shown[b] = s.lost + 1, []

    @action("P1", says="more is lost than may be")
    def lose(self, s: State) -> None:
        """Committed records are lost, including acknowledged ones.

        After this step the log is empty, and Kafka promises nothing about it.
        """
        if one_of("by", ["another data loss", "an unclean election"]) == "another data loss":
            require("min ISR - 1 brokers have lost data", s.lost == self.p.min_isr - 1)
        else:
            require("leaders may be elected uncleanly", self.p.unclean)
        s.next.log, s.next.shown, s.next.lost, s.next.void = [], [[]] * self.p.brokers, 0, True


PROTOCOL = Promise
