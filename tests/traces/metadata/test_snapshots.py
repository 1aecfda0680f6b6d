"""A snapshot that lacks a record, or has one otherwise, differs from the records before it in just that."""

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

Told = list[tuple[str | None, set[str]]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    folder = tmp_path_factory.mktemp("log")
    write_log(folder, partitions=12, records=400, brokers=3, seed=1, snapshot_every=300)
    return read(folder)


@pytest.fixture(autouse=True)
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


def told(log: Log, folder: Path) -> Told:
    """The partition of each entry, and the fields that differ."""
    report = Report("made", "metadata log", "")
    replay_metadata(open_metadata_log(log.write(folder)), report)
    assert report.figures["snapshots compared"] == len(log.snapshots)
    end = {snapshot.end_offset for snapshot in log.snapshots}
    assert {entry.position["offset"] for entry in report.unexplained} <= end
    return [(entry.partition, set(entry.candidates[0].differences)) for entry in report.unexplained]


def test_as_it_was_written(log: Log, tmp_path: Path) -> None:
    assert told(log, tmp_path) == []


def test_a_partition(log: Log, tmp_path: Path) -> None:
    ((name, fields),) = told(changed(log, "PARTITION_RECORD", None)[0], tmp_path / "without")
    assert fields == {"partition"}
    _, record = changed(log, "PARTITION_RECORD", None)
    epoch = {"partitionEpoch": record.data["partitionEpoch"] + 1}
    assert told(changed(log, "PARTITION_RECORD", epoch)[0], tmp_path / "epoch") == [
        (name, {"partitionEpoch"})
    ]
    other = {"partitionId": 99}
    found = told(changed(log, "PARTITION_RECORD", other)[0], tmp_path / "other")
    assert sorted(found) == sorted(
        [(name, {"partition"}), (f"{(name or '').rpartition('-')[0]}-99", {"partition"})]
    )


@pytest.mark.parametrize(
    ("type_", "data", "field"),
    [
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
def test_what_is_of_the_cluster(
    log: Log, tmp_path: Path, type_: str, data: dict[str, Any] | None, field: str
) -> None:
    made, record = changed(log, type_, data)
    assert told(made, tmp_path) == [(None, {field.format(**record.data)})]


@pytest.mark.parametrize("value", [2, 7, -1])
def test_a_value_that_means_nothing(log: Log, tmp_path: Path, value: int) -> None:
    """It is not taken for the value that it is nearest to, as RECOVERED."""
    (found,) = told(changed(log, "PARTITION_RECORD", {"leaderRecoveryState": value})[0], tmp_path)
    assert found[1] == {"leaderRecoveryState"}
