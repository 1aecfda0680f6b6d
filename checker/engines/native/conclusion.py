"""What a native search tells: how far it is, what came of it, and the run to a state that violates a property."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.checker.asking.search import (
    Progress,
    SearchResult,
    ViolatingRun,
    collision_probability,
    predecessors,
)
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native.text.kernels import PREDECESSOR_BITS

if TYPE_CHECKING:
    from highwater.checker.engines.native.search import NativeSearch


def progress_of(run: NativeSearch) -> Progress:
    """How far a search is."""
    level = run.levels[-2] if len(run.levels) > 1 else run.levels[-1]
    queue = level.size - run.expanded + run.levels[-1].size
    memory = memory_of(run)
    return Progress(
        len(run.levels) - 1, run.distinct, _generated(run), queue, memory, _spilled(run), run.seconds
    )


def result_of(run: NativeSearch) -> SearchResult:
    """What a search found."""
    result = run.result
    memory_of(run)
    result.stopped_by = run.stop
    result.distinct_states = run.distinct
    result.generated_states = _generated(run)
    result.depth = sum(1 for level in run.levels if level.size)
    result.actions, result.cut, result.premises = run.program.totals(run.workers)
    result.seconds = run.seconds
    ordered = sorted(run.found.items(), key=lambda item: len(item[1]))  # those of states first
    result.violations = [_violation(run, name, *place) for name, place in ordered]
    result.collision_probability = collision_probability(result.distinct_states)
    result.table_bytes = run.table.bytes
    result.spilled_bytes = _spilled(run)
    result.unspilled = run.states.failure or run.predecessors.failure
    return result


def memory_of(run: NativeSearch) -> int:
    """Bytes that the search has in use; the most of them is noted in its result."""
    buffers = sum(w.bytes for w in run.workers) + (run.delayed.memory_bytes if run.delayed else 0)
    used = run.table.bytes + run.states.memory_bytes + run.predecessors.memory_bytes + buffers
    run.result.peak_memory_bytes = max(run.result.peak_memory_bytes, used)
    return used


def _generated(run: NativeSearch) -> int:
    return len(run.initial) + sum(int(w.counts.sum()) for w in run.workers)


def _spilled(run: NativeSearch) -> int:
    stores = run.states.spilled_bytes + run.predecessors.spilled_bytes
    return stores + (run.delayed.disk_bytes if run.delayed else 0)


def _violation(run: NativeSearch, name: str, number: int, index: int, *last: int) -> ViolatingRun:
    """The run to a state; ``last`` is a step that is taken in the end."""

    def origin(number: int, index: int) -> tuple[int, int]:
        chunk = run.levels[number].chunk_of(index)
        packed = run.predecessors.item(chunk.predecessors, index - chunk.base)
        before = packed >> PREDECESSOR_BITS
        if before >= (run.levels[number - 1].size if number else len(run.initial)):
            raise InternalError(f"the predecessor of a state of level {number + 1} is not there")
        return before, packed & ((1 << PREDECESSOR_BITS) - 1)

    first, path = predecessors(number, index, origin)
    return ViolatingRun(name, run.program.layout.unpack(run.initial[first]), (*path, *last))
