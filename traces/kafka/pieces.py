"""Parts of a metadata log that can be read apart: byte ranges of its files, cut between batches.

Where batches begin is found by their headers alone; nothing is decompressed, decoded or held against a checksum.
Where a header is none of a batch, the rest of the file is one piece, and its reader says what is wrong.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from highwater.traces.kafka.batches import HEADER, LEAST, MAGIC, MAX_BATCH, PREFIX, RecordBatch, read_batches
from highwater.traces.kafka.metadata_log import LOG, Gap, MetadataLog, Order
from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.lines import Source


class Head(NamedTuple):
    """What a batch's header says: its offsets, its leader epoch, how many records it has; and where it begins."""

    start: int
    base_offset: int
    last_offset: int
    epoch: int
    records: int


def heads(path: Path) -> Iterator[Head]:
    """The headers of a file's batches, up to the first that is none. Raises TraceError."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < HEADER.size:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                unpack, at = HEADER.unpack_from, 0
                while size - at >= HEADER.size:
                    base, length, epoch, magic, _, _, delta, _, _, count = unpack(data, at)
                    end = at + PREFIX + length
                    if magic != MAGIC or not LEAST <= length <= MAX_BATCH or end > size:
                        return
                    yield Head(at, base, base + delta, epoch, count)
                    at = end
    except OSError as wrong:
        raise TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}") from None


@dataclass(frozen=True)
class Piece:
    """Bytes of a file, from ``start`` to ``end`` (None: to its end).

    ``is_last``: no segment follows. ``expected`` and ``skipped_below`` are those of ``Order``; of a snapshot
    ``expected`` is None. ``epoch`` is the leader epoch of the batch before.
    """

    path: str
    start: int
    end: int | None
    is_last: bool
    epoch: int
    expected: int | None
    skipped_below: int = 0

    def batches(self, notes: list[str]) -> Iterator[tuple[Path, RecordBatch] | Gap]:
        """The batches, with the gaps between them. Raises TraceError."""
        path = Path(self.path)
        order = None if self.expected is None else Order(self.expected, self.skipped_below)
        try:
            file = path.open("rb")
        except OSError as wrong:
            raise TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}") from None
        with file:
            file.seek(self.start)
            part = file if self.end is None else _Part(file, self.end - self.start)
            for batch in read_batches(
                path, part, notes, last=self.is_last, start=self.start, epoch=self.epoch
            ):
                if order is None:
                    yield path, batch
                else:
                    yield from order.take(path, batch)


class _Part:
    """The first bytes of what a file goes on with."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int, /) -> bytes:
        found = self._file.read(min(size, self._left))
        self._left -= len(found)
        return found


def can_be_divided(log: MetadataLog) -> bool:
    """Whether a log's files can be read in pieces: no dumps, not compressed as files. Raises TraceError."""
    if log.kind != LOG:
        return False
    for path in [*(s.path for s in log.segments), *(s.path for s in log.snapshots)]:
        with Source(path) as source:
            source.read(1)
            if source.compressed:
                return False
    return True


__all__ = ["Head", "Piece", "can_be_divided", "heads"]
