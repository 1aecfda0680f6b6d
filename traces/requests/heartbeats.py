"""Heartbeats: by when each broker had replayed the metadata log up to where.

They come every two seconds of each broker, and of most the offset says nothing new of a partition or a broker: kept are
those before which something changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

from highwater.traces.requests.messages import Heartbeat
from highwater.traces.requests.spine import Spine


class Heard:
    """What heartbeats said. ``count`` is how many are kept."""

    def __init__(self, spine: Spine) -> None:
        self._changes = spine.positions()
        self._kept: dict[tuple[int, Path], list[tuple[float, int]]] = defaultdict(list)
        self.count = 0

    def take(self, heartbeat: Heartbeat) -> None:
        """A heartbeat, in the order of its log; one that was refused says nothing."""
        if heartbeat.error:
            return
        kept = self._kept[(heartbeat.broker, heartbeat.line.path)]
        at = bisect_right(self._changes, heartbeat.metadata_offset)
        if kept and at <= bisect_right(self._changes, kept[-1][1]):
            return
        kept.append((heartbeat.line.arrived, heartbeat.metadata_offset))
        self.count += 1

    def replayed(self, ahead: Callable[[Path], float]) -> dict[int, list[tuple[float, int]]]:
        """By broker the times, with the offset, in order; ``ahead`` says by how much a log's clock is ahead."""
        by_broker: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for (broker, path), kept in self._kept.items():
            by_broker[broker] += [(arrived - ahead(path), offset) for arrived, offset in kept]
        found: dict[int, list[tuple[float, int]]] = {}
        for broker, told in by_broker.items():
            rising: list[tuple[float, int]] = []
            for one in sorted(told, key=itemgetter(0)):
                if not rising or one[1] > rising[-1][1]:
                    rising.append(one)
            found[broker] = rising
        return found
