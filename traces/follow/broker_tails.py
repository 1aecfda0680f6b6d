"""Read brokers' logs while brokers append lines, also across log rotation by renaming or truncation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from highwater.traces.brokers.watermarks import ordered
from highwater.traces.follow.tail import opened
from highwater.traces.inputs import OTHERS, beginning
from highwater.traces.kafka.broker_log import BrokerEvent, BrokerLog, is_broker_log
from highwater.traces.messages.request_lines import is_request_log
from highwater.traces.reading import MAX_LINE, TraceError

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
