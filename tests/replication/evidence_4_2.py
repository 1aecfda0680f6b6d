"""Evidence of the Kafka 4.2.1 findings: the lines of controller recordings that are instances of each.

A sign is a condition on one operation: partitions before and after, and the recorded operation. Only
partitions with a higher partition epoch count; a recorder's note (``effectiveMinIsr``) is no change.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import recordings

RECORDED = recordings.folder("traces/kafka-4.2/controller")
MIN_ISR, TOPIC, CLUSTER = "min.insync.replicas", 2, (4, "")
Partition = Mapping[str, Any]
Key = tuple[str, int]


@dataclass
class Recording:
    """A recording's state at a line: partitions, min ISR settings, and ELR members that were no replicas."""

    static_min_isr: int = 1
    partitions: dict[Key, Partition] = field(default_factory=dict)
    min_isr: dict[tuple[int, str], int] = field(default_factory=dict)
    returned: dict[Key, set[int]] = field(default_factory=dict)

    def settings(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Apply the changes of min.insync.replicas among records."""
        for data in (r["data"] for r in records if r["type"] == "CONFIG_RECORD"):
            if data["name"] == MIN_ISR:
                key = (data["resourceType"], data["resourceName"])
                self.min_isr.pop(key, None)
                if data["value"] is not None:
                    self.min_isr[key] = int(data["value"])

    def min_isr_of(self, topic: str) -> int:
        """The setting of a topic, else the cluster's, else the controller's own."""
        return self.min_isr.get((TOPIC, topic), self.min_isr.get(CLUSTER, self.static_min_isr))


@dataclass(frozen=True)
class Change:
    """A partition before and after an operation; ``earlier``: its ELR members that once were no replicas."""

    line: Mapping[str, Any]
    key: Key
    before: Partition
    after: Partition
    recording: Recording
    earlier: frozenset[int] = frozenset()

    @property
    def op(self) -> str:
        return str(self.line["op"]["name"])

    @property
    def elected(self) -> int | None:
        """The broker elected cleanly from the ELR, or None."""
        leader = self.after["leader"]
        is_from_elr = leader in self.before["elr"] and leader not in self.before["isr"]
        clean = self.after["leaderRecoveryState"] == self.before["leaderRecoveryState"]
        return leader if is_from_elr and clean and leader != self.before["leader"] else None

    @property
    def is_left_without_anybody(self) -> bool:
        """True if no leader, candidate or last known leader is left."""
        now = self.after
        return now["leader"] == -1 and not (now["isr"] or now["elr"] or now["lastKnownElr"])


def _strangers(partition: Partition) -> set[int]:
    """Members of the ELR that are no replicas."""
    return set(partition["elr"]) - set(partition["replicas"])


def _left_over(c: Change) -> bool:
    return c.line["elrVersion"] == 0 and c.elected is not None


def _stranger(c: Change) -> bool:
    return not _strangers(c.after) <= _strangers(c.before)


def _returned(c: Change) -> bool:
    return c.elected is not None and c.elected in c.earlier


def _cleared(c: Change) -> bool:
    written = {record["type"] for record in c.line["records"]}
    had = c.before["elr"] or c.before["lastKnownElr"]
    return bool("CLEAR_ELR_RECORD" in written and had and c.is_left_without_anybody)


def _no_leader(c: Change) -> bool:
    return -1 in c.after["lastKnownElr"] and -1 not in c.before["lastKnownElr"]


def _assigned(c: Change) -> bool:
    under = len(c.after["isr"]) < c.after["effectiveMinIsr"]
    return bool(c.op == "assignReplicasToDirs" and c.before["elr"] and not c.after["elr"] and under)


def _without_leader(partition: Partition) -> bool:
    return partition["leader"] == -1 and not partition["isr"]


def _lowered(c: Change) -> bool:
    off = c.line["elrVersion"] == 0
    return bool(off and _without_leader(c.after) and c.before["elr"] and not c.after["elr"])


def _raised(c: Change) -> bool:
    lost = c.op == "registerBroker" and c.before["leader"] == -1 and c.before["isr"]
    return bool(c.line["elrVersion"] and lost and c.is_left_without_anybody)


def _stuck(c: Change) -> bool:
    elr = set(c.after["elr"])
    return bool(_without_leader(c.after) and elr and elr == _strangers(c.after))


def _cancelled(c: Change) -> bool:
    first = c.after["replicas"][:1]
    return bool(c.op == "alterPartitionReassignments" and not c.before["isr"] and c.after["isr"] == first)


def _outlived(c: Change) -> bool:
    return bool(c.after["leader"] >= 0 and c.after["lastKnownElr"])


def _first_partition(c: Change) -> bool:
    """The ISR is under min ISR for this partition's replica count, but not for partition 0's: the ELR is
    dropped.
    """
    topic, number = c.key
    setting, size = c.recording.min_isr_of(topic), len(c.after["isr"])
    first = c.recording.partitions[topic, 0]
    by_first, by_own = (min(setting, len(p["replicas"])) for p in (first, c.after))
    left = {*c.before["isr"], *c.before["elr"]} - set(c.after["isr"])
    decided = c.op in ("fenceStaleBroker", "brokerHeartbeat", "alterPartition", "unregisterBroker")
    fewer = set(c.after["isr"]) < set(c.before["isr"])
    on = c.line["elrVersion"] > 0
    return bool(
        on and decided and number and fewer and by_first <= size < by_own and left and not c.after["elr"]
    )


def _shut_out(line: Mapping[str, Any], partitions: Mapping[Key, Partition]) -> bool:
    """A registration makes the controller fail over a last known leader that is no replica."""
    response = line.get("response") or {}
    if line["op"]["name"] != "registerBroker" or not response.get("causesFailover"):
        return False
    said = [(p["lastKnownElr"], p["replicas"]) for p in partitions.values() if p["leader"] == -1]
    return any(
        response["message"] == f"Replica {last[0]} is not assigned to this partition."
        and last[0] not in replicas
        for last, replicas in said
        if last
    )


SIGNS: dict[str, Callable[[Change], bool]] = {
    "elr-turned-off": _left_over,
    "reassignment": _stranger,
    "reassignment-loss": _returned,
    "cleared-elr": _cleared,
    "forgotten-leader": _no_leader,
    "assignment": _assigned,
    "first-partition": _first_partition,
    "level-lowered": _lowered,
    "level-raised": _raised,
    "stuck-elr": _stuck,
    "cancelled-loss": _cancelled,
    "outlived-leader": _outlived,
}
"""Finding → predicate: is a partition change an instance of it? (shut-out concerns a whole operation.)"""


def signs(line: Mapping[str, Any], recording: Recording) -> Iterator[str]:
    """The findings of which an operation is an instance, once per partition. Updates ``recording``."""
    now = {(p["topic"], p["partition"]): p for p in line["partitions"]}
    if _shut_out(line, now):
        yield "shut-out"
    for key, after in now.items():
        before = recording.partitions.get(key)
        earlier = recording.returned.get(key, set())
        if before is not None and before["partitionEpoch"] != after["partitionEpoch"]:
            change = Change(line, key, before, after, recording, frozenset(earlier))
            yield from (name for name, is_sign in SIGNS.items() if is_sign(change))
        recording.returned[key] = {r for r in after["elr"] if r in earlier or r not in after["replicas"]}
    recording.settings(line["records"])
    recording.partitions = now


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as found:
        for number, line in enumerate(found, 1):
            yield number, json.loads(line)


def found_in(numbered: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[str, int]]:
    """Findings and the numbers of the lines that are instances of them."""
    recording = Recording()
    for number, line in numbered:
        if "meta" in line:
            recording.static_min_isr = line["meta"].get("staticMinIsr", 1)
            recording.settings(line["meta"].get("bootstrapRecords", ()))
        else:
            yield from ((name, number) for name in signs(line, recording))


def evidence() -> dict[str, tuple[int, str, int]]:
    """Finding → number of instances in the recordings with ELR, and the first one's recording and line."""
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, int]] = {}
    for path in sorted(RECORDED.glob("elr-on*/*.gz")):
        name = f"{path.parent.name}/{path.name.removesuffix('.ndjson.gz')}"
        for sign, number in found_in(lines(path)):
            counts[sign] += 1
            first.setdefault(sign, (name, number))
    return {sign: (counts[sign], *first[sign]) for sign in counts}
