"""Heartbeats: by when each broker had replayed the metadata log up to where.

They come every two seconds of each broker, and of most the offset says nothing new of a partition or a broker: kept are
those before which something changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

from highwater.traces.requests.messages import Heartbeat
from highwater.traces.requests.spine import Spine

NEVER = float("inf")


class Replayed:
    """By when, in ms of the controller's clock, a broker had replayed the metadata log up to which offset: in order."""

    def __init__(self) -> None:
        self.times, self.offsets = array("d"), array("q")

    def add(self, time: float, offset: int) -> None:
        """The next one."""
        self.times.append(time)
        self.offsets.append(offset)

    def by(self, offset: int) -> float:
        """When it had surely replayed the log up to an offset; never, where nothing tells."""
        at = bisect_left(self.offsets, offset)
        return self.times[at] if at < len(self.times) else NEVER


NOTHING = Replayed()
"""Of a broker of which there is no heartbeat. Not to be added to."""


class Heard:
    """What heartbeats said. ``count`` is how many are kept."""

    def __init__(self, spine: Spine) -> None:
        self._changes = spine.positions()
        self._kept: dict[tuple[int, Path], Replayed] = defaultdict(Replayed)
        self.count = 0

    def take(self, heartbeat: Heartbeat) -> None:
        """A heartbeat, in the order of its log; one that was refused says nothing."""
        if heartbeat.error:
            return
        kept = self._kept[(heartbeat.broker, heartbeat.line.path)]
        at = bisect_right(self._changes, heartbeat.metadata_offset)
        if kept.offsets and at <= bisect_right(self._changes, kept.offsets[-1]):
            return
        kept.add(heartbeat.line.arrived, heartbeat.metadata_offset)
        self.count += 1

    def replayed(self, ahead: Callable[[Path], float]) -> dict[int, Replayed]:
        """What each broker had replayed; ``ahead`` says by how much a log's clock is ahead."""
        by_broker: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for (broker, path), kept in self._kept.items():
            by_broker[broker] += [
                (arrived - ahead(path), offset)
                for arrived, offset in zip(kept.times, kept.offsets, strict=True)
            ]
        found: dict[int, Replayed] = {}
        for broker, told in by_broker.items():
            rising = found[broker] = Replayed()
            for time, offset in sorted(told, key=itemgetter(0)):
                if not rising.offsets or offset > rising.offsets[-1]:
                    rising.add(time, offset)
        return found
