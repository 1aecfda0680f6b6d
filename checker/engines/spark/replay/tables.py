"""A replay as tables: changes of partitions, findings, and what nothing explains, as Parquet."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.observed import PartitionChange, PartitionState

_IDS = pa.list_(pa.int32())
_STATE = pa.struct(
    [
        *((name, _IDS) for name in ("replicas", "isr", "elr", "last_known_elr", "adding", "removing")),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("leader_recovery_state", pa.string()),
    ]
)
SCHEMAS = {
    "changes": pa.schema(
        [
            ("offset", pa.int64()),
            ("time", pa.timestamp("ms", "UTC")),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("cause", pa.string()),
            ("min_isr", pa.int32()),
            ("unclean_election", pa.bool_()),
            ("before", _STATE),
            ("after", _STATE),
        ]
    ),
    "findings": pa.schema(
        [
            ("offset", pa.int64()),
            ("time", pa.timestamp("ms", "UTC")),
            ("partition", pa.string()),
            ("rule", pa.string()),
            ("property", pa.string()),
            ("kip", pa.string()),
            ("certain", pa.bool_()),
            ("reliable", pa.bool_()),
            ("summary", pa.string()),
            ("at_risk", pa.string()),
        ]
    ),
    "unexplained": pa.schema(
        [
            ("offset", pa.int64()),
            ("time", pa.timestamp("ms", "UTC")),
            ("partition", pa.string()),
            ("nearest", pa.string()),
            ("refused_by", pa.list_(pa.string())),
            ("reliable", pa.bool_()),
            ("before", pa.string()),
            ("candidates", pa.string()),
        ]
    ),
}
"""``before`` and ``candidates`` of what is not explained are JSON, as in the report."""
GROUP = 20_000
"""So many rows are kept before they are written."""


class ReplayTables:
    """The tables' parts of one share, or of the driver (``share`` None). A part has its name once it is whole."""

    def __init__(self, directory: str, share: int | None) -> None:
        self._parts = {
            name: _Part(Path(directory) / name, schema, "last" if share is None else f"{share:05}")
            for name, schema in SCHEMAS.items()
        }

    def change(self, change: PartitionChange) -> None:
        """A change of a partition."""
        self._parts["changes"].add(
            {
                "offset": change.position,
                "time": change.time,
                "topic": change.topic,
                "partition": change.partition,
                "cause": change.cause,
                "min_isr": change.min_isr,
                "unclean_election": change.unclean_election,
                "before": _state(change.before),
                "after": _state(change.after),
            }
        )

    def told(self, line: Unexplained | Finding) -> None:
        """What was found, or is not explained."""
        row = {"offset": line.position["offset"], "time": line.time, "partition": line.partition}
        row["reliable"] = line.reliable
        if isinstance(line, Finding):
            for name in ("rule", "property", "kip", "certain", "summary", "at_risk"):
                row[name] = getattr(line, name)
            self._parts["findings"].add(row)
            return
        nearest = line.candidates[0] if line.candidates else None
        row["nearest"] = None if nearest is None else nearest.action
        row["refused_by"] = [] if nearest is None else list(nearest.refused_by)
        row["before"] = json.dumps(dict(line.before))
        row["candidates"] = json.dumps([c.to_json() for c in line.candidates])
        self._parts["unexplained"].add(row)

    def close(self) -> None:
        """Write what is left, and give the parts their names."""
        for part in self._parts.values():
            part.close()


def _state(state: PartitionState | None) -> dict[str, Any] | None:
    return None if state is None else {field.name: getattr(state, field.name) for field in _STATE}


class _Part:
    def __init__(self, directory: Path, schema: pa.Schema, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"part-{name}.parquet"
        # Another attempt at the same share may be under way.
        self._unfinished = directory / f".part-{name}-{uuid.uuid4().hex}"
        self._schema, self._rows = schema, list[dict[str, Any]]()
        self._writer = pq.ParquetWriter(self._unfinished, schema, compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= GROUP:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def close(self) -> None:
        if self._rows:
            self._write()
        self._writer.close()
        os.replace(self._unfinished, self._path)
