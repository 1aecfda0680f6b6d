"""What the controllers' request logs say: proposals, registrations, and how far brokers had replayed the metadata log.

It is read before the brokers' logs, and lies in tables on disk until it is asked for. Times are those of the logs
until ``settle`` is told how far each log's clock is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

from msgspec import msgpack
from msgspec.structs import replace

from highwater.traces.kafka.broker_log import UtcOffset
from highwater.traces.requests.history import NEVER, Version
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.messages import Heartbeat, Proposal, Registered
from highwater.traces.requests.spine import Spine
from highwater.traces.requests.tables import Tables

_SCHEMA = """
CREATE TABLE proposal (
    number INTEGER PRIMARY KEY, log INTEGER, arrived REAL, life INTEGER, broker INTEGER, epoch INTEGER,
    partition_epoch INTEGER, error INTEGER, made INTEGER, topic TEXT, body BLOB
);
CREATE INDEX in_order ON proposal (arrived, number);
CREATE INDEX of_leader ON proposal (broker, life, epoch, arrived, number);
CREATE INDEX of_life ON proposal (life, error, made);
CREATE TABLE apart (log INTEGER, ms REAL);
CREATE INDEX by_ms ON apart (log, ms);
CREATE TABLE registered (number INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE told (number INTEGER PRIMARY KEY, broker INTEGER, log INTEGER, arrived REAL, replayed INTEGER);
CREATE TABLE replayed (broker INTEGER, position INTEGER, time REAL, PRIMARY KEY (broker, position)) WITHOUT ROWID;
CREATE INDEX by_time ON replayed (broker, time);
"""
NEW_LEADER_ELECTED = 108


class AskedOfControllers:
    """The requests to controllers, as they are read (``add_…``), and what they say once they are settled."""

    def __init__(self, spine: Spine) -> None:
        self._spine, self._tables = spine, Tables(_SCHEMA)
        self._paths: list[Path] = []
        self._ahead: dict[Path, float] = {}
        self._offset = UtcOffset()
        self._next: dict[tuple[int, int], float] = {}
        """Of each broker in each log, the first change that it has not said to have replayed."""
        self.unknown = 0
        """Proposals for partitions that the metadata log does not have."""
        # Rows have the number of a line's file, which is the last one when they are written.
        self._encoded = msgpack.Encoder(enc_hook=lambda path: len(self._paths) - 1).encode
        self._proposal = msgpack.Decoder(Proposal, dec_hook=self._path).decode
        self._registered = msgpack.Decoder(Registered, dec_hook=self._path).decode

    # --- what is read -----------------------------------------------------------------------------------

    def _log(self, line: RequestLine) -> int:
        """The number of a line's file."""
        if not self._paths or self._paths[-1] != line.path:
            self._paths.append(line.path)
        return len(self._paths) - 1

    def _path(self, kind: type, number: int) -> Path | None:
        return self._paths[number] if kind is Path else None  # what a request said is not kept

    def add_proposal(self, found: Proposal) -> None:
        """A partition of an AlterPartition. Raises TraceError."""
        line, log = replace(found.line, said=None), self._log(found.line)
        history = self._spine.history(*found.key)
        if history is None:
            self.unknown += 1
        elif not found.error:
            for version in history.with_partition_epoch(found.leader_epoch, found.answer_partition_epoch):
                self._offset.add(round(line.answered), version.time)
                self._tables.write("INSERT INTO apart VALUES (?, ?)", log, line.answered - version.time)
        self._tables.write(
            "INSERT INTO proposal VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            log, line.arrived, None if history is None else history.number, found.broker,
            found.leader_epoch, found.partition_epoch, found.error, found.answer_partition_epoch, found.key[0],
            self._encoded(replace(found, line=line)),
        )  # fmt: skip

    def add_registration(self, line: RequestLine, found: Registered) -> None:
        """A registration of a broker."""
        self._log(line)
        body = self._encoded(found._replace(line=replace(line, said=None)))
        self._tables.write("INSERT INTO registered VALUES (NULL, ?)", body)

    def add_heartbeat(self, line: RequestLine, found: Heartbeat) -> None:
        """A heartbeat, in the order of its log; one that was refused says nothing.

        They come every two seconds of each broker, and of most the offset says nothing new of a partition or a
        broker: kept are those before which something changed.
        """
        if found.error:
            return
        log, offset = self._log(line), found.metadata_offset
        if offset >= self._next.get((found.broker, log), -NEVER):
            self._next[(found.broker, log)] = self._spine.changes_after(offset)
            self._tables.write(
                "INSERT INTO told VALUES (NULL, ?, ?, ?, ?)", found.broker, log, line.arrived, offset
            )

    # --- clocks -----------------------------------------------------------------------------------------

    @property
    def offset_ms(self) -> int:
        """How far the logs' time is ahead of UTC, by its zone."""
        return self._offset.offset_ms or 0

    def apart(self) -> Iterator[tuple[Path, int, float]]:
        """Of each log how many decisions there are, and the median of how many ms it is ahead of the metadata log's."""
        for log, path in enumerate(self._paths):
            row = self._tables.row("SELECT count(*) FROM apart WHERE log = ?", log)
            count = 0 if row is None else int(row[0])
            if count:
                middle = self._tables.rows(
                    "SELECT ms FROM apart WHERE log = ? ORDER BY ms LIMIT ? OFFSET ?",
                    log, 2 - count % 2, (count - 1) // 2,
                )  # fmt: skip
                yield path, count, median(ms for (ms,) in middle)

    def settle(self, ahead: Callable[[Path], float]) -> None:
        """Take out by how many ms the times of each log are ahead. What the controllers said can be asked for then."""
        self._ahead = {path: ahead(path) for path in self._paths}
        for log, path in enumerate(self._paths):
            for table in ("proposal", "told"):
                self._tables.write(
                    f"UPDATE {table} SET arrived = arrived - ? WHERE log = ?", self._ahead[path], log
                )
        of, highest = None, -1
        query = "SELECT broker, arrived, replayed FROM told ORDER BY broker, arrived, number"
        for broker, time, offset in self._tables.rows(query):
            if broker != of or offset > highest:
                self._tables.write("INSERT INTO replayed VALUES (?, ?, ?)", broker, offset, time)
                of, highest = broker, offset

    def _settled(self, line: RequestLine) -> RequestLine:
        by = self._ahead[line.path]
        times = {name: getattr(line, name) - by for name in ("arrived", "taken", "answered", "ended")}
        return replace(line, **times)

    # --- what they say ----------------------------------------------------------------------------------

    def registrations(self) -> Iterator[Registered]:
        """All registrations, in the order of the logs."""
        for (body,) in self._tables.rows("SELECT body FROM registered ORDER BY number"):
            found = self._registered(body)
            yield found._replace(line=self._settled(found.line))

    def proposals(self) -> Iterator[Proposal]:
        """All proposals for partitions that are known, in the order of their arrival."""
        query = "SELECT body FROM proposal WHERE life IS NOT NULL ORDER BY arrived, number"
        return self._read(self._tables.rows(query))

    def proposed(self, broker: int, life: int, epoch: int) -> Iterator[Proposal]:
        """A leader's proposals in a leader epoch, in the order of their arrival."""
        return self._read(self._tables.rows(
            "SELECT body FROM proposal WHERE broker = ? AND life = ? AND epoch = ? ORDER BY arrived, number",
            broker, life, epoch,
        ))  # fmt: skip

    def _read(self, rows: Iterable[tuple[bytes]]) -> Iterator[Proposal]:
        for (body,) in rows:
            found = self._proposal(body)
            yield replace(found, line=self._settled(found.line))

    def topics(self) -> list[str]:
        """The topics of all proposals, as they are named."""
        return [topic for (topic,) in self._tables.rows("SELECT DISTINCT topic FROM proposal ORDER BY topic")]

    def made(self, life: int, version: Version) -> bool:
        """Whether an answer tells of a version of a partition, or that somebody else came to lead in it."""
        epoch, state = version.state.leader_epoch, version.state
        told = self._tables.row(
            "SELECT 1 FROM proposal WHERE life = ? AND error = 0 AND made = ? AND epoch IN (?, ?)",
            life, state.partition_epoch, epoch, epoch - 1,
        )  # fmt: skip
        moved = self._tables.row(
            "SELECT 1 FROM proposal WHERE life = ? AND error = ? AND partition_epoch = ?",
            life, NEW_LEADER_ELECTED, state.partition_epoch - 1,
        )  # fmt: skip
        return told is not None or moved is not None

    def had_replayed(self, broker: int, position: int, by: float) -> bool:
        """Whether a broker had surely replayed the metadata log up to an offset by a time of the controller's clock."""
        query = "SELECT position FROM replayed WHERE broker = ? AND time <= ? ORDER BY time DESC, position DESC LIMIT 1"
        found = self._tables.row(query, broker, by)
        return found is not None and found[0] >= position

    def knew(self, broker: int, position: int | None) -> float:
        """By when, of the controller's clock, a broker had told that it had replayed an offset; never, of None."""
        query = "SELECT time FROM replayed WHERE broker = ? AND position >= ? ORDER BY position LIMIT 1"
        found = None if position is None else self._tables.row(query, broker, position)
        return NEVER if found is None else float(found[0])
