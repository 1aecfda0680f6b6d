"""The log of a replica: its end and its leader epochs, from a dump of its data segments, or from set-aside segments.

In the output of ``kafka-dump-log``, a line ``Dumping PATH`` begins a file. A line with ``| `` is a record, if records
are shown; other lines are batches. Only batch lines are read. Dumps of an index, or of the metadata log, are skipped.

A broker sets a log aside if it is no longer a replica: the directory's name then ends in ``-stray`` or ``-delete``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from highwater.traces.kafka.batches import CHECKED, HEADER, LEAST, MAGIC, MAX_BATCH, PREFIX
from highwater.traces.kafka.copies import node_of
from highwater.traces.kafka.log_lines import BROKER_NUMBER, broker_of
from highwater.traces.reading import Source, TraceError, printable, split

MAX_REPLICAS, MAX_EPOCHS = 100_000, 10_000
"""The most replicas in a dump, and the most leader epochs in a segment; a dump with more is refused."""
_DUMPING = re.compile(rb"Dumping (.+)$")
_ASIDE = r"(?:\.[0-9a-f]{32}-(?:stray|delete))?"
_SEGMENT = re.compile(rf"(?:^|[/\\])(([a-zA-Z0-9._-]{{1,249}})-(\d{{1,9}}){_ASIDE})[/\\](\d{{20}})\.log$")
_HEAD = re.compile(
    rb"^Dumping [^\n]*-\d{1,9}"
    + _ASIDE.encode()
    + rb"[/\\]\d{20}\.log\r?\nLog starting offset: \d{1,19}\r?$",
    re.MULTILINE,
)
_BATCH = re.compile(
    rb"baseOffset: (\d{1,19}) lastOffset: (\d{1,19}) count: [^\n]{0,300}? partitionLeaderEpoch: (-?\d{1,10}) "
    rb"[^\n]{0,600}? isvalid: (true|false)\s*$"
)
_METADATA = "__cluster_metadata"


@dataclass(slots=True)
class ReplicaLog:
    """The log of one replica: its leader epochs with their start offsets, and its end offset."""

    path: Path
    broker: int
    name: str
    epochs: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    is_over: bool = False
    """True after an invalid batch. The broker uses neither that batch nor anything after it."""
    directory: str | None = None
    """Where the broker has set the log aside (``-stray``, ``-delete``); None if the log is in use."""

    def extend(self, base: int, last: int, epoch: int, line: int) -> None:
        """Add a batch with the offsets ``base`` to ``last`` (inclusive). Raises TraceError if it is out of order."""
        if last < base or base < self.end or (self.epochs and epoch < self.epochs[-1][0]):
            what = f"{base} of leader epoch {epoch} does not go on from before"
            raise TraceError(self.path, line, "baseOffset", what)
        if not self.epochs or self.epochs[-1][0] != epoch:
            if len(self.epochs) >= MAX_EPOCHS:
                raise TraceError(self.path, line, "partitionLeaderEpoch", f"more than {MAX_EPOCHS} of them")
            self.epochs.append((epoch, base))
        self.end = last + 1

    def before(self, epoch: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """The part of the log before the first leader epoch that is at least ``epoch``.

        Returns the leader epochs with their start offsets, and the end offset of the part.
        """
        kept = tuple(segment for segment in self.epochs if segment[0] < epoch)
        return kept, self.end if len(kept) == len(self.epochs) else self.epochs[len(kept)][1]


def is_data_dump(head: bytes) -> bool:
    """True if a file with these first bytes is a dump of data segments."""
    return any(_METADATA.encode() not in found[0] for found in _HEAD.finditer(head))


def is_set_aside(path: Path) -> bool:
    """True if a file is a data segment in a directory that a broker has set aside (``-stray``, ``-delete``)."""
    found = _SEGMENT.search(str(path.absolute()))
    return found is not None and not found[1][-1].isdecimal()


def read_data_dump(path: Path, notes: list[str] | None = None) -> list[ReplicaLog]:
    """Read the log of each replica from a dump of one broker, or from a directory that the broker has set aside.

    Raises TraceError if a batch line is invalid, or neither the dump's path nor the dumped path names the broker.
    """
    reading = _Reading(path, [] if notes is None else notes)
    if path.is_dir():
        return reading.read_segments(file for file in sorted(path.iterdir()) if is_set_aside(file))
    with Source(path) as source:
        return reading.read(split(source))


class _Reading:
    def __init__(self, path: Path, notes: list[str]) -> None:
        self._path, self._notes = path, notes
        self._broker = node if path.is_dir() and (node := node_of(path)) is not None else broker_of(path)
        self._segments: dict[str, list[tuple[int, ReplicaLog]]] = {}
        self._log: ReplicaLog | None = None

    def read(self, lines: Iterator[bytes]) -> list[ReplicaLog]:
        for number, line in enumerate(lines, start=1):
            if line.startswith(b"baseOffset: "):
                self._batch(number, line)
            elif found := _DUMPING.match(line):
                self._dumping(number, found[1].decode("utf-8", "replace").strip())
        return [self._joined(segments) for _, segments in sorted(self._segments.items())]

    def read_segments(self, files: Iterable[Path]) -> list[ReplicaLog]:
        """Read the headers of the batches in data segments. A log ends at a batch that is damaged or cut off."""
        for file in files:
            self._dumping(0, str(file.absolute()))
            log, at = self._log, 0
            assert log is not None
            with Source(file) as source:
                while len(head := source.read(HEADER.size)) == HEADER.size:
                    base, length, epoch, magic, checksum, _, delta, _, _ = HEADER.unpack(head)
                    is_batch = magic == MAGIC and LEAST <= length <= MAX_BATCH and min(base, delta) >= 0
                    body = source.read(length - LEAST) if is_batch else b""
                    log.is_over = not is_batch or crc32c(head[CHECKED:] + body) != checksum
                    if log.is_over:
                        self._notes.append(f"{file}: byte {at}: the batch is not valid: the log ends there")
                        break
                    log.extend(base, base + delta, epoch, 0)
                    at += PREFIX + length
        return [self._joined(segments) for _, segments in sorted(self._segments.items())]

    def _dumping(self, number: int, dumped: str) -> None:
        found, self._log = _SEGMENT.search(dumped), None
        if found is None or found[2] == _METADATA:
            return
        broker = self._broker
        if broker is None:
            match = BROKER_NUMBER.search(dumped)
            if match is None:
                message = "which broker's is this? Name the file data-node0.txt, with the broker's number"
                raise TraceError(self._path, number, None, f"{message}: {printable(dumped, 80)}")
            broker = int(match[1])
        folder, topic, partition, base = found.groups()
        if folder not in self._segments and len(self._segments) >= MAX_REPLICAS:
            raise TraceError(self._path, number, None, f"more than {MAX_REPLICAS} replicas")
        name, is_aside = f"{topic}-{int(partition)}", not folder[-1].isdecimal()
        directory = dumped[: found.end(1)] if is_aside else None
        self._log = ReplicaLog(self._path, broker, name, end=int(base), directory=directory)
        self._segments.setdefault(folder, []).append((int(base), self._log))

    def _batch(self, number: int, line: bytes) -> None:
        log = self._log
        if log is None or log.is_over:
            return
        found = _BATCH.match(line)
        if found is None:
            raise TraceError(self._path, number, None, "not a line of a batch")
        base, last, epoch = (int(text) for text in found.groups()[:3])
        if found[4] == b"false":
            log.is_over = True
            self._notes.append(
                f"{self._path}:{number}: the batch is not valid: the log of {log.name} ends there"
            )
            return
        log.extend(base, last, epoch, number)

    def _joined(self, segments: list[tuple[int, ReplicaLog]]) -> ReplicaLog:
        """Join the segments of a replica into one log, in the order of their offsets."""
        (_, log), *rest = sorted(segments, key=lambda pair: pair[0])
        for base, segment in rest:
            if log.is_over or base < log.end:
                self._notes.append(f"{self._path}: skipped the segment of {log.name} from offset {base}")
                continue
            for epoch, start in segment.epochs:
                if not log.epochs or epoch > log.epochs[-1][0]:
                    log.epochs.append((epoch, start))
            log.end, log.is_over = segment.end, segment.is_over
        return log
