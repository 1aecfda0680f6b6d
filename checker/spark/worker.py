"""What a Python worker of Spark does with a level: expand its share of it, or merge what was found.

A process traces and compiles a model once and keeps it, with the fingerprint tables of the buckets that it has
worked on. Between the two halves of a level candidates travel in blocks: one row of Spark for all candidates
of a task that fall into one bucket. What a task counted travels as a report, in the same way, so that what
a failed or repeated task counted is never seen.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from highwater.checker.native.layout import Words
from highwater.checker.native.machine import Effort
from highwater.checker.problems import InputError
from highwater.checker.search import EngineError
from highwater.checker.spark.checkpoint import GROUP, Checkpoint, Level, Part, Run
from highwater.checker.spark.program import RowBuffers, RowProgram
from highwater.checker.spark.request import ModelRequest
from highwater.checker.spark.visited import Visited
from highwater.model.language.errors import LanguageError
from highwater.model.language.interpreter import BoundError

BLOCKS = pa.schema([("key", pa.int64()), ("report", pa.string()), ("rows", pa.binary())])
REPORTS = pa.schema([("report", pa.string())])
_PROGRAMS = 2

_programs: OrderedDict[str, RowProgram] = OrderedDict()
_visited = Visited()


@dataclass(frozen=True)
class LevelTask:
    """A level to expand: where it lies, of which model, and what is known already.

    ``keys`` are what Spark's partitioner sends to the partition of each bucket; ``known`` has a bit for each
    property whose violation was found; ``table_bytes`` is the memory for fingerprint tables in a process.
    """

    directory: str
    run: Run
    number: int
    known: int
    keys: tuple[int, ...]
    table_bytes: int


def program(run: Run) -> RowProgram:
    """The run's model, compiled now or before. EngineError where it is not the driver's."""
    found = _programs.get(run.content)
    if found is None:
        request = ModelRequest.read(run.request)
        found = RowProgram(request.model(), request, ask=False, effort=Effort.FULL)
        if found.content != run.content:
            raise EngineError(
                "a worker has another version of the checker or of the protocol than the driver"
            )
        while len(_programs) >= _PROGRAMS:
            _programs.popitem(last=False)
        _visited.forget(run.name)
        _programs[run.content] = found
        # Spark collects garbage after each task; a traced model is large, and stays.
        gc.collect()
        gc.freeze()
    _programs.move_to_end(run.content)
    return found


class _Clock:
    """Seconds of processor time by what they went into; they do not depend on what else a machine does."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._last = time.process_time()

    def note(self, what: str) -> None:
        now = time.process_time()
        self.spent[what] = self.spent.get(what, 0.0) + now - self._last
        self._last = now


def expand(
    task: LevelTask, batches: Iterator[pa.RecordBatch], spent: Callable[[dict[str, float]], None]
) -> Iterator[pa.RecordBatch]:
    """The first half: candidates of the task's buckets as blocks, and a report for each bucket.

    A second attempt sends the same, byte by byte: Spark compares, and gives a job up whose tasks do not. So
    seconds are no part of a report here; they go to ``spent``.
    """
    for batch in batches:
        for bucket in batch.column("bucket").to_pylist():
            report: dict[str, Any] = {"half": "expand", "bucket": bucket}
            try:
                clock = _Clock()
                yield from _expand_bucket(task, bucket, report, clock)
                spent(clock.spent)
            except REFUSALS as wrong:
                report["failure"] = refusal(wrong)
            yield blocks_of([task.keys[bucket]], [json.dumps(report)], [None])


REFUSALS = (OSError, LanguageError, InputError)


def refusal(wrong: BaseException) -> str:
    """What a report says of an error that the driver is to tell."""
    if isinstance(wrong, OSError):
        place = f"{wrong.filename}: " if wrong.filename else ""
        return f"{place}{wrong.strerror or wrong}"
    return str(wrong)


def blocks_of(keys: list[int], reports: list[str | None], rows: list[Any]) -> pa.RecordBatch:
    """Blocks and reports as rows of Spark's."""
    return pa.record_batch(
        [pa.array(keys, pa.int64()), pa.array(reports, pa.string()), pa.array(rows, pa.binary())],
        schema=BLOCKS,
    )


def _expand_bucket(
    task: LevelTask, bucket: int, report: dict[str, Any], clock: _Clock
) -> Iterator[pa.RecordBatch]:
    compiled = program(task.run)
    checkpoint = Checkpoint(task.directory)
    level = checkpoint.level(task.number)
    if level is None:
        raise EngineError(f"an executor does not see the checkpoint's directory {task.directory}")
    clock.note("prepare")
    buffers = RowBuffers(compiled, deadlock=json.loads(task.run.request)["deadlock"], judging=False)
    scratch = compiled.table(1 << 34)
    sent = states = 0
    try:
        for base, group in share(checkpoint, level, task.run, bucket):
            clock.note("read")
            scratch.clear()
            states += len(group)
            found = [rows.copy() for rows in buffers.expand(scratch, group, base)]
            clock.note("expand")
            if found:
                sent += sum(len(rows) for rows in found)
                yield divided(task.run.shift, task.keys, np.concatenate(found))
            clock.note("send")
    except BoundError:
        report["bound"] = buffers["error"]
    finally:
        scratch.close()
    report |= {
        "states": states,
        "sent": sent,
        "generated": int(buffers.counts.sum()),
        "actions": compiled.actions_taken(buffers.counts),
        "cuts": buffers.cuts.tolist(),
        "deadlock": buffers["deadlock"],
    }


def share(checkpoint: Checkpoint, level: Level, run: Run, bucket: int) -> Iterator[tuple[int, Words]]:
    """A bucket's states of a level in groups, with the index of the first; of an undivided level a part."""
    for part in level.parts:
        if part.bucket == bucket:
            yield from _groups(checkpoint, level.number, part, 0, part.count)
        elif part.bucket is None:
            start, end = (part.count * b >> run.shift for b in (bucket, bucket + 1))
            yield from _groups(checkpoint, level.number, part, start, end)


def _groups(
    checkpoint: Checkpoint, number: int, part: Part, start: int, end: int
) -> Iterator[tuple[int, Words]]:
    base = 0
    for states in checkpoint.states(number, part):
        first, last = max(start, base), min(end, base + len(states))
        for at in range(first, last, GROUP):
            yield part.base + at, states[at - base : min(at + GROUP, last) - base]
        base += len(states)


def divided(shift: int, keys: tuple[int, ...], rows: Words) -> pa.RecordBatch:
    """Rows as one block for each bucket that some of them fall into."""
    buckets = (rows[:, 0] >> np.uint64(64 - shift)).astype(np.uint16 if shift <= 16 else np.uint32)
    rows = rows[np.argsort(buckets, kind="stable")]
    counts = np.bincount(buckets, minlength=1 << shift)
    present = np.flatnonzero(counts)
    ends = np.cumsum(counts)[present]
    offsets = np.concatenate([[0], ends * rows.shape[1] * 8]).astype(np.int32)
    blocks = pa.Array.from_buffers(
        pa.binary(), len(present), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    )
    sent_to = pa.array(np.asarray(keys, dtype=np.int64)[present])
    return pa.record_batch([sent_to, pa.nulls(len(present), pa.string()), blocks], schema=BLOCKS)


def merge(task: LevelTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second half: of the candidates of a bucket the new ones are judged and written; reports come out."""
    blocks: dict[int, list[Words]] = {}
    said: list[str] = []
    width = task.run.words + 2
    for batch in batches:
        buckets, rows = batch.column("bucket").to_pylist(), batch.column("rows")
        for at, report in enumerate(batch.column("report").to_pylist()):
            here = blocks.setdefault(buckets[at], [])
            if report is None:
                here.append(np.frombuffer(rows[at].as_buffer(), dtype=np.uint64).reshape(-1, width))
            else:
                said.append(report)
    for bucket in list(blocks):
        found = blocks.pop(bucket)
        rows = np.concatenate(found) if found else np.empty((0, width), dtype=np.uint64)
        del found
        report = {"half": "merge", "bucket": bucket, "received": len(rows)}
        try:
            _merge_bucket(task, bucket, rows, report)
        except REFUSALS as wrong:
            report["failure"] = refusal(wrong)
        said.append(json.dumps(report))
    yield pa.record_batch([pa.array(said, pa.string())], schema=REPORTS)


def _merge_bucket(task: LevelTask, bucket: int, rows: Words, report: dict[str, Any]) -> None:
    clock = _Clock()
    compiled, checkpoint, run = program(task.run), Checkpoint(task.directory), task.run
    clock.note("prepare")
    table, caught_up = _visited.take(compiled, checkpoint, run, bucket, task.number, task.table_bytes)
    clock.note("catch up")
    buffers = RowBuffers(compiled)
    buffers["known"] = task.known
    writer = checkpoint.writer(task.number + 1, bucket, run.words)
    places: dict[str, int] = {}
    for kept in buffers.merge(table, rows, run.shift):
        for name, index in buffers.violated():
            places.setdefault(name, writer.count + index)
        clock.note("merge")
        writer.add(kept)
        clock.note("write")
    clock.note("merge")
    writer.close()
    clock.note("write")
    _visited.give_back(run, bucket, table, task.number + 1, task.table_bytes)
    report |= {
        "file": writer.file,
        "count": writer.count,
        "bytes": writer.bytes,
        "premises": buffers.premises.tolist(),
        "places": places,
        "caught_up": caught_up,
        "tables": _visited.bytes,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "seconds": clock.spent,
    }
