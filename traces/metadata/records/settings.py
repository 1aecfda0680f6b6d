"""Changes of the settings that are followed: kept with their offsets and times, and handed to who asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from highwater.traces.metadata.image.image import TOPIC
from highwater.traces.metadata.image.partitions import Partition
from highwater.traces.metadata.tracker import LogRecord, Tracker
from highwater.traces.reports.settings import BROKER as OF_BROKER
from highwater.traces.reports.settings import CLUSTER, MIN_ISR, Resized, SettingChange, SettingInForce
from highwater.traces.reports.settings import TOPIC as OF_TOPIC


@contextmanager
def changing(tracker: Tracker, record: LogRecord, concerned: Sequence[Partition]) -> Iterator[None]:
    """While the record of a setting is taken over, which concerns these partitions."""
    before = {p: _min_isr(tracker, p) for p in concerned} if record.data["name"] == MIN_ISR else {}
    change = _change(tracker, record)
    yield
    tracker.image.changed[record.data["resourceType"], change.resource, change.name] = change
    for partition in concerned:
        if partition in before:
            _resize(partition, change, before[partition], _min_isr(tracker, partition))
        if partition.state is not None:
            in_force = tracker.image.effective(partition, len(partition.belief.observed.replicas))
            tracker.reporter.setting(partition, SettingInForce(change, *in_force))


def _min_isr(tracker: Tracker, partition: Partition) -> int | None:
    return tracker.image.effective(partition, len(partition.belief.observed.replicas))[0]


def _change(tracker: Tracker, record: LogRecord) -> SettingChange:
    kind, resource, name = record.data["resourceType"], record.data["resourceName"], record.data["name"]
    configs = tracker.image.configs
    level = OF_TOPIC if kind == TOPIC else OF_BROKER if resource else CLUSTER
    before = configs.get((kind, resource), {}).get(name)
    return SettingChange(record.offset, record.time, name, level, resource, before, record.data.get("value"))


def _resize(partition: Partition, change: SettingChange, before: int | None, after: int | None) -> None:
    """Keep a change that meets the partition under min ISR."""
    if before is None or after is None or before == after:
        return
    if len(partition.belief.observed.isr) < before:
        partition.resized = Resized(change, before, after)
