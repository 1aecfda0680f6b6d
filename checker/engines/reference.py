"""The reference search: breadth first with the interpreter, whole states in memory, one thread.

It is slow and simple. Tests compare the native engine with it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from highwater.checker.base.problems import interruption
from highwater.checker.scenarios.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    ViolatingRun,
    missing_verdicts,
)
from highwater.model.language import Model
from highwater.model.language.interpreter import Interpreter, PossibleStep

if TYPE_CHECKING:
    from highwater.checker.engines.state_graph import Explored


class _BreadthFirst:
    """An exploration, level by level. States are numbered in the order in which they are found."""

    def __init__(self, model: Model, options: SearchOptions, progress: ProgressCallback | None) -> None:
        self.options, self.progress = options, progress
        self.interpreter = Interpreter(model)
        self.states = {state: i for i, state in enumerate(model.initial)}
        self.found = list(self.states)
        self.parents, self.parent_instances = [-1] * len(self.found), [-1] * len(self.found)
        self.level_starts = [0]
        self.generated = len(self.found)
        self.stopped_by: str | None = None
        self.interrupted = threading.Event()
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds spent on the search."""
        return time.perf_counter() - self.started

    @property
    def depth(self) -> int:
        """The number of levels begun."""
        return len(self.level_starts) - 1

    def sources(self) -> Iterator[int]:
        """Yield the states to expand, until all are expanded, or until a limit or an interruption."""
        for source in itertools.count():
            if source == self.level_starts[-1]:
                if source == len(self.found):
                    break
                self.level_starts.append(len(self.found))
            if self.progress and source % 256 == 0:
                queue = len(self.found) - source
                self.progress(
                    Progress(self.depth, len(self.found), self.generated, queue, 0, 0, self.seconds)
                )
            self._check_limits()
            if self.stopped_by:
                break
            yield source

    def _check_limits(self) -> None:
        states, seconds = self.options.limit_states, self.options.limit_seconds
        if self.interrupted.is_set():
            self.stopped_by = "interrupted"
        elif states is not None and len(self.found) > states:
            self.stopped_by = "states"
        elif seconds is not None and self.seconds > seconds:
            self.stopped_by = "seconds"

    def steps(self, source: int) -> Iterator[tuple[PossibleStep, int, int]]:
        """Yield each step of a state, with the numbers of its instance and of its target (-1: pruned at a bound)."""
        state = self.found[source]
        for number in self.interpreter.enabled(state):
            step, target = self.interpreter.step(state, number), -1
            if step.state is not None:
                self.generated += 1
                target = self.states.setdefault(step.state, len(self.found))
                if target == len(self.found):
                    self.found.append(step.state)
                    self.parents.append(source)
                    self.parent_instances.append(number)
            yield step, number, target

    def violation(self, name: str, state: int, *last: int) -> ViolatingRun:
        """The run to a state, extended by steps of the instances ``last``."""
        path, at = list(last), state
        while self.parents[at] >= 0:
            path.append(self.parent_instances[at])
            at = self.parents[at]
        return ViolatingRun(name, self.found[at], tuple(reversed(path)))


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively. A limit or the first Ctrl-C ends the search with the result so far."""
    started = time.perf_counter()
    names = model.safety + [DEADLOCK] * options.deadlock
    run = _BreadthFirst(model, options, progress)
    result = SearchResult(preparation_seconds=time.perf_counter() - started)
    premises, actions, cut = Counter[str](), Counter[str](), Counter[str]()
    found: dict[str, int] = {}

    def note(name: str, state: int, *last: int) -> None:
        if name in names and name not in found:
            found[name] = state
            result.violations.append(run.violation(name, state, *last))

    def judge(state: int) -> None:
        for name in run.interpreter.violated(run.found[state]):
            note(name, state)
        met = run.interpreter.premises(run.found[state])
        premises.update({p.name: m for p, m in zip(model.properties, met, strict=True)})

    with interruption(run.interrupted.set):
        judged = len(run.found)
        for state in range(judged):
            judge(state)
        for source in run.sources():
            if source == run.level_starts[-2] and not missing_verdicts(names, found, options):
                run.stopped_by = "violation"
                break
            before, enabled = run.found[source], False
            for step, number, target in run.steps(source):
                enabled = True
                if step.state is None:
                    cut[step.cut or ""] += 1
                    continue
                actions[step.instance.action.name] += 1
                for name in run.interpreter.broken(before, step.state):
                    note(name, source, number)
                met = run.interpreter.step_premises(before, number, step.state)
                premises.update({p.name: m for p, m in zip(model.step_properties, met, strict=True)})
                if target == judged:
                    judge(target)
                    judged += 1
            if options.deadlock and not enabled:
                note(DEADLOCK, source)
    result.actions = {action.name: actions[action.name] for action in model.actions}
    result.cut = {bound: cut[bound] for bound in model.bounds}
    result.premises = {name: premises[name] for name in model.safety}
    result.stopped_by, result.depth, result.seconds = run.stopped_by, run.depth, run.seconds
    result.distinct_states, result.generated_states = len(run.found), run.generated
    return result


def explore(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> Explored:
    """Build the explored graph of a model. A limit or the first Ctrl-C ends the search with the graph so far."""
    import numpy as np  # imported here, because search() needs neither module

    from highwater.checker.engines.state_graph import Explored, Layout

    run = _BreadthFirst(model, options, progress)
    targets: list[int] = []
    instances: list[int] = []
    cuts: list[int] = []
    offsets, cut_offsets = [0], [0]
    with interruption(run.interrupted.set):
        for source in run.sources():
            for _, number, target in run.steps(source):
                if target < 0:
                    cuts.append(number)
                else:
                    targets.append(target)
                    instances.append(number)
            offsets.append(len(targets))
            cut_offsets.append(len(cuts))
    expanded = len(offsets) - 1
    if run.level_starts[-1] != len(run.found):
        run.level_starts.append(len(run.found))
    missing = len(run.found) - expanded
    layout = Layout(model.leaves)
    return Explored(
        model=model,
        states=np.array([layout.pack(state) for state in run.found], dtype=np.uint64),
        level_starts=np.array(run.level_starts, dtype=np.int64),
        offsets=np.array(offsets + [offsets[-1]] * missing, dtype=np.int64),
        targets=np.array(targets, dtype=np.uint32),
        instances=np.array(instances, dtype=np.uint32),
        cut_offsets=np.array(cut_offsets + [cut_offsets[-1]] * missing, dtype=np.int64),
        cut_instances=np.array(cuts, dtype=np.uint32),
        parents=np.array(run.parents, dtype=np.int32),
        parent_instances=np.array(run.parent_instances, dtype=np.int32),
        expanded=expanded,
        stopped_by=run.stopped_by,
    )
