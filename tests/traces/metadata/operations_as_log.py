"""The recorded operations of a controller as the metadata log that they make, one batch an operation."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import encode
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import Watch, every_partition
from highwater.traces.reports.report import Report
from tests.generation.batches import encode_batch

Record = dict[str, Any]
START_MS = 1_700_000_000_000
NO_OP: Record = {"type": "NO_OP_RECORD", "version": 0, "data": {}}


@dataclass
class Operations:
    """A recording: its meta line, and its operations; ``at`` has the operation and the record of each offset."""

    meta: dict[str, Any]
    lines: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Operations:
        first, *lines = (json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines())
        return cls(first["meta"], [line for line in lines if line["records"]])

    def record(self, offset: int) -> tuple[dict[str, Any], Record]:
        """The operation that wrote the record at an offset, and the record."""
        line = next(x for x in reversed(self.lines) if x["nextOffset"] <= offset)
        return line["op"], line["records"][offset - line["nextOffset"]]

    def write(self, folder: Path, changed: dict[int, Record] | None = None) -> Path:
        """The log, with other records at some offsets. What was not recorded is filled up with records of no effect."""
        content, offset = b"", 0

        def append(records: list[Record], time: int) -> None:
            nonlocal content, offset
            new = [(changed or {}).get(offset + number, record) for number, record in enumerate(records)]
            values = [encode(record["type"], record["version"], record["data"]) for record in new]
            content += encode_batch(offset, 1, START_MS + time, values)
            offset += len(values)

        append(self.meta["bootstrapRecords"], 0)
        for line in self.lines:
            if offset < line["nextOffset"]:
                append([NO_OP] * (line["nextOffset"] - offset), line["timeMs"])
            append(line["records"], line["timeMs"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{0:020}.log").write_bytes(content)
        return folder


def replayed(folder: Path) -> tuple[Report, dict[int, str | None]]:
    """The report on a log, and what explains the change at each offset."""
    causes: dict[Any, Any] = {}
    report = Report("", "", "")
    log = open_metadata_log(folder)
    replay_metadata(
        log,
        report,
        watch=Watch(every_partition, lambda change: causes.__setitem__(change.position, change.cause)),
    )
    return report, causes
