"""What a Python worker of Spark does for the tables: one half writes states and sends steps, one writes steps.

The first half reads the states of a bucket from the levels of a finished search, writes them decoded, and
expands them. A step knows its target's fingerprint only, so it travels to the bucket of that fingerprint, in
blocks, as candidates do in the search. There the second half finds the target's number and predecessor.
Nothing but blocks passes through Spark, and files get their names when they are whole.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.checker.asking.search import EngineError
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.layout import Words
from highwater.checker.engines.spark.levels.checkpoint import GROUP, SearchIdentity, SparkCheckpoint
from highwater.checker.engines.spark.levels.worker import REFUSALS, refusal, share
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.tables.blocks import REPORTS, blocks_of, divided
from highwater.checker.tables.directory import STATES, TRANSITIONS
from highwater.checker.tables.expanding import TableProgram
from highwater.checker.tables.files import ROWS, TableFile

_programs: dict[str, TableProgram] = {}


@dataclass(frozen=True)
class TableTask:
    """Tables to write: of which levels, where the states of each begin, and of how many the steps are known."""

    checkpoint: str
    directory: str
    run: SearchIdentity
    starts: tuple[int, ...]
    """The number of the first state of each level, and at the end the number of states."""
    expanded: int
    keys: tuple[int, ...]


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
    """Write the states of the task's buckets; their steps come out as blocks, and a report for each bucket."""
    for batch in batches:
        for bucket in batch.column("bucket").to_pylist():
            report: dict[str, Any] = {"half": "expand", "bucket": bucket, "states": 0, "sent": 0, "bytes": 0}
            try:
                for rows in _expand_bucket(task, bucket, report):
                    yield divided(task.run.shift, task.keys, rows)
            except REFUSALS as wrong:
                report |= refusal(wrong)
            yield blocks_of([task.keys[bucket]], [json.dumps(report)], [None])


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
    """A bucket's states, level by level, in groups of a bounded size."""
    checkpoint = SparkCheckpoint(task.checkpoint)
    for number, start in enumerate(task.starts[:-1]):
        level = checkpoint.level(number)
        if level is None:
            raise EngineError(f"an executor does not see the checkpoint's directory {task.checkpoint}")
        for base, states in share(checkpoint, level, task.run, bucket, program.fingerprints):
            for at in range(0, len(states), ROWS):
                piece = states[at : at + ROWS]
                yield _Group(number, start + base + at + np.arange(len(piece)), piece)


# --- the second half --------------------------------------------------------------------------------------


class _Index:
    """The states of a bucket by fingerprint: the number of each, and where it was first reached from."""

    def __init__(self, task: TableTask, bucket: int) -> None:
        columns: list[list[NDArray[Any]]] = [[], [], [], []]
        checkpoint, shift = SparkCheckpoint(task.checkpoint), np.uint64(64 - task.run.shift)
        for number, start in enumerate(task.starts[:-1]):
            level = checkpoint.level(number)
            assert level is not None
            for part in level.parts:
                if part.bucket not in (None, bucket):
                    continue
                with checkpoint.open(number, part) as file:
                    table = file.read(columns=["fingerprint", "predecessor", "instance"], use_threads=False)
                fingerprints, predecessors, instances = (c.to_numpy() for c in table.columns)
                mine = np.flatnonzero(fingerprints >> shift == bucket)
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
        """The places of states; InternalError where one is not there."""
        places = np.searchsorted(self._fingerprints, fingerprints)
        places[places == len(self._fingerprints)] = 0
        if (self._fingerprints[places] != fingerprints).any():
            raise InternalError("a step leads to a state that the search did not find")
        return places


class _Steps:
    """Writes the steps into a bucket."""

    def __init__(self, task: TableTask, bucket: int) -> None:
        self._program, self._index = _program(task.run), _Index(task, bucket)
        schema = self._program.transitions.schema
        self.file = TableFile(Path(task.directory), TRANSITIONS, bucket, schema)
        self._waiting: list[Words] = []
        self._held = 0
        self.violations = dict.fromkeys(self._program.transitions.properties, 0)

    def add(self, rows: Words) -> None:
        """Rows (fingerprint, source, instance), with the verdict on steps where there are properties of steps."""
        self._waiting.append(rows)
        self._held += len(rows)
        if self._held >= ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
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


def write(task: TableTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the steps into the task's buckets; reports come out."""
    writing: dict[int, _Steps] = {}
    said: list[str] = []
    shift = 64 - task.run.shift
    report: dict[str, Any] = {"half": "write", "received": 0, "bytes": 0, "violations": {}}
    try:
        for batch in batches:
            blocks = batch.column("rows")
            for at, text in enumerate(batch.column("report").to_pylist()):
                if text is not None:
                    said.append(text)
                    continue
                block = np.frombuffer(blocks[at].as_buffer(), dtype=np.uint64)
                rows = block.reshape(-1, _program(task.run).width)
                bucket = int(rows[0, 0]) >> shift
                if bucket not in writing:
                    writing[bucket] = _Steps(task, bucket)
                writing[bucket].add(rows.copy())
        for steps in writing.values():
            with steps.file as file:
                steps.flush()
            report["received"] += file.rows
            report["bytes"] += file.bytes
            for name, count in steps.violations.items():
                report["violations"][name] = report["violations"].get(name, 0) + count
    except REFUSALS as wrong:
        report |= refusal(wrong)
    yield pa.record_batch([pa.array([*said, json.dumps(report)], pa.string())], schema=REPORTS)
