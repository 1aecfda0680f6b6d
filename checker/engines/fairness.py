"""Graph algorithms for liveness: shortest paths, fair components, and fair groups as bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from highwater.model.language.liveness import FairGroup

States = NDArray[np.int64]
"""State numbers."""
Flags = NDArray[np.bool_]
"""One flag for each state of a graph."""


@dataclass(frozen=True)
class StepTable:
    """The steps of an explored graph, sorted by source state: state ``i`` has steps ``offsets[i]:offsets[i + 1]``."""

    offsets: NDArray[np.int64]
    targets: NDArray[Any]

    def of(self, states: States) -> NDArray[np.int64]:
        """The numbers of all steps that start in these states, in the order of the states."""
        starts, counts = self.offsets[states], self.offsets[states + 1] - self.offsets[states]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        numbers: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - counts), counts)
        return numbers

    def source(self, step: int) -> int:
        """The number of the state from which a step starts."""
        return int(np.searchsorted(self.offsets, step, side="right")) - 1


@dataclass(frozen=True)
class Tree:
    """Shortest paths to states, from a set of start states with given distances.

    For each state, ``distance`` is the start state's distance plus the number of steps (-1: not reached). ``via`` is
    the number of the path's last step (-1: none).
    """

    steps: StepTable
    distance: NDArray[np.int32]
    via: NDArray[np.int64]

    def way(self, state: int) -> tuple[int, list[int]]:
        """The path to a state: the start state, and the numbers of the steps."""
        found: list[int] = []
        while (step := int(self.via[state])) >= 0:
            found.append(step)
            state = self.steps.source(step)
        return state, found[::-1]


def spread(steps: StepTable, within: Flags, start_distance: NDArray[np.int32]) -> Tree:
    """Shortest paths through the states flagged in ``within``, from those of them with a start distance.

    A start distance of -1 means none. The distance of a state in the result is the start distance of the path's first
    state, plus the number of steps.
    """
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
        reached = targets[via[targets] == numbers]  # each target once, by the step stored in via
        level += 1
        distance[reached] = level
    return Tree(steps, distance, via)


def nearest(
    steps: StepTable, start: int, inside: Callable[[States], Flags], wanted: Callable[[States], Flags]
) -> list[int]:
    """The step numbers of a shortest path from ``start`` to a wanted state.

    ``inside`` flags the states through which the path may lead, and ``wanted`` flags the states at which it may
    end. The path is empty if ``start`` itself is wanted.
    """
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


def fair_components(steps: StepTable, open_: Flags, fairness: FairGroups) -> list[States]:
    """The maximal fair components among the states flagged in ``open_``, each with at least two states.

    A component is fair if a run that takes all its steps infinitely often is fair:

    - Each weakly fair group is disabled in some state of the component, or has a step in the component.
    - Each strongly fair group is disabled in every state of the component, or has a step in the component.

    If only strong fairness fails, the search removes the states in which the failing group is enabled, and examines
    the rest. This is the emptiness test for Streett automata (Emerson and Lei 1987).
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
    """The strongly connected components with more than one state, among some states of a graph.

    The attribute ``states`` has the states of these components, and ``labels`` the number of each state's
    component.
    """

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
        matrix.sum_duplicates()  # with two entries for one pair of states, scipy's search does not terminate
        _, labels = connected_components(matrix, directed=True, connection="strong")
        large = np.bincount(labels, minlength=1) > 1
        self.count = int(large.sum())
        renumbered = np.where(large, np.cumsum(large) - 1, -1)[labels]
        self.states, self.labels = states[renumbered >= 0], renumbered[renumbered >= 0]
        inner = (renumbered[sources] >= 0) & (renumbered[sources] == renumbered[targets])
        self._steps, self._sources = steps_of[inner], states[sources[inner]]
        self._owners = renumbered[sources[inner]]

    def union(self, fairness: FairGroups) -> Bits:
        """For each component, the bits of the fair groups that have a step within the component."""
        bits = fairness.of_step(self._steps, self._sources)
        return _by_label(np.bitwise_or, bits, self._owners, self.count)


def _by_label(function: np.ufunc, bits: Bits, labels: NDArray[np.int64], count: int) -> Bits:
    """For each label, the rows of ``bits`` with this label, combined by ``function``. Each label must have a row."""
    order = np.argsort(labels, kind="stable")
    firsts = np.searchsorted(labels[order], np.arange(count))
    joined: Bits = function.reduceat(bits[order], firsts, axis=0)
    return joined


Bits = NDArray[np.uint64]
"""Shape (…, words): bit ``g % 64`` of word ``g // 64`` is the flag of fair group ``g``."""

_CHUNK = 1 << 22
_NO_CONDITIONS: Mapping[int, Flags] = MappingProxyType({})


class FairGroups:
    """The fair groups of a liveness property, as bits for the steps and states of a graph.

    ``of_step`` returns the groups of each step. A step that changes nothing belongs to no group. ``enabled`` has, for
    each state, the groups with an enabled step; a step pruned at a bound counts as enabled. For a group with a
    condition, ``conditions`` flags the states whose steps count; the key is the group's number.
    """

    def __init__(
        self,
        groups: Sequence[FairGroup],
        offsets: NDArray[np.int64],
        targets: NDArray[Any],
        instances: NDArray[Any],
        cut_offsets: NDArray[np.int64],
        cut_instances: NDArray[Any],
        conditions: Mapping[int, Flags] = _NO_CONDITIONS,
    ) -> None:
        self.groups = groups
        self.words = max(1, -(-len(groups) // 64))
        highest = max((max(g.instances, default=0) for g in groups), default=0)
        for numbers in (instances, cut_instances):
            highest = max(highest, int(numbers.max(initial=0)))
        self._table: Bits = np.zeros((highest + 1, self.words), dtype=np.uint64)
        self.strong: Bits = np.zeros(self.words, dtype=np.uint64)
        for number, group in enumerate(groups):
            bit = np.uint64(1 << number % 64)
            self._table[list(group.instances), number // 64] |= bit
            if group.strong:
                self.strong[number // 64] |= bit
        everything = [(1 << min(64, max(0, len(groups) - 64 * w))) - 1 for w in range(self.words)]
        self.weak: Bits = np.array(everything, dtype=np.uint64) & ~self.strong
        self._offsets, self._targets, self._instances = offsets, targets, instances
        self._cut_offsets, self._cut_instances = cut_offsets, cut_instances
        # For each state, the groups for which the state's steps count; None: all groups.
        self._counts: Bits | None = None
        if conditions:
            self._counts = np.full((len(offsets) - 1, self.words), ~np.uint64(0), dtype=np.uint64)
            for number, holds in conditions.items():
                self._counts[~holds, number // 64] &= ~np.uint64(1 << number % 64)
        self.enabled = self._enabled()

    def of_step(self, numbers: NDArray[np.int64], sources: NDArray[Any]) -> Bits:
        """For each step, the bits of its groups. ``sources`` are the steps' source states."""
        bits: Bits = self._table[self._instances[numbers]]
        bits[self._targets[numbers] == sources] = 0
        if self._counts is not None:
            bits &= self._counts[sources]
        return bits

    def _enabled(self) -> Bits:
        count = len(self._offsets) - 1
        found: Bits = np.zeros((count, self.words), dtype=np.uint64)
        if not self.groups:
            return found
        for start in range(0, count, _CHUNK):
            end = min(start + _CHUNK, count)
            steps = np.arange(self._offsets[start], self._offsets[end])
            sources = np.repeat(np.arange(start, end), np.diff(self._offsets[start : end + 1]))
            _join(found[start:end], self._offsets[start : end + 1], self.of_step(steps, sources))
            cuts = self._table[self._cut_instances[self._cut_offsets[start] : self._cut_offsets[end]]]
            _join(found[start:end], self._cut_offsets[start : end + 1], cuts)
        if self._counts is not None:
            found &= self._counts
        return found


def _join(into: Bits, offsets: NDArray[np.int64], bits: Bits) -> None:
    """Combine the bits of each state's steps by OR, and add the result to the state's row of ``into``."""
    some = np.flatnonzero(np.diff(offsets))  # reduceat needs non-empty parts
    if len(some):
        into[some] |= np.bitwise_or.reduceat(bits, offsets[some] - offsets[0], axis=0)
