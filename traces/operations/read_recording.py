"""Read recordings of a controller's operations: a meta line, then one operation per line.

An unknown field is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.traces.kafka.schemas import METADATA
from highwater.traces.kafka.schemas import Field as RecordField
from highwater.traces.reading import (
    INT32,
    INT64,
    Fields,
    Form,
    Place,
    choice,
    each,
    in_order,
    numbers,
    read_form,
    read_lines,
    texts,
    whole,
)
from highwater.traces.reports.observed import MIN_ISR, UNCLEAN

# --- types ---------------------------------------------------------------------------------------------------

_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})-IV([0-9]{1,3})")


def metadata_version(text: str) -> tuple[int, int, int]:
    """The three numbers of a metadata version such as 4.0-IV3. Raises ValueError if the text has another form."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("not a metadata version such as 4.0-IV3")
    major, minor, internal = (int(part) for part in match.groups())
    return major, minor, internal


FORMAT = "controller-oracle-1"
MAX_BROKERS = 12
"""A trace with more brokers is refused: the rules are traced for each number of brokers."""

NEWEST_VERSION = metadata_version("4.2-IV1")
"""The newest metadata version with a profile."""

RECOVERY_STATES = ("RECOVERED", "RECOVERING")
"""Leader recovery states; a record has the index in this tuple."""

RESOURCES = {"TOPIC": 2, "BROKER": 4}
"""The resource types of a configuration, with their numbers in a record."""

ANY_TEXT = "a text"
"""Replaces a recorded text that is not compared."""

CONFIGS = (MIN_ISR, UNCLEAN)
"""The configurations that a recording can have."""

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
"""Paths of fields that the replay reads but does not compare, each with the reason. A path covers its subfields."""

Key = tuple[str, int]
"""A partition: its topic and its number."""
Record = tuple[str, int, dict[str, Any]]
"""A record of the metadata log: its type, its version, and its compared fields."""


@dataclass(frozen=True)
class RecordingMeta:
    """The fields of a recording's meta line that the controller's decisions depend on.

    ``elr_enabled`` is True if ELR is enabled at the start.
    """

    elr_enabled: bool
    metadata_version: tuple[int, int, int]
    clean_aware_registration: bool
    brokers: int
    session_timeout_ms: int
    kafka_version: str | None = None
    controller_id: int | None = None
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    """The cluster's default broker configuration, which the controller wrote when it became active."""
    static_min_isr: int = 1
    """The min.insync.replicas in the controller's static configuration."""

    @property
    def knows_elr_feature(self) -> bool:
        """True from metadata version 4.1 on, which has the feature eligible.leader.replicas.version."""
        return self.metadata_version >= (4, 1, 0)

    @property
    def elr_supported(self) -> bool:
        """True from metadata version 4.0-IV1 on, the first that supports ELR."""
        return self.metadata_version >= (4, 0, 1)

    @property
    def newer(self) -> str | None:
        """The reason why no profile covers the recorded version; None if a profile does."""
        if self.metadata_version <= NEWEST_VERSION:
            return None
        name, newest = ("{}.{}-IV{}".format(*v) for v in (self.metadata_version, NEWEST_VERSION))
        release = f"Kafka {self.kafka_version}, " if self.kafka_version else ""
        return f"{release}metadata.version {name} is newer than any profile; the newest is of {newest}"

    @property
    def profile(self) -> str:
        """The name of the profile that is closest to the recorded version and ELR setting.

        ``clean_aware_registration`` does not affect it: it switches a single rule (``replay.rules_in_force``).
        """
        if not self.elr_supported:
            return "before_kip_966"
        if self.knows_elr_feature:
            return "kafka_4_2" if self.elr_enabled else "kafka_4_2_elr_off"
        return "kafka_trunk_2024_10" if self.elr_enabled else "kafka_trunk_2024_10_elr_off"


@dataclass(frozen=True)
class Operation:
    """One line of a recording: an operation, the controller's response and records, and the state afterwards.

    - ``line`` is the line number, from 1; ``step`` counts operations, from 0.
    - ``next_offset`` is the metadata log's end offset before the operation.
    - ``partitions`` and ``brokers`` are the whole state after the operation.
    - ``elr_version`` is the level of eligible.leader.replicas.version, None if not recorded.
    - ``elr_index`` has the entries (broker, topic, partition) of the controller's ELR index that match no ELR member.

    The arguments and the response of an unknown operation are not read.
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


def can_be(key: str, value: str | None) -> bool:
    """True if a value is valid for a configuration. None, which removes the configuration, is valid."""
    if value is None:
        return True
    return re.fullmatch(r"[0-9]{1,9}", value) is not None if key == MIN_ISR else value in ("true", "false")


# --- forms ---------------------------------------------------------------------------------------------------

_LONG = whole(-1, INT64)
_EPOCH = whole(-INT32, INT32)
_BROKER_EPOCH = whole(-INT64 - 1, INT64)
_ISR = in_order(numbers(-1))
"""The members of an ISR are sorted: their order has no meaning."""


def _last_contact(f: Fields, name: str) -> int | None:
    return None if f.raw(name) is None else f.number(name, 0, INT64)


_PARTITION: tuple[Form, Form] = (
    {
        "topic": Fields.text,
        "partition": Fields.number,
        "replicas": Fields.numbers,
        "isr": _ISR,
        "elr": numbers(-1),
        "lastKnownElr": numbers(-1),
        "leader": whole(-1),
        "leaderEpoch": whole(-1),
        "partitionEpoch": whole(-1),
        "leaderRecoveryState": choice(*RECOVERY_STATES),
        "adding": Fields.numbers,
        "removing": Fields.numbers,
        "effectiveMinIsr": Fields.number,
        "unclean": Fields.flag,
    },
    {"directories": texts},
)
_BROKER: tuple[Form, Form] = (
    {
        "id": Fields.number,
        "epoch": _LONG,
        "incarnation": Fields.text,
        "fenced": Fields.flag,
        "inControlledShutdown": Fields.flag,
        "processAlive": Fields.flag,
    },
    {"lastContactMs": _last_contact, "onlineDirs": in_order(texts)},
)


def _by_key(
    f: Fields, name: str, forms: tuple[Form, Form], key: Callable[[dict[str, Any]], Any], what: str
) -> dict[Any, dict[str, Any]]:
    """The objects of a field's list, by key. Raises TraceError if two objects have the same key."""
    found: dict[Any, dict[str, Any]] = {}
    for place, item in f.items(name):
        state = read_form(place, item, *forms)
        if (own := key(state)) in found:
            raise place.wrong(f"a second {what}")
        found[own] = state
    return found


def read_stale_entries(line: Fields) -> list[tuple[int, str, int]]:
    """The entries (broker, topic, partition) of the ELR index that match no ELR member.

    Raises TraceError if an entry is invalid.
    """
    found = []
    for place, item in line.items("elrIndexExtra"):
        if not isinstance(item, list) or len(item) != 3:
            raise place.wrong("expected a broker, a topic and a partition")
        names = ("broker", "topic", "partition")
        f = Fields(place, dict(zip(names, item, strict=True)), names)
        found.append((f.number("broker"), f.text("topic"), f.number("partition")))
    return sorted(found)


_RESULT: Form = {"topic": Fields.text, "partition": Fields.number, "error": Fields.text}
_SCHEMAS = {schema.name: schema for schema in METADATA}


def _reader(field: RecordField) -> Callable[[Fields, str], Any]:
    """The reader of a record's field."""
    if field.name == "isr":
        return _ISR
    if field.type == "bool":
        return Fields.flag
    if field.type in ("string", "uuid"):
        return Fields.text_or_null if field.nullable else Fields.text
    if not isinstance(field.type, str):
        return numbers(-1)
    return _LONG if field.defined is None else whole(field.defined[0], field.defined[-1])


def read_record(place: Place, value: Any) -> Record:
    """Read a metadata record, without the fields that the replay does not compare.

    Raises TraceError if the record is invalid.
    """
    f = Fields(place, value, ("type", "version", "data"))
    kind, version, raw = f.choice("type", tuple(_SCHEMAS)), f.number("version", 0, INT32), f.raw("data")
    known = {field.name: field for field in _SCHEMAS[kind].fields if field.since <= version}
    data = Fields(place.at("data"), raw, [n for n, field in known.items() if field.tag is None], tuple(known))
    compared = (name for name in raw if f"records[].data.{name}" not in OUTSIDE)
    return kind, version, {name: _reader(known[name])(data, name) for name in compared}


def _removed(f: Fields, name: str) -> dict[str, Any] | None:
    if f.raw(name) is None:
        return None
    return read_form(f.place.at(name), f.raw(name), {"id": Fields.number, "epoch": _BROKER_EPOCH})


def _results(f: Fields, name: str) -> dict[str, str]:
    """The error of each partition, by partition name. The recorded order has no meaning."""
    found = _by_key(
        f, name, (_RESULT, {}), lambda r: f"{r['topic']}-{r['partition']}", "result for a partition"
    )
    return {partition: result["error"] for partition, result in found.items()}


def _any_text(f: Fields, name: str) -> str:
    f.text(name)
    return ANY_TEXT


_RESPONSE: Form = {
    **dict.fromkeys(("exception", "leaderRecoveryState", "topicId", "what"), Fields.text),
    **dict.fromkeys(("brokerEpoch", "leaderId", "leaderEpoch", "partitionEpoch"), _LONG),
    **dict.fromkeys(
        ("again", "causesFailover", "isCaughtUp", "isFenced", "inControlledShutdown", "shouldShutDown"),
        Fields.flag,
    ),
    "isr": _ISR,
    "message": _any_text,
    "removed": _removed,
    "results": _results,
}


def _if_topic(f: Fields, name: str) -> int | None:
    """A partition number, or None if the line has no topic. Raises TraceError for a number without a topic."""
    if f.raw("topic") is not None:
        return f.number(name)
    if f.raw(name) is not None:
        raise f.place.at(name).wrong("a partition without a topic")
    return None


def _configs(f: Fields, name: str) -> dict[str, str]:
    return read_form(f.place.at(name), f.raw(name), {}, dict.fromkeys(CONFIGS, Fields.text))


def _assignments(f: Fields, name: str) -> list[list[int]]:
    return [Fields(place, {name: item}, (name,)).numbers(name) for place, item in f.items(name)]


OPERATIONS: dict[str, Form] = {
    "registerBroker": {
        "broker": Fields.number,
        "incarnation": Fields.text,
        "newIncarnation": Fields.flag,
        "previousBrokerEpoch": _LONG,
        "previousEpochMatches": Fields.flag,
        "kind": Fields.text,
    },
    "brokerHeartbeat": {
        "broker": Fields.number,
        "brokerEpoch": _BROKER_EPOCH,
        "currentMetadataOffset": _LONG,
        "wantFence": Fields.flag,
        "wantShutDown": Fields.flag,
        "kind": Fields.text,
    },
    "fenceStaleBroker": {"broker": Fields.number, "sessionExpired": Fields.flag},
    "alterPartition": {
        "topic": Fields.text,
        "partition": Fields.number,
        "requestVersion": whole(0, 3),
        "broker": Fields.number,
        "brokerEpoch": _BROKER_EPOCH,
        "leaderEpoch": _EPOCH,
        "partitionEpoch": _EPOCH,
        "newIsr": each({"id": Fields.number, "epoch": _BROKER_EPOCH}),
        "leaderRecoveryState": choice(*RECOVERY_STATES),
        "kind": Fields.text,
    },
    "electLeaders": {
        "type": choice("PREFERRED", "UNCLEAN"),
        "topic": Fields.text_or_null,
        "partition": _if_topic,
    },
    "alterPartitionReassignments": {
        "topic": Fields.text,
        "partition": Fields.number,
        "replicas": Fields.numbers_or_null,
        "kind": Fields.text,
    },
    "incrementalAlterConfigs": {
        "resourceType": choice(*RESOURCES),
        "resource": Fields.text,
        "key": choice(*CONFIGS),
        "value": Fields.text_or_null,
    },
    "maybeElectUncleanLeaders": {},
    "maybeBalancePartitionLeaders": {},
    "createTopic": {"topic": Fields.text, "assignments": _assignments, "configs": _configs},
    "unregisterBroker": {"broker": Fields.number},
    "assignReplicasToDirs": {
        "broker": Fields.number,
        "brokerEpoch": _LONG,
        "dir": Fields.text,
        "dirOnline": Fields.flag,
        "topic": Fields.text,
        "partition": Fields.number,
    },
    "updateFeatures": {
        "feature": Fields.text,
        "level": Fields.number,
        "upgradeType": choice("UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"),
        "validateOnly": Fields.flag,
    },
}
"""The readers of each operation's arguments, by the operation's name."""

_NEWER: dict[str, Form] = {
    "registerBroker": {
        "requestVersion": Fields.number,
        "sessionValid": Fields.flag,
        "elrFeatureSupported": Fields.flag,
    },
    "brokerHeartbeat": {"offlineLogDirs": texts},
    "fenceStaleBroker": {"kind": Fields.text, "meant": Fields.number},
    "alterPartitionReassignments": {"allowReplicationFactorChange": Fields.flag},
}
"""The readers of arguments that only newer recordings have, by operation.

``renewed`` is not among them, because every operation can have it."""


# --- the file ------------------------------------------------------------------------------------------------


def read_controller_trace(path: Path) -> tuple[RecordingMeta, Iterator[Operation]]:
    """The meta line of a recording, and an iterator over the operations.

    Raises TraceError if the file or the meta line cannot be read. The iterator raises it for an invalid operation.
    """
    lines = read_lines(path)
    line, first = next(lines)
    meta = _meta(Fields(Place(path, line), first, ("meta",)))
    return meta, (_operation(Place(path, n), value) for n, value in lines)


def _version(f: Fields, name: str) -> tuple[int, int, int]:
    try:
        return metadata_version(f.text(name))
    except ValueError as wrong:
        raise f.place.at(name).wrong(str(wrong)) from None


_META: Form = {
    "elrEnabled": Fields.flag,
    "metadataVersion": _version,
    "cleanAwareRegistration": Fields.flag,
    "brokers": whole(1, MAX_BROKERS),
    "sessionTimeoutMs": whole(0, INT64),
    "extras": Fields.flag,
    **dict.fromkeys(("format", "mode", "kafkaCommit"), Fields.text),
    **dict.fromkeys(
        ("seed", "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps"),
        whole(-INT64, INT64),
    ),
}


def _meta(line: Fields) -> RecordingMeta:
    place, raw = line.place.at("meta"), line.raw("meta")
    newer: Form = {
        "kafkaVersion": Fields.text,
        "minIsrAt": choice("topic", "cluster"),
        "staticMinIsr": whole(1),
        "controllerId": Fields.number,
        "bootstrapRecords": _broker_configs,
    }
    Fields(place, raw, ("format",), (*_META, *newer)).choice("format", (FORMAT,))
    meta = read_form(place, raw, _META, newer)
    return RecordingMeta(
        meta["elrEnabled"],
        meta["metadataVersion"],
        meta["cleanAwareRegistration"],
        meta["brokers"],
        meta["sessionTimeoutMs"],
        kafka_version=meta.get("kafkaVersion"),
        controller_id=meta.get("controllerId"),
        broker_configs=meta.get("bootstrapRecords", {}),
        static_min_isr=meta.get("staticMinIsr", 1),
    )


def _broker_configs(meta: Fields, name: str) -> dict[str, str]:
    found = {}
    for place, item in meta.items(name):
        kind, _, data = read_record(place, item)
        if kind == "CONFIG_RECORD" and data["resourceType"] == RESOURCES["BROKER"]:
            if data["value"] is None or not can_be(data["name"], data["value"]):
                raise place.wrong("a configuration with a value that it cannot have")
            found[data["name"]] = data["value"]
    return found


def _operation(place: Place, value: dict[str, Any]) -> Operation:
    known = ("i", "op", "timeMs", "nextOffset", "error", "records", "partitions", "brokers")
    line = Fields(place, value, known, ("response", "elrVersion", "elrIndexExtra"))
    at_op, raw = place.at("op"), line.raw("op")
    name = Fields(at_op, raw, ("name",), tuple(raw) if isinstance(raw, dict) else ()).text("name")
    arguments, response = {}, None
    if name in OPERATIONS:
        newer = {"renewed": Fields.numbers, **_NEWER.get(name, {})}
        arguments = read_form(at_op, raw, {"name": Fields.text, **OPERATIONS[name]}, newer)
        del arguments["name"]
        if "response" in line:
            response = read_form(place.at("response"), line.raw("response"), {}, _RESPONSE)
    return Operation(
        place.line,
        place,
        line.number("i", 0, INT64),
        line.number("timeMs", 0, INT64),
        line.number("nextOffset", 0, INT64),
        name,
        arguments,
        line.text("error"),
        response,
        [read_record(at, item) for at, item in line.items("records")],
        _by_key(line, "partitions", _PARTITION, _partition_key, "state of a partition"),
        _by_key(line, "brokers", _BROKER, lambda b: b.pop("id"), "state of a broker"),
        line.number("elrVersion") if "elrVersion" in line else None,
        read_stale_entries(line) if "elrIndexExtra" in line else [],
    )


def _partition_key(state: dict[str, Any]) -> Key:
    return state.pop("topic"), state.pop("partition")
