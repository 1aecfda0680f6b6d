"""What a broker's log comes to: in which leader epochs it led, how far its HWM came, where its log began and ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.invariants.statements import Statement
from highwater.traces.kafka.broker_events import BecameLeader, BrokerEvent
from highwater.traces.rules import log_rules

MAX_RANGES = 64


@dataclass(slots=True)
class Breach:
    """Something that went wrong, by what should have held. ``sure`` once the broker's log is known to go on."""

    promise: Statement
    event: BrokerEvent
    summary: str
    lost: int
    """So many offsets are concerned."""
    at_risk: str
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """A broker begins to lead or to follow in a leader epoch: its LEO, and the leader that it follows.

    ``truncated``: the log was cut since the position before.
    """

    epoch: int
    offset: int
    leads: bool
    leader: int | None
    truncated: bool


@dataclass(slots=True)
class Stint:
    """A broker's leadership in one leader epoch, until the next epoch or a restart.

    ``start`` is None where the log begins later. ``hwm`` is the highest that the HWM reached, and ``reached`` where
    the log says so. ``visible`` is the first HWM, with its line, that consumers can learn: Kafka tells them the end
    of the log only once the HWM has reached the start offset of the leader epoch.
    """

    broker: int
    epoch: int
    start: BecameLeader | None
    hwm: int = 0
    reached: BrokerEvent | None = None
    visible: tuple[int, BrokerEvent] | None = None
    leos: dict[int, int] = field(default_factory=dict)

    def hwm_is(self, hwm: int, event: BrokerEvent) -> None:
        """The HWM was seen here."""
        if hwm > self.hwm:
            self.hwm, self.reached = hwm, event
        if (
            self.visible is None
            and self.start is not None
            and log_rules.end_is_told(hwm=hwm, epoch_start=self.start.start_offset)
        ):
            self.visible = (hwm, event)


class Ranges:
    """The moves of an HWM as ranges of offsets: they share none as long as it only moves forward.

    So the order of the lines does not matter, which threads may swap. At most MAX_RANGES are kept, the highest.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, low: int, high: int) -> tuple[int, int] | None:
        """Add [low, high); the highest range that was there and shares an offset, if any."""
        shared = [r for r in self._ranges if max(r[0], low) < min(r[1], high)]
        joined = [r for r in self._ranges if r[0] <= high and low <= r[1]]
        for r in joined:
            self._ranges.remove(r)
            low, high = min(low, r[0]), max(high, r[1])
        self._ranges.append((low, high))
        self._ranges.sort()
        del self._ranges[:-MAX_RANGES]
        return max(shared, default=None)

    @property
    def top(self) -> int:
        """The highest offset that was reached."""
        return self._ranges[-1][1] if self._ranges else -1
