"""The outputs of a follower: events, the file of open incidents, the user's command for each change, and metrics."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from highwater.checker.base.files import aside, read_json
from highwater.checker.base.problems import InputError
from highwater.model.versions import versions
from highwater.traces.follow.session import CLOSED, STATES, Counts, IncidentChange, OpenIncidents
from highwater.traces.reading import printable
from highwater.traces.reports.incidents import SEVERITIES

MAX_WAITING = 100_000
"""The most lines of events that wait while the file cannot be written; later ones are dropped."""
MAX_TIMES = 16
"""A file of incidents may be this many times as large as other JSON files: 10,000 incidents with long names."""
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

    While the file cannot be written, for instance because the disk is full or nobody reads the pipe, lines wait. Of
    each incident only the newest line waits.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._waiting: dict[str, bytes] = {}
        self._rest = b""  # of a line that was written in part
        self._failed = False
        try:
            self._file = sys.stdout.fileno() if target == "-" else _appended(Path(target))
        except OSError as wrong:
            raise InputError(f"--events {target}: {wrong.strerror or wrong}") from None

    def write(self, event: Mapping[str, Any]) -> None:
        """Write an event or a notice after the waiting ones. Raises BrokenPipeError."""
        text = json.dumps(event)
        key = event["incident"]["id"] if "incident" in event else text
        self._waiting.pop(key, None)
        if len(self._waiting) < MAX_WAITING:
            self._waiting[key] = text.encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Write the waiting lines. Returns True if none is left waiting. Raises BrokenPipeError."""
        while self._rest or self._waiting:
            if not self._rest:
                self._rest = self._waiting.pop(next(iter(self._waiting)))
            try:
                if not _is_ready(self._file, 0 if self._failed else _PATIENCE):
                    raise BlockingIOError(0, "nobody reads the pipe")
                self._rest = self._rest[os.write(self._file, self._rest[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                raise
            except OSError as wrong:
                if not self._failed:
                    note(f"--events {self._target}: {wrong.strerror or wrong}; events wait")
                self._failed = True
                return False
        if self._failed:
            note(f"--events {self._target}: can be written again")
        self._failed = False
        return True

    def close(self) -> None:
        """Close the file of events."""
        if lines := len(self._waiting) + bool(self._rest):
            note(f"--events {self._target}: {lines} lines are not written")
        if self._target != "-":
            os.close(self._file)


def _appended(path: Path) -> int:
    """Open a file to append lines; complete a line that a killed process has begun. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


class IncidentsFile:
    """The JSON file with the open incidents, in the form of ``incidents.schema.json``.

    Each write replaces the whole file or leaves it unchanged. A restarted follower compares with it.
    """

    def __init__(self, path: Path, log: Path) -> None:
        self.path, self._log = path, str(log.absolute())
        self._written: tuple[int, Mapping[str, Any]] | None = None
        self._failed = False

    def read(self) -> OpenIncidents | None:
        """The open incidents in the file; None if it is missing or cannot be used, with a line on standard error."""
        try:
            found = read_json(self.path, times=MAX_TIMES)
            if found["versions"]["schema"] != versions("incidents")["schema"]:
                raise InputError(f"{self.path}: written by another version")
            if found["directory"] != self._log:
                raise InputError(f"{self.path}: of another directory, {found['directory']}")
            incidents = {one["id"]: one for one in found["incidents"]}
            are_known = all(
                isinstance(id, str)
                and one["severity"] in SEVERITIES
                and isinstance(one["partition"], str | None)
                and isinstance(one["position"].get("offset", 0), int)
                for id, one in incidents.items()
            )
            begun_at, next_offset = found["begun_at"], found["next_offset"]
            if not are_known or not isinstance(begun_at, int) or not isinstance(next_offset, int):
                raise TypeError
            return OpenIncidents(begun_at, next_offset, incidents)
        except FileNotFoundError:
            return None
        except (InputError, KeyError, TypeError, AttributeError) as wrong:
            what = str(wrong) if isinstance(wrong, InputError) else f"{self.path}: not a file of incidents"
            note(f"{what}; the log is read anew")
            return None

    def write(self, now: OpenIncidents, *, always: bool = False) -> None:
        """Write the file if the incidents have changed, or ``always``. A line on standard error reports a failure."""
        key = (now.begun_at, now.incidents)
        if key == self._written and not always:
            return
        content = {
            "versions": versions("incidents"),
            "directory": self._log,
            "begun_at": now.begun_at,
            "next_offset": now.next_offset,
            "incidents": list(now.incidents.values()),
        }
        try:
            with aside(self.path, synced=True) as beside:
                beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            self._written, self._failed = key, False
        except OSError as wrong:
            if not self._failed:
                note(f"--incidents {self.path}: {wrong.strerror or wrong}")
            self._failed = True


class Hook:
    """Runs a command for each change of an incident, one after the other. The command reads it from standard input.

    While the command runs, of each incident only the newest change waits. A command that takes longer than ``SECONDS``
    is killed. A command that fails is reported, and not repeated.
    """

    SECONDS = 30.0

    def __init__(self, command: str) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as wrong:
            raise InputError(f"--on-incident: {wrong}") from None
        if not self._command:
            raise InputError("--on-incident: an empty command")
        self._waiting: dict[str, IncidentChange] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0

    def give(self, change: IncidentChange) -> None:
        """Let a change wait for the command, in place of an earlier one of the same incident."""
        self._waiting.pop(change.incident["id"], None)
        self._waiting[change.incident["id"]] = change

    def work(self) -> bool:
        """Start the command for the next change, or kill it after its time. Returns False if nothing is left to do."""
        if self._process is None and self._waiting:
            self._start(self._waiting.pop(next(iter(self._waiting))))
        process = self._process
        if process is not None and process.poll() is not None:
            if process.returncode:
                note(f"--on-incident {self._command[0]}: exit status {process.returncode}")
            self._process = None
        elif process is not None and time.monotonic() > self._deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            note(f"--on-incident {self._command[0]}: killed after {self.SECONDS:.0f} s")
            self._process = None
        return self._process is not None or bool(self._waiting)

    def _start(self, change: IncidentChange) -> None:
        self._deadline = time.monotonic() + self.SECONDS
        try:
            with tempfile.TemporaryFile() as content:
                content.write(json.dumps(change.to_json()).encode() + b"\n")
                content.seek(0)
                self._process = subprocess.Popen(
                    self._command, stdin=content, stdout=subprocess.DEVNULL, start_new_session=True
                )
        except OSError as wrong:
            note(f"--on-incident {self._command[0]}: {wrong.strerror or wrong}")

    def close(self) -> None:
        """Run the command for the waiting changes for at most ``SECONDS`` in all; then kill it."""
        end = time.monotonic() + self.SECONDS
        while self._process is not None or self._waiting:
            if time.monotonic() > end and self._waiting:
                note(f"--on-incident: the follower ends; {len(self._waiting)} changes are not given")
                self._waiting.clear()
            self._deadline = min(self._deadline, end)
            self.work()
            time.sleep(0.02)


_Value = Callable[[Counts], float]
_GAUGES: tuple[tuple[str, str, _Value], ...] = (
    ("records", "Records followed since the start.", lambda c: c.records),
    ("nonconforming_records", "Records that do not conform since the start.", lambda c: c.nonconforming),
    ("next_offset", "The offset of the metadata log that comes next.", lambda c: c.next_offset),
    (
        "last_record_seconds",
        "The time of the last record, in seconds since 1970.",
        lambda c: c.last_time / 1000,
    ),
    ("delay_seconds", "From the last record's time to the moment it was followed.", lambda c: c.delay),
    (
        "caveats",
        "Reasons why an incident may be missed or wrong.",
        lambda c: c.caveats + c.unreadable + c.damaged,
    ),
    ("unreadable", "Files, directories and records that are not read.", lambda c: c.unreadable + c.damaged),
    ("broker_logs", "Brokers' logs that are followed.", lambda c: c.broker_logs),
    ("waiting", "1 while the directory has no metadata log.", lambda c: c.is_waiting),
)
"""The metrics without labels: name, help and value."""


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
        text = "Partitions that come to an outcome if this is done to the broker now."
        self._plan = gauge("plan_partitions", text, "action", "broker", "outcome")
        self._opened = Counter(
            "highwater_incidents_opened",
            "Incidents since the start; one that gets another severity counts there, too.",
            ["severity"],
            registry=registry,
        )
        for severity in SEVERITIES:
            self._opened.labels(severity)
        self._gauges = [(gauge(name, text), value) for name, text, value in _GAUGES]
        gauge("build_info", "The version.", "version").labels(versions("report")["highwater"]).set(1)
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
    def address(self) -> str | None:
        """The URL of the metrics; None if they are written to a file."""
        if self._file is not None:
            return None
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_port}/metrics"

    def count(self, change: IncidentChange) -> None:
        """Count the change's incident if it is new or has another severity than before."""
        severity = change.incident["severity"]
        if change.event != CLOSED and severity != change.was:
            self._opened.labels(severity).inc()

    def update(self, counts: Counts, severities: Sequence[str]) -> None:
        """Set the metrics, and write them to the file, if any. ``severities`` has one item for each open incident."""
        for state in STATES:
            self._partitions.labels(state).set(counts.partitions[state])
        for severity in SEVERITIES:
            self._incidents.labels(severity).set(severities.count(severity))
        for gauge, value in self._gauges:
            gauge.set(value(counts))
        if self._file is not None:
            self._write(self._file)

    def margins(self, action: str, of_brokers: Iterable[tuple[int, Mapping[str, int]]]) -> None:
        """Set how many partitions come to each outcome if a broker is restarted, or killed."""
        self._plan.clear()
        for broker, counts in of_brokers:
            for outcome, number in counts.items():
                self._plan.labels(action, broker, outcome).set(number)

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
