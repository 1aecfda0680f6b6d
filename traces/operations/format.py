"""The recorded operations of a controller: one line of JSON each, with all that the controller did.

Format ``controller-oracle-1``: a meta line, then one line an operation with its arguments, the error, the
response, the records appended, and the whole state afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traces.fields import INT32, INT64, Fields, Place
from traces.lines import read_lines

FORMAT = "controller-oracle-1"
MAX_BROKERS = 12
"""More brokers than this in one trace are refused: the rules are traced for each number of brokers."""

RECOVERY_STATES = ("RECOVERED", "RECOVERING")
TOPIC, BROKER = 2, 4
RESOURCES = {"TOPIC": TOPIC, "BROKER": BROKER}

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


@dataclass(frozen=True)
class Meta:
    """What the meta line says of the recording, as far as it decides which rules were in force."""

    elr_enabled: bool
    metadata_version: tuple[int, int, int]
    clean_aware_registration: bool
    brokers: int
    session_timeout_ms: int

    @property
    def elr_supported(self) -> bool:
        """Whether the metadata version knows ELR: 4.0-IV1 and later."""
        return self.metadata_version >= (4, 0, 1)

    @property
    def profile(self) -> str:
        """The profile of the rules in force, without clean registrations."""
        if not self.elr_supported:
            return "before_kip_966"
        return "kafka_trunk_2024_10" if self.elr_enabled else "kafka_trunk_2024_10_elr_off"


@dataclass(frozen=True)
class Operation:
    """One line: the arguments of an operation, and what the controller did."""

    line: int
    place: Place
    step: int
    time_ms: int
    next_offset: int
    name: str
    arguments: dict[str, Any]
    error: str
    response: dict[str, Any] | None
    records: list[tuple[str, int, dict[str, Any]]]
    partitions: dict[tuple[str, int], dict[str, Any]]
    brokers: dict[int, dict[str, Any]]


@dataclass
class ControllerTrace:
    """A recording: its meta line, and its operations, read one at a time."""

    path: Path
    meta: Meta
    operations: Iterator[Operation] = field(repr=False)


def read_controller_trace(path: Path) -> ControllerTrace:
    """Open a recording. Raises TraceError, also while the operations are read."""
    lines = read_lines(path)
    line, first = next(lines)
    place = Place(path, line)
    meta = _meta(Fields(place, first, ("meta",)))
    return ControllerTrace(path, meta, (_operation(Place(path, n), value) for n, value in lines))


_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})-IV([0-9]{1,3})")


def _meta(line: Fields) -> Meta:
    known = (
        "format", "mode", "seed", "elrEnabled", "metadataVersion", "cleanAwareRegistration", "extras", "brokers",
        "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps", "sessionTimeoutMs", "kafkaCommit",
    )  # fmt: skip
    meta = Fields(line.place.at("meta"), line.raw("meta"), ("format",), known)
    meta.choice("format", (FORMAT,))
    meta = Fields(line.place.at("meta"), line.raw("meta"), known)
    for name in ("seed", "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps"):
        meta.number(name, -INT64, INT64)
    for name in ("mode", "kafkaCommit"):
        meta.text(name)
    meta.flag("extras")
    version = meta.text("metadataVersion")
    match = _VERSION.fullmatch(version)
    if match is None:
        raise meta.place.at("metadataVersion").wrong("not a metadata version such as 4.0-IV3")
    major, minor, internal = (int(part) for part in match.groups())
    return Meta(
        meta.flag("elrEnabled"),
        (major, minor, internal),
        meta.flag("cleanAwareRegistration"),
        meta.number("brokers", 1, MAX_BROKERS),
        meta.number("sessionTimeoutMs", 0, INT64),
    )


# --- operations: name to the fields of its arguments -------------------------------------------------

Reader = Callable[[Fields], dict[str, Any]]


def _id(fields: Fields, name: str) -> int:
    return fields.number(name, 0, INT32)


def _register(f: Fields) -> dict[str, Any]:
    return {
        "broker": _id(f, "broker"),
        "incarnation": f.text("incarnation"),
        "newIncarnation": f.flag("newIncarnation"),
        "previousBrokerEpoch": f.number("previousBrokerEpoch", -1, INT64),
        "previousEpochMatches": f.flag("previousEpochMatches"),
        "kind": f.text("kind"),
    }


def _heartbeat(f: Fields) -> dict[str, Any]:
    return {
        "broker": _id(f, "broker"),
        "brokerEpoch": f.number("brokerEpoch", -1, INT64),
        "currentMetadataOffset": f.number("currentMetadataOffset", -1, INT64),
        "wantFence": f.flag("wantFence"),
        "wantShutDown": f.flag("wantShutDown"),
        "kind": f.text("kind"),
    }


def _fence(f: Fields) -> dict[str, Any]:
    return {"broker": _id(f, "broker"), "sessionExpired": f.flag("sessionExpired")}


def _alter_partition(f: Fields) -> dict[str, Any]:
    members = []
    for place, item in f.items("newIsr"):
        member = Fields(place, item, ("id", "epoch"))
        members.append({"id": member.number("id", 0, INT32), "epoch": member.number("epoch", -1, INT64)})
    return {
        "topic": f.text("topic"),
        "partition": f.number("partition"),
        "requestVersion": f.number("requestVersion", 0, 3),
        "broker": _id(f, "broker"),
        "brokerEpoch": f.number("brokerEpoch", -1, INT64),
        "leaderEpoch": f.number("leaderEpoch", -1, INT32),
        "partitionEpoch": f.number("partitionEpoch", -1, INT32),
        "newIsr": members,
        "leaderRecoveryState": f.choice("leaderRecoveryState", RECOVERY_STATES),
        "kind": f.text("kind"),
    }


def _elect(f: Fields) -> dict[str, Any]:
    topic = f.text_or_null("topic")
    if topic is None and f.raw("partition") is not None:
        raise f.place.at("partition").wrong("a partition without a topic")
    return {
        "type": f.choice("type", ("PREFERRED", "UNCLEAN")),
        "topic": topic,
        "partition": None if topic is None else f.number("partition"),
    }


def _reassign(f: Fields) -> dict[str, Any]:
    return {
        "topic": f.text("topic"),
        "partition": f.number("partition"),
        "replicas": f.numbers_or_null("replicas"),
        "kind": f.text("kind"),
    }


ANY_TEXT = "a text"
"""Stands for a text that is read and not compared."""

CONFIGS = ("min.insync.replicas", "unclean.leader.election.enable")


def _config_value(place: Place, key: str, value: str) -> str:
    if key == CONFIGS[0] and not re.fullmatch(r"[0-9]{1,9}", value):
        raise place.wrong("not a number of replicas")
    if key == CONFIGS[1] and value not in ("true", "false"):
        raise place.wrong("neither 'true' nor 'false'")
    return value


def _config(f: Fields) -> dict[str, Any]:
    key = f.choice("key", CONFIGS)
    value = f.text_or_null("value")
    kind = f.choice("resourceType", tuple(RESOURCES))
    name = f.text("resource")
    if kind == "BROKER" and name:
        raise f.place.at("resource").wrong(
            "only the default of all brokers is known, which has the empty name"
        )
    return {
        "resourceType": kind,
        "resource": name,
        "key": key,
        "value": None if value is None else _config_value(f.place.at("value"), key, value),
    }


def _create_topic(f: Fields) -> dict[str, Any]:
    assignments = []
    for place, item in f.items("assignments"):
        assignments.append(Fields(place, {"replicas": item}, ("replicas",)).numbers("replicas"))
    place, configs = f.place.at("configs"), f.raw("configs")
    read = Fields(place, configs, (), CONFIGS)
    found = {key: _config_value(place.at(key), key, read.text(key)) for key in configs}
    return {"topic": f.text("topic"), "assignments": assignments, "configs": found}


def _nothing(f: Fields) -> dict[str, Any]:
    return {}


OPERATIONS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "registerBroker": (
        ("broker", "incarnation", "newIncarnation", "previousBrokerEpoch", "previousEpochMatches", "kind"),
        _register,
    ),
    "brokerHeartbeat": (
        ("broker", "brokerEpoch", "currentMetadataOffset", "wantFence", "wantShutDown", "kind"), _heartbeat
    ),
    "fenceStaleBroker": (("broker", "sessionExpired"), _fence),
    "alterPartition": (
        ("topic", "partition", "requestVersion", "broker", "brokerEpoch", "leaderEpoch", "partitionEpoch", "newIsr",
         "leaderRecoveryState", "kind"),
        _alter_partition,
    ),
    "electLeaders": (("type", "topic", "partition"), _elect),
    "alterPartitionReassignments": (("topic", "partition", "replicas", "kind"), _reassign),
    "incrementalAlterConfigs": (("resourceType", "resource", "key", "value"), _config),
    "maybeElectUncleanLeaders": ((), _nothing),
    "maybeBalancePartitionLeaders": ((), _nothing),
    "createTopic": (("topic", "assignments", "configs"), _create_topic),
}  # fmt: skip


def _operation(place: Place, value: dict[str, Any]) -> Operation:
    known = ("i", "op", "timeMs", "nextOffset", "error", "records", "partitions", "brokers")
    line = Fields(place, value, known, ("response",))
    at_op = place.at("op")
    raw = line.raw("op")
    name = Fields(at_op, raw, ("name",), tuple(raw) if isinstance(raw, dict) else ()).text("name")
    if name not in OPERATIONS:
        raise at_op.at("name").wrong(f"an operation that is not known: {name[:60]!r}")
    names, read = OPERATIONS[name]
    arguments = read(Fields(at_op, raw, ("name", *names)))
    return Operation(
        place.line,
        place,
        line.number("i", 0, INT64),
        line.number("timeMs", 0, INT64),
        line.number("nextOffset", 0, INT64),
        name,
        arguments,
        line.text("error"),
        _response(place.at("response"), line.raw("response")) if "response" in line else None,
        [_record(at, item) for at, item in line.items("records")],
        _partitions(line),
        _brokers(line),
    )


def _response(place: Place, value: Any) -> dict[str, Any]:
    """A response, of whatever kind, with its types checked."""
    known = (
        "brokerEpoch", "exception", "message", "isCaughtUp", "isFenced", "inControlledShutdown", "shouldShutDown",
        "leaderId", "leaderEpoch", "isr", "partitionEpoch", "leaderRecoveryState", "results", "topicId",
    )  # fmt: skip
    f = Fields(place, value, (), known)
    found: dict[str, Any] = {}
    for name in value:
        if name in ("isCaughtUp", "isFenced", "inControlledShutdown", "shouldShutDown"):
            found[name] = f.flag(name)
        elif name in ("brokerEpoch", "leaderId", "leaderEpoch", "partitionEpoch"):
            found[name] = f.number(name, -1, INT64)
        elif name == "isr":
            found[name] = sorted(f.numbers(name, -1))
        elif name == "results":
            found[name] = _results(f)
        elif name == "message":
            f.text(name)
            found[name] = ANY_TEXT
        else:
            found[name] = f.text(name)
    return found


def _results(f: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, item in f.items("results"):
        result = Fields(place, item, ("topic", "partition", "error"))
        name = f"{result.text('topic')}-{result.number('partition')}"
        if name in found:
            raise place.wrong("a second result for a partition")
        found[name] = result.text("error")
    return found


_IDS = ("isr", "replicas", "addingReplicas", "removingReplicas", "eligibleLeaderReplicas", "lastKnownElr")
_RECORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "PARTITION_CHANGE_RECORD": (
        ("partitionId", "topicId"), (*_IDS, "leader", "leaderRecoveryState", "directories")
    ),
    "PARTITION_RECORD": (
        ("partitionId", "topicId", "replicas", "isr", "removingReplicas", "addingReplicas", "leader", "leaderEpoch",
         "partitionEpoch", "directories"), ()
    ),
    "REGISTER_BROKER_RECORD": (
        ("brokerId", "isMigratingZkBroker", "incarnationId", "brokerEpoch", "endPoints", "features", "rack", "fenced",
         "inControlledShutdown", "logDirs"), ()
    ),
    "BROKER_REGISTRATION_CHANGE_RECORD": (("brokerId", "brokerEpoch"), ("fenced", "inControlledShutdown")),
    "CONFIG_RECORD": (("resourceType", "resourceName", "name", "value"), ()),
    "TOPIC_RECORD": (("name", "topicId"), ()),
}  # fmt: skip
_NUMBERS = (
    "partitionId", "leader", "leaderEpoch", "partitionEpoch", "leaderRecoveryState", "brokerId", "brokerEpoch",
    "resourceType",
)  # fmt: skip


def _record(place: Place, value: Any) -> tuple[str, int, dict[str, Any]]:
    f = Fields(place, value, ("type", "version", "data"))
    kind = f.choice("type", tuple(_RECORDS))
    needed, optional = _RECORDS[kind]
    data = Fields(place.at("data"), f.raw("data"), needed, optional)
    found: dict[str, Any] = {}
    for name in f.raw("data"):
        if f"records[].data.{name}" in OUTSIDE:
            continue
        if name == "isr":
            found[name] = sorted(data.numbers(name, -1))
        elif name in _IDS:
            found[name] = data.numbers(name, -1)
        elif name in _NUMBERS:
            found[name] = data.number(name, -1, INT64)
        elif name in ("fenced", "inControlledShutdown"):
            whole = kind == "BROKER_REGISTRATION_CHANGE_RECORD"
            found[name] = data.number(name, -1, 1) if whole else data.flag(name)
        elif name == "value":
            found[name] = data.text_or_null(name)
        else:
            found[name] = data.text(name)
    return kind, f.number("version", 0, INT32), found


def _partitions(line: Fields) -> dict[tuple[str, int], dict[str, Any]]:
    known = (
        "topic", "partition", "replicas", "isr", "elr", "lastKnownElr", "leader", "leaderEpoch", "partitionEpoch",
        "leaderRecoveryState", "adding", "removing", "effectiveMinIsr", "unclean",
    )  # fmt: skip
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for place, item in line.items("partitions"):
        f = Fields(place, item, known)
        key = (f.text("topic"), f.number("partition"))
        if key in found:
            raise place.wrong("a second state of a partition")
        found[key] = {
            "replicas": f.numbers("replicas"),
            "isr": sorted(f.numbers("isr", -1)),
            "elr": f.numbers("elr", -1),
            "lastKnownElr": f.numbers("lastKnownElr", -1),
            "leader": f.number("leader", -1),
            "leaderEpoch": f.number("leaderEpoch", -1),
            "partitionEpoch": f.number("partitionEpoch", -1),
            "leaderRecoveryState": f.choice("leaderRecoveryState", RECOVERY_STATES),
            "adding": f.numbers("adding"),
            "removing": f.numbers("removing"),
            "effectiveMinIsr": f.number("effectiveMinIsr"),
            "unclean": f.flag("unclean"),
        }
    return found


def _brokers(line: Fields) -> dict[int, dict[str, Any]]:
    known = ("id", "epoch", "incarnation", "fenced", "inControlledShutdown", "processAlive")
    found: dict[int, dict[str, Any]] = {}
    for place, item in line.items("brokers"):
        f = Fields(place, item, known)
        broker = f.number("id")
        if broker in found:
            raise place.wrong("a second state of a broker")
        f.flag("processAlive")
        found[broker] = {
            "epoch": f.number("epoch", -1, INT64),
            "incarnation": f.text("incarnation"),
            "fenced": f.flag("fenced"),
            "inControlledShutdown": f.flag("inControlledShutdown"),
        }
    return found


__all__ = [
    "ANY_TEXT", "BROKER", "CONFIGS", "FORMAT", "OPERATIONS", "OUTSIDE", "RECOVERY_STATES",
    "RESOURCES", "TOPIC", "ControllerTrace", "Meta",
    "Operation", "read_controller_trace",
]  # fmt: skip
