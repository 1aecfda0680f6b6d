"""Records that the model's decisions write, and the changes of partitions that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from highwater.model.replication.controller import registrations
from highwater.traces.operations.format import RECOVERY_STATES, RESOURCES, Key, Record, RecordingMeta
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


def _partition_version(meta: RecordingMeta) -> int:
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


Rule = Callable[..., Any]
"""A rule about a partition, out of ``Decisions``."""

Partitions = dict[Key, dict[str, Any]]


class DecisionFails(Exception):
    """A decision throws: it has no records, and whatever else belongs to it is not done."""


def store_change(
    state: ControllerState,
    key: Key,
    change: dict[str, Any],
    directory: tuple[int, str] | None = None,
    order: Sequence[int] | None = None,
) -> list[Record]:
    """Store the partition after a change; its record, unless nothing changes.

    ``directory`` is a broker whose replica is in that directory from now on, ``order`` that of the ISR that was asked
    for. Raises DecisionFails.
    """
    if change["fails"]:
        raise DecisionFails
    if change["nothing"]:
        return []
    state.store(key, change["after"], order=order)
    if change["written"]["replicas"]:
        state.directories.place(key, change["after"]["replicas"])
    if directory is not None:
        state.directories.assign(key, *directory)
    return [partition_change_record(state, key, change)]


def as_seen(state: ControllerState, key: Key, partition: dict[str, Any]) -> dict[str, Any]:
    """A partition as the rules see it: with its replicas in directories that are offline."""
    if "offline" not in partition:
        return partition
    return {**partition, "offline": state.directories.offline(key)}


def change_partitions(
    state: ControllerState, rule: Rule, keys: Iterable[Key], **arguments: Any
) -> list[Record]:
    """The records of a rule over partitions, which change with it. Raises DecisionFails."""
    records = []
    before = {key: as_seen(state, key, state.partitions[key]) for key in keys}
    settings = {topic: state.settings(topic) for topic, _ in before}
    for key, partition in before.items():
        change = rule(partition=partition, registrations=state.registrations, **settings[key[0]], **arguments)
        records += store_change(state, key, change)
    return records


class BrokerDecision:
    """The records of one decision about a broker: all are built for the partitions as they were before it.

    So a partition that is visited twice has two records, of which the second says again what the first said.
    """

    def __init__(self, state: ControllerState, broker: int) -> None:
        self.state, self.broker = state, broker
        self.before = {key: as_seen(state, key, p) for key, p in state.partitions.items()}
        self.registrations = list(state.registrations)
        self.settings = {topic: state.settings(topic) for topic in {t for t, _ in self.before}}
        self._visits = {key: state.visits(broker, key) for key in self.before}

    def visited(self, part: str) -> list[Key]:
        """The partitions of a part of a batch, once for each record."""
        choose: dict[str, Callable[[Key, dict[str, Any]], int]] = {
            registrations.IN_ISR: lambda key, p: self.broker in p["isr"],
            registrations.IN_ELR: lambda key, p: self._visits[key],
            registrations.LEADERLESS: lambda key, p: p["leader"] is None,
        }
        return [key for key, p in self.before.items() for _ in range(choose[part](key, p))]

    def change(self, keys: Iterable[Key], rule: Rule, **more: Any) -> list[Record]:
        """The records of a rule over partitions. Raises DecisionFails."""
        records: list[Record] = []
        for key in keys:
            change = rule(
                partition=self.before[key],
                onto=self.state.partitions[key],
                registrations=self.registrations,
                broker=self.broker,
                **self.settings[key[0]],
                **more,
            )
            records += store_change(self.state, key, change)
        return records

    def batch(self, order: tuple[str, ...], own: list[Record], rule: Rule, **more: Any) -> list[list[Record]]:
        """The records in the order of a batch; ``own`` are those of the broker. Raises DecisionFails."""
        return [
            own if part == registrations.BROKER else self.change(self.visited(part), rule, **more)
            for part in order
        ]
