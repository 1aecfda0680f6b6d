"""The controller's state as it is carried along from one operation to the next.

Brokers are slots, as the rules have them: the ids ``0 .. brokers-1``, and one slot more that stands for all ids
that nobody has; nothing ever registers there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.decisions import Decisions, decisions, effective_min_isr
from highwater.traces.operations.format import MIN_ISR, RESOURCES, UNCLEAN, Key, Meta, Operation

DEFAULTS = {MIN_ISR: "1", UNCLEAN: "false"}
"""What holds where neither the topic nor the brokers are configured."""
UNKNOWN = "unknown broker"
"""Stands for the id in the slot of all ids that nobody has."""


def can_be(key: str, value: str | None) -> bool:
    """Whether a configuration can have a value; None removes it."""
    if value is None:
        return True
    return re.fullmatch(r"[0-9]{1,9}", value) is not None if key == MIN_ISR else value in ("true", "false")


@dataclass
class ControllerState:
    """What the controller knows; partitions, registrations and sessions are values of the rules.

    ``incarnations`` are by broker, ``topic_ids`` and ``topic_configs`` by topic. ``next_offset`` and ``step``
    are None until the first operation. What is in a mapping or a list is never changed, only replaced.
    """

    meta: Meta
    model: Decisions
    last_known_is_elr: bool
    """Whether the field lastKnownElr holds a last known ELR, and not the last known leader."""
    registrations: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    incarnations: dict[int, str] = field(default_factory=dict)
    partitions: dict[Key, dict[str, Any]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, str] = field(default_factory=dict)
    own_configs: dict[str, str] = field(default_factory=dict)
    """The configuration of the controller itself, which goes before that of all brokers."""
    next_offset: int | None = None
    step: int | None = None
    now_ms: int = 0

    @classmethod
    def at_start(cls, meta: Meta, rules: frozenset[str]) -> ControllerState:
        """The state before the first operation of a recording, for these rules."""
        slots = meta.brokers + 1
        model = decisions(slots, rules)
        return cls(
            meta,
            model,
            "last_known_elr" in rules and "last_known_leader" not in rules,
            registrations=[zero(model.t.registration)] * slots,
            sessions=[zero(model.t.session)] * slots,
            broker_configs=dict(meta.broker_configs),
        )

    def copy(self) -> ControllerState:
        """A copy, which goes its own way."""
        own: dict[str, Any] = {
            name: value.copy() for name, value in vars(self).items() if isinstance(value, (dict, list))
        }
        return replace(self, **own)

    def offset_before(self, op: Operation) -> int:
        """The offset of the next record; at the first operation the recorded one."""
        return op.next_offset if self.next_offset is None else self.next_offset

    def follow_records(self, before: ControllerState, op: Operation) -> None:
        """Topics and configurations are those of a state before an operation, and what its records make of them."""
        self.topic_ids, self.topic_configs = dict(before.topic_ids), dict(before.topic_configs)
        self.broker_configs, self.own_configs = dict(before.broker_configs), dict(before.own_configs)
        own = {"": self.broker_configs, str(self.meta.controller_id): self.own_configs}
        for kind, _, data in op.records:
            if kind == "TOPIC_RECORD":
                self.topic_ids[data["name"]] = data["topicId"]
            elif kind == "CONFIG_RECORD" and can_be(data["name"], data["value"]):
                name = data["resourceName"]
                if data["resourceType"] == RESOURCES["TOPIC"]:
                    configs = self.topic_configs[name] = dict(self.topic_configs.get(name, {}))
                else:
                    configs = own.get(name, {})
                if data["value"] is None:
                    configs.pop(data["name"], None)
                else:
                    configs[data["name"]] = data["value"]

    def heard_of(self, brokers: Iterable[int], time_ms: int) -> None:
        """Brokers were heard of at a time, or later."""
        for broker in brokers:
            if broker < self.count:
                session = self.sessions[broker]
                last = max(session["last_contact_ms"], time_ms)
                self.sessions[broker] = {**session, "last_contact_ms": last}

    # --- slots and ids ----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many brokers there are; also the slot of all ids that nobody has."""
        return self.meta.brokers

    def slot(self, broker: int) -> int:
        """The slot of an id."""
        return broker if broker < self.count else self.count

    def ids(self, slots: Iterable[int]) -> list[Any]:
        """The ids of slots."""
        return [UNKNOWN if slot == self.count else slot for slot in slots]

    def leader_id(self, slot: int | None) -> Any:
        """A leader as it is recorded: an id, or -1 for none."""
        return NO_LEADER if slot is None else self.ids([slot])[0]

    def last_known_ids(self, partition: dict[str, Any]) -> list[Any]:
        """The field lastKnownElr: this Kafka keeps the last known leader there, and no last known ELR."""
        if self.last_known_is_elr or partition["last_known_elr"]:
            return self.ids(partition["last_known_elr"])
        return [] if partition["last_known_leader"] is None else self.ids([partition["last_known_leader"]])

    # --- configuration ----------------------------------------------------------------------------

    def config(self, topic: str, name: str) -> str:
        """The value in force for a topic."""
        dynamic = (self.topic_configs.get(topic, {}), self.own_configs, self.broker_configs)
        for configs in (*dynamic, self.meta.static_configs, DEFAULTS):
            if name in configs:
                return configs[name]
        raise AssertionError(f"{name} has no default")

    def min_isr(self, topic: str) -> int:
        """966.2, with the replication factor of the topic's first partition, which is what this Kafka takes."""
        first = self.partitions[min(key for key in self.partitions if key[0] == topic)]
        return effective_min_isr(int(self.config(topic, MIN_ISR)), len(first["replicas"]))

    def unclean_election(self, topic: str) -> bool:
        """Whether a leader may be elected that can lack committed records."""
        return self.config(topic, UNCLEAN) == "true"

    def settings(self, topic: str) -> dict[str, Any]:
        """What the rules about a partition take from the configuration."""
        return {"min_isr": self.min_isr(topic), "unclean_election": self.unclean_election(topic)}


def zero(type_: Any) -> Any:
    """The least value of a type."""
    return type_.decode([n.value for n in type_.zero().nodes])


__all__ = ["DEFAULTS", "UNKNOWN", "ControllerState", "can_be", "zero"]
