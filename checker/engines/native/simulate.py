"""Simulation: seeded random walks with the compiled kernels, for models that are too large to explore.

A walk starts in an initial state. In each state it takes one of the enabled steps that are not pruned at a bound, all
with equal probability. It ends after ``depth`` states, in a state without such a step, or at a violation.
A walk depends only on the seed and the walk's number, not on the machine or the number of workers. The workers share
the walks of a round, and the simulation ends only after a whole round, so results are reproducible. Only a time limit
or Ctrl-C makes the number of rounds depend on the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import interruption
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.native.kernels import PREDECESSOR_BITS, mixed
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.worker import Worker
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SimulationOptions,
    SimulationResult,
    ViolatingRun,
)
from highwater.model.language import Model

_ROUND = 1024


@dataclass
class _Share:
    """The results of one worker in a round. ``taken`` counts steps by instance.

    ``runs`` has, for each violated property, the lowest number of a violating walk, and this walk's run.
    """

    taken: NDArray[np.int64]
    visited: int = 0
    longest: int = 0
    runs: dict[str, tuple[int, ViolatingRun]] = field(default_factory=dict)


def simulate(
    model: Model, options: SimulationOptions, progress: ProgressCallback | None = None
) -> SimulationResult:
    """Walk at random until a walk violates a property, all walks are done, a limit is reached, or the first Ctrl-C.

    Raises BoundError if a step leaves a type and no bound prunes it, and EngineError for an unsupported model.
    """
    started = time.perf_counter()
    program = Program(model)
    result = SimulationResult(preparation_seconds=time.perf_counter() - started, seed=options.seed)
    count = max(1, options.workers or len(os.sched_getaffinity(0)))
    workers = [program.worker() for _ in range(count)]
    result.actions = dict.fromkeys((a.name for a in model.actions), 0)
    initial: Words = initial_words(model, program.layout)

    def interrupt() -> None:
        result.stopped_by = "interrupted"

    started = time.perf_counter()
    with ThreadPoolExecutor(count) as pool, interruption(interrupt):
        while result.walks < options.walks and result.stopped_by is None:
            numbers = range(result.walks, min(result.walks + _ROUND, options.walks))
            parts = [numbers[i::count] for i in range(count)]
            futures = [
                pool.submit(_share, program, worker, initial, part, options)
                for worker, part in zip(workers, parts, strict=True)
            ]
            _add(result, model, [future.result() for future in futures])
            result.walks = numbers.stop
            result.seconds = time.perf_counter() - started
            if result.violations:
                result.stopped_by = result.stopped_by or "violation"
            elif options.limit_seconds is not None and result.seconds > options.limit_seconds:
                result.stopped_by = result.stopped_by or "seconds"
            if progress:
                states, left = result.generated_states, options.walks - result.walks
                progress(Progress(result.depth, states, states, left, 0, 0, result.seconds))
    _, result.cut, result.premises = program.totals(workers)
    return result


def random_walks(model: Model, walks: int, depth: int, seed: int) -> Iterator[list[int]]:
    """Yield the instances of each walk of up to ``depth`` steps, from the first initial state."""
    program = Program(model)
    initial = initial_words(model, program.layout)[:1]
    for _, _, instances in _walks(program, program.worker(), initial, range(walks), depth + 1, seed):
        yield instances.tolist()


def _walks(
    program: Program, worker: Worker, initial: Words, numbers: range, depth: int, seed: int
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Take the walks with these numbers. Yield each walk's number, initial state and instances."""
    path = np.zeros(depth, dtype=np.uint64)
    worker["walk_path"], worker["walk_depth"], worker["start"] = path.ctypes.data, depth - 1, 0
    for number in numbers:
        random = mixed(mixed(seed) + number)
        chosen = random % len(initial)
        state = initial[chosen].copy()
        worker["states"], worker["deadlock"], worker["violation_count"] = state.ctypes.data, -1, 0
        worker["seed"] = mixed(random)
        program.walk(worker.address)
        program.check_error(worker)
        taken = path[: worker["walk_length"]] & np.uint64((1 << PREDECESSOR_BITS) - 1)
        yield number, chosen, taken.astype(np.int64)


def _share(
    program: Program, worker: Worker, initial: Words, numbers: range, options: SimulationOptions
) -> _Share:
    share = _Share(np.zeros(program.instances, dtype=np.int64))
    names = [p.name for p in program.model.properties]
    step_names = [p.name for p in program.model.step_properties]
    walks = _walks(program, worker, initial, numbers, options.depth, options.seed)
    for number, chosen, instances in walks:
        share.taken += np.bincount(instances, minlength=program.instances)
        share.visited += len(instances) + 1
        share.longest = max(share.longest, len(instances) + 1)
        broken = []
        if worker["violation_count"]:
            bits = int(worker.violations[0, 1])
            broken = [name for i, name in enumerate(names) if bits >> i & 1]
            broken += [name for i, name in enumerate(step_names) if worker["known_steps"] >> i & 1]
        if worker["deadlock"] >= 0 and options.deadlock:
            broken.append(DEADLOCK)
        for name in broken:
            if name not in share.runs:
                run = ViolatingRun(name, program.layout.unpack(initial[chosen]), tuple(instances.tolist()))
                share.runs[name] = (number, run)
    return share


def _add(result: SimulationResult, model: Model, shares: list[_Share]) -> None:
    first: dict[str, tuple[int, ViolatingRun]] = {}
    for share in shares:
        result.generated_states += share.visited
        result.depth = max(result.depth, share.longest)
        for instance, taken in zip(model.instances, share.taken.tolist(), strict=True):
            result.actions[instance.action.name] += taken
        for name, run in share.runs.items():
            if name not in first or run[0] < first[name][0]:
                first[name] = run
    result.violations += [run for _, run in sorted(first.values(), key=lambda r: r[0])]
