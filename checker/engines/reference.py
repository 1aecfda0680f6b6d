"""The reference search: breadth first with the interpreter, whole states in memory, one thread.

It is slow and simple, and what the native engine is compared with.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from highwater.checker.asking.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    ViolatingRun,
    missing_verdicts,
)
from highwater.checker.base.interruption import interruption
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model, Scalars


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively; the first Ctrl-C ends it with what was found."""
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
