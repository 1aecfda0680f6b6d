"""Follow one cluster: turn its growing metadata log and its brokers' logs into changes of open incidents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from highwater.traces.follow.reading import ClusterLogs, Counts, LogReading, Notice
from highwater.traces.follow.tail import LogStart, LogTail
from highwater.traces.kafka.metadata_log import Gap
from highwater.traces.reading import TraceError
from highwater.traces.reports.incidents import AT_RISK, LOST, UNCLEAN, Incident

OPENED, CHANGED, CLOSED = "opened", "changed", "closed"


@dataclass(frozen=True)
class IncidentChange:
    """An incident was opened, changed or closed (``event``).

    ``offset`` and ``time`` describe the last record read: its offset in the metadata log (-1 before the first record),
    and its append time in ms since the epoch. ``was`` is the severity before a change, None if the incident is new.
    """

    event: str
    offset: int
    time: int
    incident: Mapping[str, Any]
    was: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The change as plain data for JSON, without ``was``."""
        return {"event": self.event, "offset": self.offset, "time": self.time, "incident": self.incident}


@dataclass(frozen=True)
class OpenIncidents:
    """The open incidents by id, as plain data for JSON, and the part of the log that shows them.

    It is the part from the snapshot that ends at ``begun_at`` (0: from the first record) to before ``next_offset``.
    """

    begun_at: int
    next_offset: int
    incidents: Mapping[str, Mapping[str, Any]]


class Following:
    """Follows one cluster: call ``poll`` repeatedly.

    ``before`` has the incidents that an earlier follower reported as open. They are compared with those that the
    metadata log shows once it has been read again. The log is also read again if it was truncated or replaced.
    """

    def __init__(self, logs: ClusterLogs, before: OpenIncidents | None = None) -> None:
        self._logs = logs
        self._tail = LogTail(logs.metadata, None if before is None else before.begun_at)
        self._reading: LogReading | None = None
        self._next_offset = 0 if before is None else before.next_offset  # of the last comparison
        self._compared: dict[str, Incident] = {}
        self._damage = ""
        self.counts = Counts()
        self.reported = {} if before is None else dict(before.incidents)
        """The open incidents by id, as they were reported last."""
        self.is_behind = False
        """True if the last poll read something, and left more to read."""

    @property
    def open_incidents(self) -> OpenIncidents | None:
        """The incidents reported as open; None until the log has been read to its end once."""
        if self._reading is None or self._reading.is_new:
            return None
        return OpenIncidents(self._tail.begun_at or 0, self._next_offset, dict(self.reported))

    def close(self) -> None:
        """Close the files of all logs."""
        self._tail.close()
        if self._reading is not None:
            self._reading.close()

    def poll(self) -> Iterator[IncidentChange | Notice]:
        """Read new records and lines of brokers' logs. ``counts`` is complete once the iterator is exhausted."""
        pieces = 0
        try:
            for piece in self._tail.poll():
                pieces += 1
                if isinstance(piece, LogStart):
                    yield from self._begin(piece)
                    continue
                assert self._reading is not None
                if isinstance(piece, Gap):
                    self._reading.gap(piece.path, piece.expected_offset, piece.found_offset)
                else:
                    yield from self._reading.take(*piece)
            self._damage = ""
        except TraceError as wrong:
            if str(wrong) != self._damage:  # reported once, although each poll tries again
                self._damage = str(wrong)
                self.counts.damaged += 1
                yield Notice("unreadable", str(wrong), self._tail.next_offset)
        self.counts.is_waiting = self._tail.is_waiting
        self.is_behind = pieces > 0 and self._tail.has_more
        reading = self._reading
        if reading is None:
            return
        if not self.is_behind:
            yield from reading.read_broker_logs()
            yield from self._compare(reading)
        if pieces:
            reading.count()

    def _begin(self, piece: LogStart) -> Iterator[Notice]:
        """Begin a new reading, with the snapshot if there is one."""
        if self._reading is not None:
            self._reading.close()
        read_before = max(self._next_offset, self.counts.next_offset)
        self.counts.next_offset = self._tail.next_offset
        self.counts.caveats = self.counts.damaged = 0
        reading = self._reading = LogReading(self._logs, self.counts, read_before)
        if piece.why:
            yield Notice("read again", piece.why, self._tail.next_offset)
        for path in piece.incomplete:
            yield Notice("unreadable", f"{path}: the snapshot is damaged or not complete")
        if piece.snapshot is None:
            yield Notice("begun", "with the first record of the log", 0)
            return
        end = piece.snapshot.end_offset
        try:
            reading.load(piece.snapshot)
        except TraceError as wrong:
            self.counts.damaged += 1
            yield Notice("unreadable", str(wrong), end)
        if 0 < read_before < end:
            missed = f"offsets {read_before} to {end - 1} were deleted before they were read"
            yield Notice("missed", missed, read_before)
        yield Notice("begun", f"with the snapshot {piece.snapshot.path.name}", end)

    # --- comparing --------------------------------------------------------------------------------

    def _compare(self, reading: LogReading) -> Iterator[IncidentChange]:
        """The differences between the reported incidents and those that ``reading`` shows now.

        An incident that ended since the last comparison is reported even if it was not reported as open. But an
        incident that a new reading shows as ended, from a record that was read before, has been reported before.
        """
        ledger, reported = reading.ledger, self.reported
        for id, one in ledger.ended.items():
            offset = one.position.get("offset", self._next_offset)
            if id not in reported and (not reading.is_new or offset >= self._next_offset):
                yield self._change(OPENED, self._said(one))
            if id in reported:
                yield self._change(CLOSED, self._said(one))
        ledger.ended.clear()
        for id, one in ledger.open.items():
            if one is self._compared.get(id):
                continue
            if id not in reported:
                yield self._change(OPENED, self._said(one))
            elif (said := self._said(one)) != reported[id]:
                yield self._change(CHANGED, said)
        self._compared = dict(ledger.open)
        for id in sorted(reported.keys() - ledger.open.keys()):
            if self._has_ended(reading, reported[id]):
                yield self._change(CLOSED, reported[id])
        if reading.has_caught_up:
            reading.is_new = False
            self._next_offset = max(self._next_offset, self._tail.next_offset)

    def _said(self, one: Incident) -> Mapping[str, Any]:
        """An incident as it is reported: as before, if the lines that decided it are in rotated logs of brokers."""
        known = self.reported.get(one.id)
        if known is not None and known["severity"] in (LOST, UNCLEAN) and one.severity == AT_RISK:
            return known
        return {**one.to_json(), "group": one.id}

    def _has_ended(self, reading: LogReading, incident: Mapping[str, Any]) -> bool:
        """True if an incident has ended that an earlier reading has shown, but this one has not.

        It has ended if its partition is whole or was deleted, or if its record was read again. But the lines of
        brokers' logs that show a loss may have been rotated.
        """
        partition = reading.partition(incident["partition"])
        if partition is not None and partition.observed.is_whole:
            return True
        if self._tail.has_more and self._tail.next_offset < self._next_offset:
            return False  # the log is damaged before the offset that was read
        is_again = incident["position"].get("offset", -1) >= (self._tail.begun_at or 0)
        return partition is None or (is_again and incident["severity"] != LOST)

    def _change(self, event: str, incident: Mapping[str, Any]) -> IncidentChange:
        id = incident["id"]
        known = self.reported.pop(id, None)
        if event != CLOSED:
            self.reported[id] = incident
        was = None if known is None else known["severity"]
        return IncidentChange(event, self.counts.next_offset - 1, self.counts.last_time, incident, was)
