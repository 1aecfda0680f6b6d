"""What a Python worker of Spark does with a level: expand its share of it, or merge what was found.

A process traces and compiles a model once and keeps it, with the fingerprint tables of the buckets that it has
worked on. Between the two halves of a level candidates travel in files (``exchange``). What a task counted is its
result, a report for each bucket, so that what a failed or repeated task counted is never seen.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from highwater.checker.asking.search import EngineError
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.text.kernels import WORDS
from highwater.checker.engines.spark.levels import exchange
from highwater.checker.engines.spark.levels.checkpoint import (
    GROUP,
    CommittedLevel,
    Fingerprints,
    LevelFile,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.levels.driver import Known
from highwater.checker.engines.spark.levels.sent import SentFingerprints
from highwater.checker.engines.spark.levels.visited import VisitedTables
from highwater.checker.engines.spark.program import RowBuffers, RowProgram
from highwater.checker.engines.spark.request import ModelRequest
from highwater.model.language.errors import LanguageError
from highwater.model.language.interpreter import BoundError

_PROGRAMS = 2
_SENT_BYTES = 1 << 28
"""Memory for what a process has sent of a level."""
_SLOT_BYTES = 16
"""What a fingerprint takes in a table that may just have grown."""

_programs: OrderedDict[str, RowProgram] = OrderedDict()
_visited = VisitedTables()
_sent = SentFingerprints()


@dataclass(frozen=True)
class LevelTask:
    """A level to expand: where it lies, of which model, and what is known already.

    ``known`` says which properties are known to be violated; ``table_bytes`` is the memory for fingerprint
    tables in a process.
    """

    directory: str
    run: SearchIdentity
    number: int
    known: Known
    table_bytes: int


def program(run: SearchIdentity) -> RowProgram:
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


def expand(task: LevelTask, buckets: Iterable[int]) -> Iterator[str]:
    """The first half: candidates of the task's buckets go to files; a report for each bucket."""
    for bucket in buckets:
        report: dict[str, Any] = {"half": "expand", "bucket": bucket}
        try:
            _expand_bucket(task, bucket, report)
        except REFUSALS as wrong:
            report |= refusal(wrong)
        yield json.dumps(report)


REFUSALS = (OSError, LanguageError, InputError, InternalError)


def refusal(wrong: BaseException) -> dict[str, str]:
    """What a report says of an error that the driver is to tell."""
    if isinstance(wrong, OSError):
        place = f"{wrong.filename}: " if wrong.filename else ""
        return {"failure": f"{place}{wrong.strerror or wrong}"}
    return {"internal" if isinstance(wrong, InternalError) else "failure": str(wrong)}


def raise_refusals(reports: Iterable[Mapping[str, Any]]) -> None:
    """Tell on the driver what reports say of errors: raises EngineError or InternalError, as it was on the worker."""
    for report in reports:
        if "internal" in report:
            raise InternalError(f"a task of Spark's: {report['internal']}")
        if "failure" in report:
            raise EngineError(f"a task of Spark's failed: {report['failure']}")


def _expand_bucket(task: LevelTask, bucket: int, report: dict[str, Any]) -> None:
    clock = _Clock()
    compiled = program(task.run)
    checkpoint = SparkCheckpoint(task.directory)
    level = checkpoint.level(task.number)
    if level is None:
        raise EngineError(f"an executor does not see the checkpoint's directory {task.directory}")
    clock.note("prepare")
    buffers = RowBuffers(compiled, deadlock=json.loads(task.run.request)["deadlock"], judging=False)
    buffers["known_steps"] = task.known[1]
    place = exchange.folder(checkpoint.directory, task.number)
    most = min(_SENT_BYTES, task.table_bytes // 4)
    states = 0
    with _sent.of(task.run, task.number, bucket, compiled) as (table, files):
        with exchange.Sender(place, bucket, task.run.shift) as sender:
            try:
                for base, group in share(checkpoint, level, task.run, bucket, compiled.fingerprints):
                    clock.note("read")
                    if table.taken * _SLOT_BYTES > most:
                        table.clear()
                    states += len(group)
                    found = [rows.copy() for rows in buffers.expand(table, group, base)]
                    clock.note("expand")
                    if found:
                        sender.send(np.concatenate(found))
                    clock.note("send")
            except BoundError:
                report["bound"] = buffers["error"]
        files[sender.file] = sender.count
    clock.note("send")
    report |= {
        "states": states,
        "files": files,
        "generated": int(buffers.counts.sum()),
        "actions": compiled.actions_taken(buffers.counts),
        "cuts": buffers.cuts.tolist(),
        "premises": buffers.premises.tolist(),
        "broken": buffers.violated_by_steps(),
        "deadlock": buffers["deadlock"],
        "seconds": clock.spent,
    }


def share(
    checkpoint: SparkCheckpoint,
    level: CommittedLevel,
    run: SearchIdentity,
    bucket: int,
    fingerprints: Fingerprints,
) -> Iterator[tuple[int, Words]]:
    """A bucket's states of a level in groups, with the index of the first; of an undivided level a part.

    Raises InputError as ``Checkpoint.states``.
    """
    for part in level.parts:
        if part.bucket == bucket:
            yield from _groups(checkpoint, level.number, part, 0, part.count, fingerprints)
        elif part.bucket is None:
            start, end = (part.count * b >> run.shift for b in (bucket, bucket + 1))
            yield from _groups(checkpoint, level.number, part, start, end, fingerprints)


def _groups(
    checkpoint: SparkCheckpoint,
    number: int,
    part: LevelFile,
    start: int,
    end: int,
    fingerprints: Fingerprints,
) -> Iterator[tuple[int, Words]]:
    base = 0
    for states in checkpoint.states(number, part, fingerprints):
        first, last = max(start, base), min(end, base + len(states))
        for at in range(first, last, GROUP):
            yield part.base + at, states[at - base : min(at + GROUP, last) - base]
        base += len(states)


def merge(task: LevelTask, files: Iterable[str], buckets: Iterable[int]) -> Iterator[str]:
    """The second half: of the candidates of a bucket the new ones are judged and written; a report for each."""
    for bucket in buckets:
        report: dict[str, Any] = {"half": "merge", "bucket": bucket}
        try:
            _merge_bucket(task, files, bucket, report)
        except REFUSALS as wrong:
            report |= refusal(wrong)
        yield json.dumps(report)


def _merge_bucket(task: LevelTask, files: Iterable[str], bucket: int, report: dict[str, Any]) -> None:
    clock = _Clock()
    compiled, checkpoint, run = program(task.run), SparkCheckpoint(task.directory), task.run
    clock.note("prepare")
    table, caught_up = _visited.take(compiled, checkpoint, run, bucket, task.number, task.table_bytes)
    clock.note("catch up")
    place = exchange.folder(checkpoint.directory, task.number)
    rows = exchange.receive(place, files, bucket, run.shift, run.words + WORDS)
    clock.note("receive")
    buffers = RowBuffers(compiled)
    buffers["known"] = task.known[0]
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
        "received": len(rows),
        "file": writer.file,
        "count": writer.count,
        "bytes": writer.bytes,
        "checksum": writer.checksum,
        "premises": buffers.premises.tolist(),
        "places": places,
        "caught_up": caught_up,
        "tables": _visited.bytes,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "seconds": clock.spent,
    }
