"""A snapshot that lacks a record, or has a different one, is reported with exactly that record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.values import MetadataRecord, decode, encode
from tests.generation import records
from tests.traces.kafka.made import snapshot
from tests.traces.metadata.made_logs import TOPICS, beginning, image, registration, replayed, with_version

FEATURES = (("metadata.version", 29), ("group.version", 1))
SUPPORTED, MORE = (
    records.supported({"metadata.version": (1, level), "group.version": (0, 1)}) for level in (29, 99)
)
LOG = [registration(2, 6, features=SUPPORTED) if v == registration(2, 6) else v for v in beginning(*FEATURES)]
FieldsByPartition = list[tuple[str | None, set[str]]]


def changed(type_: str, data: dict[str, Any] | None) -> tuple[list[bytes], MetadataRecord]:
    """A snapshot with some fields of its last record of a type set otherwise, or (None) without the record."""
    values = image(LOG)
    place = max(number for number, value in enumerate(values) if decode(value).type == type_)
    record = decode(values[place])
    values[place : place + 1] = (
        [] if data is None else [encode(type_, record.version, {**record.data, **data})]
    )
    return values, record


def partition(record: MetadataRecord) -> str | None:
    """The name of the partition that a record creates."""
    if record.type != "PARTITION_RECORD":
        return None
    names = {identity: name for name, identity in TOPICS.items()}
    return f"{names[record.data['topicId']]}-{record.data['partitionId']}"


def nonconforming(values: list[bytes], folder: Path) -> FieldsByPartition:
    """The partition of each entry, and the fields that differ."""
    (folder / "0").mkdir()
    (folder / "0" / f"{len(LOG):020}-{1:010}.checkpoint").write_bytes(snapshot(values))
    report = replayed(folder, start=LOG, name="0")
    assert report.figures["snapshots compared"] == 1
    assert {entry.position["offset"] for entry in report.unexplained} <= {len(LOG)}
    return [(entry.partition, set(entry.candidates[0].differences)) for entry in report.unexplained]


def test_a_snapshot_of_the_log_does_not_differ(tmp_path: Path) -> None:
    assert nonconforming(image(LOG), tmp_path) == []


@pytest.mark.parametrize(
    ("type_", "data", "field"),
    [
        ("PARTITION_RECORD", None, "partition"),
        ("PARTITION_RECORD", {"partitionEpoch": 999}, "partitionEpoch"),
        *(("PARTITION_RECORD", {"leaderRecoveryState": n}, "leaderRecoveryState") for n in (2, -1)),
        ("REGISTER_BROKER_RECORD", None, "broker {brokerId}"),
        ("REGISTER_BROKER_RECORD", {"brokerEpoch": 1}, "broker {brokerId}.brokerEpoch"),
        ("REGISTER_BROKER_RECORD", {"inControlledShutdown": True}, "broker {brokerId}.inControlledShutdown"),
        ("REGISTER_BROKER_RECORD", {"features": MORE}, "broker {brokerId}.features"),
        ("CONFIG_RECORD", None, "{name} of {resourceName}"),
        ("CONFIG_RECORD", {"value": "99"}, "{name} of {resourceName}"),
        ("FEATURE_LEVEL_RECORD", None, "feature {name}"),
        ("FEATURE_LEVEL_RECORD", {"featureLevel": 7}, "feature {name}"),
    ],
)
def test_a_missing_or_changed_record_is_the_only_difference(
    tmp_path: Path, type_: str, data: dict[str, Any] | None, field: str
) -> None:
    values, record = changed(type_, data)
    assert nonconforming(values, tmp_path) == [(partition(record), {field.format(**record.data)})]


def test_another_partition_is_missing_and_superfluous(tmp_path: Path) -> None:
    values, record = changed("PARTITION_RECORD", {"partitionId": 99})
    other = record._replace(data=record.data | {"partitionId": 99})
    expected = [(partition(found), {"partition"}) for found in (record, other)]
    assert sorted(nonconforming(values, tmp_path)) == sorted(expected)


def test_a_bootstrap_snapshot_is_not_compared(tmp_path: Path) -> None:
    """Kafka 4.4 writes what the first controller will write into a snapshot at offset 0."""
    (tmp_path / "0").mkdir()
    bootstrap = [value for value in LOG if decode(value).type == "FEATURE_LEVEL_RECORD"]
    (tmp_path / "0" / f"{0:020}-{0:010}.checkpoint").write_bytes(snapshot(bootstrap))
    report = replayed(tmp_path, start=LOG, name="0")
    assert (report.unexplained, report.notes, report.explained) == ([], [], True)
    assert "snapshots compared" not in report.figures


def test_a_snapshot_with_a_newer_record_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    values = [
        with_version(v, 5) if decode(v).type == "REGISTER_BROKER_RECORD" else v for v in image(LOG)[:-1]
    ]
    (tmp_path / "0" / f"{len(LOG):020}-{1:010}.checkpoint").write_bytes(snapshot(values))
    report = replayed(tmp_path, start=LOG, name="0")
    assert (report.unexplained, [d.partitions for d in report.doubts]) == ([], [()])
    assert "REGISTER_BROKER_RECORD, version 5" in report.doubts[0].summary
    assert "snapshots compared" not in report.figures
