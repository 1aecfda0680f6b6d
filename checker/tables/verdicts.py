"""Which properties of steps are violated by which steps, for the table of transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.layout import Layout, Words
from highwater.checker.engines.native.evaluation import Evaluation
from highwater.model.language import graph
from highwater.model.language.model import Model

Numbers = NDArray[Any]


class StepVerdicts:
    """The verdicts on steps that are given by the packed state before and the instance: with symmetry too."""

    def __init__(self, model: Model, layout: Layout) -> None:
        own = [
            (number, judged)
            for number, of_instance in enumerate(model.judged)
            for judged in of_instance
            if judged.node is not graph.TRUE
        ]
        self._asked = [(number, np.uint64(1 << judged.number)) for number, judged in own]
        self._holds = Evaluation(layout, [judged.node for _, judged in own]) if own else None

    def __call__(self, states: Words, sources: Numbers, instances: Numbers) -> Words:
        """For each step a bit for each property that it violates.

        A step is from the state with the index in ``sources``, by the instance of this number in the model.
        """
        broken: Words = np.zeros(len(sources), dtype=np.uint64)
        if self._holds is None or not len(sources):
            return broken
        order = np.argsort(instances, kind="stable")
        starts = np.searchsorted(instances[order], [n for n, _ in self._asked])
        ends = np.searchsorted(instances[order], [n for n, _ in self._asked], side="right")
        for (_, bit), holds, start, end in zip(self._asked, self._holds(states), starts, ends, strict=True):
            own = order[start:end]
            broken[own[~holds[sources[own]]]] |= bit
        return broken
