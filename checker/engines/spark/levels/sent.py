"""What a process has sent of a level: no candidate goes out twice from it, whichever task finds it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from highwater.checker.engines.spark.levels.checkpoint import SearchIdentity
from highwater.checker.engines.spark.program import BucketTable, RowProgram

_MOST_BYTES = 1 << 34


class SentFingerprints:
    """The fingerprints that a process has sent of a level, and the files that they are in.

    A task that leaves a candidate out relies on a file of a task before it, which may be one whose result does not
    count because it was tried twice. So each task names all files, and whoever merges reads them all: what is in
    one more of them is a candidate of the level too.

    The first to send a candidate has the least predecessor, since the tasks of a process come in the order of
    buckets; where one does not, nothing is left out. So what is found does not depend on how tasks were spread.
    """

    def __init__(self) -> None:
        self._level: tuple[str, int] | None = None
        self._bucket = -1
        self._table: BucketTable | None = None
        self._files: dict[str, int] = {}

    @contextmanager
    def of(
        self, run: SearchIdentity, number: int, bucket: int, program: RowProgram
    ) -> Iterator[tuple[BucketTable, dict[str, int]]]:
        """The table of what was sent, and its files with their rows, for a task; it adds its own to both.

        Of a task that fails nothing is kept.
        """
        table, self._table = self._table, None
        if table is not None and self._level is not None and self._level[0] != run.name:
            table.close()  # and with it the machine code of another model, which may have been given up
            table = None
        if table is None:
            table = program.table(_MOST_BYTES)
        if self._level != (run.name, number):
            self._files = {}
        if self._level != (run.name, number) or bucket <= self._bucket:
            table.clear()
        self._level, self._bucket = (run.name, number), bucket
        try:
            yield table, self._files
        except BaseException:
            table.close()
            raise
        self._table = table
