"""From fair components to a run: a shortest stem, and a short loop that is fair by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from highwater.checker.engines.liveness.fairness import Bits, FairGroups
from highwater.checker.engines.liveness.graph import Flags, States, StepTable, Tree, nearest

_COMPONENTS = 8
_ENTRIES = 16
"""So many components, and states of each, are tried; the nearest ones."""


@dataclass(frozen=True)
class Loop:
    """Steps that come back to the state ``entry``; none: the run stays in it for ever."""

    entry: int
    steps: tuple[int, ...]


def loops(
    steps: StepTable,
    components: Sequence[States],
    tree: Tree,
    fairness: FairGroups,
    visits: Sequence[Flags] = (),
) -> Iterator[Loop]:
    """A loop from some of the states that are nearest to the start, through a state of each of ``visits``."""
    distances = [int(tree.distance[states].min()) for states in components]
    for number in np.argsort(distances, kind="stable")[:_COMPONENTS]:
        states = components[number]
        member = np.zeros(len(tree.distance), dtype=bool)
        member[states] = True
        for entry in states[np.argsort(tree.distance[states], kind="stable")][:_ENTRIES]:
            yield Loop(int(entry), _Walk(steps, member, fairness, int(entry), visits).loop())


class _Walk:
    """A walk in a fair component that goes on until what it has seen is fair, and comes back.

    It goes to the nearest state or step that one of the open groups waits for, again and again; each time one
    group less is open, and only strong ones can be added, each once. ``visits`` are what it has to pass through.
    """

    def __init__(
        self, steps: StepTable, member: Flags, fairness: FairGroups, entry: int, visits: Sequence[Flags] = ()
    ) -> None:
        self.steps, self.member, self.fairness, self.entry = steps, member, fairness, entry
        self.path: list[int] = []
        self.at = entry
        self.always = fairness.enabled[entry].copy()  # what was enabled in all of its states
        self.ever = self.always.copy()
        self.taken: Bits = np.zeros_like(self.always)
        self.missing = [visit for visit in visits if not visit[entry]]

    def loop(self) -> tuple[int, ...]:
        """The steps of the loop."""
        while True:
            weak, strong = self._open()
            if self.missing:
                self._go(nearest(self.steps, self.at, self._inside, lambda s: self.missing[0][s]))
            elif np.any(weak | strong):
                self._serve(weak, strong)
            elif self.at == self.entry and self.path:
                return tuple(self.path)
            elif self.at == self.entry:
                self._take_any()
            else:
                self._go(nearest(self.steps, self.at, self._inside, lambda s: s == self.entry))

    def _serve(self, weak: Bits, strong: Bits) -> None:
        """Go to where one of these groups is served, and take its step where that is what it takes."""
        self._go(nearest(self.steps, self.at, self._inside, lambda s: self._serves(s, weak, strong)))
        self._take(weak | strong)

    def _open(self) -> tuple[Bits, Bits]:
        """The groups that this walk, repeated for ever, would be unfair to: weak ones and strong ones."""
        return (
            self.always & self.fairness.weak & ~self.taken,
            self.ever & self.fairness.strong & ~self.taken,
        )

    def _inside(self, states: States) -> Flags:
        return self.member[states]

    def _serves(self, states: States, weak: Bits, strong: Bits) -> Flags:
        """Whether a weak group is disabled in states, or a step of an open group leads on from them."""
        found: Flags = np.any(~self.fairness.enabled[states] & weak, axis=1)
        for i, state in enumerate(states):
            found[i] = found[i] or len(self._steps_with(int(state), weak | strong)) > 0
        return found

    def _steps_inside(self, state: int) -> States:
        numbers = self.steps.of(np.array([state]))
        targets = self.steps.targets[numbers]
        inside: States = numbers[self.member[targets] & (targets != state)]
        return inside

    def _steps_with(self, state: int, groups: Bits) -> States:
        numbers = self._steps_inside(state)
        bits = self.fairness.of_step(numbers, np.full(len(numbers), state))
        return numbers[np.any(bits & groups, axis=1)]

    def _take(self, groups: Bits) -> None:
        """Take a step of one of the groups from here, if there is one."""
        weak, strong = self._open()
        chosen = self._steps_with(self.at, groups & (weak | strong))
        if len(chosen):
            self._go([int(chosen[0])])

    def _take_any(self) -> None:
        """The first step of a shortest way back to the entry."""
        ways = [
            [
                int(n),
                *nearest(self.steps, int(self.steps.targets[n]), self._inside, lambda s: s == self.entry),
            ]
            for n in self._steps_inside(self.at)
        ]
        self._go(min(ways, key=len))

    def _go(self, way: Sequence[int]) -> None:
        for step in way:
            self.taken |= self.fairness.of_step(np.array([step]), np.array([self.at]))[0]
            self.path.append(step)
            self.at = int(self.steps.targets[step])
            self.always &= self.fairness.enabled[self.at]
            self.ever |= self.fairness.enabled[self.at]
            self.missing = [visit for visit in self.missing if not visit[self.at]]
