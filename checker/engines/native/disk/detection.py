"""Delayed duplicate detection: the search goes on when the fingerprints of its visited states do not fit into memory.

The table then holds the candidates of a batch only: those of a level, or of as much of one as there is room for. A
candidate that the table does not hold yet is kept, unjudged, as a row in a file. At the end of the batch

1. the table's fingerprints are put into order where they are, and what the visited states on disk hold of them is
   marked: one pass over all of them, in order (``visited.py``);
2. those that are not marked are new: they are written as a sorted run, and are visited from now on;
3. the rows are read back in the order in which they were written. What is not marked is judged, and is a state of the
   next level, with the predecessor that it was found from.

States are judged after all duplicates are gone, so each of them once, as in memory; and the first candidate with a
fingerprint is the one that stays, as in memory, so that one worker finds the same states in the same order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.disk.program import DiskProgram, RowWorker
from highwater.checker.engines.native.disk.runs import Room
from highwater.checker.engines.native.disk.visited import MOST_RUNS, VisitedRuns
from highwater.checker.engines.native.files import NewFile
from highwater.checker.engines.native.frontier import KeptArray, Store
from highwater.checker.engines.native.table import Table

_LEAST = 1 << 20
"""Candidates that are worth a pass over all visited states."""
_MORE = 2
"""Room for candidates to begin a batch with, for each state that is to be expanded."""


class Delayed:
    """The candidates of a batch, and the visited states on disk."""

    def __init__(
        self, program: DiskProgram, table: Table, new_file: NewFile, directory: str | None, threads: int
    ) -> None:
        self.program, self.table = program, table
        self.marks: Words = np.zeros(table.most_slots // 64 + 1, dtype=np.uint64)
        self.candidates = Store(0, directory, bounded=True)
        self.visited = VisitedRuns(new_file, threads)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sift")
        self._chunks: list[KeptArray] = []
        self._lock = threading.Lock()

    def begin(self, to_expand: int) -> None:
        """Move the fingerprints of a table that is full to the disk; the first batch comes from so many states."""
        taken = self.table.taken
        if self.visited.dump(self.table).count != taken:
            raise InternalError("fingerprints were lost on the way from the table to the disk")
        self.table.clear(_MORE * to_expand)

    def too_many(self, wanted: int) -> bool:
        """Whether there are so many candidates that more new states may be among them than are wanted."""
        return self.table.taken > max(wanted, _LEAST)

    def collect(self, worker: RowWorker) -> None:
        """Take over a worker's output. Raises OSError."""
        count = worker["out_count"]
        if count:
            kept = self.candidates.put(worker.rows[:count])
            with self._lock:
                self._chunks.append(kept)
        worker.reset_output()

    def resolve(
        self, workers: Sequence[RowWorker], hand_over: Callable[[RowWorker], None], to_expand: int
    ) -> None:
        """Find out what is new, and hand it over; the next batch comes from so many states. Raises OSError."""
        if not self.table.taken:
            return
        hits = self.visited.mark(self.table, self.marks)
        new = self.visited.add(self.table, self.marks).count
        if new + hits != self.table.taken:
            raise InternalError("candidates were lost when they were held against the visited states")
        if self._sift(workers, hand_over) != new:
            raise InternalError("new states and their fingerprints are not the same number")
        self._chunks = []
        self.candidates.clear()
        self.marks[:] = 0
        self.table.clear(_MORE * to_expand)
        self.visited.merge()

    def _sift(self, workers: Sequence[RowWorker], hand_over: Callable[[RowWorker], None]) -> int:
        waiting = deque(self._chunks)

        def serve(worker: RowWorker) -> int:
            worker.keep()
            worker["marks"] = self.marks.ctypes.data
            kept = 0
            try:
                while waiting:
                    try:
                        chunk = waiting.popleft()
                    except IndexError:
                        break
                    rows = self.candidates.get(chunk)
                    worker.run(self.program.sift, self.table, rows, 0, len(rows), 0)
                    if worker["lost"]:
                        raise InternalError("a candidate's fingerprint is not in the table")
                    kept += worker["out_count"]
                    hand_over(worker)
            finally:
                worker.collect()
            return kept

        return sum(future.result() for future in [self._pool.submit(serve, worker) for worker in workers])

    @property
    def memory_bytes(self) -> int:
        """Memory beside the table."""
        return self.marks.nbytes + self.visited.memory_bytes

    @property
    def disk_bytes(self) -> int:
        """What lies on disk."""
        return self.visited.bytes + self.candidates.spilled_bytes

    def close(self) -> None:
        """Close all files."""
        self._pool.shutdown()
        self.candidates.close()
        self.visited.close()


def reserved_bytes(workers: Sequence[object], rows: int, words: int) -> int:
    """Memory that this takes beside the table and its marks, for so many workers with output of so many rows."""
    row = 8 * (2 + words)
    each = Room.BYTES + 2 * rows * row  # a worker's output, and what it reads back
    return len(workers) * each + (MOST_RUNS + 1) * Room.BYTES // 2 + (8 << 20)
