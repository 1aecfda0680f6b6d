"""The part of an explored graph in which a liveness property is open, and breadth-first ways through graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.int64]
"""Numbers of states."""
Flags = NDArray[np.bool_]
"""One for each state."""


@dataclass(frozen=True)
class StepTable:
    """Steps state by state, as an explored graph has them: those of ``i`` are ``offsets[i]:offsets[i + 1]``."""

    offsets: NDArray[np.int64]
    targets: NDArray[Any]

    def of(self, states: States) -> NDArray[np.int64]:
        """The numbers of all steps from these states, in their order."""
        starts, counts = self.offsets[states], self.offsets[states + 1] - self.offsets[states]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        numbers: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - counts), counts)
        return numbers

    def source(self, step: int) -> int:
        """The state that a step starts from."""
        return int(np.searchsorted(self.offsets, step, side="right")) - 1


@dataclass(frozen=True)
class Tree:
    """Shortest ways from some states: the distance of each state (-1: not reached) and the step that came to it."""

    steps: StepTable
    distance: NDArray[np.int32]
    via: NDArray[np.int64]

    def way(self, state: int) -> tuple[int, list[int]]:
        """Where the way to a state begins, and its steps."""
        found: list[int] = []
        while (step := int(self.via[state])) >= 0:
            found.append(step)
            state = self.steps.source(step)
        return state, found[::-1]


def spread(steps: StepTable, within: Flags, start_distance: NDArray[np.int32]) -> Tree:
    """All states that can be reached inside ``within`` from those whose ``start_distance`` is not negative."""
    distance = np.full(len(within), -1, dtype=np.int32)
    via = np.full(len(within), -1, dtype=np.int64)
    starts = np.flatnonzero(within & (start_distance >= 0))
    starts = starts[np.argsort(start_distance[starts], kind="stable")]
    edges = np.searchsorted(start_distance[starts], np.arange(start_distance.max(initial=0) + 2))
    level, reached = 0, starts[:0]
    while len(reached) or level + 1 < len(edges):
        if level + 1 < len(edges):
            fresh = starts[edges[level] : edges[level + 1]]
            fresh = fresh[distance[fresh] < 0]
            distance[fresh] = level
            reached = np.concatenate([reached, fresh])
        numbers = steps.of(reached)
        targets = steps.targets[numbers].astype(np.int64)
        new = within[targets] & (distance[targets] < 0)
        numbers, targets = numbers[new], targets[new]
        via[targets] = numbers
        reached = targets[via[targets] == numbers]  # each once, by the step that was noted for it
        level += 1
        distance[reached] = level
    return Tree(steps, distance, via)


def nearest(
    steps: StepTable, start: int, inside: Callable[[States], Flags], wanted: Callable[[States], Flags]
) -> list[int]:
    """The steps of a shortest way from a state to a wanted one, through states inside; empty if it is one itself."""
    if wanted(np.array([start]))[0]:
        return []
    came: dict[int, int] = {start: -1}
    reached = np.array([start])
    while len(reached):
        numbers = steps.of(reached)
        targets = steps.targets[numbers].astype(np.int64)
        keep = inside(targets)
        fresh = []
        for number, target in zip(numbers[keep].tolist(), targets[keep].tolist(), strict=True):
            if target not in came:
                came[target] = number
                fresh.append(target)
        reached = np.array(fresh, dtype=np.int64)
        hits = reached[wanted(reached)] if len(reached) else reached
        if len(hits):
            state, way = int(hits[0]), []
            while (number := came[state]) >= 0:
                way.append(number)
                state = steps.source(number)
            return way[::-1]
    raise AssertionError("a component's states reach each other")
