"""Tables on Spark: first a search that stores its levels, then one job that decodes and expands them.

The job's first half reads the states of a bucket from the levels, writes them decoded, and expands them. A step has
only its target's fingerprint, so Spark shuffles the step to the bucket of the fingerprint. There the second half finds
the target's number and predecessor. Files get their final names when they are complete.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.checker.base.problems import InternalError, interruption
from highwater.checker.engines.spark.checkpoint import GROUP, SearchIdentity, SparkCheckpoint
from highwater.checker.engines.spark.levels import (
    BLOCKS_ON_SPARK,
    REFUSALS,
    REPORTS_ON_SPARK,
    arrived,
    blocks_of,
    raise_refusals,
    refusal,
    report_to,
    reports_of,
    share,
)
from highwater.checker.engines.spark.request import ModelRequest, SparkOptions
from highwater.checker.engines.spark.search import search
from highwater.checker.engines.spark.session import SparkConnection, collect, session
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import EngineError, Progress, ProgressCallback, SearchOptions
from highwater.checker.tables.directory import STATES, TRANSITIONS, WrittenTables
from highwater.checker.tables.expanding import TableProgram
from highwater.checker.tables.writing import ROWS, TableFile
from highwater.model.language.model import Model


def write(
    model: Model,
    options: SearchOptions,
    spark: SparkOptions,
    directory: Path,
    progress: ProgressCallback | None,
) -> WrittenTables:
    """Explore on Spark, and write both tables below a directory that driver and executors share.

    After Ctrl-C during the search, the tables have the states found so far. Ctrl-C while the tables are written raises
    KeyboardInterrupt, and leaves incomplete tables. Raises the errors of the search, and EngineError if the job fails.
    """
    with _levels(spark, directory) as kept, ExitStack() as owned:
        result = search(model, options, progress, kept)
        assert kept.checkpoint is not None
        checkpoint = owned.enter_context(SparkCheckpoint(kept.checkpoint))
        checkpoint.take(resume=True)
        levels = [level for level in checkpoint.levels() if level.size]
        starts = tuple(accumulate((level.size for level in levels), initial=0))
        running, run = session(spark.master), checkpoint.run()
        expanded = len(levels) - (result.stopped_by is not None)
        task = TableTask(str(checkpoint.directory.resolve()), str(directory.resolve()), run, starts, expanded)
        written = WrittenTables(depth=len(levels), stopped_by=result.stopped_by)
        try:
            reports = _job(running, task, progress, starts[-1])
        finally:
            for leftover in directory.glob("*/.part-*.tmp"):
                leftover.unlink(missing_ok=True)
    return _add_up(written, reports, starts[-1], model.safety)


@contextmanager
def _levels(spark: SparkOptions, directory: Path) -> Iterator[SparkOptions]:
    """Yield Spark's options with a checkpoint: the user's checkpoint, or a temporary one beside the tables."""
    if spark.checkpoint is not None:
        yield spark
        return
    with tempfile.TemporaryDirectory(prefix=".levels-", dir=directory, ignore_cleanup_errors=True) as place:
        yield replace(spark, checkpoint=place)


def _job(
    running: SparkConnection, task: TableTask, progress: ProgressCallback | None, states: int
) -> list[dict[str, Any]]:
    count = task.run.buckets
    blocks = running.sql.range(0, count, 1, count).mapInArrow(
        lambda batches: expand(task, batches), BLOCKS_ON_SPARK
    )
    shuffled = blocks.repartitionById(count, blocks.bucket)
    frame = shuffled.mapInArrow(lambda batches: write_steps(task, batches), REPORTS_ON_SPARK)
    stopped, started = [False], time.perf_counter()

    def stop() -> None:
        stopped[0] = True

    def watch(_: str) -> bool:
        if progress:
            seconds = time.perf_counter() - started
            progress(Progress(len(task.starts) - 1, states, 0, states, 0, 0, seconds))
        return stopped[0]

    with interruption(stop):
        rows = collect(running, frame, "the tables", watch)
    if rows is None or stopped[0]:
        raise KeyboardInterrupt
    return [json.loads(row.report) for row in rows]


def _add_up(
    written: WrittenTables, reports: list[dict[str, Any]], states: int, names: list[str]
) -> WrittenTables:
    """Add the reports of all tasks to ``written``.

    Raises EngineError if a task failed, InternalError if a state or a step is missing.
    """
    raise_refusals(reports)
    written.violations = dict.fromkeys(names, 0)
    sent = 0
    for report in reports:
        written.states += report.get("states", 0)
        written.transitions += report.get("received", 0)
        written.bytes += report["bytes"]
        sent += report.get("sent", 0)
        for name, count in report.get("violations", {}).items():
            written.violations[name] += count
    if written.states != states or written.transitions != sent:
        raise InternalError("not every state or step was written")
    return written


# --- tasks ------------------------------------------------------------------------------------------------

_programs: dict[str, TableProgram] = {}


@dataclass(frozen=True)
class TableTask:
    """The task of writing the tables of a search. ``expanded`` is the number of levels whose states are expanded."""

    checkpoint: str
    directory: str
    run: SearchIdentity
    starts: tuple[int, ...]
    """The number of the first state of each level, followed by the number of all states."""
    expanded: int


def _program(run: SearchIdentity) -> TableProgram:
    found = _programs.get(run.content)
    if found is None:
        request = ModelRequest.read(run.request)
        found = TableProgram(request.model(), request)
        if found.content != run.content:
            raise EngineError(
                "a worker has another version of the checker or of the protocol than the driver"
            )
        _programs.clear()
        _programs[run.content] = found
        gc.collect()
        gc.freeze()
    return found


# --- the first half ---------------------------------------------------------------------------------------


def expand(task: TableTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task function of the first half: write the states of buckets, and yield their steps and reports."""
    for batch in batches:
        for bucket in batch.column(0).to_pylist():
            report: dict[str, Any] = {"half": "expand", "bucket": bucket, "states": 0, "sent": 0, "bytes": 0}
            try:
                for rows in _expand_bucket(task, bucket, report):
                    yield blocks_of(rows, task.run.buckets)
            except REFUSALS as wrong:
                report |= refusal(wrong)
            yield report_to([bucket], report)


def _expand_bucket(task: TableTask, bucket: int, report: dict[str, Any]) -> Iterator[Words]:
    program = _program(task.run)
    violations = dict.fromkeys(program.states.properties, 0)
    groups = _groups(task, bucket, program)
    first = next(groups, None)
    if first is None:
        return
    with TableFile(Path(task.directory), STATES, bucket, program.states.schema) as file:
        group: _Group | None = first
        while group is not None:
            waiting: list[Words] = []
            steps, cut = np.zeros((2, len(group.numbers)), dtype=np.int64)
            if group.level < task.expanded:
                for here, found in program.steps(group.numbers, group.states):
                    steps[here], cut[here] = found.steps, found.cut
                    waiting.append(found.rows)
                    report["sent"] += len(found.rows)
                    if sum(map(len, waiting)) >= GROUP:
                        yield np.concatenate(waiting)
                        waiting = []
            if sum(map(len, waiting)):
                yield np.concatenate(waiting)
            depth = np.full(len(steps), group.level + 1)
            table = program.states.rows(
                group.numbers, depth, depth <= task.expanded, steps, cut, group.states
            )
            for name, count in program.states.violations(table).items():
                violations[name] += count
            file.write(table)
            group = next(groups, None)
    report |= {"states": file.rows, "bytes": file.bytes, "violations": violations}


@dataclass(frozen=True)
class _Group:
    level: int
    numbers: NDArray[np.int64]
    states: Words


def _groups(task: TableTask, bucket: int, program: TableProgram) -> Iterator[_Group]:
    """A bucket's states, level by level, in groups of bounded size."""
    checkpoint = SparkCheckpoint(task.checkpoint)
    for number, start in enumerate(task.starts[:-1]):
        level = checkpoint.level(number)
        if level is None:
            raise EngineError(f"an executor does not see the checkpoint's directory {task.checkpoint}")
        for base, states in share(checkpoint, level, task.run.buckets, bucket, program.fingerprints):
            for at in range(0, len(states), ROWS):
                piece = states[at : at + ROWS]
                yield _Group(number, start + base + at + np.arange(len(piece)), piece)


# --- the second half --------------------------------------------------------------------------------------


class _Index:
    """The states of a bucket by fingerprint: number, predecessor in the search, instance of the step between them."""

    def __init__(self, task: TableTask, bucket: int) -> None:
        columns: list[list[NDArray[Any]]] = [[], [], [], []]
        checkpoint, buckets = SparkCheckpoint(task.checkpoint), np.uint64(task.run.buckets)
        for number, start in enumerate(task.starts[:-1]):
            level = checkpoint.level(number)
            assert level is not None
            for part in level.parts:
                if part.bucket not in (None, bucket):
                    continue
                with checkpoint.open(number, part) as file:
                    table = file.read(columns=["fingerprint", "predecessor", "instance"], use_threads=False)
                fingerprints, predecessors, instances = (c.to_numpy() for c in table.columns)
                mine = np.flatnonzero(fingerprints % buckets == bucket)
                parents = predecessors[mine].astype(np.int64) + task.starts[number - 1] if number else -1
                columns[0].append(fingerprints[mine])
                columns[1].append(start + part.base + mine)
                columns[2].append(np.broadcast_to(np.asarray(parents), mine.shape))
                columns[3].append(instances[mine])
        self._fingerprints, numbers, parents, instances = map(np.concatenate, columns)
        order = np.argsort(self._fingerprints)
        self._fingerprints = self._fingerprints[order]
        self.numbers, self.parents, self.instances = numbers[order], parents[order], instances[order]

    def find(self, fingerprints: Words) -> NDArray[np.int64]:
        """The positions of the states with these fingerprints. Raises InternalError if a state is missing."""
        places = np.searchsorted(self._fingerprints, fingerprints)
        places[places == len(self._fingerprints)] = 0
        if (self._fingerprints[places] != fingerprints).any():
            raise InternalError("a step leads to a state that the search did not find")
        return places


class _Steps:
    """Writes the steps whose targets are in one bucket."""

    def __init__(self, task: TableTask, bucket: int) -> None:
        self._program, self._index = _program(task.run), _Index(task, bucket)
        schema = self._program.transitions.schema
        self.file = TableFile(Path(task.directory), TRANSITIONS, bucket, schema)
        self._waiting: list[Words] = []
        self._held = 0
        self.violations = dict.fromkeys(self._program.transitions.properties, 0)

    def add(self, rows: Words) -> None:
        """Add rows (fingerprint, source, instance), with the verdict on each step if there are step properties."""
        self._waiting.append(rows)
        self._held += len(rows)
        if self._held >= ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        if not self._held:
            return
        rows = np.concatenate(self._waiting)
        self._waiting, self._held = [], 0
        at, sources, instances = self._index.find(rows[:, 0]), rows[:, 1].astype(np.int64), rows[:, 2]
        index = self._index
        shortest = (index.parents[at] == sources) & (index.instances[at] == instances)
        broken = rows[:, 3] if rows.shape[1] > 3 else rows[:, 0]
        table = self._program.transitions.rows(
            sources, index.numbers[at], instances.astype(np.int64), shortest, broken
        )
        for name, count in self._program.transitions.violations(table).items():
            self.violations[name] += count
        self.file.write(table)


def write_steps(task: TableTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task function of the second half: write the steps whose targets are in one bucket, and yield reports."""
    reports: list[str] = []
    report: dict[str, Any] = {"half": "write", "received": 0, "bytes": 0, "violations": {}}
    steps: _Steps | None = None
    try:
        for bucket, text, rows in arrived(batches, _program(task.run).width):
            if text is not None:
                reports.append(text)
            elif len(rows):
                steps = steps or _Steps(task, bucket)
                steps.add(rows.copy())
        if steps is not None:
            with steps.file as file:
                steps.flush()
            report |= {"received": file.rows, "bytes": file.bytes, "violations": steps.violations}
    except REFUSALS as wrong:
        report |= refusal(wrong)
    yield reports_of([*reports, json.dumps(report)])
