"""The metadata image: brokers, topics, partitions, settings and features, as the log has them so far."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from highwater.traces.metadata.beliefs.evidence import (
    MAX_BROKERS,
    BrokerChange,
    Brokers,
    Flags,
    TopicSettings,
)
from highwater.traces.metadata.image.partitions import Broker, Partition, TopicImage
from highwater.traces.reports.settings import MIN_ISR, UNCLEAN, SettingChange
from highwater.traces.rules.decisions import effective_min_isr, is_online

TOPIC, BROKER = 2, 4
"""Kinds of resources in a ConfigRecord."""

_MIN_ISR = re.compile(r"\s*\+?0*[1-9][0-9]{0,8}\s*", re.ASCII)
_UNCLEAN = re.compile(r"\s*(true|false)\s*", re.ASCII | re.IGNORECASE)


def undefined_setting(name: str, value: str | None) -> str | None:
    """What a followed setting can be, where it has a value that it cannot have; None where it has one that it can."""
    pattern, defined = (
        (_MIN_ISR, "a whole number from 1 on") if name == MIN_ISR else (_UNCLEAN, "true or false")
    )
    return None if value is None or pattern.fullmatch(value) else defined


@dataclass
class Image:
    """All of it. ``partitions`` are by their keys in records.

    ``replicas`` are, for each broker, the partitions that have it in any of their fields. ``unfollowed`` are partitions
    that cannot be followed any further: their names, by their keys. ``controllers`` are the greatest
    levels of features that each controller supports. ``named`` are, by broker, the log directories that
    replicas of it were in. ``nodes`` are those with a configuration of their own. ``changed`` has the last
    change of each setting in ``configs``.
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
        """The one observation with this content."""
        key = (kind, broker, flags, offline)
        if key not in self._broker_changes:
            self._broker_changes[key] = BrokerChange(kind, broker, flags, offline)
        return self._broker_changes[key]

    def listed(self, broker: int) -> tuple[str, ...] | None:
        """The log directories that a broker lists; None for one that is not registered."""
        found = self.brokers.get(broker)
        return None if found is None else found.directories

    def put_in(self, partition: Partition, directories: tuple[str, ...], replicas: Brokers) -> None:
        """A partition's replicas are in these log directories; equal lists are kept once."""
        partition.directories = self._directories.setdefault(directories, directories)
        for broker, directory in zip(replicas, directories, strict=False):
            self.named.setdefault(broker, set()).add(directory)

    def offline(self, partition: Partition) -> list[int]:
        """The replicas of a partition in a log directory that their broker does not list."""
        pairs = zip(partition.replicas, partition.directories, strict=False)
        return [b for b, directory in pairs if not is_online(directory, self.listed(b) or ())]

    def flags(self, broker: int) -> Flags:
        """A broker's flags; those of a broker that is not registered where there is none."""
        found = self.brokers.get(broker)
        return Flags() if found is None else found.flags

    def settings(self, topic: TopicImage, number: int, replicas: int) -> TopicSettings:
        """What a partition's settings can be: the topic's, else the cluster's; where neither is in the log, any.

        Between the two stands what is set for the node that is the active controller, which can be any node.
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
        """The values that a setting of a topic can have, None for any."""
        own, cluster = (self.configs.get(of, {}).get(name) for of in ((TOPIC, topic.name), (BROKER, "")))
        found = [own if own is not None else cluster]
        if own is None:
            of_nodes = (self.configs.get((BROKER, node), {}) for node in self.nodes)
            found += [values[name] for values in of_nodes if name in values]
        return [v for v in found if v is not None] if all(v and defined.fullmatch(v) for v in found) else None

    def settings_of(self, partition: Partition) -> TopicSettings:
        """What the settings of a partition of a topic can be."""
        assert partition.topic is not None
        replicas = len(partition.belief.observed.replicas)
        return self.settings(partition.topic, partition.number, replicas)

    def effective(self, partition: Partition, replicas: int) -> tuple[int | None, bool | None]:
        """The effective min ISR (966.2) and unclean election in force; None where the log does not say."""
        assert partition.topic is not None
        found = self.settings(partition.topic, partition.number, replicas)
        min_isr = effective_min_isr(found.min_isr[0], replicas) if len(found.min_isr) == 1 else None
        return min_isr, found.unclean[0] if len(found.unclean) == 1 else None

    def min_isr(self) -> dict[str, int]:
        """The effective min ISR (966.2) of each partition of which the log says it, by name."""
        found = {}
        for partition in self.of_topics():
            min_isr, _ = self.effective(partition, len(partition.belief.observed.replicas))
            if min_isr is not None:
                found[partition.name] = min_isr
        return found

    def in_force(self, topic: TopicImage, name: str) -> SettingChange | None:
        """The change that a setting of a topic comes from; None where the log does not say."""
        own = self.changed.get((TOPIC, topic.name, name))
        if own is not None and own.value is not None:
            return own
        if any(name in self.configs.get((BROKER, node), {}) for node in self.nodes):
            return None
        cluster = self.changed.get((BROKER, "", name))
        found = [change for change in (own, cluster) if change is not None]
        return max(found, key=lambda change: change.position) if cluster is not None else None

    def place(self, partition: Partition, before: Brokers) -> None:
        """Keep the index by broker, after a partition has come to other brokers than those before."""
        old, new = set(before), set(partition.binding.brokers)
        for broker in old - new:
            self.replicas[broker].pop(partition, None)
        for broker in new - old:
            self.replicas.setdefault(broker, {})[partition] = None

    def remove(self, partition: Partition) -> None:
        """Take a partition out of the index by broker."""
        for broker in partition.binding.brokers:
            self.replicas.get(broker, {}).pop(partition, None)

    def unfollow(self, partition: Partition) -> bool:
        """Take a partition out that cannot be followed any further; whether it was there."""
        self.remove(partition)
        if self.partitions.pop(partition.key, None) is None:
            return False
        assert partition.topic is not None
        del partition.topic.partitions[partition.number]
        self.unfollowed[partition.key] = partition.name
        return True

    def of_topics(self) -> Iterator[Partition]:
        """All partitions of topics."""
        return iter(self.partitions.values())
