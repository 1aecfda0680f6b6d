"""A metadata log and its files, recognized by content: segments, snapshots, and dumps of both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from highwater.traces.kafka.batches import (
    COMPRESSION,
    CONTROL,
    HEADER,
    LEAST,
    MAGIC,
    MAX_BATCH,
    RecordBatch,
    read_batches,
)
from highwater.traces.kafka.dumps import SNAPSHOT_HEAD, read_dump
from highwater.traces.kafka.values import TYPES, DamagedRecord, api_key, control_type
from highwater.traces.reading import Source, TraceError, readable

SEGMENT, SNAPSHOT = "metadata segment", "metadata snapshot"
SEGMENT_DUMP, SNAPSHOT_DUMP = "metadata dump", "snapshot dump"
LOOKED_AT = 1 << 16
"""The number of bytes of a file that are read to recognize it."""

LEADER_CHANGE, SNAPSHOT_HEADER = 2, 3
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BATCH_LINE = re.compile(rb"(?:baseOffset|\| offset): (\d{1,19}) ")
_RECORD_LINE = re.compile(
    rb"(SnapshotHeader|LeaderChange|controlType: LEADER_CHANGE|"
    rb'payload: \{"type":"[A-Z_]{1,60}_RECORD")'
)
_FIRST_RECORD = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]\x00[\x80-\xff]{0,9}[\x00-\x7f]\x00(.*)", re.DOTALL)


_WITHIN = 8000
"""The bytes after the start of the first batch within which a dump's first record stands."""


class KnownFile(NamedTuple):
    """A recognized file: its kind, its first offset and, for a snapshot, its end offset and leader epoch."""

    kind: str
    base_offset: int
    end_offset: int | None = None
    epoch: int | None = None


def recognise(path: Path) -> str | None:
    """The kind of a file: metadata segment, metadata snapshot, metadata dump or snapshot dump; None for others.

    A gzip file is decompressed first. Raises TraceError if the file cannot be read.
    """
    found = inspect(path)
    return None if found is None else found.kind


def inspect(path: Path) -> KnownFile | None:
    """Recognize a file by its first bytes. Raises TraceError if the file cannot be read.

    Returns None if the file is no part of a metadata log, or if it is a damaged compressed file.
    """
    with Source(path) as source:
        try:
            head = source.read(LOOKED_AT)
        except TraceError:
            if not source.compressed:
                raise
            # A damaged compressed file cannot be recognized, so it counts as a foreign file.
            return None
    return known_by(path, head)


def known_by(path: Path, head: bytes) -> KnownFile | None:
    """Recognize a file by ``head``, its first ``LOOKED_AT`` bytes; None if it is no part of a metadata log."""
    return _binary(path, head) or _dump(head)


def _binary(path: Path, head: bytes) -> KnownFile | None:
    if len(head) < HEADER.size:
        return None
    base, length, _, magic, _, attributes, delta, _, count = HEADER.unpack_from(head)
    if (
        magic != MAGIC
        or not LEAST <= length <= MAX_BATCH
        or base < 0
        or delta < 0
        or not 0 < count <= delta + 1
    ):
        return None
    kind = _first_record(path, head, bool(attributes & CONTROL), attributes & COMPRESSION)
    if kind != SNAPSHOT:
        return None if kind is None else KnownFile(kind, base)
    name = _NAME.match(path.name)
    return KnownFile(kind, base, int(name[1]), int(name[2])) if name else KnownFile(kind, base)


def _first_record(path: Path, head: bytes, control: bool, codec: int) -> str | None:
    """The kind of a metadata file, from its first record; None for other files."""
    if codec:
        # Kafka does not compress the metadata log. A compressed one is recognized if its first batch is small.
        try:
            batch = next(read_batches(path, BytesIO(head)), None)
        except TraceError:
            return None
        if batch is None or not batch.values:
            return None
        return _kind(batch.keys[0] if batch.control else None, batch.values[0] or b"", control)
    found = _FIRST_RECORD.match(head[HEADER.size :])
    if found is None:
        return None
    rest = found[1]
    if control:
        return _kind(rest[1:5], b"", True) if rest[:1] == b"\x08" else None
    if rest[:1] != b"\x01":
        return None
    value = re.match(rb"[\x80-\xff]{0,4}[\x00-\x7f](.*)", rest[1:], re.DOTALL)
    return None if value is None else _kind(None, value[1][:16], False)


def _kind(key: bytes | None, value: bytes, control: bool) -> str | None:
    try:
        if control:
            return {LEADER_CHANGE: SEGMENT, SNAPSHOT_HEADER: SNAPSHOT}.get(control_type(key))
        return SEGMENT if api_key(value)[0] in TYPES else None
    except DamagedRecord:
        return None


def _dump(head: bytes) -> KnownFile | None:
    batch = _BATCH_LINE.search(head)
    record = None if batch is None else _RECORD_LINE.search(head, batch.start(), batch.start() + _WITHIN)
    if batch is None or record is None:
        return None
    base = int(batch[1])
    if found := SNAPSHOT_HEAD.search(head, 0, batch.start()):
        return KnownFile(SNAPSHOT_DUMP, base, int(found[1]), int(found[2]))
    if record[1] != b"SnapshotHeader":
        return KnownFile(SEGMENT_DUMP, base)
    return KnownFile(SNAPSHOT_DUMP, base)


# The metadata log of a directory: its segments and snapshots in order.

LOG, DUMP = "metadata log", "metadata log dump"
PARTITION = "__cluster_metadata-0"
"""The name of the metadata log's directory within a Kafka log directory."""
_PASSED_OVER = (".deleted", ".part")
"""Suffixes of files that Kafka is about to delete, or has not finished."""
_NAMED_AS_LOG = re.compile(r"\d{20}(\.log|-\d{10}\.checkpoint)")


class Gap(NamedTuple):
    """The next offset of a log is ``found_offset`` instead of ``expected_offset``, in the batch at ``position``."""

    path: Path
    position: int
    expected_offset: int
    found_offset: int


@dataclass(slots=True)
class Snapshot:
    """A snapshot of the state after all records below ``end_offset``, with the leader epoch in its name or dump."""

    path: Path
    end_offset: int
    epoch: int
    dump: bool
    notes: list[str]

    def batches(self) -> Iterator[RecordBatch]:
        """Read the batches, control records included. Raises TraceError if the file cannot be read or is damaged.

        Offsets count from the snapshot's own start.
        """
        with Source(self.path) as source:
            yield from _read(source, self.dump, self.notes, last=True)


@dataclass(slots=True)
class Segment:
    """A segment of the metadata log: its file, its first offset, its size in bytes."""

    path: Path
    base_offset: int
    size: int


@dataclass(slots=True)
class MetadataLog:
    """A metadata log. ``kind`` is "metadata log" or "metadata log dump".

    ``start`` is the snapshot that the segments continue; None without a snapshot, or if the segments begin at offset 0.
    ``notes`` has messages about skipped files and a torn end of the last file; reading batches adds to them.
    """

    path: Path
    kind: str
    start: Snapshot | None
    snapshots: list[Snapshot]
    notes: list[str]
    segments: list[Segment] = field(default_factory=list)
    _done: int = 0
    _source: Source | None = None

    @property
    def bytes_total(self) -> int:
        """The size of all segments on disk, in bytes."""
        return sum(s.size for s in self.segments)

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the segments that ``batches`` has read so far."""
        return self._done + (self._source.bytes_read if self._source is not None else 0)

    def batches(self) -> Iterator[tuple[Path, RecordBatch] | Gap]:
        """Read the segments' batches in the order of their offsets, from the end offset of the snapshot ``start`` on.

        If a batch does not begin at the next offset, a Gap comes before it. Raises TraceError if a file cannot be
        read or is damaged.
        """
        order = self.order()
        for path, batch in self.stored():
            yield from order.take(path, batch)

    def stored(self) -> Iterator[tuple[Path, RecordBatch]]:
        """Read the batches of all segments. Raises TraceError as ``batches`` does."""
        self._done = 0
        for segment in self.segments:
            path = segment.path
            with Source(path) as source:
                self._source = source
                last = segment is self.segments[-1]
                for batch in _read(source, self.kind == DUMP, self.notes, last=last):
                    yield path, batch
            self._source = None
            self._done += segment.size

    def order(self) -> BatchOrder:
        """A BatchOrder for the segments, which skips the offsets that ``start`` covers."""
        expected = self.start.end_offset if self.start else 0
        return BatchOrder(expected, expected)


@dataclass(slots=True)
class BatchOrder:
    """Checks that the offsets of batches, passed in order, have no gaps.

    ``expected`` is the next offset. At the start, offsets below ``skipped_below`` are skipped.
    """

    expected: int
    skipped_below: int

    def take(self, path: Path, batch: RecordBatch) -> tuple[tuple[Path, RecordBatch] | Gap, ...]:
        """Process the next batch: return it, and before it a Gap if it does not begin at ``expected``.

        At the start, a batch that ends below ``skipped_below`` is skipped. If a batch only begins below it, the records
        below it are skipped.
        """
        base = batch.base_offset
        gap: tuple[Gap, ...] = ()
        if base != self.expected:
            if batch.last_offset < self.skipped_below:
                return ()
            if base < self.skipped_below:
                batch = _from_offset(batch, self.skipped_below)
            else:
                gap = (Gap(path, batch.position, self.expected, base),)
            self.skipped_below = 0
        self.expected = batch.last_offset + 1
        return (*gap, (path, batch))


def _read(source: Source, dump: bool, notes: list[str], *, last: bool) -> Iterator[RecordBatch]:
    if dump:
        return read_dump(source, notes, last=last)
    return read_batches(source.path, source, notes, last=last)


def _from_offset(batch: RecordBatch, offset: int) -> RecordBatch:
    at = sum(o < offset for o in batch.offsets)
    return batch._replace(
        base_offset=offset,
        offsets=batch.offsets[at:],
        values=batch.values[at:],
        keys=batch.keys[at:],
    )


def open_metadata_log(path: Path) -> MetadataLog:
    """Open a metadata log: a directory with its files or their dumps, a segment, a snapshot, or a dump of either.

    The directory can also be the one that contains PARTITION. Files are recognized by content. If a directory has
    binary files and dumps, the binary files are used. Raises TraceError if there is no such file, or only snapshots
    that do not name their end offset.
    """
    notes: list[str] = []
    if _is_directory(path):
        found = _in_directory(path, notes)
        if not found and _is_directory(path / PARTITION):
            found = _in_directory(path / PARTITION, notes)
    else:
        seen = inspect(path)
        found = [] if seen is None else [(path, seen)]
    if not found:
        raise TraceError(path, None, None, "not a metadata log of Kafka, a snapshot, or a dump of one")
    dump = all(f.kind in (SEGMENT_DUMP, SNAPSHOT_DUMP) for _, f in found)
    kinds = (SEGMENT_DUMP, SNAPSHOT_DUMP) if dump else (SEGMENT, SNAPSHOT)
    if left_out := sum(f.kind not in kinds for _, f in found):
        notes.append(f"{path}: skipped {left_out} dumps, because the binary files are present")
    segments = _segments([(p, f) for p, f in found if f.kind == kinds[0]], notes)
    snapshots = _snapshots([(p, f) for p, f in found if f.kind == kinds[1]], dump, notes)
    if not segments and not snapshots:
        raise TraceError(path, None, None, "a snapshot without its end offset in its name or its dump")
    return MetadataLog(path, DUMP if dump else LOG, _start(segments, snapshots), snapshots, notes, segments)


def _is_directory(path: Path) -> bool:
    with readable(path):
        return path.is_dir()


def _in_directory(path: Path, notes: list[str]) -> list[tuple[Path, KnownFile]]:
    found: list[tuple[Path, KnownFile]] = []
    with readable(path):
        files = sorted(entry for entry in path.iterdir() if entry.is_file())
    for file in files:
        if file.name.endswith(_PASSED_OVER):
            continue
        seen = inspect(file)
        if seen is not None:
            found.append((file, seen))
        elif _NAMED_AS_LOG.match(file.name) and _size(file):
            notes.append(f"{file}: skipped: not a metadata log or snapshot")
    return found


def _size(path: Path) -> int:
    with readable(path):
        return path.stat().st_size


def _segments(found: list[tuple[Path, KnownFile]], notes: list[str]) -> list[Segment]:
    """The segments in the order of their offsets. Of two with the same first offset, the larger one is used."""
    best: dict[int, Segment] = {}
    for path, seen in found:
        segment = Segment(path, seen.base_offset, _size(path))
        other = best.get(seen.base_offset)
        if other is not None:
            segment, worse = (segment, other) if segment.size > other.size else (other, segment)
            notes.append(
                f"{worse.path}: skipped: {segment.path.name} also begins at offset {seen.base_offset}"
            )
        best[seen.base_offset] = segment
    return [best[offset] for offset in sorted(best)]


def _snapshots(found: list[tuple[Path, KnownFile]], dump: bool, notes: list[str]) -> list[Snapshot]:
    snapshots = []
    for path, seen in found:
        if seen.end_offset is None or seen.epoch is None:
            notes.append(f"{path}: skipped: a snapshot without its end offset in its name")
            continue
        snapshots.append(Snapshot(path, seen.end_offset, seen.epoch, dump, notes))
    return sorted(snapshots, key=lambda s: (s.end_offset, s.epoch, s.path))


def _start(segments: list[Segment], snapshots: list[Snapshot]) -> Snapshot | None:
    """The snapshot to start from; None if there is no snapshot, or if the segments begin at offset 0.

    It is the first snapshot that ends at or after the first segment's start, so that no record is missing. Without
    such a snapshot, it is the newest one, and the segments begin with a gap. It is also the newest one if there are no
    segments.
    """
    if not segments:
        return snapshots[-1] if snapshots else None
    first = segments[0].base_offset
    if first == 0 or not snapshots:
        return None
    return next((s for s in snapshots if s.end_offset >= first), snapshots[-1])
