"""The 14,155 recorded operations of a 4.2.1 controller, replayed as metadata logs, one batch an operation."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.values import encode
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reports.observed import PartitionChange
from tests import recordings
from tests.generation.batches import encode_batch
from tests.slow import slow
from tests.traces.metadata.accounts import shared
from tests.traces.metadata.made_logs import report_on

RECORDED = recordings.folder("traces/kafka-4.2/controller")
UNEXPLAINED_CHANGES = {"elr-on": 3, "elr-off": 4, "elr-on-extras": 0}
"""The changes that do not conform, by mode: an ISR that a leader requests again in another order."""
ASSIGNED = {"elr-on": 0, "elr-off": 0, "elr-on-extras": 62}
"""The changes that only the assignment of a replica to a directory explains."""
START_MS = 1_700_000_000_000
NO_OP: dict[str, Any] = {"type": "NO_OP_RECORD", "version": 0, "data": {}}

pytestmark = recordings.needs("traces/kafka-4.2/controller")


def as_log(recording: Path, folder: Path) -> tuple[Path, dict[int, dict[str, Any]]]:
    """The log, and the operation of each batch by its first offset; NO_OP records fill gaps of the recording."""
    first, *lines = (json.loads(line) for line in gzip.decompress(recording.read_bytes()).splitlines())
    operations = {line["nextOffset"]: line for line in lines if line["records"]}
    content, offset = b"", 0

    def append(records: list[dict[str, Any]], time: int) -> None:
        nonlocal content, offset
        values = [encode(record["type"], record["version"], record["data"]) for record in records]
        content += encode_batch(offset, 1, START_MS + time, values)
        offset += len(values)

    append(first["meta"]["bootstrapRecords"], 0)
    for line in operations.values():
        if offset < line["nextOffset"]:
            append([NO_OP] * (line["nextOffset"] - offset), line["timeMs"])
        append(line["records"], line["timeMs"])
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(content)
    return folder, operations


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=slow("every file; each twentieth is fast"))])
@pytest.mark.parametrize("mode", UNEXPLAINED_CHANGES)
def test_every_recorded_operation_is_explained_but_an_isr_in_another_order(
    mode: str, every: int, tmp_path: Path
) -> None:
    causes: Counter[str] = Counter()

    def count(change: PartitionChange) -> None:
        causes[change.cause or "nothing"] += 1

    with shared():
        for number, path in enumerate(sorted((RECORDED / mode).glob("*.ndjson.gz"))[::every]):
            folder, operations = as_log(path, tmp_path / str(number))
            report = report_on(folder, Watch([count]))
            assert report.doubts == []
            for line in report.unexplained:
                at = line.position["offset"]
                begin = max(offset for offset in operations if offset <= at)
                operation, record = operations[begin]["op"], operations[begin]["records"][at - begin]
                assert (operation["name"], operation["kind"]) == ("alterPartition", "no-op"), (path, line)
                assert set(record["data"]) == {"partitionId", "topicId", "isr"}
    found = (causes["nothing"], causes["assign_directory"])
    if every == 1:
        assert found == (UNEXPLAINED_CHANGES[mode], ASSIGNED[mode])
    else:
        assert found[0] <= UNEXPLAINED_CHANGES[mode]
        assert bool(found[1]) == bool(ASSIGNED[mode])
