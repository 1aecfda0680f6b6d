"""The recorded clusters of 2024, and the partition changes in their metadata dumps."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from highwater.traces.reports.observed import PartitionChange, PartitionState
from tests import recordings

CLUSTERS = recordings.folder("traces/kafka/clusters")
SCENARIOS = sorted(path.name for path in CLUSTERS.glob("*")) if CLUSTERS.is_dir() else []

needs_clusters = recordings.needs("traces/kafka/clusters")

_RECORD = re.compile(r"^\| offset: (\d+) CreateTime: (\d+) .*payload: (\{.*\})$")


def broker_logs(scenario: str) -> list[Path]:
    return sorted((CLUSTERS / scenario / "logs").glob("node[0-9]/s*.log.gz"))


def records(scenario: str) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    dump = CLUSTERS / scenario / "dump-00000000000000000000.log.txt.gz"
    for line in gzip.decompress(dump.read_bytes()).decode("utf-8").splitlines():
        if match := _RECORD.match(line):
            payload = json.loads(match[3])
            yield int(match[1]), int(match[2]), payload["type"], payload["data"]


class Metadata:
    """A minimal reader of metadata dumps that merges records into partition states."""

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}
        self.configs: dict[tuple[int, str, str], str] = {}
        self.partitions: dict[tuple[str, int], PartitionState] = {}

    def min_isr(self, topic: str, replicas: int) -> int:
        key = "min.insync.replicas"
        value = self.configs.get((2, topic, key)) or self.configs.get((4, "", key)) or "1"
        return min(int(value), replicas)

    def effective(self) -> dict[str, int]:
        return {
            f"{topic}-{partition}": self.min_isr(topic, len(state.replicas))
            for (topic, partition), state in self.partitions.items()
        }

    def changes(self, scenario: str) -> Iterator[PartitionChange]:
        for position, time, kind, data in records(scenario):
            if kind == "TOPIC_RECORD":
                self.topics[data["topicId"]] = data["name"]
            elif kind == "CONFIG_RECORD":
                key = (data["resourceType"], data["resourceName"], data["name"])
                if data["value"] is None:
                    self.configs.pop(key, None)
                else:
                    self.configs[key] = data["value"]
            elif kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
                topic, partition = self.topics[data["topicId"]], data["partitionId"]
                before = self.partitions.get((topic, partition))
                after = _merge(before, data) if kind == "PARTITION_CHANGE_RECORD" else _new(data)
                self.partitions[topic, partition] = after
                yield PartitionChange(
                    position,
                    time,
                    topic,
                    partition,
                    before,
                    after,
                    None,
                    self.min_isr(topic, len(after.replicas)),
                )


_FIELDS = {
    "replicas": "replicas",
    "isr": "isr",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
}


def _lists(data: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(data[key]) for key, name in _FIELDS.items() if data.get(key) is not None}


def _new(data: dict[str, Any]) -> PartitionState:
    leader = None if data["leader"] < 0 else data["leader"]
    return PartitionState(
        leader=leader,
        leader_epoch=data["leaderEpoch"],
        partition_epoch=data["partitionEpoch"],
        **_lists(data),
    )


def _merge(before: PartitionState | None, data: dict[str, Any]) -> PartitionState:
    assert before is not None
    after = replace(before, partition_epoch=before.partition_epoch + 1, **_lists(data))
    if "leader" in data:
        leader = None if data["leader"] < 0 else data["leader"]
        after = replace(after, leader=leader, leader_epoch=before.leader_epoch + 1)
    return after
