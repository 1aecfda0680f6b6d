"""What is observed of a partition, item by item, and the steps from one belief to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.model.replication.controller import batches
from highwater.traces.metadata.beliefs.belief_states import Belief
from highwater.traces.metadata.beliefs.observations import Brokers, Flags, Placed, Slots
from highwater.traces.reports.findings import Candidate


class Change(NamedTuple):
    """A PartitionChangeRecord, as bytes without the partition that it names.

    ``placed`` is there for one that has log directories, or other replicas, where rules ask in which directories
    replicas are: what it says depends on where they were.
    """

    raw: bytes
    placed: Placed | None = None


@dataclass(frozen=True, eq=False)
class BrokerEvent:
    """Something that happened to a broker: one of the model's actions, or "unregister"; its flags after it.

    ``offline``: its replica of the partition is in a log directory that is offline afterwards; it makes a difference
    where the broker lists directories, or a replica is assigned to one.

    Two of them are the same only where they are the same object, so that they are looked up fast.
    """

    kind: str
    broker: int
    flags: Flags
    offline: bool = False


class Settings(NamedTuple):
    """The topic's configuration from now on: what min.insync.replicas and unclean election can be.

    ``first`` is the number of replicas of the topic's first partition, 0 for the first partition itself;
    ``of_min_isr`` whether a record of min.insync.replicas says so.
    """

    min_isr: tuple[int, ...]
    unclean: tuple[bool, ...]
    first: int = 0
    of_min_isr: bool = False


Item = Change | BrokerEvent | Settings


_ORDER = {
    "fence": batches.FENCING,
    "fence_again": batches.FENCING,
    "unfence": batches.UNFENCING,
    "start_controlled_shutdown": batches.CONTROLLED_SHUTDOWN,
    "register": batches.REGISTRATION,
    "unregister": batches.REMOVAL,
    "lose_directory": batches.DIRECTORY_LOSS,
}
LEADING = frozenset(kind for kind, order in _ORDER.items() if order[-1] == batches.BROKER)
"""The decisions whose changes of partitions stand before the record of the broker."""
TRAILING = frozenset(_ORDER) - LEADING
"""Those whose changes stand behind it."""


@dataclass(frozen=True)
class Hop:
    """A part of a step: up to which item it goes, and the belief then.

    ``order`` has the slots before the step (after them those of brokers that are new to the partition) in the order
    in which they are then. ``changes`` is 1 where a record of the partition is in it, ``bumps`` 1 where it ends the
    leader epoch. ``findings`` are properties that do not hold any more, each with whether that is certain.
    ``before`` and ``candidates`` are there where nothing explains the item.
    """

    item: int
    belief: Belief
    order: Slots
    changes: int = 0
    bumps: int = 0
    causes: frozenset[str] = frozenset()
    findings: tuple[tuple[str, bool], ...] = ()
    before: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] | None = None

    @property
    def cause(self) -> str | None:
        """The actions that explain it, in words; None where none does."""
        return " or ".join(sorted(self.causes)) or None


class Step:
    """What one or more items make of a belief.

    ``is_plain`` where there is nothing to do but to go on: no finding, nothing unexplained, the same brokers, and as
    many replicas.
    ``moves`` where the slots stand for other brokers afterwards.
    """

    __slots__ = ("after", "bumps", "changes", "hops", "is_plain", "moves")

    def __init__(self, before: Belief, hops: tuple[Hop, ...]) -> None:
        self.hops = hops
        self.after = after = hops[-1].belief
        self.changes = sum([h.changes for h in hops])
        self.bumps = sum([h.bumps for h in hops])
        self.moves = hops[-1].order != tuple(range(before.slots))
        self.is_plain = (
            not self.moves
            and all(not h.findings and h.candidates is None for h in hops)
            and before.under_min_isr == after.under_min_isr
            and before.leaderless == after.leaderless
            and len(before.observed.replicas) == len(after.observed.replicas)
            and before.tags == after.tags
            and not (before.is_indexed_astray and before.observed.elr != after.observed.elr)
            # What was a member of the ELR, and no replica, can become one again: the slots stay, the replicas do not.
            and len(before.observed.replicas) == len(after.observed.replicas)
        )

    @property
    def is_explained(self) -> bool:
        """Whether every item is explained."""
        return all(h.candidates is None for h in self.hops)


class Roster:
    """The brokers that the slots of a belief stand for; ``items`` has what was said of them already, in slots."""

    __slots__ = ("brokers", "items", "slots")

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.slots = {broker: slot for slot, broker in enumerate(brokers)}
        self.items: dict[Any, InSlots] = {}


class InSlots:
    """An item with slots for brokers. Two are the same only where they are the same object, to be looked up fast."""

    __slots__ = ()


__all__ = [
    "LEADING", "TRAILING", "BrokerEvent", "Change", "Hop", "InSlots", "Item", "Roster", "Settings", "Step",
]  # fmt: skip
