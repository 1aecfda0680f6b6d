"""Tables on Spark: its search first, whose levels are kept, and then one job that decodes and expands them."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from highwater.checker.asking.search import Progress, ProgressCallback, SearchOptions
from highwater.checker.base.interruption import interruption
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.spark.jobs import collect
from highwater.checker.engines.spark.levels.checkpoint import SparkCheckpoint
from highwater.checker.engines.spark.levels.worker import raise_refusals
from highwater.checker.engines.spark.options import SparkOptions
from highwater.checker.engines.spark.search import search
from highwater.checker.engines.spark.session import SparkConnection, session
from highwater.checker.tables import spark_worker
from highwater.checker.tables.directory import WrittenTables
from highwater.checker.tables.spark_worker import TableTask
from highwater.model.language.model import Model

_BLOCKS, _REPORTS = "key long, report string, rows binary", "report string"


def write(
    model: Model,
    options: SearchOptions,
    spark: SparkOptions,
    directory: Path,
    progress: ProgressCallback | None,
) -> WrittenTables:
    """Explore on Spark, and write both tables below a directory that driver and executors share.

    Ctrl-C during the search leaves the tables of what was found; while they are written it raises KeyboardInterrupt,
    and leaves files that are no whole tables. Raises what the search raises, and EngineError where Spark gives up.
    """
    with _levels(spark, directory) as kept, ExitStack() as owned:
        result = search(model, options, progress, kept)
        assert kept.checkpoint is not None
        checkpoint = owned.enter_context(SparkCheckpoint(kept.checkpoint))
        checkpoint.take(resume=True)
        levels = [level for level in checkpoint.levels() if level.size]
        starts = tuple(accumulate((level.size for level in levels), initial=0))
        running, run = session(spark.master), checkpoint.run()
        _, keys = running.home(run.shift)
        expanded = len(levels) - (result.stopped_by is not None)
        task = TableTask(
            str(checkpoint.directory.resolve()), str(directory.resolve()), run, starts, expanded, keys
        )
        written = WrittenTables(depth=len(levels), stopped_by=result.stopped_by)
        try:
            reports = _job(running, task, progress, starts[-1])
        finally:
            for leftover in directory.glob("*/.part-*.tmp"):
                leftover.unlink(missing_ok=True)
    return _add_up(written, reports, starts[-1], model.safety)


@contextmanager
def _levels(spark: SparkOptions, directory: Path) -> Iterator[SparkOptions]:
    """The options with a checkpoint: the user's own, or one beside the tables that is removed at the end."""
    if spark.checkpoint is not None:
        yield spark
        return
    with tempfile.TemporaryDirectory(prefix=".levels-", dir=directory, ignore_cleanup_errors=True) as place:
        yield replace(spark, checkpoint=place)


def _job(
    running: SparkConnection, task: TableTask, progress: ProgressCallback | None, states: int
) -> list[dict[str, Any]]:
    """Run the job; its reports."""
    home, _ = running.home(task.run.shift)
    blocks = home.mapInArrow(lambda batches: spark_worker.expand(task, batches), _BLOCKS)
    arrived = blocks.repartition(task.run.buckets, "key")
    frame = arrived.mapInArrow(lambda batches: spark_worker.write(task, batches), _REPORTS)
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
    """What the reports say together; EngineError where a task failed, InternalError where something is missing."""
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
