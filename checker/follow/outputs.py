"""The outputs of a follower: events, its state, metrics, and the user's command that receives each event."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from highwater.checker.base.files import aside, checksum, read_json
from highwater.checker.base.problems import InputError
from highwater.model.versions import versions
from highwater.traces.follow.ledger import CHANGED, CLOSED, OPENED, IncidentEvent
from highwater.traces.follow.session import STATES, Counts, FollowerState
from highwater.traces.reading import printable
from highwater.traces.reports.incidents import SEVERITIES

FORMAT = 2
PLACE = tuple(field.name for field in fields(FollowerState))
MAX_PENDING = 100_000
"""The most events that wait while the file cannot be written; later ones are dropped."""
MAX_TIMES = 16
"""A state file may be this many times as large as other JSON files: room for 10,000 open incidents with long names."""
_TAIL = 1 << 20
_PATIENCE = 0.5
"""The most seconds that a write waits for the reader of a pipe. A longer wait would delay the end after SIGTERM."""


def note(text: str) -> None:
    """Print a line for people on standard error."""
    say(f"highwater: {printable(text, 2000)}")


def say(line: str) -> None:
    """Print a line on standard error; drop it if that is a pipe that nobody reads."""
    try:
        error = sys.stderr.fileno()
    except (OSError, ValueError):  # such as a buffer
        error = None
    if error is None or _is_ready(error):
        click.echo(line, err=True)


def _is_ready(file: int, seconds: float = _PATIENCE) -> bool:
    """Wait until a file can be written; False if it is a pipe that stays full. A ready pipe has room for PIPE_BUF."""
    waiting = select.poll()
    waiting.register(file, select.POLLOUT)
    return bool(waiting.poll(seconds * 1000))


class EventFile:
    """Appends events, one JSON object a line, to a file, or writes them to standard output (``-``).

    An event that the file already has is not written again. A second follower cannot open the file. Opening the file
    removes an incomplete last line. While the file cannot be written, for instance because the disk is full, up to
    MAX_PENDING events wait. They also wait while standard output is a pipe that nobody reads.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._pending: deque[bytes] = deque()
        self._is_full = False
        self.last_seq = 0
        """The number (``seq``) of the last event in the file or waiting for it; 0 if there is none."""
        self._file: int | None = None
        if target != "-":
            self._file = self._opened(Path(target))

    def _opened(self, path: Path) -> int:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            _lock(file)
            size = os.fstat(file).st_size
            tail = os.pread(file, _TAIL, max(0, size - _TAIL))
            if whole := tail.rfind(b"\n") + 1:
                os.ftruncate(file, size - len(tail) + whole)
            elif size and size <= _TAIL:
                os.ftruncate(file, 0)
        except OSError as wrong:
            raise InputError(f"--events {path}: {wrong.strerror or wrong}") from None
        for line in reversed(tail[:whole].splitlines()):
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and isinstance(told.get("seq"), int):
                self.last_seq = told["seq"]
                break
        return file

    def after(self, seq: int) -> list[Mapping[str, Any]]:
        """The incident events in the file whose number is above ``seq``; none for standard output."""
        if self._file is None or seq >= self.last_seq:
            return []
        size, window = os.fstat(self._file).st_size, _TAIL
        while True:
            found = _numbered(os.pread(self._file, window, max(0, size - window)), seq)
            if window >= size or (found and found[0]["seq"] == seq + 1):
                return found
            window *= 4

    def write(self, event: Mapping[str, Any]) -> None:
        """Write an event or a notice after the waiting ones.

        An event whose ``seq`` is not above ``last_seq`` is skipped. Raises BrokenPipeError.
        """
        seq = event.get("seq")
        if seq is not None and seq <= self.last_seq:
            return
        if len(self._pending) < MAX_PENDING:
            self._pending.append(json.dumps(event, ensure_ascii=True).encode() + b"\n")
            if seq is not None:
                self.last_seq = seq
        self.flush()

    def flush(self) -> bool:
        """Write the waiting events. Returns True if none is left waiting. Raises BrokenPipeError."""
        while self._pending:
            try:
                if self._file is None:
                    self._print()
                else:
                    self._append(self._pending[0])
            except BrokenPipeError:
                raise
            except OSError as wrong:
                if not self._is_full:
                    self._is_full = True
                    note(f"--events {self._target}: {wrong.strerror or wrong}; events wait")
                return False
            self._pending.popleft()
            if self._is_full:
                self._is_full = False
                note(f"--events {self._target}: can be written again")
        return True

    def _print(self) -> None:
        """Write the first waiting event to standard output. If a pipe is full, raises OSError, and the rest waits."""
        output = sys.stdout.fileno()
        while data := self._pending[0]:
            if not _is_ready(output, 0 if self._is_full else _PATIENCE):
                raise BlockingIOError(errno.EAGAIN, "nobody reads the pipe")
            self._pending[0] = data[os.write(output, data[: select.PIPE_BUF]) :]

    def _append(self, data: bytes) -> None:
        """Append data to the file completely or not at all. Raises OSError."""
        assert self._file is not None
        before, done = os.fstat(self._file).st_size, 0
        try:
            while done < len(data):
                done += os.write(self._file, data[done:])
        except OSError:
            if done:
                os.ftruncate(self._file, before)
            raise

    def close(self) -> None:
        """Close the file of events."""
        if self._file is not None:
            os.close(self._file)


def _lock(file: int) -> None:
    """Lock an open regular file until it is closed. Raises BlockingIOError if another process has locked it."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return  # for example /dev/null, which everybody shares
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(errno.EWOULDBLOCK, "another follower writes this file") from None
    except OSError:
        pass  # a file system without locks


def _numbered(data: bytes, seq: int) -> list[Mapping[str, Any]]:
    """The incident events in the JSON lines ``data`` whose number is above ``seq``; other lines are skipped."""
    found = []
    for line in data.splitlines():
        try:
            event = json.loads(line)
            incident = event["incident"]
            known = isinstance(event["seq"], int) and isinstance(incident["id"], str)
            known &= event["event"] in (OPENED, CHANGED, CLOSED) and incident["severity"] in SEVERITIES
            known &= isinstance(incident["position"], dict) and isinstance(incident["partition"], str | None)
            if known and isinstance(event["offset"], int) and event["seq"] > seq:
                found.append(event)
        except (ValueError, KeyError, TypeError):
            continue
    return found


class StateFile:
    """The file with the state from which a follower continues after a restart.

    Each write replaces the whole file or leaves it unchanged. The file has a checksum. A lock refuses a second
    follower. The lock is on ``FILE.lock``, because each write replaces the file itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written = ""
        self._failed = False
        self._locked: int | None = None
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
            self._locked = os.open(f"{path}.lock", flags, 0o644)
            _lock(self._locked)
        except BlockingIOError as wrong:
            self.close()
            raise InputError(f"--state {path}: {wrong.strerror}") from None
        except OSError:
            pass  # no lock file there, such as for /dev/null: `write` reports a directory that is not writable

    def read(self, directory: Path) -> FollowerState | None:
        """The follower's state for ``directory``; None if the file is missing or cannot be used.

        If the file cannot be used, a line on standard error gives the reason.
        """
        try:
            found = read_json(self.path, times=MAX_TIMES)
            if found["checksum"] != _sum(found["state"]):
                raise InputError(f"{self.path}: the checksum is wrong")
            state = found["state"]
            if state["format"] != FORMAT or state["engine"] != versions("report")["highwater"]:
                raise InputError(f"{self.path}: written by another version")
            if state["directory"] != str(directory.absolute()):
                raise InputError(f"{self.path}: of another directory, {state['directory']}")
            marks = [(offset, checksum) for offset, checksum in state["marks"]]
            place = FollowerState(**{**{name: state[name] for name in PLACE}, "marks": marks})
        except FileNotFoundError:
            return None
        except (InputError, KeyError, TypeError, ValueError, AttributeError) as wrong:
            what = str(wrong) if isinstance(wrong, InputError) else f"{self.path}: not a follower's state"
            note(f"{what}; the log is read anew")
            return None
        return place

    def write(self, directory: Path, place: FollowerState) -> bool:
        """Write the follower's state, if it has changed. Returns False if the file cannot be written."""
        state = {
            "format": FORMAT,
            "engine": versions("report")["highwater"],
            "directory": str(directory.absolute()),
            **{name: getattr(place, name) for name in PLACE},
        }
        text = json.dumps({"checksum": _sum(state), "state": state})
        if text == self._written:
            return True
        try:
            with aside(self.path, synced=True) as beside:
                beside.write_text(text, encoding="utf-8")
        except OSError as wrong:
            if not self._failed:
                note(f"--state {self.path}: {wrong.strerror or wrong}")
            self._failed = True
            return False
        self._written, self._failed = text, False
        return True

    def close(self) -> None:
        """Unlock the file."""
        if self._locked is not None:
            os.close(self._locked)
        self._locked = None


def _sum(state: Any) -> int:
    return checksum(json.dumps(state, sort_keys=True).encode())


class Metrics:
    """Metrics for Prometheus, served on a port or written to a file.

    ``target`` is ``:PORT`` (on 127.0.0.1), ``HOST:PORT``, or the path of the file.
    """

    def __init__(self, target: str) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
        except ImportError:
            raise InputError("--metrics: install the extra: highwater-checker[follow]") from None
        self._registry = registry = CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"highwater_{name}", text, labels, registry=registry)

        self._partitions = gauge("partitions", "Partitions by state; all counts every one.", "state")
        self._incidents = gauge("incidents", "Open incidents by severity.", "severity")
        self._opened = Counter(
            "highwater_incidents_opened",
            "Incidents since the start; one that gets another severity counts there, too.",
            ["severity"],
            registry=registry,
        )
        self.severities: dict[str, str] = {}
        """The severity under which each open incident was counted last, by the incident's id."""
        self._records = gauge("records", "Records followed since the start.")
        self._nonconforming = gauge("nonconforming_records", "Records that do not conform since the start.")
        self._offset = gauge("next_offset", "The offset of the metadata log that comes next.")
        self._last = gauge("last_record_seconds", "The time of the last record, in seconds since 1970.")
        self._delay = gauge("delay_seconds", "From the last record's time to the moment it was followed.")
        self._caveats = gauge("caveats", "Reasons why an incident may be missed or wrong.")
        self._waiting = gauge("waiting", "1 while the directory has no metadata log.")
        self._info = gauge("build_info", "The version.", "version")
        self._info.labels(versions("report")["highwater"]).set(1)
        for severity in SEVERITIES:
            self._incidents.labels(severity)
            self._opened.labels(severity)
        host, colon, port = target.rpartition(":")
        self._host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        self._file: Path | None = None
        self._failed = False
        if colon and port.isdecimal():
            try:
                self._server, self._thread = start_http_server(int(port), self._host, registry)
            except (OSError, OverflowError) as wrong:
                raise InputError(f"--metrics {target}: {wrong}") from None
        else:
            self._file = Path(target)

    @property
    def port(self) -> int:
        """The port on which the metrics are served; 0 if they are written to a file."""
        return 0 if self._file is not None else int(self._server.server_port)

    @property
    def address(self) -> str | None:
        """The URL of the metrics; None if they are written to a file."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/metrics" if self._file is None else None

    def count(self, event: IncidentEvent) -> None:
        """Count the event's incident if it is new or its severity changed; forget the incident if it was closed."""
        id, severity = str(event.incident["id"]), str(event.incident["severity"])
        if event.event == CLOSED:
            self.severities.pop(id, None)
        elif self.severities.get(id) != severity:
            self.severities[id] = severity
            self._opened.labels(severity).inc()

    def update(self, counts: Counts, severities: Sequence[str], is_waiting: bool) -> None:
        """Set the metrics, and write them to the file, if any.

        ``severities`` has one item for each open incident. ``is_waiting``: the directory has no metadata log.
        """
        for state in STATES:
            self._partitions.labels(state).set(counts.partitions[state])
        for severity in SEVERITIES:
            self._incidents.labels(severity).set(severities.count(severity))
        self._records.set(counts.records)
        self._nonconforming.set(counts.nonconforming)
        self._offset.set(counts.next_offset)
        self._last.set(counts.last_time / 1000)
        self._delay.set(counts.delay)
        self._caveats.set(counts.caveats)
        self._waiting.set(is_waiting)
        if self._file is not None:
            self._write(self._file)

    def _write(self, file: Path) -> None:
        from prometheus_client import write_to_textfile

        try:
            write_to_textfile(str(file), self._registry)
            self._failed = False
        except OSError as wrong:
            if not self._failed:
                note(f"--metrics {file}: {wrong.strerror or wrong}")
            self._failed = True

    def close(self) -> None:
        """Stop serving the metrics."""
        if self._file is None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


class Hook:
    """Runs a command for each event, one after the other. The command reads the event from standard input.

    A command that takes longer than ``SECONDS`` is killed.
    """

    SECONDS = 30.0
    MAX_WAITING = 1000

    def __init__(self, command: str) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as wrong:
            raise InputError(f"--on-incident: {wrong}") from None
        if not self._command:
            raise InputError("--on-incident: an empty command")
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._deadline: float | None = None
        """The time at which the command for the last events is killed; None while the follower runs."""
        self._thread = threading.Thread(target=self._work, name="on-incident", daemon=True)
        self._thread.start()

    def give(self, event: Mapping[str, Any]) -> None:
        """Queue an event for the command. If ``MAX_WAITING`` events wait, drop it and report that on standard error."""
        with self._changed:
            if len(self._waiting) >= self.MAX_WAITING:
                note(f"--on-incident: {self.MAX_WAITING} events wait; event {event['seq']} is not given")
                return
            self._waiting.append(json.dumps(event).encode() + b"\n")
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._deadline is not None:
                        return
                    self._changed.wait()
                if self._remaining() <= 0:
                    note(f"--on-incident: the follower ends; {len(self._waiting)} events are not given")
                    return
                event = self._waiting.popleft()
            try:
                self._run(event)
            except OSError as wrong:
                note(f"--on-incident {self._command[0]}: {wrong.strerror or wrong}")

    def _remaining(self) -> float:
        """The seconds that a command started now can take."""
        left = self.SECONDS if self._deadline is None else self._deadline - time.monotonic()
        return min(self.SECONDS, max(0.0, left))

    def _run(self, event: bytes) -> None:
        remaining = self._remaining()
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.communicate(event, timeout=remaining)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            note(f"--on-incident {self._command[0]}: ended after {remaining:.0f} s")
            return
        if process.returncode:
            note(f"--on-incident {self._command[0]}: exit status {process.returncode}")

    def close(self) -> None:
        """Wait until the command has run for all queued events, but at most ``SECONDS``; then kill it."""
        with self._changed:
            self._deadline = time.monotonic() + self.SECONDS
            self._changed.notify()
        self._thread.join(self.SECONDS + 5)
