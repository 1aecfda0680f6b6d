"""Metadata records of Kafka's controller: a function for each type, with a usual value for most fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from highwater.traces.kafka.values import LATEST, encode

Data = dict[str, Any]
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
METADATA, ELR = "metadata.version", "eligible.leader.replicas.version"
OF_TOPIC, OF_BROKER = 2, 4
"""The types of resources that a setting is of; a setting of the broker "" is the cluster's."""


def feature(name: str, level: int) -> bytes:
    return encode("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})


def setting(name: str, value: str | None, resource: str = "t", kind: int = OF_TOPIC) -> bytes:
    return encode("CONFIG_RECORD", 0, setting_data(name, value, resource, kind))


def setting_data(name: str, value: str | None, resource: str, kind: int = OF_TOPIC) -> Data:
    return {"resourceType": kind, "resourceName": resource, "name": name, "value": value}


def clear(topic: str = "t") -> bytes:
    return encode("CLEAR_ELR_RECORD", 0, {"topicName": topic})


def topic(name: str, identity: str) -> bytes:
    return encode("TOPIC_RECORD", 0, {"name": name, "topicId": identity})


def removed_topic(identity: str) -> bytes:
    return encode("REMOVE_TOPIC_RECORD", 0, {"topicId": identity})


def together(*values: bytes, name: str | None = None) -> list[bytes]:
    """Records of one transaction: one decision, though each is a batch of its own."""
    begin = encode("BEGIN_TRANSACTION_RECORD", 0, {} if name is None else {"name": name})
    return [begin, *values, encode("END_TRANSACTION_RECORD", 0, {})]


def registration(broker: int, epoch: int, incarnation: str, /, **changed: Any) -> bytes:
    return encode("REGISTER_BROKER_RECORD", 3, registration_data(broker, epoch, incarnation, **changed))


def registration_data(broker: int, epoch: int, incarnation: str, /, **changed: Any) -> Data:
    """The fields of a record that registers a fenced broker."""
    return {
        "brokerId": broker, "isMigratingZkBroker": False, "incarnationId": incarnation, "brokerEpoch": epoch,
        "endPoints": [], "features": [], "rack": None, "fenced": True, "inControlledShutdown": False, "logDirs": [],
        **changed,
    }  # fmt: skip


def registration_change(broker: int, epoch: int, version: int = 1, /, **changed: Any) -> bytes:
    data = {"brokerId": broker, "brokerEpoch": epoch, **changed}
    return encode("BROKER_REGISTRATION_CHANGE_RECORD", version, data, lenient=True)


def unregistration(broker: int, epoch: int) -> bytes:
    return encode("UNREGISTER_BROKER_RECORD", 0, {"brokerId": broker, "brokerEpoch": epoch})


def controller(number: int, incarnation: str, features: Sequence[Data], **changed: Any) -> bytes:
    data = {"controllerId": number, "incarnationId": incarnation, "zkMigrationReady": False, "endPoints": []}
    return encode("REGISTER_CONTROLLER_RECORD", 0, {**data, "features": features, **changed})


def endpoint(host: str, port: int, name: str = "PLAINTEXT") -> list[Data]:
    return [{"name": name, "host": host, "port": port, "securityProtocol": 0}]


def supported(levels: Mapping[str, tuple[int, int]]) -> list[Data]:
    """The features that a node supports, from the least and the greatest level of each."""
    return [
        {"name": name, "minSupportedVersion": low, "maxSupportedVersion": high}
        for name, (low, high) in levels.items()
    ]


def partition(
    number: int, topic_id: str, replicas: Sequence[int], version: int = 0, /, **changed: Any
) -> bytes:
    data = partition_data(number, topic_id, replicas, **changed)
    return encode("PARTITION_RECORD", version, data, lenient=True)


def partition_data(number: int, topic_id: str, replicas: Sequence[int], /, **changed: Any) -> Data:
    """The fields of a record that creates a partition, all replicas in the ISR and the first one its leader."""
    return {
        "partitionId": number, "topicId": topic_id, "replicas": list(replicas), "isr": list(replicas),
        "removingReplicas": [], "addingReplicas": [], "leader": replicas[0], "leaderEpoch": 0, "partitionEpoch": 0,
        **changed,
    }  # fmt: skip


def partition_change(
    number: int, topic_id: str, version: int = LATEST["PARTITION_CHANGE_RECORD"], /, **changed: Any
) -> bytes:
    data = {"partitionId": number, "topicId": topic_id, **changed}
    return encode("PARTITION_CHANGE_RECORD", version, data, lenient=True)
