"""Log directories (KIP-858) in a metadata log: which broker lists which, and in which one each replica is.

Where the rules ask for them, a record that says where replicas are is looked at beside what was known: a replica that
stays is in its directory, a new one in its broker's default, and a broker says of one replica at a time that it is in
another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from highwater.traces.kafka.values import DamagedRecord, UnknownRecord
from highwater.traces.metadata.beliefs.observations import Brokers, Placed
from highwater.traces.metadata.beliefs.slots import CannotFollow
from highwater.traces.metadata.beliefs.transitions import BrokerEvent, Change, Item
from highwater.traces.metadata.image import Broker, Partition
from highwater.traces.metadata.pending import Variant
from highwater.traces.rules.log_directories import MIGRATING, default_directory, is_online

if TYPE_CHECKING:
    from highwater.traces.metadata.follow import Follower

RULE = "offline_directory_check"
"""The rule that asks for directories."""


def at_creation(follower: Follower, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The directories that a new partition's replicas are in: the defaults of their brokers."""
    return tuple(default_directory(follower.image.listed(broker)) for broker in data["replicas"])


def placed(
    follower: Follower, partition: Partition, items: Sequence[Item], offsets: Sequence[int]
) -> tuple[list[Item], list[int]]:
    """Items of a partition, with what they say of directories, which is taken over into the image.

    Behind a change that puts a replica into a directory that is offline stands that this happened. Raises CannotFollow.
    """
    found: list[tuple[Item, int]] = []
    for item, offset in zip(items, offsets, strict=True):
        if item.__class__ is not Change:
            found.append((item, offset))
            continue
        assert isinstance(item, Change)
        record = follower.record(item)
        if record.get("directories") is None and "replicas" not in record:
            found.append((item, offset))
            continue
        before = found[-1][0] if found else None
        if isinstance(before, Change) and before.raw == item.raw:
            # One decision can write the same record several times.
            found.append((before, offset))
            continue
        said, lost = _place(follower, partition, record)
        found.append((item._replace(placed=said), offset))
        found += [
            (follower.event("assigned_offline", b, follower.image.flags(b), True), offset) for b in lost
        ]
    return [item for item, _ in found], [offset for _, offset in found]


def loses_replica(follower: Follower, partition: Partition, item: Change) -> bool:
    """Whether a change puts a replica into a directory that is offline."""
    try:
        record = follower.record(item)
    except (CannotFollow, UnknownRecord, DamagedRecord):
        return False
    listed = record.get("directories")
    if listed is None or "replicas" in record or len(listed) != len(partition.replicas):
        return False
    where = zip(partition.replicas, listed, partition.directories, strict=False)
    return any(d != old and not is_online(d, follower.image.listed(b) or ()) for b, d, old in where)


def _place(follower: Follower, partition: Partition, record: Mapping[str, Any]) -> tuple[Placed, Brokers]:
    """What a record says, and the brokers whose replica is in a directory that is offline now."""
    image, before = follower.image, partition.replicas
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
    moved = tuple(b for b, directory in zip(replicas, after, strict=True) if where.get(b) != directory)
    lost = [b for b in moved if not is_online(after[replicas.index(b)], image.listed(b) or ())]
    return Placed(moved, bool(old) and len(moved) != 1), tuple(lost)


# --- what brokers list ---------------------------------------------------------------------------------------


def registered(follower: Follower, broker: int, event: BrokerEvent) -> Variant | None:
    """What a registration, which has just been taken over, is to partitions; None where it is the same to all."""
    listed = follower.image.listed(broker) or ()
    named = follower.image.named.get(broker, set())
    if not follower.follows_directories or all(is_online(directory, listed) for directory in named):
        return None
    offline = follower.event(event.kind, broker, event.flags, True)

    def variant(partition: Partition) -> BrokerEvent:
        directory = partition.directory(broker)
        return event if directory is None or is_online(directory, listed) else offline

    return variant


def lost(
    follower: Follower, broker: int, known: Broker, listed: tuple[str, ...]
) -> tuple[BrokerEvent, Variant]:
    """What it is to partitions that a broker lists these directories from now on; if none, those that it had.

    A broker that loses all of them says so, and its registration stays as it is.
    """
    gone = frozenset(known.directories) - frozenset(listed)
    known.directories = listed or known.directories
    event = follower.event("lose_directory", broker, known.flags, bool(listed))

    def variant(partition: Partition) -> BrokerEvent | None:
        return event if partition.directory(broker) in gone else None

    return event, variant


__all__ = ["RULE", "at_creation", "loses_replica", "lost", "placed", "registered"]
