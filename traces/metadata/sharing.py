"""Shares of one log's partitions, and the facts that cross them.

A share is the partitions of some topics. It follows all records about the cluster, and the changes of its own
partitions; changes of others are replaced by ``Elsewhere``. Two facts need all shares: the number of partitions at a
time, and the decisions that a change of another share interrupts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from zlib import crc32

from highwater.traces.kafka.values import CHANGE, is_creation, kind, topic_id

Stretch = tuple[int, int | None, int | None, bool]
"""A stretch of partition changes in a group of records, between two records of brokers.

It has the number of the group, the offset of the broker's record before the stretch, and the offset of the one after it
(None: no such record). The last item is True if a check starts from the record after the stretch, False if from the one
before it."""


class Elsewhere(Enum):
    """Stands for a change, or a creation, of a partition that belongs to another share."""

    CHANGE = auto()
    CREATION = auto()


SharedRecord = tuple[int, int, bytes | Elsewhere]
"""A record in a share: offset, time in ms since the epoch, value."""


def share_of(topic: bytes, count: int) -> int:
    """The number of the share that a topic belongs to.

    All partitions of a topic are in one share, because the number of replicas of the topic's first partition bounds
    min.insync.replicas for all of them (966.2).
    """
    return crc32(topic) % count


def elsewhere(value: bytes) -> Elsewhere | None:
    """The value that replaces a record in shares that do not own it; None if the record is about no partition."""
    if kind(value) == CHANGE:
        return Elsewhere.CHANGE
    return Elsewhere.CREATION if is_creation(value) else None


@dataclass
class Reach:
    """The changes of one decision, as far as one share sees them in a stretch of changes between two brokers' records.

    The decision is that of the broker's record at one end of the stretch, where the check starts. ``ended`` is the
    offset of the nearest change that cannot belong to the decision. ``hoped`` is the offset of the farthest change
    that must belong to it.
    """

    ended: int | None = None
    hoped: int | None = None


@dataclass
class Share:
    """The share with the number ``number``, of ``count`` shares, with the facts that the other shares need.

    ``group`` is the number of the present group, the same in all shares. ``ends`` has the ends that an earlier pass
    found (``join_reaches``): by stretch, the offset of the change, of any share, at which the decision ends.
    """

    number: int
    count: int
    ends: dict[Stretch, int] = field(default_factory=dict)
    group: int = 0
    reaches: dict[Stretch, Reach] = field(default_factory=dict)
    populations: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def is_first(self) -> bool:
        """True for the first share.

        It alone reports the lines about no partition, so that they are reported once.
        """
        return self.number == 0

    def owns(self, value: bytes) -> bool:
        """True if the partition of a record belongs to this share."""
        return share_of(topic_id(value), self.count) == self.number


def join_reaches(shares: list[dict[Stretch, Reach]]) -> dict[Stretch, int]:
    """By stretch: the offset at which its decision ends, if a share takes a change beyond it for part of the decision.

    The end is the nearest ``ended`` of all shares. The change beyond it is the ``hoped`` of a share.
    """
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
    """True if ``offset`` is farther than ``end`` from the broker's record at which the check of the stretch starts."""
    return offset < end if stretch[3] else offset > end
