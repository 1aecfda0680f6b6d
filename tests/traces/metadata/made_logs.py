"""Small metadata logs, made record by record, and their replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import decode, encode
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reports.report import Report
from tests.generation import records
from tests.generation.batches import encode_batch
from tests.generation.records import ELR, MIN_ISR, clear, feature, registration_change, setting, together
from tests.traces.kafka.made import leader_change

__all__ = ("ELR", "MIN_ISR", "clear", "feature", "registration_change", "setting", "together")

TOPICS = {"t": "AAAAAAAAAAAAAAAAAAAAAQ", "u": "AAAAAAAAAAAAAAAAAAAAAg"}
BROKERS = [0, 1, 2]
ON, OFF = (((records.METADATA, 29), (ELR, level)) for level in (1, 0))
"""The features of Kafka 4.2 with ELR on and off."""
Records = Sequence[bytes | Sequence[bytes]]
Wrong = list[tuple[int, str | None]]
"""Offsets and partitions of the records that do not conform."""


def registration(broker: int, epoch: int, **changed: Any) -> bytes:
    return records.registration(broker, epoch, f"AAAAAAAAAAAAAAAAAAAA{'BCD'[broker % 3]}w", **changed)


def partition(number: int, topic: str = "t", version: int = 0, **changed: Any) -> bytes:
    return records.partition(number, TOPICS[topic], BROKERS, version, **changed)


def change(number: int, topic: str = "t", **changed: Any) -> bytes:
    return records.partition_change(number, TOPICS[topic], **changed)


def default(value: str | None, name: str = MIN_ISR, broker: str = "") -> bytes:
    """A setting of all brokers, or of one."""
    return setting(name, value, broker, records.OF_BROKER)


def beginning(*features: tuple[str, int], min_isr: str = "2") -> list[bytes]:
    """Three active brokers, and the partitions t-0 and u-0 on all of them. ELR is off unless its feature turns it on.

    The setting of min ISR is then the cluster's, and comes with the feature (K15).
    """
    levels = features or ((records.METADATA, 29),)
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
        values.append(records.topic(topic, identity))
        if not is_turned_on:
            values.append(setting(MIN_ISR, min_isr, topic))
        values.append(partition(0, topic))
    return values


def image(log: Iterable[bytes]) -> list[bytes]:
    """The records of a snapshot behind such a beginning: all brokers are unfenced."""
    found = []
    for record in map(decode, log):
        if record.type == "REGISTER_BROKER_RECORD":
            record = record._replace(data={**record.data, "fenced": False})
        if record.type.startswith(("FEATURE", "REGISTER", "CONFIG", "TOPIC", "PARTITION")):
            found.append(encode(*record))
    return found


SHRUNK = (change(0, isr=[0, 1]), change(0, isr=[0], eligibleLeaderReplicas=[1]))
"""t-0 with the ISR [0] and the ELR [1]."""
FENCED = [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1]), registration_change(2, 6, fenced=1)]
"""The decision that fences broker 2, behind ``beginning(*ON)``."""
UNCLEAN = {"isr": [2], "leader": 2, "leaderRecoveryState": 1, "eligibleLeaderReplicas": []}


def loss(topic: str = "t") -> list[bytes]:
    """The ISR of a partition shrinks to its leader, and a broker that was in neither ISR nor ELR is elected."""
    return [change(0, topic, isr=[0, 1]), change(0, topic, **UNCLEAN)]


def with_version(value: bytes, version: int) -> bytes:
    """A record that says to be of another version."""
    return value[:2] + bytes((version,)) + value[3:]


def unreadable(value: bytes, version: int) -> bytes:
    """A record of a newer version whose known fields cannot be read."""
    return with_version(value, version) + b"\0"


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
    folder: Path,
    *values: bytes | Sequence[bytes],
    start: Records | None = None,
    watch: Watch = NOBODY,
    name: str | None = None,
) -> Report:
    """The report on a log with these batches behind ``start`` (``beginning(*ON)``), by default in a new folder."""
    begun = beginning(*ON) if start is None else start
    place = folder / (str(len(list(folder.iterdir()))) if name is None else name)
    return report_on(write(place, [*begun, *values]), watch)


def report_on(log: Path, watch: Watch = NOBODY) -> Report:
    """The report on a metadata log, without timelines."""
    report = Report("", "", "")
    replay_metadata(open_metadata_log(log), report, watch=watch)
    return report


def flip(path: Path, at: int) -> None:
    """Damage the byte at a position of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 255
    path.write_bytes(data)


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
