"""The metadata log beside request logs, in tables on disk: topics, registrations, versions of partitions.

Rows that are kept on disk, in tables of a temporary database: what is kept in memory does not grow with them.

SQLite keeps the pages that are used most in memory, up to ``CACHE_KIB``, and the others in a file without a name
where temporary files lie; of few rows there is no file. Nobody but this process reads or writes it.

A partition's versions in the order of the metadata log, and its leader epochs: looked up in the spine's tables.

What the metadata log says beside request logs: topics by id, registrations, and each partition's versions.

It orders what happened: leader epochs, partition epochs and broker epochs in the messages are those of its records.
All of it lies in tables on disk, and is looked up: in memory there is of each partition that is there what it is at the
end, and of each broker its last registration.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, msgpack

from highwater.traces.kafka.metadata_log import Gap, MetadataLog
from highwater.traces.kafka.values import KEYS, DamagedRecord, UnknownRecord, api_key, decode
from highwater.traces.reading import TraceError
from highwater.traces.reports.observed import PartitionChange, PartitionState, SettingInForce

# --- tables ----------------------------------------------------------------------------------------------

Value = int | float | str | bytes | None
Row = tuple[Any, ...]
"""A row of a table, whose columns have the types that the query says."""
CACHE_KIB = 4096
"""So much of the tables is kept in memory."""
PLACE = "temporary files"
"""What is named where the tables cannot be written: no file of the user's."""


class Unusable(TraceError):
    """The tables cannot be written or read."""

    def __init__(self, wrong: Exception) -> None:
        super().__init__(PLACE, None, None, f"cannot be used: {wrong}")


class Tables:
    """A database of its own with these tables. Its methods raise Unusable, as where the disk is full."""

    def __init__(self, schema: str) -> None:
        self._wrong: Unusable | None = None
        try:
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.executescript(
                f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB}; {schema}"
            )
            self._database.execute("BEGIN")  # never ended: what nobody else sees need not be committed
        except sqlite3.Error as wrong:
            raise Unusable(wrong) from None

    def write(self, statement: str, *values: Value) -> None:
        """Insert or change rows."""
        try:
            self._database.execute(statement, values)
        except (sqlite3.Error, OverflowError) as wrong:
            raise self._failed(wrong) from None

    def row(self, query: str, *values: Value) -> Row | None:
        """The first row, None where there is none."""
        try:
            found: Row | None = self._database.execute(query, values).fetchone()
        except (sqlite3.Error, OverflowError) as wrong:
            raise self._failed(wrong) from None
        return found

    def rows(self, query: str, *values: Value) -> Iterator[Row]:
        """All rows, one after the other. Their table is not to be changed meanwhile."""
        try:
            yield from self._database.execute(query, values)
        except (sqlite3.Error, OverflowError) as wrong:
            raise self._failed(wrong) from None

    def check(self) -> None:
        """Raise what was raised before, where somebody in between took it for a fault of a log."""
        if self._wrong is not None:
            raise self._wrong

    def _failed(self, wrong: Exception) -> Unusable:
        self._wrong = Unusable(wrong)
        return self._wrong


# --- history ---------------------------------------------------------------------------------------------

NEVER = float("inf")
TOLD = 4
"""So many epochs are named where one is not known: the last ones."""


class Version(Struct, gc=False, frozen=True):
    """A partition from an offset of the metadata log on; ``min_isr`` is the effective one, None if not known."""

    position: int
    time: int
    state: PartitionState
    min_isr: int | None
    unclean_election: bool | None
    cause: str | None = None
    """The action of the controller that explains it."""

    @property
    def is_recovering(self) -> bool:
        """Whether its leader was elected uncleanly, and has not said yet that it has recovered."""
        return self.state.leader_recovery_state != "RECOVERED"


class EpochBegins(Struct, gc=False, frozen=True):
    """A leader epoch: who leads in it, None for nobody, and where and when it begins."""

    epoch: int
    leader: int | None
    number: int
    time: int
    position: int


encoded, _decoded = msgpack.Encoder().encode, msgpack.Decoder(Version).decode
_EPOCH = "SELECT epoch, leader, number, time, position FROM epoch WHERE life = ?"


@dataclass(slots=True)
class History:
    """A partition's versions in the order of the metadata log. ``number`` names it, and no other."""

    number: int
    name: str
    deleted: int | None
    """When the partition was deleted."""
    _tables: Tables
    _asked: int | None = None
    _later: EpochBegins | None = None
    """The leader epoch behind the one that was asked for last."""

    def versions(self) -> Iterator[Version]:
        """All of them."""
        for (body,) in self._tables.rows(
            "SELECT body FROM version WHERE life = ? ORDER BY number", self.number
        ):
            yield _decoded(body)

    def begins(self, epoch: int) -> EpochBegins | None:
        """A leader epoch; None where there was no such epoch."""
        found = self._tables.row(f"{_EPOCH} AND epoch = ?", self.number, epoch)
        return None if found is None else EpochBegins(*found)

    def later(self, epoch: int) -> EpochBegins | None:
        """The leader epoch behind this one; None where there is none."""
        if epoch != self._asked:
            found = self._tables.row(f"{_EPOCH} AND epoch > ? ORDER BY epoch LIMIT 1", self.number, epoch)
            self._asked, self._later = epoch, None if found is None else EpochBegins(*found)
        return self._later

    def of_epoch(self, epoch: int) -> Iterator[Version]:
        """The versions of a leader epoch; none where there was no such epoch."""
        first, later = self.begins(epoch), self.later(epoch)
        if first is not None:
            for (body,) in self._tables.rows(
                "SELECT body FROM version WHERE life = ? AND number >= ? AND number < ? ORDER BY number",
                self.number, first.number, NEVER if later is None else later.number,
            ):  # fmt: skip
                yield _decoded(body)

    def with_partition_epoch(self, epoch: int, partition_epoch: int) -> Iterator[Version]:
        """Those versions of a leader epoch that have this partition epoch."""
        for (body,) in self._tables.rows(
            "SELECT body FROM version INDEXED BY by_partition_epoch "
            "WHERE life = ? AND partition_epoch = ? ORDER BY number",
            self.number, partition_epoch,
        ):  # fmt: skip
            version = _decoded(body)
            if version.state.leader_epoch == epoch:
                yield version

    def around(self, start_ms: float, end_ms: float) -> list[Version]:
        """The versions that were in force between two times of the controller's clock."""
        before = self._tables.row(
            "SELECT body FROM version WHERE life = ? AND time <= ? ORDER BY time DESC, number DESC LIMIT 1",
            self.number, start_ms,
        )  # fmt: skip
        within = self._tables.rows(
            "SELECT body FROM version WHERE life = ? AND time > ? AND time <= ? ORDER BY time, number",
            self.number, start_ms, end_ms,
        )  # fmt: skip
        return [_decoded(body) for (body,) in (*([] if before is None else [before]), *within)]

    def has_later(self, epoch: int, by_ms: float) -> bool:
        """Whether a later leader epoch had begun by a time of the controller's clock."""
        found = self.later(epoch)
        return found is not None and found.time <= by_ms

    def led_by(self, broker: int, by_ms: float) -> int | None:
        """The last leader epoch of a broker that had begun by a time of the controller's clock."""
        found = self._tables.row(
            "SELECT epoch FROM epoch WHERE life = ? AND leader = ? AND time <= ? "
            "ORDER BY time DESC, epoch DESC LIMIT 1",
            self.number, broker, by_ms,
        )  # fmt: skip
        return None if found is None else int(found[0])

    def begun(self, by_ms: float) -> list[int]:
        """The last leader epochs that had begun by a time of the controller's clock."""
        query = "SELECT epoch FROM epoch WHERE life = ? AND time <= ? ORDER BY epoch DESC LIMIT ?"
        return [epoch for (epoch,) in self._tables.rows(query, self.number, by_ms, TOLD)][::-1]


# --- spine -----------------------------------------------------------------------------------------------

_TOPIC = "TOPIC_RECORD"
_OF_BROKERS = (
    "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD", "FENCE_BROKER_RECORD", "UNFENCE_BROKER_RECORD",
    "UNREGISTER_BROKER_RECORD",
)  # fmt: skip
_READ = frozenset(KEYS[name] for name in (_TOPIC, *_OF_BROKERS))
_SCHEMA = """
CREATE TABLE topic (asked TEXT PRIMARY KEY, name TEXT, position INTEGER) WITHOUT ROWID;
CREATE TABLE life (life INTEGER PRIMARY KEY, topic TEXT, partition INTEGER, position INTEGER, deleted INTEGER);
CREATE INDEX of_partition ON life (topic, partition, position);
CREATE TABLE version (
    life INTEGER, number INTEGER, time INTEGER, partition_epoch INTEGER, body BLOB, PRIMARY KEY (life, number)
) WITHOUT ROWID;
CREATE INDEX by_time ON version (life, time, number);
CREATE INDEX by_partition_epoch ON version (life, partition_epoch, number);
CREATE TABLE epoch (
    life INTEGER, epoch INTEGER, leader INTEGER, number INTEGER, time INTEGER, position INTEGER,
    PRIMARY KEY (life, epoch)
) WITHOUT ROWID;
CREATE INDEX led ON epoch (life, leader, time);
CREATE TABLE registration (
    broker INTEGER, position INTEGER, number INTEGER PRIMARY KEY, time INTEGER, epoch INTEGER, fenced INTEGER,
    stopping INTEGER, registered INTEGER
);
CREATE INDEX of_broker ON registration (broker, position);
CREATE INDEX registered_at ON registration (time);
CREATE TABLE incarnation (
    broker INTEGER, epoch INTEGER, position INTEGER, time INTEGER, PRIMARY KEY (broker, epoch)
) WITHOUT ROWID;
CREATE INDEX incarnated_at ON incarnation (broker, time);
CREATE TABLE place (position INTEGER PRIMARY KEY);
"""


class Registration(Struct, gc=False, frozen=True):
    """A broker from an offset of the metadata log on."""

    position: int
    time: int
    epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    registered: bool = True


@dataclass(slots=True)
class _Living:
    """What is known of a partition that is there: its history's number, its leader epoch, and what it is."""

    life: int
    epoch: int
    state: PartitionState


class Spine:
    """Filled by the replay of the metadata log (``change``, ``setting``) and by a reading of its own (``read``)."""

    def __init__(self) -> None:
        self.brokers: dict[int, Registration] = {}
        """The last registration of each."""
        self.listeners: dict[str, int] = {}
        """Which broker an address and port belongs to."""
        self.tables = Tables(_SCHEMA)
        self._living: dict[str, _Living] = {}
        self._lives = self._count = 0

    # --- partitions -----------------------------------------------------------------------------------

    def history(self, topic: str, number: int) -> History | None:
        """The history of a partition, named as the messages do it."""
        found = self.tables.row(
            "SELECT life, topic.name, deleted FROM topic JOIN life ON life.topic = topic.name "
            "WHERE asked = ? AND partition = ? AND life.position >= topic.position ORDER BY life.position LIMIT 1",
            topic, number,
        )  # fmt: skip
        if found is None:
            return None
        life, name, deleted = found
        return History(life, f"{name}-{number}", deleted, self.tables)

    def partitions(self, topic: str) -> Iterator[History]:
        """The partitions of a topic, by their numbers."""
        found = self.tables.row("SELECT name FROM topic WHERE asked = ?", topic)
        numbers = self.tables.rows(
            "SELECT DISTINCT partition FROM life WHERE topic = ? ORDER BY partition", *(found or (None,))
        )
        for (number,) in numbers:
            history = self.history(topic, number)
            if history is not None:
                yield history

    def change(self, change: PartitionChange) -> None:
        """A change of a partition."""
        name, after = change.name, change.after
        known = self._living.get(name)
        if after is None:
            if known is not None:
                del self._living[name]
                self.tables.write("UPDATE life SET deleted = ? WHERE life = ?", change.time, known.life)
            return
        if known is None or change.before is None:
            self._lives += 1
            known = self._living[name] = _Living(self._lives, -1, after)
            self.tables.write(
                "INSERT INTO life VALUES (?, ?, ?, ?, NULL)",
                known.life, change.topic, change.partition, change.position,
            )  # fmt: skip
        version = Version(
            change.position, change.time, after, change.min_isr, change.unclean_election, change.cause
        )
        self._add(known, version)

    def setting(self, name: str, setting: SettingInForce) -> None:
        """What a setting is for a partition from here on."""
        known = self._living.get(name)
        if known is not None:
            at = setting.change
            version = Version(at.position, at.time, known.state, setting.min_isr, setting.unclean_election)
            self._add(known, version)

    def _add(self, known: _Living, version: Version) -> None:
        self._count += 1
        state, position = version.state, version.position
        if state.leader_epoch != known.epoch:
            self.tables.write(
                "INSERT OR IGNORE INTO epoch VALUES (?, ?, ?, ?, ?, ?)",
                known.life, state.leader_epoch, state.leader, self._count, version.time, position,
            )  # fmt: skip
        known.epoch, known.state = state.leader_epoch, state
        self.tables.write(
            "INSERT INTO version VALUES (?, ?, ?, ?, ?)",
            known.life, self._count, version.time, state.partition_epoch, encoded(version),
        )  # fmt: skip
        self.tables.write("INSERT OR IGNORE INTO place VALUES (?)", position)

    # --- topics and brokers ---------------------------------------------------------------------------

    def read(self, log: MetadataLog) -> None:
        """Topics and brokers, from the log's start on. Damage ends it: the replay of the log tells of it."""
        try:
            if log.start is not None:
                for batch in log.start.batches():
                    before = [-1] * len(batch.values)
                    self._records(before, batch.times, batch.values, batch.control)
            for found in log.batches():
                if not isinstance(found, Gap):
                    batch = found[1]
                    self._records(batch.offsets, batch.times, batch.values, batch.control)
        except Unusable:
            raise
        except (TraceError, DamagedRecord):
            return

    def _records(
        self, offsets: Sequence[int], times: Sequence[int], values: Sequence[bytes | None], control: bool
    ) -> None:
        if control:
            return
        for position, time, value in zip(offsets, times, values, strict=True):
            if value is None or len(value) < 2 or value[1] not in _READ or api_key(value)[0] not in _READ:
                continue
            try:
                record = decode(value)
            except UnknownRecord:
                continue
            if record.type == _TOPIC:
                name = record.data["name"]
                for asked in (record.data["topicId"], name):
                    self.tables.write("INSERT OR REPLACE INTO topic VALUES (?, ?, ?)", asked, name, position)
            else:
                self._broker(position, time, record.type, record.data)

    def _broker(self, position: int, time: int, type: str, data: Mapping[str, Any]) -> None:
        broker = data.get("brokerId", data.get("id"))
        assert isinstance(broker, int)
        before = self.brokers.get(broker) or Registration(-1, 0, -1, True, False, False)
        fenced, stopping, registered = before.fenced, before.in_controlled_shutdown, True
        epoch = data.get("brokerEpoch", data.get("epoch", before.epoch))
        if type == "REGISTER_BROKER_RECORD":
            fenced, stopping = bool(data["fenced"]), bool(data.get("inControlledShutdown", False))
            for point in data["endPoints"]:
                self.listeners[f"{point['host']}:{point['port']}"] = broker
        elif type == "BROKER_REGISTRATION_CHANGE_RECORD":
            change = data.get("fenced", 0)
            fenced = fenced if not change else change > 0
            stopping = stopping or data.get("inControlledShutdown", 0) > 0
        elif type == "UNREGISTER_BROKER_RECORD":
            fenced, registered = True, False
        else:
            fenced = type == "FENCE_BROKER_RECORD"
        self.brokers[broker] = Registration(position, time, epoch, fenced, stopping, registered)
        self.tables.write(
            "INSERT INTO registration VALUES (?, ?, NULL, ?, ?, ?, ?, ?)",
            broker, position, time, epoch, fenced, stopping, registered,
        )  # fmt: skip
        self.tables.write("INSERT OR IGNORE INTO place VALUES (?)", position)
        if registered:
            self.tables.write(
                "INSERT OR IGNORE INTO incarnation VALUES (?, ?, ?, ?)", broker, epoch, position, time
            )

    def registration(self, broker: int, position: int) -> Registration | None:
        """A broker's registration as the record at this offset, or the last one before it, has it."""
        found = self.tables.row(
            "SELECT position, time, epoch, fenced, stopping, registered FROM registration "
            "WHERE broker = ? AND position <= ? ORDER BY position DESC, number DESC LIMIT 1",
            broker, position,
        )  # fmt: skip
        if found is None:
            return None
        position, time, epoch, *flags = found
        return Registration(position, time, epoch, *map(bool, flags))

    def epochs_of(self, broker: int) -> list[int]:
        """The last broker epochs that a broker was registered with, in order."""
        query = "SELECT epoch FROM incarnation WHERE broker = ? ORDER BY epoch DESC LIMIT ?"
        return [epoch for (epoch,) in self.tables.rows(query, broker, TOLD)][::-1]

    def latest_epoch(self, broker: int, by_ms: float = NEVER) -> int:
        """The greatest broker epoch that a broker was registered with by a time; −1 where there is none."""
        query = "SELECT epoch FROM incarnation WHERE broker = ? AND time <= ? ORDER BY epoch DESC LIMIT 1"
        found = self.tables.row(query, broker, by_ms)
        return -1 if found is None else int(found[0])

    def registered(self, broker: int, epoch: int) -> float:
        """When a broker was registered with an epoch; never, where it was not."""
        found = self.tables.row("SELECT time FROM incarnation WHERE broker = ? AND epoch = ?", broker, epoch)
        return NEVER if found is None else float(found[0])

    def registered_later(self, broker: int, epoch: int) -> tuple[float, int | None]:
        """When a broker was registered with the next epoch, and at which offset; never, where it was not."""
        found = self.tables.row(
            "SELECT time, position FROM incarnation WHERE broker = ? AND epoch > ? ORDER BY epoch LIMIT 1",
            broker, epoch,
        )  # fmt: skip
        return (NEVER, None) if found is None else (float(found[0]), found[1])

    def starts_after(self, broker: int, time: float) -> float:
        """When a broker was registered with a new epoch next, after a time; never, where it was not."""
        found = self.tables.row(
            "SELECT min(time) FROM incarnation WHERE broker = ? AND time > ?", broker, time
        )
        return NEVER if found is None or found[0] is None else float(found[0])

    # --- both -----------------------------------------------------------------------------------------

    def changes_after(self, position: int) -> float:
        """The next offset at which a partition or a registration changed; infinity where there is none."""
        found = self.tables.row("SELECT min(position) FROM place WHERE position > ?", position)
        return NEVER if found is None or found[0] is None else float(found[0])

    def decisions(self, history: History, start_ms: float, end_ms: float) -> list[tuple[int, Version]]:
        """The offsets at which a partition or a registration changed between two times, with the partition there.

        The first is what was in force at the start.
        """
        versions, places = history.around(start_ms, end_ms), set[int]()
        before = self.tables.row(
            "SELECT position FROM registration WHERE time < ? ORDER BY time DESC, number DESC LIMIT 1",
            start_ms,
        )
        places |= {v.position for v in versions[1:]}
        within = "SELECT position FROM registration WHERE time >= ? AND time <= ?"
        places |= {position for (position,) in self.tables.rows(within, start_ms, end_ms)}
        begins = -1 if before is None else before[0]
        places |= {max(v.position, begins) for v in versions[:1]}
        found = {}
        for place in places:
            then = [v for v in versions if v.position <= place]
            if then:
                found[place] = then[-1]
        return sorted(found.items())
