"""A recording from its file: the meta line, then one operation a line. Anything unknown is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from highwater.traces.operations.format import (
    ANY_TEXT,
    CONFIGS,
    FORMAT,
    MAX_BROKERS,
    OUTSIDE,
    RECOVERY_STATES,
    RESOURCES,
    ControllerTrace,
    Key,
    Operation,
    Record,
    RecordingMeta,
    metadata_version,
)
from highwater.traces.operations.state import can_be
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

_LONG = whole(-1, INT64)
_EPOCH = whole(-INT32, INT32)
_BROKER_EPOCH = whole(-INT64 - 1, INT64)
_ISR = in_order(numbers(-1))
"""The members of an ISR are sorted: their order says nothing."""

_PARTITION: Form = {
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
}
_BROKER: Form = {
    "id": Fields.number,
    "epoch": _LONG,
    "incarnation": Fields.text,
    "fenced": Fields.flag,
    "inControlledShutdown": Fields.flag,
    "processAlive": Fields.flag,
}


def read_partitions(line: Fields) -> dict[Key, dict[str, Any]]:
    """The partitions of a line, by topic and number. Raises TraceError."""
    found: dict[Key, dict[str, Any]] = {}
    for place, item in line.items("partitions"):
        state = read_form(place, item, _PARTITION, {"directories": texts})
        key = (state.pop("topic"), state.pop("partition"))
        if key in found:
            raise place.wrong("a second state of a partition")
        found[key] = state
    return found


def read_brokers(line: Fields) -> dict[int, dict[str, Any]]:
    """The registered brokers of a line, by id. Raises TraceError."""
    found: dict[int, dict[str, Any]] = {}
    for place, item in line.items("brokers"):
        state = read_form(
            place, item, _BROKER, {"lastContactMs": _last_contact, "onlineDirs": in_order(texts)}
        )
        broker = state.pop("id")
        if broker in found:
            raise place.wrong("a second state of a broker")
        del state["processAlive"]
        found[broker] = state
    return found


def _last_contact(f: Fields, name: str) -> int | None:
    return None if f.raw(name) is None else f.number(name, 0, INT64)


def read_stale_entries(line: Fields) -> list[tuple[int, str, int]]:
    """The entries (broker, topic, partition) of the index of ELR members that no partition has. Raises TraceError."""
    found = []
    for place, item in line.items("elrIndexExtra"):
        if not isinstance(item, list) or len(item) != 3:
            raise place.wrong("expected a broker, a topic and a partition")
        names = ("broker", "topic", "partition")
        f = Fields(place, dict(zip(names, item, strict=True)), names)
        found.append((f.number("broker"), f.text("topic"), f.number("partition")))
    return sorted(found)


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
    "BROKER_REGISTRATION_CHANGE_RECORD": (("brokerId", "brokerEpoch"), ("fenced", "inControlledShutdown", "logDirs")),
    "UNREGISTER_BROKER_RECORD": (("brokerId", "brokerEpoch"), ()),
    "CLEAR_ELR_RECORD": (("topicName",), ()),
    "FEATURE_LEVEL_RECORD": (("name", "featureLevel"), ()),
    "BEGIN_TRANSACTION_RECORD": ((), ("name",)),
    "END_TRANSACTION_RECORD": ((), ()),
    "CONFIG_RECORD": (("resourceType", "resourceName", "name", "value"), ()),
    "TOPIC_RECORD": (("name", "topicId"), ()),
}  # fmt: skip
_NUMBERS = (
    "partitionId", "leader", "leaderEpoch", "partitionEpoch", "leaderRecoveryState", "brokerId", "brokerEpoch",
    "resourceType", "featureLevel",
)  # fmt: skip
_FLAGS = ("fenced", "inControlledShutdown")
_DATA: Form = {
    **dict.fromkeys(_IDS, numbers(-1)),
    "isr": _ISR,
    **dict.fromkeys(_NUMBERS, _LONG),
    **dict.fromkeys(_FLAGS, Fields.flag),
    "value": Fields.text_or_null,
}
"""What reads a field of a record that is no text, """
_DATA_OF: dict[str, Form] = {
    "BROKER_REGISTRATION_CHANGE_RECORD": dict.fromkeys(_FLAGS, whole(-1, 1)),
    "BEGIN_TRANSACTION_RECORD": {"name": Fields.text_or_null},
}
"""and in the records of one type."""


def read_record(place: Place, value: Any) -> Record:
    """A record, without the fields that are not compared. Raises TraceError."""
    f = Fields(place, value, ("type", "version", "data"))
    kind = f.choice("type", tuple(_RECORDS))
    data, readers = (
        Fields(place.at("data"), f.raw("data"), *_RECORDS[kind]),
        {**_DATA, **_DATA_OF.get(kind, {})},
    )
    compared = (name for name in f.raw("data") if f"records[].data.{name}" not in OUTSIDE)
    return (
        kind,
        f.number("version", 0, INT32),
        {name: readers.get(name, Fields.text)(data, name) for name in compared},
    )


def read_response(place: Place, value: Any) -> dict[str, Any]:
    """A response, of whatever kind, with its types checked. Raises TraceError."""
    f = Fields(place, value, (), tuple(_RESPONSE))
    return {name: _RESPONSE[name](f, name) for name in value}


def _removed(f: Fields, name: str) -> dict[str, Any] | None:
    if f.raw(name) is None:
        return None
    return read_form(f.place.at(name), f.raw(name), {"id": Fields.number, "epoch": _BROKER_EPOCH})


def _results(f: Fields, name: str) -> dict[str, str]:
    """By the name of the partition: their order says nothing."""
    form: Form = {"topic": Fields.text, "partition": Fields.number, "error": Fields.text}
    found: dict[str, str] = {}
    for place, item in f.items(name):
        result = read_form(place, item, form)
        partition = f"{result['topic']}-{result['partition']}"
        if partition in found:
            raise place.wrong("a second result for a partition")
        found[partition] = result["error"]
    return found


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
    """A partition where there is a topic."""
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
"""The arguments of an operation, by its name."""

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
"""Arguments that newer recordings have in addition, beside the brokers whose sessions were renewed."""


def read_arguments(place: Place, value: Any, name: str) -> dict[str, Any]:
    """The arguments of an operation that is known. Raises TraceError."""
    newer = {"renewed": Fields.numbers, **_NEWER.get(name, {})}
    found = read_form(place, value, {"name": Fields.text, **OPERATIONS[name]}, newer)
    del found["name"]
    return found


# --- the file ------------------------------------------------------------------------------------------------


def read_controller_trace(path: Path) -> ControllerTrace:
    """Open a recording. Raises TraceError, also while the operations are read."""
    lines = read_lines(path)
    line, first = next(lines)
    place = Place(path, line)
    meta = _meta(Fields(place, first, ("meta",)))
    return ControllerTrace(path, meta, (_operation(Place(path, n), value) for n, value in lines))


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
        meta.get("kafkaVersion"),
        meta.get("controllerId"),
        meta.get("bootstrapRecords", {}),
        meta.get("staticMinIsr", 1),
    )


def _broker_configs(meta: Fields, name: str) -> dict[str, str]:
    """What the controller wrote for all brokers when it became active."""
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
    at_op = place.at("op")
    raw = line.raw("op")
    name = Fields(at_op, raw, ("name",), tuple(raw) if isinstance(raw, dict) else ()).text("name")
    is_known = name in OPERATIONS
    arguments: dict[str, Any] = {}
    if is_known:
        arguments = read_arguments(at_op, raw, name)
    return Operation(
        place.line,
        place,
        line.number("i", 0, INT64),
        line.number("timeMs", 0, INT64),
        line.number("nextOffset", 0, INT64),
        name,
        arguments,
        line.text("error"),
        read_response(place.at("response"), line.raw("response"))
        if is_known and "response" in line
        else None,
        [read_record(at, item) for at, item in line.items("records")],
        read_partitions(line),
        read_brokers(line),
        is_known,
        line.number("elrVersion") if "elrVersion" in line else None,
        read_stale_entries(line) if "elrIndexExtra" in line else [],
    )
