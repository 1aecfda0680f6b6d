"""The end of a metadata log while Kafka writes it: batches as they are appended, segment after segment.

Only whole batches are read.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import NamedTuple

from highwater.traces.follow.marks import Mark, Marks, cluster_id
from highwater.traces.kafka.batches import HEADER, LEAST, MAGIC, MAX_BATCH, PREFIX, RecordBatch, read_batches
from highwater.traces.kafka.metadata_log import BatchOrder, Gap, Snapshot
from highwater.traces.kafka.values import CONTROL_KEYS, DamagedRecord, control_type
from highwater.traces.reading import TraceError

_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_HEAD = 1 << 12
_AT_ONCE = 4 << 20
"""The most bytes of a segment that one poll reads; a single larger batch is read whole."""
_PATIENCE = 20
"""A limit in polls. Bytes that are no valid batch for so many polls count as damage; records that are missing before a
later segment for so many polls count as lost."""


class LogStart(NamedTuple):
    """The first piece of a reading: build the state anew, from ``snapshot`` or, if None, from the start of the log.

    ``why`` is the reason, for people; empty for the first start. ``incomplete`` has the damaged or incomplete snapshots
    that were tried first. ``snapshot`` is one of them if there is no other way to begin. ``is_other``: the log is not
    the one that was read before.
    """

    snapshot: Snapshot | None
    why: str
    incomplete: tuple[Path, ...] = ()
    is_other: bool = False


Piece = LogStart | Gap | tuple[Path, RecordBatch]


class _Mark(NamedTuple):
    """The last batch read from a segment. If the file has another batch there now, the segment was rewritten."""

    position: int
    base_offset: int
    checksum: int


@dataclass
class _Segment:
    """The open segment, which was read up to ``position``."""

    path: Path
    file: FileIO
    order: BatchOrder
    position: int = 0
    mark: _Mark | None = None

    @property
    def size(self) -> int:
        """The present size of the segment in bytes."""
        return os.fstat(self.file.fileno()).st_size

    def read(self, size: int, position: int) -> bytes:
        """The bytes of the segment from ``position`` on, at most ``size``."""
        return os.pread(self.file.fileno(), size, position)

    def rewritten(self, is_last: bool) -> str:
        """The reason why the file no longer has the bytes that were read; empty if it has them.

        ``is_last``: no next segment exists.
        """
        try:
            same = os.stat(self.path).st_ino == os.fstat(self.file.fileno()).st_ino
        except FileNotFoundError:
            # Kafka deletes a segment only if another one follows. The deleted file is open and can still be read.
            return f"{self.path.name} was deleted" if is_last else ""
        if not same:
            return f"{self.path.name} was replaced"
        if self.size < self.position:
            return "the log was truncated"
        if self.mark is not None:
            head = self.read(HEADER.size, self.mark.position)
            base, checksum = HEADER.unpack(head)[0:5:4] if len(head) == HEADER.size else (-1, -1)
            if (base, checksum) != self.mark[1:]:
                return f"the log was rewritten from offset {self.mark.base_offset} or before"
        return ""

    def whole(self) -> bytes:
        """The bytes of the whole batches from ``position`` on, at most ``_AT_ONCE`` or one larger batch.

        Raises TraceError if the bytes at ``position`` are no batch.
        """
        data, at = self.read(_AT_ONCE, self.position), 0
        while len(data) - at >= HEADER.size:
            _, length, _, magic = HEADER.unpack_from(data, at)[:4]
            if not length and not magic:
                break  # preallocated space
            if magic != MAGIC or not LEAST <= length <= MAX_BATCH:
                if at:
                    break
                where = self.position
                raise TraceError(self.path, None, None, f"byte {where}: not a record batch", where)
            if not at and PREFIX + length > len(data):
                data = self.read(PREFIX + length, self.position)
            if at + PREFIX + length > len(data):
                break
            at += PREFIX + length
        return data[:at]


class LogTail:
    """The metadata log in a directory. The directory need not exist yet.

    ``next_offset`` is the offset after the last batch that was read. ``begun_at`` is the end offset of the snapshot
    with which reading began, 0 without a snapshot. If an earlier follower read the log, ``begin_at`` and
    ``read_up_to`` are its values of ``begun_at`` and ``next_offset``. This follower has the same values until its own
    reading begins. The earlier follower's ``cluster`` (an id, or empty) and ``marks`` show whether the log is still
    the same.
    """

    def __init__(
        self,
        directory: Path,
        begin_at: int | None = None,
        read_up_to: int = 0,
        cluster: str = "",
        marks: Iterable[Mark] = (),
    ) -> None:
        self.directory, self.cluster, self.marks = directory, cluster, Marks(marks)
        self.next_offset, self.begun_at = read_up_to, begin_at or 0
        self._wanted = begin_at
        self._has_begun = False
        self._segment: _Segment | None = None
        self._failures = 0
        self._why = ""

    def close(self) -> None:
        """Close the open segment."""
        if self._segment is not None:
            self._segment.file.close()
        self._segment = None

    @property
    def is_waiting(self) -> bool:
        """True while the directory has no log."""
        return not self._has_begun

    @property
    def has_more(self) -> bool:
        """True if the open segment has bytes that were not read yet, or if the next segment must be opened."""
        if self._segment is None:
            return self._has_begun
        return self._segment.size > self._segment.position

    def poll(self) -> Iterator[Piece]:
        """Yield the new batches (some megabytes at most), gaps, and a LogStart if the state must be built anew.

        Raises TraceError if a file cannot be read; the next poll tries again.
        """
        try:
            if not self._has_begun:
                yield from self._begin("")
            if self._has_begun:
                yield from self._read_on()
        except FileNotFoundError:
            self.close()  # deleted in between: the next poll looks at the directory again
        except OSError as wrong:
            raise TraceError(
                self.directory, None, None, f"cannot be read: {wrong.strerror or wrong}"
            ) from None

    # --- where to begin ---------------------------------------------------------------------------

    def _begin(self, why: str, *, is_damaged: bool = False, is_other: bool = False) -> Iterator[Piece]:
        """Begin with the snapshot that ``_chosen`` names; with an incomplete snapshot only if there is no other way.

        Begin at offset 0 if there is no snapshot, or if the earlier follower began at 0 and segment 0 exists.
        ``is_damaged``: the log cannot be read at ``next_offset``, so begin with the newest snapshot. ``is_other``:
        the log is not the one read before. The log also counts as another one if its cluster has another id.
        """
        self.close()
        self._has_begun = False
        self._why = why or self._why
        segments, snapshots = self._listing()
        if not segments and not snapshots:
            return
        cluster = cluster_id(self.directory)
        if self.cluster and cluster and self.cluster != cluster:
            is_other, self._why = True, f"the log is of another cluster, {cluster}, not {self.cluster}"
        self.cluster = cluster or self.cluster
        if is_other:
            self.next_offset, self._wanted = 0, None
            self.marks = Marks()
        if is_damaged:
            segments, snapshots = [], [s for s in snapshots if s.end_offset > self.next_offset]
        wanted, self._wanted = self._wanted, None
        incomplete: list[Snapshot] = []
        while True:
            chosen = self._chosen(wanted, segments, snapshots)
            if chosen is None or _is_complete(chosen):
                break
            incomplete.append(chosen)
            snapshots.remove(chosen)
        if chosen is None and incomplete and segments[:1] != [0]:
            chosen = incomplete[0]
        self.next_offset = self.begun_at = chosen.end_offset if chosen else 0
        self._has_begun = True
        why, self._why = self._why, ""
        self.marks.begin()
        yield LogStart(chosen, why, tuple(s.path for s in incomplete), is_other)
        if chosen is not None:
            with opened(chosen.path) as file:
                self.marks.add(~chosen.end_offset, zlib.crc32(file.read(_HEAD) or b""))

    def _chosen(self, wanted: int | None, segments: list[int], snapshots: list[Snapshot]) -> Snapshot | None:
        """The snapshot to begin with; None to begin at offset 0.

        It is the snapshot that ends at ``wanted`` or, if ``wanted`` is 0 and the log still has offset 0, None.
        Otherwise it is the newest snapshot; after an earlier reading, the newest one that leaves out no unread record.
        If every snapshot leaves out some, a log that still has offset 0 is read from there. If the log lacks it, the
        result is the snapshot that leaves out the fewest unread records.
        """
        if found := [s for s in snapshots if s.end_offset == wanted]:
            return found[0]
        if not snapshots or (wanted == 0 and segments[:1] == [0]):
            return None
        if not self.next_offset or not segments:
            return snapshots[-1]
        behind = [s for s in snapshots if s.end_offset >= segments[0]]
        if known := [s for s in behind if s.end_offset <= self.next_offset]:
            return known[-1]
        return None if segments[0] == 0 else (behind or snapshots[-1:])[0]

    def _listing(self) -> tuple[list[int], list[Snapshot]]:
        """The first offsets of the segments, and the snapshots, in order; both empty if there is no directory yet."""
        segments, snapshots = [], []
        try:
            names = os.listdir(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        for name in names:
            if found := _SEGMENT.fullmatch(name):
                segments.append(int(found[1]))
            elif found := _SNAPSHOT.fullmatch(name):
                path = self.directory / name
                snapshots.append(Snapshot(path, int(found[1]), int(found[2]), False, []))
        return sorted(segments), sorted(snapshots, key=lambda s: (s.end_offset, s.epoch))

    # --- reading on -------------------------------------------------------------------------------

    def _read_on(self) -> Iterator[Piece]:
        segment = self._segment
        if segment is None:
            yield from self._open()
            segment = self._segment
            if segment is None:
                return
        if why := segment.rewritten(not self._has_next(segment)):
            yield from self._begin(why)
            return
        try:
            data = segment.whole()
            end = segment.position + len(data)
            yield from self._batches(segment, data)
        except TraceError as wrong:
            yield from self._damaged(wrong)
            return
        if end == segment.position and self._has_next(segment):
            self.close()
        elif not data:
            yield from self._missing()

    def _open(self) -> Iterator[Piece]:
        """Open the segment with the next offset.

        If the segment was deleted, begin again with a newer snapshot, or open the first segment if there is none.
        """
        segments, snapshots = self._listing()
        base = max((base for base in segments if base <= self.next_offset), default=None)
        if base is None and segments:
            if any(s.end_offset > self.next_offset for s in snapshots):
                yield from self._begin("segments were deleted before they were read")
                return
            base = segments[0]
        if base is not None:
            self._open_at(base)

    def _open_at(self, base: int) -> None:
        path = self.directory / f"{base:020d}.log"
        self._segment = _Segment(path, opened(path), BatchOrder(self.next_offset, self.next_offset))

    def _has_next(self, segment: _Segment) -> bool:
        """True if another segment than ``segment`` begins with the next offset."""
        path = self.directory / f"{self.next_offset:020d}.log"
        return path != segment.path and path.exists()

    def _batches(self, segment: _Segment, data: bytes) -> Iterator[Piece]:
        last: RecordBatch | None = None
        try:
            for last in read_batches(segment.path, BytesIO(data), last=False):
                self.marks.add(*HEADER.unpack_from(data, last.position)[0:5:4])
                if self.marks.is_other:
                    yield from self._begin(
                        f"the log is another one: offset {last.base_offset} differs", is_other=True
                    )
                    return
                self.next_offset = max(self.next_offset, last.last_offset + 1)
                yield from segment.order.take(segment.path, last)
        finally:
            if last is not None:
                self._failures = 0
                base, length, _, _, checksum = HEADER.unpack_from(data, last.position)[:5]
                at = segment.position + last.position
                segment.mark, segment.position = _Mark(at, base, checksum), at + PREFIX + length

    def _missing(self) -> Iterator[Piece]:
        """Handle the end of a segment if later segments exist, but none begins with the next offset.

        At the ``_PATIENCE``-th time, begin again with a newer snapshot, or open the first later segment.
        """
        segments, snapshots = self._listing()
        later = next((base for base in segments if base > self.next_offset), None)
        self._failures += later is not None
        if later is None or self._failures < _PATIENCE:
            return
        self._failures = 0
        if any(s.end_offset > self.next_offset for s in snapshots):
            yield from self._begin(f"offsets {self.next_offset} to {later - 1} are missing", is_damaged=True)
            return
        self.close()
        self._open_at(later)

    def _damaged(self, wrong: TraceError) -> Iterator[Piece]:
        """Handle bytes that are no batch: Kafka may still be writing the batch.

        At the ``_PATIENCE``-th failure, begin again with a newer snapshot, or raise the error if there is none.
        """
        self._failures += 1
        if self._failures < _PATIENCE:
            return
        if any(s.end_offset > self.next_offset for s in self._listing()[1]):
            self._failures = 0
            why = f"the log cannot be read behind offset {self.next_offset - 1}"
            yield from self._begin(why, is_damaged=True)
            return
        raise wrong


def _is_complete(snapshot: Snapshot) -> bool:
    """True if a snapshot can be read, and has the record that Kafka writes last."""
    is_last = False
    try:
        for batch in snapshot.batches():
            is_last = batch.control and control_type(batch.keys[-1]) == CONTROL_KEYS["SNAPSHOT_FOOTER"]
    except (TraceError, DamagedRecord, IndexError):
        return False
    return is_last


def opened(path: Path) -> FileIO:
    """Open a regular file without waiting for a writer, as the path might be a pipe. Raises OSError."""
    file = FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path}: not a file")
    return file
