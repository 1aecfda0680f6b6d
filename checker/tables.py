"""The explored graph as tables: states and steps with decoded, named columns, as Parquet; and as a networkx graph.

``TableDirectory`` is the directory of the tables. Each file has a range of the states; several threads write files.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.base.checkpoint_directory import remove_files
from highwater.checker.base.files import aside
from highwater.checker.base.problems import InputError, interruption
from highwater.checker.engines.columns import (
    STATES,
    TRANSITIONS,
    StateTable,
    TransitionTable,
    with_dictionary,
)
from highwater.checker.engines.state_graph import Explored, Layout
from highwater.checker.scenarios.search import Progress, ProgressCallback
from highwater.model.language import Model
from highwater.model.language.interpreter import Interpreter

if TYPE_CHECKING:
    import networkx


ABOUT = "run.json"
"""Describes the exploration. It is written last: without it, the tables are not complete."""

_TABLE = re.compile(r"(part-[0-9]{5,}|level-[0-9]{5,9}-(all|[0-9]{5,9})-[0-9a-f]{12})\.parquet")
_BESIDE = re.compile(r"(run|search|level-[0-9]{5,9})\.json")
"""The description, and the manifests of Spark's search."""


@dataclass
class WrittenTables:
    """The sizes of the two tables: rows, levels of states, bytes on disk, and violation counts by property.

    ``stopped_by`` is None if every reachable state and every step between them is in the tables. Otherwise it is the
    reason why the search ended early, as in SearchResult.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    bytes: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    stopped_by: str | None = None


def count_tables(directory: Path, model: Model, depth: int, stopped_by: str | None) -> WrittenTables:
    """Count the rows, the bytes and the violations in the tables below a directory."""
    layout, rows = Layout(model.leaves), {STATES: 0, TRANSITIONS: 0}
    written = WrittenTables(depth=depth, stopped_by=stopped_by, violations=dict.fromkeys(model.safety, 0))
    for table in (StateTable(model, layout), TransitionTable(model, layout)):
        for path in (directory / table.folder).glob("*.parquet"):
            written.bytes += path.stat().st_size
            with pq.ParquetFile(path) as file:
                rows[table.folder] += file.metadata.num_rows
                for batch in file.iter_batches(columns=list(table.properties.values())):
                    for name, title in table.properties.items():
                        written.violations[name] += batch.column(title).false_count
    written.states, written.transitions = rows[STATES], rows[TRANSITIONS]
    return written


class TableDirectory:
    """The directory for the tables, created if missing.

    Raises InputError in these cases:

    - The directory cannot be written to, or it is not empty and neither ``force`` nor ``resume`` is set.
    - A table would replace a link, or a folder with other files in it.
    """

    def __init__(self, name: str, *, force: bool, resume: bool = False) -> None:
        self.name, self.path = name, Path(name)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not (force or resume):
                raise InputError(
                    f"--out {name}: the directory is not empty; --force replaces the tables in it"
                )
            self._refuse_foreign()
        except OSError as wrong:
            raise self.unusable(wrong) from None
        if not os.access(self.path, os.W_OK):
            raise InputError(f"--out {name}: cannot be written")

    def clear(self) -> None:
        """Remove the tables of an earlier run, and no other file."""
        self._refuse_foreign()
        remove_files(self.path.resolve(), _BESIDE)
        for table in (STATES, TRANSITIONS):
            if (self.path / table).is_dir():
                remove_files(self.path / table, _TABLE)
                (self.path / table).rmdir()

    def finish(self, about: Mapping[str, object]) -> None:
        """Write ``about`` as run.json, which shows that the tables are complete."""
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        with aside(self.path / ABOUT) as beside:
            beside.write_text(text, encoding="utf-8")

    def unusable(self, wrong: OSError) -> InputError:
        """The InputError for a directory that cannot be written or read."""
        return InputError(f"--out {self.name}: {wrong.strerror or wrong}")

    def _refuse_foreign(self) -> None:
        for table in (STATES, TRANSITIONS):
            folder = self.path / table
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise InputError(f"--out {self.name}: {table} is no folder of tables")
            others = sorted(e.name for e in folder.iterdir()) if folder.exists() else []
            if others := [name for name in others if not _TABLE.fullmatch(name)]:
                raise InputError(f"--out {self.name}: {table} holds other files: {others[0]}")


MOST = 200_000
"""The most states and steps together; networkx keeps several Python objects for each."""


def to_networkx(explored: Explored, *, decoded: bool = False, most: int = MOST) -> networkx.MultiDiGraph:
    """The explored graph as a networkx graph: a node for each state, by its number, and an edge for each step.

    Nodes have ``depth`` and, with ``decoded``, the state's fields as ``state``. An edge's key is the instance's
    number. Edges have ``action``, ``sentence`` and ``shortest``; if the model has step properties, ``violates`` lists
    the step properties that the step violates. Raises InputError if the graph has more than ``most`` states and steps,
    or networkx is not installed.
    """
    states, steps = len(explored.states), len(explored.targets)
    if states + steps > most:
        raise InputError(
            f"{states:,} states and {steps:,} steps are too many for networkx (at most {most:,}); "
            "highwater states writes them as tables"
        )
    try:
        import networkx
    except ModuleNotFoundError:
        raise InputError(
            "an explored graph for networkx needs the package networkx: pip install 'highwater-checker[tables]'"
        ) from None
    model = explored.model
    graph = networkx.MultiDiGraph(protocol=model.protocol.name)
    for state, depth in enumerate(explored.depths().tolist()):
        graph.add_node(state, depth=depth)
        if decoded:
            graph.nodes[state]["state"] = model.decode(explored.scalars(state))
    words = [(instance.action.name, instance.sentence) for instance in model.instances]
    parents, first = explored.parents, explored.parent_instances
    ends = zip(explored.sources.tolist(), explored.targets.tolist(), explored.instances.tolist(), strict=True)
    interpreter, of_steps = Interpreter(model), bool(model.step_properties)
    for source, target, instance in ends:
        action, sentence = words[instance]
        shortest = bool(parents[target] == source and first[target] == instance)
        edge: dict[str, object] = {"action": action, "sentence": sentence, "shortest": shortest}
        if of_steps:
            before = explored.scalars(source)
            # With symmetry reduction, the target may be a renaming of this state.
            after = interpreter.step(before, instance).state
            edge["violates"] = [] if after is None else interpreter.broken(before, after)
        graph.add_edge(source, target, key=instance, **edge)
    return graph


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
