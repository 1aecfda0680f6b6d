"""Random walks of a scenario that is too large to explore, as a graph of the states and steps that they visit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from highwater.checker.engines.native.simulate import random_walks
from highwater.checker.engines.state_graph import Explored, Layout
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Model


@dataclass(frozen=True)
class WalkedGraph(Explored):
    """The states and steps of random walks. It has no other steps."""

    walks: list[list[int]] = field(default_factory=list)
    """The numbers of the steps of each walk."""


def walked_graph(model: Model, walks: int, depth: int, seed: int) -> WalkedGraph:
    """The graph of random walks of up to ``depth`` steps from the first initial state."""
    interpreter, layout = interpreter_of(model), Layout(model.leaves)
    numbers, steps = {model.initial[0]: 0}, dict[tuple[int, int], int]()
    taken = []
    for instances in random_walks(model, walks, depth, seed):
        state, walk = model.initial[0], []
        for instance in instances:
            source, state = numbers[state], interpreter.step(state, instance).state or state
            steps[source, instance] = numbers.setdefault(state, len(numbers))
            walk.append((source, instance))
        taken.append(walk)
    ordered = {step: number for number, step in enumerate(sorted(steps))}
    sources = np.array([source for source, _ in ordered], dtype=np.int64)
    count, none = len(numbers), np.zeros(0, dtype=np.int64)
    nowhere = np.full(count, -1, dtype=np.int32)
    return WalkedGraph(
        model=model,
        states=np.array([layout.pack(state) for state in numbers], dtype=np.uint64),
        level_starts=np.array([0, count]),
        offsets=np.searchsorted(sources, np.arange(count + 1)),
        targets=np.array([steps[step] for step in ordered], dtype=np.uint32),
        instances=np.array([instance for _, instance in ordered], dtype=np.uint32),
        cut_offsets=np.zeros(count + 1, dtype=np.int64),
        cut_instances=none,
        parents=nowhere,
        parent_instances=nowhere,
        expanded=count,
        walks=[[ordered[step] for step in walk] for walk in taken],
    )
