"""Segments and snapshots in the form of Kafka's controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from tests.generation.batches import control_batch, encode_batch

MAX_RECORDS = 10_000
"""The most records of a batch: Kafka's limit of one append."""
LINGER_MS = 25
"""Milliseconds within which records share a batch (Kafka's ``controller.quorum.append.linger.ms``)."""
SNAPSHOT_RECORDS = 1024
"""The most records of a batch of a snapshot."""


class LogWriter:
    """A context manager that appends to a metadata log; leaving it writes the open batch.

    A segment is named after its first offset and ends after ``segment_bytes``. ``offset`` is the next
    record's.
    """

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self.directory, self.offset, self.epoch = directory, 0, 0
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._size = 0
        self._open: list[bytes] = []
        self._since = self.time = 0

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            if self._file is not None:
                self._file.close()

    def append(self, values: Sequence[bytes], time: int) -> None:
        """Append a decision's records. ``time`` (ms) must not decrease."""
        if self._open and (time - self._since > LINGER_MS or len(self._open) + len(values) > MAX_RECORDS):
            self.flush()
        if not self._open:
            self._since = time
        self.offset += len(values)
        self._open += values
        while len(self._open) > MAX_RECORDS:
            self._write_records(MAX_RECORDS)

    def new_epoch(self, controller: int, time: int) -> None:
        """Elect a controller: append the record that begins its leader epoch."""
        self.flush()
        self.epoch += 1
        first = controller - controller % 100
        voters = [{"voterId": voter} for voter in range(first, first + 3)]
        elected: dict[str, Any] = {"leaderId": controller, "voters": voters, "grantingVoters": voters[:2]}
        self._write(control_batch(self.offset, self.epoch, time, "LEADER_CHANGE", **elected), self.offset)
        self.offset += 1

    def flush(self) -> None:
        if self._open:
            self._write_records(len(self._open))

    def snapshot(self, records: Iterable[bytes], time: int) -> None:
        """Write a snapshot of all records before ``offset``."""
        self.flush()
        path = self.directory / f"{self.offset:020d}-{self.epoch:010d}.checkpoint"
        with path.open("wb") as file:
            head = {"lastContainedLogTimestamp": self.time}
            file.write(control_batch(0, self.epoch, time, "SNAPSHOT_HEADER", **head))
            at, every = 1, iter(records)
            while batch := list(islice(every, SNAPSHOT_RECORDS)):
                file.write(encode_batch(at, self.epoch, time, batch))
                at += len(batch)
            file.write(control_batch(at, self.epoch, time, "SNAPSHOT_FOOTER"))

    def _write_records(self, count: int) -> None:
        values, self._open = self._open[:count], self._open[count:]
        first = self.offset - len(self._open) - count
        self.time = self._since
        self._write(encode_batch(first, self.epoch, self.time, values), first)

    def _write(self, batch: bytes, first: int) -> None:
        if self._file is None or self._size + len(batch) > self._segment_bytes:
            if self._file is not None:
                self._file.close()
            self._file, self._size = (self.directory / f"{first:020d}.log").open("wb", 1 << 20), 0
        self._file.write(batch)
        self._size += len(batch)
