"""The explored graph by the interpreter: slow and simple, and what the native engine's is compared with."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np

from highwater.checker.asking.search import Progress, ProgressCallback, SearchOptions
from highwater.checker.base.interruption import interruption
from highwater.checker.engines.layout import Layout
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model


def explore(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> Explored:
    """All states of a model and the steps between them; a limit or the first Ctrl-C ends it with what was found."""
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
