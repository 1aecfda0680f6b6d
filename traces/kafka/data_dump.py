"""What ``kafka-dump-log`` prints of a broker's data segments: how far each replica's log goes, by which epochs.

A line ``Dumping PATH`` begins a file, a line is a batch, and one with ``| `` a record, if records are shown. Only the
lines of batches are looked at; what is of an index, or of the metadata log, is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.reading.errors import TraceError, printable
from highwater.traces.reading.lines import Source, split

MAX_REPLICAS, MAX_EPOCHS = 100_000, 10_000
"""So many replicas are read of a broker, and so many leader epochs of a replica."""
_DUMPING = re.compile(rb"Dumping (.+)$")
_SEGMENT = re.compile(r"(?:^|[/\\])([a-zA-Z0-9._-]{1,249})-(\d{1,9})[/\\](\d{20})\.log$")
_HEAD = re.compile(
    rb"^Dumping [^\n]*-\d{1,9}[/\\]\d{20}\.log\r?\nLog starting offset: \d{1,19}\r?$", re.MULTILINE
)
_BATCH = re.compile(
    rb"baseOffset: (\d{1,19}) lastOffset: (\d{1,19}) count: [^\n]{0,300}? partitionLeaderEpoch: (-?\d{1,10}) "
    rb"[^\n]{0,600}? isvalid: (true|false)\s*$"
)
_NUMBER = re.compile(r"(?:node|broker)[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)
_METADATA = "__cluster_metadata"


@dataclass(slots=True)
class ReplicaLog:
    """The log of a broker's replica: leader epochs, each with the offset at which it starts, and the end.

    Raises TraceError (``extend``) where a batch does not go on from the one before.
    """

    path: Path
    broker: int
    name: str
    epochs: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    is_over: bool = False
    """A batch that is not valid: what is behind it is not there for the broker either."""

    def extend(self, base: int, last: int, epoch: int, line: int) -> None:
        """One more batch."""
        if last < base or base < self.end or (self.epochs and epoch < self.epochs[-1][0]):
            said = f"{base} of leader epoch {epoch} does not go on from before"
            raise TraceError(self.path, line, "baseOffset", said)
        if not self.epochs or self.epochs[-1][0] != epoch:
            if len(self.epochs) >= MAX_EPOCHS:
                raise TraceError(self.path, line, "partitionLeaderEpoch", f"more than {MAX_EPOCHS} of them")
            self.epochs.append((epoch, base))
        self.end = last + 1

    def before(self, epoch: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """The log up to where a leader epoch or a later one starts in it: its epochs, and where it ends then."""
        kept = tuple(segment for segment in self.epochs if segment[0] < epoch)
        return kept, self.end if len(kept) == len(self.epochs) else self.epochs[len(kept)][1]


def is_data_dump(head: bytes) -> bool:
    """Whether a file that begins like this is a dump of data segments."""
    return any(_METADATA.encode() not in found[0] for found in _HEAD.finditer(head))


def broker_of(path: Path) -> int | None:
    """The broker that a file is of, by its name or by that of a directory: node0, broker-0; None where none says so."""
    for name in (path.name, *(parent.name for parent in path.absolute().parents)):
        if found := _NUMBER.search(name):
            return int(found[1])
    return None


def read_data_dump(path: Path, notes: list[str] | None = None) -> list[ReplicaLog]:
    """The logs of a broker's replicas, by partition. Raises TraceError where a line of a batch cannot be one."""
    with Source(path) as source:
        return _Reading(path, [] if notes is None else notes).read(split(source))


class _Reading:
    def __init__(self, path: Path, notes: list[str]) -> None:
        self._path, self._notes = path, notes
        self._broker = broker_of(path)
        self._segments: dict[str, list[tuple[int, ReplicaLog]]] = {}
        self._log: ReplicaLog | None = None

    def read(self, lines: Iterator[bytes]) -> list[ReplicaLog]:
        for number, line in enumerate(lines, start=1):
            if line.startswith(b"baseOffset: "):
                self._batch(number, line)
            elif found := _DUMPING.match(line):
                self._dumping(number, found[1].decode("utf-8", "replace").strip())
        return [self._joined(name) for name in sorted(self._segments)]

    def _dumping(self, number: int, dumped: str) -> None:
        found, self._log = _SEGMENT.search(dumped), None
        if found is None or found[1] == _METADATA:
            return
        broker = self._broker
        if broker is None:
            said = _NUMBER.search(dumped)
            if said is None:
                message = "which broker's is this? Name the file data-node0.txt, with the broker's number"
                raise TraceError(self._path, number, None, f"{message}: {printable(dumped, 80)}")
            broker = int(said[1])
        name = f"{found[1]}-{int(found[2])}"
        if name not in self._segments and len(self._segments) >= MAX_REPLICAS:
            raise TraceError(self._path, number, None, f"more than {MAX_REPLICAS} replicas")
        self._log = ReplicaLog(self._path, broker, name, end=int(found[3]))
        self._segments.setdefault(name, []).append((int(found[3]), self._log))

    def _batch(self, number: int, line: bytes) -> None:
        log = self._log
        if log is None or log.is_over:
            return
        found = _BATCH.match(line)
        if found is None:
            raise TraceError(self._path, number, None, "no line of a batch")
        base, last, epoch = (int(text) for text in found.groups()[:3])
        if found[4] == b"false":
            log.is_over = True
            self._notes.append(
                f"{self._path}:{number}: the batch is not valid: the log of {log.name} ends there"
            )
            return
        log.extend(base, last, epoch, number)

    def _joined(self, name: str) -> ReplicaLog:
        """The segments of a replica as one log, in the order of their offsets."""
        (_, log), *rest = sorted(self._segments[name], key=lambda pair: pair[0])
        for base, segment in rest:
            if log.is_over or base < log.end:
                self._notes.append(f"{self._path}: the segment of {name} from offset {base} on is left out")
                continue
            for epoch, start in segment.epochs:
                if not log.epochs or epoch > log.epochs[-1][0]:
                    log.epochs.append((epoch, start))
            log.end, log.is_over = segment.end, segment.is_over
        return log
