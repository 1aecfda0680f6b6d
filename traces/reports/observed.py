"""What the input shows of partitions, replicas and controllers, as plain values. No rule is stated here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Json = Mapping[str, Any]
"""A value as JSON, by its fields."""


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

    def to_json(self) -> Json:
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

    def to_json(self) -> Json:
        """As JSON."""
        return {
            "position": self.position,
            "time": self.time,
            "after": None if self.after is None else self.after.to_json(),
            "cause": self.cause,
            "min_isr": self.min_isr,
            "unclean_election": self.unclean_election,
        }


@dataclass(frozen=True, slots=True)
class FinalState:
    """A partition at the end of the input, where it has no leader, or breaks a promise then.

    ``leaderless_since`` is a time in ms since the epoch, None where it has a leader; ``failing`` are the properties
    that do not hold.
    """

    partition: str
    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leaderless_since: int | None = None
    failing: tuple[str, ...] = ()

    @property
    def is_offline(self) -> bool:
        """Whether it has no leader."""
        return self.leader is None

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The brokers of which one brings an offline partition back: ISR, else ELR, else last known leader."""
        return self.isr or self.elr or self.last_known_elr

    @classmethod
    def of(cls, name: str, state: PartitionState, since: int | None, failing: Iterable[str]) -> FinalState:
        """The end of a partition in this state."""
        members = state.isr, state.elr, state.last_known_elr
        return cls(name, state.replicas, state.leader, *members, since, tuple(sorted(failing)))

    def to_json(self) -> Json:
        """As JSON."""
        said = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return {**said, "waits_for": list(self.waits_for) if self.is_offline else []}

    @classmethod
    def from_json(cls, data: Json) -> FinalState:
        """From JSON."""
        lists = {name: tuple(data[name]) for name in ("replicas", "isr", "elr", "last_known_elr", "failing")}
        return cls(
            partition=data["partition"],
            leader=data["leader"],
            leaderless_since=data["leaderless_since"],
            **lists,
        )


EMPTY = -1
"""Stands for the leader epoch of the last record of an empty log."""


@dataclass(frozen=True, slots=True)
class LogTruncation:
    """A broker cut its log to end at an offset, at a time (ms since the epoch), in a leader epoch that it followed."""

    to: int
    time: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaEnd:
    """The last that the input shows of a replica's log.

    ``leo`` is its end; with ``at_least`` it may have grown since ``time`` (ms since the epoch; None: not known, or a
    dump). ``last_epoch`` is the leader epoch of its last record: ``EMPTY`` for none, None where it is not known.
    ``leader_epoch`` is the latest one in which the broker is known to have led or followed, -1 for none.
    """

    broker: int
    leo: int
    at_least: bool
    last_epoch: int | None
    time: int | None
    leader_epoch: int
    truncations: tuple[LogTruncation, ...] = ()

    def to_json(self) -> Json:
        """As JSON."""
        return {**asdict(self), "truncations": [asdict(t) for t in self.truncations]}

    @classmethod
    def from_json(cls, data: Json) -> ReplicaEnd:
        """From JSON."""
        return cls(**{**data, "truncations": tuple(LogTruncation(**t) for t in data["truncations"])})


MAX_CONTROLLERS = 1000
"""So many elections of a controller are kept: the last ones."""


@dataclass
class Controllers:
    """The elections of active controllers, and why they failed as far as the nodes' logs say it.

    ``elections`` are triples: controller epoch, offset in the metadata log and time (ms since the epoch) of the first
    record that it wrote. ``failures`` counts events that made a controller resign, by event and exception;
    ``refused`` counts registrations that failed while a controller resigned, by broker.
    """

    elections: list[tuple[int, int, int]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def elected(self, epoch: int, offset: int, time: int) -> None:
        """Another controller writes from here on."""
        if self.elections and self.elections[-1][0] == epoch:
            return
        self.elections.append((epoch, offset, time))
        del self.elections[:-MAX_CONTROLLERS]

    def to_json(self) -> Json:
        """As JSON."""
        return {**asdict(self), "elections": [list(one) for one in self.elections]}

    @classmethod
    def from_json(cls, data: Json) -> Controllers:
        """From JSON."""
        return cls(
            [(e, o, t) for e, o, t in data["elections"]], dict(data["failures"]), dict(data["refused"])
        )
