"""Random walks of a scenario that is too large to explore, as a graph of the states and steps that they visit."""

from __future__ import annotations

import numpy as np

from highwater.checker.engines.native.simulate import random_walks
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Model


class WalkedGraph:
    """The graph of random walks of up to ``depth`` steps from the first initial state. It has no other steps.

    Its attributes are those of ``Explored`` with the same names. ``walks`` has the numbers of the steps of each walk.
    """

    stopped_by = None

    def __init__(self, model: Model, walks: int, depth: int, seed: int) -> None:
        numbers, targets = {model.initial[0]: 0}, dict[tuple[int, int], int]()
        taken = []
        for instances in random_walks(model, walks, depth, seed):
            state, walk = model.initial[0], []
            for instance in instances:
                source, state = numbers[state], interpreter_of(model).step(state, instance).state or state
                targets[source, instance] = numbers.setdefault(state, len(numbers))
                walk.append((source, instance))
            taken.append(walk)
        steps = {step: number for number, step in enumerate(sorted(targets))}
        self.walks = [[steps[step] for step in walk] for walk in taken]
        self.sources, self.instances = np.array(list(steps), dtype=np.int64).reshape(-1, 2).T
        self.targets = np.array([targets[step] for step in steps], dtype=np.int64)
        self.expanded = len(numbers)
        self.offsets = np.searchsorted(self.sources, np.arange(self.expanded + 1))
        self.scalars = list(numbers).__getitem__
