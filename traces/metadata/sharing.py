"""Shares of one log's partitions, and the facts that cross them.

A share is the partitions of some topics. It follows all records about the cluster, and the changes of its own
partitions; changes of others are replaced by ``Elsewhere``. Three facts need all shares: the rules that were in force
(``agreement``), the number of partitions at a time, and the decisions that a change of another share interrupts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from zlib import crc32

from highwater.traces.kafka.values import topic_id
from highwater.traces.rules.profiles import Narrowed

Stretch = tuple[int, int | None, int | None, bool]
"""A stretch of changes: its group, the offsets of the records around it, and True if the check starts from the record
after it, False if from the one before it."""


class Elsewhere(Enum):
    """The stand-in for a change, or a creation, of a partition of another share."""

    CHANGE = auto()
    CREATION = auto()


SharedRecord = tuple[int, int, bytes | Elsewhere]
"""A record in a share: offset, time in ms since the epoch, value."""


def share_of(topic: bytes, count: int) -> int:
    """The number of a topic's share.

    All partitions of a topic are in one share: the first one's replicas bound min.insync.replicas for all (966.2).
    """
    return crc32(topic) % count


@dataclass
class Reach:
    """A stretch in one share.

    ``ended`` is the offset of the nearest change that is not of the record's decision, ``hoped`` that of the farthest
    change that can belong to it.
    """

    ended: int | None = None
    hoped: int | None = None


@dataclass
class Share:
    """One share of ``count``, with the facts that the others need.

    ``group`` is the number of the present group, the same in all shares. ``ends`` are the offsets at which a change of
    any share ends a stretch, as far as a former pass found them.
    """

    number: int
    count: int
    ends: dict[Stretch, int] = field(default_factory=dict)
    group: int = 0
    reaches: dict[Stretch, Reach] = field(default_factory=dict)
    populations: list[tuple[int, int, int]] = field(default_factory=list)
    narrowed: list[tuple[int, Narrowed]] = field(default_factory=list)

    @property
    def is_first(self) -> bool:
        """True for the share that reports the lines about no partition, so that they are reported once."""
        return self.number == 0

    def owns(self, value: bytes) -> bool:
        """True if a partition's record is of this share."""
        return share_of(topic_id(value), self.count) == self.number


def join_reaches(shares: list[dict[Stretch, Reach]]) -> dict[Stretch, int]:
    """The ends of stretches in which a share followed a decision beyond a change of another share."""
    ends: dict[Stretch, int] = {}
    for stretch, which in _nearest(shares).items():
        for share in shares:
            hoped = share[stretch].hoped if stretch in share else None
            if hoped is not None and is_beyond(stretch, hoped, which):
                ends[stretch] = which
    return ends


def _nearest(shares: list[dict[Stretch, Reach]]) -> dict[Stretch, int]:
    nearest: dict[Stretch, int] = {}
    for share in shares:
        for stretch, reach in share.items():
            if reach.ended is not None:
                choose: Callable[[int, int], int] = max if stretch[3] else min
                nearest[stretch] = choose(nearest.get(stretch, reach.ended), reach.ended)
    return nearest


def is_beyond(stretch: Stretch, offset: int, end: int) -> bool:
    """True if an offset is farther from the stretch's record than ``end``."""
    return offset < end if stretch[3] else offset > end
