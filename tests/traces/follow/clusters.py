"""A metadata log that a test writes piece by piece, and the follower that reads it meanwhile."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.traces.follow.session import ClusterLogs, Following, IncidentChange, Notice, OpenIncidents
from highwater.traces.kafka.metadata_log import PARTITION
from tests.traces.kafka.made import snapshot
from tests.traces.metadata import made_logs
from tests.traces.metadata.made_logs import ON, beginning, change, loss

SNAPSHOT = snapshot(beginning(*ON))
HEALED = [change(0, leaderRecoveryState=0), change(0, isr=[0, 1, 2]), change(0, leader=0)]


def made_log(folder: Path) -> bytes:
    """A log with two losses of t-0 and one of u-0. Between its losses t-0 gets all replicas back into its ISR."""
    values = [*beginning(*ON), *loss(), *HEALED, *loss("u"), *loss(), *HEALED]
    (file,) = made_logs.write(folder, values).glob("*.log")
    return file.read_bytes()


def ends(log: bytes) -> list[int]:
    """The end of each batch of a segment, in bytes."""
    found, at = [], 0
    while at < len(log):
        at += 12 + struct.unpack_from(">i", log, at + 8)[0]
        found.append(at)
    return found


class Cluster:
    """A directory with a metadata log that ``grow`` appends to, and the follower that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directory = folder / PARTITION
        self.events: list[dict[str, Any]] = []
        self.notices: list[Notice] = []
        self.follower = Following(ClusterLogs(self.directory))

    def segment(self, base: int = 0) -> Path:
        """The file of the segment that begins at an offset."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return self.directory / f"{base:020}.log"

    def grow(self, data: bytes, base: int = 0) -> None:
        """Append bytes to a segment."""
        with open(self.segment(base), "ab") as file:
            file.write(data)

    def add_snapshot(self, offset: int, epoch: int = 1, content: bytes = SNAPSHOT) -> None:
        """Write a snapshot that ends at an offset."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / f"{offset:020}-{epoch:010}.checkpoint").write_bytes(content)

    def follow(self, data: bytes = b"", base: int = 0) -> list[dict[str, Any]]:
        """Append ``data``, and poll until the follower has read everything; returns the new events."""
        if data:
            self.grow(data, base)
        found = []
        while True:
            polled = list(self.follower.poll())
            found += [one.to_json() for one in polled if isinstance(one, IncidentChange)]
            self.notices += [one for one in polled if isinstance(one, Notice)]
            is_new = self.follower.open_incidents is None and not self.follower.counts.is_waiting
            if not (polled or self.follower.is_behind or is_new):
                self.events += found
                return found

    def start(self, before: OpenIncidents | None = None, logs: Sequence[Path] = ()) -> None:
        """Replace the follower by another."""
        self.follower.close()
        self.follower = Following(ClusterLogs(self.directory, logs), before)

    def restart(self, logs: Sequence[Path] = ()) -> None:
        """Replace the follower by another, which compares with what this one has reported."""
        self.start(self.follower.open_incidents, logs)


def events_of(log: bytes, folder: Path) -> list[dict[str, Any]]:
    """The events of a log that grows by one batch before each poll."""
    cluster = Cluster(folder)
    before = 0
    for end in ends(log):
        cluster.follow(log[before:end])
        before = end
    cluster.follower.close()
    return cluster.events


def short(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """For each event its kind, and the id and severity of its incident."""
    return [(e["event"], e["incident"]["id"], e["incident"]["severity"]) for e in events]


def latest(events: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The last event of each incident, by id: its kind and its incident."""
    return {e["incident"]["id"]: (e["event"], e["incident"]) for e in events}
