"""The start of a search on Spark, new or resumed: checkpoint, compiled model, session, breadth-first loop."""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from contextlib import closing, nullcontext

from highwater.checker.base.problems import InputError
from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native.checkpoint import difference
from highwater.checker.engines.native.machine import Effort
from highwater.checker.engines.spark.checkpoint import CommittedLevel, SearchIdentity, SparkCheckpoint
from highwater.checker.engines.spark.levels import ParquetLevels
from highwater.checker.engines.spark.program import RowProgram, compiled
from highwater.checker.engines.spark.request import ModelRequest, SparkOptions, buckets_for
from highwater.checker.engines.spark.session import session
from highwater.checker.scenarios.search import ProgressCallback, SearchOptions, SearchResult
from highwater.model.language import Model


def search(
    model: Model,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
    spark: SparkOptions | None = None,
) -> SearchResult:
    """Explore a model exhaustively on Spark. The first Ctrl-C ends the search with the committed levels.

    Raises BoundError if a value leaves its type where the protocol declares no bound. Raises InputError if Spark or the
    checkpoint cannot be used. Raises EngineError if the engine does not support the model or the cluster.
    """
    started = time.perf_counter()
    spark = spark or SparkOptions()
    request = ModelRequest.of(model, options.symmetry, options.deadlock, spark.tables)
    program = compiled(model, request, ask=True, effort=Effort.USUAL)
    option = "--out" if spark.tables else "--checkpoint"
    with _directory(spark) as directory, SparkCheckpoint(directory, option) as checkpoint:
        checkpoint.take(resume=spark.resume)
        before = _before(checkpoint, request, program) if spark.resume else None
        committed = _committed(checkpoint) if before else []
        running = session(spark.master)
        run = before or _begin(checkpoint, request, program, spark.buckets or buckets_for(running.cores))
        levels = ParquetLevels(running, program, checkpoint, run, spark, options.memory_bytes)
        levels.committed = committed
        found = BreadthFirst(model, levels, options, progress)
        found.result.preparation_seconds = time.perf_counter() - started
        try:
            with closing(levels):
                return found.explore()
        except OSError as wrong:
            raise checkpoint.unusable(wrong) from None


def _directory(spark: SparkOptions) -> nullcontext[str] | tempfile.TemporaryDirectory[str]:
    if spark.checkpoint is not None:
        return nullcontext(spark.checkpoint)
    if not spark.master.startswith("local"):
        raise InputError(
            f"--spark-master {spark.master}: name a --checkpoint directory that driver and executors share"
        )
    return tempfile.TemporaryDirectory(prefix="highwater-levels-", ignore_cleanup_errors=True)


def _begin(
    checkpoint: SparkCheckpoint, request: ModelRequest, program: RowProgram, buckets: int
) -> SearchIdentity:
    run = SearchIdentity(uuid.uuid4().hex, request.text(), program.content, program.layout.words, buckets)
    checkpoint.begin(run)
    return run


def _before(checkpoint: SparkCheckpoint, request: ModelRequest, program: RowProgram) -> SearchIdentity:
    """The identity of the search to resume.

    Raises InputError if that search explored another model, or if another version of Highwater ran it.
    """
    run = checkpoint.run()
    old = json.loads(run.request)
    for key, now in json.loads(request.text()).items():
        if old[key] != now:
            what = "the text of the protocol's file" if key == "source" else key
            change = "" if key == "source" else f": {difference(old[key], now)}"
            raise InputError(f"--resume: {checkpoint.directory} was made with other {what}{change}")
    if run.content != program.content:
        raise InputError(
            f"--resume: {checkpoint.directory} was made with another version of the protocol or the checker"
        )
    return run


def _committed(checkpoint: SparkCheckpoint) -> list[CommittedLevel]:
    """The committed levels from which to resume. Removes files of other levels. Raises InputError for damaged files."""
    try:
        levels = checkpoint.levels()
        checkpoint.verify(levels)
        checkpoint.tidy(levels)
        return levels
    except OSError as wrong:
        raise checkpoint.unusable(wrong) from None
