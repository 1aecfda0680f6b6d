"""The controller's state, line by line: brokers, topics, settings, directories; and what has to be supposed of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.operations.format import MIN_ISR, RESOURCES, UNCLEAN, Key, Operation, RecordingMeta
from highwater.traces.rules.decisions import (
    UNASSIGNED,
    Decisions,
    decisions,
    default_directory,
    effective_min_isr,
    is_online,
    zero,
)


@dataclass
class Directories:
    """The directories that brokers list, by broker, and those of a partition's replicas, by partition and broker.

    A broker that lists none is one of a recording without directories: all its replicas are online.
    """

    listed: dict[int, list[str]] = field(default_factory=dict)
    replicas: dict[Key, dict[int, str]] = field(default_factory=dict)

    def copy(self) -> Directories:
        """A copy, which goes its own way."""
        return replace(self, listed=self.listed.copy(), replicas=self.replicas.copy())

    def place(self, key: Key, replicas: Iterable[int]) -> None:
        """The replicas of a partition: those that stay keep their directories, new ones get their broker's default."""
        before = self.replicas.get(key, {})
        self.replicas[key] = {
            b: before.get(b, default_directory(self.listed.get(b) or None)) for b in replicas
        }

    def assign(self, key: Key, broker: int, directory: str) -> None:
        """A replica is in a directory."""
        self.replicas[key] = {**self.replicas.get(key, {}), broker: directory}

    def of(self, key: Key, replicas: Iterable[int]) -> list[str]:
        """The directories of a partition's replicas, in their order."""
        return [self.replicas.get(key, {}).get(b, UNASSIGNED) for b in replicas]

    def offline(self, key: Key) -> list[int]:
        """The replicas of a partition in a directory that their broker does not have any more."""
        replicas = self.replicas.get(key, {}).items()
        return [b for b, directory in replicas if not is_online(directory, self.listed.get(b, []))]

    def within(self, broker: int, directory: str) -> list[Key]:
        """The partitions with the broker's replica in a directory."""
        return [key for key, replicas in self.replicas.items() if replicas.get(broker) == directory]


UNKNOWN = "unknown broker"
"""Stands for the id in the slot of all ids that nobody has."""

CLUSTER = ""
"""The name of the configuration of all brokers."""

Contact = tuple[int, int]
"""A broker and its epoch, as its heartbeats give them."""


@dataclass
class ControllerState:
    """What the controller knows; partitions, registrations and sessions are values of the rules.

    ``incarnations`` are by broker, ``topic_ids`` and ``topic_configs`` by topic, ``broker_configs`` by the name of the
    resource. ``next_offset`` and ``step`` are None until the first operation. ``orders`` are the orders of the ISRs, of
    which only a request with the same members in another order knows. ``contacts`` are the sessions of the
    heartbeat tracker, ``entries`` the index of ELR members, ``without_feature`` the brokers that do not know
    eligible.leader.replicas.version. What is in a mapping or a list is never changed, only replaced.
    """

    meta: RecordingMeta
    rules: Decisions
    elr_version: int
    last_known_is_elr: bool
    """Whether the field lastKnownElr holds a last known ELR, and not the last known leader."""
    registrations: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    directories: Directories
    incarnations: dict[int, str] = field(default_factory=dict)
    partitions: dict[Key, dict[str, Any]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    orders: dict[Key, list[int]] = field(default_factory=dict)
    contacts: dict[Contact, int] = field(default_factory=dict)
    entries: dict[tuple[int, str, int], int] = field(default_factory=dict)
    without_feature: dict[int, bool] = field(default_factory=dict)
    next_offset: int | None = None
    step: int | None = None
    now_ms: int = 0

    @classmethod
    def at_start(cls, meta: RecordingMeta, rules: frozenset[str]) -> ControllerState:
        """The state before the first operation of a recording, for these rules."""
        slots = meta.brokers + 1
        model = decisions(slots, rules)
        return cls(
            meta,
            model,
            int(meta.elr_enabled),
            "last_known_elr" in rules and "last_known_leader" not in rules,
            registrations=[zero(model.t.registration)] * slots,
            sessions=[zero(model.t.session)] * slots,
            directories=Directories(),
            broker_configs={CLUSTER: dict(meta.broker_configs)},
        )

    def copy(self) -> ControllerState:
        """A copy, which goes its own way."""
        own: dict[str, Any] = {
            name: value.copy()
            for name, value in vars(self).items()
            if isinstance(value, (dict, list, Directories))
        }
        return replace(self, **own)

    def offset_before(self, op: Operation) -> int:
        """The offset of the next record; at the first operation the recorded one."""
        return op.next_offset if self.next_offset is None else self.next_offset

    def follow_records(self, before: ControllerState, op: Operation) -> None:
        """Topics and configurations are those of a state before an operation, and what its records make of them."""
        self.topic_ids, self.topic_configs = dict(before.topic_ids), dict(before.topic_configs)
        self.broker_configs = dict(before.broker_configs)
        for kind, _, data in op.records:
            if kind == "TOPIC_RECORD":
                self.topic_ids[data["name"]] = data["topicId"]
            elif kind == "CONFIG_RECORD" and can_be(data["name"], data["value"]):
                of_topic = data["resourceType"] == RESOURCES["TOPIC"]
                self.set_config(of_topic, data["resourceName"], data["name"], data["value"])

    @property
    def model(self) -> Decisions:
        """What is decided now: without ELR where a feature of that name is at level 0."""
        if not self.meta.knows_elr_feature:
            return self.rules
        return self.rules.with_elr() if self.elr_version else self.rules.without_elr()

    @property
    def nobody(self) -> dict[str, Any]:
        """The registration and the session of a broker that is not registered."""
        t = self.rules.t
        return {"registration": zero(t.registration), "session": zero(t.session)}

    # --- partitions -------------------------------------------------------------------------------

    def store(
        self, key: Key, partition: dict[str, Any], indexed: bool = True, order: Sequence[int] | None = None
    ) -> None:
        """Store a partition; the index of ELR members follows, unless the change passes it by.

        ``order`` is that of the ISR that was asked for; else the members stay in their order, new ones behind.
        """
        before = self.partitions.get(key, self.model.no_partition)
        self.partitions[key] = partition
        known = order if order is not None else self.orders.get(key, partition["replicas"])
        self.orders[key] = [b for b in dict.fromkeys([*known, *partition["isr"]]) if b in partition["isr"]]
        if not indexed:
            return
        topic, number = key
        for broker in {*before["elr"], *partition["elr"]}:
            found = self.model.entries_after(
                entries=self.entries.get((broker, topic, number), 0),
                was_member=broker in before["elr"],
                is_member=broker in partition["elr"],
            )
            self.entries[(broker, topic, number)] = found["own"]
            if found["astray"]:
                first = (broker, topic, 0)
                self.entries[first] = self.entries.get(first, 0) + found["astray"]

    def reorders(self, key: Key, members: Sequence[int]) -> bool:
        """Whether a list has the members of a partition's ISR in another order."""
        order = self.orders.get(key, [])
        return sorted(members) == sorted(order) and list(members) != order

    def visits(self, broker: int, key: Key) -> int:
        """How often a partition is changed because of a broker in its ELR."""
        topic, number = key
        found: int = self.model.visits(
            entries=self.entries.get((broker, topic, number), 0),
            is_member=broker in self.partitions[key]["elr"],
        )
        return found

    def stale_entries(self) -> list[tuple[int, str, int]]:
        """The entries of the index of ELR members that no partition has, one for each that is too many."""
        found = []
        for (broker, topic, number), entries in self.entries.items():
            partition = self.partitions.get((topic, number))
            member = partition is not None and broker in partition["elr"]
            found += [(broker, topic, number)] * (entries - member)
        return sorted(found)

    # --- sessions ---------------------------------------------------------------------------------

    def heard_of(self, broker: int, epoch: int) -> None:
        """A heartbeat arrives, whatever the controller makes of it."""
        self.contacts[(broker, epoch)] = self.now_ms

    def session(self, broker: int) -> dict[str, Any]:
        """A broker's session, with the last contact of its registered epoch."""
        session = self.sessions[broker]
        if not self.tracks_contacts:
            return session
        contact = self.contacts.get((broker, self.registrations[broker]["epoch"]))
        return {**session, "last_contact_ms": contact}

    @property
    def tracks_contacts(self) -> bool:
        """Whether sessions are those of the heartbeat tracker, by broker and epoch."""
        return self.rules.t.on("fenced_broker_has_session")

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

    def set_config(self, of_topic: bool, name: str, key: str, value: str | None) -> None:
        """A configuration of a topic, or of a broker or the cluster, is set, or removed by None."""
        of = self.topic_configs if of_topic else self.broker_configs
        configs = {k: v for k, v in of.get(name, {}).items() if k != key}
        of[name] = configs if value is None else {**configs, key: value}

    def config(self, topic: str, name: str) -> str:
        """The value in force for a topic: its own, the controller's, that of all brokers, else the static one."""
        own = self.broker_configs.get(str(self.meta.controller_id), {})
        cluster = self.broker_configs.get(CLUSTER, {})
        static = {MIN_ISR: str(self.meta.static_min_isr), UNCLEAN: "false"}
        for configs in (self.topic_configs.get(topic, {}), own, cluster, static):
            if name in configs:
                return configs[name]
        raise KeyError(name)

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


def can_be(key: str, value: str | None) -> bool:
    """Whether a configuration can have a value; None removes it."""
    if value is None:
        return True
    return re.fullmatch(r"[0-9]{1,9}", value) is not None if key == MIN_ISR else value in ("true", "false")


Supposition = Callable[[ControllerState], None]
"""Makes the state what it is if something was not recorded."""


def suppositions(state: ControllerState, op: Operation) -> list[Supposition]:
    """Each possibility assumes as little as explains the operation.

    A broker can have been heard of since its last recorded heartbeat, so that its session still lives; and it
    can have replayed more metadata than it last reported, so that another's controlled shutdown is granted.
    """
    broker, every = op.arguments.get("broker", -1), range(state.count)
    others = [b for b in every if b != broker]
    if state.tracks_contacts:
        # Every heartbeat is recorded.
        return []
    if op.name == "registerBroker" and broker in every:
        return [partial(_heard_of, brokers=[broker], now_ms=op.time_ms)]
    if op.name == "fenceStaleBroker":
        return [partial(_heard_of, brokers=heard, now_ms=op.time_ms) for heard in (others, every)]
    if op.name == "brokerHeartbeat" and broker in every:
        shutdown = state.sessions[broker]["controlled_shutdown_offset"]
        if shutdown is not None:
            return [partial(_have_replayed, brokers=others, offset=shutdown)]
    return []


def _heard_of(state: ControllerState, brokers: Iterable[int], now_ms: int) -> None:
    earliest = max(0, now_ms - state.meta.session_timeout_ms)
    for broker in brokers:
        session = state.sessions[broker]
        heard = session["last_contact_ms"]
        state.sessions[broker] = {
            **session,
            "last_contact_ms": earliest if heard is None else max(heard, earliest),
        }


def _have_replayed(state: ControllerState, brokers: Iterable[int], offset: int) -> None:
    for broker in brokers:
        session = state.sessions[broker]
        reported = session["metadata_offset"]
        at_least = offset if reported is None else max(reported, offset)
        state.sessions[broker] = {**session, "metadata_offset": at_least}
