"""What a recording holds: a meta line, then one line of JSON for each operation of the controller.

Format ``controller-oracle-1``: an operation's line has its arguments, the error, the response, the records
appended, and the whole state afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.traces.fields import Place

FORMAT = "controller-oracle-1"
MAX_BROKERS = 12
"""More brokers than this in one trace are refused: the rules are traced for each number of brokers."""

RECOVERY_STATES = ("RECOVERED", "RECOVERING")
"""Leader recovery states; a record has the position in this list."""

RESOURCES = {"TOPIC": 2, "BROKER": 4}
"""What has a configuration, and its number in a record."""

ANY_TEXT = "a text"
"""Stands for a text that is read and not compared."""

MIN_ISR, UNCLEAN = CONFIGS = ("min.insync.replicas", "unclean.leader.election.enable")
"""The configurations that are known."""

ELR_FEATURE = "eligible.leader.replicas.version"
"""The feature whose level says whether ELR is on."""

OUTSIDE = {
    "op.kind": "why the recorder chose the operation",
    "response.message": "a text for people; the error code says the same",
    "records[].data.directories": "log directories of the replicas: placement on disks is no part of the protocol",
    "records[].data.endPoints": "addresses of the broker",
    "records[].data.features": "versions of features that the broker supports",
    "records[].data.logDirs": "log directories of the broker",
    "records[].data.rack": "rack of the broker",
    "records[].data.isMigratingZkBroker": "migration from ZooKeeper",
    "brokers[].processAlive": "whether the process runs: the recorder knows, the controller does not",
    "meta.mode": "the recorder's name for the rules in force, which the other fields say",
    "meta.seed": "of the recorder's random choices",
    "meta.extras": "the recorder's own",
    "meta.kafkaCommit": "which Kafka was recorded",
    "meta.topics": "how many topics the recorder meant to create",
    "meta.partitionsPerTopic": "how many partitions the recorder meant to create",
    "meta.replicationFactor": "how many replicas the recorder meant to assign",
    "meta.minIsr": "the min.insync.replicas that the recorder meant to set",
    "meta.randomOps": "how many operations the recorder meant to choose",
}
"""Fields that the replay reads and does not compare, with the reason. The first five texts name whole subtrees."""

Key = tuple[str, int]
"""A partition: its topic and its number."""
Record = tuple[str, int, dict[str, Any]]
"""A record of the metadata log: its type, its version, and its fields that are compared."""


@dataclass(frozen=True)
class Meta:
    """What the meta line says of the recording, as far as it decides what the controller does.

    ``elr_enabled`` is at the start. ``static_min_isr`` is the controller's own min.insync.replicas, ``controller`` its
    id, ``cluster_configs`` are the configurations of all brokers before the first operation.
    """

    elr_enabled: bool
    metadata_version: tuple[int, int, int]
    clean_aware_registration: bool
    brokers: int
    session_timeout_ms: int
    static_min_isr: int = 1
    controller: int | None = None
    cluster_configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def knows_elr_feature(self) -> bool:
        """Whether ELR is the feature eligible.leader.replicas.version: metadata version 4.1 and later."""
        return self.metadata_version >= (4, 1, 0)

    @property
    def elr_supported(self) -> bool:
        """Whether the metadata version knows ELR: 4.0-IV1 and later."""
        return self.metadata_version >= (4, 0, 1)

    @property
    def profile(self) -> str:
        """The profile of the rules in force, without clean registrations."""
        if not self.elr_supported:
            return "before_kip_966"
        if self.knows_elr_feature:
            return "kafka_4_2" if self.elr_enabled else "kafka_4_2_elr_off"
        return "kafka_trunk_2024_10" if self.elr_enabled else "kafka_trunk_2024_10_elr_off"


@dataclass(frozen=True)
class Operation:
    """One line: the arguments of an operation, and what the controller did.

    ``line`` counts from 1 with the meta line, ``step`` from 0 without it. ``next_offset`` is the offset of the
    next record before the operation. ``partitions`` and ``brokers`` are the whole state after it, and so are, where
    the recording has them, ``elr_version``, the level of eligible.leader.replicas.version, and ``elr_index``, the
    entries (broker, topic, partition) of the controller's index of ELR members that no partition has.
    """

    line: int
    place: Place
    step: int
    time_ms: int
    next_offset: int
    name: str
    arguments: dict[str, Any]
    error: str
    response: dict[str, Any] | None
    records: list[Record]
    partitions: dict[Key, dict[str, Any]]
    brokers: dict[int, dict[str, Any]]
    elr_version: int | None = None
    elr_index: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass
class ControllerTrace:
    """A recording: its meta line, and its operations, read one at a time."""

    path: Path
    meta: Meta
    operations: Iterator[Operation] = field(repr=False)


__all__ = [
    "ANY_TEXT", "CONFIGS", "ELR_FEATURE", "FORMAT", "MAX_BROKERS", "MIN_ISR", "OUTSIDE", "RECOVERY_STATES", "RESOURCES",
    "UNCLEAN", "ControllerTrace", "Key", "Meta", "Operation", "Record",
]  # fmt: skip
