"""The tables of visited states that a process keeps: whole up to a level, of their bucket, and not too many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from highwater.checker.engines.spark.levels.checkpoint import (
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.levels.visited import VisitedTables
from highwater.checker.engines.spark.program import RowBuffers, RowProgram
from tests.spark.test_pieces import committed, compiled, rows_of


@pytest.fixture(scope="module")
def program() -> RowProgram:
    return compiled("truncation/kip-101")


@pytest.mark.parametrize("limit", [0, 1 << 30], ids=["read again from files", "kept"])
def test_a_buckets_table_has_its_levels_and_no_others(
    program: RowProgram, tmp_path: Path, limit: Any
) -> None:
    """An undivided level and a divided one; and what a task left that did more than was committed is not used."""
    checkpoint, run = (
        SparkCheckpoint(tmp_path),
        SearchIdentity("name", "{}", "content", program.layout.words, 2),
    )
    draw = np.random.default_rng(3)
    fingerprints = draw.permutation(np.unique(draw.integers(1, 1 << 64, 3_000, dtype=np.uint64)))
    rows = [rows_of(program, some, some) for some in np.array_split(fingerprints, 3)]
    committed(checkpoint, run, 0, rows[0], None)
    committed(checkpoint, run, 1, rows[1], 0, 1, 2, 3)
    visited = VisitedTables()
    for level in (0, 0, 1, 0):
        for bucket in range(4):
            mine = [r[r[:, 0] >> np.uint64(62) == bucket] for r in rows]
            table, _ = visited.take(program, checkpoint, run, bucket, level, limit)
            assert table.taken == sum(len(r) for r in mine[: level + 1])
            buffers = RowBuffers(program, judging=False)
            kept = [k[:, 0].copy() for k in buffers.merge(table, np.concatenate(mine[: level + 2]), 2)]
            assert np.concatenate(kept).tolist() == sorted(mine[level + 1][:, 0].tolist())
            visited.give_back(run, bucket, table, level + 1, limit)
            assert (visited.bytes > 0) == (limit > 0)
    visited.forget("another run")
    assert visited.bytes == 0


def test_of_tables_and_whole_levels_the_last_are_kept(
    program: RowProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is short; how much is read shows which are made anew."""
    checkpoint, run = (
        SparkCheckpoint(tmp_path),
        SearchIdentity("name", "{}", "content", program.layout.words, 1),
    )
    fingerprints = np.array([1, 2, (1 << 63) + 1], dtype=np.uint64)
    for level in range(2):
        some = fingerprints + np.uint64(10 * level)
        committed(checkpoint, run, level, rows_of(program, some, some), None)
    whole = len(fingerprints) * fingerprints.itemsize
    monkeypatch.setattr("highwater.checker.engines.spark.levels.visited._WHOLE_LEVELS_BYTES", whole)
    visited, read = VisitedTables(), []
    for bucket in (0, 1, 1, 0):
        table, count = visited.take(program, checkpoint, run, bucket, 1, limit=0)
        assert table.taken == (4, 2)[bucket]
        read.append(count)
        visited.give_back(run, bucket, table, 1, limit=table.bytes)
        assert sum(level.nbytes for level in visited._whole.values()) == whole
    assert read == [4, 2, 0, 4]
