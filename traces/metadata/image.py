"""The metadata image: brokers, topics, partitions and settings, and the log directories of replicas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.traces.kafka.values import DamagedRecord, UnknownRecord, number_and_topic
from highwater.traces.metadata.beliefs.belief_states import (
    BeliefState,
    Binding,
    CannotFollow,
    Content,
    Transition,
    with_brokers,
)
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS
from highwater.traces.metadata.beliefs.evidence import (
    BrokerChange,
    Brokers,
    Change,
    Flags,
    Observation,
    Placed,
    TopicSettings,
)
from highwater.traces.reports.observed import (
    MIN_ISR,
    UNCLEAN,
    Followers,
    PartitionState,
    Resized,
    SettingChange,
)
from highwater.traces.rules.decisions import MIGRATING, default_directory, effective_min_isr, is_online

# --- partitions, topics, brokers ---


class Partition:
    """A partition: its belief state, the brokers of the slots, and its epochs.

    ``key`` names the partition in records. ``directories`` are its replicas' log directories, in the replicas' order;
    empty if unknown. ``topic`` is None for the placeholder ``Broker.partition``. ``state`` is set if a watch tracks the
    partition. ``under_min_isr_since`` and ``leaderless_since`` are times in ms. ``resized`` is the last change of
    min.insync.replicas while under min ISR. It becomes None when the ISR reaches the former min ISR. ``followers`` is
    set at an election with a finding.
    """

    __slots__ = (
        "belief", "binding", "directories", "followers", "key", "leader_epoch", "leaderless_since", "number",
        "partition_epoch", "resized", "state", "topic", "under_min_isr_since",
    )  # fmt: skip

    def __init__(
        self, topic: TopicImage | None, number: int, belief: BeliefState, binding: Binding, key: bytes = b""
    ) -> None:
        self.topic, self.number, self.key = topic, number, key
        self.belief, self.binding = belief, binding
        self.directories: tuple[str, ...] = ()
        self.leader_epoch = self.partition_epoch = 0
        self.state: PartitionState | None = None
        self.under_min_isr_since: int | None = None
        self.leaderless_since: int | None = None
        self.resized: Resized | None = None
        self.followers: Followers | None = None

    @property
    def observed(self) -> PartitionState:
        """The partition as the metadata log has it; sets in the order of the replicas."""
        return replace(
            with_brokers(self.belief.observed, self.binding.brokers),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )

    @property
    def replicas(self) -> Brokers:
        """The partition's replicas as broker ids, in their order."""
        return tuple([self.binding.brokers[slot] for slot in self.belief.observed.replicas])

    def directory(self, broker: int) -> str | None:
        """The log directory of a broker's replica; None if it is unknown, or the broker is no replica."""
        if not self.directories:
            return None
        return next((d for b, d in zip(self.replicas, self.directories, strict=False) if b == broker), None)

    @property
    def topic_id(self) -> str:
        """The id of the partition's topic; empty for a broker's placeholder."""
        found = number_and_topic(self.key)
        return "" if found is None else found[1]

    @property
    def name(self) -> str:
        """Topic, dash, number, as Kafka writes it; empty for a broker's placeholder."""
        return "" if self.topic is None else f"{self.topic.name}-{self.number}"

    def transition(self, content: Content) -> Transition | None:
        """The cached transition for an observation with this ``belief_states.content``; None if none is cached."""
        return self.belief.transitions.get(self.binding.symbols.get(content))

    def transition_by(self, contents: Sequence[Content]) -> Transition | None:
        """The cached transition for several observations, given by their contents; None if none is cached."""
        return self.belief.transitions.get(tuple(map(self.binding.symbols.get, contents)))

    def advance(self, transition: Transition) -> None:
        """Adopt the belief state after a transition, and add the transition's growth to the epochs."""
        self.belief = transition.after
        self.partition_epoch += transition.changes
        self.leader_epoch += transition.bumps


@dataclass(eq=False)
class TopicImage:
    """A topic with its partitions by number."""

    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)


@dataclass
class Broker:
    """A broker's registration, with the log directories that it lists.

    ``partition`` is a placeholder partition whose only replica is this broker; it tracks the registration in the model.
    ``supported`` has the lowest and the highest level of each feature that the broker supports.
    """

    epoch: int
    incarnation: str
    flags: Flags
    directories: tuple[str, ...] = ()
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    partition: Partition | None = None


# --- image ---

TOPIC, BROKER = 2, 4
"""Kinds of resources in a ConfigRecord."""

_MIN_ISR = re.compile(r"\s*\+?0*[1-9][0-9]{0,8}\s*", re.ASCII)
_UNCLEAN = re.compile(r"\s*(true|false)\s*", re.ASCII | re.IGNORECASE)


def undefined_setting(name: str, value: str | None) -> str | None:
    """The allowed values of a setting, in words, if the given value is not allowed; None if it is allowed."""
    pattern, defined = (
        (_MIN_ISR, "a whole number from 1 on") if name == MIN_ISR else (_UNCLEAN, "true or false")
    )
    return None if value is None or pattern.fullmatch(value) else defined


@dataclass
class Image:
    """Brokers, topics, partitions, settings and features, up to the present offset of the log.

    - ``topics`` are by id, ``names`` by name, ``partitions`` by their keys in records.
    - ``replicas``: for each broker the partitions that have it in any of their fields.
    - ``unfollowed``: the names, by key, of partitions that cannot be followed any further.
    - ``configs``: settings by resource (kind and name).
    - ``controllers``: the greatest levels of features that each controller supports.
    - ``named``: for each broker the log directories that its replicas are or were in.
    - ``nodes``: the nodes with a configuration of their own.
    - ``changed``: the last change of each setting in ``configs``.
    """

    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    names: dict[str, TopicImage] = field(default_factory=dict)
    partitions: dict[bytes, Partition] = field(default_factory=dict)
    replicas: dict[int, dict[Partition, None]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    controllers: dict[int, dict[str, int]] = field(default_factory=dict)
    unfollowed: dict[bytes, str] = field(default_factory=dict)
    named: dict[int, set[str]] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    changed: dict[tuple[int, str, str], SettingChange] = field(default_factory=dict)
    _directories: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    _broker_changes: dict[tuple[str, int, Flags, bool], BrokerChange] = field(default_factory=dict)

    def broker_change(self, kind: str, broker: int, flags: Flags, offline: bool = False) -> BrokerChange:
        """The ``BrokerChange`` with this content; one object for equal contents."""
        key = (kind, broker, flags, offline)
        if key not in self._broker_changes:
            self._broker_changes[key] = BrokerChange(kind, broker, flags, offline)
        return self._broker_changes[key]

    def listed(self, broker: int) -> tuple[str, ...] | None:
        """The log directories that a broker lists; None if it is not registered."""
        found = self.brokers.get(broker)
        return None if found is None else found.directories

    def put_in(self, partition: Partition, directories: tuple[str, ...], replicas: Brokers) -> None:
        """Set the log directories of a partition's replicas; add them to ``named``. Equal lists share one object."""
        partition.directories = self._directories.setdefault(directories, directories)
        for broker, directory in zip(replicas, directories, strict=False):
            self.named.setdefault(broker, set()).add(directory)

    def offline(self, partition: Partition) -> list[int]:
        """The replicas of a partition that are in offline log directories (``is_online``)."""
        pairs = zip(partition.replicas, partition.directories, strict=False)
        return [b for b, directory in pairs if not is_online(directory, self.listed(b) or ())]

    def flags(self, broker: int) -> Flags:
        """A broker's registration flags; ``Flags()`` if it is not registered."""
        found = self.brokers.get(broker)
        return Flags() if found is None else found.flags

    def settings(self, topic: TopicImage, number: int, replicas: int) -> TopicSettings:
        """The possible settings of a partition: the topic's, else the cluster's; any value if the log has neither.

        A node's own setting overrides the cluster's if that node is the active controller, which can be any node.
        """
        possible: tuple[int, ...] = tuple(range(1, max(replicas, 1) + 1))
        if (values := self._values(topic, MIN_ISR, _MIN_ISR)) is not None:
            possible = tuple(sorted({int(value) for value in values}))
        allowed: tuple[bool, ...] = (False, True)
        if (values := self._values(topic, UNCLEAN, _UNCLEAN)) is not None:
            allowed = tuple(sorted({value.strip().lower() == "true" for value in values}))
        first = topic.partitions.get(0)
        known = 0 if number == 0 or first is None else len(first.belief.observed.replicas)
        return TopicSettings(possible, allowed, min(known, MAX_BROKERS))

    def _values(self, topic: TopicImage, name: str, defined: re.Pattern[str]) -> list[str] | None:
        """The possible values of a topic's setting; None for any."""
        found = [self.configs.get((TOPIC, topic.name), {}).get(name)]
        if found == [None]:
            of_nodes = (self.configs.get((BROKER, node), {}) for node in self.nodes)
            cluster = self.configs.get((BROKER, ""), {}).get(name)
            found = [cluster, *(values[name] for values in of_nodes if name in values)]
        return [v for v in found if v is not None] if all(v and defined.fullmatch(v) for v in found) else None

    def settings_of(self, partition: Partition) -> TopicSettings:
        """The possible settings of a topic's partition, as in ``settings``."""
        assert partition.topic is not None
        replicas = len(partition.belief.observed.replicas)
        return self.settings(partition.topic, partition.number, replicas)

    def effective(self, partition: Partition, replicas: int) -> tuple[int | None, bool | None]:
        """The effective min ISR (966.2) and unclean election; each is None if the log does not show it."""
        assert partition.topic is not None
        found = self.settings(partition.topic, partition.number, replicas)
        min_isr = effective_min_isr(found.min_isr[0], replicas) if len(found.min_isr) == 1 else None
        return min_isr, found.unclean[0] if len(found.unclean) == 1 else None

    def min_isr(self) -> dict[str, int]:
        """The effective min ISR (966.2) by partition name, for each partition where it is known."""
        found = {}
        for partition in self.of_topics():
            min_isr, _ = self.effective(partition, len(partition.belief.observed.replicas))
            if min_isr is not None:
                found[partition.name] = min_isr
        return found

    def in_force(self, topic: TopicImage, name: str) -> SettingChange | None:
        """The change, of the topic's setting or the cluster's, that gave a topic its present value of setting ``name``.

        For a topic without its own value: None if the cluster's was never set, or a node's own setting can apply.
        """
        own = self.changed.get((TOPIC, topic.name, name))
        if own is not None and own.value is not None:
            return own
        if any(name in self.configs.get((BROKER, node), {}) for node in self.nodes):
            return None
        cluster = self.changed.get((BROKER, "", name))
        found = [change for change in (own, cluster) if change is not None]
        return max(found, key=lambda change: change.position) if cluster is not None else None

    def place(self, partition: Partition, before: Brokers) -> None:
        """Update ``replicas`` for a partition whose brokers were ``before``."""
        old, new = set(before), set(partition.binding.brokers)
        for broker in old - new:
            self.replicas[broker].pop(partition, None)
        for broker in new - old:
            self.replicas.setdefault(broker, {})[partition] = None

    def remove(self, partition: Partition) -> None:
        """Remove a partition from ``replicas``."""
        for broker in partition.binding.brokers:
            self.replicas.get(broker, {}).pop(partition, None)

    def unfollow(self, partition: Partition) -> None:
        """Remove a partition that cannot be followed any further."""
        self.remove(partition)
        if partition.topic is not None and self.partitions.pop(partition.key, None) is not None:
            del partition.topic.partitions[partition.number]
            self.unfollowed[partition.key] = partition.name

    def of_topics(self) -> Iterator[Partition]:
        """Iterate over all partitions of topics."""
        return iter(self.partitions.values())


# --- log directories of replicas (KIP-858) ---
#
# A replica that stays keeps its directory, and a new replica is in its broker's default directory. A broker reports a
# move to another directory for one replica at a time.

RULE = "offline_directory_check"
"""The rule that depends on directories."""
Fields = Callable[[bytes], Mapping[str, Any]]
"""Decodes the fields of a change. Raises UnknownRecord, DamagedRecord, CannotFollow."""


def placed(
    image: Image,
    fields: Fields,
    partition: Partition,
    observations: Sequence[Observation],
    offsets: Sequence[int],
) -> tuple[list[Observation], list[int]]:
    """The observations with ``Change.placed`` set, and their offsets. The image adopts the directories.

    After a change that puts a replica into an offline directory, an "assigned_offline" of the replica's broker is
    inserted. Raises CannotFollow if a record has a wrong number of directories, and the errors of ``fields``.
    """
    found: list[tuple[Observation, int]] = []
    for observation, offset in zip(observations, offsets, strict=True):
        if not isinstance(observation, Change):
            found.append((observation, offset))
            continue
        record = fields(observation.raw)
        if record.get("directories") is None and "replicas" not in record:
            found.append((observation, offset))
            continue
        before = found[-1][0] if found else None
        if isinstance(before, Change) and before.raw == observation.raw:
            # One decision can write the same record several times.
            found.append((before, offset))
            continue
        says, lost = _place(image, partition, record)
        found.append((observation._replace(placed=says), offset))
        found += [(image.broker_change("assigned_offline", b, image.flags(b), True), offset) for b in lost]
    return [observation for observation, _ in found], [offset for _, offset in found]


def loses_replica(image: Image, fields: Fields, partition: Partition, change: bytes) -> bool:
    """True if a change moves a replica into another directory that is offline.

    False for a reassignment and for a damaged record.
    """
    try:
        record = fields(change)
    except (CannotFollow, UnknownRecord, DamagedRecord):
        return False
    listed = record.get("directories")
    if listed is None or "replicas" in record or len(listed) != len(partition.replicas):
        return False
    where = zip(partition.replicas, listed, partition.directories, strict=False)
    return any(d != old and not is_online(d, image.listed(b) or ()) for b, d, old in where)


def _place(image: Image, partition: Partition, record: Mapping[str, Any]) -> tuple[Placed, Brokers]:
    """Put the directories of a record into the image. Returns the value of ``Change.placed`` for the record.

    Also returns the brokers whose replica the record assigns to an offline directory. Raises CannotFollow if the
    number of directories differs from the number of replicas.
    """
    before = partition.replicas
    replicas: Brokers = tuple(record.get("replicas") or before)
    old = partition.directories
    listed = None if record.get("directories") is None else tuple(record["directories"])
    after = old if listed is None else listed
    if listed is None and set(after) == {MIGRATING}:
        after = (MIGRATING,) * len(replicas)
    if listed is not None and len(listed) != len(replicas):
        raise CannotFollow(f"{len(replicas)} replicas in {len(after)} log directories")
    image.put_in(partition, after if len(after) == len(replicas) else (), replicas)
    where = dict(zip(before, old, strict=False))
    if replicas != before:
        expected = tuple(where.get(b) or default_directory(image.listed(b)) for b in replicas)
        return Placed(wrong=bool(old) and (after != expected or listed == old)), ()
    if not after:  # no directory of the partition is known
        return Placed(), ()
    moved = tuple(b for b, directory in zip(replicas, after, strict=True) if where.get(b) != directory)
    lost = [b for b in moved if not is_online(after[replicas.index(b)], image.listed(b) or ())]
    return Placed(moved, bool(old) and len(moved) != 1), tuple(lost)
