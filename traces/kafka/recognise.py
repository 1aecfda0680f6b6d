"""Files of a metadata log, known by their content: segments, snapshots, their dumps; and which dump is of which log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from highwater.traces.kafka.batches import COMPRESSION, CONTROL, HEADER, LEAST, MAGIC, PREFIX, read_batches
from highwater.traces.kafka.compression import MAX_BATCH
from highwater.traces.kafka.dump import SNAPSHOT_HEAD
from highwater.traces.kafka.values import TYPES, DamagedRecord, api_key, control_type
from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.lines import Source, split

SEGMENT, SNAPSHOT = "metadata segment", "metadata snapshot"
SEGMENT_DUMP, SNAPSHOT_DUMP = "metadata dump", "snapshot dump"
LOOKED_AT = 1 << 16
"""How much of a file is read to see what it is."""

LEADER_CHANGE, SNAPSHOT_HEADER = 2, 3
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BATCH_LINE = re.compile(
    rb"^baseOffset: (\d{1,19}) lastOffset: \d{1,19} count: [^\n]{1,1000}\n", re.MULTILINE
)
_RECORD_LINE = re.compile(
    rb"\| [^\n{]{0,1000}?(SnapshotHeader|LeaderChange|controlType: LEADER_CHANGE|"
    rb'payload: \{"type":"[A-Z_]{1,60}_RECORD")'
)
_FIRST_RECORD = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]\x00[\x80-\xff]{0,9}[\x00-\x7f]\x00(.*)", re.DOTALL)


class KnownFile(NamedTuple):
    """What was recognised: its kind, its first offset, and, of a snapshot, what it contains."""

    kind: str
    base_offset: int
    end_offset: int | None = None
    epoch: int | None = None


def recognise(path: Path) -> str | None:
    """Metadata segment, metadata snapshot, metadata dump, snapshot dump: in these words; or None. Looks through gzip.

    Raises TraceError where the file cannot be read.
    """
    found = inspect(path)
    return None if found is None else found.kind


def inspect(path: Path) -> KnownFile | None:
    """What a file is, with what its head says. Raises TraceError where it cannot be read."""
    with Source(path) as source:
        try:
            head = source.read(LOOKED_AT)
        except TraceError:
            if not source.compressed:
                raise
            # A damaged compressed file is none of ours, as far as can be seen.
            return None
    return _binary(path, head) or _dump(head)


def _binary(path: Path, head: bytes) -> KnownFile | None:
    if len(head) < HEADER.size:
        return None
    base, length, _, magic, _, attributes, delta, _, _, count = HEADER.unpack_from(head)
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
    """The kind of file that begins with this record."""
    if codec:
        # Kafka compresses no metadata log; what was compressed is recognised if the first batch is small.
        try:
            batch = next(read_batches(path, _Head(head)), None)
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


class _Head:
    """The first bytes of a file, as a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int, /) -> bytes:
        found, self.data = self.data[:size], self.data[size:]
        return found


def _dump(head: bytes) -> KnownFile | None:
    batch = _BATCH_LINE.search(head)
    record = None if batch is None else _RECORD_LINE.match(head, batch.end())
    if batch is None or record is None:
        return None
    base = int(batch[1])
    if record[1] != b"SnapshotHeader":
        return KnownFile(SEGMENT_DUMP, base)
    for line in head[: batch.start()].splitlines():
        if found := SNAPSHOT_HEAD.match(line):
            return KnownFile(SNAPSHOT_DUMP, base, int(found[1]), int(found[2]))
    return KnownFile(SNAPSHOT_DUMP, base)


Batch = tuple[bool, int, int]
"""Whether it is of a snapshot, its first offset, and its checksum."""
_Reader = Callable[[Path], Iterator[tuple[int, int]]]
"""Reads the first offsets and the checksums of a file's batches. Raises TraceError."""
_BATCH = re.compile(rb"baseOffset: (\d{1,19}) .* crc: (\d{1,10}) ")


def same_logs(logs: Iterable[Path], dumps: Iterable[Path]) -> dict[Path, Path]:
    """Dumps that say nothing that a log does not have, each with its log.

    A path is a file, or a directory with the files of one log or their dumps. Without both nothing is read.
    """
    known: dict[Path, set[Batch | None]] = {}
    found: dict[Path, Path] = {}
    logs = list(logs)
    for dump in dumps:
        for log in logs:
            if log not in known:
                known[log] = set(_batches(log, _of_file))
            if _is_of(dump, known[log]):
                found[dump] = log
                break
    return found


def _is_of(dump: Path, log: set[Batch | None]) -> bool:
    empty = True
    for batch in _batches(dump, _of_dump):
        if batch is None or batch not in log:
            return False
        empty = False
    return not empty


def _batches(path: Path, read: _Reader) -> Iterator[Batch | None]:
    """The batches of a file, or of a directory's files; None where something cannot be read."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file() and (kind := recognise(file)) in _KINDS[read]:
            try:
                for base, checksum in read(file):
                    yield kind == _KINDS[read][1], base, checksum
            except TraceError:
                yield None


def _of_file(path: Path) -> Iterator[tuple[int, int]]:
    with Source(path) as source:
        while len(head := source.read(HEADER.size)) == HEADER.size:
            base, length, _, magic, checksum = HEADER.unpack(head)[:5]
            if magic != MAGIC or not LEAST <= length <= MAX_BATCH:
                return
            source.read(PREFIX + length - HEADER.size)
            yield base, checksum


def _of_dump(path: Path) -> Iterator[tuple[int, int]]:
    with Source(path) as source:
        for line in split(source):
            if line.startswith(b"baseOffset: "):
                said = _BATCH.match(line)
                if said is None:
                    raise TraceError(path, None, None, "a batch without its checksum")
                yield int(said[1]), int(said[2])


_KINDS: dict[_Reader, tuple[str, str]] = {
    _of_file: (SEGMENT, SNAPSHOT),
    _of_dump: (SEGMENT_DUMP, SNAPSHOT_DUMP),
}
