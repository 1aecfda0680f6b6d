"""What crosses partitions, where the partitions of one log are followed in several shares.

A share is the partitions of some topics. It goes through all records that are about the cluster, and through the
changes of its own partitions; where changes of others stand between, it is told that they are there. Three things
are known only when all shares are put together: which rules were in force (``agreement``), how many partitions there
were at a time, and whether a decision that is not whole was broken by a change of another share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from highwater.traces.kafka.values import KEYS, is_known
from highwater.traces.metadata.agreement import Narrowed
from highwater.traces.metadata.groups import CHANGE

TOPIC_ID = slice(7, 23)
"""Where the topic id stands in the value of a PartitionRecord or PartitionChangeRecord."""

Run = tuple[int, int | None, int | None, bool]
"""A run of changes: the group that it is in, the offsets of the records that it stands between, and whether the record
behind it is the one that is looked at, else the one before it."""


class Elsewhere(bytes):
    """In the place of changes, or of creations, of partitions of other shares. Known by its class."""

    __slots__ = ()


_CREATION = bytes((KEYS["PARTITION_RECORD"],))
CHANGED = Elsewhere((0, CHANGE))
CREATED = Elsewhere((0, 0))


def is_creation(value: bytes) -> bool:
    """Whether a record creates a partition; of a version that is known."""
    return value[1:2] == _CREATION and is_known(value)


def share_of(topic: bytes, count: int) -> int:
    """The share of a topic, of so many.

    All partitions of a topic are in one: the first one's replicas say what min.insync.replicas can be for all (966.2).
    """
    return crc32(topic) % count


@dataclass
class Reach:
    """A run in one share.

    ``ended`` is the offset of the change that ends what the record's decision can reach, ``hoped`` that of the change
    farthest from the record that it could still reach.
    """

    ended: int | None = None
    hoped: int | None = None


@dataclass
class Across:
    """One share of several: its ``number``, and what the others have to know of it.

    ``group`` numbers what all shares go through together. ``ends`` says of runs where a change of any share ends
    them, as far as that is known from a former pass.
    """

    number: int
    count: int
    ends: dict[Run, int] = field(default_factory=dict)
    group: int = 0
    reaches: dict[Run, Reach] = field(default_factory=dict)
    populations: list[tuple[int, int, int]] = field(default_factory=list)
    narrowed: list[tuple[int, Narrowed]] = field(default_factory=list)

    @property
    def is_first(self) -> bool:
        """Whether this share tells what is of no partition, so that it is told once."""
        return self.number == 0

    def owns(self, value: bytes) -> bool:
        """Whether a partition's record is of this share."""
        return share_of(value[TOPIC_ID], self.count) == self.number


def join_reaches(shares: list[dict[Run, Reach]]) -> dict[Run, int]:
    """Where runs end, of those that a share's decision seemed to reach beyond."""
    ends: dict[Run, int] = {}
    for run, which in _nearest(shares).items():
        for share in shares:
            hoped = share[run].hoped if run in share else None
            if hoped is not None and is_beyond(run, hoped, which):
                ends[run] = which
    return ends


def _nearest(shares: list[dict[Run, Reach]]) -> dict[Run, int]:
    nearest: dict[Run, int] = {}
    for share in shares:
        for run, reach in share.items():
            if reach.ended is not None:
                choose: Callable[[int, int], int] = max if run[3] else min
                nearest[run] = choose(nearest.get(run, reach.ended), reach.ended)
    return nearest


def is_beyond(run: Run, offset: int, end: int) -> bool:
    """Whether an offset is farther from the run's record than another."""
    return offset < end if run[3] else offset > end


__all__ = [
    "CHANGED", "CREATED", "TOPIC_ID", "Across", "Elsewhere", "Reach", "Run", "is_beyond", "is_creation",
    "join_reaches", "share_of",
]  # fmt: skip
