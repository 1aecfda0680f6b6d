"""The search on Spark: breadth first, each level committed before the next one starts.

Small levels are the driver's, large ones the cluster's; both write the same files. A search goes on from
what is committed, and nothing else, so that a run that was cut off goes on as if it had not been.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from highwater.checker.asking.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    ViolatingRun,
    collision_probability,
    missing_verdicts,
    predecessors,
)
from highwater.checker.base.interruption import interruption
from highwater.checker.base.memory import available_memory
from highwater.checker.base.problems import InputError
from highwater.checker.engines.native.checkpoint import difference
from highwater.checker.engines.spark.levels.checkpoint import (
    CommittedLevel,
    SearchIdentity,
    SparkCheckpoint,
    Totals,
)
from highwater.checker.engines.spark.levels.cluster import LargeLevels, shift_for
from highwater.checker.engines.spark.levels.driver import Driver, NextLevel, packed
from highwater.checker.engines.spark.options import SparkOptions
from highwater.checker.engines.spark.program import RowProgram
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.engines.spark.session import SparkConnection, session
from highwater.model.language.model import Model


def search(
    model: Model,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
    spark: SparkOptions | None = None,
) -> SearchResult:
    """Explore a model exhaustively on Spark; the first Ctrl-C ends it with the levels that are committed.

    Raises BoundError where a step leaves a type without a declared bound, InputError where Spark or the
    checkpoint cannot be used, and EngineError where the model or the cluster is beyond this engine.
    """
    with exploration(model, options, progress, spark) as found:
        return found.explore()


@contextmanager
def exploration(
    model: Model,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
    spark: SparkOptions | None = None,
) -> Iterator[Exploration]:
    """A search that is ready to begin; its levels are there as long as the context. Raises what ``search`` raises."""
    started = time.perf_counter()
    spark = spark or SparkOptions()
    if spark.resume and spark.checkpoint is None:
        raise InputError("--resume: name the --checkpoint to go on with")
    request = ModelRequest.of(model, options.symmetry, options.deadlock)
    program = RowProgram(model, request)
    with _directory(spark) as directory, SparkCheckpoint(directory) as checkpoint:
        checkpoint.take(resume=spark.resume)
        before = _before(checkpoint, request, program) if spark.resume else None
        levels = _levels(checkpoint) if before else []
        running = session(spark.master)
        run = before or _begin(checkpoint, request, program, running, spark)
        found = Exploration(running, program, checkpoint, run, levels, options, spark, progress)
        found.result.preparation_seconds = time.perf_counter() - started
        try:
            yield found
        except OSError as wrong:
            raise checkpoint.unusable(wrong) from None
        finally:
            found.close()


def _directory(spark: SparkOptions) -> _Kept | tempfile.TemporaryDirectory[str]:
    if spark.checkpoint is not None:
        return _Kept(spark.checkpoint)
    if not spark.master.startswith("local"):
        raise InputError(
            f"--spark-master {spark.master}: name a --checkpoint directory that driver and executors share"
        )
    return tempfile.TemporaryDirectory(prefix="highwater-levels-", ignore_cleanup_errors=True)


class _Kept:
    """A directory that stays."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> str:
        return self._name

    def __exit__(self, *_: object) -> None:
        pass


def _begin(
    checkpoint: SparkCheckpoint,
    request: ModelRequest,
    program: RowProgram,
    running: SparkConnection,
    spark: SparkOptions,
) -> SearchIdentity:
    shift = shift_for(running.cores) if spark.buckets is None else int(math.log2(spark.buckets))
    run = SearchIdentity(uuid.uuid4().hex, request.text(), program.content, program.layout.words, shift)
    checkpoint.begin(run)
    return run


def _before(checkpoint: SparkCheckpoint, request: ModelRequest, program: RowProgram) -> SearchIdentity:
    """The run to go on with; InputError where it explored something else."""
    run = checkpoint.run()
    old = ModelRequest.read(run.request)
    for key, now in request.as_json().items():
        then = old.as_json()[key]
        if then != now:
            what = "the text of the protocol's file" if key == "source" else key
            said = "" if key == "source" else f": {difference(then, now)}"
            raise InputError(f"--resume: {checkpoint.directory} was made with other {what}{said}")
    if run.content != program.content:
        raise InputError(
            f"--resume: {checkpoint.directory} was made with another version of the protocol or the checker"
        )
    return run


def _levels(checkpoint: SparkCheckpoint) -> list[CommittedLevel]:
    """The levels to go on from, which are what they were; InputError where they are not."""
    try:
        levels = checkpoint.levels()
        checkpoint.verify(levels)
        checkpoint.tidy(levels)
        return levels
    except OSError as wrong:
        raise checkpoint.unusable(wrong) from None


class Exploration:
    """The state of one search."""

    def __init__(
        self,
        running: SparkConnection,
        program: RowProgram,
        checkpoint: SparkCheckpoint,
        run: SearchIdentity,
        levels: list[CommittedLevel],
        options: SearchOptions,
        spark: SparkOptions,
        progress: ProgressCallback | None,
    ) -> None:
        self.program, self.checkpoint, self.run = program, checkpoint, run
        self.options, self.spark, self.progress = options, spark, progress
        memory = options.memory_bytes or int(available_memory() * 0.6)
        processes = running.cores if running.master.startswith("local[") else (os.cpu_count() or 1)
        self.driver = Driver(program, checkpoint, run, max(1 << 28, 64 * spark.driver_states))
        self.cluster = LargeLevels(running, program, checkpoint, run, memory // processes)
        self.names = [p.name for p in program.model.properties]
        self.step_names = [p.name for p in program.model.step_properties]
        self.levels = levels
        self.result = SearchResult()
        self.stop: str | None = None
        self.started = time.perf_counter()
        self.seconds_before = self.levels[-1].totals.seconds if self.levels else 0.0

    def close(self) -> None:
        """Free what the search held."""
        self.driver.close()

    # --- the search -------------------------------------------------------------------------------

    def explore(self) -> SearchResult:
        """Run to the end, a limit or an interruption."""
        asked = self.names + self.step_names + [DEADLOCK] * self.options.deadlock
        with interruption(self._interrupt):
            if not self.levels:
                self._commit(self.driver.first(packed(self.program)))
            while self.levels[-1].size and not self.stop:
                if not missing_verdicts(asked, {*self.totals.places, *self.totals.broken}, self.options):
                    self.stop = "violation"
                    break
                self._check_limits()
                if self.stop:
                    break
                found = self._next()
                if found is not None:
                    self._commit(found)
        return self._conclude()

    @property
    def totals(self) -> Totals:
        """What is counted so far."""
        return self.levels[-1].totals

    def _interrupt(self) -> None:
        self.stop = "interrupted"

    def _next(self) -> NextLevel | None:
        level, totals = self.levels[-1], self.totals
        known = _bits(self.names, totals.places), _bits(self.step_names, totals.broken)
        few = self.totals.distinct_states <= self.spark.driver_states
        if few and level.size < self.spark.small:
            return self.driver.expand(level, known, self.options.deadlock, self._stopped)
        return self.cluster.expand(level, known, self._stopped)

    def _stopped(self) -> bool:
        self._report()
        options = self.options
        if options.limit_seconds is not None and time.perf_counter() - self.started > options.limit_seconds:
            self.stop = self.stop or "seconds"
        return self.stop is not None

    def _check_limits(self) -> None:
        limit = self.options.limit_states
        if limit is not None and self.totals.distinct_states > limit:
            self.stop = self.stop or "states"
        self._stopped()

    def _commit(self, found: NextLevel) -> None:
        """Make what was found the next level."""
        model, number = self.program.model, len(self.levels)
        old = self.totals if self.levels else Totals()
        places, broken = dict(old.places), dict(old.broken)
        for name in self.names:
            if name in found.places and name not in places:
                places[name] = (number, found.places[name])
        for name in self.step_names:
            if name in found.broken and name not in broken:
                broken[name] = (number - 1, *found.broken[name])
        if found.stuck is not None and DEADLOCK not in places:
            places[DEADLOCK] = (number - 1, found.stuck)
        totals = Totals(
            distinct_states=old.distinct_states + sum(p.count for p in found.parts),
            generated_states=old.generated_states + found.generated,
            actions=_plus([a.name for a in model.actions], old.actions, found.actions),
            cut=_plus(model.bounds, old.cut, found.cuts),
            premises=_plus(model.safety, old.premises, found.premises),
            places=places,
            broken=broken,
            seconds=self.seconds_before + time.perf_counter() - self.started,
        )
        level = CommittedLevel(number, found.parts, totals)
        self.checkpoint.commit(level)
        self.levels.append(level)
        self._report()

    # --- what is told -----------------------------------------------------------------------------

    def _memory_bytes(self) -> int:
        used = self.driver.bytes + self.cluster.work.tables
        self.result.peak_memory_bytes = max(self.result.peak_memory_bytes, used, self.cluster.work.resident)
        return used

    def _report(self) -> None:
        memory = self._memory_bytes()
        if self.progress and self.levels:
            totals = self.totals
            self.progress(
                Progress(
                    len(self.levels),
                    totals.distinct_states,
                    totals.generated_states,
                    self.levels[-1].size,
                    memory,
                    self.cluster.work.written,
                    time.perf_counter() - self.started,
                )
            )

    def _conclude(self) -> SearchResult:
        result, totals = self.result, self.totals
        self._memory_bytes()
        result.stopped_by = self.stop
        result.distinct_states = totals.distinct_states
        result.generated_states = totals.generated_states
        result.depth = sum(1 for level in self.levels if level.size)
        result.actions, result.cut, result.premises = totals.actions, totals.cut, totals.premises
        result.seconds = self.seconds_before + time.perf_counter() - self.started
        result.violations = [self._violation(name, *place) for name, place in totals.places.items()]
        result.violations += [self._violation(name, *place) for name, place in totals.broken.items()]
        result.collision_probability = collision_probability(result.distinct_states)
        result.table_bytes = self.cluster.work.tables
        result.spilled_bytes = self.cluster.work.written
        return result

    def _violation(self, name: str, number: int, index: int, *last: int) -> ViolatingRun:
        """The run to a state; ``last`` is a step that is taken in the end."""

        def origin(number: int, index: int) -> tuple[int, int]:
            return self.checkpoint.origin(number, self.levels[number], index)

        first, path = predecessors(number, index, origin)
        return ViolatingRun(name, self.program.layout.unpack(packed(self.program)[first]), (*path, *last))


def _bits(names: list[str], found: Mapping[str, object]) -> int:
    return sum(1 << i for i, name in enumerate(names) if name in found)


def _plus(names: list[str], old: dict[str, int], more: list[int]) -> dict[str, int]:
    """Counters by name, added; ``more`` may be longer than the names where there are none, or be empty."""
    return {name: old.get(name, 0) + (more[i] if i < len(more) else 0) for i, name in enumerate(names)}
