"""The native search: breadth first, level by level, on all cores, with compiled kernels.

Every worker takes parts of the level, expands them into its own buffers and looks the candidates up in the
shared fingerprint table. A level is finished before the next one starts, so the first violation of a property
is a shortest one. Counts do not depend on the number of workers; which of several shortest runs is reported
does, unless there is one worker.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np

from highwater.checker.interruption import interruption
from highwater.checker.native.frontier import Chunk, Level, Store
from highwater.checker.native.kernels import PREDECESSOR_BITS
from highwater.checker.native.layout import Words
from highwater.checker.native.machine import Effort
from highwater.checker.native.program import Program
from highwater.checker.native.runtime import BATCH
from highwater.checker.native.table import Table, TableFullError
from highwater.checker.native.worker import OUTPUT, Worker
from highwater.checker.search import (
    DEADLOCK,
    EngineError,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    Violation,
    missing_verdicts,
)
from highwater.model.language.model import Model

_SLICE = 4096
_INLINE = 512
_REFRESH = 0.2


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively; the first Ctrl-C ends it with what was found.

    Raises BoundError where a step leaves a type without a declared bound, and EngineError where the model
    or the machine is beyond this engine.
    """
    started = time.perf_counter()
    program = Program(model, options.symmetry, effort=Effort.QUICK)
    run = Run(program, options, progress)
    run.result.preparation_seconds = time.perf_counter() - started
    try:
        return run.explore()
    finally:
        run.close()


def available_memory() -> int:
    """Bytes of memory that are free to use."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


class Run:
    """The state of one search."""

    def __init__(self, program: Program, options: SearchOptions, progress: ProgressCallback | None) -> None:
        self.program, self.options, self.progress = program, options, progress
        model = program.model
        self.memory = options.memory_bytes or int(available_memory() * 0.8)
        self.count = max(1, options.workers or len(os.sched_getaffinity(0)))
        self.workers = [program.worker(options.deadlock) for _ in range(self.count)]
        buffers = sum(w.out_states.nbytes + w.out_predecessors.nbytes for w in self.workers)
        room = self.memory - buffers
        if room < 16 << 20:
            raise EngineError(f"{self.memory >> 20} MiB of memory are too few for {self.count} workers")
        # What is needed once and in order can wait on disk; the table cannot.
        self.states = Store(min(room // 8, 1 << 26), options.spill_directory)
        self.predecessors = Store(min(room // 32, 1 << 25), options.spill_directory)
        self.table = Table(lambda *where: program.grow(*where), room - room // 8 - room // 32)
        self.levels: list[Level] = []
        self.names = [p.name for p in model.properties]
        self.found: dict[str, object] = {}
        self.places: dict[str, tuple[int, int]] = {}  # property -> (number of its level, index in it)
        self.result = SearchResult()
        self.gate = threading.Condition()
        self.active = 0
        self.growing = False
        self.stop: str | None = None
        self.expanded = 0
        self.started = time.perf_counter()
        self.pool: ThreadPoolExecutor | None = None
        self.initial: Words = np.array([program.layout.pack(s) for s in model.initial], dtype=np.uint64)

    def close(self) -> None:
        """Free what the search held."""
        self.program.settle(self.table.taken)
        if self.pool:
            self.pool.shutdown()
        self.states.close()
        self.predecessors.close()
        self.table.close()

    # --- the search -------------------------------------------------------------------------------

    def explore(self) -> SearchResult:
        """Run to the end, a limit or an interruption."""
        asked = self.names + [DEADLOCK] * self.options.deadlock
        with interruption(self._interrupt):
            level = self._first_level()
            while level.size and not self.stop:
                if not missing_verdicts(asked, self.found, self.options):
                    self.stop = "violation"
                    break
                self.program.improve(self.table.taken)
                level = self._next_level(level)
                self._report()
                self._check_limits()
        return self._conclude()

    def _interrupt(self) -> None:
        self.stop = "interrupted"

    def _first_level(self) -> Level:
        level = Level()
        self.levels.append(level)
        worker = self.workers[0]
        for start in range(0, len(self.initial), OUTPUT):
            end = min(start + OUTPUT, len(self.initial))
            self.table.make_room(end - start)
            worker.run(self.program.admit, self.table, self.initial, start, end, 0)
            self.table.taken += worker["out_count"]
            self._hand_over(worker, level)
        return level

    def _next_level(self, level: Level) -> Level:
        following = Level()
        self.levels.append(following)
        self.expanded = 0
        self.items = deque(self._slices(level))
        mask = sum(1 << i for i, name in enumerate(self.names) if name in self.found)
        for worker in self.workers:
            worker["known"] = mask
        if level.size <= _INLINE or (self.count == 1 and not self.progress):
            self._work(self.workers[0], following)
        else:
            self._work_together(following)
        self._note_deadlocks(len(self.levels) - 2)
        self._release(level)
        return following

    def _release(self, level: Level) -> None:
        """What becomes of the states of a level that was expanded."""
        for chunk in level.chunks:
            self.states.drop(chunk.states)

    def _slices(self, level: Level) -> list[tuple[Chunk, int, int]]:
        if len(level.chunks) > 4 * self.count:
            return [(chunk, 0, chunk.count) for chunk in level.chunks]
        step = max(64, min(_SLICE, level.size // (4 * self.count)))
        return [(c, i, min(i + step, c.count)) for c in level.chunks for i in range(0, c.count, step)]

    def _work_together(self, following: Level) -> None:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.count, thread_name_prefix="worker")
        futures: list[Future[None]] = [self.pool.submit(self._work, w, following) for w in self.workers]
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_REFRESH, return_when=FIRST_EXCEPTION)
            if any(f.exception() for f in done):
                self.stop = self.stop or "error"
            self._report()
            self._check_limits()
        for future in futures:
            future.result()

    def _work(self, worker: Worker, following: Level) -> None:
        """One worker's share of a level."""
        try:
            while self.stop is None:
                try:
                    chunk, start, end = self.items.popleft()
                except IndexError:
                    break
                states = self.states.get(chunk.states)
                first = start
                while start < end and self.stop is None:
                    start = self._expand(worker, states, start, end, chunk.base)
                    if (
                        start < end
                        or worker.capacity - worker["out_count"] < BATCH + 2 * self.program.instances
                    ):
                        self._hand_over(worker, following)
                self.expanded += start - first
                if self.count == 1:
                    self._check_limits()
        except TableFullError:
            self.stop = self.stop or "memory"
        finally:
            self._hand_over(worker, following)

    def _expand(self, worker: Worker, states: Words, start: int, end: int, base: int) -> int:
        most = self.count * worker.capacity
        with self.gate:
            while self.growing:
                self.gate.wait()
            if not self.table.has_room(most):
                self.growing = True
                try:
                    while self.active:
                        self.gate.wait()
                    self.table.make_room(most)
                finally:
                    self.growing = False
                    self.gate.notify_all()
            self.active += 1
        before = worker["out_count"]
        try:
            return worker.run(self.program.expand, self.table, states, start, end, base)
        finally:
            with self.gate:
                self.active -= 1
                self.table.taken += worker["out_count"] - before
                self.gate.notify_all()
            self._check_error(worker)

    def _check_error(self, worker: Worker) -> None:
        if worker["full"]:
            raise EngineError("the fingerprint table ran out of slots between two growths")
        self.program.check_error(worker)

    def _hand_over(self, worker: Worker, level: Level) -> None:
        """Move a worker's output into a level."""
        count = worker["out_count"]
        if count:
            states = self.states.put(worker.out_states[:count])
            predecessors = self.predecessors.put(worker.out_predecessors[:count])
            with self.gate:
                chunk = level.add(count, states, predecessors)
                for index, bits in worker.violations[: worker["violation_count"]].tolist():
                    for i, name in enumerate(self.names):
                        if bits >> i & 1 and name not in self.found:
                            self.found[name] = True
                            self.places[name] = (len(self.levels) - 1, chunk.base + index)
        worker.reset_output()

    def _note_deadlocks(self, number: int) -> None:
        stuck = [w["deadlock"] for w in self.workers if w["deadlock"] >= 0]
        for worker in self.workers:
            worker["deadlock"] = -1
        if stuck and DEADLOCK not in self.found:
            self.found[DEADLOCK] = True
            self.places[DEADLOCK] = (number, min(stuck))

    def _check_limits(self) -> None:
        options = self.options
        if options.limit_states is not None and self.table.taken > options.limit_states:
            self.stop = self.stop or "states"
        if options.limit_seconds is not None and time.perf_counter() - self.started > options.limit_seconds:
            self.stop = self.stop or "seconds"

    # --- what is told -----------------------------------------------------------------------------

    def _memory_bytes(self) -> int:
        buffers = sum(w.out_states.nbytes + w.out_predecessors.nbytes for w in self.workers)
        used = self.table.bytes + self.states.memory_bytes + self.predecessors.memory_bytes + buffers
        self.result.peak_memory_bytes = max(self.result.peak_memory_bytes, used)
        return used

    def _generated(self) -> int:
        return len(self.initial) + sum(int(w.counts.sum()) for w in self.workers)

    def _report(self) -> None:
        memory = self._memory_bytes()
        if self.progress:
            level = self.levels[-2] if len(self.levels) > 1 else self.levels[-1]
            queue = level.size - self.expanded + self.levels[-1].size
            spilled = self.states.spilled_bytes + self.predecessors.spilled_bytes
            self.progress(
                Progress(
                    len(self.levels) - 1,
                    self.table.taken,
                    self._generated(),
                    queue,
                    memory,
                    spilled,
                    time.perf_counter() - self.started,
                )
            )

    def _conclude(self) -> SearchResult:
        result = self.result
        self._memory_bytes()
        result.stopped_by = self.stop
        result.distinct_states = self.table.taken
        result.generated_states = self._generated()
        result.depth = sum(1 for level in self.levels if level.size)
        result.actions, result.cut, result.premises = self.program.totals(self.workers)
        result.seconds = time.perf_counter() - self.started
        result.violations = [self._violation(name, *place) for name, place in self.places.items()]
        n = float(result.distinct_states)
        result.collision_probability = -math.expm1(-n * (n - 1) / 2 / 2.0**64)
        result.table_bytes = self.table.bytes
        result.spilled_bytes = self.states.spilled_bytes + self.predecessors.spilled_bytes
        return result

    def _violation(self, name: str, number: int, index: int) -> Violation:
        """Follow the predecessors back to an initial state."""
        path: list[int] = []
        while True:
            chunk = self.levels[number].chunk_of(index)
            packed = self.predecessors.item(chunk.predecessors, index - chunk.base)
            index = packed >> PREDECESSOR_BITS
            if number == 0:
                break
            path.append(packed & ((1 << PREDECESSOR_BITS) - 1))
            number -= 1
        return Violation(name, self.program.layout.unpack(self.initial[index]), tuple(reversed(path)))
