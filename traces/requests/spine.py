"""What the metadata log says beside request logs: topics by id, registrations, and each partition's versions.

It orders what happened: leader epochs, partition epochs and broker epochs in the messages are those of its records.
All of it lies in tables on disk, and is looked up: in memory there is of each partition that is there what it is at the
end, and of each broker its last registration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from highwater.traces.kafka.metadata_log import Gap, MetadataLog
from highwater.traces.kafka.values import KEYS, DamagedRecord, UnknownRecord, api_key, decode
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.reports.settings import SettingInForce
from highwater.traces.requests.history import NEVER, TOLD, History, Version, encoded
from highwater.traces.requests.tables import Tables, Unusable

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
