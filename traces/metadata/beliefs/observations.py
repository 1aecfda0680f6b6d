"""Observations: what a metadata log says happens to a partition, in brokers' numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.model.replication.controller import registrations

Brokers = tuple[int, ...]
"""Numbers of brokers."""


class Flags(NamedTuple):
    """What the metadata log has of a broker's registration, apart from its epoch."""

    registered: bool = False
    fenced: bool = False
    in_controlled_shutdown: bool = False

    @classmethod
    def of(cls, registration: Mapping[str, Any]) -> Flags:
        """Those of a registration as the model has it."""
        return cls(registration["registered"], registration["fenced"], registration["in_controlled_shutdown"])

    def to_plain(self) -> dict[str, Any]:
        """As the model has it, with an epoch of 0: epochs are relative."""
        return {
            "registered": self.registered,
            "epoch": 0,
            "fenced": self.fenced,
            "in_controlled_shutdown": self.in_controlled_shutdown,
        }


NO_FLAGS = Flags()
"""Those of a broker that is not registered."""


class Placed(NamedTuple):
    """What a change says of log directories: the brokers whose replica is in another one than before.

    ``wrong``: no decision writes them like that.
    """

    assigned: Brokers = ()
    wrong: bool = False


class Change(NamedTuple):
    """A PartitionChangeRecord, as bytes without the partition that it names.

    ``placed`` is there for one that has log directories, or other replicas, where rules ask in which directories
    replicas are: what it says depends on where they were.
    """

    raw: bytes
    placed: Placed | None = None


@dataclass(frozen=True, eq=False)
class BrokerChange:
    """Something that happened to a broker: one of the model's actions, or "unregister"; its flags after it.

    ``offline``: its replica of the partition is in a log directory that is offline afterwards; it makes a difference
    where the broker lists directories, or a replica is assigned to one.

    Two of them are the same only where they are the same object, so that they are looked up fast.
    """

    kind: str
    broker: int
    flags: Flags
    offline: bool = False


class TopicSettings(NamedTuple):
    """The topic's configuration from now on: what min.insync.replicas and unclean election can be.

    ``first`` is the number of replicas of the topic's first partition, 0 for the first partition itself;
    ``of_min_isr`` whether a record of min.insync.replicas says so.
    """

    min_isr: tuple[int, ...]
    unclean: tuple[bool, ...]
    first: int = 0
    of_min_isr: bool = False


Observation = Change | BrokerChange | TopicSettings


_ORDER = {
    "fence": registrations.FENCING_BATCH,
    "fence_again": registrations.FENCING_BATCH,
    "unfence": registrations.UNFENCING_BATCH,
    "start_controlled_shutdown": registrations.CONTROLLED_SHUTDOWN_BATCH,
    "register": registrations.REGISTRATION_BATCH,
    "unregister": registrations.REMOVAL_BATCH,
    "lose_directory": registrations.DIRECTORY_LOSS_BATCH,
}
LEADING = frozenset(kind for kind, order in _ORDER.items() if order[-1] == registrations.BROKER)
"""The decisions whose changes of partitions stand before the record of the broker."""
TRAILING = frozenset(_ORDER) - LEADING
"""Those whose changes stand behind it."""
