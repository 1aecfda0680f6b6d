"""Log directories (KIP-858) that brokers list, and what becomes of replicas in those that they lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.traces.metadata.beliefs.evidence import BrokerChange
from highwater.traces.metadata.image.partitions import Broker, Partition
from highwater.traces.metadata.pending import Variant
from highwater.traces.metadata.tracker import Tracker
from highwater.traces.rules.decisions import default_directory, is_online


def at_creation(tracker: Tracker, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The directories that a new partition's replicas are in: the defaults of their brokers."""
    return tuple(default_directory(tracker.image.listed(broker)) for broker in data["replicas"])


def registered(tracker: Tracker, broker: int, now: BrokerChange) -> Variant | None:
    """What a registration, which has just been taken over, is to partitions; None where it is the same to all."""
    listed = tracker.image.listed(broker) or ()
    named = tracker.image.named.get(broker, set())
    if not tracker.follows_directories or all(is_online(directory, listed) for directory in named):
        return None
    offline = tracker.image.broker_change(now.kind, broker, now.flags, True)

    def variant(partition: Partition) -> BrokerChange:
        directory = partition.directory(broker)
        return now if directory is None or is_online(directory, listed) else offline

    return variant


def lost(
    tracker: Tracker, broker: int, known: Broker, listed: tuple[str, ...]
) -> tuple[BrokerChange, Variant]:
    """What it is to partitions that a broker lists these directories from now on; if none, those that it had.

    A broker that loses all of them says so, and its registration stays as it is.
    """
    gone = frozenset(known.directories) - frozenset(listed)
    known.directories = listed or known.directories
    now = tracker.image.broker_change("lose_directory", broker, known.flags, bool(listed))

    def variant(partition: Partition) -> BrokerChange | None:
        return now if partition.directory(broker) in gone else None

    return now, variant
