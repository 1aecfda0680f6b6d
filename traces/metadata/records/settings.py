"""Changes of the settings that are followed: kept with their offsets and times, and told to who asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from highwater.traces.metadata.image import MIN_ISR, TOPIC, Partition
from highwater.traces.reports.settings import BROKER, CLUSTER, Resized, SettingChange, SettingInForce
from highwater.traces.reports.settings import TOPIC as OF_TOPIC

if TYPE_CHECKING:
    from highwater.traces.metadata.follow import Follower, Found


@contextmanager
def changing(follower: Follower, found: Found, concerned: Sequence[Partition]) -> Iterator[None]:
    """While the record of a setting is taken over, which concerns these partitions."""
    before = {p: _min_isr(follower, p) for p in concerned} if found.data["name"] == MIN_ISR else {}
    change = _change(follower, found)
    yield
    follower.image.changed[found.data["resourceType"], change.resource, change.name] = change
    for partition in concerned:
        if partition in before:
            _resize(partition, change, before[partition], _min_isr(follower, partition))
        if partition.state is not None:
            in_force = follower.image.effective(partition, len(partition.belief.observed.replicas))
            follower.telling.setting(partition, SettingInForce(change, *in_force))


def _min_isr(follower: Follower, partition: Partition) -> int | None:
    return follower.image.effective(partition, len(partition.belief.observed.replicas))[0]


def _change(follower: Follower, found: Found) -> SettingChange:
    kind, resource, name = found.data["resourceType"], found.data["resourceName"], found.data["name"]
    configs = follower.image.configs
    level = OF_TOPIC if kind == TOPIC else BROKER if resource else CLUSTER
    before = configs.get((kind, resource), {}).get(name)
    return SettingChange(found.offset, found.time, name, level, resource, before, found.data.get("value"))


def _resize(partition: Partition, change: SettingChange, before: int | None, after: int | None) -> None:
    """Keep a change that meets the partition under min ISR."""
    if before is None or after is None or before == after:
        return
    if len(partition.belief.observed.isr) < before:
        partition.resized = Resized(change, before, after)


__all__ = ["changing"]
