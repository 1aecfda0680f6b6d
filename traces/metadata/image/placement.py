"""In which log directory each replica is (KIP-858): what changes of a partition say of it, beside what was known.

A replica that stays is in its directory, a new one in its broker's default, and a broker says of one replica at a time
that it is in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from highwater.traces.kafka.values import DamagedRecord, UnknownRecord
from highwater.traces.metadata.beliefs.belief_states import CannotFollow
from highwater.traces.metadata.beliefs.evidence import Brokers, Change, Observation, Placed
from highwater.traces.metadata.image.image import Image
from highwater.traces.metadata.image.partitions import Partition
from highwater.traces.rules.decisions import MIGRATING, default_directory, is_online

RULE = "offline_directory_check"
"""The rule that asks for directories."""
Fields = Callable[[bytes], Mapping[str, Any]]
"""The fields of a change. Raises UnknownRecord, DamagedRecord, CannotFollow."""


def placed(
    image: Image,
    fields: Fields,
    partition: Partition,
    observations: Sequence[Observation],
    offsets: Sequence[int],
) -> tuple[list[Observation], list[int]]:
    """Observations of a partition, with what they say of directories, which is taken over into the image.

    Behind a change that puts a replica into a directory that is offline stands that this happened. Raises CannotFollow.
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
    """Whether a change puts a replica into a directory that is offline."""
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
    """What a record says, and the brokers whose replica is in a directory that is offline now."""
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
    moved = tuple(b for b, directory in zip(replicas, after, strict=True) if where.get(b) != directory)
    lost = [b for b in moved if not is_online(after[replicas.index(b)], image.listed(b) or ())]
    return Placed(moved, bool(old) and len(moved) != 1), tuple(lost)
