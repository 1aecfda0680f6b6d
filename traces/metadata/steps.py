"""What is observed of a partition, item by item, and the steps from one situation to the next.

A situation is a belief and the brokers that its slots stand for. Every partition in the same situation goes on in
the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from model.replication.controller import batches
from traces.metadata.beliefs import Belief, Flags
from traces.metadata.slots import Brokers, with_brokers
from traces.observed import PartitionState
from traces.report import Candidate


class Change(NamedTuple):
    """A PartitionChangeRecord, as bytes without the partition that it names."""

    raw: bytes


@dataclass(frozen=True, eq=False)
class BrokerEvent:
    """Something that happened to a broker: one of the model's actions, or "unregister"; its flags after it.

    Two of them are the same only where they are the same object, so that they are looked up fast.
    """

    kind: str
    broker: int
    flags: Flags


class Settings(NamedTuple):
    """The topic's configuration from now on: what min.insync.replicas and unclean election can be.

    ``first`` is the number of replicas of the topic's first partition, 0 for the first partition itself.
    """

    min_isr: tuple[int, ...]
    unclean: tuple[bool, ...]
    first: int = 0


Item = Change | BrokerEvent | Settings


def key_of(items: Sequence[Item]) -> Any:
    """What a step is looked up by: a lone change by its bytes."""
    if len(items) > 1:
        return tuple(items)
    item = items[0]
    return item.raw if item.__class__ is Change else item


_ORDER = {
    "fence": batches.FENCING,
    "unfence": batches.UNFENCING,
    "start_controlled_shutdown": batches.CONTROLLED_SHUTDOWN,
    "register": batches.REGISTRATION,
}
LEADING = frozenset(kind for kind, order in _ORDER.items() if order[-1] == batches.BROKER)
"""The decisions whose changes of partitions stand before the record of the broker."""
TRAILING = frozenset(_ORDER) - LEADING
"""Those whose changes stand behind it."""


@dataclass(frozen=True)
class Hop:
    """A part of a step: up to which item it goes, and the situation then.

    ``changes`` is 1 where a record of the partition is in it, ``bumps`` 1 where it ends the leader epoch.
    ``findings`` are properties that do not hold any more, each with whether that is certain. ``before`` and
    ``candidates`` are there where nothing explains the item.
    """

    item: int
    situation: Situation
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

    @property
    def state(self) -> PartitionState:
        """What is observed then, without epochs."""
        return self.situation.state


class Step:
    """What one or more observations make of a situation; ``notable`` where there is more to do than to go on."""

    __slots__ = ("after", "bumps", "changes", "hops", "notable")

    def __init__(self, before: Situation, after: Situation, hops: tuple[Hop, ...]) -> None:
        self.after, self.hops = after, hops
        self.changes = sum([h.changes for h in hops])
        self.bumps = sum([h.bumps for h in hops])
        self.notable = (
            any(h.findings or h.candidates is not None for h in hops)
            or before.under_min_isr != after.under_min_isr
            or before.leaderless != after.leaderless
            or before.belief.tags != after.belief.tags
        )


class Situation:
    """A belief, and the brokers that its slots stand for. ``steps`` holds what was explained already (``key_of``).

    Situations of one replay with the same brokers have the same tuple of them.
    """

    __slots__ = ("belief", "brokers", "leaderless", "steps", "under_min_isr")

    def __init__(self, belief: Belief, brokers: Brokers) -> None:
        self.belief, self.brokers = belief, brokers
        self.under_min_isr = "has_min_isr" in belief.violated
        self.leaderless = "has_leader" in belief.violated
        self.steps: dict[Any, Step] = {}

    @property
    def state(self) -> PartitionState:
        """What is observed of the partition, without its epochs; members in the order of the replicas."""
        return with_brokers(self.belief.observed, self.brokers)


__all__ = [
    "LEADING",
    "TRAILING",
    "BrokerEvent",
    "Change",
    "Hop",
    "Item",
    "Settings",
    "Situation",
    "Step",
    "key_of",
]
