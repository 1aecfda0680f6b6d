"""The metrics of a follower for Prometheus: served on a port, or written to a file for the node exporter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from highwater.checker.base.problems import InputError
from highwater.checker.follow.outputs import note
from highwater.model.versions import versions
from highwater.traces.follow.reading import STATES, Counts
from highwater.traces.follow.session import CLOSED, IncidentChange
from highwater.traces.reports.incidents import SEVERITIES

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
