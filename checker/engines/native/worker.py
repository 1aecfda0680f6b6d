"""What compiled functions work in: a context and its buffers; and one worker of a search."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import numpy as np

from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.table import Table
from highwater.checker.engines.native.text.kernels import WORDS
from highwater.checker.engines.native.text.runtime import BATCH, CONTEXT
from highwater.model.language.model import Model

OUTPUT = 1 << 16
"""States that a call of a compiled function finds before they are taken over."""


class Pause(Enum):
    """Why all workers are to pause in mid-level."""

    FULL = auto()
    """The table has no room, or holds enough candidates to be looked at."""
    DUE = auto()
    """A checkpoint is to be made."""


class Buffers:
    """A context of the compiled functions and what all of them write to. Counters add up until they are taken."""

    def __init__(
        self, model: Model, words: int, places: Mapping[str, int], *, want_deadlock: bool, judging: bool
    ) -> None:
        outline = model.outline
        instances, properties = len(outline.instances), max(1, len(outline.safety))
        # Output ends where the successors of one state, and a batch, might no longer fit.
        self.capacity = OUTPUT + BATCH + 2 * instances
        self._candidates = np.empty((BATCH + 2 * instances + 1) * (WORDS + words), dtype=np.uint64)
        self.counts = np.zeros(max(1, instances), dtype=np.int64)
        self.cuts = np.zeros(max(1, len(outline.bounds)), dtype=np.int64)
        self.premises = np.zeros(properties, dtype=np.int64)
        self.violations = np.zeros((properties, 2), dtype=np.uint64)
        self.broken_steps = np.zeros((properties, 2), dtype=np.uint64)
        self._places = places
        self.context = np.zeros(len(places), dtype=np.int64)
        self.address = self.context.ctypes.data
        for name, array in (
            ("candidates", self._candidates),
            ("counts", self.counts),
            ("cuts", self.cuts),
            ("premises", self.premises),
            ("violations", self.violations),
            ("broken_steps", self.broken_steps),
        ):
            self[name] = array.ctypes.data
        self["out_capacity"] = self.capacity
        self["want_deadlock"] = int(want_deadlock)
        self["deadlock"] = -1
        self["judging"] = int(judging)

    def broken(self) -> list[tuple[int, int]]:
        """The violations of properties of steps recorded since the last call: predecessor as in a candidate, bits."""
        found: list[tuple[int, int]] = [
            tuple(pair) for pair in self.broken_steps[: self["broken_count"]].tolist()
        ]
        self["broken_count"] = 0
        return found

    def __getitem__(self, name: str) -> int:
        """A field of the context."""
        return int(self.context[self._places[name]])

    def __setitem__(self, name: str, value: int) -> None:
        """Set a field of the context; 64 bits may be given as a number without a sign."""
        self.context[self._places[name]] = value - (1 << 64) if value >> 63 == 1 else value


class Worker(Buffers):
    """Buffers for one thread of a search."""

    def __init__(
        self,
        model: Model,
        words: int,
        *,
        want_deadlock: bool = False,
        places: Mapping[str, int] = CONTEXT,
    ) -> None:
        super().__init__(model, words, places, want_deadlock=want_deadlock, judging=True)
        self.out_states: Words = np.empty((self.capacity, words), dtype=np.uint64)
        self.out_predecessors: Words = np.empty(self.capacity, dtype=np.uint64)
        self["out_states"] = self.out_states.ctypes.data
        self["out_predecessors"] = self.out_predecessors.ctypes.data

    @property
    def bytes(self) -> int:
        """Memory of its output."""
        return self.out_states.nbytes + self.out_predecessors.nbytes

    def run(self, function: Any, table: Table, states: Words, start: int, end: int, base: int) -> int:
        """Call expand() or admit() on some states; the index of the first that was not taken yet."""
        self["table"], self["capacity"] = table.address, table.capacity
        self["states"], self["base"] = states.ctypes.data, base
        self["start"], self["end"] = start, end
        function(self.address)
        return self["start"]

    def reset_output(self) -> None:
        """Start with an empty output."""
        self["out_count"] = 0
        self["violation_count"] = 0

    def take_over(self, other: Worker) -> None:
        """Add another one's counters to these, and take over what it has noted."""
        self.counts += other.counts
        self.cuts += other.cuts
        self.premises += other.premises
        self["deadlock"] = other["deadlock"]
