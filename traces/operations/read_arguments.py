"""The arguments of each operation: their fields, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from highwater.traces.fields import INT32, INT64, Fields, Place
from highwater.traces.operations.format import CONFIGS, MIN_ISR, RECOVERY_STATES, RESOURCES, UNCLEAN

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
        "leaderEpoch": f.number("leaderEpoch", 0, INT32),
        "partitionEpoch": f.number("partitionEpoch", 0, INT32),
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


def _config_value(place: Place, key: str, value: str) -> str:
    if key == MIN_ISR and not re.fullmatch(r"[0-9]{1,9}", value):
        raise place.wrong("not a number of replicas")
    if key == UNCLEAN and value not in ("true", "false"):
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
"""By the name of an operation: the fields of its arguments, and what reads them."""


__all__ = ["OPERATIONS", "Reader"]
