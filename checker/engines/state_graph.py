"""Packing: the position of each scalar of a state in its 64-bit words."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.scenarios.search import EngineError
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Model
from highwater.model.language.types import Leaf

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Slot:
    """The place of a scalar in a packed state: ``bits`` bits from bit ``shift`` of word ``word``.

    The stored value is the scalar's value minus ``low``.
    """

    word: int
    shift: int
    bits: int
    low: int

    @property
    def mask(self) -> int:
        """The bits of the word that the scalar takes."""
        return ((1 << self.bits) - 1) << self.shift


class Layout:
    """The places of all scalars in a packed state: each in the first word with enough room, none in two words."""

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
        """The layout of two consecutive states: before and after a step."""
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
    """All states of a search and all steps between them: the explored graph.

    States are numbered level by level, the initial ones first; the order within a level depends on the engine. Steps
    are sorted by their source state: the steps of state ``i`` are ``offsets[i]:offsets[i + 1]`` of ``targets`` and
    ``instances``. Steps that are pruned at a bound lead nowhere and have their own arrays.

    If the search ended early, only the states before ``expanded`` have steps, and all their steps are included. With
    symmetry, a state represents all its renamings, and a step leads to the representative of its target.
    """

    model: Model
    states: Words
    """(states, words): packed as ``checker/engines/state_graph.py`` does."""
    level_starts: NDArray[np.int64]
    """The number of the first state of each level, and at the end the number of states."""
    offsets: NDArray[np.int64]
    """(states + 1)"""
    targets: NDArray[np.uint32]
    """The state that each step leads to."""
    instances: NDArray[Any]
    """The number in ``model.instances`` of each step (uint16 or uint32)."""
    cut_offsets: NDArray[np.int64]
    """(states + 1)"""
    cut_instances: NDArray[Any]
    """The number in ``model.instances`` of each step that is cut."""
    parents: NDArray[np.int32]
    """The state before each state in a shortest run to it; -1 for initial ones."""
    parent_instances: NDArray[np.int32]
    """The instance that leads from there; -1 for initial ones."""
    expanded: int
    """The number of states whose steps are here: all if the search finished."""
    stopped_by: str | None = None
    """The reason why the search stopped early, as in SearchResult; None if all reachable states were seen."""
    symmetry: bool = False
    """True if states represent their renamings."""

    @property
    def complete(self) -> bool:
        """True if the graph has all states and all steps."""
        return self.stopped_by is None

    @cached_property
    def layout(self) -> Layout:
        """The positions of the scalars in ``states``."""
        return Layout(self.model.leaves)

    @cached_property
    def sources(self) -> NDArray[np.uint32]:
        """The source state of each step, parallel to ``targets``.

        It is computed on first use and takes 4 bytes a step.
        """
        return np.repeat(np.arange(len(self.states), dtype=np.uint32), np.diff(self.offsets))

    def depths(self, start: int = 0, end: int | None = None) -> NDArray[np.int64]:
        """The level of each state from ``start`` to ``end``; initial states are on level 1."""
        numbers = np.arange(start, len(self.states) if end is None else end)
        return np.searchsorted(self.level_starts, numbers, side="right")

    def scalars(self, state: int) -> Scalars:
        """The scalars of the state with this number."""
        return self.layout.unpack(self.states[state])

    def path(self, state: int) -> tuple[int, tuple[int, ...]]:
        """A shortest run to a state: the number of its initial state, and the numbers of its steps' instances."""
        steps: list[int] = []
        while self.parents[state] >= 0:
            steps.append(int(self.parent_instances[state]))
            state = int(self.parents[state])
        return state, tuple(reversed(steps))
