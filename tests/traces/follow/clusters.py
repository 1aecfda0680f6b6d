"""A metadata log that grows in a directory, as Kafka writes it, and what a follower beside it tells."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.traces.follow.ledger import IncidentEvent
from highwater.traces.follow.session import FollowerState, Following, Notice
from highwater.traces.kafka.metadata_log import PARTITION
from tests.traces.metadata import made_logs
from tests.traces.metadata.made_logs import ELR, beginning, change, loss

HEALED = [change(0, leaderRecoveryState=0), change(0, isr=[0, 1, 2]), change(0, leader=0)]


def made_log(folder: Path) -> bytes:
    """Two losses of one partition and one of another; between them the first is whole again."""
    values = [*beginning(("metadata.version", 29), (ELR, 1)), *loss(), *HEALED, *loss("u"), *loss(), *HEALED]
    (file,) = made_logs.write(folder, values).glob("*.log")
    return file.read_bytes()


def ends(log: bytes) -> list[int]:
    """Where the batches of a segment end."""
    found, at = [], 0
    while at < len(log):
        at += 12 + struct.unpack_from(">i", log, at + 8)[0]
        found.append(at)
    return found


class Cluster:
    """A directory with a metadata log, of which ``grow`` writes more; and the follower beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directory = folder / PARTITION
        self.told: list[dict[str, Any]] = []
        self.notices: list[Notice] = []
        self.follower = Following(folder)

    def segment(self, base: int = 0) -> Path:
        """The file of a segment."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return self.directory / f"{base:020}.log"

    def grow(self, data: bytes, base: int = 0) -> None:
        """Append to a segment."""
        with open(self.segment(base), "ab") as file:
            file.write(data)

    def follow(self) -> list[dict[str, Any]]:
        """Poll until nothing comes any more; the events."""
        found = []
        while True:
            said = list(self.follower.poll())
            found += [one.to_json() for one in said if isinstance(one, IncidentEvent)]
            self.notices += [one for one in said if isinstance(one, Notice)]
            if not (said or self.follower.is_behind or self.follower.ledger.reads_again):
                self.told += found
                return found

    def restart(self, place: FollowerState | None = None) -> None:
        """Another follower goes on, from where this one was unless told otherwise."""
        place = self.follower.place if place is None else place
        self.follower.close()
        self.follower = Following(self.folder, place=place)


def told_of(log: bytes, folder: Path) -> list[dict[str, Any]]:
    """The events of a log that is followed once, batch by batch."""
    cluster = Cluster(folder)
    before = 0
    for end in ends(log):
        cluster.grow(log[before:end])
        cluster.follow()
        before = end
    cluster.follower.close()
    return cluster.told


def short(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """What happened to which incident, and its severity."""
    return [(e["event"], e["incident"]["id"], e["incident"]["severity"]) for e in events]
