"""An explored graph as Parquet tables. Each file has a range of the states; several threads write files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.base.problems import interruption
from highwater.checker.engines.columns import StateTable, TransitionTable, with_dictionary
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.search import Progress, ProgressCallback

ROWS = 1 << 17
"""The most rows of a row group, which are decoded together."""
_STATES_IN_FILE = 1 << 19
_REFRESH = 0.2
Piece = Callable[[int, int], dict[str, pa.Array]]
"""The columns of the rows from the first number to the second (exclusive)."""


def write(explored: Explored, directory: Path, workers: int, progress: ProgressCallback | None) -> None:
    """Write both tables of a graph below a directory.

    Raises KeyboardInterrupt after Ctrl-C, and OSError if writing fails; both leave incomplete tables.
    """
    _Writing(explored, directory, progress).write(workers)


class _Writing:
    def __init__(self, explored: Explored, directory: Path, progress: ProgressCallback | None) -> None:
        self._explored, self._directory, self._progress = explored, directory, progress
        self._states = StateTable(explored.model, explored.layout)
        self._transitions = TransitionTable(explored.model, explored.layout)
        self._stop = self._interrupted = False
        self._started = time.perf_counter()

    def write(self, workers: int) -> None:
        starts = range(0, len(self._explored.states), _STATES_IN_FILE)
        with interruption(self._interrupt), ThreadPoolExecutor(workers, "tables") as pool:
            jobs = [pool.submit(self._range, number, start) for number, start in enumerate(starts)]
            try:
                while wait(jobs, timeout=_REFRESH).not_done:
                    if any(job.done() and job.exception() for job in jobs):
                        self._stop = True
                    self._report(sum(job.done() for job in jobs) * _STATES_IN_FILE)
            except BaseException:
                self._stop = True
                raise
            for job in jobs:
                job.result()
        if self._interrupted:
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        self._stop = self._interrupted = True

    def _report(self, done: int) -> None:
        if self._progress:
            graph, seconds = self._explored, time.perf_counter() - self._started
            depth, left = len(graph.level_starts) - 1, max(0, len(graph.states) - done)
            self._progress(Progress(depth, done, len(graph.targets), left, 0, 0, seconds))

    def _range(self, number: int, start: int) -> None:
        """Write the two files of the range of states that begins at ``start``."""
        graph = self._explored
        end = min(start + _STATES_IN_FILE, len(graph.states))
        first, last = int(graph.offsets[start]), int(graph.offsets[end])
        self._write(self._transitions.folder, number, first, last, self._steps)
        self._write(self._states.folder, number, start, end, self._decoded)

    def _write(self, table: str, number: int, start: int, end: int, columns: Piece) -> None:
        path = self._directory / table / f"part-{number:05}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.table(columns(start, start)).schema
        dictionary = with_dictionary(schema)
        with pq.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=dictionary, write_page_checksum=True
        ) as file:
            for a, b in self._pieces(start, end):
                file.write_table(pa.table(columns(a, b)), row_group_size=ROWS)

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for at in range(start, end, ROWS):
            if self._stop:
                return
            yield at, min(at + ROWS, end)

    def _decoded(self, start: int, end: int) -> dict[str, pa.Array]:
        graph = self._explored
        return self._states.columns(np.arange(start, end), graph.depths(start, end), graph.states[start:end])

    def _steps(self, start: int, end: int) -> dict[str, pa.Array]:
        graph = self._explored
        sources = np.searchsorted(graph.offsets, np.arange(start, end), side="right") - 1
        instances = graph.instances[start:end]
        least, most = (int(sources[0]), int(sources[-1]) + 1) if len(sources) else (0, 0)
        broken = self._transitions.broken(graph.states[least:most], sources - least, instances)
        return self._transitions.columns(sources, graph.targets[start:end], instances, broken)
