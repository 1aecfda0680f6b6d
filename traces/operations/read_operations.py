"""What a line of a recording holds: the state before, arguments, response, records. Anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.traces.operations.format import (
    ANY_TEXT,
    CONFIGS,
    OUTSIDE,
    RECOVERY_STATES,
    RESOURCES,
    Key,
    Record,
)
from highwater.traces.reading.fields import INT32, INT64, Fields, Place


def read_partitions(line: Fields) -> dict[Key, dict[str, Any]]:
    """The partitions of a line, by topic and number. Raises TraceError.

    The members of an ISR are sorted: their order says nothing.
    """
    known = (
        "topic", "partition", "replicas", "isr", "elr", "lastKnownElr", "leader", "leaderEpoch", "partitionEpoch",
        "leaderRecoveryState", "adding", "removing", "effectiveMinIsr", "unclean",
    )  # fmt: skip
    found: dict[Key, dict[str, Any]] = {}
    for place, item in line.items("partitions"):
        f = Fields(place, item, known, ("directories",))
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
        if "directories" in f:
            found[key]["directories"] = texts(f, "directories")
    return found


def read_brokers(line: Fields) -> dict[int, dict[str, Any]]:
    """The registered brokers of a line, by id. Raises TraceError."""
    known = ("id", "epoch", "incarnation", "fenced", "inControlledShutdown", "processAlive")
    found: dict[int, dict[str, Any]] = {}
    for place, item in line.items("brokers"):
        f = Fields(place, item, known, ("lastContactMs", "onlineDirs"))
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
        if "lastContactMs" in f:
            is_none = f.raw("lastContactMs") is None
            found[broker]["lastContactMs"] = None if is_none else f.number("lastContactMs", 0, INT64)
        if "onlineDirs" in f:
            found[broker]["onlineDirs"] = sorted(texts(f, "onlineDirs"))
    return found


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


def texts(f: Fields, name: str) -> list[str]:
    """A list of strings. Raises TraceError."""
    return [Fields(place, {name: item}, (name,)).text(name) for place, item in f.items(name)]


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


def read_record(place: Place, value: Any) -> Record:
    """A record, without the fields that are not compared. Raises TraceError.

    The members of an ISR are sorted: their order says nothing.
    """
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
        elif name == "value" or (name == "name" and kind == "BEGIN_TRANSACTION_RECORD"):
            found[name] = data.text_or_null(name)
        else:
            found[name] = data.text(name)
    return kind, f.number("version", 0, INT32), found


def read_response(place: Place, value: Any) -> dict[str, Any]:
    """A response, of whatever kind, with its types checked. Raises TraceError.

    The members of an ISR are sorted, and results are by the name of the partition: their order says nothing.
    """
    known = (
        "brokerEpoch", "exception", "message", "isCaughtUp", "isFenced", "inControlledShutdown", "shouldShutDown",
        "leaderId", "leaderEpoch", "isr", "partitionEpoch", "leaderRecoveryState", "results", "topicId",
        "removed", "what", "again", "causesFailover",
    )  # fmt: skip
    f = Fields(place, value, (), known)
    found: dict[str, Any] = {}
    for name in value:
        if name == "removed":
            found[name] = _removed(place.at(name), f.raw(name))
        elif name in (
            "again",
            "causesFailover",
            "isCaughtUp",
            "isFenced",
            "inControlledShutdown",
            "shouldShutDown",
        ):
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


def _removed(place: Place, value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    f = Fields(place, value, ("id", "epoch"))
    return {"id": f.number("id"), "epoch": f.number("epoch", -INT64, INT64)}


def _results(f: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, item in f.items("results"):
        result = Fields(place, item, ("topic", "partition", "error"))
        name = f"{result.text('topic')}-{result.number('partition')}"
        if name in found:
            raise place.wrong("a second result for a partition")
        found[name] = result.text("error")
    return found


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
        "brokerEpoch": f.number("brokerEpoch", -INT64, INT64),
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
        "brokerEpoch": f.number("brokerEpoch", -INT64, INT64),
        "leaderEpoch": f.number("leaderEpoch", -INT32, INT32),
        "partitionEpoch": f.number("partitionEpoch", -INT32, INT32),
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


def _config(f: Fields) -> dict[str, Any]:
    key = f.choice("key", CONFIGS)
    kind = f.choice("resourceType", tuple(RESOURCES))
    return {
        "resourceType": kind,
        "resource": f.text("resource"),
        "key": key,
        "value": f.text_or_null("value"),
    }


def _create_topic(f: Fields) -> dict[str, Any]:
    assignments = []
    for place, item in f.items("assignments"):
        assignments.append(Fields(place, {"replicas": item}, ("replicas",)).numbers("replicas"))
    place, configs = f.place.at("configs"), f.raw("configs")
    read = Fields(place, configs, (), CONFIGS)
    found = {key: read.text(key) for key in configs}
    return {"topic": f.text("topic"), "assignments": assignments, "configs": found}


def _unregister(f: Fields) -> dict[str, Any]:
    return {"broker": _id(f, "broker")}


def _assign(f: Fields) -> dict[str, Any]:
    return {
        "broker": _id(f, "broker"),
        "brokerEpoch": f.number("brokerEpoch", -1, INT64),
        "dir": f.text("dir"),
        "dirOnline": f.flag("dirOnline"),
        "topic": f.text("topic"),
        "partition": f.number("partition"),
    }


def _update_features(f: Fields) -> dict[str, Any]:
    return {
        "feature": f.text("feature"),
        "level": f.number("level"),
        "upgradeType": f.choice("upgradeType", ("UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE")),
        "validateOnly": f.flag("validateOnly"),
    }


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
    "unregisterBroker": (("broker",), _unregister),
    "assignReplicasToDirs": (
        ("broker", "brokerEpoch", "dir", "dirOnline", "topic", "partition"), _assign
    ),
    "updateFeatures": (("feature", "level", "upgradeType", "validateOnly"), _update_features),
}  # fmt: skip
"""By the name of an operation: the fields of its arguments, and what reads them."""

NEWER: dict[str, dict[str, Callable[[Fields, str], Any]]] = {
    "registerBroker": {
        "requestVersion": Fields.number,
        "sessionValid": Fields.flag,
        "renewed": Fields.numbers,
        "elrFeatureSupported": Fields.flag,
    },
    "brokerHeartbeat": {"offlineLogDirs": texts, "renewed": Fields.numbers},
    "fenceStaleBroker": {"kind": Fields.text, "meant": Fields.number, "renewed": Fields.numbers},
    "alterPartition": {"renewed": Fields.numbers},
    "electLeaders": {"renewed": Fields.numbers},
    "alterPartitionReassignments": {"allowReplicationFactorChange": Fields.flag, "renewed": Fields.numbers},
    "incrementalAlterConfigs": {"renewed": Fields.numbers},
    "maybeElectUncleanLeaders": {"renewed": Fields.numbers},
    "maybeBalancePartitionLeaders": {"renewed": Fields.numbers},
    "createTopic": {"renewed": Fields.numbers},
    "unregisterBroker": {"renewed": Fields.numbers},
    "assignReplicasToDirs": {"renewed": Fields.numbers},
    "updateFeatures": {"renewed": Fields.numbers},
}
"""Arguments that newer recordings have in addition, and what reads each."""
