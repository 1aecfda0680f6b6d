"""Random walks: options and results of a simulation, and the interpreter's simulation.

A walk starts in an initial state. In each state it takes one of the enabled steps that are not pruned at a bound, all
with equal probability. It ends after ``depth`` states, in a state without such a step, or at a violation. The walk's
random numbers depend only on the seed and the walk's number. The interpreter's simulation ends with the first walk
that finds a violation.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from highwater.checker.base.problems import interruption
from highwater.checker.scenarios.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SearchResult,
    ViolatingRun,
)
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model


@dataclass(frozen=True)
class SimulationOptions:
    """The options of a simulation. ``depth`` is the largest number of states in a walk; ``workers`` 0: all cores."""

    walks: int = 10_000
    depth: int = 100
    seed: int = 0
    workers: int = 0
    limit_seconds: float | None = None
    deadlock: bool = False


@dataclass
class SimulationResult(SearchResult):
    """The result of a simulation. ``generated_states`` counts every visited state; ``distinct_states`` is 0.

    ``walks`` is the number of walks begun, ``depth`` the number of states in the longest walk. ``seed`` reproduces
    the walks. The run of a violation is the first walk that found it, not a shortest run. For a step property,
    ``premises`` counts all unpruned steps from the states that a walk leaves, not only the steps that it takes.
    """

    walks: int = 0
    seed: int = 0

    @property
    def complete(self) -> bool:
        """Always False: random walks may miss reachable states."""
        return False


Simulate = Callable[[Model, SimulationOptions, ProgressCallback | None], SimulationResult]


def simulate(
    model: Model, options: SimulationOptions, progress: ProgressCallback | None = None
) -> SimulationResult:
    """Walk at random with the interpreter, in one thread."""
    started = time.perf_counter()
    interpreter = Interpreter(model)
    result = SimulationResult(
        cut=dict.fromkeys(model.bounds, 0),
        actions=dict.fromkeys((a.name for a in model.actions), 0),
        premises=dict.fromkeys(model.safety, 0),
        preparation_seconds=time.perf_counter() - started,
        seed=options.seed,
    )

    def take(numbers: range) -> None:
        for number in numbers:
            walk = _Walk(model, interpreter, random.Random(f"{options.seed}/{number}"), result)
            walk.go(options.depth, options.deadlock)

    in_rounds(result, options, 1, take, progress)
    return result


def in_rounds(
    result: SimulationResult,
    options: SimulationOptions,
    size: int,
    take: Callable[[range], None],
    progress: ProgressCallback | None,
) -> None:
    """Call ``take`` with the numbers of ``size`` walks, round by round, until the simulation ends.

    It ends after all walks, at the time limit, with the round of a violation, or with the round of the first Ctrl-C.
    """

    def interrupt() -> None:
        result.stopped_by = "interrupted"

    started = time.perf_counter()
    with interruption(interrupt):
        while result.walks < options.walks and result.stopped_by is None:
            numbers = range(result.walks, min(result.walks + size, options.walks))
            take(numbers)
            result.walks = numbers.stop
            result.seconds = time.perf_counter() - started
            if result.violations:
                result.stopped_by = result.stopped_by or "violation"
            elif options.limit_seconds is not None and result.seconds > options.limit_seconds:
                result.stopped_by = result.stopped_by or "seconds"
            if progress:
                states, left = result.generated_states, options.walks - result.walks
                progress(Progress(result.depth, states, states, left, 0, 0, result.seconds))


class _Walk:
    """One random walk. It adds its counts and violations to the simulation's result."""

    def __init__(self, model: Model, interpreter: Interpreter, dice: random.Random, result: SimulationResult):
        self.model, self.interpreter, self.dice, self.result = model, interpreter, dice, result
        self.numbers = {id(instance): i for i, instance in enumerate(model.instances)}

    def go(self, depth: int, deadlock: bool) -> None:
        """Walk until a violation, a state without an unpruned step, or ``depth`` states."""
        state = initial = self.dice.choice(self.model.initial)
        path: list[int] = []
        broken: list[str] = []
        while True:
            seen = len(path) + 1
            self.result.generated_states += 1
            self.result.depth = max(self.result.depth, seen)
            for prop, met in zip(self.model.properties, self.interpreter.premises(state), strict=True):
                self.result.premises[prop.name] += met
            if self._note(self.interpreter.violated(state) + broken, initial, path) or seen >= depth:
                return
            steps = list(self.interpreter.steps(state))
            if deadlock and not steps:
                self._note([DEADLOCK], initial, path)
            for step in steps:
                if step.state is None and step.cut is not None:
                    self.result.cut[step.cut] += 1
                elif step.state is not None:
                    self._note_premises(state, self.numbers[id(step.instance)], step.state)
            ways: list[tuple[int, Scalars, str]] = [
                (self.numbers[id(step.instance)], step.state, step.instance.action.name)
                for step in steps
                if step.state is not None
            ]
            if not ways:
                return
            before = state
            number, state, name = self.dice.choice(ways)
            path.append(number)
            self.result.actions[name] += 1
            broken = self.interpreter.broken(before, state)

    def _note_premises(self, before: Scalars, number: int, after: Scalars) -> None:
        met = self.interpreter.step_premises(before, number, after)
        for prop, said in zip(self.model.step_properties, met, strict=True):
            self.result.premises[prop.name] += said

    def _note(self, names: list[str], initial: Scalars, path: list[int]) -> bool:
        self.result.violations += [ViolatingRun(name, initial, tuple(path)) for name in names]
        return bool(names)
