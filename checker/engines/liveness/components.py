"""Fair components: sets of states that reach each other, in which a run can stay for ever and be fair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from highwater.checker.engines.liveness.fairness import Bits, FairGroups
from highwater.checker.engines.liveness.graph import Flags, States, StepTable


def fair_components(steps: StepTable, open_: Flags, fairness: FairGroups) -> list[States]:
    """The largest fair components among the open states, each of two states at least.

    A component is fair if a run that takes all of its steps again and again is: each weakly fair group is disabled in
    one of its states or taken in it, each strongly fair one is disabled in all of them or taken. Where only strong
    fairness fails, what is left without the states in which the group is enabled may still be fair (the emptiness
    test for Streett automata, Emerson and Lei 1987).
    """
    found: list[States] = []
    states = np.flatnonzero(open_)
    while len(states):
        component = _Components(steps, states, len(open_))
        if not len(component.states):
            break
        members, taken = component.labels, component.union(fairness)
        enabled = fairness.enabled[component.states]
        always = _by_label(np.bitwise_and, enabled, members, component.count)
        ever = _by_label(np.bitwise_or, enabled, members, component.count)
        starves = np.any(always & fairness.weak & ~taken, axis=1)
        missed = ever & fairness.strong & ~taken
        unfair = np.any(missed, axis=1)
        fair = ~starves & ~unfair
        kept = fair[members]
        order = np.argsort(members[kept], kind="stable")
        parts, firsts = np.unique(members[kept][order], return_index=True)
        if len(parts):
            found += np.split(component.states[kept][order], firsts[1:])
        again = (~starves & unfair)[members] & ~np.any(enabled & missed[members], axis=1)
        states = component.states[again]
    return found


class _Components:
    """The strongly connected components of some states that have more than one, numbered from 0."""

    def __init__(self, steps: StepTable, states: States, total: int) -> None:
        self.states, self.labels, self.count = states[:0], states[:0], 0
        number = np.full(total, -1, dtype=np.int32)
        number[states] = np.arange(len(states), dtype=np.int32)
        steps_of = steps.of(states)
        sources = np.repeat(number[states], steps.offsets[states + 1] - steps.offsets[states])
        targets = number[steps.targets[steps_of]]
        inside = (targets >= 0) & (targets != sources)
        steps_of, sources, targets = steps_of[inside], sources[inside], targets[inside]
        shape = (len(states), len(states))
        offsets = np.searchsorted(sources, np.arange(len(states) + 1))
        matrix = csr_array((np.ones(len(targets), dtype=np.float64), targets, offsets), shape=shape)
        matrix.sum_duplicates()  # with two entries in one place scipy's search does not come to an end
        _, labels = connected_components(matrix, directed=True, connection="strong")
        large = np.bincount(labels, minlength=1) > 1
        self.count = int(large.sum())
        renumbered = np.where(large, np.cumsum(large) - 1, -1)[labels]
        self.states, self.labels = states[renumbered >= 0], renumbered[renumbered >= 0]
        inner = (renumbered[sources] >= 0) & (renumbered[sources] == renumbered[targets])
        self._steps, self._sources = steps_of[inner], states[sources[inner]]
        self._owners = renumbered[sources[inner]]

    def union(self, fairness: FairGroups) -> Bits:
        """The groups that are taken within each component."""
        bits = fairness.of_step(self._steps, self._sources)
        return _by_label(np.bitwise_or, bits, self._owners, self.count)


def _by_label(function: np.ufunc, bits: Bits, labels: NDArray[np.int64], count: int) -> Bits:
    """Rows of bits joined by label; each label has one at least."""
    order = np.argsort(labels, kind="stable")
    firsts = np.searchsorted(labels[order], np.arange(count))
    joined: Bits = function.reduceat(bits[order], firsts, axis=0)
    return joined
