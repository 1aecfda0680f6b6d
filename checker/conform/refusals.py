"""Requests with epochs and ids that are stale or unknown, sessions that end later, and the deletion of the topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from highwater.checker.conform.kafka_request import Event, ExpectedAnswer, KafkaRequest, Operation
from highwater.model.language import Number, State, where
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import Error

_UNKNOWN: dict[str, Operation] = {
    "electLeaders": {"type": "PREFERRED"},
    "alterPartitionReassignments": {"replicas": None},
}
"""Operators' requests about a partition, with the fields that they need."""


def unknown_ids(brokers: Iterable[int]) -> Iterator[KafkaRequest]:
    """Requests about a topic or a partition that does not exist, and brokers' requests with a stale broker epoch."""
    nowhere: tuple[Operation, ...] = {"topic": "none"}, {"partition": 9}
    by_id = Error.UNKNOWN_TOPIC_ID, Error.UNKNOWN_TOPIC_OR_PARTITION
    for name, fields in _UNKNOWN.items():
        for place in nowhere:
            yield _refused({"name": name, **fields, **place}, Error.UNKNOWN_TOPIC_OR_PARTITION)
    yield _refused({"name": "deleteTopic", **nowhere[0]}, Error.UNKNOWN_TOPIC_ID)
    yield _refused({"name": "unregisterBroker", "broker": 77}, Error.BROKER_ID_NOT_REGISTERED)
    for broker in brokers:
        for place, error in zip(nowhere, by_id, strict=True):
            for name in ("alterPartition", "assignDirectory"):
                op = {"name": name, "broker": broker, "newIsr": [broker], "environment": True, **place}
                yield _refused(op, error, broker)
        for by in (-1, 1):
            op = {"broker": broker, "brokerEpochBy": by, "environment": True}
            yield _refused({"name": "assignDirectory", **op}, Error.STALE_BROKER_EPOCH)
        yield _refused(
            {"name": "brokerHeartbeat", "broker": broker, "brokerEpochBy": -1}, Error.STALE_BROKER_EPOCH
        )


def _refused(op: Operation, error: Number, sender: int | None = None) -> KafkaRequest:
    """A request that changes nothing. If the broker ``sender`` is not registered, its epoch counts as stale."""

    def expect(p: Controller, s: Any) -> ExpectedAnswer:
        if sender is None:
            return ExpectedAnswer(error)
        registered = s.registrations[p.t.broker.lift(sender)].registered
        return ExpectedAnswer(where(registered, error, Error.STALE_BROKER_EPOCH))

    return KafkaRequest(op, expect)


def sessions(heartbeat: KafkaRequest, ends: KafkaRequest) -> Iterator[KafkaRequest]:
    """A heartbeat, and the controller's look for ended sessions just before and just after the end of the session."""

    def stays(p: Controller, before: State, s: State) -> ExpectedAnswer:
        return ExpectedAnswer(Error.NONE)

    def ended(p: Controller, before: State, s: State) -> ExpectedAnswer:
        return ends.expect(p, s)

    later: tuple[tuple[int, Event], ...] = ((-1, stays), (1, ended))
    for ms, event in later:
        yield KafkaRequest({**heartbeat.operation, "later": ms}, heartbeat.expect, then=event)


def after_unregistration(broker: int, unregister: KafkaRequest) -> KafkaRequest:
    """A heartbeat of a broker that an operator has removed."""

    def refused(p: Controller, before: State, s: State) -> ExpectedAnswer:
        return ExpectedAnswer(Error.STALE_BROKER_EPOCH)

    op = {"name": "brokerHeartbeat", "broker": broker, "unregistered": True, "environment": True}

    def expect(p: Controller, s: State) -> ExpectedAnswer:
        unregister.expect(p, s)
        return ExpectedAnswer(Error.NONE)

    return KafkaRequest(op, expect, then=refused)


def deletion() -> KafkaRequest:
    """The topic is deleted. Later heartbeats, ends of sessions and periodic tasks work; then the bridge reverts."""
    return KafkaRequest({"name": "afterDeletion"}, lambda p, s: ExpectedAnswer(Error.NONE))
