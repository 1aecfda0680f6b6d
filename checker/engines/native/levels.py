"""The native search: all cores expand the levels with compiled kernels.

A worker takes a part of the level, expands its states into buffers, and looks up the candidates in the shared
fingerprint table. A level is finished before the next level starts, so the first violation of a property has a
shortest run. Counts do not depend on the number of workers. If a violation has several shortest runs, the reported
run can differ with several workers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.breadth_first import BreadthFirst, Totals
from highwater.checker.engines.native.checkpoint import Checkpoint, SearchState
from highwater.checker.engines.native.frontier import Level, Part, not_written
from highwater.checker.engines.native.kernels import PREDECESSOR_BITS
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.runtime import BATCH
from highwater.checker.engines.native.worker import OUTPUT, TableFullError, Worker
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
)
from highwater.model.language import Model
from highwater.model.language.initial import Scalars

DISK, MEMORY = "disk", "memory"
"""Reasons to stop: the disk cannot be written, or memory is full."""
_INLINE = 512
_REFRESH = 0.2


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively, without an explored graph. The first Ctrl-C ends the search with the result so far.

    Raises BoundError if a step leaves a type and no bound prunes the step. Raises EngineError if the engine does not
    support the model or the machine. Raises InputError if the checkpoint cannot be used.
    """
    started = time.perf_counter()
    program = Program(model, options.symmetry, common=options.checkpoint is None)
    with closing(NativeLevels(program, options)) as levels:
        run = BreadthFirst(model, levels, options, progress)
        run.result.preparation_seconds = time.perf_counter() - started
        return run.explore()


class NativeLevels(SearchState):
    """The visited states of a native search (``Visited``): fingerprints in memory, then in sorted runs on disk."""

    search: BreadthFirst
    """The search that expands these levels."""

    def __init__(self, program: Program, options: SearchOptions) -> None:
        super().__init__(program, options)
        self.lock = threading.Lock()  # guards data that several workers write
        # True if a found state is in no level: the level is incomplete, although it is expanded.
        self.lost = False
        self.trouble: str | None = None
        self.pause = False  # True if the table is full, or holds enough candidates for a look-up on disk
        self.pool: ThreadPoolExecutor | None = None
        self.checkpoint: Checkpoint | None = None
        if options.checkpoint is not None:
            self.checkpoint = Checkpoint(self, options.checkpoint)
            self.new_file = self.checkpoint.new_file

    def close(self) -> None:
        """Free memory, files and threads. If the search was interrupted, end the compilation."""
        if not hasattr(self, "search") or self.search.stop == "interrupted":
            self.program.cancel_compilation()
        if self.pool:
            self.pool.shutdown()
        for held in (self.delayed, self.states, self.predecessors, self.table, self.checkpoint):
            if held is not None:
                held.close()

    # --- Visited ----------------------------------------------------------------------------------

    @property
    def sizes(self) -> list[int]:
        """The number of states in each level."""
        return [level.size for level in self.levels]

    def begin(self, search: BreadthFirst) -> None:
        """Find the first level, or restore the levels of a checkpoint."""
        self.search = search
        if self.checkpoint is not None and self.options.resume:
            self.checkpoint.restore()
            search.seconds_before = self.seconds
            self._check_limits()
            return
        self._first_level()
        self._save()

    def expand(self, search: BreadthFirst) -> None:
        """Find the next level: the new successors of the last level."""
        self.search = search
        self.program.improve(search.seconds, crowded=self.options.crowded)
        self.levels.append(Level())
        self.items = deque(self.levels[-2].parts(self.count))
        self._finish_level()
        self._check_limits()
        self._save()

    def totals(self, search: BreadthFirst) -> Totals:
        """The counts of the search so far."""
        counts = self.program.totals(self.workers)
        return Totals(self.distinct, self.generated, *counts, found=self.found, seconds=search.seconds)

    def origin(self, level: int, index: int) -> tuple[int, int]:
        """The last step of a run to state ``index`` of a level: (index of its source in the level before, instance)."""
        chunk = self.levels[level].chunk_of(index)
        packed = self.predecessors.item(chunk.predecessors, index - chunk.base)
        before, instance = divmod(packed, 1 << PREDECESSOR_BITS)
        if before >= (self.levels[level - 1].size if level else len(self.start)):
            raise InternalError(f"the predecessor of a state of level {level + 1} is not there")
        return before, instance

    def initial(self, index: int) -> Scalars:
        """The initial state with this index."""
        return self.program.layout.unpack(self.start[index])

    def progress(self, search: BreadthFirst) -> Progress:
        """The progress of the search. Also records the table's size and disk errors in ``search.result``."""
        result = search.result
        result.table_bytes, result.trouble = self.table.bytes, self.trouble
        result.unspilled = self.states.failure or self.predecessors.failure
        level = self.levels[-2] if len(self.levels) > 1 else self.levels[-1]
        queue = level.size - self.expanded + self.levels[-1].size
        counts, depth = (self.distinct, self.generated), len(self.levels) - 1
        return Progress(depth, *counts, queue, self.memory_in_use, self.spilled, search.seconds)

    # --- levels -----------------------------------------------------------------------------------

    def _first_level(self) -> None:
        level = Level()
        self.levels.append(level)
        starts = deque(range(0, len(self.start), OUTPUT))
        workers = self.workers[: len(starts)]
        if len(workers) == 1:
            self._admit(workers[0], starts, level)
        else:
            for _ in self._threads().map(lambda worker: self._admit(worker, starts, level), workers):
                pass

    def _admit(self, worker: Worker, starts: deque[int], level: Level) -> None:
        """Find the states of the first level in one worker, until no part of the initial states is left."""
        while True:
            try:
                start = starts.popleft()
            except IndexError:
                return
            end = min(start + OUTPUT, len(self.start))
            with self.table.entered(self.count * min(OUTPUT, len(self.start))):
                worker.run(self.program.admit, self.table, self.start, start, end, 0)
                self.table.add_taken(worker["out_count"])
            self._hand_over(worker, level)

    def _finish_level(self) -> None:
        """Expand the unexpanded parts of a level. The workers pause when the table is full."""
        level, following = self.levels[-2:]
        self.expanded = level.size - sum(end - start for _, start, end in self.items)
        while not self.search.stop:
            self.pause = False
            self._expand_items(level, following)
            self._note_expanded(len(self.levels) - 2)
            self._resolve(level, following)
            if not self.items:
                break
            if self.pause and self.delayed is None:
                self._go_to_disk(level)
        if not self.items:
            self._release(level)

    def _release(self, level: Level) -> None:
        for chunk in level.chunks:
            self.states.drop(chunk.states)

    def _expand_items(self, level: Level, following: Level) -> None:
        for worker in self.workers:
            worker["known"], worker["known_steps"] = self.search.known
        if level.size <= _INLINE or (self.count == 1 and not self.search.progress):
            self._work(self.workers[0], following)
        else:
            self._work_together(following)

    def _threads(self) -> ThreadPoolExecutor:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.count, thread_name_prefix="worker")
        return self.pool

    def _work_together(self, following: Level) -> None:
        futures: list[Future[None]] = [self._threads().submit(self._work, w, following) for w in self.workers]
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_REFRESH, return_when=FIRST_EXCEPTION)
            if any(f.exception() for f in done):
                self.search.end("error")
            self.search.report()
            self._check_limits()
        for future in futures:
            future.result()

    def _work(self, worker: Worker, following: Level) -> None:
        """Expand parts of a level in one worker, until no part is left, or the search pauses or stops."""
        try:
            try:
                while self.search.stop is None and not self.pause:
                    try:
                        part = self.items.popleft()
                    except IndexError:
                        break
                    self._expand_part(worker, part, following)
            finally:
                self._put_away(worker, following)
        except OSError as wrong:
            self._fail(wrong)
        except MemoryError:  # the machine has less memory than assumed
            self.lost = True
            self.search.end(MEMORY)

    def _expand_part(self, worker: Worker, part: Part, following: Level) -> None:
        """Expand the states of a part. If the search pauses or stops, unexpanded states return to the queue."""
        chunk, first, end = part
        start = first
        try:
            states = self.states.get(chunk.states)
            while start < end and self.search.stop is None and not self.pause:
                start = self._expand(worker, states, start, end, chunk.base)
                if start < end or worker.capacity - worker["out_count"] < BATCH + 2 * self.program.instances:
                    self._put_away(worker, following)
        except TableFullError:
            if self.on_disk:
                self.pause = True
            else:
                self.search.end(MEMORY)
        finally:
            with self.lock:
                self.expanded += start - first
            if start < end:
                self.items.appendleft((chunk, start, end))
        if self.count == 1:
            self._check_limits()

    def _expand(self, worker: Worker, states: Words, start: int, end: int, base: int) -> int:
        with self.table.entered(self.count * worker.capacity):
            before = worker["out_count"]
            try:
                return worker.run(self.program.expand, self.table, states, start, end, base)
            finally:
                self.table.add_taken(worker["out_count"] - before)
                if worker["full"]:
                    raise InternalError("the fingerprint table ran out of slots between two growths")
                self.program.check_error(worker)

    def _put_away(self, worker: Worker, level: Level) -> None:
        """Move a worker's output to the level or, if the visited states are on disk, to the candidates."""
        if self.delayed is not None:
            self.delayed.collect(worker)
        else:
            self._hand_over(worker, level)

    def _hand_over(self, worker: Worker, level: Level) -> None:
        count = worker["out_count"]
        if count:
            states = self.states.put(worker.out_states[:count])
            predecessors = self.predecessors.put(worker.out_predecessors[:count])
            with self.lock:
                chunk = level.add(count, states, predecessors)
                for index, bits in worker.violations[: worker["violation_count"]].tolist():
                    self._note(self.names, bits, len(self.levels) - 1, chunk.base + index)
        worker.reset_output()

    def _note_expanded(self, number: int) -> None:
        """Record the deadlocks and step-property violations that the workers found in level ``number``."""
        stuck = [w["deadlock"] for w in self.workers if w["deadlock"] >= 0]
        for worker in self.workers:
            worker["deadlock"] = -1
        if stuck:
            self._note([DEADLOCK], 1, number, min(stuck))
        for predecessor, bits in sorted(pair for worker in self.workers for pair in worker.broken()):
            self._note(self.step_names, bits, number, *divmod(predecessor, 1 << PREDECESSOR_BITS))

    def _note(self, names: Sequence[str], bits: int, *place: int) -> None:
        """Record ``place`` as the first violation of each property whose bit is set, unless it was violated before."""
        for i, name in enumerate(names):
            if bits >> i & 1:
                self.found.setdefault(name, place)

    def _check_limits(self) -> None:
        """Stop the search at a limit, or pause the workers.

        With visited states on disk, the workers pause if the batch has more candidates than the limit of states leaves
        room for, and enough for a pass over the disk.
        """
        if not self.search.check_limits(self.distinct):
            limit = self.options.limit_states
            if (
                self.delayed is not None
                and limit is not None
                and self.delayed.too_many(limit - self.distinct)
            ):
                self.pause = True

    # --- disk and checkpoints ---------------------------------------------------------------------

    def _go_to_disk(self, level: Level) -> None:
        """Continue with the visited states on disk, because the table is full. ``level`` is being expanded."""
        try:
            self.use_disk().begin(level.size - self.expanded)
        except OSError as wrong:
            if self.delayed is not None:  # the table still holds the states found so far
                self.delayed.close()
                self.delayed = None
            self._fail(wrong)

    def _resolve(self, level: Level, following: Level) -> None:
        """If the visited states are on disk, move the new candidates to the next level."""
        if self.delayed is None or self.lost:
            return
        try:
            left = level.size - self.expanded
            self.delayed.resolve(
                self.workers, lambda w: self._hand_over(w, following), left or following.size
            )
        except OSError as wrong:
            self._fail(wrong)
        self._check_limits()

    def _save(self) -> None:
        """Write the last level to the checkpoint, if it is complete and the next write is due or the search is over.

        A failure stops the search. If the search is over, the failure is only reported.
        """
        if self.checkpoint is None or self.lost or self.items:
            return
        over = self.search.stop or not self.levels[-1].size
        if not (over or self.checkpoint.due):
            return
        self.seconds = self.search.seconds
        try:
            self.checkpoint.save()
        except OSError as wrong:
            if over:
                self.trouble = not_written(wrong, self.options.spill_directory)
            else:
                self._fail(wrong)

    def _fail(self, wrong: OSError) -> None:
        """Stop the search with the result so far, because the disk failed."""
        self.search.stop, self.lost = DISK, True
        self.trouble = not_written(wrong, self.options.spill_directory)
