"""Small metadata logs, made record by record, and their replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import encode
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reports.report import Report
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import leader_change

TOPICS = {"t": "AAAAAAAAAAAAAAAAAAAAAQ", "u": "AAAAAAAAAAAAAAAAAAAAAg"}
BROKERS = [0, 1, 2]
ELR = "eligible.leader.replicas.version"
ON, OFF = ((("metadata.version", 29), (ELR, level)) for level in (1, 0))
"""The features of Kafka 4.2 with ELR on and off."""
MIN_ISR = "min.insync.replicas"
Records = Sequence[bytes | Sequence[bytes]]
Wrong = list[tuple[int, str | None]]
"""Offsets and partitions of the records that do not conform."""


def feature(name: str, level: int) -> bytes:
    return encode("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})


def setting(name: str, value: str | None, topic: str = "t") -> bytes:
    data = {"resourceType": 2, "resourceName": topic, "name": name, "value": value}
    return encode("CONFIG_RECORD", 0, data)


def registration(broker: int, epoch: int, **changed: Any) -> bytes:
    data = {
        "brokerId": broker, "brokerEpoch": epoch, "isMigratingZkBroker": False, "endPoints": [], "features": [],
        "incarnationId": f"AAAAAAAAAAAAAAAAAAAA{'BCD'[broker % 3]}w", "rack": None, "fenced": True,
        "inControlledShutdown": False, "logDirs": [], **changed,
    }  # fmt: skip
    return encode("REGISTER_BROKER_RECORD", 3, data)


def registration_change(broker: int, epoch: int, **changed: Any) -> bytes:
    data = {"brokerId": broker, "brokerEpoch": epoch, **changed}
    return encode("BROKER_REGISTRATION_CHANGE_RECORD", 1, data, lenient=True)


def partition(number: int, topic: str = "t", version: int = 0, **changed: Any) -> bytes:
    data = {
        "partitionId": number, "topicId": TOPICS[topic], "replicas": BROKERS, "isr": BROKERS, "removingReplicas": [],
        "addingReplicas": [], "leader": 0, "leaderEpoch": 0, "partitionEpoch": 0, **changed,
    }  # fmt: skip
    return encode("PARTITION_RECORD", version, data, lenient=True)


def change(number: int, topic: str = "t", **changed: Any) -> bytes:
    data = {"partitionId": number, "topicId": TOPICS[topic], **changed}
    return encode("PARTITION_CHANGE_RECORD", 2, data, lenient=True)


def clear(topic: str = "t") -> bytes:
    return encode("CLEAR_ELR_RECORD", 0, {"topicName": topic})


def default(value: str | None, name: str = "min.insync.replicas", broker: str = "") -> bytes:
    """A setting of all brokers, or of one."""
    data = {"resourceType": 4, "resourceName": broker, "name": name, "value": value}
    return encode("CONFIG_RECORD", 0, data)


def together(*values: bytes) -> list[bytes]:
    """Records of one transaction: one decision, though each is a batch of its own."""
    return [encode("BEGIN_TRANSACTION_RECORD", 0, {}), *values, encode("END_TRANSACTION_RECORD", 0, {})]


def beginning(*features: tuple[str, int], min_isr: str = "2") -> list[bytes]:
    """Three active brokers, and the partitions t-0 and u-0 on all of them. ELR is on if it can be, and is not said.

    Where its feature turns it on, the setting of min ISR is the cluster's, and comes with the feature (K15).
    """
    levels = features or (("metadata.version", 25),)
    is_turned_on = levels == ON
    values = [feature(name, level) for name, level in levels]
    if is_turned_on:
        values[1] = encode("NO_OP_RECORD", 0, {})
    for broker in BROKERS:
        epoch = len(values)
        values += [registration(broker, epoch), registration_change(broker, epoch, fenced=-1)]
    if is_turned_on:
        values += together(default(min_isr), feature(ELR, 1))
    for topic, identity in TOPICS.items():
        values.append(encode("TOPIC_RECORD", 0, {"name": topic, "topicId": identity}))
        if not is_turned_on:
            values.append(setting("min.insync.replicas", min_isr, topic))
        values.append(partition(0, topic))
    return values


UNCLEAN = {"isr": [2], "leader": 2, "leaderRecoveryState": 1, "eligibleLeaderReplicas": []}


def loss(topic: str = "t") -> list[bytes]:
    """The ISR of a partition shrinks to its leader, and a broker that was in neither ISR nor ELR is elected."""
    return [change(0, topic, isr=[0, 1]), change(0, topic, **UNCLEAN)]


def with_version(value: bytes, version: int) -> bytes:
    """A record that says to be of another version."""
    return value[:2] + bytes((version,)) + value[3:]


@dataclass(frozen=True)
class Controller:
    """Another controller writes from here on, in a leader epoch of its own."""

    epoch: int


def write(
    folder: Path, values: Iterable[bytes | Sequence[bytes] | Controller], base: int = 0, controls: bool = True
) -> Path:
    """A segment in which each value is a batch, or each list of values; the directory.

    ``controls``: a new controller begins with its control record, as Kafka's do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content, offset, epoch = b"", base, 1
    for value in values:
        if isinstance(value, Controller):
            epoch = value.epoch
            if controls:
                content += leader_change(offset, epoch)
                offset += 1
            continue
        batch = [value] if isinstance(value, bytes) else list(value)
        content += encode_batch(offset, epoch, 1000 + offset, batch)
        offset += len(batch)
    (folder / f"{base:020}.log").write_bytes(content)
    return folder


def replayed(
    folder: Path, *values: bytes | Sequence[bytes], start: Records | None = None, watch: Watch = NOBODY
) -> Report:
    """The report on a log with these batches behind ``start`` (``beginning(*ON)``), in a new folder."""
    report = Report("", "", "")
    begun = beginning(*ON) if start is None else start
    log = open_metadata_log(write(folder / str(len(list(folder.iterdir()))), [*begun, *values]))
    replay_metadata(log, report, watch=watch)
    return report


def count(values: Iterable[bytes | Sequence[bytes]]) -> int:
    """The number of records in these batches."""
    return sum(1 if isinstance(value, bytes) else len(value) for value in values)


def unexplained(report: Report, since: int) -> Wrong:
    """The records that do not conform, with offsets from ``since`` on."""
    return [(u.position["offset"] - since, u.partition) for u in report.unexplained]


def wrong(folder: Path, *values: bytes | Sequence[bytes], start: Records | None = None) -> Wrong:
    """The records behind ``start`` (``beginning(*ON)``) that do not conform, in a log without doubts."""
    begun = beginning(*ON) if start is None else start
    report = replayed(folder, *values, start=begun)
    assert report.doubts == []
    return unexplained(report, count(begun))
