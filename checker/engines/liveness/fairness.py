"""Fairness on an explored graph: which assumptions a state's steps are about, as bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.liveness.graph import Flags
from highwater.model.language.liveness import FairGroup

Bits = NDArray[np.uint64]
"""(…, words): bit ``g % 64`` of word ``g // 64`` is about group ``g``."""

_CHUNK = 1 << 22
_NO_CONDITIONS: Mapping[int, Flags] = MappingProxyType({})


class FairGroups:
    """The groups of a property over the steps of a graph.

    ``of_step`` gives the groups that steps belong to, none for a step that changes nothing. ``enabled`` has the
    groups that can be taken in each state, steps that are cut at a bound included: beyond it they could be. Groups
    with a condition have flags in ``conditions``, by their numbers: the states from which their steps count.
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
        self._counts: Bits | None = None  # the groups whose steps from a state count; None: all of them
        if conditions:
            self._counts = np.full((len(offsets) - 1, self.words), ~np.uint64(0), dtype=np.uint64)
            for number, holds in conditions.items():
                self._counts[~holds, number // 64] &= ~np.uint64(1 << number % 64)
        self.enabled = self._enabled()

    def of_step(self, numbers: NDArray[np.int64], sources: NDArray[Any]) -> Bits:
        """The groups of steps, given with the states that they start from."""
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
    """Or the bits of each state's steps into the state's."""
    some = np.flatnonzero(np.diff(offsets))  # reduceat has no word for an empty part
    if len(some):
        into[some] |= np.bitwise_or.reduceat(bits, offsets[some] - offsets[0], axis=0)
