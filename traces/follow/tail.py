"""Files that Kafka is writing: the metadata log, segment after segment, and brokers' logs, also across log rotation.

Only whole batches and complete lines are read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import NamedTuple

from highwater.traces.brokers.watermarks import ordered
from highwater.traces.inputs import OTHERS, beginning
from highwater.traces.kafka.batches import HEADER, LEAST, MAGIC, MAX_BATCH, PREFIX, RecordBatch, read_batches
from highwater.traces.kafka.broker_log import BrokerEvent, BrokerLog, is_broker_log
from highwater.traces.kafka.metadata_log import BatchOrder, Gap, Snapshot
from highwater.traces.kafka.values import CONTROL_KEYS, DamagedRecord, control_type
from highwater.traces.messages.request_lines import is_request_log
from highwater.traces.reading import MAX_LINE, TraceError

_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_AT_ONCE = 4 << 20
"""The most bytes of a segment that one poll reads; a single larger batch is read whole."""
_PATIENCE = 20
"""A limit in polls. Bytes that are no valid batch for so many polls count as damage; records that are missing before a
later segment for so many polls count as lost."""


class LogStart(NamedTuple):
    """The first piece of a reading: build the state anew, from ``snapshot`` or, if None, from the start of the log.

    ``why`` is the reason, for people; empty for the first start. ``incomplete`` has the damaged or incomplete snapshots
    that were tried first. ``snapshot`` is one of them if there is no other way to begin.
    """

    snapshot: Snapshot | None
    why: str
    incomplete: tuple[Path, ...] = ()


Piece = LogStart | Gap | tuple[Path, RecordBatch]


@dataclass
class _Segment:
    """The open segment, which was read up to ``position``.

    ``last`` has the position and the header of the last batch that was read. If the file has another header there now,
    the segment was rewritten.
    """

    path: Path
    file: FileIO
    order: BatchOrder
    position: int = 0
    last: tuple[int, bytes] | None = None

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
        if self.last is not None and self.read(HEADER.size, self.last[0]) != self.last[1]:
            return "the log was rewritten"
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
    with which reading began, 0 without a snapshot. Before the first reading, it is that of an earlier follower of this
    log; None if there was none.
    """

    def __init__(self, directory: Path, begun_at: int | None = None) -> None:
        self.directory, self.begun_at, self.next_offset = directory, begun_at, 0
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

    def _begin(self, why: str) -> Iterator[Piece]:
        """Begin with a snapshot, or with the first record.

        After an earlier reading, begin where that one began, so that its incidents are found again. If its snapshot was
        deleted, begin with the next one. The first reading begins with the newest snapshot.
        """
        self.close()
        self._has_begun, self._why = False, why or self._why
        segments, snapshots = self._listing()
        if not segments and not snapshots:
            return
        has_first, wanted = segments[:1] == [0], self.begun_at
        if wanted is None:
            candidates = snapshots[::-1]
        elif has_first:
            candidates = [s for s in snapshots if s.end_offset == wanted]
        else:
            candidates = [s for s in snapshots if s.end_offset >= wanted] or snapshots[::-1]
        yield from self._begin_with(candidates, has_first)

    def _skip(self, why: str) -> Generator[Piece, None, bool]:
        """Begin with the first snapshot beyond ``next_offset``; return False if there is none."""
        snapshots = [s for s in self._listing()[1] if s.end_offset > self.next_offset]
        if snapshots:
            self.close()
            self._why = why
            yield from self._begin_with(snapshots, False)
        return bool(snapshots)

    def _begin_with(self, candidates: Sequence[Snapshot], has_first: bool) -> Iterator[Piece]:
        """Begin with the first of these snapshots that is complete.

        If none is, begin with the first record if the log has it (``has_first``), else with an incomplete snapshot.
        """
        chosen = next((s for s in candidates if _is_complete(s)), None)
        incomplete = candidates if chosen is None else candidates[: candidates.index(chosen)]
        if chosen is None and incomplete and not has_first:
            chosen = incomplete[0]
        self.next_offset = self.begun_at = chosen.end_offset if chosen else 0
        self._has_begun, self._failures = True, 0
        why, self._why = self._why, ""
        yield LogStart(chosen, why, tuple(s.path for s in incomplete))

    def _listing(self) -> tuple[list[int], list[Snapshot]]:
        """The first offsets of the segments, and the snapshots, in order; both empty if there is no directory yet.

        A snapshot at offset 0 is left out: the first records of the log repeat it.
        """
        segments, snapshots = [], []
        try:
            names = os.listdir(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        for name in names:
            if found := _SEGMENT.fullmatch(name):
                segments.append(int(found[1]))
            elif (found := _SNAPSHOT.fullmatch(name)) and int(found[1]):
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
            yield from self._stuck(wrong)
            return
        if end == segment.position and self._has_next(segment):
            self.close()
        elif not data:
            yield from self._stuck(None)

    def _open(self) -> Iterator[Piece]:
        """Open the segment with the next offset.

        If the segment was deleted, begin again with a newer snapshot, or open the first segment if there is none.
        """
        segments, _ = self._listing()
        base = max((base for base in segments if base <= self.next_offset), default=None)
        if base is None and segments:
            has_begun = yield from self._skip("segments were deleted before they were read")
            base = None if has_begun else segments[0]
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
                self.next_offset = max(self.next_offset, last.last_offset + 1)
                yield from segment.order.take(segment.path, last)
        finally:
            if last is not None:
                self._failures = 0
                header = data[last.position : last.position + HEADER.size]
                segment.last = segment.position + last.position, header
                segment.position += last.position + PREFIX + HEADER.unpack(header)[1]

    def _stuck(self, wrong: TraceError | None) -> Iterator[Piece]:
        """Handle bytes that are no batch, or (``wrong`` None) the end of a segment without the next offset elsewhere.

        Kafka may still be writing the batch or the segment. At the ``_PATIENCE``-th time, begin again with a newer
        snapshot. Without one, raise ``wrong``, or open the first later segment.
        """
        later = next((base for base in self._listing()[0] if base > self.next_offset), None)
        if wrong is None and later is None:
            return
        self._failures += 1
        if self._failures < _PATIENCE:
            return
        has_begun = yield from self._skip(f"the log cannot be read from offset {self.next_offset} on")
        if wrong is not None and not has_begun:
            raise wrong
        if later is not None and not has_begun:
            self._failures = 0
            self.close()
            self._open_at(later)


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


MAX_FILES = 10_000
"""The most files below the directories; ``BrokerTails.look`` reports that later ones are not read."""
_AT_ONCE = 4 << 20
_HEAD = 1 << 16
_Placed = tuple[tuple[int, int], BrokerEvent]


class _Tail:
    """A log file that a broker is writing; it yields the events of complete lines in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._log = BrokerLog(path)
        self._rest = b""
        self._latest = -(1 << 62)
        self.is_at_end = False
        """True if the last read reached the end of the file."""

    def events(self) -> Iterator[_Placed]:
        """The events of the next new lines, each with its sort key; one call reads at most ``_AT_ONCE`` bytes.

        If the file was rotated, the call yields nothing, and the next call reads the new file. Raises OSError if the
        file cannot be read. If a line has an impossible number or time, the other lines are read first; then
        TraceError is raised.
        """
        if self._file is None:
            self._open()
        assert self._file is not None
        data = self._file.read(_AT_ONCE) or b""
        self.is_at_end = len(data) < _AT_ONCE
        if not data and self._was_rotated():
            self.close()
            self.is_at_end = False
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            self._rest = b""  # longer than any line that Kafka writes
        wrong: TraceError | None = None
        for line in lines:
            try:
                for place, event in ordered(self._log.take(line)):
                    self._latest = max(self._latest, place[0])
                    yield (self._latest, place[1]), event
            except TraceError as found:
                wrong = wrong or found
        if wrong is not None:
            raise wrong

    @property
    def first_unread(self) -> str:
        """The first line about a replica that cannot be read, with its number; empty if all can be."""
        return self._log.first_unread

    def _open(self) -> None:
        self._file, self._log, self._rest = opened(self.path), BrokerLog(self.path), b""

    def _was_rotated(self) -> bool:
        assert self._file is not None
        here = os.fstat(self._file.fileno())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False  # renamed; the new file does not exist yet
        return there.st_ino != here.st_ino or there.st_size < self._file.tell()

    def close(self) -> None:
        """Close the file. The next call of ``events`` opens the file that then has this path."""
        if self._file is not None:
            self._file.close()
        self._file = None


class BrokerTails:
    """The brokers' logs below directories. Of each log, only the file that is being written is read, from its start.

    A broker writes two files, whose events must come in the order of time. So a poll holds back the events that are
    later than all events of earlier polls; the next poll yields them.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._tails: dict[Path, _Tail] = {}
        self._others: dict[tuple[Path, int], str] = {}
        """Why a file is not read, by path and inode; its head is full and does not change. Empty for no reason."""
        self._waiting: list[_Placed] = []
        self._before = -(1 << 62)
        self._is_at_end = not directories
        self.has_caught_up = False
        """True if the poll before the last one read every file to its end. That poll's events have all been yielded."""
        self.unreadable: dict[Path, str] = {}
        """The reason why a file, one of its lines, or a directory is not read, for each of them."""

    @property
    def number(self) -> int:
        """The number of logs that are followed."""
        return len(self._tails)

    def look(self) -> None:
        """Find new brokers' logs in the directories, for ``poll`` to read."""
        self.unreadable = {path: why for path, why in self.unreadable.items() if path in self._tails}
        for path in self._files():
            if path in self._tails:
                continue
            try:
                with opened(path) as file:
                    key = path, os.fstat(file.fileno()).st_ino
                    head = b"" if key in self._others else file.read(_HEAD) or b""
                if is_broker_log(head):
                    self._tails[path] = _Tail(path)
                    continue
                if len(head) == _HEAD:
                    self._others[key] = _not_read(path, head)
                if why := self._others.get(key) or _not_read(path, head):
                    self.unreadable[path] = why
            except OSError as wrong:
                self._refused(wrong, path)

    def _refused(self, wrong: OSError, path: Path | None = None) -> None:
        if not isinstance(wrong, FileNotFoundError):  # it need not exist yet, or is deleted in between
            self.unreadable[path or Path(wrong.filename)] = wrong.strerror or str(wrong)

    def _files(self) -> Iterator[Path]:
        number = 0
        for directory in self._directories:
            for folder, folders, names in os.walk(directory, onerror=self._refused):
                folders.sort()
                for name in sorted(names):
                    number += 1
                    if number > MAX_FILES:
                        self.unreadable[directory] = f"more than {MAX_FILES} files: the others are not read"
                        return
                    if name.endswith(".log") and not name[:20].isdecimal():
                        yield Path(folder, name)

    def poll(self) -> Iterator[BrokerEvent]:
        """Read new lines; yield the events that need no longer be held back, in the order of their times."""
        bound, latest, came = self._before, self._before, False
        self.has_caught_up, self._is_at_end = self._is_at_end, True
        for path, tail in self._tails.items():
            try:
                for place, event in tail.events():
                    self._waiting.append((place, event))
                    latest, came = max(latest, place[0]), True
                self._is_at_end &= tail.is_at_end
                self.unreadable.pop(path, None)
                if tail.first_unread:
                    self.unreadable[path] = f"a line cannot be read: {tail.first_unread}"
            except FileNotFoundError:
                tail.close()
            except (OSError, TraceError) as wrong:
                self.unreadable[path] = str(wrong)
        self._waiting.sort(key=lambda pair: pair[0])
        self._before = latest
        if came:
            held = [pair for pair in self._waiting if pair[0][0] > bound]
            ready = self._waiting[: len(self._waiting) - len(held)]
            self._waiting = held
        else:
            ready, self._waiting = self._waiting, []
        yield from (event for _, event in ready)

    def close(self) -> None:
        """Close the files of the logs."""
        for tail in self._tails.values():
            tail.close()


def _not_read(path: Path, head: bytes) -> str:
    """Why a file with these first bytes is not read; empty if it is no broker's log, or has no whole line yet."""
    has_line = b"\n" in head or len(head) == _HEAD
    if not has_line or OTHERS.fullmatch(path.name) or is_request_log(head):
        return ""
    return f"not read: {beginning(head)}"
