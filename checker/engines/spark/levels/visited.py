"""The fingerprint tables that a process keeps from one task to the next, a bucket each.

A table knows the level up to which it is whole. It catches up from the files of the levels that it has not
seen, so what a task answers does not depend on the process that it runs in; only its time does.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from highwater.checker.engines.layout import Words
from highwater.checker.engines.spark.levels.checkpoint import (
    CommittedLevel,
    LevelFile,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.program import BucketTable, RowBuffers, RowProgram

_WHOLE_LEVELS_BYTES = 1 << 26
"""Fingerprints of undivided levels that are kept for the next bucket."""


class VisitedTables:
    """Tables by run and bucket; those that were not used for longest go when memory is short."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[str, int], tuple[BucketTable, int]] = OrderedDict()
        self._whole: OrderedDict[tuple[str, int], Words] = OrderedDict()

    @property
    def bytes(self) -> int:
        """Memory of all tables that are kept."""
        return sum(table.bytes for table, _ in self._tables.values())

    def take(
        self,
        program: RowProgram,
        checkpoint: SparkCheckpoint,
        run: SearchIdentity,
        bucket: int,
        level: int,
        limit: int,
    ) -> tuple[BucketTable, int]:
        """A bucket's table with all levels up to this one, and how many fingerprints were read for it.

        The table is the caller's until it is given back; one that is never given back is made anew.
        """
        table, upto = self._tables.pop((run.name, bucket), (None, -1))
        if table is not None and upto > level:  # from a task whose level was not committed
            table.close()
            table = None
        if table is None:
            table, upto = program.table(max(limit, 1 << 28)), -1
        read = 0
        buffers = RowBuffers(program)
        for number in range(upto + 1, level + 1):
            found = checkpoint.level(number)
            assert found is not None, "a level is committed before the next one starts"
            read += self._catch_up(buffers, table, checkpoint, run, bucket, found)
        return table, read

    def give_back(self, run: SearchIdentity, bucket: int, table: BucketTable, level: int, limit: int) -> None:
        """Keep a table that is whole up to a level, as far as memory goes."""
        self._tables[run.name, bucket] = (table, level)
        while self._tables and self.bytes > limit:
            _, (oldest, _) = self._tables.popitem(last=False)
            oldest.close()

    def forget(self, run: str) -> None:
        """Drop everything that is not of a run: it has ended."""
        for key in [key for key in self._tables if key[0] != run]:
            self._tables.pop(key)[0].close()
        for key in [key for key in self._whole if key[0] != run]:
            del self._whole[key]

    def _catch_up(
        self,
        buffers: RowBuffers,
        table: BucketTable,
        checkpoint: SparkCheckpoint,
        run: SearchIdentity,
        bucket: int,
        level: CommittedLevel,
    ) -> int:
        read = 0
        for part in level.parts:
            if part.bucket == bucket:
                fingerprints = checkpoint.fingerprints(level.number, part)
            elif part.bucket is None:
                fingerprints = self._of_bucket(checkpoint, run, bucket, level, part)
            else:
                continue
            buffers.remember(table, fingerprints, run.shift)
            read += len(fingerprints)
        return read

    def _of_bucket(
        self,
        checkpoint: SparkCheckpoint,
        run: SearchIdentity,
        bucket: int,
        level: CommittedLevel,
        part: LevelFile,
    ) -> Words:
        """A bucket's fingerprints of a level that is not divided."""
        key = (run.name, level.number)
        whole = self._whole.get(key)
        if whole is None:
            whole = np.sort(checkpoint.fingerprints(level.number, part))
            self._whole[key] = whole
            while sum(w.nbytes for w in self._whole.values()) > _WHOLE_LEVELS_BYTES:
                self._whole.popitem(last=False)
        first, last = np.searchsorted(
            whole >> np.uint64(64 - run.shift), np.array([bucket, bucket + 1], dtype=np.uint64)
        )
        return whole[first:last]
