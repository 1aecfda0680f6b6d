"""Reading a range of a metadata log, and routing its records to the shares that follow them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import Gap, MetadataLog, Snapshot
from highwater.traces.kafka.partition_records import CHANGE, is_creation, kind, topic_id
from highwater.traces.metadata.groups import Record, RecordGroups, have_values
from highwater.traces.metadata.replay import Sequence as InSequence
from highwater.traces.metadata.replay import not_compared
from highwater.traces.metadata.shares.blocks import CHECK, CUT_OFF, EPOCH, FILE, GAP, GROUP, LOADING, Writer
from highwater.traces.metadata.shares.plan import Range
from highwater.traces.metadata.sharing import Elsewhere, SharedRecord, share_of
from highwater.traces.reading.errors import TraceError


@dataclass
class RangeHead:
    """What is counted once of a range, whatever the shares.

    ``last_time`` is the greatest time of its records. ``notes`` are about its file, ``remarks`` about the log.
    ``is_open``: it ends within a transaction. ``error`` is what could not be read; what stands before it was routed.
    """

    records: int = 0
    last_time: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    is_open: bool = False
    error: str | None = None


def route(log: MetadataLog, part: Range, count: int) -> tuple[RangeHead, list[bytes]]:
    """What a range has for each of so many shares, as blocks."""
    routed = _Routed(log, part, count)
    try:
        routed.read()
    except TraceError as wrong:
        routed.head.error = str(wrong)
    return routed.head, [writer.block() for writer in routed.writers]


Adding = tuple[Callable[[int], None], Callable[[int], None], Callable[[bytes], None]]


class _Routed:
    def __init__(self, log: MetadataLog, part: Range, count: int) -> None:
        self._log, self._range = log, part
        self.head = RangeHead()
        self.writers = [Writer() for _ in range(count)]
        self._adding: dict[bytes, Adding] = {}
        self._groups = RecordGroups(self._skipped, self._damaged)
        self._path = Path()
        self._epoch: int | None = None

    def read(self) -> None:
        """Route everything. Raises TraceError."""
        part = self._range
        if part.loaded:
            self._common(LOADING, [(0, 0, b"\1")])
            for piece in part.pieces[: part.loaded]:
                for found in piece.batches(self.head.notes):
                    assert not isinstance(found, Gap)
                    self._take(*found)
            self._common(LOADING, [(0, 0, b"")])
        sequence = InSequence(self._log)
        del sequence.checks[: part.checked]
        sequence.next_offset = part.next_offset
        number = part.checked
        for entry in sequence.entries(
            found for piece in part.pieces[part.loaded :] for found in piece.batches(self.head.notes)
        ):
            if isinstance(entry, Gap):
                self._file(entry.path)
                self._common(GAP, [(entry.found_offset, entry.expected_offset, b"")])
            elif isinstance(entry, Snapshot):
                self._check(number)
                number += 1
            else:
                self._batch(*entry)
        if not part.is_last:
            self.head.is_open = self._groups.is_open
            return
        for snapshot in sequence.checks:
            if snapshot.end_offset == sequence.next_offset:
                self._check(number)
            else:
                self.head.remarks.append(not_compared(snapshot, sequence.next_offset))
            number += 1
        self._settle()
        for group in self._groups.close():
            self._group(group)
        if note := self._groups.note():
            self.head.remarks.append(note)

    def _check(self, number: int) -> None:
        self._settle()
        self._common(CHECK, [(number, 0, b"")])

    def _settle(self) -> None:
        for group in self._groups.settle():
            self._group(group, CUT_OFF)

    def _batch(self, path: Path, batch: RecordBatch) -> None:
        if batch.leader_epoch != self._epoch:
            self._epoch = batch.leader_epoch
            self._settle()
            time = batch.timestamp.to_bytes(8, "big", signed=True)
            self._common(EPOCH, [(batch.base_offset, batch.leader_epoch, time)])
        self._take(path, batch)

    def _take(self, path: Path, batch: RecordBatch) -> None:
        self._file(path)
        values, head = batch.values, self.head
        head.records += len(values)
        if batch.control:
            self._skipped("control records", len(values))
            return
        head.last_time = max(head.last_time, batch.timestamp)
        kinds = self._groups.kinds(batch.base_offset, values)
        assert have_values(values, kinds)
        if self._groups.are_alone(kinds, len(values)):
            self._changes(batch.offsets, batch.timestamp, values)
        else:
            for group in self._groups.take(batch.offsets, batch.timestamp, values):
                self._group(group)

    def _changes(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> None:
        adding, no_ops = self._adding, 0
        for position, value in enumerate(values):
            if kind(value) != CHANGE:
                no_ops += 1
                continue
            topic = topic_id(value)
            to = adding.get(topic) or self._to(topic)
            to[0](offsets[position])
            to[1](time)
            to[2](value)
        if no_ops:
            self._skipped("NO_OP_RECORD", no_ops)

    def _to(self, topic: bytes) -> Adding:
        writer = self.writers[share_of(topic, len(self.writers))]
        self._adding[topic] = found = (
            writer.offsets.append,
            writer.times.append,
            writer.values.append,
        )
        return found

    def _group(self, records: Sequence[Record], kind_of: int = GROUP) -> None:
        """Records that belong together: to each share its own, and what all have to know.

        Of changes of others between two records about the cluster, the first is enough to know, and so it is of
        partitions of others that are created one after the other.
        """
        count = len(self.writers)
        parts: list[list[SharedRecord]] = [[] for _ in range(count)]
        known: Elsewhere | None = None
        for record in records:
            offset, time, value = record
            if kind(value) == CHANGE:
                elsewhere = Elsewhere.CHANGE
            elif is_creation(value):
                elsewhere = Elsewhere.CREATION
            else:
                known = None
                for part in parts:
                    part.append(record)
                continue
            owner = share_of(topic_id(value), count)
            if elsewhere is not known:
                known = elsewhere
                for number, part in enumerate(parts):
                    if number != owner:
                        part.append((offset, time, elsewhere))
            parts[owner].append(record)
        for writer, part in zip(self.writers, parts, strict=True):
            writer.add(kind_of, part)

    def _common(self, kind_of: int, records: Sequence[Record]) -> None:
        for writer in self.writers:
            writer.add(kind_of, records)

    def _file(self, path: Path) -> None:
        if path != self._path:
            self._path = path
            self._common(FILE, [(0, 0, str(path).encode())])

    def _skipped(self, what: str, number: int = 1) -> None:
        if number:
            self.head.skipped[what] = self.head.skipped.get(what, 0) + number

    def _damaged(self, offset: int, message: str) -> TraceError:
        return TraceError(self._path, None, f"offset {offset}", message)
