"""Whether a dump is that of a log: each of its batches is in the log, with the same offset and checksum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from highwater.traces.kafka.batches import HEADER, LEAST, MAGIC, MAX_BATCH, PREFIX
from highwater.traces.kafka.recognise import SEGMENT, SEGMENT_DUMP, SNAPSHOT, SNAPSHOT_DUMP, recognise
from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.lines import Source, split

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

__all__ = ["same_logs"]
