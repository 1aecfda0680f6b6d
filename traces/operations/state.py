"""The controller's state between recorded operations, the records of its decisions, and facts that recordings omit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from highwater.model.replication.controller import registrations
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.belief_states import FIELDS
from highwater.traces.operations.read_recording import (
    RECOVERY_STATES,
    RESOURCES,
    Key,
    Operation,
    Record,
    RecordingMeta,
    can_be,
)
from highwater.traces.reports.observed import MIN_ISR, UNCLEAN
from highwater.traces.rules.decisions import (
    UNASSIGNED,
    Decisions,
    decisions,
    default_directory,
    effective_min_isr,
    is_online,
    zero,
)

UNKNOWN = "unknown broker"
"""Replaces the id of any broker that does not exist."""
CLUSTER = ""
"""The resource name of the cluster's default broker configuration."""
Contact = tuple[int, int]
"""The broker id and the broker epoch in a heartbeat."""
Rule = Callable[..., Any]
"""A rule about a partition, from ``Decisions``."""


class DecisionFails(Exception):
    """Raised if the controller's handler throws an exception. The controller then writes no record."""


@dataclass
class ControllerState:
    """The controller's state between operations, as Python values of the model's types.

    - ``registrations``, ``sessions``: by slot (see ``slot``). ``incarnations``: incarnation ids by broker.
    - ``topic_ids``, ``topic_configs``: by topic name. ``broker_configs``: by resource name.
    - ``orders``: the order of each ISR, by which a request that only reorders the ISR is recognized.
    - ``contacts``: the heartbeat tracker, with the time of each contact in ms.
    - ``entries``: the index of ELR members, as the number of entries for (broker, topic, partition).
    - ``without_feature``: True for a broker that does not support eligible.leader.replicas.version.
    - ``listed``: each broker's online log directories. If the recording has no directories, all replicas are online.
    - ``directories``: the log directory of each replica, by partition and broker.
    - ``next_offset``, ``step``: the metadata log's end offset, and the number of the last operation; None at first.

    Values in mappings and lists are replaced, never changed.
    """

    meta: RecordingMeta
    rules: Decisions
    elr_version: int
    last_known_is_elr: bool
    """True if the field lastKnownElr holds a last known ELR, and not the last known leader."""
    registrations: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    incarnations: dict[int, str] = field(default_factory=dict)
    partitions: dict[Key, dict[str, Any]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    orders: dict[Key, list[int]] = field(default_factory=dict)
    contacts: dict[Contact, int] = field(default_factory=dict)
    entries: dict[tuple[int, str, int], int] = field(default_factory=dict)
    without_feature: dict[int, bool] = field(default_factory=dict)
    listed: dict[int, list[str]] = field(default_factory=dict)
    directories: dict[Key, dict[int, str]] = field(default_factory=dict)
    next_offset: int | None = None
    step: int | None = None
    now_ms: int = 0

    @classmethod
    def at_start(cls, meta: RecordingMeta, rules: frozenset[str]) -> ControllerState:
        """The state before the first operation of a recording, with the given rules."""
        slots = meta.brokers + 1
        model = decisions(slots, rules)
        return cls(
            meta,
            model,
            int(meta.elr_enabled),
            "last_known_elr" in rules and "last_known_leader" not in rules,
            registrations=[zero(model.t.registration)] * slots,
            sessions=[zero(model.t.session)] * slots,
            broker_configs={CLUSTER: dict(meta.broker_configs)},
        )

    def copy(self) -> ControllerState:
        """A copy that later changes to this state do not affect."""
        own: dict[str, Any] = {
            name: value.copy() for name, value in vars(self).items() if isinstance(value, (dict, list))
        }
        return replace(self, **own)

    def offset_before(self, op: Operation) -> int:
        """The metadata log's end offset before an operation; for the first operation, the recorded offset."""
        return op.next_offset if self.next_offset is None else self.next_offset

    def follow_records(self, before: ControllerState, op: Operation) -> None:
        """Copy topics and configurations from the state ``before`` an operation, then apply the operation's records."""
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
        """The decision functions for the rules in force.

        From metadata version 4.1 on, the level of the ELR feature decides whether ELR is on.
        """
        if not self.meta.knows_elr_feature:
            return self.rules
        return self.rules.with_elr() if self.elr_version else self.rules.without_elr()

    # --- partitions -------------------------------------------------------------------------------

    def store(
        self, key: Key, partition: dict[str, Any], indexed: bool = True, order: Sequence[int] | None = None
    ) -> None:
        """Store a partition, and update the index of ELR members if ``indexed`` is True.

        ``order`` is the requested order of the ISR. Without it, members keep their order and new members come last.
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
        """True if a list has the members of a partition's ISR in another order."""
        order = self.orders.get(key, [])
        return sorted(members) == sorted(order) and list(members) != order

    def stale_entries(self) -> list[tuple[int, str, int]]:
        """The surplus entries (broker, topic, partition) of the ELR index: those that match no ELR member, sorted."""
        found = []
        for (broker, topic, number), entries in self.entries.items():
            partition = self.partitions.get((topic, number))
            member = partition is not None and broker in partition["elr"]
            found += [(broker, topic, number)] * (entries - member)
        return sorted(found)

    def as_seen(self, key: Key) -> dict[str, Any]:
        """A partition as input of the rules. If they depend on directories, ``offline`` lists its offline replicas."""
        partition = self.partitions[key]
        if "offline" not in partition:
            return partition
        replicas = self.directories.get(key, {}).items()
        offline = [b for b, directory in replicas if not is_online(directory, self.listed.get(b, []))]
        return {**partition, "offline": offline}

    def place(self, key: Key, replicas: Iterable[int]) -> None:
        """Update the log directories of a partition's replicas.

        Existing replicas keep their directory; each new replica gets its broker's default directory.
        """
        before = self.directories.get(key, {})
        self.directories[key] = {
            b: before.get(b, default_directory(self.listed.get(b) or None)) for b in replicas
        }

    def change(
        self,
        key: Key,
        change: dict[str, Any],
        directory: tuple[int, str] | None = None,
        order: Sequence[int] | None = None,
    ) -> list[Record]:
        """Apply the result of a rule (``change``) to a partition; returns its record, or no record if nothing changed.

        ``directory`` is a broker and the new log directory of its replica, ``order`` the requested order of the ISR.
        Raises DecisionFails if the rule throws an exception.
        """
        if change["fails"]:
            raise DecisionFails
        if change["nothing"]:
            return []
        after, written = change["after"], change["written"]
        self.store(key, after, order=order)
        if written["replicas"]:
            self.place(key, after["replicas"])
        if directory is not None:
            self.directories[key] = {**self.directories.get(key, {}), directory[0]: directory[1]}
        data = {"partitionId": key[1], "topicId": self.topic_ids[key[0]]}
        for name, of in FIELDS.items():
            if of != "last_known_elr" and written[of]:
                data[name] = self.ids(after[of])
        if written["last_known_leader"] or written["last_known_elr"]:
            data["lastKnownElr"] = self.last_known_ids(after)
        if written["leader"]:
            data["leader"] = self.leader_id(after["leader"])
        if written["leader_recovery_state"]:
            data["leaderRecoveryState"] = RECOVERY_STATES.index(after["leader_recovery_state"])
        return [("PARTITION_CHANGE_RECORD", self.partition_version, data)]

    def change_all(self, rule: Rule) -> list[Record]:
        """Apply a rule to each partition; returns the records. Raises DecisionFails if the rule throws an exception."""
        before = {key: self.as_seen(key) for key in self.partitions}
        settings = {topic: self.settings(topic) for topic, _ in before}
        records = []
        for key, partition in before.items():
            change = rule(partition=partition, registrations=self.registrations, **settings[key[0]])
            records += self.change(key, change)
        return records

    @property
    def partition_version(self) -> int:
        """The version of partition records: 2, which has the ELR, if the metadata version supports ELR; else 1."""
        return 2 if self.meta.elr_supported else 1

    # --- sessions ---------------------------------------------------------------------------------

    def heard_of(self, broker: int, epoch: int) -> None:
        """Record a heartbeat as contact, even if the controller refuses the heartbeat."""
        self.contacts[(broker, epoch)] = self.now_ms

    def session(self, broker: int) -> dict[str, Any]:
        """A broker's session.

        If the controller has a heartbeat tracker, the session's last contact is that of the registered broker epoch.
        """
        session = self.sessions[broker]
        if not self.tracks_contacts:
            return session
        contact = self.contacts.get((broker, self.registrations[broker]["epoch"]))
        return {**session, "last_contact_ms": contact}

    @property
    def tracks_contacts(self) -> bool:
        """True if the controller has a heartbeat tracker: a session for each broker id and broker epoch."""
        return self.rules.t.on("fenced_broker_has_session")

    @property
    def clock(self) -> dict[str, int]:
        """The present time and the session timeout in ms, as inputs of a rule."""
        return {"now_ms": self.now_ms, "timeout_ms": self.meta.session_timeout_ms}

    # --- slots and ids ----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of brokers in the meta line; also the slot of all unknown broker ids."""
        return self.meta.brokers

    def slot(self, broker: int) -> int:
        """A broker's index in ``registrations`` and ``sessions``. All unknown brokers share the last index."""
        return min(broker, self.count)

    def ids(self, slots: Iterable[int]) -> list[Any]:
        """The recorded form of brokers: their ids, or UNKNOWN for a broker that does not exist."""
        return [UNKNOWN if slot == self.count else slot for slot in slots]

    def leader_id(self, slot: int | None) -> Any:
        """The recorded form of a leader: the id, or -1 for no leader."""
        return NO_LEADER if slot is None else self.ids([slot])[0]

    def last_known_ids(self, partition: dict[str, Any]) -> list[Any]:
        """The recorded form of a partition's field lastKnownElr.

        Some Kafka versions store the last known ELR in this field, others the last known leader.
        """
        if self.last_known_is_elr or partition["last_known_elr"]:
            return self.ids(partition["last_known_elr"])
        return [] if partition["last_known_leader"] is None else self.ids([partition["last_known_leader"]])

    # --- configuration ----------------------------------------------------------------------------

    def set_config(self, of_topic: bool, name: str, key: str, value: str | None) -> None:
        """Set a configuration of a topic, a broker or the cluster. The value None removes the configuration."""
        of = self.topic_configs if of_topic else self.broker_configs
        configs = {k: v for k, v in of.get(name, {}).items() if k != key}
        of[name] = configs if value is None else {**configs, key: value}

    def config(self, topic: str, name: str) -> str:
        """A topic's effective configuration value.

        It is the first that is set: the topic's own, the controller node's, the cluster's default, the static value.
        """
        own = self.broker_configs.get(str(self.meta.controller_id), {})
        cluster = self.broker_configs.get(CLUSTER, {})
        static = {MIN_ISR: str(self.meta.static_min_isr), UNCLEAN: "false"}
        return next(c[name] for c in (self.topic_configs.get(topic, {}), own, cluster, static) if name in c)

    def min_isr(self, topic: str) -> int:
        """966.2. A topic's effective min.insync.replicas: at most the replica count of the topic's first partition."""
        first = self.partitions[min(key for key in self.partitions if key[0] == topic)]
        return effective_min_isr(int(self.config(topic, MIN_ISR)), len(first["replicas"]))

    def unclean_election(self, topic: str) -> bool:
        """True if a topic's setting allows the election of a leader that may lack committed records."""
        return self.config(topic, UNCLEAN) == "true"

    def settings(self, topic: str) -> dict[str, Any]:
        """A topic's configuration, as inputs of the rules about its partitions."""
        return {"min_isr": self.min_isr(topic), "unclean_election": self.unclean_election(topic)}

    # --- recorded form ----------------------------------------------------------------------------

    def recorded_form(self) -> dict[str, Any]:
        """The state as the recording writes it: ``partitions`` by name, and the registered ``brokers`` by id."""
        partitions = {}
        for (topic, number), p in self.partitions.items():
            where = self.directories.get((topic, number), {})
            partitions[f"{topic}-{number}"] = {
                **{name: self.ids(p[name]) for name in ("replicas", "isr", "elr")},
                "lastKnownElr": self.last_known_ids(p),
                "leader": self.leader_id(p["leader"]),
                "leaderEpoch": p["leader_epoch"],
                "partitionEpoch": p["partition_epoch"],
                "leaderRecoveryState": p["leader_recovery_state"],
                **{name: self.ids(p[name]) for name in ("adding", "removing")},
                "effectiveMinIsr": self.min_isr(topic),
                "unclean": self.unclean_election(topic),
                "directories": [where.get(b, UNASSIGNED) for b in p["replicas"]],
            }
        brokers = {
            broker: {
                "epoch": r["epoch"],
                "incarnation": self.incarnations.get(broker, ""),
                "fenced": r["fenced"],
                "inControlledShutdown": r["in_controlled_shutdown"],
                "lastContactMs": self.contacts.get((broker, r["epoch"])),
                "onlineDirs": sorted(self.listed.get(broker, [])),
            }
            for broker, r in enumerate(self.registrations[: self.count])
            if r["registered"]
        }
        return {"partitions": partitions, "brokers": brokers}

    def adopt(self, before: ControllerState, op: Operation) -> None:
        """Replace this state with the recorded state, after a line that does not conform.

        ``before`` is the state before the line. The line's records change topics and configurations. Fields that
        the recording lacks stay. Raises TraceError if the recorded state has a broker that is not in the meta line.
        """
        self.step, self.next_offset = op.step, op.next_offset + len(op.records)
        self.now_ms = max(self.now_ms, op.time_ms)
        self.follow_records(before, op)
        self.partitions = {key: self._adopted(op, key, p) for key, p in op.partitions.items()}
        if op.elr_version is not None:
            self.elr_version, self.entries = op.elr_version, {}
            members = [(b, *key) for key, p in self.partitions.items() for b in p["elr"]]
            for entry in [*members, *op.elr_index]:
                self.entries[entry] = self.entries.get(entry, 0) + 1
        for key, p in op.partitions.items():
            if "directories" in p:
                self.directories[key] = dict(zip(p["replicas"], p["directories"], strict=False))
            self.topic_configs.setdefault(key[0], {})
            self.topic_ids.setdefault(key[0], "")
        self.orders = {key: p["isr"] for key, p in self.partitions.items()}
        for broker in range(self.count):
            self._adopt_broker(broker, op.brokers.get(broker))

    def _adopt_broker(self, broker: int, recorded: dict[str, Any] | None) -> None:
        if recorded is None:
            self.registrations[broker] = zero(self.model.t.registration)
            self.incarnations.pop(broker, None)
            return
        epoch = max(0, recorded["epoch"])
        self.registrations[broker] = {
            "registered": True,
            "epoch": epoch,
            "fenced": recorded["fenced"],
            "in_controlled_shutdown": recorded["inControlledShutdown"],
        }
        self.incarnations[broker] = recorded["incarnation"]
        if recorded.get("onlineDirs"):
            self.listed[broker] = recorded["onlineDirs"]
        if recorded.get("lastContactMs") is not None:
            self.contacts[(broker, epoch)] = recorded["lastContactMs"]

    def _adopted(self, op: Operation, key: Key, p: dict[str, Any]) -> dict[str, Any]:
        place = op.place.at(f"partitions[{key[0]}-{key[1]}]")
        for name in ("replicas", "isr", "elr", "adding", "removing", "lastKnownElr"):
            least = NO_LEADER if name == "lastKnownElr" and not self.last_known_is_elr else 0
            for broker in p[name]:
                if not least <= broker < self.count:
                    raise place.at(name).wrong(
                        f"broker {broker}, where the meta line has {self.count} brokers"
                    )
            if len(p[name]) > self.count:
                raise place.at(name).wrong("more replicas than brokers")
        known, is_elr = p["lastKnownElr"], self.last_known_is_elr
        return {
            **{name: p[name] for name in ("replicas", "isr", "elr", "adding", "removing")},
            "last_known_elr": known if is_elr else [],
            "last_known_leader": known[0] if known and not is_elr else None,
            "leader": None if p["leader"] == NO_LEADER else self.slot(p["leader"]),
            "leader_epoch": max(0, p["leaderEpoch"]),
            "partition_epoch": max(0, p["partitionEpoch"]),
            "leader_recovery_state": p["leaderRecoveryState"],
            **({"offline": []} if self.rules.t.on("offline_directory_check") else {}),
        }


class BrokerDecision:
    """Applies one decision about a broker to the partitions, and builds its records.

    The rules see each partition as it was before the decision. A partition visited twice gets two equal records.
    """

    def __init__(self, state: ControllerState, broker: int) -> None:
        self.state, self.broker = state, broker
        self.before = {key: state.as_seen(key) for key in state.partitions}
        self.registrations = list(state.registrations)
        self.settings = {topic: state.settings(topic) for topic in {t for t, _ in self.before}}
        self._visits = {
            key: state.model.visits(
                entries=state.entries.get((broker, *key), 0), is_member=broker in p["elr"]
            )
            for key, p in self.before.items()
        }

    def visited(self, part: str) -> list[Key]:
        """The partitions with a record in a part of the batch (such as IN_ISR); twice if they have two records."""
        choose: dict[str, Callable[[Key, dict[str, Any]], int]] = {
            registrations.IN_ISR: lambda key, p: self.broker in p["isr"],
            registrations.IN_ELR: lambda key, p: self._visits[key],
            registrations.LEADERLESS: lambda key, p: p["leader"] is None,
        }
        return [key for key, p in self.before.items() for _ in range(choose[part](key, p))]

    def change(self, keys: Iterable[Key], rule: Rule, **more: Any) -> list[Record]:
        """Apply a rule, with the inputs ``more``, to partitions; returns the records.

        Raises DecisionFails if the rule throws an exception.
        """
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
            records += self.state.change(key, change)
        return records

    def batch(self, order: tuple[str, ...], own: list[Record], rule: Rule, **more: Any) -> list[list[Record]]:
        """The records of a batch, one group for each part in ``order``; ``own`` is the group of the broker itself.

        The other groups come from ``rule`` with the inputs ``more``. Raises DecisionFails if the rule throws an
        exception.
        """
        return [
            own if part == registrations.BROKER else self.change(self.visited(part), rule, **more)
            for part in order
        ]

    def registration_change(self, version: int, **fields: int) -> Record:
        """The record that changes fields of the broker's registration."""
        return ("BROKER_REGISTRATION_CHANGE_RECORD", version, self.named(**fields))

    def named(self, **fields: int) -> dict[str, Any]:
        """The data of a record about the broker: id, registered broker epoch, and the given fields."""
        epoch = self.registrations[self.broker]["epoch"]
        return {"brokerId": self.broker, "brokerEpoch": epoch, **fields}


# --- facts that are not recorded ----------------------------------------------------------------------------

Supposition = Callable[[ControllerState], None]
"""Adds to a state a fact that the recording may omit."""


def suppositions(state: ControllerState, op: Operation) -> list[Supposition]:
    """Possible facts that the recording omits and that can explain an operation.

    - A broker has sent an unrecorded heartbeat, so its session is still valid.
    - A broker has replayed more metadata than it reported, so another broker's controlled shutdown can proceed.
    """
    broker, every = op.arguments.get("broker", -1), range(state.count)
    others = [b for b in every if b != broker]
    if state.tracks_contacts:
        # Recordings with a heartbeat tracker have every heartbeat.
        return []
    heard = partial(
        _at_least, field="last_contact_ms", value=max(0, op.time_ms - state.meta.session_timeout_ms)
    )
    if op.name == "registerBroker" and broker in every:
        return [partial(heard, brokers=[broker])]
    if op.name == "fenceStaleBroker":
        return [partial(heard, brokers=others), partial(heard, brokers=every)]
    if op.name == "brokerHeartbeat" and broker in every:
        shutdown = state.sessions[broker]["controlled_shutdown_offset"]
        if shutdown is not None:
            return [partial(_at_least, field="metadata_offset", value=shutdown, brokers=others)]
    return []


def _at_least(state: ControllerState, brokers: Iterable[int], field: str, value: int) -> None:
    for broker in brokers:
        known = state.sessions[broker][field]
        at_least = value if known is None else max(known, value)
        state.sessions[broker] = {**state.sessions[broker], field: at_least}
