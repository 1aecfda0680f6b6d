"""The arguments of each operation: their fields, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.traces.operations.format import CONFIGS, RECOVERY_STATES, RESOURCES
from highwater.traces.operations.read_state import texts
from highwater.traces.reading.fields import INT32, INT64, Fields

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


__all__ = ["NEWER", "OPERATIONS", "Reader"]
