"""What crosses partitions, where the partitions of one log are followed in several shares.

A share is the partitions of some topics. It goes through all records that are about the cluster, and through the
changes of its own partitions; where changes of others stand between, it has ``Elsewhere``. Three things
are known only when all shares are put together: which rules were in force (``agreement``), how many partitions there
were at a time, and whether a decision that is not whole was broken by a change of another share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from zlib import crc32

from highwater.traces.kafka.values import topic_id
from highwater.traces.rules.profiles import Narrowed

Stretch = tuple[int, int | None, int | None, bool]
"""A stretch of changes: the group that it is in, the offsets of the records that it stands between, and whether the
record behind it is the one that is looked at, else the one before it."""


class Elsewhere(Enum):
    """In the place of changes, or of creations, of partitions of other shares."""

    CHANGE = auto()
    CREATION = auto()


SharedRecord = tuple[int, int, bytes | Elsewhere]
"""A record as a share has it: offset, time in ms since the epoch, value."""


def share_of(topic: bytes, count: int) -> int:
    """The share of a topic, of so many.

    All partitions of a topic are in one: the first one's replicas say what min.insync.replicas can be for all (966.2).
    """
    return crc32(topic) % count


@dataclass
class Reach:
    """A stretch in one share.

    ``ended`` is the offset of the change that ends what the record's decision can reach, ``hoped`` that of the change
    farthest from the record that it could still reach.
    """

    ended: int | None = None
    hoped: int | None = None


@dataclass
class Share:
    """One share of several: its ``number``, and what the others have to know of it.

    ``group`` numbers what all shares go through together. ``ends`` says of stretches where a change of any share ends
    them, as far as that is known from a former pass.
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
        """Whether this share reports what is of no partition, so that it is reported once."""
        return self.number == 0

    def owns(self, value: bytes) -> bool:
        """Whether a partition's record is of this share."""
        return share_of(topic_id(value), self.count) == self.number


def join_reaches(shares: list[dict[Stretch, Reach]]) -> dict[Stretch, int]:
    """Where stretches end, of those that a share's decision seemed to reach beyond."""
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
    """Whether an offset is farther from the stretch's record than another."""
    return offset < end if stretch[3] else offset > end
