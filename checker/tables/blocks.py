"""Steps on their way through Spark: one row for all that a task sends to a bucket, and reports beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from highwater.checker.engines.layout import Words

BLOCKS = pa.schema([("key", pa.int64()), ("report", pa.string()), ("rows", pa.binary())])
REPORTS = pa.schema([("report", pa.string())])


def blocks_of(keys: list[int], reports: list[str | None], rows: list[Any]) -> pa.RecordBatch:
    """Blocks and reports as rows of Spark's."""
    return pa.record_batch(
        [pa.array(keys, pa.int64()), pa.array(reports, pa.string()), pa.array(rows, pa.binary())],
        schema=BLOCKS,
    )


def divided(shift: int, keys: tuple[int, ...], rows: Words) -> pa.RecordBatch:
    """Rows as one block for each bucket that some of them fall into."""
    buckets = (rows[:, 0] >> np.uint64(64 - shift)).astype(np.uint16 if shift <= 16 else np.uint32)
    rows = rows[np.argsort(buckets, kind="stable")]
    counts = np.bincount(buckets, minlength=1 << shift)
    present = np.flatnonzero(counts)
    ends = np.cumsum(counts)[present]
    offsets = np.concatenate([[0], ends * rows.shape[1] * 8]).astype(np.int32)
    blocks = pa.Array.from_buffers(
        pa.binary(), len(present), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    )
    sent_to = pa.array(np.asarray(keys, dtype=np.int64)[present])
    return pa.record_batch([sent_to, pa.nulls(len(present), pa.string()), blocks], schema=BLOCKS)
