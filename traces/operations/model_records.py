"""The model's records, with the types, versions and fields of the metadata log."""

from __future__ import annotations

from typing import Any

from highwater.traces.operations.format import RECOVERY_STATES, RESOURCES, Key, Meta, Record
from highwater.traces.operations.state import ControllerState

_LISTS = (
    ("isr", "isr"),
    ("eligibleLeaderReplicas", "elr"),
    ("replicas", "replicas"),
    ("addingReplicas", "adding"),
    ("removingReplicas", "removing"),
)


def partition_change_record(state: ControllerState, key: Key, change: dict[str, Any]) -> Record:
    """A change of a partition, with exactly the fields that the rule writes."""
    after, written = change["after"], change["written"]
    data = {"partitionId": key[1], "topicId": state.topic_ids[key[0]]}
    for name, field_name in _LISTS:
        if written[field_name]:
            data[name] = state.ids(after[field_name])
    if written["last_known_leader"] or written["last_known_elr"]:
        data["lastKnownElr"] = state.last_known_ids(after)
    if written["leader"]:
        data["leader"] = state.leader_id(after["leader"])
    if written["leader_recovery_state"]:
        data["leaderRecoveryState"] = RECOVERY_STATES.index(after["leader_recovery_state"])
    return ("PARTITION_CHANGE_RECORD", _partition_version(state.meta), data)


def partition_record(
    state: ControllerState, number: int, topic_id: str | None, partition: dict[str, Any]
) -> Record:
    """A new partition."""
    data = {
        "partitionId": number,
        "topicId": topic_id,
        "replicas": state.ids(partition["replicas"]),
        "isr": state.ids(partition["isr"]),
        "addingReplicas": state.ids(partition["adding"]),
        "removingReplicas": state.ids(partition["removing"]),
        "leader": state.leader_id(partition["leader"]),
        "leaderEpoch": partition["leader_epoch"],
        "partitionEpoch": partition["partition_epoch"],
    }
    return ("PARTITION_RECORD", _partition_version(state.meta), data)


def _partition_version(meta: Meta) -> int:
    """Version 2 has the ELR."""
    return 2 if meta.elr_supported else 1


def topic_record(topic: str, topic_id: str | None) -> Record:
    """A new topic."""
    return ("TOPIC_RECORD", 0, {"name": topic, "topicId": topic_id})


def config_record(kind: str, name: str, key: str, value: str | None) -> Record:
    """A configuration of a topic or of the brokers; a value of None removes it."""
    data = {"resourceType": RESOURCES[kind], "resourceName": name, "name": key, "value": value}
    return ("CONFIG_RECORD", 0, data)


def register_broker_record(broker: int, incarnation: str, registration: dict[str, Any]) -> Record:
    """A registration of a broker."""
    data = {
        "brokerId": broker,
        "incarnationId": incarnation,
        "brokerEpoch": registration["epoch"],
        "fenced": registration["fenced"],
        "inControlledShutdown": registration["in_controlled_shutdown"],
    }
    return ("REGISTER_BROKER_RECORD", 3, data)


def unregister_broker_record(state: ControllerState, broker: int) -> Record:
    """A broker is removed from the cluster."""
    data = {"brokerId": broker, "brokerEpoch": state.registrations[broker]["epoch"]}
    return ("UNREGISTER_BROKER_RECORD", 0, data)


def feature_record(name: str, level: int) -> Record:
    """A feature has another level."""
    return ("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})


def clear_elr_record(topic: str) -> Record:
    """What is known of the ELR of a topic's partitions is emptied; with an empty name, that of all topics."""
    return ("CLEAR_ELR_RECORD", 0, {"topicName": topic})


def log_dirs_record(state: ControllerState, broker: int) -> Record:
    """A registered broker has lost log directories; which it has left is not compared here."""
    data = {"brokerId": broker, "brokerEpoch": state.registrations[broker]["epoch"]}
    return ("BROKER_REGISTRATION_CHANGE_RECORD", 2, data)


def fencing_record(state: ControllerState, broker: int, fenced: bool) -> Record:
    """A registered broker is fenced, or is no longer."""
    return _registration_change(state, broker, 0, "fenced", 1 if fenced else -1)


def controlled_shutdown_record(state: ControllerState, broker: int) -> Record:
    """A registered broker begins its controlled shutdown."""
    return _registration_change(state, broker, 1, "inControlledShutdown", 1)


def _registration_change(state: ControllerState, broker: int, version: int, name: str, value: int) -> Record:
    data = {"brokerId": broker, "brokerEpoch": state.registrations[broker]["epoch"], name: value}
    return ("BROKER_REGISTRATION_CHANGE_RECORD", version, data)
