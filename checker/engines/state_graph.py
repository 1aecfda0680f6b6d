"""The explored graph: all states that a search found, and all steps between them, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.layout import Layout, Words
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Model


@dataclass(frozen=True)
class Explored:
    """All states of a search and all steps between them.

    States are numbered level by level, the initial ones first; the order within a level is the engine's. Steps
    lie state by state: those of state ``i`` are ``offsets[i]:offsets[i + 1]`` of ``targets`` and ``instances``.
    Steps that are cut at a bound lead nowhere and lie in arrays of their own.

    Of a search that ended early the last states have no steps here, known or not: only those before
    ``expanded`` have all of theirs. With symmetry a state stands for all that renaming makes of it, and a step
    leads to the state that stands for the one it reaches.
    """

    model: Model
    states: Words
    """(states, words): packed as ``checker/engines/layout.py`` does."""
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
    """So many states have their steps here: all of them where the search came to its end."""
    stopped_by: str | None = None
    """What ended the search early, as in SearchResult; None where every reachable state was seen."""
    symmetry: bool = False
    """Whether states stand for their renamings."""

    @property
    def complete(self) -> bool:
        """Whether all states and all steps are here."""
        return self.stopped_by is None

    @cached_property
    def layout(self) -> Layout:
        """Where the scalars lie in ``states``."""
        return Layout(self.model.leaves)

    @cached_property
    def sources(self) -> NDArray[np.uint32]:
        """The state that each step starts from, beside ``targets``. Four bytes a step, made when asked for."""
        return np.repeat(np.arange(len(self.states), dtype=np.uint32), np.diff(self.offsets))

    def depths(self, start: int = 0, end: int | None = None) -> NDArray[np.int64]:
        """The level of each state from ``start`` to ``end``; initial states are on level 1."""
        numbers = np.arange(start, len(self.states) if end is None else end)
        return np.searchsorted(self.level_starts, numbers, side="right")

    def scalars(self, state: int) -> Scalars:
        """The scalars of a state."""
        return self.layout.unpack(self.states[state])

    def path(self, state: int) -> tuple[int, tuple[int, ...]]:
        """A shortest run to a state: the number of its initial state, and the instances of its steps."""
        steps: list[int] = []
        while self.parents[state] >= 0:
            steps.append(int(self.parent_instances[state]))
            state = int(self.parents[state])
        return state, tuple(reversed(steps))
