"""The explored graph of the native engine: a search that stores its states, then linking of the states by steps."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InternalError, interruption
from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native.context import cut_words
from highwater.checker.engines.native.frontier import Level
from highwater.checker.engines.native.kernels import PREDECESSOR_BITS, Kernels
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.levels import search as search_alone
from highwater.checker.engines.native.machine import Machine
from highwater.checker.engines.native.program import CompiledModel, Program
from highwater.checker.engines.native.runtime import (
    SLACK,
    CutKernels,
    LinkRuntime,
    Runtime,
)
from highwater.checker.engines.native.worker import Buffers, Worker
from highwater.checker.engines.state_graph import Explored, Words
from highwater.checker.scenarios.search import (
    EngineError,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
)
from highwater.model.language import Model

_STATES, _STEPS = 4096, 1 << 20
"""The most states that one call of ``@link`` expands, and the most steps that these states may have together."""


def states_at_once(instances: int) -> int:
    """The number of states that one call of ``@link`` may expand, in a model with this number of instances."""
    return max(64, min(_STATES, _STEPS // max(1, instances)))


@dataclass
class LinkedSteps:
    """Buffers for the steps of a range of states.

    ``targets`` and ``instances`` have an entry for each step, ``cuts`` the instance of each pruned step. ``counts``
    and ``cut_counts`` count the steps and pruned steps of each state.
    """

    targets: NDArray[np.int64]
    instances: NDArray[np.int64]
    counts: NDArray[np.int64]
    cuts: NDArray[np.int64]
    cut_counts: NDArray[np.int64]


class Linker(Buffers):
    """The buffers of one call of ``@link``, which links up to ``states`` states.

    With ``exact``, the words of each step's target are compared with the stored state.
    """

    def __init__(self, program: CompiledModel, states: int, exact: bool) -> None:
        words, code = program.layout.words, program.code
        super().__init__(program.model, words, code, want_deadlock=False, judging=False)
        make_room_for_cuts(self, program.model)
        most = max(1, states * program.instances)
        self.steps = LinkedSteps(
            *(np.empty(size, dtype=np.int64) for size in (most, most, states, most, states))
        )
        self.point(
            out_targets=self.steps.targets,
            out_instances=self.steps.instances,
            out_step_counts=self.steps.counts,
            out_cuts=self.steps.cuts,
            out_cut_counts=self.steps.cut_counts,
        )
        self["exact"] = int(exact)


def make_room_for_cuts(buffers: Buffers, model: Model) -> None:
    """Allocate the bits for pruned instances of each state that is expanded at a time."""
    words = cut_words(len(model.outline.instances))
    buffers.cut_bits = np.zeros(max(1, buffers["at_once"]) * words, dtype=np.uint64)
    buffers["cut_words"], buffers["cut_bits"] = words, buffers.cut_bits.ctypes.data


# The explored graph by the native engine: a search that keeps its states, then a second expansion for the steps.
#
# The search finds all states and a shortest run to each state, but does not record all steps. So linking expands each
# state again with the same kernels, and looks up the steps' targets in the search's table. Beside each fingerprint of
# the table, it first writes the number of the state.
#
# The search confuses two states with the same fingerprint (a collision). Linking detects a collision: it compares the
# words of each step's target with the state that was found in the table. With symmetry, the words of equal states can
# differ, so collisions remain undetected.


def explore(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> Explored:
    """All states of a model and all steps between the states. Properties are not checked.

    A limit or the first Ctrl-C ends the search early, with the reason in ``stopped_by``. Raises EngineError if the
    graph needs more memory than allowed, or if two states share a fingerprint. Raises BoundError if a step leaves a
    type and no bound prunes the step.
    """
    options = replace(options, deadlock=False, stop_at_first=False)
    with _begun(model, options, progress, judging=False) as (run, levels):
        run.explore()
        return Linking(run, levels).explored()


def searched(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Search a model, and build the explored graph in the same run.

    If the search was interrupted or stopped at the first violation, the result has no graph. Raises the errors of
    ``explore``.
    """
    started = time.perf_counter()
    with _begun(model, options, progress, judging=True) as (run, levels):
        run.result.preparation_seconds = time.perf_counter() - started
        result = run.explore()
        if result.stopped_by not in ("interrupted", "violation"):
            result.graph = Linking(run, levels).explored()
            result.seconds = run.seconds
        return result


@dataclass(frozen=True)
class VisitedStates:
    """All states of a search, level by level, with a shortest run to each; the arrays are those of ``Explored``."""

    states: Words
    parents: NDArray[np.int32]
    parent_instances: NDArray[np.int32]
    stopped_by: str | None


def visited(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> VisitedStates:
    """All states of a model, without the steps between them. Properties are not checked.

    A limit or the first Ctrl-C ends the search early. Raises the errors of ``explore``.
    """
    with _begun(model, options, progress, judging=False) as (run, levels):
        result = run.explore()
        return VisitedStates(*gathered(levels), result.stopped_by)


def gathered(run: GraphLevels) -> tuple[Words, NDArray[np.int32], NDArray[np.int32]]:
    """For all states: the packed state, the predecessor's number, and the instance of the predecessor's step.

    The last two are -1 for an initial state. This removes all arrays from the search's stores.
    """
    total = sum(level.size for level in run.levels)
    states = np.empty((total, run.program.layout.words), dtype=np.uint64)
    parents, parent_instances = np.empty(total, np.int32), np.empty(total, np.int32)
    before = first = 0
    for level in run.levels:
        for chunk in level.chunks:
            here = slice(first + chunk.base, first + chunk.base + chunk.count)
            states[here] = run.states.get(chunk.states)
            run.states.drop(chunk.states)
            packed = run.predecessors.get(chunk.predecessors)
            run.predecessors.drop(chunk.predecessors)
            if first == 0:
                parents[here] = parent_instances[here] = -1
            else:
                parents[here] = (packed >> PREDECESSOR_BITS) + np.uint64(before)
                parent_instances[here] = packed & ((1 << PREDECESSOR_BITS) - 1)
        before, first = first, first + level.size
    return states, parents, parent_instances


@contextmanager
def _begun(
    model: Model, options: SearchOptions, progress: ProgressCallback | None, *, judging: bool
) -> Iterator[tuple[BreadthFirst, GraphLevels]]:
    """Context with a search that is ready to run and whose states can be linked to a graph afterwards.

    So the search keeps all states, and keeps its table in memory. With ``judging``, it checks properties.
    """
    program = LinkProgram(model, options.symmetry, common=True)
    program.judging = judging
    every = not options.stop_at_first
    options = replace(options, all_states=every, on_disk=False, checkpoint=None, resume=False)
    with closing(GraphLevels(program, options)) as levels:
        yield BreadthFirst(model, levels, options, progress), levels


class LinkProgram(Program):
    """Machine code that searches, and that records the steps between the states found."""

    kernels: type[Kernels] = CutKernels
    runtime: type[Runtime] = LinkRuntime
    judging = False
    """True if the search checks properties."""

    def bind(self, machine: Machine) -> None:
        """Use the functions of newly loaded machine code."""
        super().bind(machine)
        self.number = machine.function("number", 1)
        self.link = machine.function("link", 1)

    def worker(self, want_deadlock: bool = False) -> Worker:
        """The buffers for one thread of the search."""
        worker = super().worker(want_deadlock)
        make_room_for_cuts(worker, self.model)
        worker["judging"] = int(self.judging)
        return worker


class GraphLevels(NativeLevels):
    """The visited states of a search that keeps the states of expanded levels."""

    def _release(self, level: Level) -> None:
        pass

    def whole(self, stop: str | None) -> int:
        """The number of completely expanded levels. ``stop`` is the reason to stop; None: the search finished."""
        last = len(self.levels) - 2
        if stop is None:
            return len(self.levels)
        return last + (last >= 0 and self.expanded == self.levels[last].size) if last >= 0 else 0


class Linking:
    """Builds an explored graph from the levels of a search that has ended."""

    def __init__(self, search: BreadthFirst, run: GraphLevels) -> None:
        program = run.program
        assert isinstance(program, LinkProgram)
        self.search, self.run, self.program, self.model = search, run, program, program.model
        self.levels = [level for level in run.levels if level.size]
        self.level_starts = np.concatenate([[0], np.cumsum([level.size for level in self.levels])])
        self.total = int(self.level_starts[-1])
        self.expanded = int(self.level_starts[min(run.whole(search.stop), len(self.levels))])
        taken, cut, _ = self.program.totals(run.workers)
        self.most_steps, self.most_cuts = sum(taken.values()), sum(cut.values())
        self.narrow = np.uint16 if self.program.instances <= 1 << 16 else np.uint32
        self._refuse_too_large()
        self.numbers: NDArray[np.uint32] = np.zeros(run.table.capacity + SLACK, dtype=np.uint32)
        self.interrupted = False

    def _refuse_too_large(self) -> None:
        words, narrow = self.program.layout.words, np.dtype(self.narrow).itemsize
        if self.total >= 1 << 31:
            raise EngineError(f"a graph has at most {1 << 31:,} states, not {self.total:,}")
        self.needed = (
            self.run.table.bytes * 3 // 2
            + self.total * (8 * words + 8 + 8 + 8)
            + self.most_steps * (4 + narrow)
            + self.most_cuts * narrow
        )
        if self.needed > self.run.memory:
            raise EngineError(
                f"the graph of {self.total:,} states and {self.most_steps:,} steps needs {self.needed >> 20:,} MiB "
                f"of memory; {self.run.memory >> 20:,} MiB may be used"
            )

    def explored(self) -> Explored:
        """Build the explored graph."""
        with interruption(self._interrupt):
            states, parents, parent_instances = gathered(self.run)
            offsets, targets, instances, cut_offsets, cut_instances = self._link(states)
        return Explored(
            model=self.model,
            states=states,
            level_starts=self.level_starts,
            offsets=offsets,
            targets=targets,
            instances=instances,
            cut_offsets=cut_offsets,
            cut_instances=cut_instances,
            parents=parents,
            parent_instances=parent_instances,
            expanded=self.expanded,
            stopped_by="interrupted" if self.interrupted else self.search.stop,
            symmetry=self.run.options.symmetry,
        )

    def _interrupt(self) -> None:
        self.interrupted = True

    def _link(self, states: Words) -> Any:
        """Find all steps with several threads. Returns the arrays ``offsets`` to ``cut_instances`` of ``Explored``."""
        size = states_at_once(self.program.instances)
        count = min(self.run.count, max(1, self.expanded // size))
        idle = [Linker(self.program, size, exact=not self.run.options.symmetry) for _ in range(2 * count)]
        with ThreadPoolExecutor(count, thread_name_prefix="link") as pool:
            self._number_all(pool, idle[:count], states)
            return self._collect(pool, idle, states, size)

    def _number_all(self, pool: ThreadPoolExecutor, linkers: list[Linker], states: Words) -> None:
        edges = np.linspace(0, self.total, len(linkers) + 1).astype(int).tolist()
        shares = zip(linkers, itertools.pairwise(edges), strict=True)
        for future in [
            pool.submit(self._call, self.program.number, x, states, *share) for x, share in shares
        ]:
            future.result()

    def _call(self, function: Any, linker: Linker, states: Words, start: int, end: int) -> Linker:
        table = self.run.table
        linker["table"], linker["capacity"] = table.address, table.capacity
        linker["numbers"], linker["states"] = self.numbers.ctypes.data, states.ctypes.data
        linker["start"], linker["end"] = start, end
        linker["out_steps"] = linker["out_cut_total"] = 0
        function(linker.address)
        if linker["error"]:
            raise self.program.bound_error(linker["error"])
        if linker["mixed"]:
            raise EngineError(
                f"two states have the fingerprint of state {linker['mixed'] - 1}: one of them was taken for the "
                "other, and the graph would be wrong"
            )
        if linker["lost"]:
            raise InternalError(
                f"a step of state {linker['lost'] - 1} leads to a state that the search did not find"
            )
        return linker

    def _ordered(
        self, pool: ThreadPoolExecutor, idle: list[Linker], states: Words, size: int
    ) -> Iterator[tuple[int, int, Linker]]:
        """Yield ranges of states (start, end) with their linked steps, in order.

        Threads link up to ``len(idle)`` ranges at the same time. A yielded linker is used again afterwards.
        """
        running: deque[tuple[int, int, Future[Linker]]] = deque()
        starts = iter(range(0, self.expanded, size))
        while not self.interrupted:
            while idle and (start := next(starts, None)) is not None:
                end = min(start + size, self.expanded)
                job = pool.submit(self._call, self.program.link, idle.pop(), states, start, end)
                running.append((start, end, job))
            if not running:
                return
            start, end, job = running.popleft()
            linker = job.result()
            yield start, end, linker
            idle.append(linker)

    def _collect(self, pool: ThreadPoolExecutor, idle: list[Linker], states: Words, size: int) -> Any:
        offsets, cut_offsets = np.zeros((2, self.total + 1), dtype=np.int64)
        targets = np.empty(self.most_steps, dtype=np.uint32)
        instances, cuts = np.empty(self.most_steps, self.narrow), np.empty(self.most_cuts, self.narrow)
        steps = cut = linked = 0
        for start, end, linker in self._ordered(pool, idle, states, size):
            found, cut_found = linker["out_steps"], linker["out_cut_total"]
            targets[steps : steps + found] = linker.steps.targets[:found]
            instances[steps : steps + found] = linker.steps.instances[:found]
            cuts[cut : cut + cut_found] = linker.steps.cuts[:cut_found]
            offsets[start + 1 : end + 1] = linker.steps.counts[: end - start]
            cut_offsets[start + 1 : end + 1] = linker.steps.cut_counts[: end - start]
            steps, cut, linked = steps + found, cut + cut_found, end
            self._report(linked, steps)
        self.expanded = linked
        np.cumsum(offsets, out=offsets)
        np.cumsum(cut_offsets, out=cut_offsets)
        return offsets, targets[:steps], instances[:steps], cut_offsets, cuts[:cut]

    def _report(self, linked: int, steps: int) -> None:
        if self.search.progress:
            seconds = time.perf_counter() - self.search.started
            left = self.expanded - linked
            self.search.progress(Progress(len(self.levels), self.total, steps, left, self.needed, 0, seconds))


# The native engine's search, with the explored graph if ``options.graph`` is set.


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively. Build the explored graph if the options request a graph and no checkpoint.

    The first Ctrl-C ends the search with the result so far. Raises BoundError if a step leaves a type and no bound
    prunes the step. Raises EngineError if the engine does not support the model or the machine. Raises InputError if
    the checkpoint cannot be used.
    """
    if not options.graph or options.checkpoint is not None:
        return search_alone(model, options, progress)

    result = searched(model, options, progress)
    if result.stopped_by == "memory" and options.on_disk:
        # The graph does not fit into memory. A search without a graph can use the disk.
        alone = search_alone(model, replace(options, graph=False), progress)
        alone.graph = result.graph
        return alone
    return result
