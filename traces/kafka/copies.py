"""Copies of one cluster's metadata log: every controller and broker has one, and a bundle may hold several.

Two logs are copies if the files ``meta.properties`` beside them name the same cluster. If one of them has no such file,
they are copies if they share a batch, by its offset and checksum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from highwater.traces.kafka.batches import HEADER, LEAST, MAGIC, MAX_BATCH, PREFIX, RecordBatch
from highwater.traces.kafka.dumps import bare
from highwater.traces.kafka.metadata_log import (
    SEGMENT,
    SEGMENT_DUMP,
    SNAPSHOT,
    SNAPSHOT_DUMP,
    Gap,
    MetadataLog,
    open_metadata_log,
    recognise,
)
from highwater.traces.reading import Source, TraceError, split


class _Batch(NamedTuple):
    """A batch: whether it is one of a snapshot, its first offset, its checksum, and its leader epoch."""

    of_snapshot: bool
    base: int
    checksum: int
    epoch: int


_Reader = Callable[[Path], Iterator[tuple[int, int, int]]]
"""Reads the first offset, the checksum and the leader epoch of each batch in a file. Raises TraceError."""
_BATCH = re.compile(rb"baseOffset: (\d{1,19}) .* crc: (\d{1,10}) ")
_MOST_COMPARED = 100_000
"""The most batches of a log that are compared with another log's."""
_MOST_PROPERTIES = 1 << 16
"""The most bytes that are read of a file ``meta.properties``."""
_CLUSTER = re.compile(rb"^cluster\.id=([\w-]{1,100})\s*$", re.MULTILINE)
_NODE = re.compile(rb"^(?:node|broker)\.id=(\d{1,9})\s*$", re.MULTILINE)


def same_logs(logs: Iterable[Path], dumps: Iterable[Path]) -> dict[Path, Path]:
    """Map each dump to the log that has all its batches; a dump without such a log is left out.

    Of several such logs, the first one counts. A path is a file, or a directory with the files of one log or with their
    dumps. If either list is empty, no file is read.
    """
    known: dict[Path, set[tuple[bool, int, int] | None]] = {}
    found: dict[Path, Path] = {}
    logs = list(logs)
    for dump in dumps:
        for log in logs:
            if log not in known:
                known[log] = {batch and batch[:3] for batch in _batches(log, _of_file)}
            batches = [batch and batch[:3] for batch in _batches(dump, _of_dump)]
            if batches and None not in batches and known[log].issuperset(batches):
                found[dump] = log
                break
    return found


# --- which logs are copies -----------------------------------------------------------------------------------------


@dataclass
class _Sample:
    """The batches of a log by first offset: checksum and leader epoch, if the offset is a multiple of ``step``.

    ``last`` has the leader epoch and the first offset of the last batch. ``cluster`` is None if it is unknown.
    """

    log: Path
    cluster: bytes | None = None
    step: int = 1
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    last: tuple[int, int] = (-1, -1)

    @classmethod
    def of(cls, log: Path) -> _Sample:
        found = cls(log, _property(log, _CLUSTER))
        for batch in _batches(log, _of_file):
            if batch is None or batch.of_snapshot:
                continue
            found.last = max(found.last, (batch.epoch, batch.base))
            if batch.base % found.step == 0:
                found.batches[batch.base] = batch.checksum, batch.epoch
            if len(found.batches) > _MOST_COMPARED:
                found.step *= 2
                found.batches = {b: one for b, one in found.batches.items() if b % found.step == 0}
        return found

    def is_of(self, other: _Sample) -> bool:
        """True if the two logs are copies of one cluster's log."""
        if self.cluster is not None and other.cluster is not None:
            return self.cluster == other.cluster
        return not self.batches.items().isdisjoint(other.batches.items())

    def conflict(self, other: _Sample) -> int | None:
        """The first offset at which the logs have different batches that are both committed; None without one.

        A log's last records can be uncommitted. They are replaced before the log gets a record of a later leader epoch
        in which the other log's records were written.
        """
        for base in sorted(self.batches.keys() & other.batches.keys()):
            (here, epoch), (there, other_epoch) = self.batches[base], other.batches[base]
            if here != there and min(self.last[0], other.last[0]) >= max(epoch, other_epoch):
                return base
        return None


class Copies(NamedTuple):
    """The copies of one cluster's metadata log. The first one goes on longest, in the latest leader epoch.

    ``conflicts`` has pairs of copies, and the first offset at which the two have different committed records.
    """

    logs: tuple[Path, ...]
    conflicts: tuple[tuple[Path, Path, int], ...] = ()


def copies(logs: Sequence[Path]) -> list[Copies]:
    """Group the logs that are copies of one cluster's metadata log. One log alone is not read."""
    if len(logs) < 2:
        return [Copies((log,)) for log in logs]
    groups: list[list[_Sample]] = []
    for sample in map(_Sample.of, logs):
        same = [group for group in groups if any(sample.is_of(one) for one in group)]
        groups = [group for group in groups if group not in same]
        groups.append([*(one for group in same for one in group), sample])
    found = []
    for group in groups:
        group.sort(key=lambda one: (-one.last[0], -one.last[1], str(one.log)))
        pairs = ((a.log, b.log, a.conflict(b)) for a, b in combinations(group, 2))
        conflicts = tuple((a, b, base) for a, b, base in pairs if base is not None)
        found.append(Copies(tuple(one.log for one in group), conflicts))
    return found


def node_of(directory: Path) -> int | None:
    """The node whose data directory contains ``directory``, by its file ``meta.properties``; None if unknown."""
    found = _property(directory, _NODE)
    return None if found is None else int(found)


def _property(log: Path, name: re.Pattern[bytes]) -> bytes | None:
    """A property in the file ``meta.properties``, in a replica's directory or the data directory that contains it."""
    for file in (folder / "meta.properties" for folder in (log.absolute(), log.absolute().parent)):
        if file.is_file():
            with Source(file) as source:
                found = name.search(source.read(_MOST_PROPERTIES))
            return None if found is None else found[1]
    return None


def _batches(path: Path, read: _Reader) -> Iterator[_Batch | None]:
    """The batches of a file, or of the files in a directory; None where a file cannot be read any further."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file() and (kind := recognise(file)) in _KINDS[read]:
            try:
                for batch in read(file):
                    yield _Batch(kind == _KINDS[read][1], *batch)
            except TraceError:
                yield None


def _of_file(path: Path) -> Iterator[tuple[int, int, int]]:
    with Source(path) as source:
        while len(head := source.read(HEADER.size)) == HEADER.size:
            base, length, epoch, magic, checksum = HEADER.unpack(head)[:5]
            if magic != MAGIC or not LEAST <= length <= MAX_BATCH:
                return
            source.read(PREFIX + length - HEADER.size)
            yield base, checksum, epoch


def _of_dump(path: Path) -> Iterator[tuple[int, int, int]]:
    with Source(path) as source:
        for line in map(bare, split(source)):
            if line.startswith(b"baseOffset: "):
                match = _BATCH.match(line)
                if match is None:
                    raise TraceError(path, None, None, "a batch without its checksum")
                yield int(match[1]), int(match[2]), -1


_KINDS: dict[_Reader, tuple[str, str]] = {
    _of_file: (SEGMENT, SNAPSHOT),
    _of_dump: (SEGMENT_DUMP, SNAPSHOT_DUMP),
}


# --- one log from all copies ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class CopiedLog(MetadataLog):
    """A metadata log with other copies of it, which supply the records that it lacks.

    ``epoch`` is the leader epoch of this log's last batch; ``copies`` has each copy with the leader epoch of its last.
    """

    copies: Sequence[tuple[MetadataLog, int]] = ()
    epoch: int = -1

    def batches(self) -> Iterator[tuple[Path, RecordBatch] | Gap]:
        """As ``MetadataLog.batches``. Where this log has a gap, is damaged or ends, a copy continues.

        The copy's last leader epoch must not be earlier than that of this log's next batch, or of its last one.
        Otherwise the copy may end with records that were never committed. A line of ``notes`` names the copy. Raises
        TraceError if no copy continues a damaged log.
        """
        order = self.order()
        readers = [_Reading(self, self.epoch), *(_Reading(log, epoch) for log, epoch in self.copies)]
        present = own = readers[0]
        broken_at = None
        while True:
            at = order.expected
            if present.next is None or present.next[1].base_offset > at:
                broken_at = at if broken_at is None and own.wrong is not None else broken_at
                for other in readers:
                    if other is not present:
                        other.seek(at)
                own.seek(at)
                needed = self.epoch if own.next is None else own.next[1].leader_epoch
                found = _first([one for one in readers if one is own or one.epoch >= needed], present, at)
                if found not in (present, own):
                    why = "" if own.wrong is None else f": {own.wrong}"
                    self.notes.append(f"{found.log.path}: replay continues in this copy at offset {at}{why}")
                present = found
            if present.next is None:
                if own.wrong is not None and (
                    at == broken_at or any(s.base_offset >= at for s in self.segments)
                ):
                    raise own.wrong
                return
            path, batch = present.next
            yield from order.take(path, batch)
            present.step()


class _Reading:
    """One copy, read up to the batch ``next``: None at its end, or at the damage ``wrong``."""

    def __init__(self, log: MetadataLog, epoch: int) -> None:
        self.log, self.epoch = log, epoch
        self._batches = log.stored()
        self.next: tuple[Path, RecordBatch] | None = None
        self.wrong: TraceError | None = None
        self.step()

    def step(self) -> None:
        """Read the next batch."""
        try:
            self.next = next(self._batches, None)
        except TraceError as wrong:
            self.next, self.wrong = None, wrong

    def seek(self, offset: int) -> None:
        """Skip the batches that end below an offset."""
        while self.next is not None and self.next[1].last_offset < offset:
            self.step()


def _first(readers: Sequence[_Reading], present: _Reading, offset: int) -> _Reading:
    """The copy whose next batch comes first; of several, ``present``, else the first one."""
    having = [one for one in readers if one.next is not None]
    if not having:
        return present

    def place(one: _Reading) -> tuple[int, bool]:
        assert one.next is not None
        return max(offset, one.next[1].base_offset), one is not present

    return min(having, key=place)


def open_copies(path: Path, others: Sequence[Path]) -> MetadataLog:
    """Open the metadata log at ``path``, with other copies of it. Raises the errors of ``open_metadata_log``."""
    log = open_metadata_log(path)
    if not others:
        return log
    opened = [open_metadata_log(other) for other in others]
    given = {one.name: getattr(log, one.name) for one in fields(log) if one.init}
    own, *ends = map(_ends, (path, *others))
    joined = CopiedLog(
        **given, copies=[(log, end[1][0]) for log, end in zip(opened, ends, strict=True)], epoch=own[1][0]
    )
    for log, (_, last) in zip(opened, ends, strict=True):
        if _begins(log) < _begins(joined) <= last[1] and last[0] >= own[0][0]:
            joined.start = log.start
    return joined


def _ends(log: Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """The leader epochs and first offsets of the first and of the last batch of a log's segments; -1 without any."""
    found = [(b.epoch, b.base) for b in _batches(log, _of_file) if b is not None and not b.of_snapshot]
    return min(found, default=(-1, -1)), max(found, default=(-1, -1))


def _begins(log: MetadataLog) -> int:
    """The first offset that a log has, or the end offset of the snapshot with which it begins."""
    if log.start is not None:
        return log.start.end_offset
    return log.segments[0].base_offset if log.segments else 0
