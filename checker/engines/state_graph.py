"""Packed states (scalars in 64-bit words), and the explored graph: packed states and their steps."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.scenarios.search import EngineError
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.types import Leaf

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Slot:
    """The place of a scalar in a packed state: ``bits`` bits from bit ``shift`` of word ``word``.

    The stored number is the scalar's value minus ``low``.
    """

    word: int
    shift: int
    bits: int
    low: int

    @property
    def mask(self) -> int:
        """The bits of the word that the scalar occupies."""
        return ((1 << self.bits) - 1) << self.shift


class Layout:
    """The slot of each scalar in a packed state: in the first word with enough room, never in two words."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        used: list[int] = []
        self.slots: list[Slot] = []
        for leaf in leaves:
            if leaf.bits > 62:
                raise EngineError(
                    f"{leaf.path} needs {leaf.bits} bits; the native engine packs at most 62 in one field"
                )
            word = next((w for w, bits in enumerate(used) if bits + leaf.bits <= 64), len(used))
            if word == len(used):
                used.append(0)
            self.slots.append(Slot(word, used[word], leaf.bits, leaf.low))
            used[word] += leaf.bits
        self.words = max(1, len(used))
        self.bits = sum(used)

    def twice(self) -> Layout:
        """The layout of a step: the words of the source state, then the words of the target state."""
        both = copy(self)
        both.slots = self.slots + [replace(slot, word=slot.word + self.words) for slot in self.slots]
        both.words, both.bits = 2 * self.words, 2 * self.bits
        return both

    def pack(self, state: Sequence[int]) -> Words:
        """The packed words of a state."""
        words = [0] * self.words
        for slot, value in zip(self.slots, state, strict=True):
            words[slot.word] |= (value - slot.low) << slot.shift
        return np.array(words, dtype=np.uint64)

    def unpack(self, words: Words) -> Scalars:
        """The scalars of a packed state."""
        plain = [int(w) for w in words]
        return tuple((plain[s.word] >> s.shift & ((1 << s.bits) - 1)) + s.low for s in self.slots)


# The explored graph: all states and all steps that a search found, as arrays.


@dataclass(frozen=True)
class Explored:
    """The explored graph: all states of a search and all steps between the states.

    States are numbered level by level, from the initial states on. The order within a level depends on the engine.
    Steps are sorted by source state: the steps of state ``i`` are ``offsets[i]:offsets[i + 1]`` of ``targets`` and
    ``instances``. Steps pruned at a bound have no target, and have arrays of their own.

    If the search ended early, only the states before ``expanded`` have steps, and all their steps are included. With
    symmetry, a state represents all its renamings, and a step leads to the representative of its target.
    """

    model: Model
    states: Words
    """Shape (states, words): the packed states, see ``Layout``."""
    level_starts: NDArray[np.int64]
    """The number of the first state of each level, and at the end the number of all states."""
    offsets: NDArray[np.int64]
    """Shape (states + 1): the number of each state's first step, and at the end the number of all steps."""
    targets: NDArray[np.uint32]
    """The number of each step's target state."""
    instances: NDArray[Any]
    """The number in ``model.instances`` of each step's instance (uint16 or uint32)."""
    cut_offsets: NDArray[np.int64]
    """Shape (states + 1): like ``offsets``, for the pruned steps."""
    cut_instances: NDArray[Any]
    """The number in ``model.instances`` of each pruned step's instance."""
    parents: NDArray[np.int32]
    """The number of each state's predecessor on a shortest run to the state; -1 for an initial state."""
    parent_instances: NDArray[np.int32]
    """The number of the instance that leads from the predecessor to each state; -1 for an initial state."""
    expanded: int
    """The number of states whose steps are included: all states if the search finished."""
    stopped_by: str | None = None
    """The reason why the search stopped early, as in SearchResult; None if the search finished."""
    symmetry: bool = False
    """True if a state represents all its renamings."""

    @property
    def complete(self) -> bool:
        """True if the graph has all reachable states and all steps."""
        return self.stopped_by is None

    @cached_property
    def layout(self) -> Layout:
        """The slots of the scalars in ``states``."""
        return Layout(self.model.leaves)

    @cached_property
    def sources(self) -> NDArray[np.uint32]:
        """The number of each step's source state, parallel to ``targets``.

        It is computed on first use and takes 4 bytes per step.
        """
        return np.repeat(np.arange(len(self.states), dtype=np.uint32), np.diff(self.offsets))

    def depths(self, start: int = 0, end: int | None = None) -> NDArray[np.int64]:
        """The level of each state from ``start`` to ``end`` (exclusive). Initial states are on level 1."""
        numbers = np.arange(start, len(self.states) if end is None else end)
        return np.searchsorted(self.level_starts, numbers, side="right")

    def scalars(self, state: int) -> Scalars:
        """The scalars of the state with this number."""
        return self.layout.unpack(self.states[state])

    def path(self, state: int) -> tuple[int, tuple[int, ...]]:
        """A shortest run to a state: the number of the initial state, and the number of each step's instance."""
        return path(self.parents, self.parent_instances, state)


def path(
    parents: NDArray[np.int32], parent_instances: NDArray[np.int32], state: int
) -> tuple[int, tuple[int, ...]]:
    """A shortest run to a state, by the arrays of ``Explored``: as ``Explored.path`` returns it."""
    steps: list[int] = []
    while parents[state] >= 0:
        steps.append(int(parent_instances[state]))
        state = int(parents[state])
    return state, tuple(reversed(steps))
