"""The visited set on disk: the fingerprints of all visited states in a few sorted runs.

One pass over all runs finds the candidates that were visited before, because runs and table are sorted. For few
candidates, the pass reads only the blocks that can hold them. Each batch of new states adds a run. If there are too
many runs, the shortest are merged. With n states, a fingerprint is rewritten O(log n) times.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native.frontier import KeptArray, NewFile, Store
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.runs import BLOCK, Room, SortedRun, code, written_run
from highwater.checker.engines.native.runtime import SLACK
from highwater.checker.engines.native.worker import Table, Worker
from highwater.checker.engines.state_graph import Words

MOST_RUNS = 8
"""The most runs that a merge leaves. A look-up of candidates passes over them once for each run."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, an exhausted quota, or a file at its size limit."""
_STEP = 1 << 18
"""The number of slots of a table from which one call extracts the fingerprints."""

Task = TypeVar("Task")


class VisitedRuns:
    """The sorted runs of all visited fingerprints. No fingerprint is in two runs."""

    def __init__(self, new_file: NewFile, threads: int) -> None:
        self._new_file = new_file
        self._code = code()  # compiled here, before there are threads
        self._rooms = [Room() for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="disk")
        self.runs: list[SortedRun] = []

    @property
    def count(self) -> int:
        """The number of visited states."""
        return sum(run.count for run in self.runs)

    @property
    def bytes(self) -> int:
        """The number of bytes that the runs take on disk."""
        return sum(run.file.size for run in self.runs)

    @property
    def memory_bytes(self) -> int:
        """The number of bytes that the read buffers and the runs' indices take in memory."""
        return len(self._rooms) * Room.BYTES + sum(run.index.nbytes for run in self.runs)

    def mark(self, table: Table, marks: Words) -> int:
        """Sort a table, and mark each slot whose fingerprint is in a run. Returns the number of marks."""
        self._tidy(table)
        return sum(self._shared(self._tasks(table), _Marking(table, marks)))

    def _tidy(self, table: Table) -> None:
        end = table.capacity + SLACK
        cuts = [0, *(_gap(table, n * end // 64) for n in range(1, 64)), end]
        ranges = [(a, b) for a, b in itertools.pairwise(cuts) if a < b]
        self._shared(ranges, lambda room, part: code().tidy(table.address, *part) or 0)

    def _tasks(self, table: Table) -> Iterable[tuple[SortedRun, int, int]]:
        """Yield the ranges of blocks to read, as (run, start, end).

        With few candidates, only blocks that can hold one are read.
        """
        sparse = None
        if table.taken < sum(run.blocks for run in self.runs):
            sparse = np.concatenate(list(in_order(table, None)) or [np.empty(0, dtype=np.uint64)])
        for run in self.runs:
            wanted = None
            if sparse is not None:
                places = np.unique(np.searchsorted(run.firsts, sparse, side="right")) - 1
                wanted = places[places >= 0]
            for start, end in run.groups(wanted):
                yield run, start, end

    def _shared(self, tasks: Iterable[Task], work: Callable[[Room, Task], int]) -> Sequence[int]:
        """Distribute the tasks to the threads. Returns, for each thread, the sum of its tasks' results."""
        waiting = deque(tasks)
        failed = threading.Event()

        def serve(room: Room) -> int:
            total = 0
            while waiting and not failed.is_set():
                try:
                    task = waiting.popleft()
                except IndexError:
                    break
                try:
                    total += work(room, task)
                except BaseException:
                    failed.set()
                    raise
            return total

        futures = [self._pool.submit(serve, room) for room in self._rooms]
        return [future.result() for future in futures]

    def add(self, table: Table, marks: Words | None) -> SortedRun:
        """Write the unmarked fingerprints of a sorted table as a run, and return it. Close the run if it is empty."""
        run = written_run(self._new_file("visited"), in_order(table, marks))
        if run.count:
            self.runs.append(run)
        else:
            run.close()
        return run

    def dump(self, table: Table) -> SortedRun:
        """Sort a table, write all its fingerprints as a new run, and return the run."""
        self._tidy(table)
        return self.add(table, None)

    def merge(self) -> None:
        """Merge the shortest runs until at most MOST_RUNS are left, or the disk is full."""
        while len(self.runs) > MOST_RUNS:
            self.runs.sort(key=lambda run: run.count)
            total, number = 0, 0
            while number < len(self.runs) and (number < 2 or self.runs[number].count <= 2 * total):
                total += self.runs[number].count
                number += 1
            try:
                merged = merged_run(self.runs[:number], self._new_file)
            except OSError as wrong:
                if wrong.errno not in FULL:
                    raise
                return
            for run in self.runs[:number]:
                run.close()
            self.runs[:number] = [merged]

    def load(self, table: Table) -> bool:
        """Load all runs into an empty table. Returns False if a fingerprint comes twice or the table is full."""
        for run in self.runs:
            for start, end in run.groups():
                for part in run.unpacked(start, end, self._rooms[0]):
                    if code().fill(table.address, table.capacity, part.ctypes.data, len(part)):
                        return False
        table.taken = self.count
        return True

    def close(self) -> None:
        """Close all files, and end the threads."""
        self._pool.shutdown()
        for run in self.runs:
            run.close()
        self.runs = []


class _Marking:
    """Marks the fingerprints of a table that are also in a range of a run's blocks; a call returns their number."""

    def __init__(self, table: Table, marks: Words) -> None:
        self._table, self._marks = table, marks

    def __call__(self, room: Room, task: tuple[SortedRun, int, int]) -> int:
        run, start, end = task
        table, hits, merge = self._table, 0, code().merge
        last = table.capacity + SLACK
        for part in run.unpacked(start, end, room):
            # No fingerprint lies before its home slot.
            home = int(part[0]) * table.capacity >> 64
            hits += merge(table.address, home, last, self._marks.ctypes.data, part.ctypes.data, len(part))
        return hits


def _gap(table: Table, slot: int) -> int:
    """The first empty slot of a table from ``slot`` on, or the table's end."""
    end = table.capacity + SLACK
    while slot < end:
        part = table.slots[slot : min(slot + 4096, end)]
        empty = np.flatnonzero(part == 0)
        if len(empty):
            return slot + int(empty[0])
        slot += len(part)
    return end


def in_order(table: Table, marks: Words | None) -> Iterable[Words]:
    """Yield the unmarked fingerprints of a sorted table, in order. ``marks`` None: no slot is marked."""
    end = table.capacity + SLACK
    if marks is None:
        marks = np.zeros(end // 64 + 1, dtype=np.uint64)
    out: Words = np.empty(_STEP + 1, dtype=np.uint64)
    for start in range(0, end, _STEP):
        last = min(start + _STEP, end)
        count = code().extract(table.address, start, last, marks.ctypes.data, out.ctypes.data)
        if count:
            yield out[:count].copy()


class _Cursor:
    """The position of a merge in a run. ``left`` is the rest of the current block."""

    def __init__(self, run: SortedRun) -> None:
        self._run, self._room, self._next = run, Room(8 * BLOCK), 0
        self.left: Words = np.empty(0, dtype=np.uint64)

    def fill(self) -> bool:
        """Read the next block if ``left`` is empty. Returns False at the end of the run."""
        if not len(self.left) and self._next < self._run.blocks:
            (block,) = self._run.unpacked(self._next, self._next + 1, self._room)
            self.left = block.copy()
            self._next += 1
        return bool(len(self.left))

    def take(self, upto: int) -> Words:
        """Remove the fingerprints up to ``upto`` from ``left``, and return them."""
        cut = int(np.searchsorted(self.left, np.uint64(upto), side="right"))
        taken, self.left = self.left[:cut], self.left[cut:]
        return taken


def merged_run(runs: Sequence[SortedRun], new_file: NewFile) -> SortedRun:
    """Merge several runs into one. Raises InternalError if a fingerprint was lost."""
    merged = written_run(new_file("visited"), _together([_Cursor(run) for run in runs]))
    if merged.count != sum(run.count for run in runs):
        merged.close()
        raise InternalError("fingerprints of visited states were lost when they were merged")
    return merged


def _together(cursors: list[_Cursor]) -> Iterator[Words]:
    """Yield all fingerprints of the merged runs, sorted, in arrays."""
    while cursors := [cursor for cursor in cursors if cursor.fill()]:
        upto = min(int(cursor.left[-1]) for cursor in cursors)
        part = np.concatenate([cursor.take(upto) for cursor in cursors])
        part.sort()
        yield part


# Delayed duplicate detection, for a search whose visited fingerprints exceed memory.
#
# The table holds only the candidates of one batch: the candidates of a level, or of the part of a level that fits. A
# candidate that is not in the table yet is added to it, and written to a file as a row. At the end of a batch:
#
# 1. The table is sorted in place. One pass over all visited fingerprints on disk marks the slots that have one of them.
# 2. The unmarked fingerprints are new. They are written as a sorted run, and count as visited.
# 3. The rows are read back in the order in which they were written. An unmarked row becomes a state of the next level,
#    and its properties are checked.
#
# As in memory, the properties of a state are checked once, and the first candidate with a fingerprint is kept. So a
# search with one worker finds the same states in the same order as in memory.

_LEAST = 1 << 20
"""The least number of candidates for which a pass over all visited states pays off."""
_MORE = 2
"""The room for candidates in a cleared table, as a multiple of the number of states to expand."""


class Delayed:
    """Delayed duplicate detection: the candidates of a batch in memory, and all visited states in sorted runs."""

    def __init__(
        self, program: Program, table: Table, new_file: NewFile, directory: str | None, threads: int
    ) -> None:
        self.program, self.table = program, table
        self.marks: Words = np.zeros(table.most_slots // 64 + 1, dtype=np.uint64)
        self.candidates = Store(0, directory, bounded=True)
        self.visited = VisitedRuns(new_file, threads)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sift")
        self._chunks: list[KeptArray] = []
        self._lock = threading.Lock()

    def begin(self, to_expand: int) -> None:
        """Move the fingerprints of the full table to disk. The first batch expands ``to_expand`` states."""
        taken = self.table.taken
        if self.visited.dump(self.table).count != taken:
            raise InternalError("fingerprints were lost on the way from the table to the disk")
        self.table.clear(_MORE * to_expand)

    def restore(self, runs: list[SortedRun], to_expand: int) -> None:
        """Continue with the visited states in these runs. The first batch expands ``to_expand`` states."""
        self.visited.runs = runs
        self.table.clear(_MORE * to_expand)

    def too_many(self, wanted: int) -> bool:
        """True if the table holds more than ``wanted`` candidates, and enough for a pass over the disk."""
        return self.table.taken > max(wanted, _LEAST)

    def collect(self, worker: Worker) -> None:
        """Add a worker's output to the candidates. Raises OSError."""
        count = worker["out_count"]
        if count:
            kept = self.candidates.put(worker.rows[:count])
            with self._lock:
                self._chunks.append(kept)
        worker.reset_output()

    def resolve(self, workers: Sequence[Worker], hand_over: Callable[[Worker], None], to_expand: int) -> None:
        """Find the new states among the batch's candidates. Raises OSError.

        Calls ``hand_over`` with each worker whose output holds some of the new states. ``to_expand`` is the number
        of states that the next batch expands; it determines the size of the table.
        """
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

    def _sift(self, workers: Sequence[Worker], hand_over: Callable[[Worker], None]) -> int:
        waiting = deque(self._chunks)

        def serve(worker: Worker) -> int:
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
        """The number of bytes in memory, without the table."""
        return self.marks.nbytes + self.visited.memory_bytes

    @property
    def disk_bytes(self) -> int:
        """The number of bytes on disk."""
        return self.visited.bytes + self.candidates.spilled_bytes

    def close(self) -> None:
        """Close all files and end all threads."""
        self._pool.shutdown()
        self.candidates.close()
        self.visited.close()


def reserved_bytes(workers: Sequence[object], rows: int, words: int) -> int:
    """The bytes of memory that the visited set on disk needs, without table and marks.

    Each worker's output has ``rows`` rows, and a state has ``words`` words.
    """
    row = 8 * (2 + words)
    each = Room.BYTES + 2 * rows * row  # a worker's output, and the rows that it reads back
    return len(workers) * each + (MOST_RUNS + 1) * Room.BYTES // 2 + (8 << 20)
