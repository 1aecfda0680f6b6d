"""How far the logs of a partition's replicas came over time: HWM and LEO of each broker, thinned to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from highwater.traces.kafka import broker_events as events

MAX_POINTS = 240
"""So many points are kept of one line: where there are more, every other one is left out."""
MAX_LINES = 20_000
"""So many lines are kept at most."""
HWM, LEO = "HWM", "LEO"
UNKNOWN = -1
"""The offset of a point from which on an HWM is not known: Kafka logs no follower's HWM."""


@dataclass(slots=True)
class Course:
    """One broker's HWM or LEO: pairs of a time (ms since the epoch) and an offset.

    The time is that of the broker that said it; of a follower's LEO that is the leader, which has it from a fetch.
    """

    broker: int
    kind: str
    points: list[tuple[int, int]] = field(default_factory=list)
    _every: int = 1
    _left: int = 0

    def add(self, time: int, offset: int) -> None:
        """The next point; the last one before a fall is always kept."""
        last = self.points[-1] if self.points else None
        if last == (time, offset) or (last is not None and offset == UNKNOWN == last[1]):
            return
        if last is not None and offset >= last[1] and self._left > 0:
            self._left -= 1
            if len(self.points) > 1 and self.points[-2][1] <= last[1]:
                self.points[-1] = (time, offset)
                return
        self._left = self._every - 1
        self.points.append((time, offset))
        if len(self.points) > MAX_POINTS:
            self._thin()

    def _thin(self) -> None:
        falls = {i for i, (a, b) in enumerate(zip(self.points, self.points[1:], strict=False)) if b[1] < a[1]}
        falls |= {i + 1 for i in falls}
        if len(falls) > MAX_POINTS // 2:
            falls = set()
        last = len(self.points) - 1
        self.points = [p for i, p in enumerate(self.points) if i % 2 == 0 or i in falls or i == last]
        self._every *= 2


class Courses:
    """Takes the events of brokers' logs, of each broker in its order."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[tuple[int, int, str], Course]] = {}
        self._count = 0

    def take(self, event: events.BrokerEvent) -> None:
        """The next event of its broker."""
        for broker, kind, offset in _said(event):
            of_partition = self._lines.setdefault(event.name, {})
            key = (broker, event.broker, kind)
            line = of_partition.get(key)
            if offset < 0 and (offset != UNKNOWN or line is None):
                continue
            if isinstance(event, events.HwmLowered) and (line is None or line.points[-1][1] == UNKNOWN):
                continue
            if line is None:
                if self._count >= MAX_LINES:
                    continue
                self._count += 1
                line = of_partition[key] = Course(broker, kind)
            line.add(event.time_ms, offset)

    def of(self, name: str, ahead_ms: Callable[[int], int | None]) -> list[Course]:
        """The lines of a partition, by broker: its HWM, and its LEO as all brokers together tell it, with times in UTC.

        ``ahead_ms`` says how much a broker's times are ahead of UTC; what is told by one of which that is not known is
        left out.
        """
        merged: dict[tuple[int, str], Course] = {}
        for (broker, teller, kind), line in sorted(self._lines.get(name, {}).items()):
            ahead = ahead_ms(teller)
            if ahead is None:
                continue
            course = merged.setdefault((broker, kind), Course(broker, kind))
            points = [(time - ahead, offset) for time, offset in line.points]
            course.points = sorted((*course.points, *points), key=lambda point: point[0])
        return list(merged.values())


def _said(event: events.BrokerEvent) -> Iterator[tuple[int, str, int]]:
    """What an event says of HWM and LEO: the broker, which of the two, and the offset.

    Of a leader's own LEO its log says little; it is at least its HWM.
    """
    match event:
        case events.HwmMoved():
            yield event.broker, HWM, event.after
            yield event.broker, LEO, event.after
        case events.HwmLowered():
            yield event.broker, HWM, event.after
        case events.LeoRecorded():
            yield event.replica, LEO, event.leo
        case events.IsrShrinking():
            yield event.broker, LEO, event.leo
        case events.BecameLeader():
            yield event.broker, LEO, event.start_offset
            yield event.broker, HWM, event.hwm
        case events.StillLeader():
            yield event.broker, HWM, event.hwm
        case events.BecameFollower() | events.LogLoaded():
            yield event.broker, LEO, event.leo
            yield event.broker, HWM, UNKNOWN
        case events.Truncating():  # never to beyond its end
            yield event.broker, LEO, event.offset
        case _:
            pass
