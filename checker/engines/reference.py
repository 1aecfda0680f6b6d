"""The reference search: breadth first with the interpreter, whole states in memory, one thread.

It is slow and simple. Tests compare the native engine with it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
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
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model

if TYPE_CHECKING:
    from highwater.checker.engines.state_graph import Explored


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively. A limit or the first Ctrl-C ends the search with the result so far."""
    started = time.perf_counter()
    interpreter = Interpreter(model)
    names = model.safety + [DEADLOCK] * options.deadlock
    result = SearchResult(
        cut=dict.fromkeys(model.bounds, 0),
        actions=dict.fromkeys((a.name for a in model.actions), 0),
        premises=dict.fromkeys(model.safety, 0),
        preparation_seconds=time.perf_counter() - started,
    )
    parents: dict[Scalars, tuple[Scalars, int] | None] = dict.fromkeys(model.initial)
    numbers = {id(instance): i for i, instance in enumerate(model.instances)}
    level = list(parents)
    result.generated_states = len(level)
    found: dict[str, object] = {}
    actions: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    started = time.perf_counter()

    def note(name: str, state: Scalars, *last: int) -> None:
        if name in names and name not in found:
            found[name] = state
            result.violations.append(_violation(name, state, parents, last))

    def judge(state: Scalars) -> None:
        for name in interpreter.violated(state):
            note(name, state)
        for prop, met in zip(model.properties, interpreter.premises(state), strict=True):
            result.premises[prop.name] += met

    def judge_step(state: Scalars, number: int, after: Scalars) -> None:
        for name in interpreter.broken(state, after):
            note(name, state, number)
        for prop, met in zip(
            model.step_properties, interpreter.step_premises(state, number, after), strict=True
        ):
            result.premises[prop.name] += met

    interrupted = threading.Event()
    with interruption(interrupted.set):
        for state in level:
            judge(state)
        while level:
            result.depth += 1
            if not missing_verdicts(names, found, options):
                result.stopped_by = "violation"
                break
            following: list[Scalars] = []
            for expanded, state in enumerate(level):
                enabled = False
                for step in interpreter.steps(state):
                    enabled = True
                    if step.state is None:
                        cut[step.cut or ""] += 1
                        continue
                    result.generated_states += 1
                    actions[step.instance.action.name] += 1
                    judge_step(state, numbers[id(step.instance)], step.state)
                    if step.state not in parents:
                        parents[step.state] = (state, numbers[id(step.instance)])
                        following.append(step.state)
                        judge(step.state)
                if options.deadlock and not enabled:
                    note(DEADLOCK, state)
                if expanded % 256 == 0:
                    seconds = time.perf_counter() - started
                    if progress:
                        queue = len(level) - expanded + len(following)
                        progress(
                            Progress(
                                result.depth, len(parents), result.generated_states, queue, 0, 0, seconds
                            )
                        )
                    if options.limit_seconds is not None and seconds > options.limit_seconds:
                        result.stopped_by = "seconds"
                    if options.limit_states is not None and len(parents) > options.limit_states:
                        result.stopped_by = "states"
                if interrupted.is_set():
                    result.stopped_by = "interrupted"
                if result.stopped_by:
                    break
            if result.stopped_by:
                break
            level = following
    result.actions.update(actions)
    result.cut.update(cut)
    result.distinct_states = len(parents)
    result.seconds = time.perf_counter() - started
    return result


def _violation(
    name: str,
    state: Scalars,
    parents: dict[Scalars, tuple[Scalars, int] | None],
    last: tuple[int, ...],
) -> ViolatingRun:
    path = list(last)
    while (parent := parents[state]) is not None:
        state, number = parent
        path.append(number)
    return ViolatingRun(name, state, tuple(reversed(path)))


def explore(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> Explored:
    """Build the explored graph of a model. A limit or the first Ctrl-C ends the search with the graph so far."""
    import numpy as np  # imported here, because search() needs neither module

    from highwater.checker.engines.state_graph import Explored, Layout

    interpreter = Interpreter(model)
    numbers = {id(instance): i for i, instance in enumerate(model.instances)}
    states = {state: i for i, state in enumerate(model.initial)}
    found = list(states)
    parents, parent_instances = [-1] * len(found), [-1] * len(found)
    targets: list[int] = []
    instances: list[int] = []
    cuts: list[int] = []
    offsets, cut_offsets, level_starts = [0], [0], [0, len(found)]
    started, stopped_by = time.perf_counter(), None
    interrupted = threading.Event()
    with interruption(interrupted.set):
        for source in itertools.count():
            if source == level_starts[-1]:
                if len(found) == source:
                    break
                level_starts.append(len(found))
            if source % 256 == 0:
                seconds = time.perf_counter() - started
                if progress:
                    depth, left = len(level_starts) - 1, len(found) - source
                    progress(Progress(depth, len(found), len(targets), left, 0, 0, seconds))
                if options.limit_seconds is not None and seconds > options.limit_seconds:
                    stopped_by = "seconds"
                if options.limit_states is not None and len(found) > options.limit_states:
                    stopped_by = "states"
            if interrupted.is_set():
                stopped_by = "interrupted"
            if stopped_by:
                break
            for step in interpreter.steps(found[source]):
                number = numbers[id(step.instance)]
                if step.state is None:
                    cuts.append(number)
                    continue
                if step.state not in states:
                    states[step.state] = len(found)
                    found.append(step.state)
                    parents.append(source)
                    parent_instances.append(number)
                targets.append(states[step.state])
                instances.append(number)
            offsets.append(len(targets))
            cut_offsets.append(len(cuts))
    expanded = len(offsets) - 1
    if level_starts[-1] != len(found):
        level_starts.append(len(found))
    missing = len(found) - expanded
    layout = Layout(model.leaves)
    return Explored(
        model=model,
        states=np.array([layout.pack(state) for state in found], dtype=np.uint64),
        level_starts=np.array(level_starts, dtype=np.int64),
        offsets=np.array(offsets + [offsets[-1]] * missing, dtype=np.int64),
        targets=np.array(targets, dtype=np.uint32),
        instances=np.array(instances, dtype=np.uint32),
        cut_offsets=np.array(cut_offsets + [cut_offsets[-1]] * missing, dtype=np.int64),
        cut_instances=np.array(cuts, dtype=np.uint32),
        parents=np.array(parents, dtype=np.int32),
        parent_instances=np.array(parent_instances, dtype=np.int32),
        expanded=expanded,
        stopped_by=stopped_by,
    )
