"""The levels of a search on Spark. A level is expanded, its candidates are shuffled by fingerprint, and new ones kept.

    range of tasks ── mapInArrow(expand) ── repartitionById(bucket) ── mapInArrow(keep_new) ── reports

``expand`` reads its share of the frontier from Parquet and runs the native kernels over it. A bucket holds the
fingerprints with the same remainder modulo the number of buckets. Spark's shuffle brings all candidates of a bucket to
one task. ``keep_new`` has a table with the fingerprints of its bucket in all levels (the visited side of an anti-join).
It drops the candidates that the table has, and writes the others as Parquet. The driver handles small levels itself.

Each task reports its counts as a row of the job's result, so a task that is repeated counts once. A task's result
does not depend on where or how often it runs: of several steps to a state, the step with the least predecessor is kept.
"""

from __future__ import annotations

import gc
import json
import os
import resource
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from highwater.checker.base.memory import available_memory
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.engines.breadth_first import BreadthFirst, Place, Totals
from highwater.checker.engines.native.frontier import KeptArray, Store
from highwater.checker.engines.native.kernels import WORDS
from highwater.checker.engines.native.machine import Effort
from highwater.checker.engines.native.worker import Table
from highwater.checker.engines.spark.checkpoint import (
    GROUP,
    CommittedLevel,
    Fingerprints,
    LevelFile,
    PartWriter,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.program import RowBuffers, RowProgram, compiled, fill
from highwater.checker.engines.spark.request import ModelRequest, SparkOptions
from highwater.checker.engines.spark.session import SparkConnection, collect
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import DEADLOCK, EngineError, Progress
from highwater.model.language import LanguageError, Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError

BLOCKS = pa.schema([("bucket", pa.int32()), ("report", pa.string()), ("rows", pa.binary())])
"""The rows of the shuffle: a block with many candidates of a bucket, or a report."""
BLOCKS_ON_SPARK, REPORTS_ON_SPARK = "bucket int, report string, rows binary", "report string"
REFUSALS = (OSError, LanguageError, InputError, InternalError)
_REPORTS = pa.schema([("report", pa.string())])
_PROGRAMS = 2
_MOST_SEEN_BYTES = 1 << 28
"""The most memory for the fingerprints of candidates that a task has already sent."""
_LEAST_TABLE_BYTES = 1 << 28
_MOST_HELD_BYTES = 1 << 28
"""The most memory for candidates that a task has received. Further candidates wait in a temporary file."""

Report = dict[str, Any]
Reports = tuple[list[Report], list[Report]]
"""The reports of a level's two stages, expand and merge."""
Known = tuple[int, int]
"""Two bit masks: the invariants violated so far, and the step properties violated so far."""


@dataclass(frozen=True)
class LevelTask:
    """A level to expand: the checkpoint's directory, the search's identity, and the number of the level.

    ``known`` has the properties violated so far, as bit masks. ``table_bytes`` is the memory of one
    process for fingerprint tables.
    """

    directory: str
    run: SearchIdentity
    number: int
    known: Known
    table_bytes: int


# --- blocks and reports through the shuffle --------------------------------------------------------


def blocks_of(rows: Words, buckets: int) -> pa.RecordBatch:
    """A record batch with one block of rows for each bucket that has rows."""
    kind = np.uint16 if buckets <= 1 << 16 else np.uint32
    bucket = (rows[:, 0] % np.uint64(buckets)).astype(kind)
    rows = np.take(rows, np.argsort(bucket, kind="stable"), axis=0)
    counts = np.bincount(bucket, minlength=buckets)
    present = np.flatnonzero(counts)
    ends = np.cumsum(counts)[present]
    starts = np.concatenate([[0], ends])
    offsets = pa.py_buffer((starts * rows.shape[1] * 8).astype(np.int32))
    blocks = pa.Array.from_buffers(pa.binary(), len(present), [None, offsets, pa.py_buffer(rows)])
    columns = [pa.array(present.astype(np.int32)), pa.nulls(len(present), pa.string()), blocks]
    return pa.record_batch(columns, schema=BLOCKS)


def report_to(buckets: Iterable[int], report: Report) -> pa.RecordBatch:
    """A record batch: a report for the first bucket, and an empty row for each other one: each task needs a row."""
    listed = list(buckets)
    texts = [json.dumps(report), *[None] * (len(listed) - 1)]
    columns = [pa.array(listed, pa.int32()), pa.array(texts, pa.string())]
    return pa.record_batch([*columns, pa.nulls(len(listed), pa.binary())], schema=BLOCKS)


def arrived(batches: Iterable[pa.RecordBatch], width: int) -> Iterator[tuple[int, str | None, Words]]:
    """Yield each row of the shuffle that a task received: bucket, report or None, and candidates of ``width`` words."""
    for batch in batches:
        blocks = batch.column("rows")
        texts = batch.column("report").to_pylist()
        for at, bucket in enumerate(batch.column("bucket").to_pylist()):
            content = blocks[at].as_buffer()
            rows = np.frombuffer(content, dtype=np.uint64) if content else np.empty(0, dtype=np.uint64)
            yield bucket, texts[at], rows.reshape(-1, width)


def reports_of(texts: Iterable[str]) -> pa.RecordBatch:
    """A record batch of reports, for a job's result."""
    return pa.record_batch([pa.array(list(texts), pa.string())], schema=_REPORTS)


def refusal(wrong: BaseException) -> Report:
    """A report of an error, which the driver raises again as InternalError or EngineError."""
    if isinstance(wrong, OSError):
        place = f"{wrong.filename}: " if wrong.filename else ""
        return {"failure": f"{place}{wrong.strerror or wrong}"}
    return {"internal" if isinstance(wrong, InternalError) else "failure": str(wrong)}


def raise_refusals(reports: Iterable[Mapping[str, Any]]) -> None:
    """Raise the first error in these reports: InternalError, or EngineError for any other error."""
    for report in reports:
        if "internal" in report:
            raise InternalError(f"a task of Spark's: {report['internal']}")
        if "failure" in report:
            raise EngineError(f"a task of Spark's failed: {report['failure']}")


# --- a level, in a task or in the driver ------------------------------------------------------------


def successors(
    program: RowProgram,
    seen: Table,
    frontier: Iterable[tuple[int, Words]],
    known: Known,
    steps: PartWriter | None,
    report: Report,
) -> Iterator[Words]:
    """Yield the successors of frontier states as rows, in the order of their predecessors.

    ``seen`` holds the fingerprints of earlier candidates, so that most duplicates are not sent. All steps are written
    to ``steps``. The counts are added to ``report``. A BoundError ends the search of successors, and is only noted in
    ``report``.
    """
    buffers = RowBuffers(program, judging=False)
    buffers["known_steps"] = known[1]
    states = sent = 0
    written: list[Any] = []
    try:
        for base, group in frontier:
            if seen.bytes > _MOST_SEEN_BYTES:
                seen.clear()
            states += len(group)
            for rows in buffers.expand(seen, group, base):
                sent += len(rows)
                yield rows
            if steps is not None:
                for found in program.steps(group):
                    steps.add(found)
        if steps is not None:
            written = steps.written()
    except BoundError:
        report["bound"] = buffers["error"]
    report |= {
        "states": states,
        "sent": sent,
        "steps": written,
        "generated": int(buffers.counts.sum()),
        "actions": program.actions_taken(buffers.counts),
        "cuts": buffers.cuts.tolist(),
        "premises": buffers.premises.tolist(),
        "broken": buffers.violated_by_steps(),
        "deadlock": buffers["deadlock"],
    }


def judged(buffers: RowBuffers, new: Iterable[Words], writer: PartWriter, report: Report) -> None:
    """Write the new rows of a level, and add file, premises and violations to ``report``.

    ``new`` yields arrays of rows from methods of ``buffers``, which have checked the states' properties.
    """
    places: dict[str, int] = {}
    for rows in new:
        for name, index in buffers.violated():
            places.setdefault(name, writer.count + index)
        writer.add(rows)
    report |= {
        "bucket": writer.bucket,
        "file": writer.written(),
        "premises": buffers.premises.tolist(),
        "places": places,
    }


def share(
    checkpoint: SparkCheckpoint,
    level: CommittedLevel,
    buckets: int,
    bucket: int | None,
    fingerprints: Fingerprints,
) -> Iterator[tuple[int, Words]]:
    """Yield the states to expand for a bucket, in groups: (index of the group's first state in the level, states).

    ``bucket`` None: all states of the level. If the level's files are not divided into buckets, each bucket gets a
    range of states. Raises InputError for a damaged file.
    """
    for part in level.parts:
        start, end = 0, part.count
        if bucket is not None and part.bucket is None:
            start, end = (part.count * b // buckets for b in (bucket, bucket + 1))
        elif bucket is not None and part.bucket != bucket:
            continue
        base = 0
        for states in checkpoint.states(part, fingerprints):
            first, last = max(start, base), min(end, base + len(states))
            for at in range(first, last, GROUP):
                yield part.base + at, states[at - base : min(at + GROUP, last) - base]
            base += len(states)


def visited(
    checkpoint: SparkCheckpoint, levels: Iterable[CommittedLevel], buckets: int, bucket: int | None
) -> Iterator[Words]:
    """Yield the fingerprints of these levels that belong to a bucket (None: all fingerprints)."""
    for level in levels:
        for part in level.parts:
            if bucket is None or part.bucket == bucket:
                yield checkpoint.fingerprints(part)
            elif part.bucket is None:
                whole = checkpoint.fingerprints(part)
                yield whole[whole % np.uint64(buckets) == bucket]


# --- tasks ----------------------------------------------------------------------------------------


class BucketTables:
    """The fingerprint tables that a process keeps between levels, one for each bucket, within the memory limit.

    A table that lacks levels is completed from files, so a task's result does not depend on its process.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[Table, int]] = OrderedDict()

    @property
    def bytes(self) -> int:
        """The number of bytes that the kept tables take."""
        return sum(table.bytes for table, _ in self._kept.values())

    def take(self, task: LevelTask, checkpoint: SparkCheckpoint, bucket: int, more: int) -> Table:
        """A table with a bucket's fingerprints up to the task's level.

        The table has room for ``more`` fingerprints. The caller owns the table until ``keep``.
        """
        table, upto = self._kept.pop((task.run.name, bucket), (None, -1))
        if table is not None and upto > task.number:  # the table is from a level that was not committed
            table.close()
            table, upto = None, -1
        levels = [
            level for n in range(upto + 1, task.number + 1) if (level := checkpoint.level(n)) is not None
        ]
        missing = list(visited(checkpoint, levels, task.run.buckets, bucket))
        if table is None:
            room = more + sum(map(len, missing))
            table = program(task.run).table(room, max(task.table_bytes, _LEAST_TABLE_BYTES))
        for fingerprints in missing:
            fill(table, fingerprints)
        return table

    def keep(self, task: LevelTask, bucket: int, table: Table) -> None:
        """Keep a table that includes the task's new level.

        Tables of other searches are dropped. If memory is short, the least recently used tables are dropped, too.
        """
        self._kept[task.run.name, bucket] = (table, task.number + 1)
        others = [key for key in self._kept if key[0] != task.run.name]
        while others or self.bytes > task.table_bytes:
            key = others.pop() if others else next(iter(self._kept))
            self._kept.pop(key)[0].close()


_tables = BucketTables()
_programs: OrderedDict[str, RowProgram] = OrderedDict()


def program(run: SearchIdentity) -> RowProgram:
    """The compiled model of a search, cached. Raises EngineError if it differs from the driver's."""
    found = _programs.get(run.content)
    if found is None:
        request = ModelRequest.read(run.request)
        found = compiled(request.model(), request, ask=False, effort=Effort.FULL)
        if found.content != run.content:
            raise EngineError(
                "a worker has another version of the checker or of the protocol than the driver"
            )
        while len(_programs) >= _PROGRAMS:
            _programs.popitem(last=False)
        _programs[run.content] = found
        # Spark collects garbage after each task; a traced model is large, and stays.
        gc.collect()
        gc.freeze()
    _programs.move_to_end(run.content)
    return found


def expand(task: LevelTask, tasks: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task function of the first stage: the successors of the task's states as blocks, and a report.

    ``tasks`` is the number of all tasks.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            mine = range(task.run.buckets * number // tasks, task.run.buckets * (number + 1) // tasks)
            report: Report = {"half": "expand", "task": number}
            try:
                yield from _expand(task, mine, report)
            except REFUSALS as wrong:
                report |= refusal(wrong)
            yield report_to(mine, report)


def _expand(task: LevelTask, mine: Iterable[int], report: Report) -> Iterator[pa.RecordBatch]:
    found, run = program(task.run), task.run
    checkpoint = SparkCheckpoint(task.directory)
    level = checkpoint.level(task.number)
    if level is None:
        raise EngineError(f"an executor does not see the checkpoint's directory {task.directory}")
    frontier = (
        group
        for bucket in mine
        for group in share(checkpoint, level, run.buckets, bucket, found.fingerprints)
    )
    steps = found.step_writer(checkpoint, task.number + 1, report["task"])
    with closing(found.table(level.size // run.buckets)) as seen:
        for rows in successors(found, seen, frontier, task.known, steps, report):
            if len(rows):
                yield blocks_of(rows, run.buckets)


def keep_new(task: LevelTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task function of the second stage: write the candidates that are in no level yet, and check their properties.

    Yields reports.
    """
    reports: list[str] = []
    report: Report = {"half": "merge"}
    try:
        _keep_new(task, arrived(batches, task.run.words + WORDS), reports, report)
    except REFUSALS as wrong:
        report |= refusal(wrong)
    report["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield reports_of([*reports, json.dumps(report)])


def _keep_new(
    task: LevelTask, found: Iterator[tuple[int, str | None, Words]], reports: list[str], report: Report
) -> None:
    code, checkpoint = program(task.run), SparkCheckpoint(task.directory)
    buckets: set[int] = set()
    blocks: list[tuple[int, KeptArray]] = []
    with closing(Store(_MOST_HELD_BYTES, None, bounded=True)) as store:
        for bucket, text, rows in found:
            buckets.add(bucket)
            if text is not None:
                reports.append(text)
            if len(rows):
                blocks.append((int(rows[0, 1]), store.put(rows)))
        (bucket,) = buckets
        received = sum(kept.shape[0] for _, kept in blocks)
        table = _tables.take(task, checkpoint, bucket, received)
        report["received"] = received
        buffers = RowBuffers(code)
        buffers["known"] = task.known[0]

        def new() -> Iterator[Words]:
            # Each block is in the order of predecessors, and the ranges of two blocks do not overlap.
            for _, kept in sorted(blocks, key=lambda block: block[0]):
                yield from buffers.new(table, store.get(kept))
                store.drop(kept)

        judged(buffers, new(), code.level_writer(checkpoint, task.number + 1, bucket), report)
    _tables.keep(task, bucket, table)
    report["tables"] = _tables.bytes


# --- the driver -----------------------------------------------------------------------------------


@dataclass
class Work:
    """The resources of the cluster's tasks, in bytes: written files, largest tables, largest process."""

    written: int = 0
    tables: int = 0
    resident: int = 0

    def add(self, report: Report) -> None:
        """Add a report of the second stage."""
        self.written += report["file"][2]
        self.tables = max(self.tables, report["tables"])
        self.resident = max(self.resident, report["resident"])


class ParquetLevels:
    """The visited states of a search (``Visited``): one Parquet data set for each level, in a checkpoint.

    The driver itself expands levels with fewer than ``spark.small`` states, while the search has found at most
    ``spark.driver_states`` states. For this, the driver's table holds the fingerprints of all levels.
    """

    def __init__(
        self,
        session: SparkConnection,
        program: RowProgram,
        checkpoint: SparkCheckpoint,
        run: SearchIdentity,
        spark: SparkOptions,
        memory_bytes: int | None,
    ) -> None:
        self._session, self.program, self.checkpoint = session, program, checkpoint
        self.run, self._spark = run, spark
        processes = session.cores if session.master.startswith("local[") else (os.cpu_count() or 1)
        self._table_bytes = (memory_bytes or int(available_memory() * 0.6)) // processes
        self.committed: list[CommittedLevel] = []
        self.work = Work()
        self._table = program.table(0)
        self._seen = program.table(0)
        self._upto = -1
        """The last level whose fingerprints the driver's table holds; -1: none."""

    def close(self) -> None:
        """Free the driver's tables, and remove the files of tasks that failed or ran twice. Raises OSError."""
        self._table.close()
        self._seen.close()
        self.checkpoint.tidy(self.committed)

    # --- Visited ----------------------------------------------------------------------------------

    @property
    def sizes(self) -> list[int]:
        """The number of states in each committed level."""
        return [level.size for level in self.committed]

    @property
    def found(self) -> Mapping[str, Place]:
        """The first violation of each property that is violated so far."""
        return self._last.found

    @property
    def _last(self) -> Totals:
        return self.committed[-1].totals if self.committed else Totals()

    def begin(self, search: BreadthFirst) -> None:
        """Find and commit the initial states, unless the checkpoint already has levels."""
        if self.committed:
            search.seconds_before = self._last.seconds
            return
        initial, buffers = self.program.initial(), RowBuffers(self.program)
        report: Report = {}
        judged(buffers, buffers.admit(self._table, initial), self._writer(0), report)
        self._upto = 0
        self._commit(search, [], [report], len(initial))

    def expand(self, search: BreadthFirst) -> None:
        """Find and commit the next level, unless the search stops. Raises BoundError, EngineError and InternalError."""
        level, known = self.committed[-1], search.known

        def stopped() -> bool:
            search.report()
            return search.check_limits(level.totals.distinct_states)

        if stopped():
            return
        few = level.totals.distinct_states <= self._spark.driver_states
        by = self._within_driver if few and level.size < self._spark.small else self._on_cluster
        reports = by(level, known, stopped)
        if reports is None:
            return
        expanded, merged = reports
        for report in expanded:
            if "bound" in report:
                raise self.program.bound_error(report["bound"])
        self._commit(search, expanded, merged, sum(r["generated"] for r in expanded))

    def _commit(
        self, search: BreadthFirst, expanded: list[Report], merged: list[Report], generated: int
    ) -> None:
        number = len(self.committed)
        level = joined(self.program.model, number, self._last, expanded, merged, generated, search.seconds)
        self.checkpoint.commit(level)
        self.committed.append(level)
        search.report()

    def totals(self, search: BreadthFirst) -> Totals:
        """The counts of the committed levels."""
        return self._last

    def origin(self, level: int, index: int) -> tuple[int, int]:
        """The last step of a run to state ``index`` of a level: (index of its source in the level before, instance)."""
        return self.checkpoint.origin(self.committed[level], index)

    def initial(self, index: int) -> Scalars:
        """The initial state with this index."""
        return self.program.layout.unpack(self.program.initial()[index])

    def progress(self, search: BreadthFirst) -> Progress:
        """The progress of the search. Also records the memory of the cluster's tasks in ``search.result``."""
        used, result, totals = self._table.bytes + self.work.tables, search.result, self._last
        result.table_bytes = self.work.tables
        result.peak_memory_bytes = max(result.peak_memory_bytes, self.work.resident)
        sizes, counts = self.sizes, (totals.distinct_states, totals.generated_states)
        return Progress(
            len(sizes), *counts, sizes[-1] if sizes else 0, used, self.work.written, search.seconds
        )

    # --- small and large levels ---------------------------------------------------------------------

    def _within_driver(
        self, level: CommittedLevel, known: Known, stopped: Callable[[], bool]
    ) -> Reports | None:
        for fingerprints in visited(self.checkpoint, self.committed[self._upto + 1 :], 1, None):
            fill(self._table, fingerprints)
        self._upto = level.number + 1
        self._seen.clear()
        expanded: Report = {}
        merged: Report = {}
        buffers = RowBuffers(self.program)
        buffers["known"] = known[0]
        frontier = share(self.checkpoint, level, 1, None, self.program.fingerprints)
        steps = self.program.step_writer(self.checkpoint, level.number + 1, None)

        def new() -> Iterator[Words]:
            rows = successors(self.program, self._seen, frontier, known, steps, expanded)
            for candidates in rows:
                yield from buffers.new(self._table, candidates)
                if stopped():
                    return

        judged(buffers, new(), self._writer(level.number + 1), merged)
        return None if stopped() else ([expanded], [merged])

    def _writer(self, number: int) -> PartWriter:
        return self.program.level_writer(self.checkpoint, number, None)

    def _on_cluster(self, level: CommittedLevel, known: Known, stopped: Callable[[], bool]) -> Reports | None:
        """Expand a level by one Spark job with two stages. Returns None if the search stops.

        Results count only when they are committed, so the job can be repeated.
        """
        run, tasks = self.run, min(self.run.buckets, self._session.cores)
        task = LevelTask(
            str(self.checkpoint.directory.resolve()), run, level.number, known, self._table_bytes
        )
        blocks = self._session.sql.range(0, tasks, 1, tasks).mapInArrow(
            lambda batches: expand(task, tasks, batches), BLOCKS_ON_SPARK
        )
        shuffled = blocks.repartitionById(run.buckets, blocks.bucket)
        frame = shuffled.mapInArrow(lambda batches: keep_new(task, batches), REPORTS_ON_SPARK)
        rows = collect(self._session, frame, f"level {level.number + 2}", lambda _: stopped())
        if rows is None:
            return None
        expanded, merged = checked([json.loads(row.report) for row in rows], tasks, run.buckets, level.size)
        for report in merged:
            self.work.add(report)
        return expanded, merged


def checked(reports: list[Report], tasks: int, buckets: int, states: int) -> Reports:
    """Split a level's reports by stage (expand, merge); each list is in order of task or bucket.

    Raises the first error in the reports, and InternalError if reports contradict each other or one is missing.
    """
    raise_refusals(reports)
    halves = []
    for half, key, count in (("expand", "task", tasks), ("merge", "bucket", buckets)):
        ordered = sorted((r for r in reports if r["half"] == half), key=lambda report: int(report[key]))
        if [report[key] for report in ordered] != list(range(count)):
            raise InternalError(f"{len(ordered)} reports of {count} {key}s")
        halves.append(ordered)
    expanded, merged = halves
    if not any("bound" in report for report in expanded):
        if sum(r["states"] for r in expanded) != states:
            raise InternalError("not every state of a level was expanded")
        if sum(r["received"] for r in merged) != sum(r["sent"] for r in expanded):
            raise InternalError("not every candidate that was sent was received")
    return expanded, merged


def joined(
    model: Model,
    number: int,
    old: Totals,
    expanded: list[Report],
    merged: list[Report],
    generated: int,
    seconds: float,
) -> CommittedLevel:
    """The new level ``number``: its files, and the totals ``old`` of the level before with the reports' counts added.

    Of several violations of a property, the first by index counts: of states in the new level, or else of steps from
    the level before. ``generated`` is the number of successors, ``seconds`` the time of the search.
    """
    parts: list[LevelFile] = []
    steps: list[LevelFile] = []
    states = 0
    places: dict[str, Place] = {}
    for report in expanded:
        if report["steps"] and report["steps"][1]:
            file, count, size, checksum = report["steps"]
            steps.append(LevelFile(None, file, count, 0, size, checksum))
        found = [(name, (number - 1, *step)) for name, step in report["broken"].items()]
        if report["deadlock"] >= 0:
            found.append((DEADLOCK, (number - 1, report["deadlock"])))
        for name, place in found:
            places[name] = min(places.get(name, place), place)
    of_states: dict[str, Place] = {}
    for report in merged:
        for name, index in report["places"].items():
            of_states.setdefault(name, (number, states + index))
        file, count, size, checksum = report["file"]
        if count:
            parts.append(LevelFile(report["bucket"], file, count, states, size, checksum))
            states += count
    places |= of_states
    new = [name for name in (*model.safety, DEADLOCK) if name in places and name not in old.found]
    actions, cuts = (_sum(r[key] for r in expanded) for key in ("actions", "cuts"))
    totals = Totals(
        distinct_states=old.distinct_states + states,
        generated_states=old.generated_states + generated,
        actions=_plus([a.name for a in model.actions], old.actions, actions),
        cut=_plus(model.bounds, old.cut, cuts),
        premises=_plus(model.safety, old.premises, _sum(r["premises"] for r in (*expanded, *merged))),
        found=old.found | {name: places[name] for name in new},
        seconds=seconds,
    )
    return CommittedLevel(number, tuple(parts), totals, tuple(steps))


def _plus(names: list[str], old: Mapping[str, int], more: list[int]) -> dict[str, int]:
    """The sum of two sets of counters, by name. ``more`` is in the order of ``names``; missing counters count as 0."""
    return {name: old.get(name, 0) + (more[i] if i < len(more) else 0) for i, name in enumerate(names)}


def _sum(lists: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*lists, strict=True)]
