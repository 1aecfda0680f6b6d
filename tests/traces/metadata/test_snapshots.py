"""A snapshot that lacks a record, or has a different one, is reported with exactly that record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import MetadataRecord, decode, encode
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.generation import write_log
from tests.traces.metadata.accounts import shared
from tests.traces.metadata.mutations import Log, read

FieldsByPartition = list[tuple[str | None, set[str]]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder, partitions=12, records=400, brokers=3, seed=1, snapshot_every=300)
    return read(folder)


@pytest.fixture(autouse=True, scope="module")
def _fast() -> Iterator[None]:
    with shared():
        yield


def changed(log: Log, type_: str, data: dict[str, Any] | None) -> tuple[Log, MetadataRecord]:
    """The log with some fields of the last record of a type set otherwise in its snapshot, or (None) without it."""
    (snapshot, *_) = log.snapshots
    batches = list(snapshot.batches)
    number, place, record = [
        (number, place, record)
        for number, batch in enumerate(batches)
        if not batch.control
        for place, record in enumerate(decode(value or b"") for value in batch.values)
        if record.type == type_
    ][-1]
    batch = batches[number]
    new = [] if data is None else [encode(type_, record.version, {**record.data, **data})]
    values = [*batch.values[:place], *new, *batch.values[place + 1 :]]
    count = len(values)
    batches[number] = batch._replace(
        values=values,
        offsets=batch.offsets[:count],
        last_offset=batch.base_offset + count - 1,
        keys=batch.keys[:count],
        times=batch.times[:count],
    )
    made = replace(log, snapshots=(replace(snapshot, batches=tuple(batches)),))
    return made, record


def partition(log: Log, record: MetadataRecord) -> str | None:
    """The name of the partition that a record creates."""
    if record.type != "PARTITION_RECORD":
        return None
    names = {r.data["topicId"]: r.data["name"] for _, _, r in log.records() if r.type == "TOPIC_RECORD"}
    return f"{names[record.data['topicId']]}-{record.data['partitionId']}"


def nonconforming(log: Log, folder: Path) -> FieldsByPartition:
    """The partition of each entry, and the fields that differ."""
    report = Report("made", "metadata log", "")
    replay_metadata(open_metadata_log(log.write(folder)), report)
    assert report.figures["snapshots compared"] == len(log.snapshots)
    end = {snapshot.end_offset for snapshot in log.snapshots}
    assert {entry.position["offset"] for entry in report.unexplained} <= end
    return [(entry.partition, set(entry.candidates[0].differences)) for entry in report.unexplained]


def test_a_snapshot_of_the_log_does_not_differ(log: Log, tmp_path: Path) -> None:
    assert nonconforming(log, tmp_path) == []


@pytest.mark.parametrize(
    ("type_", "data", "field"),
    [
        ("PARTITION_RECORD", None, "partition"),
        ("PARTITION_RECORD", {"partitionEpoch": 999}, "partitionEpoch"),
        *(("PARTITION_RECORD", {"leaderRecoveryState": n}, "leaderRecoveryState") for n in (2, 7, -1)),
        ("REGISTER_BROKER_RECORD", None, "broker {brokerId}"),
        ("REGISTER_BROKER_RECORD", {"brokerEpoch": 1}, "broker {brokerId}.brokerEpoch"),
        ("REGISTER_BROKER_RECORD", {"inControlledShutdown": True}, "broker {brokerId}.inControlledShutdown"),
        (
            "REGISTER_BROKER_RECORD",
            {"features": [{"name": "metadata.version", "minSupportedVersion": 1, "maxSupportedVersion": 99}]},
            "broker {brokerId}.features",
        ),
        ("CONFIG_RECORD", None, "{name} of {resourceName}"),
        ("CONFIG_RECORD", {"value": "99"}, "{name} of {resourceName}"),
        ("FEATURE_LEVEL_RECORD", None, "feature {name}"),
        ("FEATURE_LEVEL_RECORD", {"featureLevel": 7}, "feature {name}"),
    ],
)
def test_a_missing_or_changed_record_is_the_only_difference(
    log: Log, tmp_path: Path, type_: str, data: dict[str, Any] | None, field: str
) -> None:
    made, record = changed(log, type_, data)
    assert nonconforming(made, tmp_path) == [(partition(log, record), {field.format(**record.data)})]


def test_another_partition_is_missing_and_superfluous(log: Log, tmp_path: Path) -> None:
    made, record = changed(log, "PARTITION_RECORD", {"partitionId": 99})
    other = record._replace(data=record.data | {"partitionId": 99})
    expected = [(partition(log, found), {"partition"}) for found in (record, other)]
    assert sorted(nonconforming(made, tmp_path)) == sorted(expected)
