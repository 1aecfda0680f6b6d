"""Parquet files of a table: written under another name until they are complete, in row groups of bounded size."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.base.problems import interruption
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.search import Progress, ProgressCallback
from highwater.checker.tables.content import StateTable, StepVerdicts, TransitionTable
from highwater.checker.tables.directory import STATES, TRANSITIONS, WrittenTables

ROWS = 1 << 17
"""The most rows of a row group, which are decoded together."""
_NUMBERS = ("state", "source", "target")
"""Columns whose values are nearly all different, so that a dictionary would only cost space."""


class TableFile:
    """File ``number`` of a table. It gets its final name when it is closed without an error."""

    def __init__(self, directory: Path, table: str, number: int, schema: pa.Schema) -> None:
        self.path = directory / table / f"part-{number:05}.parquet"
        self._temporary = self.path.with_name(f".{self.path.stem}-{uuid.uuid4().hex[:12]}.tmp")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(
            self._temporary,
            schema,
            compression="zstd",
            use_dictionary=_with_dictionary(schema),
            write_page_checksum=True,  # so that a reader can detect damage
        )
        self.rows = self.bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows as row groups."""
        self._writer.write_table(rows, row_group_size=ROWS)
        self.rows += rows.num_rows

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
            if kind is None:
                self.bytes = self._temporary.stat().st_size
                self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


def _with_dictionary(schema: pa.Schema) -> list[str]:
    """The paths of the columns for which Parquet should use a dictionary."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    found = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    paths = [found.column(i).path for i in range(len(found))]
    return [path for path in paths if path not in _NUMBERS]


# An explored graph as tables. Each file has a range of the states; several threads write files.

_STATES_IN_FILE = 1 << 19
_REFRESH = 0.2


def write(
    explored: Explored, directory: Path, workers: int, progress: ProgressCallback | None
) -> WrittenTables:
    """Write both tables of a graph below a directory.

    Raises KeyboardInterrupt after Ctrl-C, and OSError if writing fails; both leave incomplete tables.
    """
    return _Writing(explored, directory, progress).write(workers)


class _Writing:
    def __init__(self, explored: Explored, directory: Path, progress: ProgressCallback | None) -> None:
        self._explored, self._directory, self._progress = explored, directory, progress
        self._states = StateTable(explored.model, explored.layout)
        self._transitions = TransitionTable(explored.model)
        self._verdicts = StepVerdicts(explored.model, explored.layout)
        self._written, self._lock = WrittenTables(), threading.Lock()
        self._written.depth, self._written.stopped_by = len(explored.level_starts) - 1, explored.stopped_by
        self._written.violations = dict.fromkeys(explored.model.safety, 0)
        self._stop = self._interrupted = False
        self._started = time.perf_counter()

    def write(self, workers: int) -> WrittenTables:
        starts = range(0, len(self._explored.states), _STATES_IN_FILE)
        with interruption(self._interrupt), ThreadPoolExecutor(workers, "tables") as pool:
            jobs = [pool.submit(self._range, number, start) for number, start in enumerate(starts)]
            try:
                while wait(jobs, timeout=_REFRESH).not_done:
                    if any(job.done() and job.exception() for job in jobs):
                        self._stop = True
                    self._report()
            except BaseException:
                self._stop = True
                raise
            for job in jobs:
                job.result()
        if self._interrupted:
            raise KeyboardInterrupt
        return self._written

    def _interrupt(self) -> None:
        self._stop = self._interrupted = True

    def _report(self) -> None:
        if self._progress:
            total, done = len(self._explored.states), self._written
            left, seconds = total - done.states, time.perf_counter() - self._started
            self._progress(Progress(done.depth, done.states, done.transitions, left, 0, done.bytes, seconds))

    def _range(self, number: int, start: int) -> None:
        """Write the two files of the range of states that begins at ``start``."""
        end = min(start + _STATES_IN_FILE, len(self._explored.states))
        if self._stop:
            return
        with TableFile(self._directory, TRANSITIONS, number, self._transitions.schema) as file:
            self._write_transitions(file, start, end)
        with TableFile(self._directory, STATES, number, self._states.schema) as states:
            self._write_states(states, start, end)
        with self._lock:
            self._written.bytes += file.bytes + states.bytes

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for at in range(start, end, ROWS):
            if self._stop:
                return
            yield at, min(at + ROWS, end)

    def _write_states(self, file: TableFile, start: int, end: int) -> None:
        graph = self._explored
        for a, b in self._pieces(start, end):
            numbers = np.arange(a, b)
            steps, cut = np.diff(graph.offsets[a : b + 1]), np.diff(graph.cut_offsets[a : b + 1])
            depths, words = graph.depths(a, b), graph.states[a:b]
            rows = self._states.rows(numbers, depths, numbers < graph.expanded, steps, cut, words)
            violations = self._states.violations(rows)
            file.write(rows)
            with self._lock:
                self._written.states += b - a
                self._count(violations)

    def _count(self, violations: dict[str, int]) -> None:
        for name, count in violations.items():
            self._written.violations[name] += count

    def _write_transitions(self, file: TableFile, start: int, end: int) -> None:
        graph = self._explored
        first, last = int(graph.offsets[start]), int(graph.offsets[end])
        sources = np.repeat(np.arange(start, end), np.diff(graph.offsets[start : end + 1]))
        for a, b in self._pieces(first, last):
            source, target = sources[a - first : b - first], graph.targets[a:b]
            instances = graph.instances[a:b]
            shortest = (graph.parents[target] == source) & (graph.parent_instances[target] == instances)
            least, most = int(source[0]), int(source[-1]) + 1
            broken = self._verdicts(graph.states[least:most], source - least, instances)
            rows = self._transitions.rows(source, target, instances, shortest, broken)
            violations = self._transitions.violations(rows)
            file.write(rows)
            with self._lock:
                self._written.transitions += b - a
                self._count(violations)
