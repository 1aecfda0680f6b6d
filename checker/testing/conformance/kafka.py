"""An adapter for Kafka's own controller, for long runs with more brokers than can be explored (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.kafka_request import instance_key
from highwater.checker.conform.requests import requests_of, setup_of
from highwater.checker.scenarios.request import Subject, asked
from highwater.checker.testing.conformance.lockstep import Adapter, AdapterError, Contract, Outcome
from highwater.model.replication.controller import Controller

CONTRACT = Contract(
    operations=[
        "alter_partition", "fence", "unfence", "start_controlled_shutdown", "register", "elect_leader",
        "maybe_elect_unclean_leader", "maybe_balance_leader", "change_min_isr", "enable_unclean_election",
    ],
    answers={
        "the leader is in the ISR": "INVALID_REQUEST",
        "no member is fenced or shutting down": "INELIGIBLE_REPLICA",
        "every member's broker epoch is the registered one": "INELIGIBLE_REPLICA",
        "the preferred replica does not lead already": "ELECTION_NOT_NEEDED",
        "there is no leader, or the preferred replica is requested": "ELECTION_NOT_NEEDED",
    },
    idle=["something changes"],
)  # fmt: skip
"""The operations that controllers of every version have, and the errors with which they refuse operations."""

_SETS = ("adding", "removing", "isr", "elr")


class KafkaController(Adapter):
    """The unmodified control managers of a Kafka release, through a running bridge.

    ``subject`` and ``settings`` are as for ``conformance_machine``. Raises InputError if the protocol is not the
    controller's.
    """

    def __init__(self, bridge: Bridge, subject: Subject, **settings: Any) -> None:
        model = asked(subject, **settings).without_goals().model()
        self.bridge, protocol = bridge, model.protocol
        self.requests = {r.action: r.operation for r in requests_of(protocol) if r.action is not None}
        assert isinstance(protocol, Controller)
        self.setup, self.brokers = setup_of(protocol), protocol.p.brokers
        self.names = {code: name for name, code in bridge.errors.items()}
        self.path: list[dict[str, Any]] = []
        self.seen: dict[str, int] = {}

    def reset(self, state: Mapping[str, Any]) -> None:
        """Start with a fresh controller."""
        self.path = []
        self._send({"name": "maybeBalancePartitionLeaders"})  # changes nothing: the preferred replica leads

    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        """Repeat all earlier successful requests on a fresh controller, and then send the request for the operation."""
        key = instance_key(operation, dict(parameters))
        if key not in self.requests:
            raise AdapterError(f"no request of Kafka's controller stands for {operation} {dict(parameters)}")
        error = self._send(self.requests[key])
        if error == "NONE":
            self.path.append(self.requests[key])
        return Outcome(error == "NONE", None if error == "NONE" else error)

    def _send(self, request: dict[str, Any]) -> str:
        answer = self.bridge.ask({"explain": {"scenario": self.setup, "path": self.path, "op": request}})
        self.seen = answer["after"]
        return self.names[answer["error"]]

    def observe(self) -> Mapping[str, Any]:
        """The partition, the registrations and the settings. For a topic with two partitions: both partitions."""
        found: dict[str, Any] = {
            "registrations": [self._registration(broker) for broker in range(self.brokers)],
            "partition": self._partition(""),
            "min_insync_replicas": self.seen["min_insync_replicas"],
            "unclean_election": bool(self.seen["unclean_election"]),
        }
        if "second.partition.leader" in self.seen:
            found["second"] = {"partition": self._partition("second.")}
        return found

    def _registration(self, broker: int) -> dict[str, Any]:
        names = ("registered", "epoch", "fenced", "in_controlled_shutdown")
        of = {name: self.seen[f"registrations[{broker}].{name}"] for name in names}
        return {name: value if name == "epoch" else bool(value) for name, value in of.items()}

    def _partition(self, prefix: str) -> dict[str, Any]:
        of = {
            name: self.seen[f"{prefix}partition.{name}"] for name in (*_SETS, "leader", "last_known_leader")
        }
        found: dict[str, Any] = {
            name: [broker for broker in range(self.brokers) if of[name] >> broker & 1] for name in _SETS
        }
        found["leader"] = None if of["leader"] < 0 else of["leader"]
        found["last_known_leader"] = None if of["last_known_leader"] < -1 else of["last_known_leader"]
        for name in ("leader_epoch", "partition_epoch"):
            found[name] = self.seen[f"{prefix}partition.{name}"]
        return found
