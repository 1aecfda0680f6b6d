"""What a broker's log says of a partition, as plain values: a class for each kind of line.

Offsets, epochs and ids are those of Kafka; an ISR is in the order of the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """A line that says something of a partition. ``time_ms`` is in ms since the epoch (see the module)."""

    path: Path
    line: int
    time_ms: int
    broker: int
    topic: str
    partition: int

    @property
    def name(self) -> str:
        """The partition's name, as Kafka writes it: topic, dash, number."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class HwmMoved(BrokerEvent):
    """The leader's HWM moved (B4), in offsets."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class HwmLowered(BrokerEvent):
    """The log's own HWM was set back. On a follower that is normal (B4, B3); the line does not say who leads."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class LeoRecorded(BrokerEvent):
    """The leader recorded a follower's LEO, from the follower's Fetch (B1)."""

    replica: int
    leo: int
    log_start: int


@dataclass(frozen=True, slots=True)
class IsrUpdated(BrokerEvent):
    """The controller took the leader's AlterPartition: the committed ISR and its partition epoch.

    ``under_min_isr`` is what the leader itself says of it.
    """

    isr: tuple[int, ...]
    partition_epoch: int
    under_min_isr: bool


@dataclass(frozen=True, slots=True)
class IsrShrinking(BrokerEvent):
    """The leader is about to take members out of the ISR: its own HWM and LEO, and the LEOs it knows of them.

    ``out_of_sync`` are pairs of a member and its LEO, -1 where the leader does not know it.
    """

    isr: tuple[int, ...]
    proposed: tuple[int, ...]
    hwm: int
    leo: int
    out_of_sync: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class IsrSubmitted(BrokerEvent):
    """The leader proposes an ISR with AlterPartition (B7).

    ``added`` is the replica of an expansion, ``removed`` are those of a shrink. ``partition_epoch`` is the one
    that the leader knows.
    """

    leader_epoch: int
    partition_epoch: int
    proposed: tuple[int, ...]
    committed: tuple[int, ...]
    added: int | None
    removed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BecameLeader(BrokerEvent):
    """This broker leads in a leader epoch that it did not know: its LEO is the epoch's start offset (B5).

    A broker that restarts knows no epoch, so this may be one that it led before.
    """

    leader_epoch: int
    start_offset: int
    partition_epoch: int
    hwm: int
    isr: tuple[int, ...]
    under_min_isr: bool


@dataclass(frozen=True, slots=True)
class StillLeader(BrokerEvent):
    """The leader replayed a change of the partition from the metadata log; the leader epoch is the same.

    ``hwm`` is -1 where the leader knew a later change already, and went on with that.
    """

    leader_epoch: int
    partition_epoch: int
    hwm: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BecameFollower(BrokerEvent):
    """This broker follows in a leader epoch that it did not know, with this LEO and HWM. No leader: None."""

    leader_epoch: int
    leo: int
    partition_epoch: int
    hwm: int
    leader: int | None


@dataclass(frozen=True, slots=True)
class StillFollower(BrokerEvent):
    """The follower replayed a change of the partition from the metadata log; the leader epoch is the same."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FetcherRemoved(BrokerEvent):
    """The broker stopped to fetch the partition: it is about to replay a change of it."""


@dataclass(frozen=True, slots=True)
class Truncating(BrokerEvent):
    """The follower cuts its log to end before ``offset`` at the latest (B3)."""

    leader: int
    offset: int


@dataclass(frozen=True, slots=True)
class InitialHwm(BrokerEvent):
    """The partition's log is ready after a start of the broker, with the HWM of its checkpoint."""

    hwm: int


@dataclass(frozen=True, slots=True)
class LogLoaded(BrokerEvent):
    """A log was loaded at a start of the broker: its LEO and its start."""

    leo: int
    log_start: int


@dataclass(frozen=True, slots=True)
class TopicConfigured(BrokerEvent):
    """The broker is about to use new settings of a topic: its ``min.insync.replicas``, None where it has none.

    ``partition`` is -1: it is about all of them.
    """

    min_isr: int | None


@dataclass(frozen=True, slots=True)
class ControllerResigned(BrokerEvent):
    """An event made the active controller of this node resign: its name and the exception. ``partition`` is -1."""

    event: str
    exception: str


@dataclass(frozen=True, slots=True)
class RegistrationFailed(BrokerEvent):
    """A controller that met an unexpected error refused to register this broker. ``partition`` is -1."""
