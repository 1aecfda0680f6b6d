"""The types of a recording: operations, records, responses, and what is decided instead of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.traces.reading import Place

_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})-IV([0-9]{1,3})")


def metadata_version(text: str) -> tuple[int, int, int]:
    """A metadata version such as 4.0-IV3, so that they can be compared. Raises ValueError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("not a metadata version such as 4.0-IV3")
    major, minor, internal = (int(part) for part in match.groups())
    return major, minor, internal


FORMAT = "controller-oracle-1"
MAX_BROKERS = 12
"""More brokers than this in one trace are refused: the rules are traced for each number of brokers."""

NEWEST_VERSION = metadata_version("4.2-IV1")
"""The newest metadata version that a profile is of."""

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
    "meta.kafkaVersion": "which release was recorded",
    "meta.minIsrAt": "where the recorder meant to set min.insync.replicas",
    "op.meant": "the broker that the recorder meant to fence; it is another one where that was found first",
    "meta.bootstrapRecords": "what the controller wrote at first; of it the configurations of all brokers count",
    "meta.randomOps": "how many operations the recorder meant to choose",
}
"""Fields that the replay reads and does not compare, with the reason. The first texts name whole subtrees."""

Key = tuple[str, int]
"""A partition: its topic and its number."""
Record = tuple[str, int, dict[str, Any]]
"""A record of the metadata log: its type, its version, and its fields that are compared."""


@dataclass(frozen=True)
class RecordingMeta:
    """What the meta line says of the recording, as far as it decides what the controller does.

    ``elr_enabled`` is at the start.
    """

    elr_enabled: bool
    metadata_version: tuple[int, int, int]
    clean_aware_registration: bool
    brokers: int
    session_timeout_ms: int
    kafka_version: str | None = None
    controller_id: int | None = None
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    """The configuration of all brokers that the controller wrote when it became active."""
    static_min_isr: int = 1
    """The controller's own min.insync.replicas."""

    @property
    def knows_elr_feature(self) -> bool:
        """Whether ELR is the feature eligible.leader.replicas.version: metadata version 4.1 and later."""
        return self.metadata_version >= (4, 1, 0)

    @property
    def elr_supported(self) -> bool:
        """Whether the metadata version knows ELR: 4.0-IV1 and later."""
        return self.metadata_version >= (4, 0, 1)

    @property
    def newer(self) -> str | None:
        """Why no profile is of the version that was recorded; None where one is."""
        if self.metadata_version <= NEWEST_VERSION:
            return None
        name, newest = ("{}.{}-IV{}".format(*v) for v in (self.metadata_version, NEWEST_VERSION))
        release = f"Kafka {self.kafka_version}, " if self.kafka_version else ""
        return f"{release}metadata.version {name} is newer than any profile; the newest is of {newest}"

    @property
    def profile(self) -> str:
        """The profile of the rules in force, or of the nearest ones, without clean registrations."""
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

    Of an operation that is not known (``is_known``) the arguments and the response were not read.
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
    is_known: bool = True
    elr_version: int | None = None
    elr_index: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass
class ControllerTrace:
    """A recording: its meta line, and its operations, read one at a time."""

    path: Path
    meta: RecordingMeta
    operations: Iterator[Operation] = field(repr=False)


class NotKnown(Exception):
    """An operation, or a case of one, about which the rules say nothing; the message names it."""


@dataclass
class Decided:
    """An answer, the records appended, and what the operation's own annotations should say.

    ``records`` are groups: the order of groups is the order in the batch; within a group, which goes over
    partitions in the order of a hash table, any order will do. ``refused_by`` and ``passed`` are names of checks.
    """

    error: str = "NONE"
    response: dict[str, Any] | None = None
    records: list[list[Record]] = field(default_factory=list)
    annotations: dict[str, Any] = field(default_factory=dict)
    refused_by: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def refuse(self, verdict: Any) -> bool:
        """Take over the verdict of the checks; whether they refuse."""
        self.error, self.refused_by, self.passed = verdict.answer, verdict.refused_by, verdict.passed
        return bool(verdict.answer != "NONE")

    @property
    def record_count(self) -> int:
        """How many records are appended."""
        return sum(len(group) for group in self.records)


def exception(error: str) -> dict[str, str]:
    """How the recorder writes an error of a whole request: the exception's name is the error's."""
    return {"exception": "".join(w.capitalize() for w in error.split("_")) + "Exception", "message": ANY_TEXT}
