"""What a metadata log says of a partition, as plain values: its state, and each change of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as the metadata log has it. Members are node ids; ``leader`` is None where there is none.

    The order of ``isr``, ``elr`` and ``last_known_elr`` says nothing. ``last_known_elr`` is the field LastKnownElr, in
    which some versions of Kafka keep the last known leader.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int | None = None
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: str = "RECOVERED"
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON, with the field names of the metadata records."""
        return {
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "elr": list(self.elr),
            "lastKnownElr": list(self.last_known_elr),
            "leader": -1 if self.leader is None else self.leader,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
            "leaderRecoveryState": self.leader_recovery_state,
            "addingReplicas": list(self.adding),
            "removingReplicas": list(self.removing),
        }


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One change of a partition: ``before`` is None for a new one, ``after`` None for one that is deleted.

    ``position`` is the offset in the metadata log, ``time`` in ms since the epoch as the log has it.
    ``cause`` names what explains it, in the model's words; None where nothing does. ``min_isr`` (966.2,
    effective) and ``unclean_election`` are those in force, None where the log does not say.
    """

    position: int
    time: int
    topic: str
    partition: int
    before: PartitionState | None
    after: PartitionState | None
    cause: str | None = None
    min_isr: int | None = None
    unclean_election: bool | None = None

    @property
    def name(self) -> str:
        """The partition's name, as Kafka writes it: topic, dash, number."""
        return f"{self.topic}-{self.partition}"

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "position": self.position,
            "time": self.time,
            "after": None if self.after is None else self.after.to_json(),
            "cause": self.cause,
            "min_isr": self.min_isr,
            "unclean_election": self.unclean_election,
        }
