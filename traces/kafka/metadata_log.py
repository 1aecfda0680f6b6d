"""The metadata log of a directory: its segments and snapshots in order, whole or in pieces that are read apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from highwater.traces.kafka import recognise
from highwater.traces.kafka.batches import RecordBatch, read_batches
from highwater.traces.kafka.dump import read_dump
from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.lines import Source

LOG, DUMP = "metadata log", "metadata log dump"
MAX_FILES = 100_000
"""The most entries of a directory that are looked at."""
PARTITION = "__cluster_metadata-0"
"""The directory of the metadata log within a log directory of Kafka."""
_PASSED_OVER = (".deleted", ".part")
"""Endings of files that Kafka is about to delete, or has not finished."""
_NAMED_AS_LOG = re.compile(r"\d{20}(\.log|-\d{10}\.checkpoint)")


class Gap(NamedTuple):
    """A place where a batch does not begin at the offset that follows from the one before."""

    path: Path
    position: int
    expected_offset: int
    found_offset: int


@dataclass(slots=True)
class Snapshot:
    """A snapshot: the state that every record below ``end_offset`` made, written in ``epoch``."""

    path: Path
    end_offset: int
    epoch: int
    dump: bool
    notes: list[str]

    def batches(self) -> Iterator[RecordBatch]:
        """Its batches, control records included; their offsets are the snapshot's own. Raises TraceError."""
        with Source(self.path) as source:
            yield from _read(source, self.dump, self.notes, last=True)


@dataclass(slots=True)
class Segment:
    """A segment: its file, its first offset, its size in bytes."""

    path: Path
    base_offset: int
    size: int


@dataclass(slots=True)
class MetadataLog:
    """What was found. ``kind`` is "metadata log" or "metadata log dump".

    ``start`` is the snapshot that the segments go on from, None where they begin at offset 0. ``notes`` are lines
    for people: what was left out, and how the last file breaks off; they grow while batches are read.
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
        """The size of the segments on the disk."""
        return sum(s.size for s in self.segments)

    @property
    def bytes_read(self) -> int:
        """How much of them was read."""
        return self._done + (self._source.bytes_read if self._source is not None else 0)

    def batches(self) -> Iterator[tuple[Path, RecordBatch] | Gap]:
        """The batches of the segments in the order of their offsets, from the end of ``start`` on.

        Where offsets do not follow each other, a Gap comes before the batch. Raises TraceError.
        """
        order = self.order()
        self._done = 0
        for segment in self.segments:
            path = segment.path
            with Source(path) as source:
                self._source = source
                last = segment is self.segments[-1]
                for batch in _read(source, self.kind == DUMP, self.notes, last=last):
                    yield from order.take(path, batch)
            self._source = None
            self._done += segment.size

    def order(self) -> BatchOrder:
        """Where the segments go on from."""
        expected = self.start.end_offset if self.start else 0
        return BatchOrder(expected, expected)


@dataclass(slots=True)
class BatchOrder:
    """Puts batches in order by their offsets: ``expected`` comes next; what is below ``skipped_below`` was read."""

    expected: int
    skipped_below: int

    def admit(self, base: int, last: int) -> tuple[int, int | None] | None:
        """From which offset a batch is taken, and where it leaves a gap, the offset expected; None: not taken."""
        start, missing = base, None
        if base != self.expected:
            if last < self.skipped_below:
                return None
            if base < self.skipped_below:
                start = self.skipped_below
            else:
                missing = self.expected
            self.skipped_below = 0
        self.expected = last + 1
        return start, missing

    def take(self, path: Path, batch: RecordBatch) -> Iterator[tuple[Path, RecordBatch] | Gap]:
        """A batch as far as it is taken; before it the gap that it leaves."""
        base = batch.base_offset
        admitted = self.admit(base, batch.last_offset)
        if admitted is None:
            return
        start, missing = admitted
        if missing is not None:
            yield Gap(path, batch.position, missing, base)
        yield path, batch if start == base else _from_offset(batch, start)


def _read(source: Source, dump: bool, notes: list[str], *, last: bool) -> Iterator[RecordBatch]:
    if dump:
        return read_dump(source, notes, last=last)
    return read_batches(source.path, source, notes, last=last)


def _from_offset(batch: RecordBatch, offset: int) -> RecordBatch:
    """The part of a batch from an offset on."""
    at = sum(o < offset for o in batch.offsets)
    return batch._replace(
        base_offset=offset,
        offsets=batch.offsets[at:],
        values=batch.values[at:],
        keys=batch.keys[at:],
        times=batch.times[at:],
    )


def open_metadata_log(path: Path) -> MetadataLog:
    """A metadata log: a directory with its files or their dumps, a segment, a snapshot, or the dump of either.

    Files are told apart by their content; binary files go before dumps where a directory has both. Raises TraceError
    where there is none, or a snapshot does not say where it ends.
    """
    notes: list[str] = []
    found = _single(path)
    if found is None:
        found = _in_directory(path, notes)
        if not found and _is_directory(path / PARTITION):
            found = _in_directory(path / PARTITION, notes)
    if not found:
        raise TraceError(path, None, None, "no metadata log of Kafka, no snapshot and no dump of one")
    dump = all(f.kind in (recognise.SEGMENT_DUMP, recognise.SNAPSHOT_DUMP) for _, f in found)
    kinds = (
        (recognise.SEGMENT_DUMP, recognise.SNAPSHOT_DUMP) if dump else (recognise.SEGMENT, recognise.SNAPSHOT)
    )
    if left_out := sum(f.kind not in kinds for _, f in found):
        notes.append(f"{path}: {left_out} dumps are left out, as the binary files are there")
    segments = _segments([(p, f) for p, f in found if f.kind == kinds[0]], notes)
    snapshots = _snapshots([(p, f) for p, f in found if f.kind == kinds[1]], dump, notes)
    if not segments and not snapshots:
        raise TraceError(
            path, None, None, "a snapshot that does not say where it ends, in its name or its dump"
        )
    return MetadataLog(path, DUMP if dump else LOG, _start(segments, snapshots), snapshots, notes, segments)


def _single(path: Path) -> list[tuple[Path, recognise.KnownFile]] | None:
    """What a file is; None for a directory."""
    if _is_directory(path):
        return None
    found = recognise.inspect(path)
    return [] if found is None else [(path, found)]


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as wrong:
        raise TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}") from None


def _in_directory(path: Path, notes: list[str]) -> list[tuple[Path, recognise.KnownFile]]:
    found: list[tuple[Path, recognise.KnownFile]] = []
    for file in _files(path):
        if file.name.endswith(_PASSED_OVER):
            continue
        seen = recognise.inspect(file)
        if seen is not None:
            found.append((file, seen))
        elif _NAMED_AS_LOG.match(file.name) and _size(file):
            notes.append(f"{file}: does not begin as a metadata log or a snapshot does: left out")
    return found


def _files(path: Path) -> list[Path]:
    files = []
    try:
        for i, entry in enumerate(path.iterdir()):
            if i == MAX_FILES:
                raise TraceError(path, None, None, f"more than {MAX_FILES} files in the directory")
            if entry.is_file():
                files.append(entry)
    except OSError as wrong:
        raise TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}") from None
    return sorted(files)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as wrong:
        raise TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}") from None


def _segments(found: list[tuple[Path, recognise.KnownFile]], notes: list[str]) -> list[Segment]:
    """In the order of their offsets; of two that begin at the same one, the larger."""
    best: dict[int, Segment] = {}
    for path, seen in found:
        segment = Segment(path, seen.base_offset, _size(path))
        other = best.get(seen.base_offset)
        if other is not None:
            segment, worse = (segment, other) if segment.size > other.size else (other, segment)
            notes.append(
                f"{worse.path}: begins at offset {seen.base_offset} as {segment.path.name} does: left out"
            )
        best[seen.base_offset] = segment
    return [best[offset] for offset in sorted(best)]


def _snapshots(found: list[tuple[Path, recognise.KnownFile]], dump: bool, notes: list[str]) -> list[Snapshot]:
    snapshots = []
    for path, seen in found:
        if seen.end_offset is None or seen.epoch is None:
            notes.append(f"{path}: a snapshot that does not say where it ends: left out")
            continue
        snapshots.append(Snapshot(path, seen.end_offset, seen.epoch, dump, notes))
    return sorted(snapshots, key=lambda s: (s.end_offset, s.epoch, s.path))


def _start(segments: list[Segment], snapshots: list[Snapshot]) -> Snapshot | None:
    """The snapshot to start from: the first that ends where the segments begin or later, so that nothing is missing.

    Where none does, the newest; the segments then begin with a gap.
    """
    if not segments:
        return snapshots[-1] if snapshots else None
    first = segments[0].base_offset
    if first == 0 or not snapshots:
        return None
    return next((s for s in snapshots if s.end_offset >= first), snapshots[-1])
