"""The reader returns the same records as Kafka's own dumps of the recorded clusters."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import open_metadata_log, recognise
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, dump_of, needs_clusters_4_2

pytestmark = needs_clusters_4_2
RECORDED = [CLUSTERS_4_2 / name for name in NAMES_4_2]
each_cluster = pytest.mark.parametrize("folder", RECORDED, ids=NAMES_4_2)


def files(folder: Path) -> list[tuple[Path, Path]]:
    found = [
        p for p in sorted((folder / "__cluster_metadata-0").iterdir()) if p.suffix in (".log", ".checkpoint")
    ]
    return [(p, folder / f"dump-{p.name}.txt.gz") for p in found]


@each_cluster
def test_the_records_are_those_of_kafka_s_own_dump(folder: Path) -> None:
    """``dump_of`` prints what the reader finds, which is the whole text of the dump."""
    for path, dump in files(folder):
        text = gzip.decompress(dump.read_bytes()).decode()
        name, head = text.splitlines()[:2]
        made = dump_of(path.read_bytes(), head, name.removeprefix("Dumping "), shows_leader_change=True)
        assert made == text


def comparable(batches: list[RecordBatch]) -> list[tuple[Any, ...]]:
    """The batches as tuples without file positions."""
    return [(*b[1:6], list(b.offsets), b.values, list(b.keys)) for b in batches]


@each_cluster
def test_a_log_and_its_dump_are_the_same(folder: Path) -> None:
    log, dump = open_metadata_log(folder / "__cluster_metadata-0"), open_metadata_log(folder)
    assert (log.kind, dump.kind) == ("metadata log", "metadata log dump")
    assert (log.start, dump.start) == (None, None)
    found = []
    for one in (log, dump):
        batches = []
        for item in one.batches():
            assert len(item) == 2, item
            batches.append(item[1])
        found.append(comparable(batches))
        assert one.bytes_read == one.bytes_total > 0
        assert one.notes == []
    assert found[0] == found[1]
    assert len(log.snapshots) == len(dump.snapshots) == len(files(folder)) - 1
    for a, b in zip(log.snapshots, dump.snapshots, strict=True):
        assert (a.end_offset, a.epoch) == (b.end_offset, b.epoch)
        assert comparable(list(a.batches())) == comparable(list(b.batches()))


def test_files_are_recognised_by_content() -> None:
    for folder in RECORDED:
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            dump = path.name.startswith("dump-")
            if ".checkpoint" in path.name and "leader-epoch" not in path.name:
                expected = "snapshot dump" if dump else "metadata snapshot"
            elif dump or path.suffix == ".log":
                expected = "metadata dump" if dump else "metadata segment"
            else:
                expected = None
            assert recognise(path) == expected, path
